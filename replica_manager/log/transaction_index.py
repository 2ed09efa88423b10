"""The aborted transactions of a segment, for consumers that read committed records only.

The file is created when the segment gets its first abort marker.
Source: Kafka ``TransactionIndex``, ``AbortedTxn``.
"""

from __future__ import annotations

import os
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from kafka_common.errors import IllegalState
from replica_manager.log.index import IndexCorrupt
from replica_manager.regular_files import open_regular, read_file

_ENTRY: Final = Struct(">hqqqq")
_VERSION: Final = 0


class AbortedTransaction(NamedTuple):
    """A transaction whose records a consumer must skip."""

    producer_id: int
    first_offset: int
    last_offset: int
    """The offset of its abort marker."""
    last_stable_offset: int
    """The partition's last stable offset when the transaction ended."""


class TransactionIndex:
    """The transactions aborted in one segment, in the order of their markers."""

    def __init__(self, path: Path, base_offset: int) -> None:
        self.path = path
        self._base_offset = base_offset
        self._descriptor = -1
        """The descriptor of the open file, -1 while it is closed."""
        self._expected = 0
        """The number of :meth:`append` calls until the file is closed."""
        self._entries: list[AbortedTransaction] | None = None if path.exists() else []

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def prepare(self, count: int = 1) -> None:
        """Opens the file for ``count`` calls of :meth:`append`, the last of which closes it.

        So an OSError occurs before the markers are appended to the log.
        """
        self._load()
        self._expected = count
        if self._descriptor < 0:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            self._descriptor = open_regular(self.path, flags)

    def append(self, aborted: AbortedTransaction) -> None:
        """Adds an entry; its last offset must be larger than the previous entry's.

        OSError leaves memory unchanged, and may leave a part of the entry in the file.
        """
        entries = self._load()
        if entries and entries[-1].last_offset >= aborted.last_offset:
            raise IllegalState(f"{aborted} cannot follow {entries[-1]} in {self.path}")
        if self._descriptor < 0:
            self.prepare()
        rest = _ENTRY.pack(_VERSION, *aborted)
        self._expected -= 1
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        finally:
            if self._expected == 0:
                descriptor, self._descriptor = self._descriptor, -1
                os.close(descriptor)
        entries.append(aborted)

    def collect(
        self, fetch_offset: int, upper_bound_offset: int
    ) -> tuple[list[AbortedTransaction], bool]:
        """The entries between the offsets; True if later segments cannot hold more of them."""
        found: list[AbortedTransaction] = []
        for aborted in self._load():
            if aborted.last_offset >= fetch_offset and aborted.first_offset < upper_bound_offset:
                found.append(aborted)
            if aborted.last_stable_offset >= upper_bound_offset:
                return found, True
        return found, False

    def entries(self) -> tuple[AbortedTransaction, ...]:
        return tuple(self._load())

    def prepare_truncation(self, offset: int) -> None:
        """Opens the file if :meth:`truncate_to` needs it, so that OSError occurs before the cut."""
        if any(aborted.last_offset >= offset for aborted in self._load()):
            self.prepare()

    def truncate_to(self, offset: int) -> None:
        """Removes the transactions whose marker is at or past ``offset``."""
        entries = self._load()
        kept = [aborted for aborted in entries if aborted.last_offset < offset]
        if len(kept) < len(entries):
            self._truncate_file(len(kept) * _ENTRY.size)
            self._entries = kept

    def reset(self) -> None:
        """Removes every entry, also from the file."""
        if self.path.exists():
            self._truncate_file(0)
        self._entries = []

    def _truncate_file(self, size: int) -> None:
        self.prepare()
        descriptor, self._descriptor = self._descriptor, -1
        try:
            os.ftruncate(descriptor, size)
        finally:
            os.close(descriptor)

    def check(self) -> None:
        """Raises IndexCorrupt if an entry cannot belong to this segment."""
        for aborted in self._load():
            if aborted.last_offset < self._base_offset:
                raise IndexCorrupt(
                    f"Last offset of aborted transaction {aborted} in index {self.path} is less "
                    f"than start offset {self._base_offset}"
                )

    def _load(self) -> list[AbortedTransaction]:
        if self._entries is None:
            content = read_file(self.path)
            whole = len(content) - len(content) % _ENTRY.size
            entries = []
            for version, *fields in _ENTRY.iter_unpack(content[:whole]):
                if version != _VERSION:
                    raise IndexCorrupt(
                        f"Unexpected aborted transaction version {version} in transaction index "
                        f"{self.path}, current version is {_VERSION}"
                    )
                entries.append(AbortedTransaction(*fields))
            self._entries = entries
        return self._entries
