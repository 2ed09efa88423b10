"""Lives of brokers and lost sessions, from events made by hand."""

from __future__ import annotations

import pytest

from kafka_history.rules.broker_lives import (
    BrokerLife,
    broker_lives,
    session_expiries,
    signs_of_life,
)
from kafka_history.rules.departures import departures
from kafka_history.rules.event import Event, in_order
from tests.support.event_rows import START_MS, event


def lives_of(*events: Event) -> list[BrokerLife]:
    """Of all that the brokers wrote."""
    ordered = in_order(events)
    return list(broker_lives(ordered, signs_of_life(ordered)))


def server(at_ms: int, broker: int, text: str) -> Event:
    return event("server-life", at_ms, broker, text)


def view(at_ms: int, live: str, added: str = "", bounced: str = "") -> Event:
    """A controller's, which is broker 9."""
    values = {"live": live, "added": added, "bounced": bounced}
    return event("ctl-brokers-changed", at_ms, 9, values=values)


def test_a_death_lies_where_a_peer_first_saw_the_connection_break() -> None:
    (one, _) = lives_of(
        server(0, 1, "starting"),
        event("thread-life", 10_000, 1, "the last word"),
        event("net-disconnected", 4_000, 9, "Node 1 disconnected."),  # it wrote afterwards
        event("net-disconnected", 9_500, 9, "Node 1 disconnected."),  # and here, as clocks go
        event("net-disconnected", 12_000, 9, "Node 1 disconnected."),
        view(16_000, "9"),
    )

    assert (one.broker, one.ended_by, one.to_ms) == (1, "killed", START_MS + 12_000)
    assert (one.last_ms, one.missed_ms) == (START_MS + 10_000, START_MS + 16_000)


@pytest.mark.parametrize(("parted_ms", "died_ms"), [(13_900, 13_900), (14_100, 10_000)])
def test_a_connection_that_was_not_used_breaks_too_late_to_date_a_death(
    parted_ms: int, died_ms: int
) -> None:
    established = "Session establishment complete on server localhost, negotiated timeout = 6000"

    (one, _) = lives_of(
        server(0, 1, "starting"),
        event("zk-session", 100, 1, established),
        event("thread-life", 10_000, 1, "the last word"),
        # ZooKeeper had a message of a live client in the 4 s before: the session lasts 2 s more.
        event("net-disconnected", parted_ms, 9, "Node 1 disconnected."),
        view(16_000, "9"),
    )

    assert (one.to_ms, one.missed_ms) == (START_MS + died_ms, START_MS + 16_000)


@pytest.mark.parametrize(
    "failure",
    [
        [
            event("net-disconnected", 14_000, 9, "Node 1 disconnected."),
            event("net-connect-failed", 14_001, 9, "Connection to node 1 could not be …"),
        ],
        [
            event(
                "fetch-session-error", 14_000, 9,
                "Error sending fetch request (sessionId=INVALID, epoch=INITIAL) to node 1:",
            ),
        ],
        [
            event(
                "fetch-session-error", 14_000, 9,
                "Node 1 was unable to process the fetch request with (sessionId=7, epoch=3): "
                "FETCH_SESSION_ID_NOT_FOUND.",
            ),
        ],
    ],
    ids=["not connected", "first fetch", "no session"],
)  # fmt: skip
def test_a_connection_that_never_stood_does_not_date_a_death(failure: list[Event]) -> None:
    (one, _) = lives_of(
        server(0, 1, "starting"),
        event("thread-life", 10_000, 1, "the last word"),
        *failure,
        view(16_000, "9"),
    )

    assert (one.ended_by, one.to_ms, one.missed_ms) == (
        "killed", START_MS + 10_000, START_MS + 16_000,
    )  # fmt: skip


def test_a_connection_that_breaks_is_tried_again_in_vain() -> None:
    (one, _) = lives_of(
        server(0, 1, "starting"),
        event("thread-life", 10_000, 1, "the last word"),
        event(
            "fetch-session-error", 12_000, 9,
            "Error sending fetch request (sessionId=7, epoch=3) to node 1:",
        ),
        event("net-connect-failed", 12_100, 9, "Connection to node 1 could not be established."),
        view(16_000, "9"),
    )  # fmt: skip

    assert (one.ended_by, one.to_ms) == ("killed", START_MS + 12_000)


def test_one_life_may_end_and_another_begin_within_a_second() -> None:
    (one, other) = lives_of(
        server(0, 1, "starting"),
        event("thread-life", 5_000, 1, "a word"),
        event("thread-life", 8_200, 1, "the last word"),
        server(8_600, 1, "starting"),
        event("thread-life", 8_900, 1, "a word of the next one"),
    )

    assert (one.ended_by, one.to_ms, one.last_ms) == ("killed", START_MS + 8_200, START_MS + 8_200)
    assert (other.from_ms, other.last_ms) == (START_MS + 8_600, START_MS + 8_900)


def test_a_broker_that_died_right_behind_a_lost_session_is_missed_by_the_next_view() -> None:
    (one, _) = lives_of(
        server(0, 1, "starting"),
        view(9_500, "9"),
        view(9_900, "1,9", added="1"),
        event("thread-life", 10_000, 1, "the last word"),
        view(16_000, "9"),
    )

    assert (one.ended_by, one.missed_ms) == ("killed", START_MS + 16_000)


@pytest.mark.parametrize(
    "seen",
    [
        [view(15_900, "9"), view(16_100, "1,9", added="1")],
        [view(15_900, "1,9", bounced="1")],
    ],
    ids=["deleted", "bounced"],
)
def test_the_session_of_a_dead_process_may_end_when_the_next_one_runs(
    seen: list[Event],
) -> None:
    one, *_ = lives_of(
        server(0, 1, "starting"),
        event("thread-life", 10_000, 1, "the last word"),
        server(11_000, 1, "starting"),
        *seen,
        event("broker-registered", 16_120, 1),
    )

    assert (one.ended_by, one.missed_ms) == ("killed", START_MS + 15_900)
    assert (one.to_ms, one.last_ms) == (START_MS + 10_000, START_MS + 10_000)


def test_a_process_that_ends_before_it_has_registered_was_no_broker() -> None:
    events = [
        server(0, 1, "starting"),
        event("broker-registered", 500, 1),
        event("thread-life", 10_000, 1, "the last word"),
        server(11_000, 1, "starting"),  # the session of the one before still lives
        server(11_900, 1, "[KafkaServer id=1] shutting down"),
        server(12_000, 1, "[KafkaServer id=1] shut down completed"),
        view(16_000, "9"),
        server(20_000, 1, "starting"),
        event("broker-registered", 20_500, 1),
    ]

    lives = [life for life in lives_of(*events) if life.broker == 1]
    (gone,) = departures(lives, [], [])

    assert [life.ended_by for life in lives] == ["killed", "failed_start", "open"]
    assert (gone.how, gone.at_ms, gone.until_ms) == ("killed", START_MS + 10_000, START_MS + 16_000)
    assert gone.back_ms == START_MS + 20_000


def test_an_ordered_stop_begins_before_it_ends_and_the_next_life_is_another() -> None:
    found = lives_of(
        event("thread-life", 0, 1, "the logs begin in the middle of a life"),
        server(60_000, 1, "[KafkaServer id=1] shutting down"),
        server(61_000, 1, "[KafkaServer id=1] shut down completed"),
        event("thread-life", 65_000, 1, "Registered kafka:type=kafka.Log4jController MBean"),
        server(66_000, 1, "starting"),
        event("broker-registered", 66_500, 1, values={"broker_epoch": "77"}),
    )

    assert [(each.is_started, each.ended_by, each.broker_epoch) for each in found] == [
        (False, "clean_shutdown", None), (True, "open", 77),
    ]  # fmt: skip
    assert (found[0].stopping_ms, found[0].to_ms) == (START_MS + 60_000, START_MS + 61_000)


def test_of_a_broker_without_logs_the_controller_alone_knows() -> None:
    found = lives_of(view(0, "1,9", added="1"), view(50_000, "9"), view(70_000, "1,9", added="1"))

    assert [(e.from_ms - START_MS, e.ended_by) for e in found if e.broker == 1] == [
        (0, "lost"), (70_000, "open"),
    ]  # fmt: skip


def test_the_lost_session_of_the_authorizer_is_not_the_brokers() -> None:
    def client(at_ms: int, name: str, says: str) -> Event:
        text = f"[ZooKeeperClient {name}] {says}"
        return event("zkc-session", at_ms, 1, text, values={"client": name})

    events = [
        client(0, "Kafka server", "Connected."),
        client(1_000, "ACL authorizer", "Connected."),
        event("zk-timeout", 20_000, 1, "session 0x1 has expired"),
        client(20_001, "Kafka server", "Session expired."),
        event("broker-registered", 20_500, 1),
        event("zk-timeout", 21_700, 1, "session 0x2 has expired"),
        client(21_701, "ACL authorizer", "Session expired."),
    ]

    assert [each.at_ms - START_MS for each in session_expiries(events)] == [20_000]


def test_a_lost_session_that_two_clients_report_is_one_loss() -> None:
    events = [
        view(0, "1,9"),
        view(18_000, "9"),
        event("zk-timeout", 20_000, 1, "session 0x1 has expired"),
        event("zkc-session", 20_100, 1, "[ZooKeeperClient] Session expired."),
        event("broker-registered", 20_500, 1),
        # The next session, which was lost at once.
        event("zkc-session", 21_600, 1, "[ZooKeeperClient] Session expired."),
        event("zk-state", 90_000, 1, "zookeeper state changed (Expired)"),
    ]

    found = list(session_expiries(events))

    assert [(each.at_ms - START_MS, each.gone_ms, each.back_ms) for each in found] == [
        (20_000, START_MS + 18_000, START_MS + 20_500), (21_600, START_MS + 18_000, None),
        (90_000, START_MS + 18_000, None),
    ]  # fmt: skip
