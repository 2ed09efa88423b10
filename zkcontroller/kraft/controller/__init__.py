"""The QuorumController: one manager per concern generates records, and replays what was committed.

Source: Kafka 3.9 ``org.apache.kafka.controller`` (KIP-631).
"""
