"""Reads lists in a text, and shortens a text."""

from __future__ import annotations

import re
from typing import Final

SHOWN: Final = 300
"""Longest text that :func:`shown` returns, in characters."""


def ids(text: str | None) -> list[int]:
    """``1,2`` or ``Set(1, 2)`` as a list of broker ids; empty for None."""
    return [int(each) for each in re.findall(r"[0-9]+", text or "")]


def names(text: str | None) -> list[str]:
    """``a,b`` as a list of names; empty for None."""
    return [each for each in re.split(r"[ \t\n\r]*,[ \t\n\r]*", text or "") if each]


def shown(*texts: str | None) -> str | None:
    """The first text that is not None, cut to :data:`SHOWN` characters."""
    return next((text[:SHOWN] for text in texts if text is not None), None)
