"""The reports of real incidents: every rule on every line, against what was stored."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import orjson
import pytest

from kafka_history.readers import local_events
from kafka_history.readers.ingest_plan import IngestOptions
from kafka_history.readers.local_events import read_events_here
from kafka_history.readers.local_ingest import ingest_here
from kafka_history.readers.manifest import clusters_in
from kafka_history.readers.problems import HistoryInvalid
from kafka_history.report.assemble import assemble
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


def test_more_events_than_memory_may_take_are_refused_and_spark_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest_here([str(DATA / "incidents-c" / "broker-2")], IngestOptions(str(tmp_path)), workers=1)
    (cluster,) = clusters_in(tmp_path)
    monkeypatch.setattr(local_events, "MEMORY_MAX", 1 << 20)

    with pytest.raises(HistoryInvalid, match=r"records would take .* use --engine spark"):
        read_events_here(tmp_path, cluster)
