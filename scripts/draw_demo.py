"""Draws docs/demo.svg: what ``make demo`` prints.

    .venv/bin/python scripts/draw_demo.py

It runs ``zkctl demo`` in a terminal of its own (Java on the path).
"""

from __future__ import annotations

import os
import pty
import re
import sys
from io import StringIO
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

PICTURE: Final = Path(__file__).parent.parent / "docs" / "demo.svg"
WIDTH: Final = 120
_FONT: Final = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
_CURSOR: Final = re.compile(r"\x1b\[(?:\?25[lh]|1A)")
_SPINNER: Final = re.compile("[\u2800-\u28ff]")
_AGAIN: Final = "The same, asked of the cluster itself"


def main() -> None:
    """Draw the picture."""
    shown = bytearray()

    def read(descriptor: int) -> bytes:
        data = os.read(descriptor, 65_536)
        shown.extend(data)
        return data

    os.environ |= {"COLUMNS": str(WIDTH), "TERM": "xterm-256color"}
    status = pty.spawn([sys.executable, "-m", "zkcontroller_cli", "demo"], read)
    assert os.waitstatus_to_exitcode(status) == 0, "the demo ended well"
    lines = [_last(line) for line in shown.decode().replace("\r\n", "\n").strip().split("\n")]
    # What is asked of the cluster in JSON is wide, and says what was shown before.
    end = next(at for at, line in enumerate(lines) if _AGAIN in line)
    shown_lines = [line for line in lines[:end] if not _SPINNER.search(line)]
    console = Console(record=True, width=WIDTH, file=StringIO())
    console.print(Text.from_ansi("\n".join([*shown_lines, lines[-1]])))
    # The fonts would be fetched from a server; the reader's own are as good.
    picture = _FONT.sub("", console.export_svg(title="make demo"))
    PICTURE.write_text(picture, encoding="utf-8")


def _last(line: str) -> str:
    """What is left on the screen of a line that was written several times, as a spinner is."""
    return _CURSOR.sub("", line.rpartition("\x1b[2K")[2])


if __name__ == "__main__":
    main()
