"""Parses lines of one shape: the groups of its regular expression fill columns.

A shape's expression is compiled when the first line that may match it comes; most logs have lines
of some sixty of the 372 shapes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple

import pyarrow as pa

from kafka_history.event_schema import EVENT_COLUMNS
from kafka_history.readers.arrow_columns import (
    Texts,
    column,
    mapped,
    pairs,
)
from kafka_history.shapes.catalogue import Shape

_TYPE_OF: Final = {column.name: column.type for column in EVENT_COLUMNS}
_ERROR_CODE: Final = re.compile(rb"error_?[cC]ode=(-?\d+)")
_REQUESTS: Final = {
    b"LEADER_AND_ISR": b"LeaderAndIsr",
    b"UPDATE_METADATA": b"UpdateMetadata",
    b"STOP_REPLICA": b"StopReplica",
}
# To match many lines in one text, no field may match a newline.
_WITHIN_A_LINE: Final = (
    (r"[\s\S]*", ".*"), (r"\s*", r"[^\S\n]*"), ("[^']*", r"[^'\n]*"), (r"[^\]]*", r"[^\]\n]*"),
    ("[^)]*", r"[^)\n]*"),
)  # fmt: skip

Found = list[tuple[bytes, ...]]


class LineShape(NamedTuple):
    """A shape with its compiled expressions, to parse messages."""

    shape: Shape
    line: re.Pattern[bytes]
    """Matches a whole line within a text of many lines."""
    block: re.Pattern[bytes]
    """Matches a whole message of one or more lines."""

    def take_apart(self, messages: Sequence[bytes]) -> tuple[Found, list[int]]:
        """The groups of the messages that match, and the indexes of those that do not.

        Each message is one line.  A group that did not match is empty.
        """
        # Try the first message alone: a failed search of all is slow, it starts at every byte.
        if self.line.match(messages[0]):
            found = self.line.findall(b"\n".join(messages))
            if len(found) == len(messages):
                return (found if self.line.groups > 1 else [(text,) for text in found]), []
        return self._one_by_one(self.line, messages)

    def take_blocks_apart(self, messages: Sequence[bytes]) -> tuple[Found, list[int]]:
        """As :meth:`take_apart`, for messages of several lines."""
        return self._one_by_one(self.block, messages)

    @staticmethod
    def _one_by_one(
        pattern: re.Pattern[bytes], messages: Sequence[bytes]
    ) -> tuple[Found, list[int]]:
        matches = [pattern.match(message) for message in messages]
        found = [match.groups(b"") or (b"",) for match in matches if match]
        return found, [place for place, match in enumerate(matches) if not match]

    def columns(self, found: Found, messages: Sequence[bytes]) -> dict[str, pa.Array | str]:
        """The columns of the schema for messages of this shape; ``found``: their groups.

        A text instead of a column is the value of all rows.
        """
        shape = self.shape
        columns: dict[str, pa.Array | str] = {
            "shape": shape.id, "kind": shape.kind, "story": shape.story,
            "component": shape.component, **dict(shape.sets),
        }  # fmt: skip
        groups = list(zip(*found, strict=True))
        others: dict[str, Texts] = {}
        for name, numbers in shape.expression.groups:
            texts = _joined([groups[number - 1] for number in numbers])
            if name not in _TYPE_OF:
                others[name] = texts
            elif name == "request":
                columns[name] = mapped(texts, _REQUESTS)
            else:
                columns[name] = column(name, texts)
        if others:
            columns["values"] = pairs(list(others), list(others.values()))
        if shape.kind.startswith("recv-"):
            codes = [match[1] if (match := _ERROR_CODE.search(m)) else b"" for m in messages]
            columns["error_code"] = column("error_code", codes)
        return columns


def _joined(groups: list[tuple[bytes, ...]]) -> Texts:
    """The text of each line from several groups of a field, of which at most one has text."""
    filled = [group for group in groups if any(group)]
    if len(filled) <= 1:
        return filled[0] if filled else groups[0]
    return list(map(b"".join, zip(*filled, strict=True)))


@cache
def line_shape(shape: Shape) -> LineShape:
    """The shape with its expressions compiled."""
    pattern = shape.expression.pattern
    within = pattern
    for anywhere, here in _WITHIN_A_LINE:
        within = within.replace(anywhere, here)
    return LineShape(
        shape, re.compile(within.encode(), re.M), re.compile(pattern.encode() + rb"\Z")
    )
