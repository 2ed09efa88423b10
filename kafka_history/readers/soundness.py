"""Checks that the Parquet tables hold all that was written: damage must not give fewer findings.

The table ``pieces`` has the number of records read. The footers of the files of rows have the
number of stored rows, and are read without the rows. The numbers differ if a file is missing or was
cut off, or if workers on other machines wrote to a folder that the driver does not see.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafka_history.readers.manifest import complete_ingests
from kafka_history.readers.problems import HistoryInvalid

SMALL_ROWS: Final = 100_000
"""Up to this many rows are gathered by one job of Spark; the driver applies the rules to them."""
LOCAL_ROWS: Final = 1_000_000
"""Above this many rows, Spark is used by default."""
BRIEF_ROWS: Final = 2_000_000
"""Up to this many rows, code that a JVM compiles fully would cost more time than it saves."""
BATCH_ROWS: Final = 50_000
"""Most rows that are read into memory at once."""
CONTENTS: Final = "_contents.json"
"""File with the names, sizes and digests of stored findings' files; Spark ignores such a name."""


def check_ingests(directory: Path, ingests: Iterable[str]) -> None:
    """Compares the number of records read with the number of stored rows, for each ingest.

    Raises:
        HistoryInvalid: rows are missing, or a file of the tables is damaged.
    """
    for ingest in ingests:
        read = sum(
            pc.sum(_open(path).read(["records"])["records"]).as_py() or 0
            for path in _files(directory / "pieces" / f"ingest={ingest}")
        )
        folder = directory / "events" / f"ingest={ingest}"
        stored = sum(_open(path).metadata.num_rows for path in _files(folder))
        if read != stored:
            raise HistoryInvalid(
                f"{folder} holds {stored} rows, but {read} records were read: a file is missing, "
                "or workers on other machines do not share this directory. Ingest again into an "
                "empty directory that all machines share"
            )


def read_tables(folder: Path) -> Iterator[pa.Table]:
    """The rows of the Parquet files below a folder, at most :data:`BATCH_ROWS` in a table.

    Raises:
        HistoryInvalid: a file is damaged.
    """
    for path in _files(folder):
        with _damage(path):
            for batch in _open(path).iter_batches(BATCH_ROWS):
                yield pa.Table.from_batches([batch])


def is_little(directory: Path, most: int) -> bool:
    """Whether a history has at most ``most`` rows.

    Raises:
        HistoryInvalid: a file of it is damaged.
    """
    return stored_rows(directory, complete_ingests(directory)) <= most


def stored_rows(directory: Path, ingests: Iterable[str], cluster: str = "") -> int:
    """The number of rows that these ingests have stored, from the footers of their files.

    ``cluster``: the name of a cluster's folder; empty: all clusters.

    Raises:
        HistoryInvalid: a file is damaged.
    """
    return sum(
        _open(path).metadata.num_rows
        for ingest in ingests
        for path in _files(directory / "events" / f"ingest={ingest}" / cluster)
    )


def seal(answer: Path) -> None:
    """Writes the names, sizes and digests of the files of new findings to :data:`CONTENTS`.

    Raises:
        HistoryInvalid: there are no files, because they were written on another machine.
    """
    contents = {path.name: [path.stat().st_size, _digest(path)] for path in _files(answer)}
    if not contents:
        raise HistoryInvalid(
            f"{answer.parent} got no answer: workers on other machines do not share this directory"
        )
    (answer / CONTENTS).write_text(json.dumps(contents))


def is_sound(answer: Path) -> bool:
    """Whether stored findings have all their files, with the sizes that were written."""
    try:
        contents = _contents(answer)
        return all((answer / name).stat().st_size == size for name, (size, _) in contents.items())
    except (OSError, ValueError, TypeError):
        return False


def is_as_written(answer: Path) -> bool:
    """Whether the files of stored findings are unchanged; reads all bytes."""
    try:
        contents = _contents(answer)
        return all(_digest(answer / name) == digest for name, (_, digest) in contents.items())
    except (OSError, ValueError, TypeError):
        return False


def _contents(answer: Path) -> dict[str, tuple[int, str]]:
    contents: dict[str, tuple[int, str]] = json.loads((answer / CONTENTS).read_text())
    return contents


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.parquet") if path.name[0] not in "._")


def _open(path: Path) -> pq.ParquetFile:
    with _damage(path):
        return pq.ParquetFile(path)


@contextmanager
def _damage(path: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise HistoryInvalid(
            f"{path} is damaged ({reason}): ingest again into an empty directory"
        ) from None
