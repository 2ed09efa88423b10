"""The reports of real incidents: every rule on every line, against what was stored."""

from __future__ import annotations

import functools
import gzip
import itertools
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_history.readers import local_events
from kafka_history.readers.ingest_plan import IngestOptions
from kafka_history.readers.local_events import read_events_here
from kafka_history.readers.local_ingest import ingest_here
from kafka_history.readers.manifest import clusters_in
from kafka_history.readers.problems import HistoryInvalid
from kafka_history.report.assemble import assemble
from kafka_history.report.markdown import markdown
from kafka_history.rules.event import Event
from kafka_history.rules.history import EventHistory
from tests.support.paths import ROOT

DATA = ROOT / "tests" / "history" / "data"
STORED = sorted((DATA / "reports").glob("*.json.gz"))
"""What Spark had found, by joins and windows of tables, before the rules were functions."""


def with_short_paths(found: Any) -> Any:
    """The same as it comes out of a file, with files as they are named below ``DATA``."""
    return orjson.loads(orjson.dumps(found).replace(f"{DATA}/".encode(), b""))


@pytest.mark.parametrize("stored", STORED, ids=lambda path: path.name.removesuffix(".json.gz"))
def test_an_incident_is_reported_as_it_was(stored: Path, tmp_path: Path) -> None:
    logs = str(DATA / stored.name.removesuffix(".json.gz"))
    ingest_here([logs], IngestOptions(str(tmp_path)), workers=1)
    (cluster,) = clusters_in(tmp_path)

    found = assemble(EventHistory(read_events_here(tmp_path, cluster)))

    expected = orjson.loads(gzip.decompress(stored.read_bytes()))
    assert {key for key in expected if with_short_paths(found)[key] != expected[key]} == set()
    assert set(found) == set(expected)


EXAMPLES = [
    orjson.loads(line) for line in (DATA / "shape-examples.jsonl").read_bytes().splitlines()
]
"""A line of each shape."""


@functools.cache
def events_in(logs: Path) -> list[Event]:
    with TemporaryDirectory() as out:
        ingest_here([str(logs)], IngestOptions(out), workers=1)
        (cluster,) = clusters_in(Path(out))
        return read_events_here(Path(out), cluster)


def test_of_a_quorum_it_is_said_that_nothing_is_said(tmp_path: Path) -> None:
    lines = [
        "[2026-03-01 10:00:00,100] INFO [RaftManager id=1] Become candidate due to fetch timeout "
        "(org.apache.kafka.raft.KafkaRaftClient)",
        "[2026-03-01 10:00:00,200] INFO [QuorumController id=1] In the new epoch 2, the leader is "
        "3. (org.apache.kafka.controller.QuorumController)",
    ]
    (tmp_path / "server.log").write_text("\n".join(lines) + "\n")

    found = assemble(EventHistory(events_in(tmp_path)))

    assert found["verdict"]["headline"] == (
        "Some lines are of a cluster in KRaft mode: what its quorum did is not in this report."
    )
    [rule] = [each for each in found["rules"] if each["id"] == "K06"]
    assert (rule["count"], rule["says"]) == (2, f"first: {lines[0]}")


def test_there_is_a_report_of_a_single_line_of_any_shape(tmp_path: Path) -> None:
    lines = [
        f"[2026-03-01 10:00:{at // 10:02d},{at % 10}00] INFO {each['line']} ({each['logger']})"
        for at, each in enumerate(EXAMPLES)
    ]
    (tmp_path / "server.log").write_text("\n".join(lines) + "\n")

    events = events_in(tmp_path)

    assert len(events) == len(EXAMPLES)
    for event in events:
        found = assemble(EventHistory([event]))

        assert found["records"] == 1
        assert markdown(found)


@given(st.lists(st.integers(0, 1000), max_size=8), st.sets(st.sampled_from([1, 2, 3])))
@settings(max_examples=40)
def test_there_is_a_report_of_logs_with_any_gaps(cuts: list[int], brokers: set[int]) -> None:
    """As after a full disk, or where the logs of some brokers are missing."""
    events = events_in(DATA / "incidents-c")
    ends = [len(events) * cut // 1000 for cut in sorted(cuts)]
    parts = [events[at:end] for at, end in itertools.pairwise(ends)][::2]
    kept = [event for part in parts for event in part if event.broker_id not in brokers]

    found = assemble(EventHistory(kept))

    assert found["records"] == len(kept)
    assert markdown(found)


def test_more_events_than_memory_may_take_are_refused_and_spark_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest_here([str(DATA / "incidents-c" / "broker-2")], IngestOptions(str(tmp_path)), workers=1)
    (cluster,) = clusters_in(tmp_path)
    monkeypatch.setattr(local_events, "MEMORY_MAX", 1 << 20)

    with pytest.raises(HistoryInvalid, match=r"records would take .* use --engine spark"):
        read_events_here(tmp_path, cluster)
