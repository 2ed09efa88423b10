"""Plans of bulk requests: each yields requests and handles the replies.  No sockets.

A plan is driven by :func:`run`, which does what the caller of a plan must do:

1. take :meth:`RequestPlan.next` as often as the window of requests in flight allows; None means
   "nothing now", and with nothing in flight it means "finished";
2. give every answer to :meth:`RequestPlan.answered`, oldest first;
3. report a request whose connection went away to :meth:`RequestPlan.lost`; the plan asks it again.
4. give MARSHALLING_ERROR as the result of a large request that has ended MOST_FATAL connections
   while it was the only one under way: ZooKeeper closes the connection of a client that sends more
   than its ``jute.maxbuffer``, and says no word.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from zkcontroller.zookeeper.jute import OpCode, Reply
from zkcontroller.zookeeper.requests import ZkCode
from zkcontroller.zookeeper.watch_table import WatchType

_log = logging.getLogger("kafka.zookeeper.ZooKeeperClient")

NOT_TAKEN: Final = Reply(0, ZkCode.MARSHALLING_ERROR, b"", 0)
"""The result of a request that ZooKeeper would not read."""

MAX_OPERATIONS: Final = 1000  # per MultiRead, multi and setWatches


MOST_FATAL: Final = 2
"""So many connections may end with the same request alone under way; then it is not sent again."""

SUSPECT_BYTES: Final = 64 * 1024
"""Only a request of this size or more can be given up.

ZooKeeper refuses a request for its size alone, and a server whose ``jute.maxbuffer`` is lower
cannot serve Kafka.  A smaller request loses its connection to the network, however often.
"""


class ConnectionLostError(Exception):
    """The connection was lost before a reply: the request may have been executed or not."""

    def __init__(self, reason: str, *, was_alone: bool = False) -> None:
        """``was_alone``: no other request was in flight, so this one may have caused the loss."""
        super().__init__(reason)
        self.was_alone = was_alone


@dataclass(frozen=True, slots=True)
class Ask:
    """One request to ZooKeeper.

    ``part`` are the positions in the bulk request that this one covers.  ``watch`` says which
    watch a good reply leaves on the server, for requests that carry a watch flag.
    """

    opcode: OpCode
    body: bytes
    part: Sequence[int] = ()
    watch: tuple[WatchType, str] | None = None

    @property
    def type(self) -> int:
        """The opcode, under the name that the connection reads."""
        return self.opcode.value

    def serialize(self) -> bytes:
        """The body, under the name that the connection calls."""
        return self.body


class RequestPlan(Protocol):
    """The interface that the module's documentation describes."""

    def next(self) -> Ask | None:
        """The next request."""

    def answered(self, ask: Ask, reply: Reply) -> None:
        """Handles a reply."""

    def lost(self, ask: Ask) -> None:
        """Handles a request that gets no reply."""


class Pending(Protocol):
    """A request in flight."""

    def wait(self) -> Reply:
        """Blocks until there is a reply, or raises the error."""


class Link(Protocol):
    """One ZooKeeper session, as plans use it."""

    def ask(self, ask: Ask) -> Pending:
        """Sends, after waiting for a permit; requests arrive in the order of these calls."""


def run(link: Link, plan: RequestPlan, max_in_flight: int) -> None:
    """Pulls ``plan`` until it is finished, with at most ``max_in_flight`` requests under way."""
    flying: deque[tuple[Ask, Pending]] = deque()
    fatal: Counter[int] = Counter()
    """By identity of the ask, which the plan keeps."""
    while True:
        while len(flying) < max_in_flight and (ask := plan.next()) is not None:
            flying.append((ask, link.ask(ask)))
        if not flying:
            return
        ask, pending = flying.popleft()
        try:
            reply = pending.wait()
        except ConnectionLostError as lost:
            fatal[id(ask)] += lost.was_alone and len(ask.body) >= SUSPECT_BYTES
            if fatal[id(ask)] < MOST_FATAL:
                plan.lost(ask)
                continue
            _log.error(
                "A request (%s) of %d bytes has ended %d connections to ZooKeeper and is given up;"
                " ZooKeeper's jute.maxbuffer may be too low for it",
                ask.opcode.name,
                len(ask.body),
                fatal.pop(id(ask)),
            )
            reply = NOT_TAKEN
        plan.answered(ask, reply)
