"""Lines of one shape, taken apart: which of a shape's groups fills which column.

A shape's expression is compiled when the first line comes that may have it: most logs know some
sixty of the 372.
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
# Where many lines are one text, no field may reach into the next line.
_WITHIN_A_LINE: Final = (
    (r"[\s\S]*", ".*"), (r"\s*", r"[^\S\n]*"), ("[^']*", r"[^'\n]*"), (r"[^\]]*", r"[^\]\n]*"),
    ("[^)]*", r"[^)\n]*"),
)  # fmt: skip

Found = list[tuple[bytes, ...]]


class LineShape(NamedTuple):
    """A shape, ready to take lines apart."""

    shape: Shape
    line: re.Pattern[bytes]
    """Matches a whole line within a text of many."""
    block: re.Pattern[bytes]
    """Matches a whole message, of however many lines."""

    def take_apart(self, messages: Sequence[bytes]) -> tuple[Found, list[int]]:
        """The groups of the messages that have this shape, and the places of those that have not.

        The messages are of one line each.  A group that took no part is empty.
        """
        # A search that fails costs more than a match: it begins anew at every byte.
        if self.line.match(messages[0]):
            found = self.line.findall(b"\n".join(messages))
            if len(found) == len(messages):
                return (found if self.line.groups > 1 else [(text,) for text in found]), []
        return self._one_by_one(self.line, messages)

    def take_blocks_apart(self, messages: Sequence[bytes]) -> tuple[Found, list[int]]:
        """Takes messages of several lines apart, as :meth:`take_apart` does those of one."""
        return self._one_by_one(self.block, messages)

    @staticmethod
    def _one_by_one(
        pattern: re.Pattern[bytes], messages: Sequence[bytes]
    ) -> tuple[Found, list[int]]:
        matches = [pattern.match(message) for message in messages]
        found = [match.groups(b"") or (b"",) for match in matches if match]
        return found, [place for place, match in enumerate(matches) if not match]

    def columns(self, found: Found, messages: Sequence[bytes]) -> dict[str, pa.Array | str]:
        """The columns of the schema that these lines fill; ``messages`` are theirs.

        A text instead of a column stands in all of them.
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
    """Of several groups, of which one holds text in each line, that text."""
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
