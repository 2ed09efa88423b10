"""Writes the table of hold points into docs/testing.md: python -m scripts.list_hold_points."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from zkcontroller.runtime.hold_points import HOLD_POINTS

DOCUMENT: Final = Path(__file__).parent.parent / "docs" / "testing.md"
_HEAD: Final = "| name | the controller stands where |\n|---|---|\n"
_TABLE: Final = re.compile(re.escape(_HEAD) + r"(?:[^\n]+\n)+")


def relisted(document: str) -> str:
    """The document with the table as it must be now."""
    rows = "".join(f"| `{name}` | {meaning} |\n" for name, meaning in HOLD_POINTS.items())
    return _TABLE.sub(lambda _: _HEAD + rows, document)


if __name__ == "__main__":
    DOCUMENT.write_text(relisted(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
