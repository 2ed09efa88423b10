"""The network between the nodes of a quorum: it delays, loses, repeats and reorders.

A response reaches only the process that sent the request.  A request may arrive after its sender
has died, and at a process that started after it was sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from kraft.raft.inputs import (
    RaftInput,
    RaftRequestFailed,
    RaftRequestReceived,
    RaftResponseReceived,
)
from kraft.raft.messages import AnyRaftResponse, FetchRequest, RaftRequest
from kraft.raft.outputs import SendRequest, SendResponse
from kraft.raft.values import NodeAddress
from zkcontroller_simulation.raft_weather import CALM, RaftWeather
from zkcontroller_simulation.raft_words import request_in_words, response_in_words
from zkcontroller_simulation.timeline import Timeline

CONTROLLER: Final = "CONTROLLER"
"""The listener of the quorum."""


class RaftPeer(NamedTuple):
    """A node's process on the network: the node's number and the process's incarnation."""

    number: int
    incarnation: int


class _Question(NamedTuple):
    """A request that has arrived and waits for its response."""

    asker: RaftPeer
    asked: RaftPeer
    sent: SendRequest


class RaftNetwork:
    """The network between nodes, which have numbers."""

    def __init__(
        self,
        timeline: Timeline,
        deliver: Callable[[int, RaftInput], None],
        incarnation_of: Callable[[int], int | None],
    ) -> None:
        """``incarnation_of`` returns None for a node that does not run."""
        self._timeline = timeline
        self._deliver = deliver
        self._incarnation_of = incarnation_of
        self.weather: RaftWeather = CALM
        self.slow_links: dict[tuple[int, int], int] = {}
        """Additional milliseconds of messages, by (from node, to node)."""
        self._cuts: dict[tuple[int, int], int] = {}
        self._questions: dict[int, _Question] = {}
        self._request_ids = 0
        self._told_fetches: dict[tuple[int, int], str] = {}

    # ------------------------------------------------------------------ cuts

    def cut(self, one: int, other: int) -> None:
        """Blocks messages from ``one`` to ``other``, but not in the other direction."""
        self._cuts[one, other] = self._cuts.get((one, other), 0) + 1

    def mend(self, one: int, other: int) -> None:
        """Undoes one :meth:`cut`."""
        count = self._cuts.get((one, other), 0)
        if count > 1:
            self._cuts[one, other] = count - 1
        else:
            self._cuts.pop((one, other), None)

    def separate(self, ones: Iterable[int], others: Iterable[int]) -> Callable[[], None]:
        """Disconnects two groups of nodes; a call of the result connects them again."""
        pairs = [(one, other) for one in ones for other in others if one != other]
        for one, other in pairs:
            self.cut(one, other)
            self.cut(other, one)

        def join() -> None:
            for one, other in pairs:
                self.mend(one, other)
                self.mend(other, one)

        return join

    def heal(self) -> None:
        """Connects all nodes, without slow links."""
        self._cuts.clear()
        self.slow_links.clear()

    # ------------------------------------------------------------------ messages

    def send(self, asker: RaftPeer, sent: SendRequest) -> None:
        """Sends a request to the node at its endpoint."""
        asked = int(sent.endpoint.host.removeprefix("node-"))
        is_lost = self._is_lost(asker.number, asked)
        if is_lost or not isinstance(sent.request, FetchRequest):
            words = request_in_words(sent.request)
            end = " is lost" if is_lost else ""
            self._timeline.tell(f"{asker.number} -> {asked}  {words}{end}")
        if is_lost:
            if self._timeline.happens(self.weather.told_of_loss):
                self._fail(asker, sent)
            return
        for _ in range(1 + self._timeline.happens(self.weather.repetition)):
            self._timeline.after(
                self._delay(asker.number, asked), lambda: self._arrive(asker, asked, sent)
            )

    def intrude(self, stranger: int, asked: int, request: RaftRequest) -> None:
        """Delivers a request of ``stranger``, a node that is not in this quorum."""
        self._timeline.tell(f"{stranger} -> {asked}  {request_in_words(request)}")
        self._arrive(
            RaftPeer(stranger, 0), asked, SendRequest(asked, NodeAddress("", 0), 0, request)
        )

    def request_of(self, request_id: int) -> RaftRequest:
        """The request with that id."""
        return self._questions[request_id].sent.request

    def answer(self, asked: RaftPeer, answer: SendResponse) -> None:
        """Sends a response to the process that sent the request."""
        question = self._questions.pop(answer.request_id)
        assert question.asked == asked, f"{asked} answers what {question.asked} was asked"
        asker, sent = question.asker, question.sent
        self._tell_answer(asker.number, asked.number, sent.request, answer.response)
        if self._is_lost(asked.number, asker.number):
            self._timeline.tell(f"{asked.number} => {asker.number}  the answer is lost")
            if self._timeline.happens(self.weather.told_of_loss):
                self._fail(asker, sent)
            return
        received = RaftResponseReceived(sent.destination_id, sent.correlation_id, answer.response)
        for _ in range(1 + self._timeline.happens(self.weather.repetition)):
            self._timeline.after(
                self._delay(asked.number, asker.number), lambda: self._reach(asker, received)
            )

    def _tell_answer(
        self, asker: int, asked: int, request: RaftRequest, response: AnyRaftResponse
    ) -> None:
        """Writes a response to the history.

        A Fetch and its response are one line.  Equal lines in a row are written once.
        """
        line = f"{asked} => {asker}  {response_in_words(response)}"
        if isinstance(request, FetchRequest):
            line += f", asked {request_in_words(request).removeprefix('Fetch ')}"
            if self._told_fetches.get((asker, asked)) == line:
                return
            self._told_fetches[asker, asked] = line
        self._timeline.tell(line)

    def _arrive(self, asker: RaftPeer, asked: int, sent: SendRequest) -> None:
        incarnation = self._incarnation_of(asked)
        if incarnation is None:
            if self._timeline.happens(self.weather.told_of_loss):
                self._fail(asker, sent)
            return
        self._request_ids += 1
        self._questions[self._request_ids] = _Question(asker, RaftPeer(asked, incarnation), sent)
        received = RaftRequestReceived(self._request_ids, sent.request, CONTROLLER)
        self._deliver(asked, received)

    def _fail(self, asker: RaftPeer, sent: SendRequest) -> None:
        failed = RaftRequestFailed(
            sent.destination_id, sent.correlation_id, ErrorCode.broker_not_available
        )
        delay_ms = self._timeline.within(self.weather.delay_ms)
        self._timeline.after(delay_ms, lambda: self._reach(asker, failed))

    def _reach(self, asker: RaftPeer, happened: RaftInput) -> None:
        if self._incarnation_of(asker.number) == asker.incarnation:
            self._deliver(asker.number, happened)

    def _is_lost(self, one: int, other: int) -> bool:
        return (one, other) in self._cuts or self._timeline.happens(self.weather.loss)

    def _delay(self, one: int, other: int) -> int:
        delay_ms = self._timeline.within(self.weather.delay_ms)
        if self._timeline.happens(self.weather.late):
            delay_ms += self._timeline.within(self.weather.lateness_ms)
        return delay_ms + self.slow_links.get((one, other), 0)
