"""The throttle of moves: what it needs, what of it is taken away, and what stands beside it."""

from __future__ import annotations

from importlib import import_module
from random import Random
from typing import Any

import pytest

throttles: Any = import_module("zkcontroller_cli.values.throttles")
NamedPartition: Any = import_module("zkcontroller_cli.values.moves").NamedPartition

LEADERS, FOLLOWERS = throttles.TOPIC_KEYS
SEND, FETCH = throttles.LEADER_RATE, throttles.FOLLOWER_RATE


def orders(partition: int) -> Any:
    return NamedPartition("orders", partition)


def standing(
    topics: dict[str, dict[str, str]] | None = None,
    brokers: dict[int, dict[str, str]] | None = None,
) -> Any:
    return throttles.StandingThrottles(topics or {}, brokers or {})


def applied(standing_before: Any, edits: list[Any]) -> Any:
    """What stands after the edits."""
    topics = {topic: dict(keys) for topic, keys in standing_before.topics.items()}
    brokers = {broker: dict(keys) for broker, keys in standing_before.brokers.items()}
    for edit in edits:
        if edit.topic is not None:
            where = topics.setdefault(edit.topic, {})
        else:
            where = brokers.setdefault(edit.broker_id, {})
        assert where.get(edit.key) == edit.before
        if edit.value is None:
            del where[edit.key]
        else:
            where[edit.key] = edit.value
    return standing(topics, brokers)


@pytest.mark.parametrize(
    ("current", "adding", "target", "sources", "destinations"),
    [
        ((1, 2), (), (2, 3), {1, 2}, {3}),
        ((1, 2), (), (2, 1), {1, 2}, set()),
        ((1, 2), (), (1,), {1, 2}, set()),
        # Under way to 3; it goes on, or goes to 4 instead.
        ((3, 2, 1), (3,), None, {1, 2}, {3}),
        ((3, 2, 1), (3,), (2, 4), {1, 2}, {4}),
    ],
)
def test_old_replicas_send_and_new_ones_fetch(
    current: Any, adding: Any, target: Any, sources: set[int], destinations: set[int]
) -> None:
    assert throttles.moving_replicas(current, adding, target) == (sources, destinations)


def test_a_throttle_is_two_lists_on_the_topic_and_two_rates_on_each_broker() -> None:
    moving = {
        orders(10): throttles.moving_replicas((1, 2), (), (2, 3)),
        orders(9): throttles.moving_replicas((1,), (), (2,)),
    }

    edits = throttles.throttle_edits(moving, standing(), 1000)

    assert {(e.topic, e.broker_id, e.key, e.value) for e in edits} == {
        # Sorted as text, as Kafka's tool does it.
        ("orders", None, LEADERS, "10:1,10:2,9:1"),
        ("orders", None, FOLLOWERS, "10:3,9:2"),
        *((None, broker, key, "1000") for broker in (1, 2, 3) for key in (SEND, FETCH)),
    }


def test_what_stands_stays_and_is_not_sent_again() -> None:
    before = standing(
        {"orders": {LEADERS: "7:5", FOLLOWERS: "*"}},
        {1: {SEND: "1000", FETCH: "500"}},
    )
    moving = {orders(0): throttles.moving_replicas((1,), (), (2,))}

    edits = throttles.throttle_edits(moving, before, 1000)

    assert [(each.where, each.key, each.before, each.value) for each in edits] == [
        ("topic orders", LEADERS, "7:5", "0:1,7:5"),
        ("broker 1", FETCH, "500", "1000"),
        ("broker 2", SEND, None, "1000"),
        ("broker 2", FETCH, None, "1000"),
    ]


def test_moves_without_a_copy_leave_no_empty_list() -> None:
    moving = {orders(0): throttles.moving_replicas((1, 2), (), (2, 1))}

    edits = throttles.throttle_edits(moving, standing(), 1000)

    assert FOLLOWERS not in {each.key for each in edits}


@pytest.mark.parametrize("seed", range(100))
def test_whatever_waves_a_plan_runs_in_its_throttle_is_gone_at_the_end(seed: int) -> None:
    random = Random(seed)
    own = {orders(n): (1, 2) for n in range(random.randint(1, 6))}
    foreign = {
        key: ",".join(f"{n}:{random.randint(1, 9)}" for n in range(20, 20 + random.randint(0, 3)))
        for key in (LEADERS, FOLLOWERS)
    }
    before = standing({"orders": {key: value for key, value in foreign.items() if value}})
    now, left = before, list(own)
    ended: set[Any] = set()
    while left:
        wave = [left.pop() for _ in range(random.randint(1, len(left)))]
        moving = {each: throttles.moving_replicas((1, 2), (), (2, 3)) for each in wave}
        now = applied(now, throttles.throttle_edits(moving, now, 1000, ended=ended))
        pairs = set(now.topics["orders"][FOLLOWERS].split(","))
        assert {f"{each.partition}:3" for each in wave} <= pairs
        assert not {f"{each.partition}:3" for each in ended} & pairs
        ended |= set(wave)

    removal = throttles.removal_of(set(own), set(), now)
    now = applied(now, removal.edits)

    assert now.topics == before.topics or (now.topics, before.topics) == ({"orders": {}}, {})
    assert not any(now.brokers.values())
    assert (removal.waiting, removal.foreign) == ([], [])


def test_rates_stay_while_others_are_being_moved_and_every_replica_is_no_moves_own() -> None:
    now = standing({"orders": {LEADERS: "0:1,1:1", FOLLOWERS: "*"}}, {1: {SEND: "9", FETCH: "9"}})

    removal = throttles.removal_of({orders(0)}, {orders(1)}, now)

    assert [(each.key, each.value) for each in removal.edits] == [(LEADERS, "1:1")]
    assert removal.waiting[-1].endswith("1 other partitions are being moved, orders-1 among them")
    assert removal.foreign == [
        f"topic orders: {FOLLOWERS}=* names every replica, and is no move's own"
    ]


def test_the_partitions_that_a_broker_sends_are_found_in_the_lists() -> None:
    now = standing({"orders": {LEADERS: "0:1,1:2,x:1", FOLLOWERS: "3:1"}, "none": {}})

    assert throttles.partitions_throttled_from(now, 1) == {orders(0)}


def test_each_left_over_has_the_command_that_takes_it_away() -> None:
    edit = throttles.ConfigEdit

    commands = [
        throttles.removal_command(each)
        for each in (
            edit(None, 3, SEND, "9", None),
            edit("orders", None, LEADERS, "0:1,1:1", "1:1"),
        )
    ]

    assert commands == [
        f"zkctl config unset broker 3 --key {SEND}",
        f"zkctl config set topic orders --config {LEADERS}=1:1",
    ]
