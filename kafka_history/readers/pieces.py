"""Cuts the work of an ingest into tasks: pieces of large files, or many small files together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from kafka_history.readers.content import PACKED
from kafka_history.readers.sources import Source

PIECE_BYTES: Final = 64 << 20
"""Largest piece of a plain file, and largest task, in bytes (approximate)."""
PIECE_BYTES_MIN: Final = 4 << 20
TASKS_PER_CORE: Final = 4
"""Small logs are cut into this many tasks per core, so that all cores finish about together."""
FILE_BYTES: Final = 32 << 10
"""Cost of opening a file: the number of bytes that can be read in the same time."""
_CUT: Final = ("log4j", "jsonl")
"""Formats of files that can be read in pieces."""
_UNPACKED: Final = 12
"""How many times larger a packed log is when unpacked (estimate)."""


class Piece(NamedTuple):
    """The records of a file that begin within a range of its bytes."""

    file: str
    format: str
    cluster: str
    broker_id: int | None
    start: int
    end: int | None
    """None: to the end of the file."""
    size_bytes: int
    """Bytes of the file on disk that belong to the piece."""


def uri_of(file: str) -> str:
    """The URI of a file as Spark writes it: ``file:/path``, with one slash."""
    return Path(file).resolve().as_uri().replace("file:///", "file:/")


def tasks_of(sources: Sequence[Source], cores: int) -> list[list[Piece]]:
    """The pieces of all files that can be read, gathered into tasks of similar size."""
    readable = [source for source in sources if source.format]
    total = sum(_weight(source) for source in readable)
    size = min(max(total // (cores * TASKS_PER_CORE), PIECE_BYTES_MIN), PIECE_BYTES)
    weighed = [(weight, piece) for source in readable for weight, piece in _pieces(source, size)]
    tasks: list[list[Piece]] = [[]]
    filled = 0
    for weight, piece in weighed:
        if filled and filled + weight > size:
            tasks.append([])
            filled = 0
        tasks[-1].append(piece)
        filled += weight
    # Files that cannot be cut and are large come first, so that no core works on them at the end.
    heavy = {piece.file: weight for weight, piece in weighed if weight > size}
    return sorted(tasks, key=lambda task: -max((heavy.get(p.file, 0) for p in task), default=0))


def _pieces(source: Source, size: int) -> list[tuple[int, Piece]]:
    assert source.format is not None
    whole = Piece(
        source.file, source.format, source.cluster, source.broker_id, 0, None,
        source.size_bytes,
    )  # fmt: skip
    if source.format not in _CUT or _is_packed(source) or source.size_bytes <= size * 3 // 2:
        return [(_weight(source), whole)]
    count = -(-source.size_bytes // size)
    bounds = [source.size_bytes * n // count for n in range(count)]
    # The last piece has no end, because the file may have grown.
    size_bytes = source.size_bytes // count
    ends: list[int | None] = [*bounds[1:], None]
    return [
        (size_bytes, whole._replace(start=start, end=end, size_bytes=size_bytes))
        for start, end in zip(bounds, ends, strict=True)
    ]


def _weight(source: Source) -> int:
    return FILE_BYTES + source.size_bytes * (_UNPACKED if _is_packed(source) else 1)


def _is_packed(source: Source) -> bool:
    return Path(source.file).suffix in PACKED
