"""Logs denials to ``kafka-authorizer.log``, at a limited rate.

Kafka writes a line for each name that is denied.  A client without rights may name 100,000 topics
in a request, and fill the disk with lines.  So a principal has a number of lines for denials in
each window of time; from the 100th line on no repeat is written.  What is not written is counted,
and the count is written with the principal's first denial after that window.

Source: Kafka ``AclAuthorizer.logAuditMessage``, which has no bound.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from replica_manager.security.principals import Principal

WINDOW_S: Final = 60.0
LINES_WITH_REPEATS: Final = 100
"""Denials of one principal that are written in a window, whether one like it was or not."""
MOST_LINES: Final = 1_000
"""Denials of one principal that are written in a window."""
MOST_PRINCIPALS: Final = 1_000
"""Principals that have lines of their own in a window; all others share those of one."""
LONGEST_NAME: Final = 300
"""Characters of a resource's name that a line shows."""

_OTHERS: Final = Principal("User", "(others)")
_log = logging.getLogger("kafka.authorizer.logger")


class AuditLog:
    """The denials of one authorizer.  For one thread."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._windows: dict[Principal, _Window] = {}
        self._next_cleaning_s = now_s() + WINDOW_S

    def denied(self, principal: Principal, line: str) -> None:
        """Logs a denial at INFO, unless the principal has had too many."""
        now_s = self._now_s()
        if now_s >= self._next_cleaning_s:
            self._next_cleaning_s = now_s + WINDOW_S
            self._windows = {
                each: window
                for each, window in self._windows.items()
                if window.unwritten or now_s < window.end_s
            }
        if principal not in self._windows and len(self._windows) >= MOST_PRINCIPALS:
            principal = _OTHERS
        window = self._windows.get(principal)
        if window is None or now_s >= window.end_s:
            if window is not None and window.unwritten:
                _log.info(
                    "Principal = %s was Denied %d more times than are listed here",
                    principal,
                    window.unwritten,
                )
            window = self._windows[principal] = _Window(now_s + WINDOW_S)
        if window.takes(line):
            _log.info("%s", line)
        else:
            window.unwritten += 1


class _Window:
    """The lines of one principal in the current window."""

    def __init__(self, end_s: float) -> None:
        self.end_s = end_s
        self.unwritten = 0
        self._lines = 0
        self._seen: set[int] = set()
        """Hashes: two lines that share one lose a line, which is only counted."""

    def takes(self, line: str) -> bool:
        """Whether the line is logged."""
        if self._lines >= MOST_LINES:
            return False
        key = hash(line)
        if self._lines >= LINES_WITH_REPEATS and key in self._seen:
            return False
        self._seen.add(key)
        self._lines += 1
        return True
