"""Python files, parsed once for all tests that look at them."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path


@cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a file; who reads it changes nothing in it."""
    return ast.parse(path.read_text())


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a file's tree, as ``ast.walk`` gives them in a third of the time.

    But those that say whether a name is read or written: each third node is one of these.
    """
    found: list[ast.AST] = [parsed(path)]
    for node in found:  # which grows meanwhile
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                found += [each for each in value if isinstance(each, ast.AST)]
            elif isinstance(value, ast.AST) and name != "ctx":
                found.append(value)
    return tuple(found)


@contextmanager
def kept() -> Iterator[None]:
    """Keeps what is parsed until the end, 0.5 GB for all files, and looks for no garbage meanwhile.

    Every node stays: to look through them again and again takes longer than to parse them.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        parsed.cache_clear()
        nodes.cache_clear()
