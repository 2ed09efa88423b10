"""The metadata log of one node on disk: a partition log and snapshots.

:class:`~replica_manager.log.unified_log.UnifiedLog` stores the batches with the offsets and epochs
that they already have.  The rules for clients' records do not apply.  Old records are deleted only
when a snapshot covers them, never by the retention of topics.

What its owner must do:

1. open it before it serves requests (this blocks: the whole log is read and checked), and close it
   at the end;
2. call it from one thread.  The methods do not wait for the disk, except
   :meth:`KafkaMetadataLog.finish_download`: a snapshot must be on disk before the log is truncated;
3. to flush, call :meth:`KafkaMetadataLog.plan_flush`, run the plan in any thread, and pass it to
   :meth:`KafkaMetadataLog.finish_flush`.  During a download, flush before each part, so that
   ``finish_download`` waits only for the last part;
4. regularly run the due tasks of :attr:`KafkaMetadataLog.deferred_tasks`, in any thread;
5. write snapshots (:meth:`KafkaMetadataLog.create_snapshot`) in any thread, and call
   :meth:`KafkaMetadataLog.add_snapshot` when one is frozen.

Source: Kafka ``KafkaMetadataLog``.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace

from kafka_common.errors import CorruptRecord, RaftFatal
from kafka_common.protocol.record_batch import iterate_batches
from kraft.node.metadata_log_config import MetadataLogConfig
from kraft.node.recovery import claim, find_start_offset, recover_snapshots
from kraft.node.snapshot_files import MetadataSnapshotFiles, SnapshotWriter, by_age
from kraft.node.snapshot_retention import AgeBreach, SizeBreach, SnapshotBreach
from kraft.raft.guards import require
from kraft.raft.raft_log import LogPosition, validate_position
from kraft.raft.values import METADATA_PARTITION, METADATA_TOPIC, OffsetAndEpoch
from replica_manager.log.environment import DeferredTasks, LogEnvironment
from replica_manager.log.local_log import FlushPlan
from replica_manager.log.log_values import FetchIsolation
from replica_manager.log.unified_log import UnifiedLog

_log = logging.getLogger("kafka.raft.KafkaMetadataLog")

FOLDER: Final = f"{METADATA_TOPIC}-{METADATA_PARTITION}"
"""The name of the log's folder in ``metadata.log.dir``."""
_PRIVATE_FOLDER_MODE: Final = 0o700
_NEVER_MS: Final = 2**31 - 1


class MetadataFlushPlan(NamedTuple):
    """A flush of records and of the downloaded part of a snapshot."""

    log: FlushPlan | None
    download: SnapshotWriter | None

    def run(self) -> None:
        """Flushes to disk.  Blocks, so it runs in an executor.  OSError if the disk fails.

        The download must neither be finished nor dropped meanwhile.
        """
        if self.log is not None:
            self.log.run()
        if self.download is not None:
            self.download.sync()


class KafkaMetadataLog:
    """A :class:`~kraft.raft.raft_log.RaftLog` on disk; KafkaStorage if the disk fails."""

    def __init__(
        self,
        log: UnifiedLog,
        snapshots: MetadataSnapshotFiles,
        config: MetadataLogConfig,
        environment: LogEnvironment,
    ) -> None:
        """Only for :meth:`open`."""
        self._log = log
        self._snapshots = snapshots
        self._config = config
        self._environment = environment
        self._download: SnapshotWriter | None = None

    @staticmethod
    def open(
        metadata_log_dir: Path,
        config: MetadataLogConfig,
        now_ms: Callable[[], int],
        *,
        on_failure: Callable[[Path, str, OSError], None] | None = None,
    ) -> KafkaMetadataLog:
        """The log in that directory, created if needed.  Blocks during recovery.

        Every batch is read and checked, even after a clean shutdown, as Kafka does for this log.
        RaftFatal if no snapshot covers the records before the log's start; InconsistentTopicId if
        the directory belongs to another topic; OSError if the disk fails.
        """
        directory = metadata_log_dir / FOLDER
        directory.mkdir(parents=True, exist_ok=True)
        # The log holds the credentials of SCRAM and the secrets of tokens.
        with contextlib.suppress(PermissionError):  # it belongs to another user, who decides
            directory.chmod(_PRIVATE_FOLDER_MODE)
        claim(directory)
        start_offset = find_start_offset(directory)
        environment = LogEnvironment(
            now_ms,
            now_ms,
            verifies_transactions=lambda: False,
            producer_id_expiration_ms=lambda: _NEVER_MS,
        )
        if on_failure is not None:
            environment = replace(environment, on_failure=on_failure)
        log = UnifiedLog.open(
            directory,
            config.log_config,
            environment,
            log_start_offset=start_offset,
            had_clean_shutdown=False,
        )
        snapshots = recover_snapshots(directory, log.log_start_offset)
        opened = KafkaMetadataLog(log, snapshots, config, environment)
        # The process may have been killed after a download, before the log was restarted.
        opened._truncate_to_latest_snapshot()
        # A killed process leaves records that are only in the page cache, and the next Fetch
        # acknowledges them.
        opened.flush()
        return opened

    @property
    def directory(self) -> Path:
        """The log's directory, which also holds ``quorum-state``."""
        return self._log.directory

    @property
    def deferred_tasks(self) -> DeferredTasks:
        """Deferred work for other threads: flushes of old segments, deletions."""
        return self._environment.deferred_tasks

    # Offsets and epochs.

    @property
    def start_offset(self) -> int:
        """See :class:`~kraft.raft.raft_log.RaftLog`, here and below."""
        return self._log.log_start_offset

    @property
    def end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def high_watermark(self) -> int:
        return self._log.high_watermark

    @property
    def last_epoch(self) -> int:
        epoch = self._log.latest_epoch
        if epoch is not None:
            return epoch
        latest = self._snapshots.latest
        if latest is None:
            return 0
        if latest.offset == self.start_offset == self.end_offset:
            return latest.epoch
        raise RaftFatal(
            f"Log doesn't have a last fetch epoch and there is a snapshot ({latest}). Expected the "
            f"snapshot's end offset to match the log's end offset ({self.end_offset}) and the log "
            f"start offset ({self.start_offset})"
        )

    def initialize_leader_epoch(self, epoch: int) -> None:
        self._log.assign_epoch_start_offset(epoch, self.end_offset)

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        found = self._log.end_offset_for_epoch(epoch)
        if found is None:
            return OffsetAndEpoch(self.end_offset, self.last_epoch)
        earliest = self._snapshots.earliest
        if earliest is not None and found.epoch == epoch and found.end_offset == earliest.offset:
            # All epochs in the log are higher; the snapshot has the records before its start.
            return earliest
        return OffsetAndEpoch(found.end_offset, found.epoch)

    def update_high_watermark(self, offset: int) -> None:
        require(
            self.high_watermark <= offset <= self.end_offset,
            f"a high watermark of {offset} between {self.high_watermark} and {self.end_offset}",
        )
        self._log.update_high_watermark(offset)

    # Records.

    def append_as_leader(self, batches: bytes, epoch: int) -> None:
        headers = [header for _, header in iterate_batches(batches)]
        require(bool(headers), "an empty append")
        expected = self.end_offset
        for header in headers:
            require(
                header.partition_leader_epoch == epoch,
                f"a batch of epoch {header.partition_leader_epoch} from the leader of {epoch}",
            )
            require(header.base_offset == expected, f"{header.base_offset} instead of {expected}")
            expected = header.next_offset
        taken = self._log.append_as_follower(batches).valid_bytes
        require(taken == len(batches), f"{len(batches) - taken} bytes follow the last batch")

    def append_as_follower(self, batches: bytes, epoch: int) -> int:
        if next(iterate_batches(batches), None) is None:
            raise CorruptRecord(f"{len(batches)} bytes without a whole batch for {FOLDER}")
        return self._log.append_as_follower(batches, last_epoch=epoch).valid_bytes

    def truncate_to(self, offset: int) -> None:
        if offset < self.high_watermark:
            raise RaftFatal(
                f"Attempt to truncate to offset {offset}, which is below the current high "
                f"watermark {self.high_watermark}"
            )
        self._log.truncate_to(offset)

    def read(self, offset: int, max_bytes: int) -> bytes:
        found = self._log.read(offset, max_bytes, FetchIsolation.LOG_END, min_one_message=True)
        return b"" if found.slice is None else found.slice.read()

    # Flushes.

    def plan_flush(self) -> MetadataFlushPlan | None:
        """A flush of all data that is not on disk, to run in any thread; None if there is none."""
        log, download = self._log.plan_flush(), self._download
        if download is not None and download.synced_size == download.size:
            download = None
        if log is None and download is None:
            return None
        return MetadataFlushPlan(log, download)

    def finish_flush(self, plan: MetadataFlushPlan) -> None:
        """Records that the plan was run; in the log's own thread."""
        if plan.log is not None:
            self._log.finish_flush(plan.log)

    def flush(self) -> None:
        """Flushes the records of the log.  Blocks."""
        self._log.flush()

    def close(self) -> None:
        """Closes the log, with its data on disk, and drops an unfinished download.  Blocks."""
        self.drop_download()
        self._log.close()

    # Snapshots.

    @property
    def latest_snapshot_id(self) -> OffsetAndEpoch | None:
        return self._snapshots.latest

    @property
    def earliest_snapshot_id(self) -> OffsetAndEpoch | None:
        return self._snapshots.earliest

    def snapshot_bytes(self, snapshot_id: OffsetAndEpoch) -> int | None:
        return self._snapshots.size_of(snapshot_id)

    def read_snapshot(self, snapshot_id: OffsetAndEpoch, position: int, max_bytes: int) -> bytes:
        return self._snapshots.read(snapshot_id, position, max_bytes)

    def create_snapshot(self, snapshot_id: OffsetAndEpoch) -> SnapshotWriter | None:
        """A writer for the snapshot; None if it exists, or the log starts behind its end.

        ValueError if the offset is not committed, or has another epoch in this log.
        """
        if snapshot_id.offset < self.start_offset:
            _log.info(
                "Cannot create a snapshot with an id (%s) less than the log start offset (%d)",
                snapshot_id,
                self.start_offset,
            )
            return None
        if snapshot_id.offset > self.high_watermark:
            raise ValueError(
                f"Cannot create a snapshot with an id ({snapshot_id}) greater than the "
                f"high-watermark ({self.high_watermark})"
            )
        position = validate_position(self, *snapshot_id)
        if position.verdict is not LogPosition.VALID:
            raise ValueError(
                f"Snapshot id ({snapshot_id}) is not valid according to the log: {position}"
            )
        if snapshot_id in self._snapshots:
            return None
        return SnapshotWriter(self.directory, snapshot_id)

    def add_snapshot(self, written: SnapshotWriter) -> None:
        """Adds a frozen snapshot of :meth:`create_snapshot`."""
        require(written.is_frozen, f"{written.snapshot_id} is not whole")
        if written.snapshot_id.offset < self.start_offset:
            # A later snapshot was downloaded from the leader meanwhile.
            self._remove_later(self._snapshots.discard(written.snapshot_id))
        else:
            self._snapshots.add(written.snapshot_id)

    def begin_download(self, snapshot_id: OffsetAndEpoch) -> None:
        self.drop_download()
        self._download = SnapshotWriter(self.directory, snapshot_id)

    def append_download(self, data: bytes) -> int:
        if self._download is None:
            raise RaftFatal("no download was begun")
        return self._download.append(data)

    def finish_download(self) -> None:
        """Makes the download a snapshot.  Blocks until its unflushed part is on disk."""
        download, self._download = self._download, None
        if download is None:
            raise RaftFatal("no download was begun")
        download.freeze()
        self._snapshots.add(download.snapshot_id)
        self.restart_at(download.snapshot_id)

    def restart_at(self, snapshot_id: OffsetAndEpoch) -> None:
        """Restarts the log behind a snapshot, even if the log ends in a later epoch.

        Kafka's node ends if the log's last epoch is later (``truncateToLatestSnapshot``), although
        the leader does not have the records of that epoch.
        """
        latest = self._snapshots.latest
        if snapshot_id.offset < self.high_watermark or latest != snapshot_id:
            raise RaftFatal(
                f"Attempt to restart the log at snapshot {snapshot_id}: the high watermark is "
                f"{self.high_watermark} and the latest snapshot {latest}"
            )
        self._restart_behind(snapshot_id)

    def drop_download(self) -> None:
        download, self._download = self._download, None
        if download is not None:
            download.close()

    def _truncate_to_latest_snapshot(self) -> bool:
        """Restarts the log behind the newest snapshot if that is beyond the log's end."""
        latest = self._snapshots.latest
        epoch = self._log.latest_epoch or 0
        if latest is None or by_age(latest) <= (epoch, self.end_offset):
            return False
        self._restart_behind(latest)
        return True

    def _restart_behind(self, snapshot_id: OffsetAndEpoch) -> None:
        self._log.truncate_fully_and_start_at(snapshot_id.offset)
        for path in self._forget_before(snapshot_id, "the partition was fully truncated"):
            _log.debug("%s will be removed", path)

    # Cleaning.

    def clean(self, now_ms: int) -> bool:
        by_size = self._clean_while(
            SizeBreach(self._config.retention_max_bytes, self._snapshots, lambda: self._log.size)
        )
        return self._clean_while(AgeBreach(self._config.retention_ms, self._snapshots, now_ms)) or (
            by_size
        )

    def _clean_while(self, breach: SnapshotBreach) -> bool:
        """Deletes the oldest snapshots while the limit is exceeded and a newer one exists."""
        has_cleaned = False
        for oldest, following in pairwise(self._snapshots.ids):
            reason = breach.reason(oldest)
            if reason is None or not self._delete_before(following, reason):
                break
            has_cleaned = True
        return has_cleaned

    def _delete_before(self, snapshot_id: OffsetAndEpoch, reason: str) -> bool:
        """Moves the log's start to the snapshot's end; returns whether anything was deleted."""
        if not self.start_offset < snapshot_id.offset <= self.high_watermark:
            # After a restart the high watermark is not known at once.
            return False
        self._log.maybe_increment_log_start_offset(snapshot_id.offset, "snapshot generated")
        deleted = self._log.delete_old_segments()
        return bool(self._forget_before(snapshot_id, reason)) or deleted > 0

    def _forget_before(self, snapshot_id: OffsetAndEpoch, reason: str) -> Sequence[Path]:
        forgotten = self._snapshots.forget_before(snapshot_id)
        for path in forgotten:
            _log.info("Marking snapshot %s for deletion because %s", path.name, reason)
        self._remove_later(forgotten)
        return forgotten

    def _remove_later(self, paths: Sequence[Path]) -> None:
        def delete() -> None:
            for path in paths:
                path.unlink(missing_ok=True)

        if paths:
            due_ms = self._environment.monotonic_ms() + self._config.file_delete_delay_ms
            self.deferred_tasks.add(
                "delete-snapshot-files", FOLDER, self._log.log_dir, due_ms, delete
            )
