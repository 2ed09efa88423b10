"""Tables of typed rows into Parquet files, one folder for each cluster and day.

A task writes under names of its own that no reader opens, and renames what is whole: a task that is
tried again puts the same files in the same places.
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
"""Files that a task writes at once; with more, the one opened first is closed."""
_DAY_MS: Final = 86_400_000
_NEVER: Final = "unknown"

STORED: Final = pa.schema(
    [
        ("uri", pa.dictionary(pa.int32(), pa.string())),
        ("block", pa.int64()),
        *((field.name, field.type) for field in EVENTS),
    ]
)
"""A row as it is kept: with the file it is from, and where its piece of that begins."""

_NUMBERED: Final = ["line_id", "time_ms"]
_REPEATED: Final = [
    field.name for field in STORED
    if field.name not in (*_NUMBERED, "text") and not pa.types.is_nested(field.type)
]  # fmt: skip
"""Columns in which the same comes again: what they hold is written once, and numbered."""


class EventFiles:
    """The Parquet files of one task."""

    def __init__(self, events: Path, task: str) -> None:
        """``events``: the folder of an ingest; ``task``: names the files, no two tasks alike."""
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
            # Spark reads no file whose name begins so.
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
