"""What a recording of a run needs to be called for: the controllers' steps, as they happen.

A world calls its observer and goes on; an observer changes nothing and asks for no randomness.  So
a run with an observer is the run without it.
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
    """Called at the seam between a controller and its driver; every call says whose it is."""

    def watch_fires(self, process: BrokerProcess, fired: WatchFired) -> None:
        """ZooKeeper fired a watch of the process; the notification is on its way."""

    def watch_arrives(self, process: BrokerProcess, fired: WatchFired) -> None:
        """The notification arrived, and may become an event."""

    def event_queued(self, process: BrokerProcess, event: Event) -> None:
        """An event went into the controller's queue."""

    def event_begins(self, process: BrokerProcess, task: str, event: Event | None) -> None:
        """A procedure begins; ``event`` is None for the broker's own start."""

    def effects_begin(self, process: BrokerProcess, effects: Sequence[Effect]) -> None:
        """The outbox is about to be performed, and is still full."""

    def question_asked(
        self, process: BrokerProcess, question: Question, procedure: Generator[Question, Any, Any]
    ) -> None:
        """A procedure yielded a question and waits at its line for the answer."""

    def question_answered(self, process: BrokerProcess, answer: object) -> None:
        """The answer is about to go into the procedure; an exception is thrown into it."""

    def event_ends(self, process: BrokerProcess, error: Exception | None) -> None:
        """The procedure ended, with an error or without."""

    def request_arrives(self, target: BrokerProcess, send: SendControlRequest, error: int) -> None:
        """A broker got a control request and answered with this top-level error code."""

    def line_added(self, line: str) -> None:
        """The history got this line, without its time."""
