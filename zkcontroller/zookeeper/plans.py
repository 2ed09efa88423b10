"""A bulk request as a plan: what to ask next, and what each answer means.  No socket anywhere.

A plan is pulled by :func:`run`.  The caller's duties, which ``run`` fulfils:

1. take :meth:`Plan.next` as often as the window of requests in flight allows; None means "nothing
   now", and with nothing in flight it means "finished";
2. give every answer to :meth:`Plan.answered`, oldest first;
3. report a request whose connection went away to :meth:`Plan.lost`; the plan asks it again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from zkcontroller.zookeeper.jute import OpCode, Reply
from zkcontroller.zookeeper.watch_table import WatchType

MAX_OPERATIONS: Final = 1000  # per MultiRead, multi and setWatches


class ConnectionLostError(Exception):
    """Nobody answered: the request may have been done or not."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request to ZooKeeper.

    ``part`` are the positions in the bulk request that this one covers.  ``watch`` says which
    watch a good answer leaves on the server, for requests that carry a watch flag.
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


class Plan(Protocol):
    """See the module's docstring."""

    def next(self) -> Ask | None:
        """What to ask now."""

    def answered(self, ask: Ask, reply: Reply) -> None:
        """Takes an answer in."""

    def lost(self, ask: Ask) -> None:
        """Takes in that there will be no answer."""


class Pending(Protocol):
    """A request under way."""

    def wait(self) -> Reply:
        """Blocks for the answer, or raises what there is instead of one."""


class Link(Protocol):
    """One ZooKeeper session as plans use it."""

    def ask(self, ask: Ask) -> Pending:
        """Sends, after waiting for a permit; requests arrive in the order of these calls."""


def run(link: Link, plan: Plan, max_in_flight: int) -> None:
    """Pulls ``plan`` until it is finished, with at most ``max_in_flight`` requests under way."""
    flying: deque[tuple[Ask, Pending]] = deque()
    while True:
        while len(flying) < max_in_flight and (ask := plan.next()) is not None:
            flying.append((ask, link.ask(ask)))
        if not flying:
            return
        ask, pending = flying.popleft()
        try:
            reply = pending.wait()
        except ConnectionLostError:
            plan.lost(ask)
        else:
            plan.answered(ask, reply)
