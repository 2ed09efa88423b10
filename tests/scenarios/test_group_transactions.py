"""Offsets that are committed in transactions: when they count, and who may commit them.

Behaviours of Kafka's ``GroupCoordinatorTest`` and ``GroupMetadataManagerTest``.
"""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from replica_manager.coordinators.groups.events import Elected, LoadFinished, TransactionCompleted
from replica_manager.coordinators.groups.requests import TransactionalProducer
from tests.scenarios.group_world import GROUP, ORDERS_0, ORDERS_1, GroupWorld

FIRST = TransactionalProducer(70, 0)
SECOND = TransactionalProducer(71, 4)


@pytest.fixture
def world() -> GroupWorld:
    return GroupWorld()


def end(world: GroupWorld, producer: TransactionalProducer, *, is_commit: bool) -> None:
    partition = world.coordinator.partition_for(GROUP)
    world.step(TransactionCompleted(producer.producer_id, frozenset({partition}), is_commit))


def test_an_offset_counts_when_its_transaction_is_committed(world: GroupWorld) -> None:
    assert world.commit(1) == "none"
    assert world.commit(2, producer=FIRST) == "none"

    assert world.committed() == (1, "none")
    assert world.committed(stable=True) == (-1, "unstable_offset_commit")
    end(world, FIRST, is_commit=True)
    assert world.committed(stable=True) == (2, "none")


def test_an_offset_of_an_aborted_transaction_never_was(world: GroupWorld) -> None:
    assert world.commit(2, producer=FIRST) == "none"
    end(world, FIRST, is_commit=False)
    assert world.committed(stable=True) == (-1, "none")
    end(world, FIRST, is_commit=True)
    assert world.committed(stable=True) == (-1, "none")


def test_batches_of_offsets_have_a_sequence_and_others_have_none(world: GroupWorld) -> None:
    """Kafka cannot compact a batch of a transaction without one."""
    world.is_holding_appends = True
    world.commit(1)
    world.commit(2, producer=FIRST)
    assert [each.base_sequence for each in world.appends] == [0, 0]
    world.finish_all()

    [member] = world.consumers("a")
    member.join()
    world.pass_ms(10_000)
    member.sync()
    assert [each.base_sequence for each in world.appends] == [-1]


def test_an_offset_of_no_producer_counts_at_once(world: GroupWorld) -> None:
    """Such a request reaches the group where transactions are not verified."""
    assert world.commit(5, producer=TransactionalProducer(-1, -1)) == "none"
    assert world.committed(stable=True) == (5, "none")
    assert not world.coordinator.producers


def test_transactions_of_two_producers_end_on_their_own(world: GroupWorld) -> None:
    world.commit(1, producer=FIRST)
    world.commit(2, ORDERS_1, producer=SECOND)
    end(world, SECOND, is_commit=True)
    assert world.committed(ORDERS_1, stable=True) == (2, "none")
    assert world.committed(stable=True) == (-1, "unstable_offset_commit")
    end(world, FIRST, is_commit=True)
    assert world.committed(stable=True) == (1, "none")


def test_a_commit_behind_it_in_the_log_wins_over_a_transactional_one(world: GroupWorld) -> None:
    world.commit(5, producer=FIRST)
    world.commit(7)
    end(world, FIRST, is_commit=True)
    assert world.committed() == (7, "none")


def test_a_marker_elsewhere_changes_nothing(world: GroupWorld) -> None:
    world.commit(5, producer=FIRST)
    elsewhere = (world.coordinator.partition_for(GROUP) + 1) % 5
    world.step(TransactionCompleted(70, frozenset({elsewhere}), is_commit=True))
    assert world.committed(stable=True) == (-1, "unstable_offset_commit")


def test_an_offset_that_could_not_be_written_is_not_pending(world: GroupWorld) -> None:
    world.append_error = ErrorCode.not_enough_replicas
    assert world.commit(5, producer=FIRST) == "coordinator_not_available"
    assert world.committed(stable=True) == (-1, "none")
    end(world, FIRST, is_commit=True)
    assert world.committed(stable=True) == (-1, "none")


def test_a_producer_none_of_whose_offsets_could_be_written_is_forgotten(world: GroupWorld) -> None:
    assert world.commit(5, producer=SECOND) == "none"
    world.append_error = ErrorCode.not_enough_replicas
    world.commit(6, ORDERS_1, producer=FIRST)
    world.commit(6, ORDERS_1, producer=SECOND)
    assert list(world.coordinator.producers) == [SECOND.producer_id]
    end(world, SECOND, is_commit=True)
    assert not world.coordinator.producers
    assert world.committed(stable=True) == (5, "none")


def test_a_marker_may_be_answered_before_the_offset_it_commits(world: GroupWorld) -> None:
    world.is_holding_appends = True
    assert world.commit(5, producer=FIRST) == "waiting"
    assert world.committed(stable=True) == (-1, "unstable_offset_commit")
    end(world, FIRST, is_commit=True)
    assert world.committed(stable=True) == (-1, "unstable_offset_commit")
    world.finish_all()
    assert world.committed(stable=True) == (5, "none")


def test_a_marker_of_an_abort_may_be_answered_first_too(world: GroupWorld) -> None:
    world.is_holding_appends = True
    world.commit(5, producer=FIRST)
    end(world, FIRST, is_commit=False)
    world.finish_all()
    assert world.committed(stable=True) == (-1, "none")


def test_a_marker_while_the_partition_is_loaded_counts_afterwards() -> None:
    world = GroupWorld()
    world.commit(5, producer=FIRST)
    other = GroupWorld(partitions=())
    other.log = world.log
    other.is_holding_loads = True
    partition = other.coordinator.partition_for(GROUP)
    other.step(Elected(partition, 1))
    [load] = other.loads
    end(other, FIRST, is_commit=True)
    other.read(load)
    other.step(LoadFinished(load.load_id))
    assert other.committed(stable=True) == (5, "none")


def test_an_open_transaction_is_open_for_the_next_coordinator(world: GroupWorld) -> None:
    world.commit(5, producer=FIRST)
    other = GroupWorld(partitions=())
    other.log = world.log
    other.step(Elected(other.coordinator.partition_for(GROUP), 1))
    assert other.committed(stable=True) == (-1, "unstable_offset_commit")
    end(other, FIRST, is_commit=True)
    assert other.committed(stable=True) == (5, "none")


def test_a_partition_that_goes_takes_its_pending_offsets_along(world: GroupWorld) -> None:
    world.commit(5, producer=FIRST)
    world.resign(GROUP)
    end(world, FIRST, is_commit=True)
    assert world.committed() == (-1, "not_coordinator")


def test_members_are_fenced_also_in_transactions(world: GroupWorld) -> None:
    [a] = world.consumers("a")
    world.stable(a)

    def commit(generation_id: int, member_id: str) -> str:
        return world.commit(5, producer=FIRST, generation_id=generation_id, member_id=member_id)

    assert commit(a.generation_id, a.member_id) == "none"
    assert commit(a.generation_id + 1, a.member_id) == "illegal_generation"
    assert commit(a.generation_id, "somebody") == "unknown_member_id"
    # Producers of before KIP-447 do not say whose offsets they commit.
    assert commit(-1, "") == "none"


def test_a_member_of_an_unknown_group_is_unknown(world: GroupWorld) -> None:
    assert world.commit(5, producer=FIRST, generation_id=3, member_id="a") == "unknown_member_id"


def test_a_group_without_a_name_has_no_transactions(world: GroupWorld) -> None:
    assert world.commit(5, producer=FIRST, group_id="") == "invalid_group_id"
    assert world.committed(ORDERS_0) == (-1, "none")
