"""Metadata logs in a folder."""

from __future__ import annotations

from pathlib import Path

from kafka_common.protocol.record_batch import encode_batch
from kafka_common.protocol.records import Record
from kraft.node.metadata_log import KafkaMetadataLog
from kraft.node.metadata_log_config import MetadataLogConfig
from tests.support.log_world import START_MS


def batch(base: int, epoch: int, *values: bytes, is_control: bool = False) -> bytes:
    """One batch, as a leader writes it."""
    records = [Record(base + n, START_MS, None, value) for n, value in enumerate(values or (b"v",))]
    if is_control:
        records = [record._replace(key=b"\0\0\0\7") for record in records]
    return encode_batch(records, partition_leader_epoch=epoch, is_control=is_control)


def opened(directory: Path, config: MetadataLogConfig | None = None) -> KafkaMetadataLog:
    return KafkaMetadataLog.open(directory, config or MetadataLogConfig(), lambda: START_MS)


def filled(directory: Path, *epochs: int) -> KafkaMetadataLog:
    """One record for each epoch."""
    log = opened(directory)
    for offset, epoch in enumerate(epochs):
        log.append_as_leader(batch(offset, epoch), epoch)
    return log
