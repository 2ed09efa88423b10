"""The same rows and the same report on a real Spark cluster as on one machine."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from pyspark.sql import SparkSession

from kafka_history.analyses.history import History
from kafka_history.readers.ingest import ingest
from kafka_history.readers.ingest_plan import IngestOptions
from kafka_history.readers.store import read_events

from .conftest import DATA
from .rows import assert_same_rows
from .standalone import Standalone

pytestmark = [pytest.mark.history, pytest.mark.timeout(1800)]

JOB = Path(__file__).parents[2] / "cli" / "histories" / "job.py"
LOGS = sorted(str(path) for path in (DATA / "incidents-a").glob("broker-*/state-change.log*"))


def test_a_cluster_of_two_workers_gives_the_rows_of_one_machine(
    spark: SparkSession, tmp_path: Path
) -> None:
    here = ingest(spark, LOGS, IngestOptions(out=str(tmp_path / "here")))

    with Standalone(tmp_path) as cluster:
        done = cluster.submit(
            str(JOB), "tenures", *LOGS, "--out", str(tmp_path / "there"), "-o", "json"
        )
        said = cluster.said()

    assert done.returncode == 0, f"{done.stderr}\n{said}"
    there = read_events(spark, tmp_path / "there")
    assert_same_rows(here, there)
    assert there.count() > 5_000
    # Both workers had something to do.
    assert all(list((tmp_path / name).rglob("stderr")) for name in ("worker-1", "worker-2"))
    # spark-submit hands out what its program says on stdout and on stderr as one.
    result = done.stdout[done.stdout.index("\n[") :]
    found = {row["controller_epoch"]: row["broker"] for row in orjson.loads(result)}
    assert found == {each.controller_epoch: each.broker for each in History(here).tenures}
