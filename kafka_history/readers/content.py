"""Reads a file unpacked, some megabytes at a time, and finds where it is damaged.

Damage ends a file early: the bytes before it are returned, and then the reason.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa

BLOCK_BYTES: Final = 8 << 20
"""Bytes returned at once."""
STEP_BYTES: Final = 32 << 10
"""Bytes unpacked at once; at most this much before a damage is lost."""
PACKED: Final = {".gz": "gzip", ".zst": "zst"}
"""Suffixes of packed files, and their compressions."""


class Content:
    """The bytes of a file from ``start`` on; in a packed file ``start`` counts unpacked bytes."""

    def __init__(self, path: Path, start: int = 0, step_bytes: int = BLOCK_BYTES) -> None:
        self.damage: str | None = None
        """Why reading ended early, in a sentence; None: it did not, or has not ended."""
        self._path = path
        self._start = start
        self._step_bytes = step_bytes

    def __iter__(self) -> Iterator[bytes]:
        packing = self._path.suffix
        return self._unpacked(packing) if packing in PACKED else self._plain()

    def _plain(self) -> Iterator[bytes]:
        size = 0
        try:
            with self._path.open("rb", buffering=0) as plain:
                plain.seek(self._start)
                while data := plain.read(self._step_bytes):
                    size += len(data)
                    yield data
        except OSError as error:
            self.damage = f"cannot be read behind byte {self._start + size}: {error.strerror}"

    def _unpacked(self, packing: str) -> Iterator[bytes]:
        parts: list[bytes] = []
        held = size = 0
        try:
            with (
                gzip.open(self._path)
                if packing == ".gz"
                else pa.CompressedInputStream(pa.OSFile(str(self._path)), "zstd")
            ) as unpacked:
                while part := unpacked.read1(STEP_BYTES):
                    size += len(part)
                    if size <= self._start:
                        continue
                    part = part[max(self._start - size, -len(part)) :]
                    parts.append(part)
                    held += len(part)
                    if held >= self._step_bytes:
                        yield b"".join(parts)
                        parts.clear()
                        held = 0
        except (EOFError, OSError, zlib.error) as error:
            self.damage = f"damaged {PACKED[packing]}, {size} bytes came out of it: {error}"
        if parts:
            yield b"".join(parts)


def size_of(path: Path) -> int:
    """How many bytes a file holds, unpacked; of a damaged one, those before the damage."""
    return sum(map(len, Content(path, step_bytes=STEP_BYTES)))


def beginning_of(path: Path, wanted: int) -> bytes:
    """The first bytes of a file, unpacked; fewer, if it is shorter or damaged.

    Raises:
        OSError: it cannot be opened.
    """
    with path.open("rb") as plain:
        if path.suffix not in PACKED:
            return plain.read(wanted)
    beginning = b""
    for data in Content(path, step_bytes=STEP_BYTES):
        beginning += data
        if len(beginning) >= wanted:
            break
    return beginning[:wanted]


def digest_of(path: Path) -> bytes | None:
    """A digest of what the file holds, unpacked; None if it is damaged."""
    content = Content(path)
    hasher = hashlib.sha256()
    for data in content:
        hasher.update(data)
    return None if content.damage else hasher.digest()
