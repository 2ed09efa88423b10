"""The shapes of Kafka 3.9's log lines: regular expressions by family, and real lines for them.

``data/kafka-log-lines.tsv`` lists every log call of Kafka 0.11 to 3.9 with Java's named groups; the
first row in its order that matches names the family.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from tests.support.paths import DATA

RECORD = re.compile(
    r"\[(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\] (?P<level>[A-Z]+) "
    r"(?P<message>.*) \((?P<logger>[\w.$]+)\)",
    re.DOTALL,
)
"""A whole line without its line end."""


@dataclass(frozen=True)
class Shape:
    family: str
    logger: str
    levels: frozenset[str]
    pattern: re.Pattern[str]


@cache
def shapes_of_3_9() -> tuple[Shape, ...]:
    lines = (DATA / "kafka-log-lines.tsv").read_text().splitlines()[1:]
    rows = [line.split("\t") for line in lines]
    return tuple(
        Shape(
            family,
            logger,
            frozenset(levels.split("|")),
            re.compile(re.sub(r"\(\?<(?=[a-zA-Z])", "(?P<", pattern)),
        )
        for family, logger, levels, _, last, pattern in rows
        if last == "3.9"
    )


def shape_of(message: str) -> tuple[Shape, re.Match[str]] | None:
    """The family of a message, and what its fields are; None if Kafka 3.9 has no such line."""
    for shape in shapes_of_3_9():
        match = shape.pattern.match(message)
        if match is not None:
            return shape, match
    return None


def assert_is_kafkas(line: str, family: str) -> None:
    """A whole log line that Kafka 3.9 could have written, of that family."""
    record = RECORD.fullmatch(line)
    assert record is not None, line
    found = shape_of(record["message"])
    assert found is not None, line
    assert found[0].family == family, line
    assert record["level"] in found[0].levels, line
