"""Guards of safety: what would let two leaders act in one epoch, or a committed record be lost.

They are no ``assert``: ``python -O`` leaves those out, and a quorum must be as safe with it.
"""

from __future__ import annotations

from zkcontroller.errors import RaftFatal


def require(holds: bool, reason: str) -> None:
    """Returns if that holds; RaftFatal if not: the process must end."""
    if not holds:
        raise RaftFatal(reason)
