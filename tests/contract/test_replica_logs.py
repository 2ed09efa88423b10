"""What replication relies on in a log: the same for the simulator's and for the one on disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from kafka_common.errors import OffsetOutOfRange, UnexpectedAppendOffset
from replica_manager.log.leader_epoch_file_cache import EpochEndOffset
from replica_manager.log.unified_log import UnifiedLog
from replica_manager.replication.replica_log import ReplicaLog
from tests.simulation.replication_log import InMemoryLog, Record, encoded
from tests.support.log_world import LogWorld, at, batch


class Subject(Protocol):
    """A log, and what a test does to it in its own kind of records."""

    @property
    def log(self) -> ReplicaLog:
        """The log as it is open now."""

    def lead(self, leader_epoch: int, count: int = 1) -> None:
        """Appends records, one batch each, as their leader."""

    def records(self, offset: int, leader_epoch: int, count: int = 1) -> bytes:
        """What a leader would send of such records, one batch each."""

    def restart(self) -> None:
        """The process is killed and the log opened again."""


class OnDisk:
    """The log of production, in a folder."""

    def __init__(self, directory: Path) -> None:
        self._world = LogWorld(directory)
        self.log: UnifiedLog = self._world.open()

    def lead(self, leader_epoch: int, count: int = 1) -> None:
        for _ in range(count):
            self.log.append_as_leader(batch(), leader_epoch)

    def records(self, offset: int, leader_epoch: int, count: int = 1) -> bytes:
        return at(offset, *[batch()] * count, epoch=leader_epoch)

    def restart(self) -> None:
        self.log = self._world.open(clean=False)


class InMemory:
    """The log of the simulator."""

    def __init__(self) -> None:
        self.log = InMemoryLog()

    def lead(self, leader_epoch: int, count: int = 1) -> None:
        for _ in range(count):
            self.log.append_as_leader("own", leader_epoch)

    def records(self, offset: int, leader_epoch: int, count: int = 1) -> bytes:
        return encoded([Record(offset + step, leader_epoch, "new") for step in range(count)])

    def restart(self) -> None:
        self.log.restart()


@pytest.fixture(params=["memory", "disk"])
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Subject]:
    if request.param == "memory":
        yield InMemory()
    else:
        on_disk = OnDisk(tmp_path / "orders-0")
        yield on_disk
        on_disk.log.close()


def ends(log: ReplicaLog, *epochs: int) -> list[EpochEndOffset | None]:
    return [log.end_offset_for_epoch(epoch) for epoch in epochs]


def test_an_empty_log_knows_no_epoch(subject: Subject) -> None:
    log = subject.log

    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (0, 0, 0)
    assert log.latest_epoch is None
    assert ends(log, 0, 5) == [None, None]


def test_where_epochs_end(subject: Subject) -> None:
    subject.lead(2, count=3)
    subject.lead(5, count=2)

    assert subject.log.latest_epoch == 5
    assert ends(subject.log, 0, 1, 2, 3, 4, 5, 6) == [
        (0, 0),
        (1, 0),
        (2, 3),
        (2, 3),
        (2, 3),
        (5, 5),
        None,
    ]


def test_an_epoch_is_known_before_a_record_has_it(subject: Subject) -> None:
    subject.lead(2, count=3)

    subject.log.assign_epoch_start_offset(6, 3)

    assert subject.log.latest_epoch == 6
    assert ends(subject.log, 4, 6) == [(2, 3), (6, 3)]


def test_a_later_epoch_at_the_same_offset_takes_the_place_of_one_without_records(
    subject: Subject,
) -> None:
    subject.lead(2, count=3)
    subject.log.assign_epoch_start_offset(4, 3)

    subject.log.assign_epoch_start_offset(6, 3)

    assert ends(subject.log, 4, 5, 6) == [(2, 3), (2, 3), (6, 3)]


def test_a_leaders_high_watermark_only_rises(subject: Subject) -> None:
    subject.lead(1, count=5)
    log = subject.log

    assert log.maybe_increment_high_watermark(3)
    assert not log.maybe_increment_high_watermark(2)
    assert not log.maybe_increment_high_watermark(3)

    assert log.high_watermark == log.last_stable_offset == 3


def test_a_followers_high_watermark_follows_within_its_log(subject: Subject) -> None:
    subject.lead(1, count=5)
    log = subject.log

    assert log.update_high_watermark(9)
    assert log.high_watermark == 5
    assert log.update_high_watermark(2)
    assert not log.update_high_watermark(2)
    assert log.high_watermark == 2
    log.maybe_increment_log_start_offset(2, "test")
    log.update_high_watermark(0)
    assert log.high_watermark == 2


def test_a_follower_takes_offsets_and_epochs_as_they_come(subject: Subject) -> None:
    log = subject.log

    first = log.append_as_follower(subject.records(0, 3, count=2))
    second = log.append_as_follower(subject.records(2, 7))
    nothing = log.append_as_follower(b"")

    assert (first.last_offset, first.last_leader_epoch) == (1, 3)
    assert (second.last_offset, second.last_leader_epoch) == (2, 7)
    assert (nothing.valid_bytes, nothing.last_leader_epoch) == (0, None)
    assert second.valid_bytes == len(subject.records(2, 7))
    assert ends(log, 3, 7) == [(3, 2), (7, 3)]


def test_a_follower_refuses_offsets_that_it_has(subject: Subject) -> None:
    log = subject.log
    log.append_as_follower(subject.records(0, 3, count=3))

    with pytest.raises(UnexpectedAppendOffset) as refused:
        log.append_as_follower(subject.records(1, 3, count=3))

    assert (refused.value.first_offset, refused.value.last_offset) == (1, 3)
    assert log.log_end_offset == 3


def test_a_truncation_takes_records_epochs_and_high_watermark(subject: Subject) -> None:
    subject.lead(2, count=3)
    subject.lead(5, count=2)
    log = subject.log
    log.update_high_watermark(5)

    assert log.truncate_to(3)

    assert (log.log_end_offset, log.high_watermark, log.latest_epoch) == (3, 3, 2)
    assert ends(log, 2, 5) == [(2, 3), None]
    log.append_as_follower(subject.records(3, 4))
    assert log.log_end_offset == 4


def test_a_truncation_at_the_end_takes_the_epoch_that_was_never_used(subject: Subject) -> None:
    subject.lead(2, count=3)
    log = subject.log
    log.assign_epoch_start_offset(6, 3)

    assert not log.truncate_to(3)
    assert log.latest_epoch == 2
    assert not log.truncate_to(9)
    assert log.log_end_offset == 3


def test_a_log_can_begin_anew_at_another_offset(subject: Subject) -> None:
    subject.lead(2, count=3)
    log = subject.log

    log.truncate_fully_and_start_at(40)

    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (40, 40, 40)
    assert log.latest_epoch is None
    log.append_as_follower(subject.records(40, 5))
    assert log.log_end_offset == 41


def test_the_log_start_rises_up_to_the_high_watermark(subject: Subject) -> None:
    subject.lead(2, count=3)
    subject.lead(5, count=3)
    log = subject.log
    log.update_high_watermark(4)

    assert log.maybe_increment_log_start_offset(4, "test")
    assert not log.maybe_increment_log_start_offset(3, "test")
    with pytest.raises(OffsetOutOfRange):
        log.maybe_increment_log_start_offset(5, "test")

    assert log.log_start_offset == 4
    assert ends(log, 2, 5) == [(2, 4), (5, 6)]


def test_a_restart_keeps_records_and_forgets_what_no_record_shows(subject: Subject) -> None:
    subject.lead(2, count=3)
    subject.log.assign_epoch_start_offset(6, 3)
    subject.log.update_high_watermark(3)

    subject.restart()

    log = subject.log
    assert (log.log_end_offset, log.high_watermark, log.latest_epoch) == (3, 0, 2)
