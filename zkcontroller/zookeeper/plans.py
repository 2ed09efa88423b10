"""Plans of bulk requests: each yields requests and handles the replies.  No sockets.

:func:`run` drives a plan.  It does what the caller of a plan must do:

1. take requests from :meth:`RequestPlan.next` while the limit of requests in flight allows; None
   means "nothing now", and if nothing is in flight it means "finished";
2. give every reply to :meth:`RequestPlan.answered`, oldest first;
3. give a request whose connection was lost to :meth:`RequestPlan.lost`; the plan sends it again;
4. end a large request with MARSHALLING_ERROR if MOST_FATAL connections were lost while it was the
   only one in flight: ZooKeeper closes the connection of a client that sends more than its
   ``jute.maxbuffer``, without a reply.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Sequence
from typing import Final, Protocol

from msgspec import Struct

from zkcontroller.zookeeper.jute import OpCode, Reply
from zkcontroller.zookeeper.requests import ZkCode
from zkcontroller.zookeeper.watch_table import WatchType

_log = logging.getLogger("kafka.zookeeper.ZooKeeperClient")

NOT_TAKEN: Final = Reply(0, ZkCode.MARSHALLING_ERROR, b"", 0)
"""The reply in place of one from ZooKeeper for a request that is too large for it."""

MAX_OPERATIONS: Final = 1000  # per MultiRead, multi and setWatches


MOST_FATAL: Final = 2
"""A request is not sent again once it has lost this many connections while alone in flight."""

SUSPECT_BYTES: Final = 64 * 1024
"""Only a request of at least this size can be given up.

ZooKeeper refuses a request for its size alone, and a server whose ``jute.maxbuffer`` is lower
cannot serve Kafka.  If the connection of a smaller request is lost, the network is the cause.
"""


class ConnectionLostError(Exception):
    """The connection was lost before a reply: the request may have been executed or not."""

    def __init__(self, reason: str, *, was_alone: bool = False) -> None:
        """``was_alone``: no other request was in flight, so this one may have caused the loss."""
        super().__init__(reason)
        self.was_alone = was_alone


class Ask(Struct, frozen=True):
    """One request to ZooKeeper.

    ``part``: the positions of the bulk request that this request covers.  ``watch``: the watch that
    the server sets with a successful reply; None if the request has no watch flag.
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
    """A plan of requests; the module's documentation says how to drive it."""

    def next(self) -> Ask | None:
        """The next request to send; None if there is none now."""

    def answered(self, ask: Ask, reply: Reply) -> None:
        """Handles the reply to ``ask``."""

    def lost(self, ask: Ask) -> None:
        """Queues ``ask``, whose connection was lost before a reply, to be sent again."""


class Pending(Protocol):
    """A request in flight."""

    def wait(self) -> Reply:
        """Blocks until there is a reply, or raises the error."""


class Link(Protocol):
    """One ZooKeeper session, as plans use it."""

    def ask(self, ask: Ask) -> Pending:
        """Sends a request, after waiting for a permit; ZooKeeper gets them in this order."""


def run(link: Link, plan: RequestPlan, max_in_flight: int) -> None:
    """Drives ``plan`` until it is finished, with at most ``max_in_flight`` requests in flight."""
    flying: deque[tuple[Ask, Pending]] = deque()
    fatal: Counter[int] = Counter()
    """Connections lost with the request alone in flight, by ``id`` of the request."""
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
