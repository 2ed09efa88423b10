"""The work of an ingest, cut into tasks: pieces of large files, and many small files together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from kafka_history.readers.content import PACKED
from kafka_history.readers.sources import Source

PIECE_BYTES: Final = 64 << 20
"""A plain file is read in pieces of about this size, and a task reads about so much."""
PIECE_BYTES_MIN: Final = 4 << 20
TASKS_PER_CORE: Final = 4
"""So many tasks of little logs, lest one core works while the others have finished."""
FILE_BYTES: Final = 32 << 10
"""What it costs to open a file, in bytes that could be read in that time."""
_CUT: Final = ("log4j", "jsonl")
"""Formats of files that can be read in pieces."""
_UNPACKED: Final = 12
"""Times that logs are larger unpacked."""


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
    """How much of the file, as it lies there, it is."""


def uri_of(file: str) -> str:
    """The file as Spark names it: ``file:/path``, without the slashes that some versions add."""
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
    # What cannot be divided begins first, so that the others do not wait for it.
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
    # The last one has no end: the file may have grown.
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
