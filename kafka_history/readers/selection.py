"""Selects the shapes that a record can have, by its logger and its message's first words."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Final, NamedTuple

from kafka_history.shapes.catalogue import Shape, shapes

LOGGERS_MAX: Final = 10_000
"""Most loggers whose tables are cached."""


class Candidates(NamedTuple):
    """The shapes that a line of these loggers with these first words may have."""

    loggers: str
    """A logger's full name, or a pattern such as ``kafka.log.*``."""
    words: str
    """The first two words, the first word, or empty: all lines of these shapes begin with it."""
    shapes: tuple[Shape, ...]


def candidates_of(loggers: str) -> list[Candidates]:
    """The candidates for a logger or a pattern of loggers, by first words."""
    said = [shape for shape in shapes() if shape.is_said_by(loggers)]
    keys = {words for shape in said for words in _first_words(shape)}
    return [
        Candidates(loggers, words, tuple(fitting))
        for words in sorted(keys | {""})
        if (fitting := [s for s in said if any(_begins(words, k) for k in _first_words(s))])
    ]


def _first_words(shape: Shape) -> set[str]:
    """The first two complete words of each stem of a shape, or fewer; ``#`` for a number."""
    return {
        "#" if stem.startswith("#") else " ".join(stem.split(" ")[:-1][:2])
        for stem in shape.expression.stems
    }


def _begins(words: str, key: str) -> bool:
    """Whether a line that begins with ``words`` can also begin with ``key``."""
    return not key or words == key or words.startswith(key + " ")


def selected(logger: bytes, words: bytes) -> tuple[Shape, ...]:
    """The shapes to try, in order: those for two words, else for one, else for the logger alone.

    ``words``: the first two words of the message after its writer, or ``#`` for a number.
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
