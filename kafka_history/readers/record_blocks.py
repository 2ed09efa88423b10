"""Cuts a file's bytes into complete records: blocks of some megabytes, in bounded memory.

Kafka's records begin with ``[20``, so a file is cut at newlines followed by ``[20``.  So a record
is complete, however many lines its exception has.  A large file can be read in pieces: a piece
begins at the first such place after its start and ends at the first one after its end.  Our own
export has a record on each line, so it is cut at any newline.  If every line has an envelope
(:mod:`.envelopes`), the lines of a record are put together by their stream.  In another layout
(:mod:`.patterns`) its own regex finds where a record begins.  A file may have both.  A file with
either is read as one piece.

Of a record longer than :data:`RECORD_CAPACITY` only the beginning and the end are kept, with a note
between them of how much was left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise, repeat
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kafka_history.readers.content import BLOCK_BYTES, Content
from kafka_history.readers.envelopes import Unwrap, without_colours
from kafka_history.readers.patterns import Pattern

Longs: TypeAlias = NDArray[np.int64]

RECORD_CAPACITY: Final = 8 << 20
"""Bytes above which a record is shortened."""
_END_KEPT: Final = 64 << 10
"""Bytes kept from the end of a long record, because the logger is at the end."""
STREAMS_MAX: Final = 1_000
"""Most streams, such as pods, whose last records wait for further lines."""

_SPLIT: Final = b"\n[20"
_TORN: Final = re.compile(
    rb"\[20\d\d-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] (?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL) "
)
_HEAD: Final = re.compile(rb"\[20\d\d-\d\d-\d\d \d\d:")


class Block(NamedTuple):
    """Some records in the order of their lines."""

    records: list[bytes]
    """The records without their last newline and without the first ``[20``, see ``bare``."""
    line_ids: Longs
    """Number of each record's first line within the piece, from 0."""
    lines: Longs
    """Number of physical lines of each record, without empty lines at its end."""
    sizes: Longs
    """Bytes of each record in the file, unpacked."""
    streams: Sequence[str | None] | None
    """The stream of each record, such as a pod; None: the lines have no envelope."""
    end_id: int
    """The number of the line after the last one."""
    bare: Sequence[int] = ()
    """Indexes of records that did not begin with ``[20``; in the others it was removed."""


def merged(blocks: Sequence[Block]) -> Block:
    """The records of several successive blocks as one block."""
    if len(blocks) == 1:
        return blocks[0]
    streams: list[str | None] | None = None
    if any(block.streams is not None for block in blocks):
        streams = [s for b in blocks for s in (b.streams or repeat(None, len(b.records)))]
    bare: list[int] = []
    before = 0
    for block in blocks:
        bare += [before + place for place in block.bare]
        before += len(block.records)
    return Block(
        [record for block in blocks for record in block.records],
        np.concatenate([block.line_ids for block in blocks]),
        np.concatenate([block.lines for block in blocks]),
        np.concatenate([block.sizes for block in blocks]),
        streams,
        blocks[-1].end_id,
        bare,
    )


def record_blocks(content: Content, start: int, end: int | None) -> Iterator[Block]:
    """The records that begin at byte ``start`` or later, and before ``end`` (None: all).

    ``content`` begins one byte before ``start``: a newline there shows that a record begins.
    """
    line_id = 0
    for text, left_out in _whole_records(content, start, end, _SPLIT):
        block = _block(text, line_id, left_out)
        line_id = block.end_id
        yield block


def line_blocks(content: Content, start: int, end: int | None) -> Iterator[Block]:
    """As :func:`record_blocks`, for a file in which every line is a record."""
    line_id = 0
    for text, left_out in _whole_records(content, start, end, b"\n"):
        records = text.split(b"\n")
        sizes = np.fromiter(map(len, records), np.int64, len(records)) + len(b"\n")
        sizes[0] += left_out.size_bytes
        line_ids = np.arange(line_id, line_id + len(records))
        line_id += len(records)
        records = [record.removesuffix(b"\r") for record in records]
        yield Block(records, line_ids, np.ones(len(records), np.int64), sizes, None, line_id)


def enveloped_blocks(
    content: Content, unwrap: Unwrap, pattern: Pattern | None = None
) -> Iterator[Block]:
    """All records of a file whose lines have an envelope; ``pattern``: their layout."""
    begins = is_head if pattern is None else pattern.begins
    waiting: dict[bytes, _Waiting] = {}
    done: list[tuple[bytes, _Waiting]] = []
    held = 0
    line_id = 0
    for line in _lines(content):
        stream, text, goes_on = unwrap(without_colours(line))
        record = waiting.get(stream)
        if record is None or begins(text):
            if record is not None:
                done.append((stream, record))
            elif len(waiting) >= STREAMS_MAX:
                oldest = next(iter(waiting))
                done.append((oldest, waiting.pop(oldest)))
            record = waiting[stream] = _Waiting(line_id)
        record.add(text, len(line) + 1)
        record.goes_on = goes_on
        held += len(line)
        line_id += 1
        if held > BLOCK_BYTES and done:
            yield _in_layout(done, line_id, pattern)
            done = []
            held = 0
    done += waiting.items()
    if done:
        yield _in_layout(sorted(done, key=lambda entry: entry[1].line_id), line_id, pattern)


def is_head(line: bytes) -> bool:
    """Whether a record in the default layout begins with this line."""
    return _HEAD.match(line) is not None


def patterned_blocks(content: Content, pattern: Pattern) -> Iterator[Block]:
    """A file's records; those that match ``pattern`` are rewritten in the default layout."""
    done: list[_Waiting] = []
    held = 0
    line_id = 0
    for line in _lines(content):
        if not done or pattern.begins(line):
            if held > BLOCK_BYTES:
                yield _without_streams(done, line_id, pattern)
                done = []
                held = 0
            done.append(_Waiting(line_id))
        done[-1].add(line, len(line) + 1)
        held += len(line)
        line_id += 1
    if done:
        yield _without_streams(done, line_id, pattern)


def _without_streams(done: list[_Waiting], end_id: int, pattern: Pattern) -> Block:
    return _in_layout([(b"", record) for record in done], end_id, pattern)._replace(streams=None)


def _in_layout(done: list[tuple[bytes, _Waiting]], end_id: int, pattern: Pattern | None) -> Block:
    """A block of these records in the default layout, without their first ``[20``."""
    texts = [b"\n".join(record.texts).rstrip(b"\r\n") for _, record in done]
    if pattern is None:
        bare = [place for place, text in enumerate(texts) if not text.startswith(b"[20")]
        records = [text.removeprefix(b"[20") for text in texts]
    else:
        records = list(map(pattern.rewritten, texts))
        # A record that does not match the pattern is unchanged.
        bare = [p for p, (r, t) in enumerate(zip(records, texts, strict=True)) if r is t]
    inner = [record.count(b"\n") + 1 for record in records]
    return Block(
        records,
        np.array([record.line_id for _, record in done], np.int64),
        np.maximum([record.lines for _, record in done], inner).astype(np.int64),
        np.array([record.size_bytes for _, record in done], np.int64),
        [stream.decode(errors="replace") for stream, _ in done],
        end_id,
        bare,
    )


class _Waiting:
    """A record to which further lines may be added."""

    def __init__(self, line_id: int) -> None:
        self.line_id = line_id
        self.texts: list[bytes] = []
        self.lines = 0
        self.size_bytes = 0
        self.goes_on = False
        """True: its last line was cut by the collector, and the next text is the rest of it."""

    def add(self, text: bytes, size_bytes: int) -> None:
        if self.size_bytes < RECORD_CAPACITY:
            if self.goes_on:
                self.texts[-1] += text
            else:
                self.texts.append(text)
        self.lines += 1
        self.size_bytes += size_bytes


class _LeftOut(NamedTuple):
    """The bytes and lines that were dropped from a block's first record."""

    size_bytes: int
    lines: int


_NOTHING: Final = _LeftOut(0, 0)


def _whole_records(
    content: Content, start: int, end: int | None, split: bytes
) -> Iterator[tuple[bytes, _LeftOut]]:
    """Blocks of complete records without the last newline, and what was dropped from the first.

    ``split``: a newline, followed by the text with which a record begins.
    """
    position = max(start - 1, 0)  # of the buffer's first byte
    buffer = b""
    left_out = _NOTHING
    is_inside = start == 0
    looked_at = 0  # no record begins in this many first bytes of the buffer
    for data in content:
        buffer += data
        if not is_inside:
            begin = buffer.find(split, looked_at)
            if begin < 0 or (end is not None and position + begin >= end - 1):
                if end is not None and position + len(buffer) - len(split) >= end - 1:
                    return
                kept = buffer[len(buffer) - len(split) + 1 :]
                position += len(buffer) - len(kept)
                buffer = kept
                continue
            position += begin + 1
            buffer = buffer[begin + 1 :]
            is_inside = True
            looked_at = 0
        if end is not None:
            gone = left_out.size_bytes
            last = buffer.find(split, max(end - 1 - position - gone, looked_at))
            if last >= 0:
                yield buffer[:last], left_out
                return
        cut = buffer.rfind(split, looked_at)
        if cut >= 0:
            yield buffer[:cut], left_out
            position += cut + 1 + left_out.size_bytes
            buffer = buffer[cut + 1 :]
            left_out = _NOTHING
        elif len(buffer) > RECORD_CAPACITY:
            keep = RECORD_CAPACITY // 2
            dropped = buffer[keep:-_END_KEPT]
            left_out = _LeftOut(
                left_out.size_bytes + len(dropped), left_out.lines + dropped.count(b"\n")
            )
            buffer = buffer[:keep] + buffer[-_END_KEPT:]
        looked_at = max(len(buffer) - len(split) + 1, 0)
    if is_inside and buffer:
        yield buffer.removesuffix(b"\n"), left_out


def _block(text: bytes, line_id: int, left_out: _LeftOut) -> Block:
    records = text.split(_SPLIT)
    # The separator is a newline, which ends the record before it, and [20, which begins the next.
    sizes = np.fromiter(map(len, records), np.int64, len(records)) + len(_SPLIT)
    lines = _lines_of(text, records)
    brackets = len(records)
    bare: list[int] = []
    if text.startswith(b"[20"):
        records[0] = records[0][3:]
    else:
        brackets -= 1
        bare = [0]
    sizes[0] += left_out.size_bytes - (len(_SPLIT) - len(b"\n"))
    lines[0] += left_out.lines
    if left_out.size_bytes:
        note = b" [... %d bytes are left out here ...] " % left_out.size_bytes
        middle = RECORD_CAPACITY // 2
        records[0] = records[0][:middle] + note + records[0][middle:]
    ends = line_id + np.cumsum(lines)
    block = Block(records, ends - lines, lines, sizes, None, int(ends[-1]), bare)
    last_bytes = b"".join([record[-1:] for record in records])
    if b"\n" in last_bytes or b"\r" in last_bytes:
        block = _trimmed(block)
    # Each record begins with one [20, except perhaps the first. More of them may be torn records.
    is_torn = text.count(b"[20") > brackets and any(map(_TORN.search, records))
    return _split_where_torn(block) if is_torn else block


def _lines_of(text: bytes, records: list[bytes]) -> Longs:
    if text.count(b"\n") == len(records) - 1:
        return np.ones(len(records), np.int64)
    newlines = map(bytes.count, records, repeat(b"\n"))
    return np.fromiter(newlines, np.int64, len(records)) + 1


def _trimmed(block: Block) -> Block:
    """Removes empty lines at the ends of records, also from their numbers of lines."""
    trimmed = [record.rstrip(b"\r\n") for record in block.records]
    gone = [
        record.count(b"\n", len(short))
        for record, short in zip(block.records, trimmed, strict=True)
    ]
    return block._replace(records=trimmed, lines=block.lines - np.array(gone, np.int64))


def _split_where_torn(block: Block) -> Block:
    """Splits torn records: a killed process leaves half a line, the next one writes right after."""
    records: list[bytes] = []
    bare: list[int] = []
    numbers: list[tuple[int, int, int]] = []
    for place, record in enumerate(block.records):
        line_id, count, size = (int(column[place]) for column in block[1:4])
        begins = [match.start() for match in _TORN.finditer(record)]
        if place in block.bare:
            bare.append(len(records))
        if not begins:
            records.append(record)
            numbers.append((line_id, count, size))
            continue
        records.append(record[: begins[0]])
        lines = record.count(b"\n", 0, begins[0])
        numbers.append((line_id, lines + 1, size - (len(record) - begins[0])))
        for begin, end in pairwise([*begins, len(record)]):
            part = record[begin:end]
            before = record.count(b"\n", 0, begin)
            records.append(part.removeprefix(b"[20"))
            numbers.append((line_id + before, part.count(b"\n") + 1, len(part)))
    line_ids, lines_of, sizes = np.array(numbers, np.int64).T
    return Block(records, line_ids, lines_of, sizes, None, block.end_id, bare)


def _lines(content: Content) -> Iterator[bytes]:
    rest = b""
    for data in content:
        *whole, rest = (rest + data).split(b"\n")
        yield from whole
        if len(rest) > RECORD_CAPACITY:
            rest = rest[:RECORD_CAPACITY]
    if rest:
        yield rest
