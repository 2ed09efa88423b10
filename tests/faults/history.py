"""What clients of a cluster did and were answered: the only thing that the checks look at."""

from __future__ import annotations

import threading
from enum import Enum
from typing import NamedTuple


class Outcome(Enum):
    """What a producer knows of a record it has sent."""

    OK = "acknowledged"
    FAIL = "refused, and never sent again: not in the log"
    INFO = "nobody knows whether it is in the log"


class Sent(NamedTuple):
    """One record, and what became of it."""

    partition: int
    value: str
    outcome: Outcome
    offset: int = -1
    """As the broker gave it; -1 if it gave none."""


class Polled(NamedTuple):
    """One record that a consumer was given, in the order in which it was."""

    consumer: str
    partition: int
    offset: int
    value: str


class History:
    """Grows from several threads; read when they have ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.sent: list[Sent] = []
        self.polled: list[Polled] = []
        self.final: list[Polled] = []
        """A reading of everything, after the cluster was well again."""

    def note_sent(self, sent: Sent) -> None:
        with self._lock:
            self.sent.append(sent)

    def note_polled(self, polled: Polled) -> None:
        with self._lock:
            self.polled.append(polled)

    @property
    def acknowledged(self) -> list[Sent]:
        return [sent for sent in self.sent if sent.outcome is Outcome.OK]
