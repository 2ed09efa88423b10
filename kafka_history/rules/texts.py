"""Lists that stand in a text, and a text that is cut to be shown."""

from __future__ import annotations

import re
from typing import Final

SHOWN: Final = 300
"""Characters of a line that are shown of it."""


def ids(text: str | None) -> list[int]:
    """``1,2`` or ``Set(1, 2)`` as broker ids; none in no text."""
    return [int(each) for each in re.findall(r"[0-9]+", text or "")]


def names(text: str | None) -> list[str]:
    """``a,b`` as names; none in no text."""
    return [each for each in re.split(r"[ \t\n\r]*,[ \t\n\r]*", text or "") if each]


def shown(*texts: str | None) -> str | None:
    """The first of these texts that is there, as much of it as is shown."""
    return next((text[:SHOWN] for text in texts if text is not None), None)
