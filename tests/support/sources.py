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
    """All nodes of a file's tree."""
    return tuple(ast.walk(parsed(path)))


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
