"""Finds the function and the line of code that decided a question or an effect.

A procedure that waits for a result has a current line.  Its generators delegate to each other
(``yield from``); the innermost one that is no helper (:data:`HELPERS`) is the function that asked.
Effects are appended to the outbox, and :class:`WatchedOutbox` notes the function that appended
each.  The core does not know of this.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Generator, Iterable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, Self, TypeAlias

from typing_extensions import override

import zkcontroller
from zkcontroller.core.effects import Effect
from zkcontroller_lab.recording import CodeExcerpt

Place: TypeAlias = tuple[CodeType, int]
"""A function's code and a line of its file."""

HELPERS: Final = ("core/tools.py", "core/journal.py", "core/broker_requests.py", __file__)
"""Ends of the names of files with helpers, whose functions decide nothing themselves."""
LONGEST_EXCERPT: Final = 120
"""The most lines of a function that a recording shows."""

_FOLDER: Final = Path(zkcontroller.__file__).parent.parent


def waiting_place(procedure: Generator[Any, Any, Any]) -> Place | None:
    """The place where a procedure waits for a result; None if the procedure has ended."""
    found: Place | None = None
    each: Any = procedure
    while inspect.isgenerator(each) and each.gi_frame is not None:
        code = each.gi_frame.f_code
        if not code.co_filename.endswith(HELPERS) or found is None:
            found = (code, each.gi_frame.f_lineno)
        each = each.gi_yieldfrom
    return found


class WatchedOutbox(list[Effect]):
    """An outbox that knows which function appended each effect."""

    def __init__(self) -> None:
        super().__init__()
        self.places: list[Place | None] = []

    @override
    def append(self, effect: Effect) -> None:
        self.places.append(_caller(sys._getframe(1)))
        super().append(effect)

    @override
    def __iadd__(self, effects: Iterable[Effect]) -> Self:  # type: ignore[override]  # a list's takes more
        place = _caller(sys._getframe(1))
        for effect in effects:
            self.places.append(place)
            super().append(effect)
        return self

    @override
    def clear(self) -> None:
        self.places.clear()
        super().clear()


def _caller(frame: FrameType | None) -> Place | None:
    while frame is not None and frame.f_code.co_filename.endswith(HELPERS):
        frame = frame.f_back
    return None if frame is None else (frame.f_code, frame.f_lineno)


class CodeBook:
    """The functions that a recording names, each once."""

    def __init__(self) -> None:
        self.excerpts: list[CodeExcerpt] = []
        self._indices: dict[CodeType, int] = {}

    def note(self, place: Place | None) -> tuple[int, int] | None:
        """(index of the function in ``excerpts``, line) of a place; None if there is no place."""
        if place is None:
            return None
        code, line = place
        index = self._indices.get(code)
        if index is None:
            index = self._indices[code] = len(self.excerpts)
            self.excerpts.append(_excerpt(code))
        return (index, line)


def _excerpt(code: CodeType) -> CodeExcerpt:
    path = Path(code.co_filename)
    file = str(path.relative_to(_FOLDER)) if path.is_relative_to(_FOLDER) else path.name
    try:
        lines, first_line = inspect.getsourcelines(code)
    except OSError:  # installed without its sources
        lines, first_line = [], code.co_firstlineno
    text = "".join(lines[:LONGEST_EXCERPT])
    return CodeExcerpt(file, code.co_qualname, first_line, text)
