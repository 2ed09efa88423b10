"""The proxy before a listener with TLS: it cannot read requests, so it supports only cuts."""

from __future__ import annotations

import asyncio

from typing_extensions import override

from zkcontroller_testing.door import PIECE_BYTES, Door, DoorLink


class RawDoor(Door[DoorLink]):
    """Passes bytes on without reading them."""

    @override
    def make_link(
        self,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> DoorLink:
        return DoorLink(client, server)

    @override
    async def read(self, source: asyncio.StreamReader) -> bytes:
        piece = await source.read(PIECE_BYTES)
        if not piece:
            raise EOFError
        return piece

    @override
    async def request(self, link: DoorLink, frame: bytes) -> None:
        if not self.is_lost(link):
            link.to_server.write(frame)
            await link.to_server.drain()

    @override
    async def response(self, link: DoorLink, frame: bytes) -> None:
        if not self.is_lost(link):
            link.to_client.write(frame)
            await link.to_client.drain()
