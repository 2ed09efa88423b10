"""States of partitions from what brokers wrote of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafka_history.rules.event import Event
from kafka_history.rules.partition_states import State, deposed, partition_states, topic_ends
from kafka_history.rules.tenures import Tenure, tenures
from tests.support.event_rows import START_MS, event, row
from tests.support.partition_rows import created, events_of, online, shrunk

TP = ("orders", 0)


def states_of(events: Sequence[Event], held: Sequence[Tenure] = ()) -> list[State]:
    """Of the one partition that the events are about."""
    ends = deposed(held)
    its = [each for each in events if each.partition is not None]
    return list(partition_states(its, ends, topic_ends(events, ends)))


def test_what_a_deposed_controller_says_of_partitions_is_not_believed() -> None:
    events = events_of(
        created(1_000, 9, 1, TP, [1, 2]),
        online(6_000, 8, 2, TP, 2, 1, [2, 1], 1),
        online(20_000, 9, 1, TP, 1, 9, [1], 9),  # the zombie
    )
    elections = [
        event("ctl-elected", at_ms, broker, controller_id=broker, controller_epoch=epoch)
        for at_ms, broker, epoch in ((0, 9, 1), (5_000, 8, 2))
    ]

    found = states_of(events, list(tenures(elections, {})))

    assert [(each.leader, each.leader_epoch) for each in found] == [(1, 0), (2, 1)]


def test_a_topic_that_was_deleted_and_created_again_is_another_incarnation() -> None:
    found = states_of(
        events_of(
            created(1_000, 9, 1, TP, [1]),
            shrunk(5_020, 9, 1, TP, -1, 6, [1], 8, removed=1),
            row("delete-completed", 5_100, 9, topic="orders"),
            created(9_000, 9, 1, TP, [2]),
        )
    )

    assert [
        (each.incarnation, each.number, each.leader_epoch, each.is_deleted) for each in found
    ] == [(1, 1, 0, False), (1, 2, 6, False), (1, 3, None, True), (2, 1, 0, False)]


def test_a_shrink_of_a_deletion_that_the_next_controller_sends_is_of_the_deletion() -> None:
    """As on Kafka 2.4, whose controller does not log it."""
    sent: dict[str, Any] = {"topic": TP[0], "partition": TP[1], "leader": -1, "leader_epoch": 2}

    found = states_of(
        events_of(
            created(1_000, 9, 1, TP, [1, 2]),
            row("partition-state", 5_000, 9, topic=TP[0], partition=TP[1],
                from_state="OfflinePartition", to_state="NonExistentPartition"),
            row("send-lisr-partition", 9_000, 8, isr=[1], zk_version=2, **sent),
            row("delete-completed", 12_000, 8, topic="orders"),
        )
    )  # fmt: skip

    assert [(each.time_ms - START_MS, each.isr, each.is_deleted) for each in found] == [
        (1_005, [1, 2], False),
        (5_000, [1], False),
        (5_000, None, True),
    ]


def test_a_write_is_one_state_however_many_lines_tell_it_and_in_whatever_order() -> None:
    found = states_of(
        events_of(
            created(1_000, 9, 1, TP, [1, 2]),
            row("um-cached", 1_900, 3, topic=TP[0], partition=TP[1], leader=1, leader_epoch=2,
                isr=[1], zk_version=2, replicas=[1, 2]),  # its clock is slow
            online(2_000, 9, 1, TP, 2, 1, [2], 1),
            online(2_500, 9, 1, TP, 1, 2, [1], 2),
        )
    )  # fmt: skip

    assert [(each.zk_version, each.kind, each.replicas, each.previous_isr) for each in found] == [
        (0, "partition-online", None, None),
        (1, "partition-online", None, [1, 2]),
        (2, "partition-online", [1, 2], [2]),
    ]


def test_an_epoch_that_an_old_version_left_out_is_not_that_of_another_leader() -> None:
    found = states_of(
        events_of(
            online(2_000, 9, 1, TP, 1, 4, [1], 4),
            # What broker 2 was elected with is not in these logs.
            row("isr-updated", 9_000, 2, topic=TP[0], partition=TP[1], isr=[2, 1], zk_version=8),
            online(12_000, 9, 1, TP, 1, 7, [1, 2], 11),
        )
    )

    assert [(each.leader, each.leader_epoch, each.is_epoch_told) for each in found] == [
        (1, 4, True), (2, None, False), (1, 7, True),
    ]  # fmt: skip


def test_an_isr_that_is_intended_and_then_written_is_one_state_with_its_version() -> None:
    """As a leader of Kafka 2.4 logs it, which writes to ZooKeeper by itself."""
    where: dict[str, Any] = {"topic": TP[0], "partition": TP[1]}
    found = states_of(
        events_of(
            created(1_000, 9, 1, TP, [1]),
            row("isr-expanding", 2_000, 1, isr=[1, 2], **where),
            row("isr-updated", 2_005, 1, isr=[1, 2], zk_version=1, **where),
            row("isr-shrinking", 3_000, 1, isr=[1], **where),
        )
    )

    assert [(each.time_ms - START_MS, each.isr, each.zk_version) for each in found] == [
        (1_005, [1], 0),
        (2_000, [1, 2], 1),
        (3_000, [1], None),
    ]


def test_a_leader_may_log_its_epoch_when_the_next_one_is_written() -> None:
    found = states_of(
        events_of(
            created(1_000, 9, 1, TP, [1, 2]),
            online(2_000, 9, 1, TP, 2, 1, [1, 2], 1),
            online(2_010, 9, 1, TP, 2, 2, [2], 2),
            row("leader-starts", 2_020, 2, topic=TP[0], partition=TP[1], leader_epoch=1),
        )
    )

    assert [(each.leader_epoch, each.isr) for each in found] == [
        (0, [1, 2]), (1, [1, 2]), (2, [2]),
    ]  # fmt: skip
