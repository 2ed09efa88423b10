"""Stored answers of earlier questions, read without Spark and a JVM.

Starting a JVM and planning a query takes many seconds where looking at some thousand rows takes
milliseconds.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from pathlib import Path
from shutil import rmtree
from types import MappingProxyType
from typing import Any, Final, TypeVar
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafka_history.event_schema import columns_of
from kafka_history.readers.arrow_columns import TYPES
from kafka_history.readers.soundness import is_as_written, seal

ANSWERS: Final = "answers"
"""Folder below a history that holds what was answered."""
ANSWERS_VERSION: Final = 4
"""Grows when an analysis changes, so that no old answer is taken for a new one."""
BYTES_MAX: Final = 128 << 20
"""Of a larger Parquet table Spark answers."""

_ANY: Final[Mapping[str, object]] = MappingProxyType({})
Finding = TypeVar("Finding", bound=tuple[Any, ...])


def answers_folder(out: Path, ingests: Sequence[str], cluster: str | None) -> Path:
    """Where the answers to one cluster's rows are kept.

    Another ingest, another cluster or another version of the analyses: other answers.
    """
    return out / ANSWERS / (answers_of(ingests) + re.sub(r"[^\w.-]", "_", str(cluster)))


def answers_of(ingests: Sequence[str]) -> str:
    """How the folders begin that hold answers to the rows of these ingests, of any cluster."""
    return f"v{ANSWERS_VERSION}-{ingests[-1]}-{len(ingests)}-"


def findings(
    folder: Path, name: str, kind: type[Finding], fields: Mapping[str, object] = _ANY
) -> list[Finding] | None:
    """The rows of an answer of which these fields are so, in no order.

    None where it is not kept yet, or is so large that Spark is the better reader.
    """
    files = sorted((folder / name).glob("*.parquet"))
    if not files or sum(file.stat().st_size for file in files) > BYTES_MAX:
        return None
    if not is_as_written(folder / name):
        return None
    where = [pc.field(field) == value for field, value in fields.items()]
    only = reduce(operator.and_, where) if where else None
    table = pq.read_table([str(file) for file in files], filters=only, partitioning=None)
    return [kind(**row) for row in table.to_pylist()]


def keep_findings(folder: Path, found: Iterable[tuple[Any, ...]], kind: type[Finding]) -> None:
    """Keeps the rows of an answer."""
    columns = columns_of(kind)
    rows = list(found)
    table = pa.table(
        {
            column.name: pa.array([row[at] for row in rows], TYPES[column.type])
            for at, column in enumerate(columns)
        }
    )
    keep_table(folder, table)


def keep_table(folder: Path, table: pa.Table) -> None:
    """Keeps the rows of an answer."""

    def write(mine: Path) -> None:
        mine.mkdir(parents=True)
        pq.write_table(table, mine / "part-00000.zstd.parquet", compression="zstd")

    keep(folder, write)


def keep(folder: Path, write: Callable[[Path], object]) -> None:
    """Keeps an answer, of which ``write`` makes Parquet files in a folder.

    Under a name of its own until it is whole: two questions may be asked at once, and the one that
    was interrupted must not be taken for an answer.
    """
    rmtree(folder, ignore_errors=True)
    mine = folder.with_name(f".{folder.name}-{uuid4().hex}")
    write(mine)
    seal(mine)
    try:
        mine.rename(folder)
    except OSError:  # another task was quicker, with the same answer
        rmtree(mine, ignore_errors=True)
