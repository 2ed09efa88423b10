"""Moves replicas between log directories of this broker.

AlterReplicaLogDirs creates a *future log* in the other directory.  A few tasks copy the records of
the current log, each task one partition at a time, and replace the current log once the future log
has every record.  A move that was interrupted by a stop continues after the next start, as soon as
the partition is leader or follower again.

Files are read in threads.  Only the last bytes of a log are read on the event loop, so that no
append can come between this read and the exchange of the logs.

Source: Kafka ``ReplicaManager.alterReplicaLogDirs``, ``ReplicaAlterLogDirsManager``,
``LocalLeaderEndPoint``; KIP-113.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from kafka_common.errors import KafkaStorage, LimitReached, OffsetOutOfRange, ZkControllerError
from kafka_common.model import TopicPartition
from kafka_common.process.resource_limits import raise_if_limit
from kafka_common.protocol.error_codes import error_code_for
from kafka_common.topic_names import LONGEST_FOLDER_NAME
from replica_manager.log.local_log import LogRead
from replica_manager.log.log_directory import FolderKind, folder_name
from replica_manager.log.log_manager import LogManager
from replica_manager.log.unified_log import UnifiedLog
from replica_manager.replication.log_dir_copy import (
    align,
    append,
    has_caught_up,
    read_next,
    take_over_epochs,
)
from replica_manager.replication.partition import Partition
from replica_manager.replication.replica_fetcher import batch_pieces
from replica_manager.replication.replica_manager import ReplicaManager

LAST_BYTES: Final = 1024 * 1024
"""At most this many bytes at the end of a log are read without a thread.

They are usually in the page cache.
"""

AT_ONCE: Final = 32
"""Replicas of an AlterReplicaLogDirs request handled before other tasks run: some 10 ms."""
BACKOFF_S: Final = 1.0
"""Pause before a log is read again where nothing could be read."""

_ANY_ID: Final = UUID(int=0)
_log = logging.getLogger("kafka.server.ReplicaAlterLogDirsManager")
_partition_log = logging.getLogger("kafka.cluster.Partition")
_copy_log = logging.getLogger("kafka.server.LocalLeaderEndPoint")


MOST_TASKS: Final = 100
"""Upper limit of ``num.replica.alter.log.dirs.threads``.

All tasks start at once, while Kafka starts a thread only when there is something to copy.
"""


class MoveSettings(NamedTuple):
    """The current configuration of the moves."""

    max_bytes: int = 1_048_576
    """``replica.fetch.max.bytes``: the most bytes of one read."""
    bytes_per_second: int = 2**63 - 1
    """``replica.alter.log.dirs.io.max.bytes.per.second``, for all moves together."""
    tasks: int = 1
    """``num.replica.alter.log.dirs.threads``; its default is the number of log directories."""


class Pace:
    """Limits the bytes per second that all moves together copy.

    It stores the excess in bytes, not as a time to wait.  So a higher limit shortens the wait for
    what was already copied.
    """

    def __init__(self) -> None:
        self._owed_bytes = 0.0
        self._looked_at_s = 0.0
        self._bytes_per_second = 1
        """The limit since ``_looked_at_s``."""

    def delay_s(self, now_s: float, copied: int, bytes_per_second: int) -> float:
        """Adds ``copied`` bytes; returns the seconds to pause under ``bytes_per_second``."""
        paid = (now_s - self._looked_at_s) * self._bytes_per_second
        self._owed_bytes = max(0.0, self._owed_bytes - paid) + copied
        self._looked_at_s, self._bytes_per_second = now_s, max(1, bytes_per_second)
        return self._owed_bytes / self._bytes_per_second


class _Move(NamedTuple):
    partition: Partition
    current: UnifiedLog
    future: UnifiedLog


class LogDirMoves:
    """The moves between log directories of one broker.  Runs on the event loop."""

    def __init__(
        self,
        replicas: ReplicaManager,
        logs: LogManager,
        settings: Callable[[], MoveSettings],
        flush: Callable[[UnifiedLog], Awaitable[None]],
    ) -> None:
        """``flush`` moves a log's recovery point to its end, unless it is put off or impossible."""
        self._replicas = replicas
        self._logs = logs
        self._settings = settings
        self._flush = flush
        self._waiting: dict[TopicPartition, None] = {}
        self._moving: set[TopicPartition] = set()
        self.failed: set[TopicPartition] = set()
        """Partitions whose move failed; the next AlterReplicaLogDirs request tries it again."""
        self._has_work = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._pace = Pace()
        replicas.watch(self._look)

    def start(self) -> None:
        """Starts the tasks that copy."""
        count = min(max(1, self._settings().tasks), MOST_TASKS)
        self._tasks = [asyncio.create_task(self._work()) for _ in range(count)]

    async def stop(self) -> None:
        """Stops; the moves continue after the next start."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    @property
    def under_way(self) -> frozenset[TopicPartition]:
        """The partitions that are being moved or wait to be moved."""
        return frozenset(self._moving) | frozenset(self._waiting)

    @property
    def max_lag(self) -> int:
        """The most records that a future log lacks; 0 if there is none.  For any thread."""
        lags = (
            current.log_end_offset - future.log_end_offset
            for tp, future in list(self._logs.future_logs.items())
            if (current := self._logs.log(tp)) is not None
        )
        return max(0, max(lags, default=0))

    @property
    def ended_tasks(self) -> int:
        """The number of copying tasks that have ended unexpectedly."""
        return sum(task.done() for task in self._tasks)

    # AlterReplicaLogDirs requests.

    async def alter(self, wanted: Mapping[TopicPartition, str]) -> dict[TopicPartition, ErrorCode]:
        """Sets the target directories of replicas, as absolute paths; one error code each.

        For a replica that this broker does not have, the error is REPLICA_NOT_AVAILABLE; if the
        replica is created later, it gets the target directory.
        """
        results: dict[TopicPartition, ErrorCode] = {}
        for number, (tp, path) in enumerate(wanted.items(), 1):
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
            try:
                results[tp] = self._alter(tp, path)
            except ZkControllerError as failure:
                results[tp] = error_code_for(failure)
            if results[tp] is not ErrorCode.none:
                _log.warning("Unable to alter log dirs for %s: %s", tp, results[tp].name.upper())
        return results

    def _alter(self, tp: TopicPartition, path: str) -> ErrorCode:
        if len(folder_name(tp, FolderKind.FUTURE, _ANY_ID)) > LONGEST_FOLDER_NAME:
            return ErrorCode.invalid_topic_exception
        log_dir = self._log_dir(path)
        if log_dir is None:
            return ErrorCode.log_dir_not_found
        if not self._logs.is_live(log_dir) or tp in self._replicas.offline:
            return ErrorCode.kafka_storage_error
        hosted = self._replicas.get_partition_or_error(tp)
        future = self._logs.log(tp, is_future=True)
        if isinstance(hosted, Partition) and future is not None and future.log_dir != log_dir:
            self._logs.delete(tp, is_future=True)
            self._replicas.partition_changed(tp)
            future = None
        current = self._logs.log(tp)
        if all(log is None or log.log_dir != log_dir for log in (current, future)):
            self._logs.prefer_log_dir(tp, log_dir)
        if hosted is ErrorCode.not_leader_or_follower:
            return ErrorCode.replica_not_available
        if isinstance(hosted, ErrorCode):
            return hosted
        if current is None:
            return ErrorCode.replica_not_available
        if current.log_dir == log_dir:
            _partition_log.info(
                "[Partition %s broker=%d] Current log directory %s is same as requested log dir %s."
                " Skipping future replica creation.",
                tp,
                self._replicas.broker_id,
                log_dir,
                path,
            )
            return ErrorCode.none
        if future is None:
            if self._logs.offline_log_dirs:
                # A future log of the partition may be in one of them.
                return ErrorCode.kafka_storage_error
            self._logs.get_or_create(tp, current.config, current.topic_id, is_future=True)
        self.failed.discard(tp)
        self._look(tp)
        return ErrorCode.none

    def _log_dir(self, path: str) -> Path | None:
        known = (*self._logs.live_log_dirs, *self._logs.offline_log_dirs)
        return next((each for each in known if str(each.absolute()) == path), None)

    def _look(self, tp: TopicPartition) -> None:
        """Continues the move of a changed partition if it has a future log."""
        if self._logs.log(tp, is_future=True) is None or tp in self._moving or tp in self.failed:
            return
        self._waiting[tp] = None
        self._has_work.set()

    # Moving.

    async def _work(self) -> None:
        while True:
            if not self._waiting:
                self._has_work.clear()
                await self._has_work.wait()
                continue
            tp = min(self._waiting)
            del self._waiting[tp]
            self._moving.add(tp)
            try:
                await self._move(tp)
            except Exception:  # noqa: BLE001 - a defect must not end the moves of the others
                _log.exception("Partition %s marked as failed: its log cannot be moved", tp)
                self.failed.add(tp)
            finally:
                self._moving.discard(tp)

    def _found(self, tp: TopicPartition) -> _Move | None:
        """The partition with its current and future log; None if one of them is missing."""
        partition = self._replicas.partitions.get(tp)
        current, future = self._logs.log(tp), self._logs.log(tp, is_future=True)
        if partition is None or current is None or future is None or partition.log is not current:
            return None
        return _Move(partition, current, future)

    async def _move(self, tp: TopicPartition) -> None:
        move = self._found(tp)
        if move is not None:
            _copy_log.info(
                "Beginning/resuming copy of partition %s from offset %d. Including this partition, "
                "there are %d remaining partitions to copy by this thread.",
                tp,
                move.future.log_end_offset,
                len(self._waiting) + 1,
            )
        on_disk: UnifiedLog | None = None
        while (move := self._found(tp)) is not None:
            try:
                plan = align(move.current, move.future)
                if plan is not None:
                    await asyncio.to_thread(plan.run)
                elif not has_caught_up(move.current, move.future):
                    await self._copy(tp, move)
                elif on_disk is not move.future:
                    # The exchange deletes the current log, so the future log must be on disk.
                    end_offset = move.future.log_end_offset
                    await self._flush(move.future)
                    if move.future.recovery_point >= end_offset:
                        on_disk = move.future
                    else:
                        await asyncio.sleep(BACKOFF_S)  # a limit of open files has put it off
                else:
                    self._exchange(tp, move)
                    await self._flush(move.future)
                    return
            except LimitReached as reached:
                _log.warning("The move of %s waits: %s", tp, reached)
                await asyncio.sleep(BACKOFF_S)
            except KafkaStorage as failure:
                # The directory is offline now, and its logs are no longer found.
                _log.warning("The move of %s ends with its log directory: %s", tp, failure)
                return

    async def _copy(self, tp: TopicPartition, move: _Move) -> None:
        """Copies some records, BATCHES_AT_ONCE batches at a time.

        Once the future log has caught up, no other task runs before this method ends.  Otherwise
        appends could always come before the exchange of the logs.
        """
        settings = self._settings()
        offset = move.future.log_end_offset
        try:
            found = read_next(move.current, move.future, settings.max_bytes)
        except OffsetOutOfRange:
            await asyncio.sleep(0)  # retention deleted the records meanwhile: align again
            return
        try:
            records = await self._read(move.current, found)
        except OSError as error:
            doing = f"Error while reading log of {tp}"
            raise_if_limit(error, doing)
            self._logs.fail(move.current.log_dir, doing, error)
            return
        for piece in batch_pieces(records):
            if self._found(tp) != move or move.future.log_end_offset != offset:
                return
            if append(move.current, move.future, piece):
                self._replicas.partition_changed(tp)
            offset = move.future.log_end_offset
            if not has_caught_up(move.current, move.future):
                await asyncio.sleep(0)
        await self._keep_pace(tp, move, len(records))

    async def _keep_pace(self, tp: TopicPartition, move: _Move, copied: int) -> None:
        """Waits until the limit allows the next copy, or until the move has ended."""
        loop = asyncio.get_running_loop()
        while True:
            limit = self._settings().bytes_per_second
            delay_s, copied = self._pace.delay_s(loop.time(), copied, limit), 0
            if has_caught_up(move.current, move.future):
                return
            # Other tasks run here even if the delay is 0.
            await asyncio.sleep(min(delay_s, BACKOFF_S))
            if delay_s <= BACKOFF_S or self._found(tp) != move:
                return

    async def _read(self, current: UnifiedLog, found: LogRead) -> bytes:
        piece = found.slice
        if piece is None:
            await asyncio.sleep(BACKOFF_S)
            return b""
        file = current.active_segment.file
        is_last = piece.file is file and piece.position + piece.length == file.size
        if is_last and piece.length <= LAST_BYTES:
            return piece.read()
        return await asyncio.to_thread(piece.read)

    def _exchange(self, tp: TopicPartition, move: _Move) -> None:
        append(move.current, move.future, b"")
        take_over_epochs(move.current, move.future)
        move.partition.log = self._logs.replace_current_with_future(tp)
        self._replicas.partition_changed(tp)
