"""Assignments of replicas as values."""

from __future__ import annotations

import pytest
from typing_extensions import override

from kafka_common.model import ReplicaAssignment

IDLE = ReplicaAssignment((1, 2, 3))
MOVING = ReplicaAssignment((4, 2, 5, 3, 1), (5,), (1,))


@pytest.mark.parametrize(
    ("assignment", "is_moving", "target", "origin"),
    [
        (IDLE, False, (1, 2, 3), (1, 2, 3)),
        (ReplicaAssignment((4, 5, 1, 2), (4, 5), (1, 2)), True, (4, 5), (1, 2)),
        (ReplicaAssignment((1, 2, 3), (), (1, 2)), True, (3,), (1, 2, 3)),
        (ReplicaAssignment((4, 1, 2, 3), (4,), ()), True, (4, 1, 2, 3), (1, 2, 3)),
        (ReplicaAssignment((4, 1, 2), (4,), (2,)), True, (4, 1), (1, 2)),
    ],
)
def test_adding_and_removing_replicas_tell_where_a_partition_comes_from_and_goes(
    assignment: ReplicaAssignment,
    is_moving: bool,
    target: tuple[int, ...],
    origin: tuple[int, ...],
) -> None:
    assert assignment.is_being_reassigned is is_moving
    assert assignment.target_replicas == target
    assert assignment.origin_replicas == origin


@pytest.mark.parametrize(
    ("before", "target", "after"),
    [
        ((1, 2, 3, 4), (4, 2, 5, 3), ReplicaAssignment((4, 2, 5, 3, 1), (5,), (1,))),
        ((1, 2, 3), (4, 5, 6), ReplicaAssignment((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3))),
        ((1, 2, 3), (3, 1, 2), ReplicaAssignment((3, 1, 2))),
    ],
)
def test_target_replicas_come_first_and_a_new_order_alone_is_no_move(
    before: tuple[int, ...], target: tuple[int, ...], after: ReplicaAssignment
) -> None:
    assert ReplicaAssignment(before).reassign_to(target) == after


@pytest.mark.parametrize("assignment", [IDLE, MOVING], ids=["at rest", "moving"])
def test_to_move_to_where_it_goes_already_changes_nothing(assignment: ReplicaAssignment) -> None:
    assert assignment.reassign_to(assignment.target_replicas) == assignment


def test_another_target_drops_what_the_first_was_adding() -> None:
    assert MOVING.reassign_to((6, 2)) == ReplicaAssignment((6, 2, 4, 3, 1), (6,), (4, 3, 1))


class CountedId(int):
    """A broker id that counts how often it is compared."""

    comparisons = 0
    __hash__ = int.__hash__

    @override
    def __eq__(self, other: object) -> bool:
        CountedId.comparisons += 1
        return int(self) == other


def test_a_long_list_of_replicas_is_not_compared_with_itself() -> None:
    """A request may name as many as it has room for, and the controller does nothing else then."""
    target = [CountedId(broker_id) for broker_id in range(2_000)]

    assignment = ReplicaAssignment((1, 2)).reassign_to(target)

    assert len(assignment.adding_replicas) == 1_998
    assert CountedId.comparisons < 10 * len(target)
