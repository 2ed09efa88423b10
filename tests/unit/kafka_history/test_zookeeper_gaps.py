"""Times without ZooKeeper, from events made by hand."""

from __future__ import annotations

import pytest

from kafka_history.rules.broker_lives import SessionExpiry
from kafka_history.rules.departures import ProcessPause
from kafka_history.rules.event import Event
from kafka_history.rules.zookeeper_gaps import zookeeper_gaps
from tests.support.event_rows import START_MS, event


def lost(at_ms: int, broker: int) -> Event:
    return event("zk-timeout", at_ms, broker, "Unable to read additional data from server")


def back(at_ms: int, broker: int) -> Event:
    return event("zk-session", at_ms, broker, "Session establishment complete on server x")


def test_gaps_of_several_brokers_that_overlap_are_one_and_a_pause_is_none() -> None:
    events = [
        lost(0, 1), lost(100, 2), lost(200, 1), back(5_000, 1), back(6_000, 2),
        lost(90_000, 3), event("server-life", 91_000, 3, "starting"),
        lost(95_000, 2),
    ]  # fmt: skip
    expired = [SessionExpiry(2, START_MS + 6_100, "f", 1, None, None)]
    paused = [ProcessPause(2, START_MS + 80_000, START_MS + 95_000, "f", 1)]

    found = list(zookeeper_gaps(events, paused, expired, broker_count=3))

    assert [(each.from_ms - START_MS, each.brokers, each.is_all) for each in found] == [
        (0, [1, 2], True), (90_000, [3], False),
    ]  # fmt: skip
    assert [each.to_ms for each in found] == [START_MS + 6_000, START_MS + 91_000]
    assert [each.sessions_lost for each in found] == [1, 0]


def test_the_gap_of_a_broker_with_two_sessions_ends_when_both_are_back() -> None:
    def on(session: str, each: Event) -> Event:
        return each._replace(values={"session": session})

    expired = event("zk-timeout", 3_000, 1, "session has expired")
    events = [
        on("a", lost(0, 1)), on("b", lost(3, 1)),
        on("a", back(1_000, 1)),
        on("b", lost(2_995, 1)), on("b", expired),
        on("c", back(3_010, 1)),
        on("a", lost(9_000, 1)), on("d", back(9_005, 1)),
    ]  # fmt: skip

    found = zookeeper_gaps(events, [], [], broker_count=1)

    assert [(each.from_ms - START_MS, (each.to_ms or 0) - START_MS) for each in found] == [
        (0, 3_010), (9_000, 9_005),
    ]  # fmt: skip


def test_a_new_session_ends_the_gap_of_one_that_expired() -> None:
    lost_one = event(
        "zk-timeout", 0, 1, "Session 0x1 for server h:1, Closing socket connection.",
        values={"session": "0x1"},
    )  # fmt: skip
    expired = event("zk-timeout", 100, 1, "Session has expired")
    another = back(300, 1)._replace(values={"session": "0x2"})

    [gap] = zookeeper_gaps([lost_one, expired, another], [], [], broker_count=3)

    assert (gap.brokers, gap.to_ms) == ([1], START_MS + 300)


@pytest.mark.parametrize(
    "line",
    [
        "Client session timed out, have not heard from server in 4001ms for session id 0x1",
        "Session 0x1 for server h:1, Closing socket connection. Attempting reconnect except it is "
        "a SessionExpiredException.",
        "Session 0x1 for server h:1, unexpected error, closing socket connection",
        "Socket error occurred: h/127.0.0.1:1: Connection reset",
        "Unable to reconnect to ZooKeeper service, session 0x1 has expired",
    ],
)
def test_each_line_about_a_lost_connection_begins_a_gap(line: str) -> None:
    events = [event("zk-timeout", 0, 1, line), back(700, 1)]

    assert [each.to_ms for each in zookeeper_gaps(events, [], [], 1)] == [START_MS + 700]


def test_a_gap_that_the_logs_do_not_end_is_open() -> None:
    (gap,) = zookeeper_gaps([lost(0, 1)], [], [], broker_count=1)

    assert (gap.to_ms, gap.is_all) == (None, True)


def test_a_session_was_lost_with_the_last_gap_before_it() -> None:
    events = [lost(0, 1), back(500, 1), lost(4_000, 1), back(9_100, 1)]
    expired = [SessionExpiry(1, START_MS + 9_000, "f", 1, None, None)]

    found = zookeeper_gaps(events, [], expired, broker_count=3)

    assert [each.sessions_lost for each in found] == [0, 1]
