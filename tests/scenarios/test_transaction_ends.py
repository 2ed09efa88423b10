"""Partitions join transactions, and transactions end.

Behaviours of Kafka's ``TransactionCoordinatorTest`` and ``TransactionMarkerChannelManagerTest``.
"""

from __future__ import annotations

from typing import Final

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.model import TopicPartition
from replica_manager.coordinators.groups.events import Resigned
from replica_manager.coordinators.transactions.config import (
    MARKER_RETRY_MS,
    MAX_MARKERS_PER_REQUEST,
)
from replica_manager.coordinators.transactions.events import Marker
from replica_manager.coordinators.transactions.markers import NO_LEADER
from replica_manager.coordinators.transactions.requests import (
    AddPartitions,
    EndTransaction,
    ErrorResult,
)
from replica_manager.coordinators.transactions.states import TransactionState
from tests.scenarios.transaction_world import EPOCH, ID, TIMEOUT_MS, A, B, World

C = TopicPartition("payments", 7)
_STATES_OF_A_COMMIT: Final = [
    TransactionState.EMPTY,
    TransactionState.ONGOING,
    TransactionState.PREPARE_COMMIT,
    TransactionState.COMPLETE_COMMIT,
]


def test_a_commit_from_end_to_end() -> None:
    world = World()
    producer = world.ongoing()
    assert world.end(producer, is_commit=True) is ErrorCode.none
    assert world.markers == [
        (1, Marker(1000, 0, EPOCH, True, (A,))),
        (2, Marker(1000, 0, EPOCH, True, (B,))),
    ]
    world.answer_markers(2)
    assert world.state() is TransactionState.PREPARE_COMMIT
    assert list(world.transaction.partitions) == [A]
    world.answer_markers(1)
    assert world.logged == _STATES_OF_A_COMMIT
    assert world.state() is TransactionState.COMPLETE_COMMIT
    # The next one begins with the next partition.
    assert world.add(producer, A) is ErrorCode.none
    assert world.state() is TransactionState.ONGOING


def test_partitions_join_one_after_the_other_and_twice_without_a_record() -> None:
    world = World()
    producer = world.producer()
    assert world.add(producer, A) is ErrorCode.none
    assert world.add(producer, B) is ErrorCode.none
    assert list(world.transaction.partitions) == [A, B]
    began_ms = world.transaction.start_ms
    world.pass_ms(10)
    written = len(world.log)
    assert world.add(producer, B, A) is ErrorCode.none
    assert len(world.log) == written
    assert world.add(producer, C) is ErrorCode.none
    assert len(world.log) == written + 1
    assert world.transaction.start_ms == began_ms


def test_who_may_not_add_or_end() -> None:
    world = World()
    producer_id, epoch = producer = world.producer()
    for add in (True, False):

        def ask(given: tuple[int, int], transactional_id: str = ID, add: bool = add) -> ErrorCode:
            request_id = world.new_request_id()
            if add:
                asked = AddPartitions(request_id, transactional_id, *given, (A,))
                return world.answer(asked, ErrorResult).error
            ending = EndTransaction(request_id, transactional_id, *given, True)
            return world.answer(ending, ErrorResult).error

        assert ask(producer, "") is ErrorCode.invalid_request
        assert ask(producer, "unknown") is ErrorCode.invalid_producer_id_mapping
        assert ask((producer_id + 1, epoch)) is ErrorCode.invalid_producer_id_mapping
        assert ask((producer_id, epoch + 1)) is ErrorCode.producer_fenced
        assert ask((producer_id, epoch - 1)) is ErrorCode.producer_fenced
    nobody = World(is_elected=False)
    assert nobody.add(producer, A) is ErrorCode.not_coordinator
    assert nobody.end(producer, is_commit=True) is ErrorCode.not_coordinator


def test_nothing_else_begins_while_a_change_is_being_written() -> None:
    world = World()
    producer = world.producer()
    world.holds_appends = True
    added = world.ask(world.add_request(producer, A))
    assert world.add(producer, B) is ErrorCode.concurrent_transactions
    assert world.end(producer, is_commit=True) is ErrorCode.concurrent_transactions
    assert world.init().error is ErrorCode.concurrent_transactions
    world.release()
    assert world.results[added] == ErrorResult(ErrorCode.none)
    assert list(world.transaction.partitions) == [A]


def test_while_markers_are_written_nothing_is_added() -> None:
    world = World()
    producer = world.ongoing()
    world.end(producer, is_commit=True)
    assert world.add(producer, C) is ErrorCode.concurrent_transactions
    assert world.init().error is ErrorCode.concurrent_transactions


def test_ends_that_are_asked_again() -> None:
    world = World()
    producer = world.producer()
    for is_commit in (True, False):
        other = not is_commit
        assert world.add(producer, A, B) is ErrorCode.none
        assert world.end(producer, is_commit=is_commit) is ErrorCode.none
        # Kafka looks at what is pending first: the completion is.
        assert world.end(producer, is_commit=is_commit) is ErrorCode.concurrent_transactions
        assert world.end(producer, is_commit=other) is ErrorCode.concurrent_transactions
        world.answer_markers(1)
        world.answer_markers(2)
        assert world.end(producer, is_commit=is_commit) is ErrorCode.none
        assert world.end(producer, is_commit=other) is ErrorCode.invalid_txn_state
    assert world.init().error is ErrorCode.none
    assert world.end((1000, 1), is_commit=True) is ErrorCode.invalid_txn_state


def test_an_end_that_could_not_be_written_may_be_asked_again() -> None:
    world = World()
    producer = world.ongoing()
    world.append_error = ErrorCode.request_timed_out
    assert world.end(producer, is_commit=True) is ErrorCode.coordinator_not_available
    assert world.state() is TransactionState.ONGOING
    assert not world.markers
    world.append_error = ErrorCode.none
    assert world.end(producer, is_commit=False) is ErrorCode.none


def test_verification_tells_each_partition() -> None:
    world = World()
    producer_id, epoch = producer = world.producer()
    assert world.add(producer, A) is ErrorCode.none
    abortable = ErrorCode.transaction_abortable
    assert world.verify(producer, A, B) == {A: ErrorCode.none, B: abortable}
    assert world.verify((producer_id, epoch + 1), A) == {A: ErrorCode.producer_fenced}
    mapping = ErrorCode.invalid_producer_id_mapping
    assert world.verify((producer_id + 1, epoch), A, B) == {A: mapping, B: mapping}
    world.end(producer, is_commit=True)
    assert world.verify(producer, A) == {A: ErrorCode.concurrent_transactions}
    world.answer_markers(1)
    assert world.verify(producer, A) == {A: abortable}


# Markers.


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_leader_or_follower,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.request_timed_out,
        ErrorCode.kafka_storage_error,
        ErrorCode.cluster_authorization_failed,
    ],
)
def test_a_marker_that_failed_is_sent_to_the_leader_of_that_time(error: ErrorCode) -> None:
    world = World()
    producer = world.ongoing()
    world.end(producer, is_commit=True)
    world.answer_markers(1, {A: error})
    assert [broker for broker, _ in world.markers] == [2]
    world.leaders[A] = 3
    world.pass_ms(MARKER_RETRY_MS)
    assert world.markers[-1] == (3, Marker(1000, 0, EPOCH, True, (A,)))
    world.answer_markers(2)
    world.answer_markers(3)
    assert world.state() is TransactionState.COMPLETE_COMMIT


def test_a_marker_is_sent_again_after_a_lost_connection() -> None:
    world = World()
    producer = world.ongoing()
    world.end(producer, is_commit=False)
    world.lose_markers(1)
    world.answer_markers(2)
    assert not world.markers
    world.pass_ms(MARKER_RETRY_MS)
    assert world.markers == [(1, Marker(1000, 0, EPOCH, False, (A,)))]
    world.answer_markers(1)
    assert world.state() is TransactionState.COMPLETE_ABORT


def test_a_partition_that_is_gone_or_holds_no_transactions_needs_no_marker() -> None:
    world = World()
    producer = world.ongoing()
    del world.leaders[B]
    world.end(producer, is_commit=True)
    assert [marker.partitions for _, marker in world.markers] == [(A,)]
    world.answer_markers(1, {A: ErrorCode.unsupported_for_message_format})
    assert world.state() is TransactionState.COMPLETE_COMMIT


def test_a_transaction_whose_partitions_are_all_gone_completes_at_once() -> None:
    world = World()
    producer = world.ongoing()
    world.leaders.clear()
    assert world.end(producer, is_commit=True) is ErrorCode.none
    assert world.logged == _STATES_OF_A_COMMIT


def test_a_partition_without_leader_waits_for_one() -> None:
    world = World()
    producer = world.ongoing()
    world.leaders[A] = NO_LEADER
    world.end(producer, is_commit=True)
    world.answer_markers(2)
    assert world.coordinator.markers.without_leader_count == 1
    world.pass_ms(10 * MARKER_RETRY_MS)
    assert not world.markers
    world.leaders[A] = 2
    world.pass_ms(MARKER_RETRY_MS)
    world.answer_markers(2)
    assert world.state() is TransactionState.COMPLETE_COMMIT
    assert world.coordinator.markers.without_leader_count == 0


@pytest.mark.parametrize(
    "error", [ErrorCode.invalid_producer_epoch, ErrorCode.transaction_coordinator_fenced]
)
def test_a_coordinator_that_was_superseded_sends_no_more(error: ErrorCode) -> None:
    world = World()
    producer = world.ongoing()
    world.end(producer, is_commit=True)
    world.answer_markers(1, {A: error})
    world.answer_markers(2)
    world.pass_ms(10 * MARKER_RETRY_MS)
    assert not world.markers
    assert world.state() is TransactionState.PREPARE_COMMIT


def test_a_completion_is_written_until_it_is_there() -> None:
    world = World()
    producer = world.ongoing()
    world.end(producer, is_commit=True)
    world.append_error = ErrorCode.not_enough_replicas
    world.answer_markers(1)
    world.answer_markers(2)
    assert world.coordinator.markers.unwritten_count == 1
    [line] = [each.text for each in world.lines if "append transaction log" in each.text]
    assert line.endswith(
        "not resetting pending state Some(CompleteCommit) but just returning the error in the "
        "callback to let the caller retry"
    )
    # Nothing can begin meanwhile.
    assert world.init().error is ErrorCode.concurrent_transactions
    world.pass_ms(5 * MARKER_RETRY_MS)
    assert world.state() is TransactionState.PREPARE_COMMIT
    world.append_error = ErrorCode.none
    world.pass_ms(MARKER_RETRY_MS)
    assert world.logged == _STATES_OF_A_COMMIT


def test_one_broker_gets_one_request_at_a_time_and_no_endless_one() -> None:
    world = World()
    world.leaders |= {B: 1}
    ids = [f"id-{number}" for number in range(MAX_MARKERS_PER_REQUEST + 2)]
    for transactional_id in ids:
        result = world.init(transactional_id=transactional_id)
        producer = result.producer_id, result.producer_epoch
        add = AddPartitions(world.new_request_id(), transactional_id, *producer, (A,))
        world.answer(add, ErrorResult)
        end = EndTransaction(world.new_request_id(), transactional_id, *producer, True)
        world.answer(end, ErrorResult)
    sizes = []
    while world.sent:
        sizes.append(len(world.sent[0].markers))
        world.answer_markers(1)
    assert sizes == [1, MAX_MARKERS_PER_REQUEST, 1]


def test_a_partition_that_goes_takes_its_markers_with_it() -> None:
    world = World()
    producer = world.ongoing()
    world.end(producer, is_commit=True)
    world.step(Resigned(0, EPOCH + 1))
    world.answer_markers(1)
    world.lose_markers(2)
    world.pass_ms(10 * MARKER_RETRY_MS)
    assert not world.markers
    assert world.logged[-1] is TransactionState.PREPARE_COMMIT


# Timeouts.


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced() -> None:
    world = World()
    producer = world.ongoing()
    world.pass_ms(TIMEOUT_MS - 10_000)
    assert world.state() is TransactionState.ONGOING
    world.pass_ms(20_000)
    assert world.state() is TransactionState.PREPARE_ABORT
    assert [m.producer_epoch for _, m in world.markers] == [1, 1]
    world.answer_markers(1)
    world.answer_markers(2)
    assert world.state() is TransactionState.COMPLETE_ABORT
    assert world.end(producer, is_commit=True) is ErrorCode.producer_fenced


def test_an_abort_after_a_timeout_that_fails_is_tried_again_under_the_same_epoch() -> None:
    world = World(abort_timed_out_interval_ms=1_000)
    world.ongoing()
    world.append_error = ErrorCode.not_enough_replicas
    world.pass_ms(TIMEOUT_MS + 10_000)
    assert world.state() is TransactionState.ONGOING
    assert world.transaction.producer_epoch == 1
    world.append_error = ErrorCode.none
    world.pass_ms(1_000)
    assert world.state() is TransactionState.PREPARE_ABORT
    assert world.transaction.producer_epoch == 1


def test_what_is_not_open_does_not_time_out() -> None:
    world = World()
    producer = world.ongoing()
    world.end(producer, is_commit=True)
    world.answer_markers(1)
    world.answer_markers(2)
    world.pass_ms(10 * TIMEOUT_MS)
    assert world.logged == _STATES_OF_A_COMMIT
