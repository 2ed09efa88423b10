"""The content of log directories as rows: by broker, directory, topic, partition; moves; strays.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from zkcontroller_cli.values.moves import NamedPartition
from zkcontroller_cli.wire.log_dirs import LogDirReading

Row = dict[str, Any]


class SizesBy(StrEnum):
    """What one row of sizes is about."""

    BROKER = "broker"
    LOG_DIR = "log-dir"
    TOPIC = "topic"
    PARTITION = "partition"


KEYS: Mapping[SizesBy, tuple[str, ...]] = {
    SizesBy.BROKER: (
        "broker_id",
        "log_dir_count",
        "failed_log_dir_count",
        "replica_count",
        "future_replica_count",
        "size_bytes",
    ),
    SizesBy.LOG_DIR: (
        "broker_id",
        "log_dir",
        "replica_count",
        "future_replica_count",
        "size_bytes",
        "total_bytes",
        "usable_bytes",
        "error",
    ),
    SizesBy.TOPIC: (
        "topic",
        "partition_count",
        "replica_count",
        "size_bytes",
        "largest_replica_bytes",
    ),
    SizesBy.PARTITION: (
        "broker_id",
        "log_dir",
        "topic",
        "partition",
        "size_bytes",
        "offset_lag",
        "is_future",
    ),
}


def of_topics(read: Sequence[LogDirReading], topics: Sequence[str]) -> list[LogDirReading]:
    """The directories with only the replicas of those topics; of all topics if none is named."""
    if not topics:
        return list(read)
    return [
        each._replace(replicas=tuple(r for r in each.replicas if r.topic in topics))
        for each in read
    ]


def topics_without_replicas(read: Sequence[LogDirReading], topics: Sequence[str]) -> list[str]:
    """The named topics of which no directory has a replica; perhaps a name is misspelt."""
    found = {replica.topic for each in read for replica in each.replicas}
    return [topic for topic in topics if topic not in found]


def size_rows(read: Sequence[LogDirReading], by: SizesBy) -> list[Row]:
    """The sizes in ``read`` as rows with the keys of :data:`KEYS`."""
    match by:
        case SizesBy.LOG_DIR:
            return [_log_dir_row(each) for each in read]
        case SizesBy.BROKER:
            brokers = sorted({each.broker_id for each in read})
            return [_broker_row([e for e in read if e.broker_id == b]) for b in brokers]
        case SizesBy.PARTITION:
            return [
                {
                    "broker_id": each.broker_id,
                    "log_dir": each.log_dir,
                    "topic": replica.topic,
                    "partition": replica.partition,
                    "size_bytes": replica.size_bytes,
                    "offset_lag": replica.offset_lag,
                    "is_future": replica.is_future,
                }
                for each in read
                for replica in each.replicas
            ]
        case SizesBy.TOPIC:
            return _topic_rows(read)


def _log_dir_row(each: LogDirReading) -> Row:
    is_read = each.error is None
    return {
        "broker_id": each.broker_id,
        "log_dir": each.log_dir,
        "replica_count": sum(not r.is_future for r in each.replicas) if is_read else None,
        "future_replica_count": sum(r.is_future for r in each.replicas) if is_read else None,
        "size_bytes": sum(r.size_bytes for r in each.replicas) if is_read else None,
        "total_bytes": each.total_bytes,
        "usable_bytes": each.usable_bytes,
        "error": each.error,
    }


def _broker_row(log_dirs: Sequence[LogDirReading]) -> Row:
    replicas = [replica for each in log_dirs for replica in each.replicas]
    return {
        "broker_id": log_dirs[0].broker_id,
        "log_dir_count": len(log_dirs),
        "failed_log_dir_count": sum(each.error is not None for each in log_dirs),
        "replica_count": sum(not replica.is_future for replica in replicas),
        "future_replica_count": sum(replica.is_future for replica in replicas),
        "size_bytes": sum(replica.size_bytes for replica in replicas),
    }


def _topic_rows(read: Sequence[LogDirReading]) -> list[Row]:
    by_topic: dict[str, list[tuple[int, int, bool]]] = {}
    for each in read:
        for replica in each.replicas:
            found = replica.partition, replica.size_bytes, replica.is_future
            by_topic.setdefault(replica.topic, []).append(found)
    return [
        {
            "topic": topic,
            "partition_count": len({partition for partition, _, _ in found}),
            "replica_count": sum(not is_future for _, _, is_future in found),
            "size_bytes": sum(size for _, size, _ in found),
            "largest_replica_bytes": max(size for _, size, _ in found),
        }
        for topic, found in sorted(by_topic.items())
    ]


class DirectoryMove(NamedTuple):
    """A replica that is being moved to another log directory of its broker."""

    broker_id: int
    topic: str
    partition: int
    log_dir: str | None
    future_log_dir: str
    copied_bytes: int
    total_bytes: int | None
    offset_lag: int
    """The number of records that the future replica lacks; -1 if not known."""
    bytes_per_s: float | None = None
    remaining_ms: int | None = None


def directory_moves(
    now: Sequence[LogDirReading],
    then: Sequence[LogDirReading] = (),
    *,
    seconds: float | None = None,
) -> list[DirectoryMove]:
    """Every future replica; with a reading ``then``, ``seconds`` earlier, also its rate."""
    here = {
        (each.broker_id, replica.name): (each.log_dir, replica.size_bytes)
        for each in now
        for replica in each.replicas
        if not replica.is_future
    }
    before = {
        (each.broker_id, each.log_dir, replica.name): replica.size_bytes
        for each in then
        for replica in each.replicas
        if replica.is_future
    }
    found = []
    for each in now:
        for replica in each.replicas:
            if not replica.is_future:
                continue
            log_dir, total = here.get((each.broker_id, replica.name), (None, None))
            copied = replica.size_bytes if total is None else min(replica.size_bytes, total)
            earlier = before.get((each.broker_id, each.log_dir, replica.name))
            rate, remaining = None, None
            if earlier is not None and seconds:
                rate = round(max(0.0, (replica.size_bytes - earlier) / seconds), 1)
                if total is not None and (rate or copied == total):
                    remaining = round((total - copied) / rate * 1000) if rate else 0
            found.append(
                DirectoryMove(
                    each.broker_id, *replica.name, log_dir, each.log_dir, copied, total,
                    replica.offset_lag, rate, remaining,
                )
            )  # fmt: skip
    return sorted(found, key=lambda move: move[:3])


class StrayLog(NamedTuple):
    """A log on a broker to which the partition is not assigned."""

    broker_id: int
    log_dir: str
    topic: str
    partition: int
    size_bytes: int
    is_future: bool
    reason: str


def stray_logs(
    first: Sequence[LogDirReading],
    assigned: Mapping[NamedPartition, Sequence[int]],
    unknown_topics: Mapping[str, str],
    second: Sequence[LogDirReading],
) -> list[StrayLog]:
    """The logs in both readings of the directories that are not assigned to their broker.

    ``assigned`` was read between the two, so that a log created or deleted meanwhile is not listed.
    ``unknown_topics``: by topic that Metadata does not show, the reason.
    """
    still_there = {
        (each.broker_id, each.log_dir, replica.name) for each in second for replica in each.replicas
    }
    found = []
    for each in first:
        for replica in each.replicas:
            replicas = assigned.get(replica.name)
            is_assigned = replicas is not None and each.broker_id in replicas
            if is_assigned or (each.broker_id, each.log_dir, replica.name) not in still_there:
                continue
            if replicas is not None:
                reason = f"assigned to {','.join(map(str, replicas))}"
            else:
                reason = unknown_topics.get(replica.topic, "there is no such partition")
            found.append(
                StrayLog(
                    each.broker_id, each.log_dir, *replica.name, replica.size_bytes,
                    replica.is_future, reason,
                )
            )  # fmt: skip
    return found
