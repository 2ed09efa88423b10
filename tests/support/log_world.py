"""A log in a folder of the test, under a clock that the test sets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from kafka_common.protocol.compression import Codec
from kafka_common.protocol.record_batch import encode_batch, iterate_batch, iterate_batches
from kafka_common.protocol.records import EndTransactionMarker, Record
from replica_manager.log.environment import DeferredTasks, LogEnvironment
from replica_manager.log.local_log import LogRead
from replica_manager.log.log_config import LogConfig
from replica_manager.log.log_values import FetchIsolation, LogAppendInfo
from replica_manager.log.producer_state_manager import AppendOrigin
from replica_manager.log.segment import TimestampedOffset
from replica_manager.log.unified_log import UnifiedLog

START_MS = 1_700_000_000_000


@dataclass(slots=True)
class LogWorld:
    """One partition's log, opened and opened again."""

    directory: Path
    config: LogConfig = field(default_factory=LogConfig)
    now_ms: int = START_MS
    failures: list[str] = field(default_factory=list)
    environment: LogEnvironment = field(init=False)

    def __post_init__(self) -> None:
        self.environment = LogEnvironment(
            lambda: self.now_ms,
            lambda: self.now_ms,
            DeferredTasks(),
            Random(4),
            lambda directory, message, error: self.failures.append(
                f"{directory}: {message} {error}"
            ),
            verifies_transactions=lambda: False,
        )

    def open(
        self, *, clean: bool = True, recovery_point: int = 0, log_start_offset: int = 0
    ) -> UnifiedLog:
        return UnifiedLog.open(
            self.directory,
            self.config,
            self.environment,
            log_start_offset=log_start_offset,
            recovery_point=recovery_point,
            had_clean_shutdown=clean,
        )

    def do_deferred_tasks(self, after_ms: int = 2**60) -> None:
        for task in list(self.environment.deferred_tasks.take_due(self.now_ms + after_ms)):
            task.action()
            if task.after is not None:
                task.after()


def records(
    count: int, *, timestamp: int = START_MS, key: bytes | None = b"key", size: int = 10
) -> list[Record]:
    return [Record(i, timestamp, key, b"%d" % i + bytes(size)) for i in range(count)]


def batch(
    count: int = 1,
    *,
    timestamp: int = START_MS,
    key: bytes | None = b"key",
    size: int = 10,
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
) -> bytes:
    return encode_batch(
        records(count, timestamp=timestamp, key=key, size=size),
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
    )


def at(offset: int, *batches: bytes, epoch: int = 0) -> bytes:
    """The batches as a leader would have written them from ``offset`` on."""
    written = []
    for data in batches:
        _, header = next(iterate_batches(data))
        moved = [
            record._replace(offset=offset + i)
            for i, record in enumerate(iterate_batch(data, 0, header))
        ]
        written.append(
            encode_batch(
                moved,
                partition_leader_epoch=epoch,
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                base_sequence=header.base_sequence,
                is_transactional=header.is_transactional,
            )
        )
        offset += len(moved)
    return b"".join(written)


def end_transaction(
    log: UnifiedLog,
    producer_id: int,
    *,
    commit: bool,
    coordinator_epoch: int = 0,
    producer_epoch: int = 0,
    leader_epoch: int = 0,
) -> LogAppendInfo:
    key, value = EndTransactionMarker(commit, coordinator_epoch).encode()
    marker = encode_batch(
        [Record(0, START_MS, key, value)],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )
    return log.append_as_leader(marker, leader_epoch, origin=AppendOrigin.COORDINATOR)


def read(
    log: UnifiedLog,
    offset: int,
    max_bytes: int = 2**20,
    isolation: FetchIsolation = FetchIsolation.LOG_END,
    *,
    min_one_message: bool = True,
) -> LogRead:
    return log.read(offset, max_bytes, isolation, min_one_message=min_one_message)


def offsets(found: LogRead) -> list[int]:
    """The offsets of every record in what was read."""
    return [record.offset for record in records_of(found)]


def records_of(found: LogRead) -> Iterator[Record]:
    data = b"" if found.slice is None else found.slice.read()
    for position, header in iterate_batches(data):
        yield from iterate_batch(data, position, header)


def content(log: UnifiedLog) -> list[tuple[int, bytes | None]]:
    """Offset and value of everything in the log, segment by segment."""
    found: list[tuple[int, bytes | None]] = []
    for segment in log.segments:
        data = segment.file.read(0, segment.size)
        for position, header in iterate_batches(data):
            found += [(r.offset, r.value) for r in iterate_batch(data, position, header)]
    return found


def files(directory: Path, suffix: str) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.name.endswith(suffix))


def base_offsets(log: UnifiedLog) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def offset_by_timestamp(log: UnifiedLog, timestamp: int) -> TimestampedOffset | None:
    """What ListOffsets answers for that time; a search runs at once, in this thread."""
    found = log.search_offset_by_timestamp(timestamp)
    return found if isinstance(found, TimestampedOffset) else found.run()
