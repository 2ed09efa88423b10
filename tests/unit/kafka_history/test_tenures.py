"""Tenures from events made by hand: the traps that real logs hold."""

from __future__ import annotations

from kafka_history.rules.event import Event, in_order
from kafka_history.rules.tenures import PHASES, Phase, Tenure, last_words, phases, tenures
from tests.support.event_rows import START_MS, event


def elected(at_ms: int, broker: int, epoch: int) -> Event:
    return event("ctl-elected", at_ms, broker, controller_id=broker, controller_epoch=epoch)


def resigned(at_ms: int, broker: int) -> Event:
    return event("ctl-resigned", at_ms, broker, f"[Controller id={broker}] Resigned")


def tenures_of(*events: Event) -> list[Tenure]:
    """Of all that the brokers wrote."""
    return list(tenures(in_order(events), last_words(events)))


def test_a_tenure_ends_where_the_next_epoch_begins_not_where_a_line_says_resigned() -> None:
    held = tenures_of(
        elected(0, 1, 1),
        resigned(5_000, 2),  # never was controller: its session had expired
        elected(10_000, 3, 2),
        resigned(10_015, 1),  # a normal handover prints this after the successor's election
    )

    assert [(each.broker, each.to_ms, each.ended_by) for each in held] == [
        (1, START_MS + 10_000, "controller_moved"),
        (3, None, "open"),
    ]


def test_a_controller_that_resigns_long_after_its_successor_was_a_zombie() -> None:
    held = tenures_of(elected(0, 3, 7), elected(20_000, 1, 8), resigned(31_300, 3))

    assert (held[0].ended_by, held[0].overlap_ms) == ("session_expired", 11_300)


def test_a_killed_controller_is_distinguished_from_one_that_stopped() -> None:
    held = tenures_of(
        elected(0, 1, 1),
        elected(10_000, 2, 2),
        event("server-life", 15_000, 1, "starting"),  # came back: its silence was its death
        event("server-life", 20_000, 2, "[KafkaServer id=2] shutting down"),
        resigned(20_100, 2),
        elected(20_200, 1, 3),
    )

    assert [(each.broker, each.ended_by) for each in held] == [
        (1, "killed"), (2, "clean_shutdown"), (1, "open"),
    ]  # fmt: skip


def test_who_died_right_after_controller_was_deleted_had_lost_it_before() -> None:
    def end(active: list[int], *events: Event) -> str:
        found = event("ctl-brokers-active", 10_050, 2, peers=active)
        return tenures_of(elected(0, 1, 1), elected(10_000, 2, 2), found, *events)[0].ended_by

    def started(at_ms: int) -> Event:
        return event("server-life", at_ms, 1, "starting")

    # With the session of a dead broker both /controller and its registration go.
    assert end([2, 3]) == end([2, 3], started(15_000)) == "killed"
    assert end([1, 2, 3]) == end([1, 2, 3], started(15_000)) == "controller_moved"
    # The registration may be that of the next process.
    assert end([1, 2, 3], started(9_000)) == "killed"


def test_a_stop_or_a_lost_session_behind_the_resignation_did_not_end_the_tenure() -> None:
    stop = event("server-life", 11_500, 1, "[KafkaServer id=1] shutting down")
    expired = event("zkc-session", 10_000, 1, "[ZooKeeperClient] Session expired.")
    later = event("zkc-session", 10_040, 1, "[ZooKeeperClient] Session expired.")
    events = [elected(0, 1, 1), resigned(10_010, 1), elected(10_050, 2, 2), stop]

    assert tenures_of(*events)[0].ended_by == "controller_moved"
    assert tenures_of(*events, later)[0].ended_by == "controller_moved"
    assert tenures_of(expired, *events)[0].ended_by == "session_expired"


def test_a_controller_whose_authorizer_lost_its_session_is_still_controller() -> None:
    [held] = tenures_of(
        event("zkc-session", -1_000, 1, "[ZooKeeperClient Kafka server] Connected.",
              values={"client": "Kafka server"}),
        elected(0, 1, 1),
        event("zk-timeout", 1_000, 1, "session 0x2 has expired"),
        event("zkc-session", 1_001, 1, "[ZooKeeperClient ACL authorizer] Session expired.",
              values={"client": "ACL authorizer"}),
    )  # fmt: skip

    assert (held.ended_by, held.to_ms) == ("open", None)


def test_up_to_kafka_2_0_the_epoch_stands_in_a_line_of_its_own() -> None:
    held = tenures_of(
        event("ctl-elected", 0, 1, controller_id=1),
        event("ctl-epoch-incremented", 3, 1, controller_epoch=41),
        event("ctl-elected", 9_000, 2, controller_id=2),
        event("ctl-epoch-incremented", 9_004, 2, controller_epoch=42),
    )

    assert [(each.broker, each.controller_epoch, each.from_ms) for each in held] == [
        (1, 41, START_MS), (2, 42, START_MS + 9_000),
    ]  # fmt: skip


def test_without_any_controller_log_the_brokers_witness_the_tenures() -> None:
    def told(at_ms: int, controller: int, epoch: int) -> Event:
        return event("um-applied", at_ms, 9, controller_id=controller, controller_epoch=epoch)

    held = tenures_of(told(0, 1, 5), told(4_000, 1, 5), told(8_000, 2, 6))

    assert [(each.broker, each.controller_epoch, each.is_elected) for each in held] == [
        (1, 5, False), (2, 6, False),
    ]  # fmt: skip
    assert [each.ended_by for each in held] == ["unknown", "open"]


def test_the_steps_of_a_failover_end_when_the_last_broker_has_its_metadata() -> None:
    events = in_order([
        elected(0, 1, 4),
        event("ctl-ready", 30, 1),
        event("ctl-phase-handlers", 10, 1),
        event("ctl-phase-handlers", 20, 2),  # not the controller
        *(event("um-applied", 40 + b, b, controller_id=1, controller_epoch=4) for b in (1, 2)),
        event("um-applied", 9_000, 3, controller_id=1, controller_epoch=4),  # came back later
    ])  # fmt: skip
    (held,) = tenures_of(*events)

    found = list(phases(events, [held]))

    assert [(each.phase, each.at_ms - START_MS, each.took_ms) for each in found] == [
        ("registered watches", 10, 10), ("ready", 30, 20), ("brokers told", 42, 12),
    ]  # fmt: skip
    assert found[-1].step == len(PHASES)
    assert isinstance(found[0], Phase)
