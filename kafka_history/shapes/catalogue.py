"""The shapes, loaded: which logger says them, what they are called, how they are recognised.

Ids without a suffix are the newest wording; ``-v241`` is an older one, first seen in 2.4.1, or
still that of 0.11.  Several shapes may fit a line: the lowest rank wins.
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
    """One line of Kafka's, in all its instances."""

    id: str
    rank: int
    story: str
    """The file it stands in: ``election``, ``isr``, …"""
    loggers: tuple[str, ...]
    """log4j's loggers; ``*`` stands for anything."""
    levels: tuple[str, ...]
    kafka: str
    """First and last version that print it, such as ``2.1.0-3.9``."""
    sets: tuple[tuple[str, str], ...]
    """Columns that follow from the shape alone."""
    template: str
    meaning: str
    expression: Expression

    @property
    def kind(self) -> str:
        """The family: the id without the suffix of an older wording."""
        return re.sub(r"-v\d+$", "", self.id)

    @property
    def component(self) -> str:
        """``controller`` or ``broker``: in which role the broker speaks."""
        return "controller" if _CONTROLLER_SPEAKS.match(self.template) else "broker"

    def is_said_by(self, logger: str) -> bool:
        """Whether the logger may say it."""
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


# libyaml where PyYAML has it: a tenth of the time.
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
