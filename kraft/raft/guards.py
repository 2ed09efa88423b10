"""Checks against two leaders in one epoch and against the loss of committed records.

They do not use ``assert``, which ``python -O`` removes: a quorum must be just as safe then.
"""

from __future__ import annotations

from kafka_common.errors import RaftFatal


def require(holds: bool, reason: str) -> None:
    """Raises RaftFatal unless the condition holds; the process must then end."""
    if not holds:
        raise RaftFatal(reason)
