"""The segments of a log in the order of their offsets.  Source: Kafka ``LogSegments``."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from replica_manager.log.segment import LogSegment


class Segments:
    """A log's segments, sorted by base offset; a loaded log has at least one."""

    def __init__(self) -> None:
        self._bases: list[int] = []
        self._segments: list[LogSegment] = []

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(self._segments)

    def __contains__(self, base_offset: object) -> bool:
        return base_offset in self._bases

    @property
    def first(self) -> LogSegment:
        return self._segments[0]

    @property
    def active(self) -> LogSegment:
        """The last segment, which is appended to."""
        return self._segments[-1]

    @property
    def base_offsets(self) -> list[int]:
        return list(self._bases)

    @property
    def size_in_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    def add(self, segment: LogSegment) -> None:
        """Adds a segment; it replaces another one with the same base offset."""
        place = bisect_left(self._bases, segment.base_offset)
        if place < len(self._bases) and self._bases[place] == segment.base_offset:
            self._segments[place] = segment
            return
        self._bases.insert(place, segment.base_offset)
        self._segments.insert(place, segment)

    def remove(self, segment: LogSegment) -> None:
        """Removes a segment, unless another one has already replaced it."""
        place = bisect_left(self._bases, segment.base_offset)
        if place < len(self._bases) and self._segments[place] is segment:
            del self._bases[place]
            del self._segments[place]

    def clear(self) -> None:
        self._bases.clear()
        self._segments.clear()

    def floor(self, offset: int) -> LogSegment | None:
        """The last segment that begins at or before ``offset``, None if there is none."""
        place = bisect_right(self._bases, offset)
        return self._segments[place - 1] if place else None

    def higher(self, base_offset: int) -> LogSegment | None:
        """The first segment that begins after ``base_offset``, None if there is none."""
        place = bisect_right(self._bases, base_offset)
        return self._segments[place] if place < len(self._segments) else None

    def from_offset(self, offset: int) -> list[LogSegment]:
        """The segments that may have offsets from ``offset`` on."""
        place = bisect_right(self._bases, offset)
        return self._segments[max(0, place - 1) :]
