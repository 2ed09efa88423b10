"""Spark's session: the user's options count before ours, and few rows get settings of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kafka_history.readers import soundness
from kafka_history.readers.found_tables import read_sources
from kafka_history.readers.ingest_plan import IngestOptions
from kafka_history.readers.local_ingest import ingest_here

pytestmark = [pytest.mark.history, pytest.mark.timeout(600)]

_SHOW = """
import json, sys
from kafka_history.readers.session import start_spark
conf = start_spark("local[1]", memory="512m", is_small=True).conf
print(json.dumps({key: conf.get(key) for key in sys.argv[1:]}))
"""


def test_what_the_user_configures_counts_and_what_answers_need_is_set(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "spark.sql.shuffle.partitions 77\nspark.ui.enabled true\nspark.ui.port 0\n"
        "spark.sql.adaptive.enabled true\nspark.sql.session.timeZone Europe/Berlin\n"
        "spark.sql.files.ignoreCorruptFiles true\n"
    )
    wanted = {
        "spark.sql.shuffle.partitions": "77",
        "spark.ui.enabled": "true",
        "spark.sql.adaptive.enabled": "true",
        # Not said: ours.
        "spark.sql.codegen.wholeStage": "false",
        "spark.app.name": "zkctl history",
        # Answers would be others.
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.files.ignoreCorruptFiles": "false",
    }

    shown = subprocess.run(
        [sys.executable, "-c", _SHOW, *wanted],
        env={**os.environ, "SPARK_CONF_DIR": str(tmp_path)},
        capture_output=True, check=True, text=True, timeout=300,
    )  # fmt: skip

    found: dict[str, Any] = json.loads(shown.stdout)
    assert found == wanted


def test_few_rows_are_few(tmp_path: Path) -> None:
    ingest_here(
        [str(Path(__file__).parent / "data" / "incidents-1.1.1")], IngestOptions(str(tmp_path)), 1
    )
    rows = sum(row["records"] for row in read_sources(tmp_path))

    assert soundness.is_little(tmp_path, rows)
    assert not soundness.is_little(tmp_path, rows - 1)
