"""Stored answers of earlier questions, read without Spark and a JVM.

Starting a JVM and planning a query takes many seconds where looking at some thousand rows takes
milliseconds.  Each function gives what its namesake gives by Spark, or None where the answer is not
kept yet, or is so large that Spark is the better reader.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafka_history.readers.soundness import is_as_written

ANSWERS: Final = "answers"
"""Folder below a history that holds what was answered."""
ANSWERS_VERSION: Final = 3
"""Grows when an analysis changes, so that no old answer is taken for a new one."""
BYTES_MAX: Final = 128 << 20
"""Of a larger Parquet table Spark answers."""

Row: TypeAlias = Mapping[str, Any]


def answers_folder(out: Path, ingests: Sequence[str], cluster: str | None) -> Path:
    """Where the answers to one cluster's rows are kept.

    Another ingest, another cluster or another version of the analyses: other answers.
    """
    return out / ANSWERS / (answers_of(ingests) + re.sub(r"[^\w.-]", "_", str(cluster)))


def answers_of(ingests: Sequence[str]) -> str:
    """How the folders begin that hold answers to the rows of these ingests, of any cluster."""
    return f"v{ANSWERS_VERSION}-{ingests[-1]}-{len(ingests)}-"


def biography(folder: Path, topic: str, partition: int) -> list[Row] | None:
    """The states of one partition, in order: :func:`.partition_states.partition_states`."""
    mine = (pc.field("topic") == topic) & (pc.field("partition") == partition)
    states = _kept(folder, "states", mine)
    return _rows(states, "incarnation", "number")


def tenures(folder: Path) -> list[Row] | None:
    """Controller tenures, in order: :func:`.tenures.tenures`."""
    return _rows(_kept(folder, "tenures"), "controller_epoch", "from_ms")


def phases(folder: Path) -> list[Row] | None:
    """Steps of failovers, in order: :func:`.tenures.phases`."""
    return _rows(_kept(folder, "phases"), "controller_epoch", "at_ms")


def partitions_at(folder: Path, at_ms: int | None) -> list[Row] | None:
    """The partitions as they stood, in order: :func:`.moment.partitions_at`."""
    states = _kept(folder, "states", None if at_ms is None else pc.field("time_ms") <= at_ms)
    if states is None:
        return None
    last: dict[tuple[str, int], Row] = {}
    columns = ["topic", "partition", "incarnation", "number", "is_deleted"]
    for place, row in enumerate(states.select(columns).to_pylist()):
        key = row["topic"], row["partition"]
        known = last.get(key)
        if known is None or (known["incarnation"], known["number"]) < (
            row["incarnation"],
            row["number"],
        ):
            last[key] = {**row, "place": place}
    places = [row["place"] for _, row in sorted(last.items()) if not row["is_deleted"]]
    shown = states.take(pa.array(places, pa.int64())).select(
        ["topic", "partition", "leader", "leader_epoch", "isr", "zk_version", "controller_epoch",
         "time_ms", "file", "line"]
    )  # fmt: skip
    names = ["since_ms" if name == "time_ms" else name for name in shown.column_names]
    rows: list[Row] = shown.rename_columns(names).to_pylist()
    return rows


def brokers_at(folder: Path, at_ms: int) -> list[int] | None:
    """The brokers that lived then, in order: :func:`.moment.brokers_at`."""
    lives = _kept(folder, "broker_lives")
    if lives is None:
        return None
    return sorted(row["broker"] for row in lives.to_pylist() if _is_within(row, at_ms))


def controller_at(folder: Path, at_ms: int) -> Row | None:
    """The tenure that covered the moment, if one did: :func:`.moment.controller_at`."""
    held = tenures(folder) or []
    return next((row for row in held if _is_within(row, at_ms)), None)


def _is_within(row: Row, at_ms: int) -> bool:
    return row["from_ms"] <= at_ms and (row["to_ms"] is None or row["to_ms"] > at_ms)


def _kept(folder: Path, name: str, where: pc.Expression | None = None) -> pa.Table | None:
    files = sorted((folder / name).glob("*.parquet"))
    if not files or sum(file.stat().st_size for file in files) > BYTES_MAX:
        return None
    if not is_as_written(folder / name):
        return None
    return pq.read_table([str(file) for file in files], filters=where, partitioning=None)


def _rows(table: pa.Table | None, *order: str) -> list[Row] | None:
    if table is None:
        return None
    rows: list[Row] = table.sort_by([(name, "ascending") for name in order]).to_pylist()
    return rows
