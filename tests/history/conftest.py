"""One Spark for all tests of the history, and the real incidents, read once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from kafka_history.analyses.history import History
from kafka_history.readers.ingest_plan import IngestOptions
from kafka_history.readers.local_ingest import ingest_here
from kafka_history.readers.session import start_spark
from kafka_history.readers.store import read_events
from kafka_history.report.assemble import assemble

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="package", autouse=True)
def _brief_jvms() -> Iterator[None]:
    """Many short runs: the JVM's second compiler would use more processor time than it saves."""
    with pytest.MonkeyPatch.context() as patch:
        if "JAVA_TOOL_OPTIONS" not in os.environ:
            patch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        yield


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A small Spark: two cores, few and interpreted tasks, since the tables are tiny."""
    session = start_spark(
        "local[2]", memory="1g", is_small=True, settings={"spark.sql.shuffle.partitions": "2"}
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def incident_a_rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """Every row of ``data/incidents-a``."""
    return _rows(spark, "incidents-a", tmp_path_factory.mktemp("incidents-a"))


@pytest.fixture(scope="session")
def incident_c_rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """Every row of ``data/incidents-c``."""
    return _rows(spark, "incidents-c", tmp_path_factory.mktemp("incidents-c"))


@pytest.fixture(scope="session")
def incident_a(incident_a_rows: DataFrame) -> dict[str, Any]:
    """The findings of ``data/incidents-a``."""
    return assemble(History(incident_a_rows))


@pytest.fixture(scope="session")
def incident_c(incident_c_rows: DataFrame) -> dict[str, Any]:
    """The findings of ``data/incidents-c``."""
    return assemble(History(incident_c_rows))


@pytest.fixture(scope="session")
def incident_d(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The findings of ``data/incidents-d``."""
    rows = _rows(spark, "incidents-d", tmp_path_factory.mktemp("incidents-d"))
    return assemble(History(rows))


def _rows(spark: SparkSession, name: str, out: Path) -> DataFrame:
    ingest_here([str(DATA / name)], IngestOptions(out=str(out)), 1)
    return read_events(spark, out).persist()
