"""What raft relies on in the metadata log: the same for the simulator's and for the one on disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final, Protocol

import pytest

from kafka_common.errors import CorruptRecord, InvalidRecord, RaftFatal, UnexpectedAppendOffset
from kafka_common.protocol.record_batch import encode_batch, iterate_batches
from kafka_common.protocol.records import Record
from kraft.node.metadata_log import KafkaMetadataLog
from kraft.node.metadata_log_config import MetadataLogConfig
from kraft.raft.raft_log import (
    LogPosition,
    RaftLog,
    ValidatedPosition,
    truncation_offset,
    validate_position,
)
from kraft.raft.values import OffsetAndEpoch
from zkcontroller_simulation.raft_log_model import InMemoryRaftLog

NOW_MS: Final = 1_700_000_000_000
MANY_BYTES: Final = 2**20


def batch(offset: int, epoch: int, count: int = 1) -> bytes:
    """One batch of so many records."""
    records = [Record(offset + at, NOW_MS, None, b"%d" % (offset + at)) for at in range(count)]
    return encode_batch(records, partition_leader_epoch=epoch)


def batches(offset: int, epoch: int, count: int = 1) -> bytes:
    """So many batches of one record."""
    return b"".join(batch(offset + at, epoch) for at in range(count))


class Subject(Protocol):
    """A log, and what others than raft do to it."""

    @property
    def log(self) -> RaftLog:
        """The log as it is open now."""

    def snapshot(self, snapshot_id: OffsetAndEpoch, data: bytes = b"state") -> bool:
        """The state machine writes a snapshot; False if none was needed."""

    def flush(self) -> None:
        """What is there is on disk."""

    def restart(self) -> None:
        """The process is killed, its machine goes on, and the log is opened again."""


class OnDisk:
    """The log of production, in a folder; it keeps as little as it may."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._config = MetadataLogConfig(retention_max_bytes=0, retention_ms=-1)
        self._killed: list[KafkaMetadataLog] = []
        self.log: KafkaMetadataLog = self._open()

    def _open(self) -> KafkaMetadataLog:
        return KafkaMetadataLog.open(self._directory, self._config, lambda: NOW_MS)

    def snapshot(self, snapshot_id: OffsetAndEpoch, data: bytes = b"state") -> bool:
        writer = self.log.create_snapshot(snapshot_id)
        if writer is None:
            return False
        writer.append(data)
        writer.freeze()
        self.log.add_snapshot(writer)
        return True

    def flush(self) -> None:
        self.log.flush()

    def restart(self) -> None:
        self._killed.append(self.log)
        self.log = self._open()

    def close(self) -> None:
        """A killed process closes nothing; what it had open is closed at the end of the test."""
        self.log.close()
        for log in self._killed:
            log.drop_download()


class InMemory:
    """The log of the simulator; it keeps as little as it may."""

    def __init__(self) -> None:
        self.log = InMemoryRaftLog(retention_bytes=0)

    def snapshot(self, snapshot_id: OffsetAndEpoch, data: bytes = b"state") -> bool:
        try:
            return self.log.create_snapshot(snapshot_id, data)
        except AssertionError as error:
            raise ValueError(str(error)) from error

    def flush(self) -> None:
        self.log.flush()

    def restart(self) -> None:
        self.log.crash(Random(4), is_process_alone=True)


@pytest.fixture(params=["memory", "disk"])
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Subject]:
    if request.param == "memory":
        yield InMemory()
    else:
        on_disk = OnDisk(tmp_path)
        yield on_disk
        on_disk.close()


def ends(log: RaftLog, *epochs: int) -> list[tuple[int, int]]:
    return [tuple(log.end_offset_for_epoch(epoch)) for epoch in epochs]  # type: ignore[misc]


def offsets(data: bytes) -> list[int]:
    return [header.base_offset for _, header in iterate_batches(data)]


def led(log: RaftLog, *epochs: tuple[int, int]) -> None:
    """Appends batches of one record: how many, in which epoch."""
    for epoch, count in epochs:
        log.initialize_leader_epoch(epoch)
        log.append_as_leader(batches(log.end_offset, epoch, count), epoch)


def verdict(log: RaftLog, offset: int, epoch: int) -> ValidatedPosition:
    return validate_position(log, offset, epoch)


# ---------------------------------------------------------------------- records


def test_an_empty_log_begins_at_zero_in_epoch_zero(subject: Subject) -> None:
    log = subject.log

    assert (log.start_offset, log.end_offset, log.high_watermark, log.last_epoch) == (0, 0, 0, 0)
    assert ends(log, 0, 5) == [(0, 0), (0, 0)]
    assert log.read(0, MANY_BYTES) == b""
    assert (log.earliest_snapshot_id, log.latest_snapshot_id) == (None, None)


def test_a_leaders_batches_stand_as_they_came(subject: Subject) -> None:
    first, second = batch(0, 3, count=2), batch(2, 3)

    subject.log.append_as_leader(first + second, 3)

    assert (subject.log.end_offset, subject.log.last_epoch) == (3, 3)
    assert subject.log.read(0, MANY_BYTES) == first + second
    assert subject.log.read(2, MANY_BYTES) == second
    assert subject.log.read(3, MANY_BYTES) == b""


def test_a_read_within_a_batch_begins_with_that_batch(subject: Subject) -> None:
    subject.log.append_as_leader(batch(0, 1, count=3) + batch(3, 1), 1)

    assert offsets(subject.log.read(1, MANY_BYTES)) == [0, 3]


def test_a_read_is_of_whole_batches_and_of_one_at_least(subject: Subject) -> None:
    led(subject.log, (1, 3))
    size = len(batch(0, 1))

    assert offsets(subject.log.read(0, 1)) == [0]
    assert offsets(subject.log.read(0, 2 * size)) == [0, 1]
    assert offsets(subject.log.read(0, 2 * size + 1)) == [0, 1]


def test_a_follower_takes_batches_of_several_epochs(subject: Subject) -> None:
    data = batches(0, 3, 2) + batches(2, 7)

    assert subject.log.append_as_follower(data, 7) == len(data)

    assert (subject.log.end_offset, subject.log.last_epoch) == (3, 7)
    assert ends(subject.log, 3, 7) == [(2, 3), (3, 7)]


def test_a_follower_leaves_out_batches_of_a_later_epoch(subject: Subject) -> None:
    known, later = batches(0, 3, 2), batches(2, 7)

    assert subject.log.append_as_follower(known + later + batches(3, 3), 5) == len(known)
    assert subject.log.append_as_follower(later, 5) == 0

    assert subject.log.end_offset == 2


def test_a_follower_appends_nothing_of_what_is_damaged(subject: Subject) -> None:
    damaged = bytearray(batches(0, 3, 2))
    damaged[-1] ^= 1

    with pytest.raises((CorruptRecord, InvalidRecord)):
        subject.log.append_as_follower(bytes(damaged), 3)
    with pytest.raises((CorruptRecord, InvalidRecord)):
        subject.log.append_as_follower(b"no batch at all, and far too short for one", 3)

    assert subject.log.end_offset == 0


def test_a_follower_refuses_offsets_that_it_has(subject: Subject) -> None:
    subject.log.append_as_follower(batches(0, 3, 3), 3)

    with pytest.raises(UnexpectedAppendOffset):
        subject.log.append_as_follower(batches(1, 3, 3), 3)

    assert subject.log.end_offset == 3


# ---------------------------------------------------------------------- epochs


def test_where_epochs_end(subject: Subject) -> None:
    led(subject.log, (2, 3), (5, 2))

    assert subject.log.last_epoch == 5
    assert ends(subject.log, 0, 1, 2, 3, 4, 5, 6) == [
        (0, 0),
        (0, 1),
        (3, 2),
        (3, 2),
        (3, 2),
        (5, 5),
        (5, 5),
    ]


def test_who_may_go_on_reading(subject: Subject) -> None:
    led(subject.log, (2, 3), (5, 2))
    valid, diverging = LogPosition.VALID, LogPosition.DIVERGING

    assert verdict(subject.log, 0, 0).verdict is valid
    assert verdict(subject.log, 3, 2).verdict is valid
    assert verdict(subject.log, 5, 5).verdict is valid
    assert verdict(subject.log, 4, 2) == (diverging, (3, 2))
    assert verdict(subject.log, 4, 3) == (diverging, (3, 2))
    assert verdict(subject.log, 6, 5) == (diverging, (5, 5))
    assert verdict(subject.log, 5, 6) == (diverging, (5, 5))


def test_a_follower_cuts_its_log_where_the_leaders_parts(subject: Subject) -> None:
    led(subject.log, (2, 3), (4, 3))

    assert truncation_offset(subject.log, OffsetAndEpoch(2, 2)) == 2
    assert truncation_offset(subject.log, OffsetAndEpoch(9, 2)) == 3
    assert truncation_offset(subject.log, OffsetAndEpoch(9, 3)) == 3
    assert truncation_offset(subject.log, OffsetAndEpoch(5, 4)) == 5


def test_a_truncation_takes_records_and_epochs(subject: Subject) -> None:
    led(subject.log, (2, 3), (5, 2))
    subject.log.update_high_watermark(3)

    subject.log.truncate_to(3)

    assert (subject.log.end_offset, subject.log.last_epoch) == (3, 2)
    assert ends(subject.log, 2, 5) == [(3, 2), (3, 2)]
    subject.log.append_as_follower(batches(3, 4), 4)
    assert offsets(subject.log.read(0, MANY_BYTES)) == [0, 1, 2, 3]


def test_nothing_committed_is_truncated(subject: Subject) -> None:
    led(subject.log, (2, 3))
    subject.log.update_high_watermark(2)

    with pytest.raises((RaftFatal, AssertionError)):
        subject.log.truncate_to(1)

    assert subject.log.end_offset == 3


def test_the_high_watermark_never_falls_and_stays_within_the_log(subject: Subject) -> None:
    led(subject.log, (1, 3))

    subject.log.update_high_watermark(2)
    subject.log.update_high_watermark(2)
    with pytest.raises((RaftFatal, AssertionError)):
        subject.log.update_high_watermark(1)
    with pytest.raises((RaftFatal, AssertionError)):
        subject.log.update_high_watermark(4)

    assert subject.log.high_watermark == 2


# ---------------------------------------------------------------------- snapshots


def committed(subject: Subject) -> RaftLog:
    """Offsets 0 to 2 in epoch 2, 3 to 5 in epoch 5, everything committed."""
    led(subject.log, (2, 3), (5, 3))
    subject.log.update_high_watermark(6)
    return subject.log


def test_a_snapshot_is_read_in_parts(subject: Subject) -> None:
    log, snapshot_id = committed(subject), OffsetAndEpoch(4, 5)

    assert subject.snapshot(snapshot_id, b"0123456789")

    assert (log.latest_snapshot_id, log.earliest_snapshot_id) == (snapshot_id, snapshot_id)
    assert log.snapshot_bytes(snapshot_id) == 10
    assert log.snapshot_bytes(OffsetAndEpoch(4, 4)) is None
    assert log.read_snapshot(snapshot_id, 4, 3) == b"456"
    assert log.read_snapshot(snapshot_id, 8, 100) == b"89"
    assert log.start_offset == 0


def test_only_what_is_committed_here_makes_a_snapshot(subject: Subject) -> None:
    led(subject.log, (2, 3), (5, 3))
    subject.log.update_high_watermark(4)

    with pytest.raises(ValueError, match=r"(?i)snapshot|OffsetAndEpoch"):
        subject.snapshot(OffsetAndEpoch(5, 5))
    with pytest.raises(ValueError, match=r"(?i)snapshot|OffsetAndEpoch"):
        subject.snapshot(OffsetAndEpoch(4, 2))
    assert subject.snapshot(OffsetAndEpoch(4, 5))
    assert not subject.snapshot(OffsetAndEpoch(4, 5))


def test_old_records_go_once_a_newer_snapshot_covers_them(subject: Subject) -> None:
    log = committed(subject)
    older, newer = OffsetAndEpoch(2, 2), OffsetAndEpoch(4, 5)
    subject.snapshot(older)
    assert not log.clean(NOW_MS)

    subject.snapshot(newer)
    assert log.clean(NOW_MS)
    assert not log.clean(NOW_MS)

    assert (log.start_offset, log.end_offset, log.last_epoch) == (4, 6, 5)
    assert (log.earliest_snapshot_id, log.latest_snapshot_id) == (newer, newer)
    assert log.snapshot_bytes(older) is None
    assert offsets(log.read(4, MANY_BYTES)) == [4, 5]
    assert not subject.snapshot(OffsetAndEpoch(3, 2))


def test_who_asks_for_what_is_gone_gets_the_latest_snapshot(subject: Subject) -> None:
    log, latest = committed(subject), OffsetAndEpoch(4, 5)
    subject.snapshot(OffsetAndEpoch(2, 2))
    subject.snapshot(latest)
    log.clean(NOW_MS)

    for offset, epoch in ((0, 0), (3, 2), (4, 2), (5, 4)):
        assert verdict(log, offset, epoch) == (LogPosition.SNAPSHOT, latest)
    assert verdict(log, 4, 5).verdict is LogPosition.VALID
    assert verdict(log, 6, 6) == (LogPosition.DIVERGING, (6, 5))
    assert ends(log, 2, 5) == [(4, 5), (6, 5)]


def test_a_download_takes_the_place_of_the_log(subject: Subject) -> None:
    log, snapshot_id = subject.log, OffsetAndEpoch(40, 6)
    led(log, (2, 3))

    log.begin_download(snapshot_id)
    assert log.append_download(b"01234") == 5
    assert log.snapshot_bytes(snapshot_id) is None
    assert log.append_download(b"56789") == 10
    log.finish_download()

    assert (log.start_offset, log.end_offset, log.high_watermark, log.last_epoch) == (40, 40, 40, 6)
    assert log.read_snapshot(snapshot_id, 0, 100) == b"0123456789"
    assert ends(log, 2, 6, 9) == [(40, 6), (40, 6), (40, 6)]
    assert verdict(log, 40, 6).verdict is LogPosition.VALID
    log.append_as_follower(batches(40, 7), 7)
    assert ends(log, 6, 7) == [(40, 6), (41, 7)]


def test_a_download_can_be_dropped_and_begun_again(subject: Subject) -> None:
    log = subject.log
    led(log, (2, 3))
    log.drop_download()

    log.begin_download(OffsetAndEpoch(40, 6))
    log.append_download(b"half of")
    log.begin_download(OffsetAndEpoch(50, 6))
    assert log.append_download(b"other") == 5
    log.drop_download()

    assert (log.start_offset, log.end_offset, log.latest_snapshot_id) == (0, 3, None)


def test_a_download_truncates_a_longer_log_of_older_epochs(subject: Subject) -> None:
    log = subject.log
    led(log, (2, 9))

    log.begin_download(OffsetAndEpoch(4, 3))
    log.append_download(b"state")
    log.finish_download()

    assert (log.start_offset, log.end_offset) == (4, 4)


# ---------------------------------------------------------------------- restarts


def test_a_restart_finds_records_epochs_and_snapshots_and_no_high_watermark(
    subject: Subject,
) -> None:
    log, snapshot_id = committed(subject), OffsetAndEpoch(4, 5)
    subject.snapshot(snapshot_id, b"state")
    log.initialize_leader_epoch(9)
    subject.flush()

    subject.restart()

    log = subject.log
    assert (log.start_offset, log.end_offset, log.high_watermark, log.last_epoch) == (0, 6, 0, 5)
    assert ends(log, 2, 5) == [(3, 2), (6, 5)]
    assert log.latest_snapshot_id == snapshot_id
    assert log.read_snapshot(snapshot_id, 0, 100) == b"state"
    assert offsets(log.read(0, MANY_BYTES)) == [0, 1, 2, 3, 4, 5]


def test_a_restart_behind_a_download_begins_with_it(subject: Subject) -> None:
    log, snapshot_id = subject.log, OffsetAndEpoch(40, 6)
    led(log, (2, 3))
    log.begin_download(snapshot_id)
    log.append_download(b"state")
    log.finish_download()

    subject.restart()

    log = subject.log
    assert (log.start_offset, log.end_offset, log.high_watermark, log.last_epoch) == (40, 40, 40, 6)
    assert log.earliest_snapshot_id == snapshot_id


def test_a_restart_drops_a_download_that_was_not_finished(subject: Subject) -> None:
    led(subject.log, (2, 3))
    subject.log.begin_download(OffsetAndEpoch(40, 6))
    subject.log.append_download(b"half of")

    subject.restart()

    assert (subject.log.end_offset, subject.log.latest_snapshot_id) == (3, None)


def test_what_a_restart_finds_is_on_disk(tmp_path: Path) -> None:
    """A follower's next Fetch acknowledges it, and nothing else would flush it."""
    killed = OnDisk(tmp_path)
    led(killed.log, (2, 3))

    killed.restart()

    assert killed.log.end_offset == 3
    assert killed.log.plan_flush() is None
    killed.close()
