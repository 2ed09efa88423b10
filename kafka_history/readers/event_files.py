"""Writes typed rows to Parquet files, in one folder for each cluster and day.

A task writes to hidden files, which no reader opens, and renames them when they are complete.  A
task that runs again replaces the files of its first run.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Final
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafka_history.readers.arrow_columns import EVENTS

FILES_MAX: Final = 32
"""Most files that a task has open; to open one more, the oldest is closed."""
_DAY_MS: Final = 86_400_000
_NEVER: Final = "unknown"

STORED: Final = pa.schema(
    [
        ("uri", pa.dictionary(pa.int32(), pa.string())),
        ("block", pa.int64()),
        *((field.name, field.type) for field in EVENTS),
    ]
)
"""The schema of stored rows: with the file's URI, and the byte at which its piece begins."""

_NUMBERED: Final = ["line_id", "time_ms"]
_REPEATED: Final = [
    field.name for field in STORED
    if field.name not in (*_NUMBERED, "text") and not pa.types.is_nested(field.type)
]  # fmt: skip
"""Columns with few different values, which Parquet writes as a dictionary."""


class EventFiles:
    """The Parquet files of one task."""

    def __init__(self, events: Path, task: str) -> None:
        """``events``: the folder of an ingest; ``task``: unique name of the task, for its files."""
        self._events = events
        self._task = task
        self._open: dict[Path, tuple[pq.ParquetWriter, Path]] = {}
        self._written: dict[Path, int] = {}

    def __enter__(self) -> EventFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        for folder in list(self._open):
            self._close(folder, keep=kind is None)

    def write(self, stored: pa.Table, cluster: str) -> None:
        """Adds rows of one cluster, in the columns of :data:`STORED`."""
        days = pc.floor(pc.divide(stored["time_ms"].cast(pa.float64()), _DAY_MS)).cast(pa.int64())
        names = pc.unique(days).to_pylist()
        for day in names:
            mine = stored if len(names) == 1 else stored.filter(
                pc.is_null(days) if day is None else pc.equal(days, day)
            )  # fmt: skip
            self._writer(cluster, day).write_table(mine)

    def _writer(self, cluster: str, day: int | None) -> pq.ParquetWriter:
        name = _NEVER if day is None else str(np.datetime64(day, "D"))
        folder = self._events / f"cluster={quote(cluster, safe=' ')}" / f"day={name}"
        if folder not in self._open:
            if len(self._open) >= FILES_MAX:
                self._close(next(iter(self._open)), keep=True)
            folder.mkdir(parents=True, exist_ok=True)
            # Spark reads no file whose name begins with a dot.
            hidden = folder / f".{self._task}-{os.getpid()}"
            writer = pq.ParquetWriter(
                hidden, STORED, compression="zstd", use_dictionary=_REPEATED,
                write_statistics=_REPEATED + _NUMBERED,
            )  # fmt: skip
            self._open[folder] = (writer, hidden)
        return self._open[folder][0]

    def _close(self, folder: Path, *, keep: bool) -> None:
        writer, hidden = self._open.pop(folder)
        writer.close()
        if not keep:
            hidden.unlink()
            return
        number = self._written[folder] = self._written.get(folder, 0) + 1
        hidden.rename(folder / f"part-{self._task}-{number:03d}.zstd.parquet")
