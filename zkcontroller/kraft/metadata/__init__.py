"""The records of ``__cluster_metadata``: what a KRaft controller writes, and what brokers read.

Source: Kafka 3.9 ``metadata/src/main/resources/common/metadata`` (KIP-631).
"""
