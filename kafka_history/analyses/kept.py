"""Stores findings as Parquet, and reads stored findings without Spark and a JVM.

Starting a JVM and planning a query takes many seconds; reading some thousand stored rows takes
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

import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafka_history.event_schema import columns_of
from kafka_history.readers.arrow_columns import table_of, values_of
from kafka_history.readers.soundness import is_as_written, seal

ANSWERS: Final = "answers"
"""Folder below a history's directory that holds stored findings."""
ANSWERS_VERSION: Final = 4
"""Raised when an analysis changes, so that findings of the old code are not used."""
BYTES_MAX: Final = 128 << 20
"""A larger Parquet table is read by Spark instead."""

_ANY: Final[Mapping[str, object]] = MappingProxyType({})
Finding = TypeVar("Finding", bound=tuple[Any, ...])


def answers_folder(out: Path, ingests: Sequence[str], cluster: str | None) -> Path:
    """The folder for the findings about one cluster, made from the rows of these ingests.

    Other ingests, another cluster and another version of the analyses have other folders.
    """
    return out / ANSWERS / (answers_of(ingests) + re.sub(r"[^\w.-]", "_", str(cluster)))


def answers_of(ingests: Sequence[str]) -> str:
    """The prefix of the folders for the findings from these ingests, for any cluster."""
    return f"v{ANSWERS_VERSION}-{ingests[-1]}-{len(ingests)}-"


def findings(
    folder: Path,
    name: str,
    kind: type[Finding],
    fields: Mapping[str, object] = _ANY,
    rows_max: int | None = None,
) -> list[Finding] | None:
    """The stored findings whose fields have these values, in no order.

    None: they are not stored, are damaged, or are larger than :data:`BYTES_MAX` or ``rows_max``.
    """
    files = sorted((folder / name).glob("*.parquet"))
    if not files or sum(file.stat().st_size for file in files) > BYTES_MAX:
        return None
    if not is_as_written(folder / name):
        return None
    if rows_max is not None and sum(pq.read_metadata(file).num_rows for file in files) > rows_max:
        return None
    where = [pc.field(field) == value for field, value in fields.items()]
    only = reduce(operator.and_, where) if where else None
    table = pq.read_table([str(file) for file in files], filters=only, partitioning=None)
    return values_of(kind, table)


def keep_findings(folder: Path, found: Iterable[tuple[Any, ...]], kind: type[Finding]) -> None:
    """Stores findings of type ``kind`` as Parquet in the folder."""
    table = table_of(found, columns_of(kind))

    def write(mine: Path) -> None:
        mine.mkdir(parents=True)
        pq.write_table(table, mine / "part-00000.zstd.parquet", compression="zstd")

    keep(folder, write)


def keep(folder: Path, write: Callable[[Path], object]) -> None:
    """Stores the Parquet files that ``write`` makes; it gets a folder that it must create.

    The folder has a name of its own until it is complete, because two processes may store the same
    findings at once and one of them may be interrupted.
    """
    rmtree(folder, ignore_errors=True)
    mine = folder.with_name(f".{folder.name}-{uuid4().hex}")
    write(mine)
    seal(mine)
    try:
        mine.rename(folder)
    except OSError:  # another process has stored the same findings first
        rmtree(mine, ignore_errors=True)
