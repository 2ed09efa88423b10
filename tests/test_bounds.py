"""The table of bounds in docs/security.md says what the code says, and names its tests."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from kio.schema.errors import ErrorCode

from replica_manager.configuration.broker_keys import BROKER_KEYS

ROOT: Final = Path(__file__).parent.parent
_CONSTANT: Final = re.compile(r"`([\w/]+\.py)::([\w.]+)`")
_TEST: Final = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
_CODES: Final = {code.name.upper() for code in ErrorCode} - {"NONE"}
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
    def codes(self) -> set[str]:
        """The error codes that a client gets at the limit."""
        return _CODES.intersection(re.findall(r"\b[A-Z_]+\b", self.at_limit))

    @property
    def value(self) -> int | None:
        """The limit as a number; None where the row says it in words."""
        found = _LIMIT.fullmatch(self.limit)
        return found and int(found[1].replace(",", "")) * _FACTORS.get(found[2], 1)


def codes_of_test(path: str, name: str) -> set[str]:
    """The error codes that a test names, in its parameters and in constants of its module too."""
    body = ast.parse((ROOT / path).read_text()).body
    constants = {
        target.id: statement.value
        for statement in body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    [test] = (each for each in body if getattr(each, "name", None) == name)
    used = {each.id for each in ast.walk(test) if isinstance(each, ast.Name)}
    texts = [test, *(value for constant, value in constants.items() if constant in used)]
    words = re.findall(r"\w+", " ".join(map(ast.unparse, texts)))
    return _CODES.intersection(word.upper() for word in words)


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
        if owner:
            value = inspect.signature(getattr(module, owner)).parameters[name].default
        else:
            value = getattr(module, name)
        assert value == bound.value
    elif key is not None:
        assert BROKER_KEYS[key[1]].default == bound.value
    else:
        named = re.findall(r"`([^`]+)`", bound.place)
        assert named
        assert all((ROOT / each).exists() or "<name>" in each for each in named)


def test_every_bound_names_the_test_that_shows_it() -> None:
    # That the named tests exist is for tests/test_house.py.
    assert [bound.what for bound in BOUNDS if not _TEST.search(bound.test)] == []


def test_the_error_at_a_limit_is_the_one_of_the_test_that_shows_it() -> None:
    wrong = []
    for bound in BOUNDS:
        shown = set().union(*(codes_of_test(*test) for test in _TEST.findall(bound.test)))
        is_vague = "refused" in bound.at_limit and shown and not bound.codes
        if is_vague or not bound.codes <= shown:
            wrong.append((bound.what, bound.at_limit, shown))

    assert wrong == []


def test_the_table_has_the_bounds_of_every_part() -> None:
    parts = {bound.place.strip("[`").split("/")[0] for bound in BOUNDS}

    assert len(BOUNDS) > 40
    assert {"kafka_common", "zkcontroller", "replica_manager", "kraft"} <= parts
