"""The table of bounds in docs/security.md says what the code says, and names its tests."""

from __future__ import annotations

import dataclasses
import importlib
import re
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from replica_manager.configuration.broker_keys import BROKER_KEYS

ROOT: Final = Path(__file__).parent.parent
_CONSTANT: Final = re.compile(r"`([\w/]+\.py)::([\w.]+)`")
_TEST: Final = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
_LIMIT: Final = re.compile(r"([\d,]+)(?: (KiB|MiB|bytes|ms|s|characters))?")
_FACTORS: Final = {"KiB": 1024, "MiB": 1024 * 1024}


class Bound(NamedTuple):
    """One row of the table."""

    what: str
    limit: str
    place: str
    at_limit: str
    test: str

    @property
    def value(self) -> int | None:
        """The limit as a number; None where the row says it in words."""
        found = _LIMIT.fullmatch(self.limit)
        return found and int(found[1].replace(",", "")) * _FACTORS.get(found[2], 1)


def bounds() -> list[Bound]:
    """The rows of every table below the heading."""
    text = (ROOT / "docs" / "security.md").read_text().partition("\n## Bounds\n")[2]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [Bound(*row) for row in rows if row[0] != "what"]


BOUNDS: Final = bounds()


@pytest.mark.parametrize("bound", BOUNDS, ids=lambda bound: bound.what)
def test_a_bound_is_what_the_code_has(bound: Bound) -> None:
    constant = _CONSTANT.search(bound.place)
    key = re.match(r"`([a-z.]+)`", bound.place)
    if constant is not None:
        module = importlib.import_module(constant[1].removesuffix(".py").replace("/", "."))
        owner, _, name = constant[2].rpartition(".")
        defaults = {
            each.name: each.default
            for each in (dataclasses.fields(getattr(module, owner)) if owner else ())
        }
        assert defaults.get(name, getattr(module, name, None)) == bound.value
    elif key is not None:
        assert BROKER_KEYS[key[1]].default == bound.value
    else:
        named = re.findall(r"`([^`]+)`", bound.place)
        assert named
        assert all((ROOT / each).exists() or "<name>" in each for each in named)


def test_every_bound_names_the_test_that_shows_it() -> None:
    # That the named tests exist is for tests/test_house.py.
    assert [bound.what for bound in BOUNDS if not _TEST.search(bound.test)] == []


def test_the_table_has_the_bounds_of_every_part() -> None:
    parts = {bound.place.strip("`").split("/")[0] for bound in BOUNDS}

    assert len(BOUNDS) > 40
    assert {"kafka_common", "zkcontroller", "replica_manager", "kraft"} <= parts
