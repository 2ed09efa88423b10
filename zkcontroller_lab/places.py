"""Which function decided, and at which line: read off the procedures and the outbox.

A procedure that waits for an answer stands at a line.  Its generators delegate to each other
(``yield from``), so the innermost one that is not a mere tool is the function that asked.  An
effect is an element of the outbox; :class:`WatchedOutbox` notes who appended it.  The core knows
nothing of either.
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
"""Ends of the files whose functions carry out what others decide."""
LONGEST_EXCERPT: Final = 120
"""Lines of a function that a recording shows; around the deciding line of a longer one."""

_FOLDER: Final = Path(zkcontroller.__file__).parent.parent


def waiting_place(procedure: Generator[Any, Any, Any]) -> Place | None:
    """Where a procedure that yielded a question waits for its answer; None if it has ended."""
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
        """The place as a line of a recording has it; None where there is none."""
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
