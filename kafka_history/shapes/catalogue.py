"""Loads the shapes: each is the format of one log line of Kafka.

An id without a suffix is the newest wording of a line; a suffix such as ``-v241`` marks an older
wording, by a version of Kafka that has it.  If several shapes match a line, the lowest rank wins.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

import yaml

from kafka_history.shapes.template import Expression, compile_template

_CONTROLLER_SPEAKS: Final = re.compile(r"⟨?<(?:C|SC|S0|CE|CC|RT_?|PSM|RSM|TD)>")


class Shape(NamedTuple):
    """The format of one log line of Kafka."""

    id: str
    rank: int
    story: str
    """The YAML file that contains it, without the suffix: ``election``, ``isr``, …"""
    loggers: tuple[str, ...]
    """Names of log4j loggers; ``*`` matches any text."""
    levels: tuple[str, ...]
    kafka: str
    """First and last version that log it, such as ``2.1.0-3.9``."""
    sets: tuple[tuple[str, str], ...]
    """Columns with the same value in each line of the shape: names and values."""
    template: str
    meaning: str
    expression: Expression

    @property
    def kind(self) -> str:
        """The family: the id without the suffix of an older wording."""
        return re.sub(r"-v\d+$", "", self.id)

    @property
    def component(self) -> str:
        """``controller`` or ``broker``: the role in which the broker logs it."""
        return "controller" if _CONTROLLER_SPEAKS.match(self.template) else "broker"

    def is_said_by(self, logger: str) -> bool:
        """Whether the logger may write lines of this shape."""
        return any(fnmatchcase(logger, pattern) for pattern in self.loggers)


@cache
def shapes() -> tuple[Shape, ...]:
    """All shapes, the lowest rank first."""
    found = [
        _shape(path.name.removesuffix(".yaml"), entry)
        for path in files(__package__).iterdir()
        if path.name.endswith(".yaml")
        for entry in yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)
    ]
    return tuple(sorted(found, key=lambda shape: shape.rank))


# libyaml, if PyYAML was built with it, needs a tenth of the time.
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _shape(story: str, entry: dict[str, Any]) -> Shape:
    return Shape(
        id=entry["id"],
        rank=entry["rank"],
        story=story,
        loggers=_listed(entry["logger"]),
        levels=_listed(entry["level"]),
        kafka=entry["kafka"],
        sets=tuple(entry.get("sets", {}).items()),
        template=entry["says"],
        meaning=entry.get("means", ""),
        expression=compile_template(entry["says"]),
    )


def _listed(value: str | list[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)
