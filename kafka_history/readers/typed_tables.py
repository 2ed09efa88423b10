"""Turns blocks of records into typed rows: Arrow tables with the columns of the schema.

Work per record is slow, so there is little of it.  The first bytes after the date, up to the second
word of the message, determine which shapes a record can have; they are cached, so Python examines
few records.  Records with the same possible shapes are joined to one text.  One call of ``findall``
parses all of them (:mod:`.shape_columns`), and its result becomes columns, a whole column at a time
(:mod:`.arrow_columns`).

All shapes come from :mod:`kafka_history.shapes`; the code here is the same for all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import tzinfo
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from kafka_history.readers.arrow_columns import EVENTS, column, constant, shortened
from kafka_history.readers.exceptions import Exceptional, exceptional
from kafka_history.readers.log_times import NO_TIME, Flags, Longs, times_ms
from kafka_history.readers.record_blocks import Block
from kafka_history.readers.selection import selected
from kafka_history.readers.shape_columns import line_shape
from kafka_history.shapes.catalogue import Shape
from kafka_history.shapes.template import SPEAKER

TEXT_CAPACITY: Final = 4_000
"""Characters kept of a message with a known shape."""
UNKNOWN_CAPACITY: Final = 64_000
"""Characters kept of a record of unknown shape."""

_REMEMBERED_BYTES: Final = (40, 60, 128)
"""Lengths of cached beginnings after the date, which hold level, writer and two words.

The shortest sufficient length is used, because the bytes after the words differ between records.
"""
_REMEMBERED_MAX: Final = 50_000
"""Most beginnings in the cache."""
_AT: Final = len("26-11-20 18:08:31,404] ")
"""Where a record's level begins."""

_LEVEL: Final = re.compile(rb"[A-Z]+ ")
_LOGGER: Final = re.compile(rb" \(([\w.$-]+)\)\r?")
_SPEAKER: Final = re.compile(SPEAKER.encode())
_SPEAKERS_BEGIN: Final = (b"[", b"Controller ", b"Broker ", b"Partition [")
_SPEAKER_BYTES: Final = 300
"""Bytes of a message in which its writer is searched for."""


Columns: TypeAlias = dict[str, pa.Array | str]


class _Group:
    """Records of a block that have the same level and logger and can have the same shapes."""

    def __init__(self, level: str, logger: str | None, shapes: tuple[Shape, ...]) -> None:
        self.level = level
        self.logger = logger
        self.shapes = shapes
        self.messages: list[bytes] = []
        self.places: list[int] = []
        self.blocks: list[bytes] = []
        """Messages of several lines."""
        self.block_places: list[int] = []


class _Route(NamedTuple):
    """The group of records with a known beginning, and the place of the message in them."""

    group: _Group
    begin: int
    tail: bytes
    """The end of such a record: the logger in parentheses."""
    end: int
    """End of the message: minus the length of ``tail``."""


class _Rows(NamedTuple):
    """Rows of a block with the same group and shape."""

    places: Sequence[int]
    """The index in the block of each row's record."""
    columns: Columns
    """Columns of the schema, or one text for all rows; a missing column is null."""


class Typed(NamedTuple):
    """The records of a block as rows."""

    table: pa.Table
    """With the columns :data:`.arrow_columns.EVENTS`."""
    order: Longs
    """The index in the block of each row's record."""


class Typer:
    """Turns records into rows; caches how records begin, so use one in each process."""

    def __init__(self, time_zone: tzinfo) -> None:
        self._time_zone = time_zone
        self._routes: dict[bytes, _Route] = {}
        self._groups: dict[tuple[bytes, bytes | None, int], _Group] = {}
        self._traces: dict[int, Exceptional] = {}
        self._unknown: dict[int, bytes] = {}
        self._bare: frozenset[int] = frozenset()

    def typed(self, block: Block) -> Typed:
        """The records as rows, grouped by shape."""
        moments, is_head = times_ms(block.records, self._time_zone)
        self._bare = frozenset(block.bare)
        self._sort(block, is_head)
        alike = list(self._alike(block))
        order = np.concatenate([np.asarray(rows.places, np.int64) for rows in alike])
        has_time = is_head[order] & (moments[order] != NO_TIME)
        sizes = np.minimum(block.sizes, 2**31 - 1)
        columns = {
            "line_id": pa.array(block.line_ids[order]),
            "lines": pa.array(block.lines[order].astype(np.int32)),
            "size_bytes": pa.array(sizes[order].astype(np.int32)),
            "time_ms": pa.array(moments[order], mask=~has_time),
        }
        if block.streams is not None:
            columns["stream"] = pa.array([block.streams[place] for place in order], pa.string())
        for field in EVENTS:
            if field.name not in columns:
                columns[field.name] = _concatenated(field, alike, len(order))
        return Typed(pa.table([columns[field.name] for field in EVENTS], schema=EVENTS), order)

    def _sort(self, block: Block, is_head: Flags) -> None:
        """Puts every record into its group."""
        is_plain = (is_head & (block.lines == 1)).tolist()
        short, longer, long = (_AT + size for size in _REMEMBERED_BYTES)
        remembered = self._routes.get
        for place, record in enumerate(block.records):
            route = (
                remembered(record[_AT:short])
                or remembered(record[_AT:longer])
                or remembered(record[_AT:long])
            )
            if route is not None and is_plain[place] and record.endswith(route.tail):
                group = route.group
                group.messages.append(record[route.begin : route.end])
                group.places.append(place)
            elif is_head[place]:
                if route is None or not self._follow(route, place, record):
                    is_head[place] = self._look(place, record)
            else:
                self._unknown[place] = record

    def _follow(self, route: _Route, place: int, record: bytes) -> bool:
        """Puts a record with an exception into the group of its first line; False: not possible."""
        first, _, trace = record.partition(b"\n")
        if not trace or not first.endswith(route.tail):
            return False
        route.group.messages.append(first[route.begin : route.end])
        route.group.places.append(place)
        self._traces[place] = exceptional(trace)
        return True

    def _look(self, place: int, record: bytes) -> bool:
        """Examines a record whose beginning is not cached; False if it has no level."""
        level = _LEVEL.match(record, _AT)
        if level is None:
            self._unknown[place] = record
            return False
        begin = level.end()
        # A record with an exception has its logger on the first line, one with a message of
        # several lines on the last.
        first_end = record.find(b"\n") if b"\n" in record else len(record)
        said = _logger(record, begin, first_end)
        trace = record[first_end + 1 :]
        if said is None and trace:
            said = _logger(record, begin, len(record))
            trace = b""
        if trace:
            self._traces[place] = exceptional(trace)
        if said is None:
            self._group(level[0][:-1], None, ()).messages.append(record)
            self._group(level[0][:-1], None, ()).places.append(place)
            return True
        message = record[begin : said.start()]
        words, end = _words(message)
        shapes = selected(said[1], words)
        group = self._group(level[0][:-1], said[1], shapes)
        if b"\n" in message:
            group.blocks.append(message)
            group.block_places.append(place)
            return True
        group.messages.append(message)
        group.places.append(place)
        self._remember(record, _Route(group, begin, said[0], -len(said[0])), end)
        return True

    def _remember(self, record: bytes, route: _Route, end: int | None) -> None:
        """Caches the beginning of a record.

        ``end``: where the words that determine its shapes end in the message; None: the whole
        record determines them.
        """
        needed = len(record) if end is None else route.begin + end
        size = next((size for size in _REMEMBERED_BYTES if needed < _AT + size), None)
        if end is None:
            size = _REMEMBERED_BYTES[-1] if size is not None else None
        if size is not None:
            if len(self._routes) >= _REMEMBERED_MAX:
                self._routes.clear()
            self._routes[record[_AT : _AT + size]] = route

    def _group(self, level: bytes, logger: bytes | None, shapes: tuple[Shape, ...]) -> _Group:
        key = (level, logger, id(shapes))  # equal choices of shapes are the same cached tuple
        group = self._groups.get(key)
        if group is None:
            name = None if logger is None else logger.decode()
            group = self._groups[key] = _Group(level.decode(), name, shapes)
        return group

    def _alike(self, block: Block) -> Iterator[_Rows]:
        """All records of the block as rows, by group and shape; empties the groups."""
        for group in self._groups.values():
            if group.messages:
                yield from self._taken_apart(block, group, group.messages, group.places, False)
                group.messages, group.places = [], []
            if group.blocks:
                yield from self._taken_apart(block, group, group.blocks, group.block_places, True)
                group.blocks, group.block_places = [], []
        if self._unknown:
            whole = [self._whole(place, record) for place, record in self._unknown.items()]
            texts = shortened(whole, UNKNOWN_CAPACITY)
            yield _Rows(list(self._unknown), {"text": texts})
        self._unknown.clear()
        self._traces.clear()

    def _taken_apart(
        self,
        block: Block,
        group: _Group,
        messages: list[bytes],
        places: list[int],
        are_blocks: bool,
    ) -> Iterator[_Rows]:
        for shape in group.shapes:
            if not messages:
                return
            known = line_shape(shape)
            found, left = (known.take_blocks_apart if are_blocks else known.take_apart)(messages)
            if found:
                mine, mine_places = _without(messages, left), _without(places, left)
                columns = known.columns(found, mine)
                columns["text"] = shortened(mine, TEXT_CAPACITY)
                yield self._rows(group, mine_places, columns)
            messages = [messages[place] for place in left]
            places = [places[place] for place in left]
        if messages:
            whole = [self._whole(place, block.records[place]) for place in places]
            texts = shortened(whole, UNKNOWN_CAPACITY)
            yield self._rows(group, places, {"text": texts})

    def _whole(self, place: int, record: bytes) -> bytes:
        """The record as it is in the file, with its ``[20``."""
        return record if place in self._bare else b"[20" + record

    def _rows(self, group: _Group, places: list[int], columns: Columns) -> _Rows:
        columns["level"] = group.level
        if group.logger is not None:
            columns["logger"] = group.logger
        if self._traces:
            traces = [self._traces.get(place) for place in places]
            if any(traces):
                for n, name in enumerate(Exceptional._fields):
                    values = [None if trace is None else trace[n] for trace in traces]
                    columns[name] = pa.array(values, EVENTS.field(name).type)
        return _Rows(places, columns)


def _logger(record: bytes, begin: int, end: int) -> re.Match[bytes] | None:
    """The logger in parentheses at the end of this part of a record; None: there is none."""
    bracket = record.rfind(b" (", begin - 1, end)
    return _LOGGER.fullmatch(record, bracket, end) if bracket >= 0 else None


def _words(message: bytes) -> tuple[bytes, int | None]:
    """The first two words after the writer, or ``#`` for a number, and where they end.

    The end is None if a longer part of the message might change the words.
    """
    speaker = _SPEAKER.match(message[:_SPEAKER_BYTES])
    begin = speaker.end() if speaker else 0
    is_certain = speaker is not None or not message.startswith(_SPEAKERS_BEGIN)
    if message[begin : begin + 1].isdigit():
        return b"#", begin + 1 if is_certain else None
    first = message.find(b" ", begin)
    second = message.find(b" ", first + 1) if first >= 0 else -1
    if second < 0:
        return message[begin:], None
    return message[begin:second], second + 1 if is_certain else None


def _without(entries: list[Any], places: list[int]) -> list[Any]:
    """The entries without those at these indexes."""
    if not places:
        return entries
    left = set(places)
    return [entry for place, entry in enumerate(entries) if place not in left]


def _concatenated(field: pa.Field, alike: Sequence[_Rows], count: int) -> pa.Array:
    """One column for all rows, from its parts."""
    parts = [rows.columns.get(field.name) for rows in alike]
    if not any(isinstance(part, pa.Array) for part in parts):
        texts = [None if part is None else part.encode() for part in parts]
        if not any(texts):
            return pa.nulls(count, field.type)
        values = column(field.name, [text or b"" for text in texts])
        sizes = [len(rows.places) for rows in alike]
        return values.take(pa.array(np.repeat(np.arange(len(alike)), sizes)))
    return pa.concat_arrays(
        [
            constant(field.name, part, len(rows.places)) if isinstance(part, str)
            else pa.nulls(len(rows.places), field.type) if part is None else part
            for part, rows in zip(parts, alike, strict=True)
        ]
    )  # fmt: skip
