"""How each reassignment ended, from the controller's own lines, with and without DEBUG."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from kafka_history.readers.ingest_plan import IngestOptions
from kafka_history.readers.local_events import read_events_here
from kafka_history.readers.local_ingest import ingest_here
from kafka_history.readers.manifest import clusters_in
from kafka_history.rules.reassignments import reassignments

MOVE: Final = ("3,1,2", "3", "2")
"""Replicas, adding and removing replicas while partition 1,2 moves to 3,1."""


def line(second: int, level: str, message: str) -> str:
    return (
        f"[2026-11-20 18:00:{second:02d},000] {level} [Controller id=1] {message} "
        "(kafka.controller.KafkaController)\n"
    )


def assignment(replicas: str, adding: str = "", removing: str = "") -> str:
    return (
        f"ReplicaAssignment(replicas={replicas}, addingReplicas={adding}, "
        f"removingReplicas={removing})"
    )


def rewritten(second: int, tp: str, before: str, after: str) -> str:
    return line(
        second, "DEBUG", f"Updating assignment of partition {tp} from {before} to {after}"
    ) + line(second, "INFO", f"Successfully updated assignment of partition {tp} to {after}")


def settled(second: int, tp: str, replicas: str) -> str:
    return line(
        second,
        "INFO",
        f"Leader 1 for partition {tp} being reassigned, is already in the new list of replicas "
        f"{replicas} and is alive",
    ) + line(
        second,
        "INFO",
        f"Successfully updated assignment of partition {tp} to {assignment(replicas)}",
    )


def caught_up(second: int, tp: str, replicas: str) -> str:
    return line(
        second,
        "INFO",
        f"Target replicas ArrayBuffer({replicas.replace(',', ', ')}) have all caught up with the "
        f"leader for reassigning partition {tp}",
    )


LOG: Final = "".join(
    [
        rewritten(1, "done-0", assignment("1,2"), assignment(*MOVE)),
        caught_up(3, "done-0", "3,1"),
        settled(4, "done-0", "3,1"),
        rewritten(5, "done-0", assignment("3,1"), assignment("1,3")),
        settled(5, "done-0", "1,3"),
        settled(6, "done-0", "1,3"),
        rewritten(10, "stopped-0", assignment("1,2"), assignment(*MOVE)),
        rewritten(12, "stopped-0", assignment(*MOVE), assignment("1,2")),
        settled(13, "stopped-0", "1,2"),
        rewritten(14, "stopped-0", assignment("1,2"), assignment("2,1")),
        settled(15, "stopped-0", "2,1"),
        rewritten(20, "open-0", assignment("1,2"), assignment(*MOVE)),
    ]
)


@pytest.mark.parametrize("has_debug", [True, False], ids=["debug", "info"])
def test_completed_cancelled_reordered_and_unchanged_are_distinguished(
    tmp_path: Path, has_debug: bool
) -> None:
    lines = [one for one in LOG.splitlines(keepends=True) if has_debug or "DEBUG" not in one]
    log = tmp_path / "broker-1" / "controller.log"
    log.parent.mkdir()
    log.write_text("".join(lines))

    out = tmp_path / "out"
    ingest_here([str(log)], IngestOptions(out=str(out)), 1)
    events = read_events_here(out, clusters_in(out)[0])
    found = sorted(reassignments(events), key=lambda each: (each.from_ms, each.line))

    assert [(each.topic, each.took_ms, each.outcome, each.new_replicas) for each in found] == [
        ("done", 3_000, "completed", [3, 1]),
        ("done", 0, "order only", [1, 3]),
        ("done", 0, "no change", [1, 3]),
        ("stopped", 3_000, "cancelled", [1, 2]),
        ("stopped", 1_000, "order only", [2, 1]),
        ("open", None, None, None),
    ]
