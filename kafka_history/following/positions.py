"""How far each file was read, and whether the file is still the same one.

Log4j renames a file when its hour is over, and begins a new one under the old name.  So a file is
known by its inode, not by its name.  Inodes are used again, and some tools copy a log and empty it
instead of renaming it.  So the first bytes of a file, its *head*, are compared as well.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final, NamedTuple

from kafka_history.readers.content import PACKED

HEAD_BYTES: Final = 512
"""Length of a head: three or four lines with their milliseconds."""


class Entry(NamedTuple):
    """A file as the directory shows it."""

    path: str
    device: int
    inode: int
    size_bytes: int
    modified_ms: int

    @property
    def is_packed(self) -> bool:
        """Whether the file is compressed; such files are complete and do not grow."""
        return self.path.endswith(tuple(PACKED))


class Position(NamedTuple):
    """One file, and how much of it has been taken."""

    id: str
    """Its permanent id in the tables, also after it is renamed: ``follow:3-1``."""
    path: str
    device: int
    inode: int
    size_bytes: int
    """Size when it was last looked at."""
    modified_ms: int
    offset: int = 0
    """Bytes read so far, unpacked."""
    lines: int = 0
    """Number of lines before ``offset``."""
    head: str = ""
    """Digest of the first :data:`HEAD_BYTES`; empty while the file is shorter."""
    kind: str | None = None
    """The format, see :mod:`.readers.formats`; None: the file is not read, see ``problem``."""
    broker_id: int | None = None
    cluster: str = ""
    problem: str | None = None
    copy_of: str | None = None
    """The id of the file with the same head that is read instead; None: it is no copy."""
    is_gone: bool = False
    """The file was missing; it is remembered because its folder may be away for a moment only."""

    def at(self, entry: Entry) -> Position:
        """This position with the current path, size and time of the file."""
        return self._replace(**entry._asdict(), is_gone=False)

    def is_unchanged(self, entry: Entry) -> bool:
        """Whether the file still has the size and the modification time of the last look."""
        return (self.size_bytes, self.modified_ms) == (entry.size_bytes, entry.modified_ms)


def position_of(values: dict[str, Any]) -> Position:
    """A position from a note; unknown keys are ignored."""
    return Position(**{name: values[name] for name in Position._fields if name in values})


def head_of(beginning: bytes) -> str:
    """A digest of the first :data:`HEAD_BYTES`; empty if there are fewer bytes."""
    if len(beginning) < HEAD_BYTES:
        return ""
    return hashlib.sha256(beginning[:HEAD_BYTES]).hexdigest()[:32]


class Recognised(NamedTuple):
    """The files of this look, compared with the known positions."""

    same: list[tuple[Position, Entry]]
    strangers: list[Entry]
    gone: list[Position]
    """Positions of files that were deleted, or emptied and begun again."""


def recognise(positions: list[Position], entries: list[Entry], heads: dict[str, str]) -> Recognised:
    """Compares files with known positions.  ``heads``: by path, of the files that changed."""
    # Of two positions with the same inode, the one whose file still exists counts.
    in_order = sorted(positions, key=lambda position: not position.is_gone)
    known = {(p.device, p.inode): p for p in in_order}
    gone_before = [p for p in positions if p.is_gone and known[p.device, p.inode] is not p]
    same: list[tuple[Position, Entry]] = []
    strangers: list[Entry] = []
    gone = gone_before
    for entry in entries:
        position = known.pop((entry.device, entry.inode), None)
        if position is None:
            strangers.append(entry)
        elif _is_same(position, entry, heads.get(entry.path)):
            same.append((position, entry))
        else:
            gone.append(position)
            strangers.append(entry)
    gone.extend(known.values())
    lost = {position.id for position in gone}
    # A copy may hold lines of a file that is gone and was not read to its end: read the copy.
    copies = [(p, e) for p, e in same if p.copy_of in lost]
    return Recognised(
        [pair for pair in same if pair not in copies],
        strangers + [entry for _, entry in copies],
        gone,
    )


def _is_same(position: Position, entry: Entry, head: str | None) -> bool:
    if position.is_unchanged(entry):
        return True
    if position.kind is None:  # an unreadable file that has changed is examined as a new file
        return position.copy_of is not None
    if entry.is_packed or entry.size_bytes < position.offset:
        return False
    return not position.head or head is None or head == position.head
