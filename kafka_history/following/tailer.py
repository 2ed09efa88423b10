"""Watches growing logs and cuts new records into segments.

Files are known by inode and head (:mod:`.positions`).  A rotated file is read on from its position,
not from the start.  A copy of a known file is not read.  If a known file was replaced by a packed
or moved copy, that one is read on.  A new file waits for a few looks until its lines name its
broker and cluster.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from stat import S_ISREG
from typing import Final, NamedTuple

from kafka_history.following.clusters import Clusters
from kafka_history.following.cutting import whole_bytes
from kafka_history.following.positions import (
    HEAD_BYTES,
    Entry,
    Position,
    head_of,
    recognise,
)
from kafka_history.following.spool import FileSegment, Spool
from kafka_history.readers.content import BLOCK_BYTES, Content, beginning_of, size_of
from kafka_history.readers.formats import NO_BROKER, envelope_name
from kafka_history.readers.problems import HistoryInvalid
from kafka_history.readers.sources import Source, is_log

CHUNK_BYTES: Final = 32 << 20
"""The size of the largest segment."""
LOOK_BYTES: Final = 256 << 20
"""Bytes that one look reads from all files; large old logs are read in several looks."""
WAIT_LOOKS: Final = 3
"""After this many looks a new file is read, even if its broker or cluster is unknown."""
GONE_MAX: Final = 2_000
"""Deleted files that are remembered, because a folder may be away for a moment only."""
QUIET_MS: Final = 60_000
"""A file not written to for this long counts as quiet, even when it is first seen."""
_ROLLED: Final = re.compile(r"\.(?:log|jsonl|out|txt)[.-]\w[\w.-]*$")

LookAt = Callable[[Sequence[str]], list[Source]]
"""Describes files, as :func:`.readers.sources.look_at` does."""


class Problem(NamedTuple):
    """A file that cannot be read, or only in part, and why."""

    path: str
    problem: str


class Tailer:
    """Cuts new records into segments, from the newest note on; one process, one thread."""

    def __init__(self, spool: Spool, paths: Sequence[str], look_at: LookAt) -> None:
        self._spool = spool
        self._paths = [Path(path) for path in paths]
        self._look_at = look_at
        self._look, self._positions = spool.remembered()
        self._sizes: dict[tuple[int, int], int] = {}
        self._waited: dict[tuple[int, int], int] = {}
        self.problems: list[Problem] = []
        """The problems that the last look found."""

    def look(self, *, is_last: bool = False) -> bool:
        """Cuts new records into segments; returns whether anything was new.

        With ``is_last``, new files are read at once instead of after a few more looks.
        """
        self.problems = []
        entries = self._entries()
        changed = self._changed(entries)
        found = recognise(self._positions, entries, {e.path: self._head(e) for e in changed})
        look = self._look + 1
        same = found.same + self._adopted(found.strangers, found.gone, found.same)
        taken = {(entry.device, entry.inode) for _, entry in same}
        strangers = [e for e in found.strangers if (e.device, e.inode) not in taken]
        new = self._described(look, strangers, found.same, is_last=is_last)
        positions, segments = self._take(look, same + new)
        present = {position.id for position in positions}
        gone = [p._replace(is_gone=True) for p in found.gone if p.id not in present]
        positions += gone[-GONE_MAX:]
        self._sizes = {(e.device, e.inode): e.size_bytes for e in entries}
        before = {position.id: _outside(position) for position in self._positions}
        different = [
            p
            for p in positions
            if not p.is_gone and (before.get(p.id) != _outside(p) or p.id in segments.ids)
        ]
        if not different and not segments.all:
            self._positions = positions
            return False
        self._spool.note(look, positions, different, segments.all)
        self._look, self._positions = look, positions
        return True

    def _entries(self) -> list[Entry]:
        files: dict[Path, None] = {}
        rolled: set[Path] = set()
        for path in self._paths:
            if path.is_dir():
                files.update(dict.fromkeys(sorted(p for p in path.rglob("*") if is_log(p))))
            else:
                files[path] = None
                rolled.update(path.parent.glob(f"{path.name}[.-]*"))
        known = {(position.device, position.inode) for position in self._positions}
        entries = []
        for path in [*files, *sorted(rolled - files.keys())]:
            try:
                stat = path.stat()
            except OSError:  # rotated or deleted since the folder was read
                continue
            # Rotated files beside a given file are read only if they were followed before.
            is_asked = path in files or (stat.st_dev, stat.st_ino) in known
            if is_asked and S_ISREG(stat.st_mode) and stat.st_size:
                entries.append(
                    Entry(
                        str(path), stat.st_dev, stat.st_ino, stat.st_size,
                        stat.st_mtime_ns // 1_000_000,
                    )
                )  # fmt: skip
        return entries

    def _changed(self, entries: list[Entry]) -> list[Entry]:
        known = {(p.device, p.inode): p for p in self._positions}
        return [
            entry
            for entry in entries
            if not (
                (position := known.get((entry.device, entry.inode))) is not None
                and position.is_unchanged(entry)
            )
        ]

    def _head(self, entry: Entry) -> str:
        try:
            return head_of(beginning_of(Path(entry.path), HEAD_BYTES))
        except OSError:
            return ""

    def _adopted(
        self, strangers: list[Entry], gone: list[Position], same: list[tuple[Position, Entry]]
    ) -> list[tuple[Position, Entry]]:
        """New files that are a moved, packed or copied known file."""
        orphans = {p.head: p for p in gone if p.head and p.kind is not None}
        originals = {p.head: p for p, _ in same if p.head and p.kind is not None}
        found = []
        for entry in strangers:
            head = self._head(entry)
            if not head:
                continue
            if head in originals:
                original = originals[head]
                copy = Position(f"{original.id}-copy-{entry.inode}", *entry, head=head)
                problem = f"begins like {original.path}, which is read"
                found.append((copy._replace(copy_of=original.id, problem=problem), entry))
            elif head in orphans:
                found.append((orphans.pop(head), entry))
        return found

    def _described(
        self, look: int, strangers: list[Entry], same: list[tuple[Position, Entry]], *,
        is_last: bool,
    ) -> list[tuple[Position, Entry]]:  # fmt: skip
        """Positions for new files; a file with an unknown broker or cluster may wait for a look."""
        ready = [
            entry
            for entry in strangers
            if is_last
            or not entry.is_packed
            or self._sizes.get((entry.device, entry.inode)) == entry.size_bytes
        ]
        if not ready:
            return []
        try:
            sources = {s.file: s for s in self._look_at([entry.path for entry in ready])}
        except HistoryInvalid:  # one of them was rotated meanwhile: the next look finds it
            return []
        clusters = Clusters(position for position, _ in same)
        found = []
        for number, entry in enumerate(ready, start=1):
            source = sources[entry.path]
            if not is_last and self._shall_wait(entry, source, clusters):
                continue
            position = Position(
                f"follow:{look}-{number}",
                *entry,
                head=self._head(entry),
                kind=source.format,
                broker_id=source.broker_id,
                cluster=clusters.of(entry.path, source.cluster),
                problem=source.problem,
            )
            if source.problem and not source.problem.startswith(NO_BROKER):
                self.problems.append(Problem(entry.path, source.problem))
            found.append((position, entry))
        return found

    def _shall_wait(self, entry: Entry, source: Source, clusters: Clusters) -> bool:
        is_known = (
            bool(source.format and envelope_name(source.format)) or source.broker_id is not None
        ) and clusters.is_known(entry.path, source.cluster)
        age_ms = time.time() * 1000 - entry.modified_ms
        if (source.format and is_known) or entry.is_packed or age_ms > QUIET_MS:
            return False
        key = (entry.device, entry.inode)
        self._waited[key] = self._waited.get(key, 0) + 1
        if self._waited[key] < WAIT_LOOKS:
            return True
        del self._waited[key]
        return False

    def _take(
        self, look: int, files: list[tuple[Position, Entry]]
    ) -> tuple[list[Position], _Taken]:
        taken = _Taken()
        positions = []
        for position, entry in files:
            moved = position.at(entry)
            if position.kind is None:
                positions.append(moved)
            elif entry.is_packed and not position.offset:
                positions.append(self._whole(moved, taken))
            else:
                positions.append(self._grown(look, position, entry, taken))
        return positions, taken

    def _whole(self, position: Position, taken: _Taken) -> Position:
        """Makes a packed file that was not read yet one segment; a worker unpacks it."""
        size_bytes = size_of(Path(position.path))
        taken.add(FileSegment(position.path, position.id, 0, 0, size_bytes))
        return position._replace(offset=max(size_bytes, 1))

    def _grown(self, look: int, position: Position, entry: Entry, taken: _Taken) -> Position:
        if entry.is_packed:
            if position.is_unchanged(entry):
                return position
        elif entry.size_bytes <= position.offset:
            return position.at(entry)
        is_quiet = (
            self._sizes.get((entry.device, entry.inode)) == entry.size_bytes
            or time.time() * 1000 - entry.modified_ms > QUIET_MS
            or entry.is_packed
        )
        is_over = is_quiet and (entry.is_packed or bool(_ROLLED.search(entry.path)))
        moved = position.at(entry)
        if not moved.head and not entry.is_packed:
            moved = moved._replace(head=self._head(entry))
        content = Content(Path(entry.path), moved.offset, min(BLOCK_BYTES, CHUNK_BYTES))
        blocks = iter(content)
        unread = b""
        while entry.is_packed or taken.bytes < LOOK_BYTES:
            while len(unread) < CHUNK_BYTES and (block := next(blocks, b"")):
                unread += block
            chunk = unread[:CHUNK_BYTES]
            is_full = len(chunk) == CHUNK_BYTES
            assert moved.kind is not None, "only files that can be read are read"
            whole = whole_bytes(
                chunk, moved.kind, is_quiet=is_quiet, is_over=is_over, is_full=is_full
            )
            if not whole:
                break
            moved = self._written(look, moved, chunk[:whole], taken)
            unread = unread[whole:]
            if not is_full:
                break
        if content.damage:
            self.problems.append(Problem(entry.path, content.damage))
            moved = moved._replace(problem=content.damage)
        return moved

    def _written(self, look: int, position: Position, content: bytes, taken: _Taken) -> Position:
        path = self._spool.path_of_segment(look, len(taken.all) + 1)
        self._spool.write(path, content)
        taken.add(
            FileSegment(str(path), position.id, position.offset, position.lines, len(content))
        )
        return position._replace(
            offset=position.offset + len(content), lines=position.lines + content.count(b"\n")
        )


class _Taken:
    """The segments of one look."""

    def __init__(self) -> None:
        self.all: list[FileSegment] = []
        self.ids: set[str] = set()
        self.bytes = 0

    def add(self, segment: FileSegment) -> None:
        self.all.append(segment)
        self.ids.add(segment.id)
        self.bytes += segment.size_bytes


def _outside(position: Position) -> tuple[object, ...]:
    """The fields of a position whose change must be written to a note."""
    return (position.path, position.problem, position.kind)
