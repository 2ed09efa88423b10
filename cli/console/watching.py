"""``--watch``: a verb that only reads, run again and again until Ctrl-C.

On a terminal each result replaces the one before; elsewhere it follows as a new block.  An error of
the first run ends the verb, as it would without ``--watch``.  A later error of the cluster is
shown, and the verb runs again.
"""

from __future__ import annotations

import io
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stderr
from typing import Final, TextIO

from typing_extensions import override

from zkcontroller_cli.console.errors import (
    ExitCode,
    OutputLost,
    ReaderGone,
    exit_code_of,
    sentence_of,
)
from zkcontroller_cli.console.render import Format
from zkcontroller_cli.console.shared_settings import Settings, say
from zkcontroller_cli.console.tables import text_width

pause: Callable[[float], None] = time.sleep

_CLEAR: Final = "\x1b[2J"
_HOME: Final = "\x1b[H"
_END_OF_LINE: Final = "\x1b[K"
_END_OF_SCREEN: Final = "\x1b[J"
_PASSING: Final = (ExitCode.CANNOT_CONNECT, ExitCode.TIMED_OUT, ExitCode.REFUSED)
"""Exit codes of errors that may not occur at the next run."""
_BETWEEN: Final = {
    Format.TABLE: "\n",
    Format.WIDE: "\n",
    Format.CSV: "\n",
    Format.YAML: "---\n",
}
"""By format, the text between two results; the other formats need none."""


def watch(look: Callable[[], object], given: Settings, title: str, every_s: float) -> int:
    """Run a verb every ``every_s`` seconds, until Ctrl-C or until the reader closes stdout."""
    if sys.stdout.isatty():
        _repaint(look, given, f"{title}, every {every_s:g} s", every_s)
    else:
        _append(look, given, every_s)
    return ExitCode.OK


def _append(look: Callable[[], object], given: Settings, every_s: float) -> None:
    look()
    while True:
        pause(every_s)
        sys.stdout.write(_BETWEEN.get(given.renderer.format, ""))
        if error := _error_of(look):
            say(f"zkctl: {error}")


def _repaint(look: Callable[[], object], given: Settings, title: str, every_s: float) -> None:
    screen = _Screen()
    given.out = screen
    talk = io.StringIO()
    error = ""
    is_first = True
    while True:
        with redirect_stderr(talk):
            if is_first:
                _first(look, talk, sys.__stderr__)
            else:
                error = _error_of(look)
        moment = time.strftime("%H:%M:%S")
        lines = [f"{moment}  {title}", "", *_taken(screen).splitlines()]
        lines += [*_taken(talk).splitlines(), *([f"zkctl: {error}"] if error else [])]
        sys.stdout.write(_painted(lines, is_first=is_first))
        sys.stdout.flush()
        is_first = False
        pause(every_s)


def _first(look: Callable[[], object], talk: io.StringIO, stderr: TextIO | None) -> None:
    """The first run; if it fails, its text in ``talk`` is written to stderr."""
    try:
        look()
    except BaseException:
        if stderr is not None:
            stderr.write(_taken(talk))
        raise


def _error_of(look: Callable[[], object]) -> str:
    """Run the verb; returns the text of an error that may pass by itself, else an empty text.

    Any other error is raised.
    """
    try:
        look()
    except (ReaderGone, OutputLost):
        raise
    except Exception as error:
        if exit_code_of(error) not in _PASSING:
            raise
        return sentence_of(error)
    return ""


class _Screen(io.StringIO):
    """Collects a result that is shown on the terminal, with its width and colours."""

    @override
    def isatty(self) -> bool:
        return True


def _taken(buffer: io.StringIO) -> str:
    """Take the text out of the buffer, which is empty afterwards."""
    text = buffer.getvalue()
    buffer.seek(0)
    buffer.truncate()
    return text


def _painted(lines: list[str], *, is_first: bool) -> str:
    """The text that shows the lines on the terminal; lines that do not fit are only counted."""
    size = shutil.get_terminal_size()
    room = max(2, size.lines - 1)  # one line is left for the cursor
    rows = [max(1, -(-text_width(_plain(line)) // max(1, size.columns))) for line in lines]
    shown = 0
    used = 0
    while shown < len(lines) and used + rows[shown] <= room:
        used += rows[shown]
        shown += 1
    if shown < len(lines):
        shown = max(0, shown - 1)
        lines = [*lines[:shown], f"and {len(lines) - shown} more lines: -o json has all"]
    text = "".join(f"{line}{_END_OF_LINE}\n" for line in lines)
    return (_CLEAR if is_first else "") + _HOME + text + _END_OF_SCREEN


def _plain(line: str) -> str:
    import click

    return click.unstyle(line)
