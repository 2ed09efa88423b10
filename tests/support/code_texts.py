"""The texts in a module's code: what its user may read."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.support.sources import nodes


def text_of(node: ast.AST) -> str | None:
    """The text that stands there, with an ellipsis for what is filled in; None if it is none."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(
                str(each.value) if isinstance(each, ast.Constant) else "…" for each in values
            )
        case _:
            return None


def texts(module: Path) -> list[tuple[int, str]]:
    """Line and text of everything that is no docstring; the pieces of a filled-in text as well."""
    docstrings = {id(node.value) for node in nodes(module) if isinstance(node, ast.Expr)}
    return [
        (node.lineno, text)
        for node in nodes(module)
        if isinstance(node, ast.expr)
        and id(node) not in docstrings
        and (text := text_of(node)) is not None
    ]
