"""The interface for recording a run: it is called for each step of the controllers.

An observer changes nothing and uses no random numbers, so a run with an observer is equal to the
run without it.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from zkcontroller.core.effects import Question

if TYPE_CHECKING:
    from zkcontroller.core.effects import Effect, SendControlRequest
    from zkcontroller.core.events import Event
    from zkcontroller.zookeeper.requests import WatchFired
    from zkcontroller_simulation.process import BrokerProcess


class Observer(Protocol):
    """Called between a controller and its driver; ``process`` is the controller's process."""

    def watch_fires(self, process: BrokerProcess, fired: WatchFired) -> None:
        """ZooKeeper fired a watch of the process; the notification is on its way."""

    def watch_arrives(self, process: BrokerProcess, fired: WatchFired) -> None:
        """The notification arrived, and may become an event."""

    def event_queued(self, process: BrokerProcess, event: Event) -> None:
        """An event went into the controller's queue."""

    def event_begins(self, process: BrokerProcess, task: str, event: Event | None) -> None:
        """A procedure begins; ``event`` is None for the procedure that starts the broker."""

    def effects_begin(self, process: BrokerProcess, effects: Sequence[Effect]) -> None:
        """The effects in the outbox will be performed next."""

    def question_asked(
        self, process: BrokerProcess, question: Question, procedure: Generator[Question, Any, Any]
    ) -> None:
        """A procedure yielded a question and waits for its result."""

    def question_answered(self, process: BrokerProcess, answer: object) -> None:
        """The result will be sent into the procedure next; an exception is thrown into it."""

    def event_ends(self, process: BrokerProcess, error: Exception | None) -> None:
        """The procedure ended, with an error or without."""

    def request_arrives(self, target: BrokerProcess, send: SendControlRequest, error: int) -> None:
        """A broker got a control request; ``error`` is the top-level code of its response."""

    def line_added(self, line: str) -> None:
        """The history got this line, without its time."""
