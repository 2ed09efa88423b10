"""Logs denials to ``kafka-authorizer.log``, at a limited rate.

Kafka writes a line for each denied name.  A client without rights may name 100,000 topics in a
request, and so fill the disk.  Here each principal has a maximum number of lines in each window of
time, and after 100 lines no line is repeated.  Lines that are not written are counted; the count is
logged with the principal's first denial after the window.

Source: Kafka ``AclAuthorizer.logAuditMessage``, which has no bound.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from replica_manager.security.principals import Principal

WINDOW_S: Final = 60.0
LINES_WITH_REPEATS: Final = 100
"""Lines of one principal in a window, after which repeated lines are not written."""
MOST_LINES: Final = 1_000
"""The most lines of one principal in a window."""
MOST_PRINCIPALS: Final = 1_000
"""The most principals with a window of their own; all others share one window."""
LONGEST_NAME: Final = 300
"""The most characters of a resource name in a line."""

_OTHERS: Final = Principal("User", "(others)")
_log = logging.getLogger("kafka.authorizer.logger")


class AuditLog:
    """Logs the denials of one authorizer.  For one thread."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._windows: dict[Principal, _Window] = {}
        self._next_cleaning_s = now_s() + WINDOW_S

    def denied(self, principal: Principal, line: str) -> None:
        """Logs a denial at INFO, unless the principal has too many lines in this window."""
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
        """Hashes of the written lines; a rare collision counts a new line as repeated."""

    def takes(self, line: str) -> bool:
        """Counts a line that the limits of a window allow; False if they do not."""
        if self._lines >= MOST_LINES:
            return False
        key = hash(line)
        if self._lines >= LINES_WITH_REPEATS and key in self._seen:
            return False
        self._seen.add(key)
        self._lines += 1
        return True
