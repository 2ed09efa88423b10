"""Plans of replicas: legal, as even as can be, and beside the best plan that brute force finds."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from itertools import combinations, product
from operator import add
from random import Random
from typing import Any, Final

import pytest

planner: Any = import_module("zkcontroller_cli.moving.replica_planner")
moves: Any = import_module("zkcontroller_cli.values.moves")
Mode: Final = planner.PlanMode
Goal: Final = planner.Goal

Current = dict[Any, tuple[int, ...]]
Racks = dict[int, str | None]


def orders(*replicas: tuple[int, ...]) -> Current:
    return {moves.NamedPartition("orders", n): each for n, each in enumerate(replicas)}


def after(current: Current, racks: Racks, goal: Any) -> Current:
    return {**current, **planner.plan_replicas(current, racks, goal).replicas}


def moved(before: Current, now: Current) -> int:
    return sum(len(set(now[p]) - set(before[p])) for p in before)


def loads(assignment: Current, brokers: Any) -> list[int]:
    counts = Counter(broker for replicas in assignment.values() for broker in replicas)
    return [counts[broker] for broker in brokers]


def squares(values: Any) -> int:
    return sum(value * value for value in values)


def is_spread(replicas: tuple[int, ...], racks: Racks) -> bool:
    """Whether no rack could give a replica to another one with two fewer."""
    sizes, held = Counter(racks.values()), Counter(racks[b] for b in replicas)
    return all(
        held[one] - held[other] < 2 or held[other] == sizes[other]
        for one, other in product(sizes, sizes)
    )


def random_cluster(random: Random, *, partitions: int, brokers: int) -> tuple[Current, Racks]:
    ids = list(range(1, brokers + 1))
    racks: Racks = {b: random.choice("ab" if random.random() < 0.5 else "abc") for b in ids}
    if random.random() < 0.4:
        racks = dict.fromkeys(ids)
    # Few of the brokers hold the most, as after brokers were added.
    popular = ids[: random.randint(2, brokers)]
    return orders(
        *(
            tuple(random.sample(popular, random.randint(1, min(3, len(popular)))))
            for _ in range(random.randint(1, partitions))
        )
    ), racks


def best_plans(
    current: Current, allowed: Any, brokers: Any
) -> tuple[tuple[int, int], list[Current]]:
    """The most even load and the fewest moves for it, and every assignment that has both.

    Tries all of them, partition by partition.  Of those that load the brokers alike so far, only
    the ones with the fewest moves go on: none of the others can become the best one.
    """
    ids = sorted(brokers)
    reached: dict[tuple[int, ...], tuple[int, list[tuple[tuple[int, ...], ...]]]]
    reached = {(0,) * len(ids): (0, [()])}
    for replicas in current.values():
        choices = [
            (each, tuple(map(each.__contains__, ids)), len(set(each) - set(replicas)))
            for each in combinations(ids, len(replicas))
            if allowed(replicas, each)
        ]
        before, reached = reached, {}
        for counts, (moves, picked) in before.items():
            for each, added, copies in choices:
                load = tuple(map(add, counts, added))
                fewest, plans = reached.get(load, (moves + copies, []))
                if moves + copies <= fewest:
                    kept = plans if moves + copies == fewest else []
                    reached[load] = moves + copies, [*kept, *((*one, each) for one in picked)]
    key = min((squares(load), moves) for load, (moves, _) in reached.items())
    return key, [
        dict(zip(current, each, strict=True))
        for load, (moves, plans) in reached.items()
        if (squares(load), moves) == key
        for each in plans
    ]


@pytest.mark.parametrize("seed", range(150))
def test_a_balance_is_as_even_as_brute_force_with_as_few_moves(seed: int) -> None:
    current, racks = random_cluster(Random(seed), partitions=4, brokers=5)

    now = after(current, racks, Goal(Mode.BALANCE))

    key, _ = best_plans(current, lambda _before, each: is_spread(each, racks), racks)
    assert (squares(loads(now, racks)), moved(current, now)) == key


@pytest.mark.parametrize("seed", range(100))
def test_leaders_are_as_even_as_the_replicas_allow(seed: int) -> None:
    current, racks = random_cluster(Random(seed), partitions=5, brokers=4)

    now = after(current, racks, Goal(Mode.BALANCE))

    led = Counter(replicas[0] for replicas in now.values())
    assert squares(led.values()) == min(
        squares(Counter(picked).values()) for picked in product(*now.values())
    )


@pytest.mark.parametrize("seed", range(100))
@pytest.mark.parametrize("mode", ["balance", "drain", "add", "replication-factor"])
def test_every_plan_is_legal(seed: int, mode: str) -> None:
    random = Random(seed)
    current, racks = random_cluster(random, partitions=30, brokers=7)
    goal = {
        "balance": Goal(Mode.BALANCE),
        "drain": Goal(Mode.DRAIN, frozenset(random.sample(list(racks), 2))),
        "add": Goal(Mode.ADD, frozenset({7})),
        "replication-factor": Goal(Mode.REPLICATION_FACTOR, frozenset(), random.randint(1, 4)),
    }[mode]

    planned = planner.plan_replicas(current, racks, goal).replicas

    now = {**current, **planned}
    for partition, replicas in now.items():
        assert len(replicas) == (goal.replication_factor or len(current[partition]))
        assert len(set(replicas)) == len(replicas)
        assert set(replicas) <= set(racks)
        assert planned.get(partition) != current[partition]
        if mode == "balance":
            assert is_spread(replicas, racks)
    if mode == "drain":
        assert all(not goal.brokers & set(replicas) for replicas in now.values())
        assert moved(current, now) == sum(
            len(goal.brokers & set(replicas)) for replicas in current.values()
        )
    if mode == "add":
        assert all(set(now[p]) - set(current[p]) <= {7} for p in now)
    if mode == "replication-factor":
        assert all(len(replicas) == goal.replication_factor for replicas in now.values())
        for partition, replicas in current.items():
            kept = set(replicas) & set(now[partition])
            assert len(kept) == min(len(replicas), goal.replication_factor)


@pytest.mark.parametrize("seed", range(20))
def test_without_racks_replicas_and_leaders_differ_by_one_at_most(seed: int) -> None:
    random = Random(seed)
    ids = list(range(1, 8))
    current = orders(*(tuple(random.sample(ids[:4], 3)) for _ in range(60)))

    now = after(current, dict.fromkeys(ids), Goal(Mode.BALANCE))

    held = loads(now, ids)
    led = Counter(replicas[0] for replicas in now.values())
    assert max(held) - min(held) <= 1
    assert max(led.values()) - min(led[b] for b in ids) <= 1


def test_a_drained_brokers_replicas_go_to_a_rack_without_one() -> None:
    racks: Racks = {1: "a", 2: "b", 3: "c", 4: "c"}

    now = after(orders((3, 1, 2)), racks, Goal(Mode.DRAIN, frozenset({3})))

    assert set(now[moves.NamedPartition("orders", 0)]) == {1, 2, 4}


def test_a_dead_broker_is_drained_and_a_dead_replica_elsewhere_stays() -> None:
    racks: Racks = dict.fromkeys((1, 2, 3))

    now = after(orders((9, 1), (8, 2)), racks, Goal(Mode.DRAIN, frozenset({9})))

    first, second = now.values()
    assert set(first) in ({1, 2}, {1, 3})
    assert second == (8, 2)


@pytest.mark.parametrize(
    ("goal", "reason"),
    [
        (Goal(Mode.BALANCE), "orders-0 has a replica on broker 9, which is not alive"),
        (Goal(Mode.ADD, frozenset({4})), "not alive: broker 4"),
        (Goal(Mode.REPLICATION_FACTOR, frozenset(), 5), "needs 5 replicas, and 4 brokers may"),
        (Goal(Mode.DRAIN, frozenset({1, 2})), "orders-0 needs 3 replicas, and 2 brokers may"),
    ],
)
def test_what_cannot_be_is_named(goal: Any, reason: str) -> None:
    with pytest.raises(planner.CannotPlan, match=reason):
        planner.plan_replicas(orders((1, 2, 9)), dict.fromkeys((1, 2, 3)), goal)


def test_a_cluster_that_is_even_is_left_alone() -> None:
    current = orders((1, 2), (2, 3), (3, 1))

    assert (
        planner.plan_replicas(current, dict.fromkeys((1, 2, 3)), Goal(Mode.BALANCE)).replicas == {}
    )


def test_a_search_that_is_ended_gives_a_legal_plan_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    current, racks = orders(*[(1, 2)] * 20), dict.fromkeys((1, 2, 3, 4))
    whole = planner.plan_replicas(current, racks, Goal(Mode.BALANCE))
    monkeypatch.setattr(planner, "MOST_STEPS", 0)

    plan = planner.plan_replicas(current, racks, Goal(Mode.BALANCE))

    assert whole.is_best
    assert not plan.is_best
    assert all(len(set(replicas)) == 2 for replicas in plan.replicas.values())


@pytest.mark.parametrize("seed", range(60))
def test_a_drain_copies_what_must_go_alone_and_is_as_even_as_brute_force(seed: int) -> None:
    random = Random(seed)
    ids = [1, 2, 3, 4, 5]
    current = orders(*(tuple(random.sample(ids, random.randint(1, 2))) for _ in range(4)))
    gone = frozenset({random.choice(ids)})

    now = after(current, dict.fromkeys(ids), Goal(Mode.DRAIN, gone))

    # Each of these copies as much: what was on the broker that is drained.
    key, _ = best_plans(
        current,
        lambda before, each: set(before) - gone <= set(each) and not gone & set(each),
        ids,
    )
    stay = [broker for broker in ids if broker not in gone]
    assert (squares(loads(now, stay)), moved(current, now)) == key


@pytest.mark.parametrize("seed", range(60))
def test_a_balance_on_some_brokers_is_as_even_as_brute_force_with_as_few_moves(seed: int) -> None:
    random = Random(seed)
    ids = [1, 2, 3, 4, 5]
    current = orders(*(tuple(random.sample(ids, random.randint(1, 2))) for _ in range(4)))
    to = frozenset(random.sample(ids, 3))

    now = after(current, dict.fromkeys(ids), Goal(Mode.BALANCE, receivers=to))

    key, _ = best_plans(current, lambda _before, _after: True, to)
    assert (squares(loads(now, to)), moved(current, now)) == key
    assert all(set(replicas) <= to for replicas in now.values())


def test_a_drain_and_a_replication_factor_may_name_their_receivers() -> None:
    racks: Racks = dict.fromkeys((1, 2, 3, 4, 5))
    current = orders((1, 2), (2, 1), (3, 1))

    drained = after(current, racks, Goal(Mode.DRAIN, frozenset({1}), receivers=frozenset({4, 5})))
    grown = after(current, racks, Goal(Mode.REPLICATION_FACTOR, frozenset(), 3, frozenset({5})))

    assert all(set(now) - set(was) <= {4, 5} for was, now in zip(
        current.values(), drained.values(), strict=True))  # fmt: skip
    assert [set(replicas) for replicas in grown.values()] == [{1, 2, 5}, {1, 2, 5}, {1, 3, 5}]


@pytest.mark.parametrize(
    ("goal", "reason"),
    [
        (Goal(Mode.DRAIN, frozenset({1}), receivers=frozenset({9})), "not alive: broker 9"),
        (Goal(Mode.BALANCE, receivers=frozenset({2})), "orders-0 needs 2 replicas, and 1 brokers"),
        (
            Goal(Mode.DRAIN, frozenset({1}), receivers=frozenset({2})),
            "orders-0 needs 2 replicas, and 1 brokers",
        ),
    ],
)
def test_receivers_that_cannot_take_the_replicas_are_named(goal: Any, reason: str) -> None:
    with pytest.raises(planner.CannotPlan, match=reason):
        planner.plan_replicas(orders((1, 2)), dict.fromkeys((1, 2, 3)), goal)


@pytest.mark.parametrize("part", range(8))
def test_a_balance_copies_as_few_bytes_as_the_best_of_the_plans_with_as_few_moves(
    part: int,
) -> None:
    state: Any = import_module("zkcontroller_cli.values.move_state")
    for seed in range(5 * part, 5 * part + 5):
        random = Random(seed)
        ids = [1, 2, 3, 4]
        current = orders(*(tuple(random.sample(ids[:3], 2)) for _ in range(5)))
        sizes = {each: random.randint(1, 100) for each in current}
        leaders = {each: replicas[0] for each, replicas in current.items()}
        planned = planner.plan_replicas(current, dict.fromkeys(ids), Goal(Mode.BALANCE), sizes)
        now = {**current, **planned.replicas}

        def size_of(
            plan: Current, of: Current = current, sizes: Any = sizes, leaders: Any = leaders
        ) -> int:
            return int(state.estimate(plan, of, leaders, sizes).total_bytes)

        key, alike = best_plans(current, lambda _before, _after: True, ids)
        assert (squares(loads(now, ids)), moved(current, now)) == key
        assert size_of(now) == min(map(size_of, alike))
