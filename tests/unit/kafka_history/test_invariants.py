"""Broken invariants, and what breaks none."""

from __future__ import annotations

from kafka_history.rules.event import in_order
from kafka_history.rules.invariants import Violation, controller_violations, partition_violations
from kafka_history.rules.partition_states import partition_states
from kafka_history.rules.tenures import tenures
from tests.support.event_rows import Row, event, row
from tests.support.partition_rows import created, events_of, online

TP = ("orders", 0)


def broken(*rows: Row | list[Row]) -> list[Violation]:
    events = events_of(*rows)
    starts = [each for each in events if each.kind == "leader-starts"]
    return list(partition_violations(list(partition_states(events, {}, {})), starts))


def leads(at_ms: int, broker: int, epoch: int, topic_id: str) -> Row:
    return row("leader-starts", at_ms, broker, topic=TP[0], partition=TP[1], leader_epoch=epoch,
               topic_id=topic_id)  # fmt: skip


def test_controller_epochs_have_one_holder_and_grow() -> None:
    held = tenures(
        in_order(
            event("ctl-elected", at_ms, broker, controller_id=broker, controller_epoch=epoch)
            for at_ms, broker, epoch in ((0, 9, 4), (3, 8, 4), (9_000, 8, 2))
        ),
        {},
    )

    assert sorted(each.says for each in controller_violations(list(held))) == [
        "controller epoch 2 after 4",
        "controller epoch 4 was held by brokers 8, 9",
        "controller epoch 4 was held by brokers 8, 9",
    ]


def test_a_leader_outside_the_isr_it_writes_and_an_epoch_that_goes_back_are_named() -> None:
    found = broken(
        created(100, 9, 1, TP, [1, 2]),
        online(200, 9, 1, TP, 3, 1, [1, 2], 1),
        online(300, 9, 1, TP, 1, 0, [1, 2], 2),
    )

    assert [(each.rule, each.says) for each in found] == [
        ("P03", "leader 3 is not in ISR 1,2"), ("P07", "leader epoch 0 after 1"),
    ]  # fmt: skip


def test_two_leaders_of_one_epoch_are_named_unless_the_topic_is_another() -> None:
    one, other = leads(100, 1, 5, "a"), leads(200, 2, 5, "a")

    (found,) = broken(one, other)

    assert (found.rule, found.says) == ("P12", "brokers 1 and 2 led in leader epoch 5")
    assert (found.file, found.line) == (other["file"], other["line"])
    new = row("partition-new", 150, 9, topic=TP[0], partition=TP[1])
    assert broken(one, new, leads(200, 2, 5, "b")) == []


def test_lines_of_old_versions_that_leave_epochs_out_break_no_invariant() -> None:
    def isr_updated(at_ms: int, broker: int, isr: list[int], version: int) -> Row:
        return row("isr-updated", at_ms, broker, topic=TP[0], partition=TP[1], isr=isr,
                   zk_version=version)  # fmt: skip

    assert not broken(
        created(1_000, 9, 1, TP, [1, 2]),
        online(2_000, 9, 1, TP, 1, 4, [1], 4),
        # What broker 2 was elected with is not in these logs.
        isr_updated(9_000, 2, [2, 1], 8),
        isr_updated(9_500, 2, [2], 9),
        online(12_000, 9, 1, TP, 1, 7, [1, 2], 11),
    )
