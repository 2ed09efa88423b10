"""A coordinator refuses a change that contradicts its state, with ``python -O`` too."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafka_common.errors import IllegalState
from replica_manager.coordinators.groups.group import GroupMetadata, GroupState
from replica_manager.coordinators.transactions.states import TransactionState
from replica_manager.coordinators.transactions.transaction import LAST_PRODUCER_EPOCH, Transaction


def producer(state: TransactionState = TransactionState.EMPTY, epoch: int = 0) -> Transaction:
    return Transaction("payments", 7, 1_000, 0, producer_epoch=epoch, state=state)


def complete_unprepared() -> None:
    transaction = producer()
    transit = transaction.prepare_partitions((), 1)
    transaction.complete(transit)
    transaction.complete(transit)


def complete_for_another_producer() -> None:
    transaction = producer()
    transaction.complete(transaction.prepare_partitions((), 1)._replace(producer_id=8))


def complete_a_death() -> None:
    transaction = producer()
    transaction.complete(transaction.prepare_death())


def prepare_twice() -> None:
    transaction = producer()
    transaction.prepare_partitions((), 1)
    transaction.prepare_death()


@pytest.mark.parametrize(
    "change",
    [
        lambda: producer(epoch=LAST_PRODUCER_EPOCH).prepare_epoch_fence(),
        lambda: producer(epoch=LAST_PRODUCER_EPOCH - 1).prepare_epoch_increment(1, None, 1),
        lambda: producer(epoch=-1).prepare_partitions((), 1),
        lambda: producer().prepare_end(TransactionState.PREPARE_COMMIT, 1),
        lambda: producer().has_marker(None),  # type: ignore[arg-type]
        complete_unprepared,
        complete_for_another_producer,
        complete_a_death,
        prepare_twice,
    ],
)
def test_a_transactional_id_refuses_a_change_that_contradicts_it(
    change: Callable[[], object],
) -> None:
    with pytest.raises(IllegalState, match="payments"):
        change()


def test_a_group_refuses_a_state_that_may_not_follow_its_own() -> None:
    group = GroupMetadata("billing", 0)

    with pytest.raises(IllegalState, match="Group billing cannot become Stable: it is Empty"):
        group.transition_to(GroupState.STABLE, 1)

    assert group.state is GroupState.EMPTY
