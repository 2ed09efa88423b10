"""Detects that a client has reset its connection, even while the connection is not read.

While a request is handled, its connection is not read, so a reset would be detected only when the
response is sent.  One ``epoll`` object watches every connection for errors and hang-ups only, which
takes one call per connection and none per request.  A peer that closes only its own side (FIN) may
still read, which is no hang-up: as in Kafka, it gets its response.
"""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Callable
from typing import Final

MOST_AT_ONCE: Final = 256
"""The most hang-ups handled before other callbacks of the event loop run."""


class HangUps:
    """The watched connections of one server, by descriptor.  For the event loop."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._callbacks: dict[int, Callable[[], None]] = {}
        asyncio.get_running_loop().add_reader(self._epoll.fileno(), self._look)

    def watch(self, sock: socket.socket, callback: Callable[[], None]) -> None:
        """Calls ``callback`` once when the peer of ``sock`` has reset the connection."""
        descriptor = sock.fileno()
        # EPOLLERR and EPOLLHUP are always reported, so no event needs to be requested.
        self._epoll.register(descriptor, select.EPOLLET)
        self._callbacks[descriptor] = callback

    def forget(self, sock: socket.socket) -> None:
        """Stops watching a socket before it is closed."""
        descriptor = sock.fileno()
        if self._callbacks.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    def close(self) -> None:
        """Stops watching all connections."""
        asyncio.get_running_loop().remove_reader(self._epoll.fileno())
        self._epoll.close()
        self._callbacks.clear()

    def _look(self) -> None:
        for descriptor, _ in self._epoll.poll(0, MOST_AT_ONCE):
            callback = self._callbacks.pop(descriptor, None)
            if callback is not None:
                self._epoll.unregister(descriptor)
                callback()
