"""Runs a generator of steps to its end, as a broker does that has no other clients to serve."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")


def completed(steps: Generator[None, None, T]) -> T:
    """What the generator returns."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
