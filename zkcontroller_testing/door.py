"""A door: the common part of the proxies before servers, for every protocol.

A door listens on the loopback interface as long as its cluster lives, so its address stays valid
while its broker is dead.  Each connection through it has a peer: the broker that opened it, or the
clients.  The connections of a cut peer break at once.  With a silent cut they stay open, but carry
no data until the cut ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Generic, TypeAlias, TypeVar

MAX_FRAME_BYTES: Final = 128 * 1024 * 1024
PIECE_BYTES: Final = 64 * 1024

Peer: TypeAlias = int | str
"""A broker id, ``clients`` or ``zookeeper``."""
CLIENTS: Final = "clients"
ZOOKEEPER: Final = "zookeeper"

_LENGTH: Final = struct.Struct(">i")
_RESET_AT_CLOSE: Final = struct.pack("ii", 1, 0)

LinkT = TypeVar("LinkT", bound="DoorLink")


class DoorLink:
    """One connection of a client through a door, and the door's connection to the server."""

    def __init__(
        self,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self.peer: Peer = CLIENTS
        self.has_lost_frames = False
        """Whether a silent cut has lost data; then the connection breaks when the cut ends."""
        self.from_client, self.to_client = client
        self.from_server, self.to_server = server

    def abort(self) -> None:
        """Breaks both connections at once, as a reset does."""
        for writer in (self.to_client, self.to_server):
            # With SO_LINGER of 0 the other side gets a reset, as from a killed process.
            with contextlib.suppress(OSError, AttributeError):
                writer.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE
                )
            writer.transport.abort()


class Door(ABC, Generic[LinkT]):
    """Listens and passes frames in both directions; a subclass inspects them."""

    def __init__(self, servers: Callable[[], Sequence[tuple[str, int]]]) -> None:
        """``servers``: returns addresses to connect to, in order, until one accepts."""
        self._servers = servers
        self._cuts: Mapping[Peer, bool] = {}
        self._links: set[LinkT] = set()
        self._server: asyncio.Server | None = None

    async def open(self) -> int:
        """Begins to listen; returns the port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=PIECE_BYTES)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        """Stops listening and breaks every connection."""
        if self._server is not None:
            self._server.close()
        self.break_links(lambda _: True)

    def cut_off(self, cuts: Mapping[Peer, bool]) -> None:
        """Cuts off exactly the peers in ``cuts`` from now on.

        True: their frames are lost silently; False: their connections break.
        """
        self._cuts = cuts
        self.break_links(
            lambda link: link.has_lost_frames or self._cuts.get(link.peer, True) is False
        )

    def break_links(self, which: Callable[[LinkT], bool]) -> None:
        """Breaks the connections for which ``which`` returns True."""
        for link in [each for each in self._links if which(each)]:
            link.abort()

    def is_lost(self, link: LinkT) -> bool:
        """Whether frames of this connection are lost; breaks it if its peer's cut is not silent."""
        is_silent = self._cuts.get(link.peer)
        if is_silent is None:
            return False
        if is_silent:
            link.has_lost_frames = True
        else:
            link.abort()
        return True

    @abstractmethod
    async def request(self, link: LinkT, frame: bytes) -> None:
        """Handles a frame from the client; normally sends it to the server."""

    @abstractmethod
    async def response(self, link: LinkT, frame: bytes) -> None:
        """Handles a frame from the server; normally sends it to the client."""

    async def read(self, source: asyncio.StreamReader) -> bytes:
        """The next frame of a stream; EOFError at its end."""
        return await read_frame(source)

    @abstractmethod
    def make_link(
        self,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> LinkT:
        """Makes the link for a new connection."""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server = await self._connect()
        if server is None:
            DoorLink((reader, writer), (reader, writer)).abort()
            return
        link = self.make_link((reader, writer), server)
        self._links.add(link)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._requests(link))
                group.create_task(self._responses(link))
        except* (OSError, EOFError):
            pass
        finally:
            self._links.discard(link)
            link.abort()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        for host, port in self._servers():
            with contextlib.suppress(OSError):
                return await asyncio.open_connection(host, port, limit=PIECE_BYTES)
        return None

    async def _requests(self, link: LinkT) -> None:
        while True:
            await self.request(link, await self.read(link.from_client))

    async def _responses(self, link: LinkT) -> None:
        while True:
            await self.response(link, await self.read(link.from_server))


async def read_frame(source: asyncio.StreamReader) -> bytes:
    """The next frame without its size; EOFError at the end, or if the size is invalid."""
    (size,) = _LENGTH.unpack(await source.readexactly(_LENGTH.size))
    if not 0 <= size <= MAX_FRAME_BYTES:
        raise EOFError(f"a frame of {size} bytes")
    return await source.readexactly(size)


async def send_frame(target: asyncio.StreamWriter, frame: bytes) -> None:
    """Sends a frame with its size in front."""
    target.write(_LENGTH.pack(len(frame)))
    target.write(frame)
    await target.drain()
