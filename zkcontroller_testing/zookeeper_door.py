"""The proxy of one broker before ZooKeeper: knows the broker's session, so a test can end it.

ZooKeeper's protocol has frames of four bytes of size and a body.  The first response on a
connection contains the id and password of the session.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from typing_extensions import override

from zkcontroller_testing.door import Door, DoorLink, Peer, send_frame

CLOSE_SESSION: Final = -11
OPERATIONS: Final = {"create": 1, "delete": 2, "set": 5, "multi": 14}
_SESSION: Final = struct.Struct("!iiqi")
_REQUEST: Final = struct.Struct("!ii")
_XID: Final = struct.Struct("!i")
_PATIENCE_S: Final = 20.0


@dataclass(eq=False)
class ResponseLoss:
    """Responses of ZooKeeper to be lost; ``count`` is the number already lost."""

    operation: int
    """ZooKeeper's opcode of the requests, see :data:`OPERATIONS`."""
    times: int
    count: int = field(default=0, init=False)

    def applies(self, operation: int) -> bool:
        """Whether the response to a request with this opcode is to be lost; counts a lost one."""
        if operation != self.operation or self.count == self.times:
            return False
        self.count += 1
        return True


class _ZooKeeperLink(DoorLink):
    has_asked = False
    is_open = False
    """Whether the first response, which opens the session, has come."""
    losing_xid: int | None = None
    """The xid of the request whose response is to be lost; None: there is none."""


class ZooKeeperDoor(Door[_ZooKeeperLink]):
    """Passes frames on, and remembers the session of the latest connection."""

    def __init__(self, peer: Peer, servers: Callable[[], Sequence[tuple[str, int]]]) -> None:
        super().__init__(servers)
        self._peer = peer
        self.session: tuple[int, bytes] | None = None
        """Id and password of the session; None: none was opened yet."""
        self._losses: list[ResponseLoss] = []

    def lose_responses(self, operation: str, times: int) -> ResponseLoss:
        """Loses the responses to the next requests of this kind, and breaks the connections."""
        loss = ResponseLoss(OPERATIONS[operation], times)
        self._losses.append(loss)
        return loss

    def forget_losses(self) -> None:
        """Loses no more responses from now on."""
        self._losses.clear()

    @override
    def make_link(
        self,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> _ZooKeeperLink:
        link = _ZooKeeperLink(client, server)
        link.peer = self._peer
        return link

    @override
    async def request(self, link: _ZooKeeperLink, frame: bytes) -> None:
        if self.is_lost(link):
            return
        if link.has_asked and link.losing_xid is None and len(frame) >= _REQUEST.size:
            xid, operation = _REQUEST.unpack_from(frame)
            if any(loss.applies(operation) for loss in self._losses):
                link.losing_xid = xid
        link.has_asked = True
        await send_frame(link.to_server, frame)

    @override
    async def response(self, link: _ZooKeeperLink, frame: bytes) -> None:
        if not link.is_open:
            link.is_open = True
            _, _, session_id, length = _SESSION.unpack_from(frame)
            if session_id:
                self.session = session_id, frame[_SESSION.size : _SESSION.size + length]
        elif link.losing_xid is not None and _XID.unpack_from(frame)[0] == link.losing_xid:
            link.abort()
            return
        if not self.is_lost(link):
            await send_frame(link.to_client, frame)


def end_session(server: tuple[str, int], session: tuple[int, bytes]) -> None:
    """Ends a ZooKeeper session, as if it had expired.

    A second connection resumes the session and closes it.  Both requests are sent in one write, so
    that the session's own client cannot resume it in between.
    """
    session_id, password = session
    resume = struct.pack("!iqiqi", 0, 0, 10_000, session_id, len(password)) + password + b"\0"
    close = struct.pack("!ii", 1, CLOSE_SESSION)
    with socket.create_connection(server, _PATIENCE_S) as connection:
        connection.sendall(
            b"".join(struct.pack("!i", len(each)) + each for each in (resume, close))
        )
        while connection.recv(4096):
            pass
