"""Zombies and refusals, from events made by hand."""

from __future__ import annotations

from kafka_history.rules.deposed_controllers import Zombie, refusals, zombies
from kafka_history.rules.event import Event, in_order
from kafka_history.rules.tenures import last_words, tenures
from tests.support.event_rows import event


def elected(at_ms: int, broker: int, epoch: int) -> Event:
    return event("ctl-elected", at_ms, broker, controller_id=broker, controller_epoch=epoch)


def resigned(at_ms: int, broker: int) -> Event:
    return event("ctl-resigned", at_ms, broker, f"[Controller id={broker}] Resigned")


def zombies_of(*events: Event) -> list[Zombie]:
    ordered = in_order(events)
    return list(zombies(ordered, list(tenures(ordered, last_words(ordered)))))


def test_a_normal_handover_leaves_no_zombie() -> None:
    assert zombies_of(elected(0, 1, 1), elected(10_000, 3, 2), resigned(10_015, 1)) == []


def test_a_controller_that_resigns_long_after_its_successor_is_one_without_any_stale_line() -> None:
    (zombie,) = zombies_of(elected(0, 3, 7), elected(20_000, 1, 8), resigned(31_300, 3))

    assert (zombie.broker, zombie.successor, zombie.overlap_ms, zombie.deeds) == (3, 1, 11_300, 0)


def test_a_controller_that_wrote_under_its_old_epoch_is_one_even_if_it_never_resigned() -> None:
    work = event("partition-failed", 9_000, 1, controller_epoch=1, topic="t", partition=0)

    (zombie,) = zombies_of(elected(0, 1, 1), elected(5_000, 2, 2), work)

    assert (zombie.broker, zombie.deeds, zombie.line) == (1, 1, work.line)


def test_error_11_for_single_partitions_is_a_repeated_request_and_no_refusal() -> None:
    events = [
        event("recv-response", 100, 1, "… errorCode=11 …", controller_epoch=2, error_code=0),
        event("recv-response", 200, 1, controller_epoch=2, error_code=11),
        event("lisr-stale-controller", 300, 3, controller_id=1, controller_epoch=2,
              latest_controller_epoch=3),
        event("psm-moved", 400, 1, controller_epoch=2),
    ]  # fmt: skip

    found = [(e.kind, e.refused_by, e.controller, e.latest_epoch) for e in refusals(events)]

    assert found == [
        ("recv-response", "broker", 1, None), ("lisr-stale-controller", "broker", 1, 3),
        ("psm-moved", "zookeeper", 1, None),
    ]  # fmt: skip
