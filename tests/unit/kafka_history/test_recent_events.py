"""The events that are held while logs are followed."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_history.following import recent_events
from kafka_history.following.recent_events import RecentEvents
from kafka_history.readers.ingest_plan import IngestOptions
from kafka_history.readers.local_events import read_events_here
from kafka_history.readers.local_ingest import ingest_here
from kafka_history.rules.event import Event

CLUSTER = "two words"


def record(at: str, number: int) -> str:
    return f"[2026-11-{at},000] INFO [Controller id=1] Line {number} (kafka.unheard.Of)\n"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Two ingests of two files; the older one has records of two days."""
    for name, lines in {
        "old": [record("18 08:00:00", 1), record("20 08:00:00", 2)],
        "new": [record("20 09:00:00", 3), record("20 10:00:00", 4)],
    }.items():
        log = tmp_path / name / "controller.log"
        log.parent.mkdir()
        log.write_text("".join(lines))
        options = IngestOptions(str(tmp_path / "out"), cluster=CLUSTER)
        ingest_here([str(log)], options, workers=1)
    return tmp_path / "out"


def held(recent: RecentEvents) -> list[Event]:
    ((cluster, history),) = recent.histories()
    assert cluster == CLUSTER
    return list(history.events)


def test_the_last_hours_are_held_in_order_whichever_ingest_has_them(out: Path) -> None:
    recent, all_of_it = RecentEvents(out, window_hours=24), read_events_here(out, CLUSTER)
    recent.add(["000001", "000002"])
    late = RecentEvents(out, window_hours=24)
    late.add(["000002"])
    late.add(["000001"])

    assert held(recent) == held(late) == all_of_it[1:]
    assert len(all_of_it) == 4
    assert not recent.is_cut


def test_the_newest_are_held_where_there_are_too_many(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent_events, "EVENTS_MAX", 2)
    recent = RecentEvents(out, window_hours=1_000)

    recent.add(["000001", "000002"])

    assert held(recent) == read_events_here(out, CLUSTER)[2:]
    assert recent.is_cut


def test_a_file_that_was_rotated_has_its_new_name_in_events_that_are_held(out: Path) -> None:
    recent = RecentEvents(out, window_hours=1)
    recent.add(["000002"])
    old = held(recent)[0].file

    recent.rename({old: f"{old}.1"})

    assert {event.file for event in held(recent)} == {f"{old}.1"}
