"""Which shapes a record can have, by its logger and the first words of its message."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Final

from zkcontroller.history.readers.typed_rows import candidates_of
from zkcontroller.history.shapes.catalogue import Shape, shapes

LOGGERS_MAX: Final = 10_000
"""Loggers that are remembered."""


def selected(logger: bytes, words: bytes) -> tuple[Shape, ...]:
    """The shapes to try, in order: by two words, else by one, else by the logger alone.

    ``words``: the first two of the message behind who speaks, ``#`` for a number.
    """
    table = _table(logger)
    return table.get(words) or table.get(words.split(b" ", 1)[0]) or table.get(b"") or ()


@lru_cache(LOGGERS_MAX)
def _table(logger: bytes) -> dict[bytes, tuple[Shape, ...]]:
    for kind, pattern in _kinds():
        if pattern.fullmatch(logger):
            return _table_of(kind)
    return {}


@cache
def _table_of(kind: str) -> dict[bytes, tuple[Shape, ...]]:
    return {entry.words.encode(): entry.shapes for entry in candidates_of(kind)}


@cache
def _kinds() -> list[tuple[str, re.Pattern[bytes]]]:
    """The loggers that shapes name: exact ones first, then the longest pattern."""
    named = {name for shape in shapes() for name in shape.loggers}
    ordered = sorted(named, key=lambda name: ("*" in name, -len(name), name))
    return [(name, re.compile(re.escape(name).replace(r"\*", ".*").encode())) for name in ordered]
