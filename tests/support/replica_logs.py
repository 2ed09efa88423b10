"""The logs of replicas, to compare them."""

from __future__ import annotations

from pathlib import Path

from kafka_common.protocol.record_batch import iterate_batches


def whole_batches(folder: Path) -> bytes:
    """Every whole batch of a replica's log; segments may end elsewhere on another broker."""
    data = b"".join(file.read_bytes() for file in sorted(folder.glob("*.log")))
    return data[: sum(header.size for _, header in iterate_batches(data))]
