"""Pauses, and what took brokers out of the cluster, from events made by hand."""

from __future__ import annotations

from kafka_history.rules.broker_lives import BrokerLife, SessionExpiry
from kafka_history.rules.departures import ProcessPause, departures, pauses, with_pauses
from kafka_history.rules.event import Event, in_order
from kafka_history.rules.log_dir_failures import FailedLogDir
from tests.support.event_rows import START_MS, event


def test_a_process_is_paused_if_zookeeper_is_unheard_for_longer_than_the_session_lasts() -> None:
    def silence(at_ms: int, broker: int, elapsed_ms: int) -> list[Event]:
        return [
            event("zk-session", 100, broker, "Session establishment complete on server x, "
                  "session id = 0x1, negotiated timeout = 6000"),
            event("zk-timeout", at_ms, broker, "Client session timed out, have not heard from "
                  f"server in {elapsed_ms}ms for session id 0x1", elapsed_ms=elapsed_ms),
        ]  # fmt: skip

    events = in_order([
        *silence(30_000, 1, 12_000),
        *silence(30_000, 2, 6_004),  # the server was not there: this is no pause
        *silence(30_000, 3, 12_000),
        event("thread-life", 25_000, 3, "it wrote in between"),
    ])  # fmt: skip

    assert [(each.broker, each.from_ms, each.to_ms) for each in pauses(events)] == [
        (1, START_MS + 19_000, START_MS + 30_000)
    ]


def test_two_lines_about_one_silence_are_one_pause_and_the_next_silence_is_another() -> None:
    def silent(at_ms: int, elapsed_ms: int, end: str = "") -> Event:
        text = f"Client session timed out, have not heard from server in {elapsed_ms}ms for "
        return event("zk-timeout", at_ms, 1, f"{text}sessionid 0x1{end}", elapsed_ms=elapsed_ms)

    begin = event("zk-session", 100, 1, "Session establishment complete on server x, "
                  "sessionid = 0x1, negotiated timeout = 6000")  # fmt: skip
    again = ", closing socket connection and attempting reconnect"
    first = [silent(30_000, 12_000), silent(30_002, 12_000, again)]
    second = [silent(50_000, 12_000), silent(50_002, 12_000, again)]

    found = [each.to_ms - START_MS for each in pauses(in_order([begin, *first, *second]))]

    assert found == [30_000, 50_000]


def test_an_ordered_stop_begins_early_and_a_session_that_a_pause_cost_with_the_pause() -> None:
    stopped = BrokerLife(1, 0, 61, "clean_shutdown", 60, 61, None, 7, True, "f", 1, "f", 9)
    again = stopped._replace(from_ms=80, to_ms=None, ended_by="open", stopping_ms=None)
    lost = SessionExpiry(2, 500, "f", 2, gone_ms=480, back_ms=510)
    paused = [ProcessPause(2, 400, 490, "f", 3), ProcessPause(3, 400, 490, "f", 3)]
    failed = FailedLogDir(3, 700, "/logs", None, [], False, "f", 4)

    fatal = failed._replace(broker=1, at_ms=60, is_last=True)

    expiries = [*with_pauses([lost], paused), lost]
    found = [each[:7] for each in departures([stopped, again], expiries, [failed, fatal])]

    assert found == [
        (1, 60, 61, "clean_shutdown", 0, None, 80),
        (2, 400, 400, "paused", None, 480, 510),
        (2, 480, 480, "session_expired", None, 480, 510),
        (3, 700, 700, "log_dir_failed", None, None, None),
    ]


def test_a_pause_costs_one_session() -> None:
    paused = [ProcessPause(2, 400, 490, "f", 3)]
    lost = [SessionExpiry(2, at_ms, "f", 2, None, None) for at_ms in (300, 500, 600)]

    found = [each.paused_ms for each in with_pauses(lost, paused)]

    assert found == [None, 400, None]


def test_a_broker_is_back_when_the_session_of_its_last_process_has_ended() -> None:
    killed = BrokerLife(1, 0, 60, "killed", None, 59, 90, 7, True, "f", 1, "f", 9)
    again = killed._replace(from_ms=70, to_ms=None, ended_by="open", missed_ms=None)

    (found,) = departures([killed, again], [], [])

    assert (found.at_ms, found.until_ms, found.back_ms) == (60, 90, 90)
