"""Measurements beside a real Kafka, run in the repository: ``python -m benchmarks.failover``."""
