"""A log's producers are read before the log is cut, and are the same as without that."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from replica_manager.log import truncation_plans, unified_log
from replica_manager.log.log_config import LogConfig
from replica_manager.log.truncation_plans import TruncationPlan
from replica_manager.log.unified_log import UnifiedLog
from replica_manager.replication.log_dir_copy import align
from tests.support.log_world import START_MS, LogWorld, at, batch, content, end_transaction

PRODUCERS = range(5)
SMALL_SEGMENTS = LogConfig(segment_bytes=1_500, index_interval_bytes=100)


def filled(world: LogWorld, seed: int) -> UnifiedLog:
    """A log of several segments, of idempotent and of transactional producers."""
    random = Random(seed)
    log = world.open()
    sequences = dict.fromkeys(PRODUCERS, 0)
    for _ in range(60):
        producer_id = random.choice(PRODUCERS)
        is_transactional = producer_id >= 3
        if is_transactional and random.random() < 0.4:
            if log.producers.has_ongoing_transaction(producer_id):
                end_transaction(log, producer_id, commit=random.random() < 0.5)
            continue
        count = random.randint(1, 4)
        log.append_as_leader(
            batch(
                count,
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=sequences[producer_id],
                is_transactional=is_transactional,
            ),
            0,
        )
        sequences[producer_id] += count
    log.update_high_watermark(random.randint(0, log.log_end_offset))
    if random.random() < 0.5:
        log.maybe_increment_log_start_offset(random.randint(0, log.high_watermark))
    return log


def planned(log: UnifiedLog, offset: int) -> TruncationPlan:
    plan = log.plan_truncation(offset)
    assert plan is not None
    return plan


def known(log: UnifiedLog, world: LogWorld) -> object:
    """Everything that a log knows of its producers, in memory and in files."""
    states = log.producers
    return (
        dict(states.entries),
        states.end_offset,
        states.first_unstable_offset,
        log.last_stable_offset,
        log.log_start_offset,
        {path.name: path.read_bytes() for path in sorted(world.directory.glob("*.snapshot"))},
        content(log),
    )


@pytest.fixture
def _every_byte_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unified_log, "READ_AT_ONCE_BYTES", 0)


@pytest.mark.usefixtures("_every_byte_counts")
@pytest.mark.parametrize("seed", range(30))
def test_a_planned_truncation_leaves_the_producers_that_one_without_a_plan_leaves(
    tmp_path: Path, seed: int
) -> None:
    plain = LogWorld(tmp_path / "plain" / "orders-0", SMALL_SEGMENTS)
    ahead = LogWorld(tmp_path / "ahead" / "orders-0", SMALL_SEGMENTS)
    expected, log = filled(plain, seed), filled(ahead, seed)
    random = Random(seed)
    if seed % 3 == 0:
        for world in (plain, ahead):
            for path in sorted(world.directory.glob("*.snapshot"))[-2:]:
                path.write_bytes(b"damaged")
    plans = 0
    lowest = next(iter(log.segments)).base_offset
    for _ in range(4):
        if log.log_end_offset <= lowest:
            break
        offset = random.randint(max(lowest, log.log_end_offset - 12), log.log_end_offset - 1)
        plan = log.plan_truncation(offset)
        if plan is not None:
            before = known(log, ahead)
            plan.run()
            assert known(log, ahead) == before, "nothing changes before the log is cut"
            assert log.plan_truncation(offset) is None
            plans += 1
        expected.truncate_to(offset)
        log.truncate_to(offset)
        assert known(log, ahead) == known(expected, plain)
    assert plans > 0


@pytest.mark.usefixtures("_every_byte_counts")
def test_a_repeated_batch_is_known_after_a_planned_truncation(tmp_path: Path) -> None:
    world = LogWorld(tmp_path / "orders-0")
    log = world.open()
    for sequence in range(8):
        log.append_as_leader(batch(producer_id=7, producer_epoch=0, base_sequence=sequence), 0)

    planned(log, 5).run()
    log.truncate_to(5)

    for sequence in range(5):
        again = batch(producer_id=7, producer_epoch=0, base_sequence=sequence)
        assert log.append_as_leader(again, 0).is_duplicate
    assert (
        log.append_as_leader(
            batch(producer_id=7, producer_epoch=0, base_sequence=5), 0
        ).first_offset
        == 5
    )


@pytest.mark.usefixtures("_every_byte_counts")
@pytest.mark.parametrize("what", ["cut elsewhere", "filled again", "start moved", "not run"])
def test_a_plan_for_a_log_that_has_changed_is_not_used(tmp_path: Path, what: str) -> None:
    world = LogWorld(tmp_path / "orders-0")
    log = world.open()
    for sequence in range(8):
        log.append_as_leader(batch(producer_id=7, producer_epoch=0, base_sequence=sequence), 0)
    plan = planned(log, 5)
    if what != "not run":
        plan.run()

    cut, last = 5, 4
    match what:
        case "cut elsewhere":
            cut, last = 3, 2
        case "filled again":
            log.truncate_to(3)
            for _ in range(4):
                log.append_as_leader(batch(), 0)
            last = 2
        case "start moved":
            log.update_high_watermark(4)
            log.maybe_increment_log_start_offset(4)
        case _:
            pass
    log.truncate_to(cut)

    assert log.producers.entry(7).last_sequence == last
    assert log.producers.end_offset == log.log_end_offset == cut


@pytest.mark.usefixtures("_every_byte_counts")
def test_a_plan_that_cannot_read_leaves_the_reading_to_the_truncation(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = LogWorld(tmp_path / "orders-0", SMALL_SEGMENTS)
    log = filled(world, 1)
    offset = log.log_end_offset - 1
    plan = planned(log, offset)
    assert plan.snapshot_path is not None
    plan.snapshot_path.unlink()

    plan.run()
    log.truncate_to(offset)

    assert f"Could not prepare a truncation to offset {offset}" in caplog.text
    assert log.log_end_offset == log.producers.end_offset == offset
    assert log.producers.entries
    assert not world.failures


@pytest.mark.usefixtures("_every_byte_counts")
def test_a_future_log_is_cut_once_its_plan_has_run(tmp_path: Path) -> None:
    current = LogWorld(tmp_path / "orders-0").open()
    future = LogWorld(tmp_path / "orders-0.future").open()
    for sequence in range(8):
        sent = at(sequence, batch(producer_id=7, producer_epoch=0, base_sequence=sequence))
        future.append_as_follower(sent)
        if sequence < 5:
            current.append_as_follower(sent)

    plan = align(current, future)

    assert plan is not None
    assert future.log_end_offset == 8
    plan.run()
    assert align(current, future) is None
    assert future.log_end_offset == 5
    assert future.producers.entries == current.producers.entries


def test_little_to_read_needs_no_plan_nor_does_a_log_without_producers(tmp_path: Path) -> None:
    small = LogWorld(tmp_path / "small-0").open()
    small.append_as_leader(batch(producer_id=7, producer_epoch=0, base_sequence=0), 0)
    small.append_as_leader(batch(producer_id=7, producer_epoch=0, base_sequence=1), 0)
    assert small.plan_truncation(1) is None
    plain = LogWorld(tmp_path / "plain-0").open()
    large = batch(size=truncation_plans.READ_AT_ONCE_BYTES)
    plain.append_as_leader(large, 0)
    plain.append_as_leader(large, 0)
    assert plain.plan_truncation(1) is None


def test_the_records_of_a_large_log_are_read_by_the_plan_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = LogWorld(tmp_path / "orders-0").open()
    for sequence in range(600):
        log.append_as_leader(
            batch(
                timestamp=START_MS + sequence,
                size=1_000,
                producer_id=7,
                producer_epoch=0,
                base_sequence=sequence,
            ),
            0,
        )
    planned(log, 500).run()
    file = log.active_segment.file
    read_bytes = 0
    reads = type(file).read

    def counted(self: object, position: int, length: int) -> bytes:
        nonlocal read_bytes
        found = reads(self, position, length)  # type: ignore[arg-type]
        read_bytes += len(found)
        return found

    monkeypatch.setattr(type(file), "read", counted)
    log.truncate_to(500)

    assert log.producers.entry(7).last_sequence == 499
    assert read_bytes < 64 * 1024
