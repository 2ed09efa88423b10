"""Limits the memory of the requests of all connections together.

The received bytes of large requests count until they are handled; the size that a peer announces
does not count.  At the limit, no connection reads more of a large request, and its client must
wait.  Small requests are still read, for example those of brokers.

A handled request frees its memory.  But incomplete requests could hold all memory forever.  So when
a connection has waited for PATIENCE_S, the connection that has sent nothing for the longest time is
closed.  If all connections wait for memory themselves, the one whose request began last is closed.

Source: Kafka ``SimpleMemoryPool``, ``Selector`` (``queued.max.request.bytes``, KIP-72).
"""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import Final, Protocol

PATIENCE_S: Final = 5.0
"""Seconds of waiting for memory, and of silence of a peer, before a connection is closed."""
DEFAULT_SHARE: Final = 4
"""Without ``queued.max.request.bytes``, the limit is the memory divided by this number."""

_CGROUP_LIMITS: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)

_log = logging.getLogger("kafka.network.Processor")


class ReadingConnection(Protocol):
    """A connection whose large request uses memory."""

    address: str

    def has_more(self) -> bool:
        """Whether the socket has unread bytes from the peer."""

    def disconnect(self) -> None:
        """Closes the connection."""


class RequestMemory:
    """The memory of one server's requests.  For the event loop."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._shares: dict[Share, None] = {}
        """The shares in the order in which their requests began."""
        self._changed = asyncio.Event()

    def share(self, connection: ReadingConnection) -> Share:
        """The memory share of a new request on the connection."""
        share = Share(self, connection, asyncio.get_running_loop().time())
        self._shares[share] = None
        return share

    async def wait(self, share: Share) -> None:
        """Waits until memory is free; also returns if the request's connection was closed."""
        while self.used_bytes >= self.limit_bytes and share in self._shares:
            self._changed.clear()
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await self._changed.wait()
            except TimeoutError:
                if self.used_bytes >= self.limit_bytes:
                    self._close_one()

    def release(self, share: Share) -> None:
        """Frees the memory of a request that was handled or dropped."""
        if share in self._shares:
            del self._shares[share]
            self.used_bytes -= share.held_bytes
            self._changed.set()

    def _close_one(self) -> None:
        now_s = asyncio.get_running_loop().time()
        arriving = [share for share in self._shares if not share.is_complete]
        silent = [
            share
            for share in arriving
            if now_s - share.last_arrival_s >= PATIENCE_S and not share.connection.has_more()
        ]
        if silent:
            chosen = min(silent, key=lambda share: share.last_arrival_s)
        elif arriving and len(arriving) == len(self._shares):
            chosen = arriving[-1]
        else:
            return  # a request is being handled, and will free its memory
        _log.warning(
            "Closing the connection from %s: %d bytes of its request have arrived, which is not "
            "complete, and all %d bytes for requests are in use (queued.max.request.bytes)",
            chosen.connection.address,
            chosen.held_bytes,
            self.limit_bytes,
        )
        self.release(chosen)
        chosen.connection.disconnect()


class Share:
    """The memory of one request, which counts received bytes."""

    def __init__(self, memory: RequestMemory, connection: ReadingConnection, now_s: float) -> None:
        self.held_bytes = 0
        self.last_arrival_s = now_s
        self.is_complete = False
        self.connection = connection
        self._memory = memory

    async def wait(self) -> None:
        """Waits until more of the request may be read."""
        if self._memory.used_bytes >= self._memory.limit_bytes:
            await self._memory.wait(self)

    def arrived(self, size: int) -> None:
        """Adds received bytes."""
        self.held_bytes += size
        self._memory.used_bytes += size
        self.last_arrival_s = asyncio.get_running_loop().time()

    def release(self) -> None:
        """Frees the request's memory."""
        self._memory.release(self)


def request_memory_bytes(configured: int, max_request_bytes: int) -> int:
    """``queued.max.request.bytes``, or else a part of the memory, at least one largest request."""
    if configured > 0:
        return configured
    return max(_available_bytes() // DEFAULT_SHARE, max_request_bytes)


def _available_bytes() -> int:
    """The memory of the machine in bytes, or of the container if that is less."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *(limit for path in _CGROUP_LIMITS if (limit := _limit_in(path)))])


def _limit_in(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
