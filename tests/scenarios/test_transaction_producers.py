"""Producers come with a transactional id: who gets what, and who is fenced.

Behaviours of Kafka's ``TransactionCoordinatorTest``.
"""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from replica_manager.coordinators.groups.events import Resigned
from replica_manager.coordinators.transactions import producers
from replica_manager.coordinators.transactions.requests import InitProducerIdResult
from replica_manager.coordinators.transactions.states import TransactionState
from replica_manager.coordinators.transactions.transaction import LAST_PRODUCER_EPOCH
from tests.scenarios.transaction_world import EPOCH, ID, A, B, World


def test_the_first_producer_gets_a_new_id_with_epoch_0() -> None:
    world = World()
    assert world.init() == InitProducerIdResult(ErrorCode.none, 1000, 0)
    assert world.logged == [TransactionState.EMPTY]


def test_each_further_producer_gets_the_next_epoch_and_fences_the_last() -> None:
    world = World()
    first = world.producer()
    assert world.producer() == (1000, 1)
    assert world.producer() == (1000, 2)
    assert world.add(first, A) is ErrorCode.producer_fenced
    assert world.end(first, is_commit=True) is ErrorCode.producer_fenced


def test_an_empty_id_and_timeouts_beyond_the_bounds_are_refused() -> None:
    world = World(max_timeout_ms=5_000)
    invalid = ErrorCode.invalid_transaction_timeout
    assert world.init(transactional_id="").error is ErrorCode.invalid_request
    assert world.init(timeout_ms=5_001).error is invalid
    assert world.init(timeout_ms=0).error is invalid
    assert world.init(timeout_ms=-1).error is invalid
    assert world.init(timeout_ms=5_000).error is ErrorCode.none


def test_who_does_not_have_the_partition_says_so() -> None:
    assert World(is_elected=False).init().error is ErrorCode.not_coordinator


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.unknown_topic_or_partition, ErrorCode.coordinator_not_available),
        (ErrorCode.not_enough_replicas, ErrorCode.coordinator_not_available),
        (ErrorCode.not_enough_replicas_after_append, ErrorCode.coordinator_not_available),
        (ErrorCode.request_timed_out, ErrorCode.coordinator_not_available),
        (ErrorCode.not_leader_or_follower, ErrorCode.not_coordinator),
        (ErrorCode.kafka_storage_error, ErrorCode.not_coordinator),
        (ErrorCode.message_too_large, ErrorCode.unknown_server_error),
        (ErrorCode.record_list_too_large, ErrorCode.unknown_server_error),
        (ErrorCode.corrupt_message, ErrorCode.corrupt_message),
    ],
)
def test_a_record_that_cannot_be_written_changes_nothing(error: ErrorCode, told: ErrorCode) -> None:
    world = World()
    world.append_error = error
    assert world.init() == InitProducerIdResult(told)
    world.append_error = ErrorCode.none
    assert world.init() == InitProducerIdResult(ErrorCode.none, 1000, 0)


def test_a_record_that_cannot_be_written_is_logged_in_kafkas_words() -> None:
    world = World()
    world.append_error = ErrorCode.not_enough_replicas
    world.init()

    [line] = [each.text for each in world.lines if "append transaction log" in each.text]
    assert "for TxnTransitMetadata(producerId=1000, lastProducerId=" in line
    assert "txnState=Empty, topicPartitions=Set(), txnStartTimestamp=" in line
    assert line.endswith(
        " transition failed due to COORDINATOR_NOT_AVAILABLE, resetting pending state from "
        "Some(Empty), aborting state transition and returning COORDINATOR_NOT_AVAILABLE in the "
        "callback"
    )


def test_a_coordinator_has_a_bound_on_transactional_ids_and_serves_those_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(producers, "MAX_TRANSACTIONAL_IDS", 1)
    world = World()
    world.init()

    refused = world.init(transactional_id="another")

    assert refused == InitProducerIdResult(ErrorCode.coordinator_not_available)
    assert world.init().error is ErrorCode.none


def test_without_a_producer_id_to_be_had_the_request_fails() -> None:
    world = World(is_elected=True)
    world.holds_producer_ids = True
    request_id = world.ask(world.init_request())
    world.give_producer_id(ErrorCode.coordinator_load_in_progress)
    assert world.results[request_id] == InitProducerIdResult(ErrorCode.coordinator_load_in_progress)


def test_two_that_wait_for_ids_do_not_make_the_same_transaction_twice() -> None:
    world = World()
    world.holds_producer_ids = True
    first, second = world.ask(world.init_request()), world.ask(world.init_request())
    world.give_producer_id()
    world.give_producer_id()
    assert world.results[first] == InitProducerIdResult(ErrorCode.none, 1000, 0)
    assert world.results[second] == InitProducerIdResult(ErrorCode.none, 1000, 1)


def test_while_one_is_being_written_another_must_retry() -> None:
    world = World()
    world.holds_appends = True
    first = world.ask(world.init_request())
    assert world.init().error is ErrorCode.concurrent_transactions
    world.release()
    assert world.results[first] == InitProducerIdResult(ErrorCode.none, 1000, 0)


def test_an_open_transaction_is_aborted_for_the_newcomer_who_asks_again() -> None:
    world = World()
    old = world.ongoing()
    assert world.init().error is ErrorCode.concurrent_transactions
    assert world.state() is TransactionState.PREPARE_ABORT
    assert world.end(old, is_commit=True) is ErrorCode.producer_fenced
    # The markers carry an epoch that no one has: the old producer is fenced at every partition.
    assert [(broker, m.producer_epoch, m.is_commit) for broker, m in world.markers] == [
        (1, 1, False),
        (2, 1, False),
    ]
    assert world.init().error is ErrorCode.concurrent_transactions
    world.answer_markers(1)
    world.answer_markers(2)
    assert world.state() is TransactionState.COMPLETE_ABORT
    assert world.init() == InitProducerIdResult(ErrorCode.none, 1000, 2)


def test_a_fence_that_could_not_be_written_does_not_raise_the_epoch_again() -> None:
    world = World()
    world.ongoing()
    world.append_error = ErrorCode.not_enough_replicas
    for _ in range(3):
        assert world.init().error is ErrorCode.coordinator_not_available
        assert world.transaction.producer_epoch == 1
    world.append_error = ErrorCode.none
    assert world.init().error is ErrorCode.concurrent_transactions
    assert world.transaction.producer_epoch == 1
    world.answer_markers(1)
    world.answer_markers(2)
    assert world.init() == InitProducerIdResult(ErrorCode.none, 1000, 2)


def test_a_producer_that_goes_on_after_an_error_gets_the_next_epoch_once() -> None:
    world = World()
    producer = world.producer()
    raised = world.init(producer)
    assert raised == InitProducerIdResult(ErrorCode.none, 1000, 1)
    # The answer was lost: it asks again, and gets the same one.
    assert world.init(producer) == raised
    # With that one it may go on again.
    assert world.init((1000, 1)) == InitProducerIdResult(ErrorCode.none, 1000, 2)
    assert world.init(producer).error is ErrorCode.producer_fenced


def test_a_producer_cannot_take_back_the_id_from_one_who_came_since() -> None:
    world = World()
    producer = world.producer()
    world.producer()
    assert world.init(producer).error is ErrorCode.producer_fenced
    assert world.init((999, 0)).error is ErrorCode.producer_fenced


def test_a_producer_that_is_unknown_here_starts_anew_whatever_it_believes() -> None:
    world = World()
    assert world.init((7, 3)) == InitProducerIdResult(ErrorCode.none, 1000, 0)


def test_exhausted_epochs_give_a_new_producer_id() -> None:
    world = World()
    world.producer()
    world.transaction.producer_epoch = LAST_PRODUCER_EPOCH - 1
    assert world.init() == InitProducerIdResult(ErrorCode.none, 1001, 0)
    assert world.transaction.last_producer_id == 1000


def test_exhausted_epochs_of_a_producer_that_goes_on() -> None:
    world = World()
    world.producer()
    world.transaction.producer_epoch = LAST_PRODUCER_EPOCH - 1
    old = (1000, LAST_PRODUCER_EPOCH - 1)
    assert world.init(old) == InitProducerIdResult(ErrorCode.none, 1001, 0)
    assert world.transaction.last_producer_epoch == LAST_PRODUCER_EPOCH - 1
    # The answer was lost: the old id is the last one, so it gets the new one again.
    assert world.init(old) == InitProducerIdResult(ErrorCode.none, 1001, 0)
    # Someone else comes; the old producer is a zombie now.
    assert world.init() == InitProducerIdResult(ErrorCode.none, 1001, 1)
    assert world.init(old).error is ErrorCode.producer_fenced


def test_the_last_epoch_is_kept_for_fencing() -> None:
    world = World()
    world.ongoing()
    world.transaction.producer_epoch = LAST_PRODUCER_EPOCH - 1
    assert world.init().error is ErrorCode.concurrent_transactions
    assert world.transaction.producer_epoch == LAST_PRODUCER_EPOCH
    world.answer_markers(1)
    world.answer_markers(2)
    assert world.init() == InitProducerIdResult(ErrorCode.none, 1001, 0)


def test_a_fence_with_the_last_epoch_that_could_not_be_written_is_tried_again() -> None:
    world = World()
    world.ongoing()
    world.transaction.producer_epoch = LAST_PRODUCER_EPOCH - 1
    world.append_error = ErrorCode.not_enough_replicas
    assert world.init().error is ErrorCode.coordinator_not_available
    world.append_error = ErrorCode.none
    assert world.init().error is ErrorCode.concurrent_transactions
    assert world.transaction.producer_epoch == LAST_PRODUCER_EPOCH
    world.answer_markers(1)
    world.answer_markers(2)
    assert world.init() == InitProducerIdResult(ErrorCode.none, 1001, 0)


def test_what_was_asked_before_the_partition_went_has_no_effect_after_it_came_back() -> None:
    world = World()
    world.holds_appends = True
    request_id = world.ask(world.init_request())
    world.step(Resigned(0, EPOCH + 1))
    world.elect(EPOCH + 2)
    world.release()
    assert world.results[request_id] == InitProducerIdResult(ErrorCode.not_coordinator)
    assert ID not in world.coordinator.owned[0].transactions


def test_partitions_of_two_topics_survive_a_new_producer_of_the_same_id() -> None:
    world = World()
    world.ongoing()
    assert list(world.transaction.partitions) == [A, B]
    world.init()
    world.answer_markers(1)
    world.answer_markers(2)
    world.producer()
    assert world.state() is TransactionState.EMPTY
    assert not world.transaction.partitions
