"""Who left and joined in-sync replicas, and storms of it."""

from __future__ import annotations

from kafka_history.rules.isr_changes import InSyncChange, isr_changes, isr_storms
from kafka_history.rules.partition_states import partition_states
from tests.support.event_rows import START_MS, row
from tests.support.partition_rows import created, events_of, online


def changes_of(number: int, *, leader: int) -> list[InSyncChange]:
    """The leader takes follower 3 out; then the controller elects another leader."""
    tp = "wide", number
    events = events_of(
        created(1_000, 9, 1, tp, [leader, 3]),
        row("ctl-isr-updated", 120_000 + number, 9, topic=tp[0], partition=tp[1], leader=leader,
            leader_epoch=0, isr=[leader], zk_version=1),
        online(300_000, 9, 1, tp, 3, 1, [3], 2),
    )  # fmt: skip
    return list(isr_changes(partition_states(events, {}, {})))


def test_what_raises_the_leader_epoch_was_the_controllers_decision() -> None:
    assert [(each.change, each.broker, each.by) for each in changes_of(0, leader=1)] == [
        ("shrink", 3, "leader"), ("shrink", 1, "controller"), ("expand", 3, "controller"),
    ]  # fmt: skip


def test_a_storm_names_the_follower_that_is_common_to_it() -> None:
    changes = [each for n in range(25) for each in changes_of(n, leader=1 + n % 2)]

    (storm,) = isr_storms(changes)

    assert (storm.at_ms, storm.shrinks, storm.leaders) == (START_MS + 120_000, 25, 2)
    assert (storm.common_follower, storm.common_share) == (3, 1.0)
    assert list(isr_storms(changes[:19])) == []
