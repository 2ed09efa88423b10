"""Segments and notes: what the tailer has cut and is to be stored, and its memory.

A note is one file of JSON lines: how far every file has been read, then the segments of that look.
It is written under a hidden name and renamed when it is whole, so segment and memory change in one
step; the newest note is the tailer's memory, and stays when it has been stored.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from kafka_history.following.positions import Position, position_of
from kafka_history.readers.problems import HistoryInvalid


class FileSegment(NamedTuple):
    """A piece of a file that is to be stored, as a file of its own."""

    path: str
    id: str
    """Of the :class:`.Position` it comes from."""
    offset: int
    """Where in that file it begins, in bytes, and behind how many lines."""
    lines: int
    size_bytes: int


class Batch(NamedTuple):
    """What one note names."""

    look: int
    segments: tuple[FileSegment, ...]
    files: tuple[Position, ...]
    """Each file that changed, as it is now."""


class Spool:
    """The folders ``notes`` and ``segments``."""

    def __init__(self, folder: Path) -> None:
        self.notes = folder / "notes"
        self.segments = folder / "segments"
        self.notes.mkdir(parents=True, exist_ok=True)
        self.segments.mkdir(parents=True, exist_ok=True)

    def remembered(self) -> tuple[int, list[Position]]:
        """The number of the last look that brought something, and the positions after it.

        Raises:
            HistoryInvalid: the newest note cannot be read.
        """
        notes = self._noted()
        if not notes:
            return 0, []
        newest = self.notes / notes[-1]
        try:
            first = json.loads(newest.read_text().split("\n", 1)[0])
            return first["last_look"], [position_of(p) for p in first["positions"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise HistoryInvalid(f"{newest} is damaged: {error}") from None

    def looks(self) -> list[int]:
        """The looks that have notes, the oldest first; the newest may be stored already."""
        return [int(name.split(".")[0]) for name in self._noted()]

    def batch(self, look: int) -> Batch:
        """What the note of a look names.

        Raises:
            HistoryInvalid: it cannot be read.
        """
        path = self._path_of_note(look)
        try:
            _, *lines = map(json.loads, path.read_text().splitlines())
            segments = tuple(FileSegment(**line["segment"]) for line in lines if "segment" in line)
            files = tuple(position_of(line["file"]) for line in lines if "file" in line)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise HistoryInvalid(f"{path} is damaged: {error}") from None
        return Batch(look, segments, files)

    def path_of_segment(self, look: int, number: int) -> Path:
        """Where the tailer writes a segment; the same look writes the same one again."""
        return self.segments / f"{look:010d}-{number}.records"

    def write(self, path: Path, content: bytes) -> None:
        """A segment, on the disk when this returns."""
        with path.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    def note(
        self,
        look: int,
        positions: Sequence[Position],
        changed: Sequence[Position],
        segments: Sequence[FileSegment],
    ) -> None:
        """What a look brought, at once or not at all."""
        lines: list[dict[str, object]] = [
            {"last_look": look, "positions": [p._asdict() for p in positions]}
        ]
        lines += [{"look": look, "segment": segment._asdict()} for segment in segments]
        lines += [{"look": look, "file": position._asdict()} for position in changed]
        hidden = self.notes / f".{look:010d}.json"
        self.write(hidden, "".join(json.dumps(line) + "\n" for line in lines).encode())
        hidden.rename(self._path_of_note(look))

    def clean_up(self, last_look: int) -> None:
        """Deletes the segments that were stored, and the notes but the newest."""
        for segment in self.segments.iterdir():
            if int(segment.name.split("-")[0]) <= last_look:
                segment.unlink(missing_ok=True)
        for look in self.looks()[:-1]:
            if look <= last_look:
                self._path_of_note(look).unlink(missing_ok=True)

    def _path_of_note(self, look: int) -> Path:
        return self.notes / f"{look:010d}.json"

    def _noted(self) -> list[str]:
        return sorted(p.name for p in self.notes.iterdir() if not p.name.startswith("."))
