"""Clocks that differ: found from requests and their answers, in a real incident."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafka_history.readers.ingest_plan import IngestOptions
from kafka_history.readers.local_events import read_events_here
from kafka_history.readers.local_ingest import ingest_here
from kafka_history.readers.manifest import clusters_in
from kafka_history.rules.clocks import (
    ANSWERED,
    DOUBTFUL_MS,
    RECEIVED,
    SENT,
    ClockSkew,
    clocks,
    compared_requests,
)
from kafka_history.rules.event import Event
from tests.support.event_rows import event

INCIDENT = Path(__file__).parents[2] / "history" / "data" / "incidents-a"
AHEAD_MS = 5_000


@pytest.fixture(scope="module")
def incident(tmp_path_factory: pytest.TempPathFactory) -> list[Event]:
    out = tmp_path_factory.mktemp("incident")
    ingest_here([str(INCIDENT)], IngestOptions(out=str(out)), 1)
    return read_events_here(out, clusters_in(out)[0])


def clocks_of(events: list[Event], ahead_ms: int = 0) -> list[ClockSkew]:
    """As if broker 2's clock had been ahead."""
    fast = (e._replace(time_ms=e.time_ms + ahead_ms) if e.broker_id == 2 else e for e in events)
    return list(clocks(compared_requests(fast)))


def test_brokers_of_one_host_have_one_clock(incident: list[Event]) -> None:
    found = clocks_of(incident)

    assert len(found) == 6
    assert all(each.is_consistent and not each.is_doubtful for each in found)
    assert all(each.low_ms is not None and each.low_ms <= 0 <= each.high_ms for each in found)


def test_a_fast_clock_is_found_from_requests_and_answers(incident: list[Event]) -> None:
    apart = [each for each in clocks_of(incident, AHEAD_MS) if each.is_doubtful]

    assert {(e.broker, e.controller) for e in apart} == {(2, 1), (2, 3), (1, 2), (3, 2)}
    for each in apart:
        ahead_ms = AHEAD_MS if each.broker == 2 else -AHEAD_MS
        assert each.low_ms is not None
        assert each.low_ms <= ahead_ms <= each.high_ms
        assert abs(each.skew_ms - ahead_ms) < DOUBTFUL_MS


def test_a_correlation_id_that_was_answered_twice_compares_no_clocks() -> None:
    """A broker that registers again is sent requests by a new channel, which counts anew."""
    ends: dict[str, Any] = {"controller_epoch": 1, "correlation_id": 1}
    state = {"topic": "orders", "partition": 0, "zk_version": 0, "is_new": False}

    def request(at_ms: int, leader_epoch: int) -> list[Event]:
        said = ends | state | {"leader_epoch": leader_epoch}
        return [
            event(SENT, at_ms, 3, peer=1, **said),
            event(RECEIVED, at_ms + 5, 1, controller_id=3, **said),
            event(ANSWERED, at_ms + 9, 3, peer=1, request="LeaderAndIsr", **ends),
        ]

    once = list(clocks(compared_requests(request(0, 0))))
    twice = list(clocks(compared_requests([*request(0, 0), *request(4_000, 1)])))

    assert [(each.low_ms, each.high_ms) for each in once] == [(-4, 5)]
    assert twice == []
