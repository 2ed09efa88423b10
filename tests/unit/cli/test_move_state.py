"""How far moves are, what begins next, and what a plan copies."""

from __future__ import annotations

from importlib import import_module
from random import Random
from typing import Any

import pytest

state: Any = import_module("zkcontroller_cli.values.move_state")
moves: Any = import_module("zkcontroller_cli.values.moves")
Status: Any = state.MoveStatus


def orders(partition: int = 0) -> Any:
    return moves.NamedPartition("orders", partition)


def move(*replicas: int, partition: int = 0, log_dirs: tuple[str, ...] = ()) -> Any:
    return moves.Move("orders", partition, replicas, log_dirs)


def one(planned: Any, current: Any, ongoing: Any = None, placements: Any = None) -> tuple[Any, Any]:
    known = {} if current is None else {orders(): current}
    under_way = {} if ongoing is None else {orders(): state.OngoingMove(*ongoing)}
    [found] = state.progress_of([planned], known, under_way, placements or {})
    return found.status, found.reason


@pytest.mark.parametrize(
    ("current", "ongoing", "status", "reason"),
    [
        ((2, 3), None, "done", None),
        # The order counts: the first replica is the preferred leader.
        ((3, 2), None, "not_as_planned", "it is on 3,2, and nothing moves it"),
        ((1, 2), None, "not_as_planned", "it is on 1,2, and nothing moves it"),
        ((2, 3, 1), ((2, 3, 1), (3,), (1,)), "in_progress", None),
        ((2, 3), ((2, 3, 1), (3,), (1,)), "in_progress", None),
        ((4, 2, 1), ((4, 2, 1), (4,), (1,)), "moving_elsewhere", "it is being moved to 4,2"),
        (None, None, "missing", "there is no such partition"),
    ],
)
def test_a_move_is_where_the_cluster_has_it(
    current: Any, ongoing: Any, status: str, reason: str | None
) -> None:
    assert one(move(2, 3), current, ongoing) == (status, reason)


@pytest.mark.parametrize(
    ("placement", "status", "reason"),
    [
        (("/b",), "done", None),
        (("/a", "/b"), "in_progress", "the replica on 3 is being moved to /b"),
        (("/a", "/c"), "not_as_planned", "is being moved to /c, not to /b"),
        (("/a",), "not_as_planned", "the replica on 3 is not in /b: /a"),
        ((None, None, "broker 3: not alive"), "not_as_planned", "not in /b: broker 3: not alive"),
        (None, "not_as_planned", "not in /b: in no live log directory"),
    ],
)
def test_a_move_to_a_log_directory_is_done_when_the_replica_is_there(
    placement: Any, status: str, reason: str | None
) -> None:
    placed = {} if placement is None else {(3, orders()): state.Placement(*placement)}

    found = one(move(2, 3, log_dirs=("any", "/b")), (2, 3), None, placed)

    assert found[0] == status
    assert found[1] is None if reason is None else reason in found[1]


@pytest.mark.parametrize("seed", range(200))
def test_waves_never_exceed_their_size_and_reach_every_move(seed: int) -> None:
    random = Random(seed)
    plan = [move(2, 3, partition=n) for n in range(random.randint(1, 12))]
    at_once = random.randint(1, 4)
    current = {orders(n): (1, 2) for n in range(len(plan))}
    ongoing: dict[Any, Any] = {}
    # Some have moved already, or are under way, as after a start that was interrupted.
    for each in plan:
        if random.random() < 0.2:
            current[each.name] = (2, 3)
        elif random.random() < 0.2 and len(ongoing) < at_once:
            ongoing[each.name] = state.OngoingMove((2, 3, 1), (3,), (1,))
    begun: list[Any] = []
    for _ in range(200):
        progress = state.progress_of(plan, current, ongoing, {})
        wave = state.next_moves(progress, at_once)
        for each in wave:
            ongoing[each.name] = state.OngoingMove((2, 3, 1), (3,), (1,))
            begun.append(each.name)
        assert len(ongoing) <= at_once
        if ongoing and (len(ongoing) == at_once or not wave):
            ended = random.choice(sorted(ongoing))
            del ongoing[ended]
            current[ended] = (2, 3)

    assert len(set(begun)) == len(begun)
    assert {each.status for each in state.progress_of(plan, current, ongoing, {})} == {"done"}


def test_without_a_limit_all_begin_and_those_left_out_do_not() -> None:
    plan = [move(2, 3, partition=n) for n in range(4)]
    current = {orders(0): (2, 3), orders(1): (1, 2), orders(2): (1, 2)}

    progress = state.progress_of(plan, current, {}, {})

    assert [m.partition for m in state.next_moves(progress, None)] == [1, 2]
    left_out = frozenset({orders(1)})
    assert [m.partition for m in state.next_moves(progress, None, left_out=left_out)] == [2]
    assert state.counted(progress) == "4 moves: 1 done, 2 not as planned, 1 missing"


def test_what_is_copied_goes_from_leaders_to_new_replicas() -> None:
    wanted = {orders(0): (2, 3, 4), orders(1): (2, 1), orders(2): (5,), orders(3): (1, 2)}
    current = {orders(0): (1, 2), orders(1): (1, 2), orders(2): (1,), orders(3): (1,)}
    leaders = {orders(n): 1 for n in range(4)}

    found = state.estimate(wanted, current, leaders, {orders(0): 100, orders(2): 30})

    assert found == (230, {3: 100, 4: 100, 5: 30}, {1: 230}, 1)
    assert found.seconds_at(10) == 23.0


def test_a_broker_without_room_is_named() -> None:
    assert state.too_full({1: 100, 2: 10, 3: 5}, {1: 99, 2: 10}) == {1: (100, 99)}
