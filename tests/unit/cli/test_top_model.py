"""What ``zkctl top`` makes of two readings: all that happened between them, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from random import Random
from typing import Any, Final
from uuid import UUID

import pytest

from kafka_common.model import NO_LEADER, ReplicaAssignment
from zkcontroller.zookeeper.znodes import PartitionStateZnode

model: Any = import_module("zkcontroller_cli.screen.model")
rows: Any = import_module("zkcontroller_cli.screen.rows")
view_of: Any = import_module("zkcontroller_cli.znodes.partitions").PartitionView
controller_of: Any = import_module("zkcontroller_cli.znodes.cluster_view").ControllerView

ORDERS: Final = UUID(int=1)
ANOTHER: Final = UUID(int=2)
NAME: Final = ("orders", 0)


def partition(
    leader: int = 1,
    epoch: int = 4,
    isr: tuple[int, ...] = (1, 2),
    assignment: ReplicaAssignment | None = None,
    name: tuple[str, int] = NAME,
    live: tuple[int, ...] = (1, 2, 3),
) -> Any:
    state = PartitionStateZnode(leader, epoch, isr, 7)
    held = ReplicaAssignment((1, 2)) if assignment is None else assignment
    return view_of(*name, held, state, 0, leader in live)


def broker(broker_id: int, epoch: int = 10) -> Any:
    return model.BrokerNow(broker_id, "host", 9092, None, epoch, 1_000)


def reading(at_ms: int = 1_000, *, partitions: Any = None, **parts: Any) -> Any:
    """Brokers 1 to 3, 1 the controller; topic orders with one partition led by 1."""
    known = {NAME: partition()} if partitions is None else partitions
    given = {
        "source": "ZooKeeper",
        "controller": controller_of(1, 5, 5, 900, "0x1"),
        "brokers": {each: broker(each) for each in (1, 2, 3)},
        "topics": {"orders": ORDERS},
        "partitions": known,
        "deletions": {},
    }
    return model.Reading(at_ms, **{**given, **parts})


def said(before: Any, after: Any) -> list[tuple[str, str, str]]:
    return [(str(c.kind), c.what, c.text) for c in model.changes(before, after)]


HAPPENED: Final[Mapping[str, tuple[Any, Any, list[tuple[str, str, str]]]]] = {
    "another controller": (
        reading(),
        reading(controller=controller_of(2, 6, 6, 950, "0x2")),
        [("controller", "controller", "1 → 2, epoch 5 → 6")],
    ),
    "no controller": (
        reading(),
        reading(controller=controller_of(None, 5, 5, None, None)),
        [("controller", "controller", "1 → none")],
    ),
    "a controller at last": (
        reading(controller=controller_of(None, 5, 5, None, None)),
        reading(controller=controller_of(3, 6, 6, 950, "0x2")),
        [("controller", "controller", "none → 3, epoch 5 → 6")],
    ),
    "the same controller again": (
        reading(),
        reading(controller=controller_of(1, 6, 6, 950, "0x2")),
        [("controller", "controller", "1 elected again, epoch 5 → 6")],
    ),
    "a broker is gone": (
        reading(),
        reading(brokers={1: broker(1), 2: broker(2)}),
        [("broker", "broker 3", "gone")],
    ),
    "a broker has come": (
        reading(brokers={1: broker(1)}),
        reading(brokers={1: broker(1), 2: broker(2)}),
        [("broker", "broker 2", "registered")],
    ),
    "a broker was gone and has come": (
        reading(brokers={1: broker(1, epoch=10)}),
        reading(brokers={1: broker(1, epoch=20)}),
        [("broker", "broker 1", "gone and registered again")],
    ),
    "a leader is elected": (
        reading(),
        reading(partitions={NAME: partition(leader=2, epoch=5, isr=(2,))}),
        [
            ("leader", "orders-0", "leader 1 → 2, epoch 4 → 5"),
            ("isr", "orders-0", "ISR 1,2 → 2"),
        ],
    ),
    "no leader is left": (
        reading(),
        reading(partitions={NAME: partition(leader=NO_LEADER, epoch=5)}),
        [("leader", "orders-0", "leader 1 → none, epoch 4 → 5")],
    ),
    "several elections": (
        reading(),
        reading(partitions={NAME: partition(epoch=8)}),
        [("leader", "orders-0", "leader 1 stays, epoch 4 → 8")],
    ),
    "the ISR grows": (
        reading(partitions={NAME: partition(isr=(1,))}),
        reading(),
        [("isr", "orders-0", "ISR 1 → 1,2")],
    ),
    "a topic is created": (
        reading(topics={}, partitions={}),
        reading(),
        [("topic", "orders", "created, 1 partition")],
    ),
    "a topic is deleted": (
        reading(),
        reading(topics={}, partitions={}),
        [("topic", "orders", "deleted")],
    ),
    "a topic is another one": (
        reading(),
        reading(topics={"orders": ANOTHER}, partitions={NAME: partition(leader=3, epoch=0)}),
        [("topic", "orders", "deleted and created again, 1 partition")],
    ),
    "a topic has more partitions": (
        reading(),
        reading(partitions={NAME: partition(), ("orders", 1): partition(name=("orders", 1))}),
        [("topic", "orders", "2 partitions, had 1")],
    ),
    "a deletion is ordered": (
        reading(),
        reading(deletions={"orders": 950}),
        [("deletion", "orders", "deletion ordered")],
    ),
    "a deletion is no longer ordered": (
        reading(deletions={"orders": 950}),
        reading(),
        [("deletion", "orders", "deletion no longer ordered, the topic stands")],
    ),
    "a topic whose deletion was ordered is gone": (
        reading(deletions={"orders": 950}),
        reading(topics={}, partitions={}),
        [("topic", "orders", "deleted")],
    ),
    "a reassignment begins": (
        reading(),
        reading(partitions={NAME: partition(assignment=ReplicaAssignment((3, 1, 2), (3,), (2,)))}),
        [("move", "orders-0", "reassignment: adding 3, removing 2")],
    ),
    "a reassignment ends": (
        reading(partitions={NAME: partition(assignment=ReplicaAssignment((3, 1, 2), (3,), (2,)))}),
        reading(partitions={NAME: partition(assignment=ReplicaAssignment((3, 1)))}),
        [("move", "orders-0", "reassigned: replicas 3,1")],
    ),
    "a reassignment is cancelled": (
        reading(partitions={NAME: partition(assignment=ReplicaAssignment((3, 1, 2), (3,), (2,)))}),
        reading(),
        [("move", "orders-0", "reassignment ended otherwise: replicas 1,2")],
    ),
    "a reassignment was too quick to be seen": (
        reading(),
        reading(partitions={NAME: partition(assignment=ReplicaAssignment((3, 2)))}),
        [("move", "orders-0", "replicas 1,2 → 3,2")],
    ),
}


@pytest.mark.parametrize("case", HAPPENED)
def test_what_happened_is_said_once(case: str) -> None:
    before, after, expected = HAPPENED[case]

    assert said(before, after) == expected


SILENCE: Final[Mapping[str, tuple[Any, Any]]] = {
    "nothing happened": (reading(), reading(2_000)),
    "the ISR is the same in another order": (
        reading(),
        reading(partitions={NAME: partition(isr=(2, 1))}),
    ),
    "ZooKeeper was silent": (reading(), model.Reading(2_000)),
    "ZooKeeper speaks again": (model.Reading(1_000), reading()),
    "a state became corrupt": (
        reading(),
        reading(partitions={NAME: partition()._replace(state=None, leader_is_live=False)}),
    ),
    "a topic's znode became corrupt": (reading(), reading(partitions={})),
    "a broker's cache says otherwise than ZooKeeper": (
        reading(),
        reading(source="brokers", partitions={NAME: partition(leader=2, epoch=3, isr=(2,))}),
    ),
    "brokers do not tell the epoch of a controller": (
        reading(),
        reading(controller=controller_of(1, None, None, None, None)),
    ),
    "brokers do not tell their epochs": (
        reading(),
        reading(brokers={each: model.BrokerNow(each, "host", 9092) for each in (1, 2, 3)}),
    ),
}


@pytest.mark.parametrize("case", SILENCE)
def test_nothing_is_said_of_what_did_not_happen(case: str) -> None:
    before, after = SILENCE[case]

    assert said(before, after) == []


def test_every_change_of_many_partitions_is_found_and_no_other() -> None:
    random = Random(1)
    names = [(f"topic-{number % 50}", number // 50) for number in range(5_000)]
    before = {name: partition(name=name) for name in names}
    changed = set(random.sample(names, 700))
    after = {
        name: partition(leader=2, epoch=5, name=name) if name in changed else view
        for name, view in before.items()
    }
    topics = {f"topic-{number}": UUID(int=number + 1) for number in range(50)}

    found = model.changes(
        reading(partitions=before, topics=topics), reading(partitions=after, topics=topics)
    )

    assert {change.what for change in found} == {f"{topic}-{each}" for topic, each in changed}
    assert len(found) == len(changed)


def test_the_time_of_a_change_is_that_of_the_later_reading() -> None:
    found = model.changes(reading(1_000), reading(3_000, brokers={}))

    assert {change.at_ms for change in found} == {3_000}


def test_the_loss_of_a_leader_a_broker_or_the_controller_is_marked() -> None:
    after = reading(
        brokers={1: broker(1), 2: broker(2)},
        controller=controller_of(None, 5, 5, None, None),
        partitions={NAME: partition(leader=NO_LEADER, epoch=5, isr=(1,))},
    )

    assert all(change.is_bad for change in model.changes(reading(), after))
    assert not any(change.is_bad for change in model.changes(after, reading()))


MOVING: Final = ReplicaAssignment((3, 1, 2), (3,), (2,))


def moving(at_ms: int, copied: int, total: int = 1_000, isr: tuple[int, ...] = (1, 2)) -> Any:
    return reading(
        at_ms,
        partitions={NAME: partition(isr=isr, assignment=MOVING)},
        moving_bytes={(1, NAME): total, (3, NAME): copied},
    )


def test_a_move_shows_what_is_copied_how_fast_and_what_time_is_left() -> None:
    [move] = model.moves(moving(3_000, 600), moving(1_000, 200))

    assert (move.copied_bytes, move.total_bytes) == (600, 1_000)
    assert move.bytes_per_s == 200.0
    assert move.remaining_s == 2.0


def test_a_replica_in_sync_is_copied_whatever_its_log_says() -> None:
    [move] = model.moves(moving(3_000, 10, isr=(1, 2, 3)))

    assert (move.copied_bytes, move.total_bytes, move.in_sync) == (1_000, 1_000, 1)


def test_a_replica_has_never_more_than_its_leader() -> None:
    [move] = model.moves(moving(3_000, 5_000))

    assert move.copied_bytes == move.total_bytes == 1_000


def test_a_move_that_stands_still_has_no_time_left() -> None:
    [move] = model.moves(moving(3_000, 200), moving(1_000, 200))

    assert move.bytes_per_s == 0.0
    assert move.remaining_s is None


@pytest.mark.parametrize("missing", [(1, NAME), (3, NAME)])
def test_a_move_whose_sizes_are_not_known_shows_no_bytes(missing: Any) -> None:
    now = moving(3_000, 600)
    known = {key: size for key, size in now.moving_bytes.items() if key != missing}

    [move] = model.moves(replace(now, moving_bytes=known), moving(1_000, 200))

    assert (move.copied_bytes, move.total_bytes, move.bytes_per_s) == (None, None, None)


def test_a_move_to_other_replicas_is_not_compared_with_the_one_before() -> None:
    before = reading(
        partitions={NAME: partition(assignment=ReplicaAssignment((4, 1, 2), (4,), (2,)))},
        moving_bytes={(1, NAME): 1_000, (4, NAME): 0},
    )

    [move] = model.moves(moving(3_000, 600), before)

    assert move.bytes_per_s is None


def test_logs_grow_by_the_difference_of_two_sizes() -> None:
    before = reading(1_000, sizes={1: {NAME: 100}, 2: {NAME: 900}, 3: {}})
    after = reading(3_000, sizes={1: {NAME: 500}, 2: {NAME: 100}})

    assert model.growth(after, before) == {1: 200.0, 2: -400.0}
    assert model.growth(before, before) == {}


def group(lag: int | None, partitions: int = 3, name: str = "billing") -> Any:
    return model.GroupNow(name, 1, "Stable", "consumer", partitions, lag)


def test_a_lag_is_compared_only_over_the_same_partitions() -> None:
    before = reading(1_000, groups=[group(100), group(5, name="other"), group(1, name="none")])
    after = reading(
        3_000, groups=[group(50), group(90, partitions=4, name="other"), group(None, name="none")]
    )

    assert model.lag_rates(after, before) == {"billing": -25.0}


def test_a_part_that_is_not_read_stays_as_it_was_and_is_named() -> None:
    monitor = model.Monitor()
    monitor.take(reading(1_000))

    found = monitor.take(model.Reading(2_000, problems=("ZooKeeper: it is silent",)))

    assert found == []
    assert monitor.latest.partitions == reading().partitions
    assert monitor.latest.source == "ZooKeeper"
    assert monitor.latest.problems == ("ZooKeeper: it is silent",)
    assert monitor.stale["partitions"] == 1_000
    monitor.take(model.Reading(3_000))
    assert monitor.stale["partitions"] == 1_000
    monitor.take(reading(4_000))
    assert "partitions" not in monitor.stale


def test_what_happened_while_zookeeper_was_silent_is_found_afterwards() -> None:
    monitor = model.Monitor()
    monitor.take(reading(1_000))
    monitor.take(model.Reading(2_000))

    found = monitor.take(reading(3_000, partitions={NAME: partition(leader=2, epoch=5)}))

    assert [change.text for change in found] == ["leader 1 → 2, epoch 4 → 5"]


def test_what_brokers_reported_while_zookeeper_was_silent_is_not_said_again() -> None:
    monitor = model.Monitor()
    elected = {NAME: partition(leader=2, epoch=5)}
    shrunk = {NAME: partition(leader=2, epoch=5, isr=(2,))}
    monitor.take(reading(1_000))
    monitor.take(reading(2_000, source="brokers"))
    monitor.take(reading(3_000, source="brokers", partitions=elected))

    monitor.take(reading(4_000, partitions=shrunk))

    assert [change.text for change in monitor.log] == ["leader 1 → 2, epoch 4 → 5", "ISR 1,2 → 2"]


def test_the_remaining_time_is_worked_out_over_the_window() -> None:
    monitor = model.Monitor()
    for second in range(5):
        monitor.take(moving(second * 1_000, second * 100))

    [move] = monitor.moves

    assert (move.bytes_per_s, move.remaining_s) == (100.0, 6.0)


def test_the_log_is_bounded_and_counts_what_it_leaves_out() -> None:
    names = [("orders", number) for number in range(model.CHANGES_A_READING + 20)]
    monitor = model.Monitor()
    monitor.take(reading(1_000, partitions={name: partition(name=name) for name in names}))

    found = monitor.take(
        reading(2_000, partitions={n: partition(leader=2, epoch=5, name=n) for n in names})
    )

    assert len(found) == len(names)
    assert len(monitor.log) == model.CHANGES_A_READING + 1
    assert monitor.log[-1].what == "20 more"
    assert monitor.log[-1].text == "20 of kind leader"
    assert monitor.log.maxlen == model.CHANGES_KEPT


def test_partitions_are_counted_by_state_broker_and_topic() -> None:
    partitions = {
        ("a", 0): partition(name=("a", 0)),
        ("a", 1): partition(leader=2, name=("a", 1)),
        ("a", 2): partition(isr=(1,), name=("a", 2)),
        ("b", 0): partition(leader=9, isr=(9,), name=("b", 0)),
        ("b", 1): partition(assignment=MOVING, isr=(1, 2), name=("b", 1)),
        ("b", 2): partition(name=("b", 2))._replace(state=None, leader_is_live=False),
    }

    counted = rows.census(
        reading(partitions=partitions, sizes={1: {("a", 0): 7}, 2: {("a", 0): 3}})
    )

    assert counted.states == (6, 2, 3, 2, 1)
    assert counted.troubles == {
        ("a", 1): "not preferred",
        ("a", 2): "under-replicated",
        ("b", 0): "offline, under-replicated",
        ("b", 1): "not preferred, reassigning",
        ("b", 2): "offline, under-replicated",
    }
    one = counted.brokers[1]
    assert (one.leaders, one.replicas, one.out_of_sync, one.preferred) == (3, 6, 2, 5)
    assert counted.topics["a"].bytes == 10
    assert counted.topics["b"].bytes is None
    assert (counted.topics["b"].replication_factor, counted.topics["b"].offline) == (3, 2)


def test_a_broker_that_is_gone_and_has_replicas_is_listed() -> None:
    monitor = model.Monitor()
    monitor.take(reading(5_000, brokers={2: broker(2)}))

    listed = rows.broker_rows(monitor, rows.census(monitor.latest))

    assert [(row["broker_id"], row["is_alive"], row["session_age_ms"]) for row in listed] == [
        (1, False, None),
        (2, True, 4_000),
    ]


def test_what_was_not_read_is_null_in_the_record() -> None:
    monitor = model.Monitor()
    monitor.take(model.Reading(5_000))

    shown = rows.record(monitor, rows.census(monitor.latest))

    counts = {key: value for key, value in shown.items() if key.endswith("_count")}
    assert set(counts.values()) == {None}
    assert shown["deletions"] is shown["groups"] is shown["tenure_ms"] is None
