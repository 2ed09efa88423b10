"""Idempotent and transactional producers: duplicates, sequences, epochs, markers."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from kafka_common.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from replica_manager.log.log_values import FetchIsolation
from replica_manager.log.producer_state_manager import AppendOrigin
from replica_manager.log.retention import DeletionRule
from tests.support.log_world import START_MS, LogWorld, at, batch, content, end_transaction, read

LAST_SEQUENCE = 2**31 - 1


@pytest.fixture
def world(tmp_path: Path) -> LogWorld:
    return LogWorld(tmp_path / "orders-0")


def sent(sequence: int, *, epoch: int = 0, count: int = 1, producer_id: int = 7) -> bytes:
    return batch(count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def in_transaction(sequence: int, *, epoch: int = 0, producer_id: int = 7) -> bytes:
    return batch(
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=True,
    )


def test_any_of_the_last_five_batches_sent_again_gets_its_first_offsets(world: LogWorld) -> None:
    log = world.open()
    for i in range(6):
        log.append_as_leader(sent(2 * i, count=2), 0)
    before = content(log)

    for i in range(1, 6):
        info = log.append_as_leader(sent(2 * i, count=2), 0)
        assert (info.is_duplicate, info.first_offset, info.last_offset) == (True, 2 * i, 2 * i + 1)
        assert info.log_append_time == info.max_timestamp == START_MS
    with pytest.raises(OutOfOrderSequence):
        log.append_as_leader(sent(0, count=2), 0)

    assert content(log) == before


def test_a_batch_that_overlaps_with_another_is_out_of_order(world: LogWorld) -> None:
    log = world.open()
    log.append_as_leader(sent(0, count=3), 0)

    for sequence, count in ((0, 2), (1, 2), (1, 3), (4, 1)):
        with pytest.raises(OutOfOrderSequence):
            log.append_as_leader(sent(sequence, count=count), 0)


def test_an_unknown_producer_may_begin_with_any_sequence(world: LogWorld) -> None:
    log = world.open()

    log.append_as_leader(sent(44), 0)

    assert log.append_as_leader(sent(45), 0).first_offset == 1


def test_sequences_begin_again_after_the_largest(world: LogWorld) -> None:
    log = world.open()
    log.append_as_leader(sent(LAST_SEQUENCE), 0)
    log.append_as_leader(sent(0), 0)
    log.append_as_leader(sent(LAST_SEQUENCE - 1, producer_id=8, count=4), 0)

    assert log.append_as_leader(sent(2, producer_id=8), 0).first_offset == 6


def test_an_older_epoch_is_refused_and_a_newer_begins_at_zero(world: LogWorld) -> None:
    log = world.open()
    log.append_as_leader(sent(5, epoch=2), 0)

    with pytest.raises(InvalidProducerEpoch, match="smaller than the last seen epoch 2"):
        log.append_as_leader(sent(6, epoch=1), 0)
    with pytest.raises(OutOfOrderSequence, match="Invalid sequence number for new epoch"):
        log.append_as_leader(sent(6, epoch=3), 0)
    log.append_as_leader(sent(0, epoch=3), 0)

    assert log.producers.entry(7).producer_epoch == 3
    assert not log.append_as_leader(sent(1, epoch=3), 0).is_duplicate


def test_a_follower_takes_what_its_leader_took(world: LogWorld) -> None:
    log = world.open()

    log.append_as_follower(at(0, sent(5, epoch=2)) + at(1, sent(9, epoch=2)))
    log.append_as_follower(at(2, sent(0, epoch=1)))

    assert log.log_end_offset == 3


def test_several_batches_of_a_producer_in_one_fetch_follow_each_other(world: LogWorld) -> None:
    log = world.open()

    log.append_as_follower(b"".join(at(i, sent(i)) for i in range(7)))

    entry = log.producers.entry(7)
    assert [b.first_offset for b in entry.batches] == [2, 3, 4, 5, 6]
    assert log.append_as_leader(sent(3), 0).first_offset == 3


def test_a_snapshot_keeps_the_last_batch_only(world: LogWorld) -> None:
    log = world.open()
    for i in range(3):
        log.append_as_leader(sent(i), 0)
    log.close()

    again = world.open()

    assert again.append_as_leader(sent(2), 0).is_duplicate
    with pytest.raises(OutOfOrderSequence):
        again.append_as_leader(sent(1), 0)


def test_a_silent_producer_is_forgotten_unless_its_transaction_is_open(world: LogWorld) -> None:
    world.environment = replace(world.environment, producer_id_expiration_ms=lambda: 1000)
    log = world.open()
    log.append_as_leader(sent(0), 0)
    log.append_as_leader(in_transaction(0, producer_id=8), 0)
    world.now_ms = START_MS + 1000

    log.remove_expired_producers()

    assert list(log.producers.entries) == [8]
    log.append_as_leader(sent(77), 0)


def test_truncation_takes_the_producers_back(world: LogWorld) -> None:
    log = world.open()
    for i in range(6):
        log.append_as_leader(sent(i), 0)

    log.truncate_to(3)

    assert log.producers.entry(7).last_sequence == 2
    assert log.append_as_leader(sent(3), 0).first_offset == 3


def test_a_plain_batch_within_a_transaction_is_refused(world: LogWorld) -> None:
    log = world.open()
    log.append_as_leader(in_transaction(0), 0)

    with pytest.raises(InvalidTxnState):
        log.append_as_leader(sent(1), 0)


def test_a_transaction_must_be_verified_before_its_first_batch(world: LogWorld) -> None:
    world.environment = replace(world.environment, verifies_transactions=lambda: True)
    log = world.open()

    with pytest.raises(InvalidTxnState, match="ongoing transaction"):
        log.append_as_leader(in_transaction(0), 0)
    stale = log.start_verification(8, 0, 0)
    guard = log.start_verification(7, 0, 0)
    with pytest.raises(InvalidTxnState):
        log.append_as_leader(in_transaction(0), 0, verification_guard=stale)
    log.append_as_leader(in_transaction(0), 0, verification_guard=guard)
    log.append_as_leader(in_transaction(1), 0)
    assert log.start_verification(7, 2, 0) is None
    end_transaction(log, 7, commit=True)

    with pytest.raises(InvalidTxnState):
        log.append_as_leader(in_transaction(2), 0, verification_guard=guard)


def test_a_sequence_above_one_that_waits_for_verification_is_out_of_order(world: LogWorld) -> None:
    world.environment = replace(world.environment, verifies_transactions=lambda: True)
    log = world.open()
    log.start_verification(7, 0, 0)
    guard = log.start_verification(7, 4, 0)

    with pytest.raises(OutOfOrderSequence, match="earliest seen sequence"):
        log.append_as_leader(in_transaction(4), 0, verification_guard=guard)


def test_a_sequence_below_one_that_waits_for_verification_is_taken(world: LogWorld) -> None:
    world.environment = replace(world.environment, verifies_transactions=lambda: True)
    log = world.open()
    assert log.start_verification(7, 4, 0) is log.start_verification(7, 0, 0)
    guard = log.start_verification(7, 4, 0)

    log.append_as_leader(in_transaction(0), 0, verification_guard=guard)

    assert log.producers.entry(7).last_sequence == 0


@pytest.mark.parametrize("commit", [True, False])
def test_the_end_of_a_transaction_without_records_ends_its_verification(
    world: LogWorld, commit: bool
) -> None:
    world.environment = replace(world.environment, verifies_transactions=lambda: True)
    log = world.open()
    guard = log.start_verification(7, 0, 0)

    end_transaction(log, 7, commit=commit)

    with pytest.raises(InvalidTxnState):
        log.append_as_leader(in_transaction(0), 0, verification_guard=guard)
    assert log.start_verification(7, 0, 0) not in (None, guard)


def test_transactions_that_need_no_verification_are_taken_without_asking(world: LogWorld) -> None:
    log = world.open()

    log.append_as_leader(in_transaction(0), 0)

    assert log.producers.has_ongoing_transaction(7)
    assert log.last_stable_offset == 0


def test_a_marker_of_a_replaced_coordinator_is_refused_by_the_leader_only(world: LogWorld) -> None:
    log = world.open()
    end_transaction(log, 7, commit=True, coordinator_epoch=5)

    with pytest.raises(TransactionCoordinatorFenced, match=r"4 \(zombie\), 5 \(current\)"):
        end_transaction(log, 7, commit=True, coordinator_epoch=4)

    other = LogWorld(world.directory.parent / "orders-1").open()
    end_transaction(other, 7, commit=True, coordinator_epoch=4)
    segment = other.active_segment
    stale = bytearray(segment.file.read(0, segment.size))
    stale[:8] = (1).to_bytes(8, "big")
    log.append_as_follower(bytes(stale))
    assert log.log_end_offset == 2


def test_a_replaced_coordinator_may_not_even_end_a_transaction_without_records(
    world: LogWorld,
) -> None:
    log = world.open()
    log.append_as_leader(in_transaction(0), 0)
    end_transaction(log, 7, commit=False, coordinator_epoch=1)
    end_transaction(log, 7, commit=False, coordinator_epoch=2)

    with pytest.raises(TransactionCoordinatorFenced):
        end_transaction(log, 7, commit=True, coordinator_epoch=1)

    assert log.log_end_offset == 3


def test_a_marker_of_an_older_producer_epoch_is_refused(world: LogWorld) -> None:
    log = world.open()
    log.append_as_leader(in_transaction(0, epoch=5), 0)

    with pytest.raises(InvalidProducerEpoch):
        end_transaction(log, 7, commit=True, producer_epoch=4)

    assert log.producers.has_ongoing_transaction(7)


def test_an_aborted_transaction_over_several_segments_is_indexed_once_where_it_ends(
    world: LogWorld,
) -> None:
    log = world.open()
    for sequence in range(3):
        log.append_as_leader(in_transaction(sequence), 0)
        log.roll()

    end_transaction(log, 7, commit=False)

    indexed = [len(segment.transaction_index.entries()) for segment in log.segments]
    assert indexed == [0, 0, 0, 1]
    [aborted] = log.aborted_transactions(0, 3)
    assert (aborted.first_offset, aborted.last_offset) == (0, 3)
    log.update_high_watermark(4)
    found = read(log, 0, isolation=FetchIsolation.TXN_COMMITTED)
    assert found.aborted_transactions == (aborted,)
    log.close()
    again = world.open(clean=False)
    assert again.aborted_transactions(0, 3) == (aborted,)


def test_truncation_below_an_open_transaction_ends_it(world: LogWorld) -> None:
    log = world.open()
    log.append_as_leader(batch(5), 0)
    log.append_as_leader(in_transaction(0), 0)
    log.append_as_leader(batch(5), 0)
    log.update_high_watermark(11)
    assert log.last_stable_offset == 5

    log.truncate_to(5)

    assert (log.last_stable_offset, log.high_watermark) == (5, 5)
    log.append_as_leader(batch(5), 0)
    log.update_high_watermark(10)
    assert log.last_stable_offset == 10
    log.append_as_leader(in_transaction(0), 0)
    log.truncate_fully_and_start_at(2)
    log.append_as_leader(batch(5), 0)
    log.update_high_watermark(7)
    assert log.last_stable_offset == 7


def test_deleted_segments_end_a_transaction_that_began_in_them(world: LogWorld) -> None:
    log = world.open()
    log.append_as_leader(in_transaction(0), 0)
    log.append_as_leader(batch(4), 0)
    log.roll()
    log.append_as_leader(batch(5), 0)
    log.update_high_watermark(10)
    assert log.last_stable_offset == 0

    log.delete_segments([next(iter(log.segments))], DeletionRule.TIME)

    assert (log.log_start_offset, log.last_stable_offset) == (5, 5)
    end_transaction(log, 7, commit=False)
    log.update_high_watermark(11)
    assert log.last_stable_offset == 11


def test_a_marker_without_a_transaction_aborts_nothing(world: LogWorld) -> None:
    log = world.open()

    end_transaction(log, 7, commit=False)

    assert log.active_segment.transaction_index.entries() == ()
    assert log.producers.entry(7).coordinator_epoch == 0


def test_replicas_index_the_same_aborted_transactions(world: LogWorld) -> None:
    leader = world.open()
    for producer_id in (7, 8):
        leader.append_as_leader(in_transaction(0, producer_id=producer_id), 0)
    for producer_id, commit in ((8, False), (7, False)):
        end_transaction(leader, producer_id, commit=commit)
    follower = LogWorld(world.directory.parent / "orders-1").open()
    segment = leader.active_segment

    follower.append_as_follower(segment.file.read(0, segment.size))

    ours = follower.active_segment.transaction_index.entries()
    assert ours == segment.transaction_index.entries()
    assert [(a.producer_id, a.last_stable_offset) for a in ours] == [(8, 0), (7, 4)]


def test_the_brokers_own_coordinator_needs_no_sequence(world: LogWorld) -> None:
    log = world.open()
    log.append_as_leader(sent(0), 0)

    log.append_as_leader(sent(50), 0, origin=AppendOrigin.COORDINATOR)

    assert log.log_end_offset == 2
