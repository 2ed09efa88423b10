"""Segments with records that are not stored yet, and notes with the positions of files.

A note is one file of JSON lines: the positions of all files, then the segments of that look and the
files that changed.  It is written under a hidden name and renamed when complete, so segments and
positions change in one step.  The newest note stays after its batch was stored, because the tailer
continues from its positions.
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
    """A part of a followed file, copied to a file of its own to be stored."""

    path: str
    id: str
    """The id of the :class:`.Position` it comes from."""
    offset: int
    """Where it begins in the followed file, in unpacked bytes."""
    lines: int
    """Number of lines before ``offset``."""
    size_bytes: int


class Batch(NamedTuple):
    """The segments and changed files of one note."""

    look: int
    segments: tuple[FileSegment, ...]
    files: tuple[Position, ...]
    """Each file that changed, with its new position."""


class Spool:
    """The folders ``notes`` and ``segments``."""

    def __init__(self, folder: Path) -> None:
        self.notes = folder / "notes"
        self.segments = folder / "segments"
        self.notes.mkdir(parents=True, exist_ok=True)
        self.segments.mkdir(parents=True, exist_ok=True)

    def remembered(self) -> tuple[int, list[Position]]:
        """The number of the last look with a note, and the positions after it; 0 without any.

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
        """The numbers of looks with notes, the oldest first; the newest may be stored already."""
        return [int(name.split(".")[0]) for name in self._noted()]

    def batch(self, look: int) -> Batch:
        """The batch of a look, read from its note.

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
        """The path for a segment; a look that is repeated gets the same path."""
        return self.segments / f"{look:010d}-{number}.records"

    def write(self, path: Path, content: bytes) -> None:
        """Writes a file and flushes it to the disk."""
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
        """Writes the note of a look, completely or not at all."""
        lines: list[dict[str, object]] = [
            {"last_look": look, "positions": [p._asdict() for p in positions]}
        ]
        lines += [{"look": look, "segment": segment._asdict()} for segment in segments]
        lines += [{"look": look, "file": position._asdict()} for position in changed]
        hidden = self.notes / f".{look:010d}.json"
        self.write(hidden, "".join(json.dumps(line) + "\n" for line in lines).encode())
        hidden.rename(self._path_of_note(look))

    def clean_up(self, last_look: int) -> None:
        """Deletes segments and notes of looks up to ``last_look``, except the newest note."""
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
