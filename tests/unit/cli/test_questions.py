"""Questions before a change: the time for the change begins with the answer."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

COMMANDS: Final = Path(__file__).parents[3] / "cli"


def asking() -> Iterator[tuple[str, ast.FunctionDef]]:
    """Every function that asks its user, with its file's name."""
    for path in sorted(COMMANDS.rglob("*.py")):
        if "given.confirm" not in (source := path.read_text()):
            continue
        for function in ast.walk(ast.parse(source)):
            if isinstance(function, ast.FunctionDef) and question_in(function) is not None:
                yield f"{path.stem}.{function.name}", function


def question_in(function: ast.FunctionDef) -> int | None:
    """The line at which it asks."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("given.confirm"):
            return node.lineno
    return None


FUNCTIONS: Final = dict(asking())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_deadline_that_began_before_the_question_is_not_used_after_it(name: str) -> None:
    function = FUNCTIONS[name]
    asked_at = question_in(function)
    assert asked_at is not None
    later = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and node.id == "deadline" and node.lineno > asked_at
    ]

    # Stores come before loads of the same line in no verb: each begins its time in a line alone.
    first = min(later, key=lambda node: node.lineno, default=None)

    assert first is None or isinstance(first.ctx, ast.Store)


def test_the_verbs_that_ask_are_found() -> None:
    assert {"delete.delete", "partition_elect.elect", "token.create"} <= FUNCTIONS.keys()
