"""The state of a log: offsets, high watermark, epochs, producers, topic id.

The half of :class:`~replica_manager.log.unified_log.UnifiedLog` that touches no records.
Source: Kafka ``UnifiedLog``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from pathlib import Path
from uuid import UUID

from replica_manager.log import leader_epochs, partition_metadata
from replica_manager.log.checkpoints import CheckpointMalformed, read_epochs, write_epochs
from replica_manager.log.environment import LogEnvironment
from replica_manager.log.leader_epochs import EpochEndOffset, EpochEntry
from replica_manager.log.local_log import LogOffsetMetadata
from replica_manager.log.log_config import LogConfig
from replica_manager.log.log_loading import LoadedLog
from replica_manager.log.log_values import OffsetSnapshot
from replica_manager.log.producer_state import ProducerStates, VerificationGuard
from replica_manager.log.segment import LogSegment
from replica_manager.log.truncation_plans import TruncationPlan
from zkcontroller.errors import IllegalState, InconsistentTopicId, OffsetOutOfRange

_log = logging.getLogger("kafka.log.UnifiedLog")


class LogState:
    """The readable state of one replica's log.  For the event loop."""

    def __init__(self, loaded: LoadedLog, environment: LogEnvironment) -> None:
        self._local = loaded.local
        self._epochs = loaded.epochs
        self._producers = loaded.producers
        self._snapshots = loaded.snapshots
        self._environment = environment
        self._log_start_offset = loaded.log_start_offset
        self._high_watermark = LogOffsetMetadata(loaded.log_start_offset)
        self._truncation_plan: TruncationPlan | None = None
        self._topic_id = partition_metadata.read_topic_id(self.directory)
        self._unwritten_topic_id: UUID | None = None
        # Held while a file is replaced: two threads would share its temporary file.
        self._epochs_lock = threading.Lock()
        self._topic_id_lock = threading.Lock()
        if self._epochs.is_dirty:
            self._write_epochs_later()

    @property
    def _prefix(self) -> str:
        return f"[UnifiedLog partition={self.name}, dir={self.log_dir}]"

    # What there is.

    @property
    def directory(self) -> Path:
        """The log's folder; it changes when the log is renamed."""
        return self._local.directory

    @property
    def log_dir(self) -> Path:
        """The log directory that the folder is in."""
        return self._local.log_dir

    @property
    def name(self) -> str:
        """The folder's name, ``orders-3``."""
        return self._local.name

    @property
    def config(self) -> LogConfig:
        return self._local.config

    def update_config(self, config: LogConfig) -> None:
        """The topic's configuration has changed."""
        self._local.config = config

    @property
    def generation(self) -> int:
        """The number of truncations; data read before one may be gone."""
        return self._local.generation

    @property
    def topic_id(self) -> UUID | None:
        return self._topic_id

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read."""
        return self._log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self._local.end.message_offset

    @property
    def log_end_offset_metadata(self) -> LogOffsetMetadata:
        return self._local.end

    @property
    def recovery_point(self) -> int:
        """The offset before which everything is on disk."""
        return self._local.recovery_point

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return self._local.segments.size_in_bytes

    @property
    def segments(self) -> Iterable[LogSegment]:
        """The segments in order, for retention and compaction."""
        return tuple(self._local.segments)

    @property
    def active_segment(self) -> LogSegment:
        return self._local.segments.active

    @property
    def unflushed_messages(self) -> int:
        return self._local.unflushed_messages

    @property
    def last_flushed_ms(self) -> int:
        return self._local.last_flushed_ms

    # How far it counts.

    @property
    def high_watermark(self) -> int:
        """The offset up to which consumers may read."""
        return self._high_watermark.message_offset

    @property
    def high_watermark_metadata(self) -> LogOffsetMetadata:
        """The high watermark with its position."""
        if self._high_watermark.is_offset_only:
            self._high_watermark = self._with_place(self._high_watermark)
        return self._high_watermark

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which consumers of committed records may read."""
        unstable = self._producers.first_unstable_offset
        if unstable is None:
            return self._high_watermark.message_offset
        return min(max(unstable, self._log_start_offset), self._high_watermark.message_offset)

    @property
    def last_stable_offset_metadata(self) -> LogOffsetMetadata:
        offset = self.last_stable_offset
        if offset == self.high_watermark:
            return self.high_watermark_metadata
        return self._with_place(LogOffsetMetadata(offset))

    def offset_snapshot(self) -> OffsetSnapshot:
        """All offsets at this moment."""
        return OffsetSnapshot(
            self._log_start_offset,
            self._local.end,
            self.high_watermark_metadata,
            self.last_stable_offset_metadata,
        )

    def update_high_watermark(self, high_watermark: int | LogOffsetMetadata) -> bool:
        """Sets the high watermark, kept between log start and log end; says whether it moved.

        For followers, and for leaders when they begin; it may fall.
        """
        old = self._high_watermark.message_offset
        wanted = _metadata(high_watermark)
        if wanted.message_offset < self._log_start_offset:
            wanted = LogOffsetMetadata(self._log_start_offset)
        elif wanted.message_offset >= self._local.end.message_offset:
            wanted = self._local.end
        self._set_high_watermark(wanted)
        return wanted.message_offset != old

    def maybe_increment_high_watermark(self, high_watermark: int | LogOffsetMetadata) -> bool:
        """Raises the high watermark of a leader, at most to the log's end; says whether it moved.

        An equal offset on a newer segment counts, for the place has changed.
        """
        wanted = _metadata(high_watermark)
        if wanted.message_offset >= self._local.end.message_offset:
            wanted = self._local.end
        old = self._high_watermark
        is_newer = old.message_offset < wanted.message_offset or (
            old.message_offset == wanted.message_offset
            and not wanted.is_offset_only
            and not old.is_offset_only
            and old.is_on_older_segment(wanted)
        )
        if is_newer:
            self._set_high_watermark(wanted)
        return is_newer

    def _set_high_watermark(self, high_watermark: LogOffsetMetadata) -> None:
        if high_watermark.message_offset < 0:
            raise IllegalState(f"The high watermark of {self.name} cannot be {high_watermark}")
        self._high_watermark = high_watermark
        self._producers.replicated_to(high_watermark.message_offset)

    def _with_place(self, at: LogOffsetMetadata) -> LogOffsetMetadata:
        try:
            return self._local.locate(at.message_offset)
        except OffsetOutOfRange:
            return at

    # Leader epochs.

    @property
    def latest_epoch(self) -> int | None:
        """The newest epoch in the log."""
        return self._epochs.latest_epoch

    @property
    def epoch_entries(self) -> tuple[EpochEntry, ...]:
        return self._epochs.entries

    def assign_epoch_start_offset(self, leader_epoch: int, start_offset: int) -> None:
        """The leader of ``leader_epoch`` begins at ``start_offset``."""
        if leader_epoch >= 0 and self._epochs.assign(leader_epoch, start_offset):
            self._write_epochs_later()

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEndOffset | None:
        """The largest epoch up to ``leader_epoch`` and where it ended here; None if unknown."""
        found = self._epochs.end_offset_for(leader_epoch, self.log_end_offset)
        return None if found == leader_epochs.UNDEFINED else found

    def _write_epochs_later(self) -> None:
        # One write takes along everything that changes until then.
        if not self._epochs.is_write_planned:
            self._epochs.is_write_planned = True
            self._local.later("flush-leader-epochs-file", self._write_epochs)

    def _write_epochs(self) -> None:
        """Blocks; the entries are one value, so a thread sees all of a change or nothing.

        A flush and the task left by a change may come here at the same time, in two threads.
        """
        with self._epochs_lock:
            self._epochs.is_write_planned = False
            if self._epochs.is_dirty:
                self._epochs.is_dirty = False
                try:
                    write_epochs(self.directory / leader_epochs.FILE_NAME, self._epochs.entries)
                except OSError:
                    self._epochs.is_dirty = True
                    raise

    def _write_small_files(self) -> None:
        self._write_epochs()
        self._snapshots.sync()

    # The topic's id.

    def assign_topic_id(self, topic_id: UUID) -> None:
        """Stores the topic id; InconsistentTopicId if the log has another one.

        Written before the first record is appended, or with the next deferred work.
        """
        if self._topic_id is None:
            self._topic_id = self._unwritten_topic_id = topic_id
            self._local.later("flush-metadata-file", self._write_topic_id)
        elif self._topic_id != topic_id:
            raise InconsistentTopicId(
                f"Tried to assign topic ID {topic_id} to log for topic partition {self.name}, but "
                f"log already contained topic ID {self._topic_id}"
            )

    def _write_topic_id(self) -> None:
        with self._topic_id_lock:
            topic_id = self._unwritten_topic_id
            if topic_id is not None:
                partition_metadata.write_topic_id(self.directory, topic_id)
                self._unwritten_topic_id = None

    # Producers.

    @property
    def producers(self) -> ProducerStates:
        """The idempotent and transactional producers, for DescribeProducers."""
        return self._producers

    def remove_expired_producers(self) -> None:
        """Forgets producers that were silent for long."""
        self._producers.remove_expired(self._environment.now_ms())

    def start_verification(
        self, producer_id: int, sequence: int, producer_epoch: int
    ) -> VerificationGuard | None:
        """The guard for a transaction's first batch, to pass once the coordinator has confirmed it.

        None if the transaction is open already.
        """
        return self._producers.start_verification(
            producer_id, sequence, producer_epoch, self._environment.now_ms()
        )


def _metadata(offset: int | LogOffsetMetadata) -> LogOffsetMetadata:
    return LogOffsetMetadata(offset) if isinstance(offset, int) else offset


def read_epoch_file(directory: Path) -> list[EpochEntry]:
    path = directory / leader_epochs.FILE_NAME
    try:
        return read_epochs(path)
    except CheckpointMalformed as malformed:
        # Recovery finds the epochs of unflushed batches again; the others were in this file.
        _log.warning("%s; the leader epochs before the recovery point are lost", malformed)
        return []
