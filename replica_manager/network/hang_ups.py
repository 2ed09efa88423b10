"""Notices that a client has reset its connection, also while the connection is not read.

While a request is answered its connection is not read, so that a reset would be found only when the
answer is sent.  One ``epoll`` object watches every connection for nothing but errors and hang-ups;
it costs one call a connection and nothing a request.  A peer that only ends its side (FIN) may
still read, and is no hang-up: Kafka answers it, too.
"""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Callable
from typing import Final

MOST_AT_ONCE: Final = 256
"""So many hang-ups are handled before other callbacks have their turn."""


class HangUps:
    """The watched connections of one server, by descriptor.  Lives on the event loop."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._callbacks: dict[int, Callable[[], None]] = {}
        asyncio.get_running_loop().add_reader(self._epoll.fileno(), self._look)

    def watch(self, sock: socket.socket, callback: Callable[[], None]) -> None:
        """Calls back, once, when the peer of ``sock`` has hung up."""
        descriptor = sock.fileno()
        # Without an event asked for there remain EPOLLERR and EPOLLHUP, which always count.
        self._epoll.register(descriptor, select.EPOLLET)
        self._callbacks[descriptor] = callback

    def forget(self, sock: socket.socket) -> None:
        """Stops watching a socket before it is closed."""
        descriptor = sock.fileno()
        if self._callbacks.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    def close(self) -> None:
        """Stops watching."""
        asyncio.get_running_loop().remove_reader(self._epoll.fileno())
        self._epoll.close()
        self._callbacks.clear()

    def _look(self) -> None:
        for descriptor, _ in self._epoll.poll(0, MOST_AT_ONCE):
            callback = self._callbacks.pop(descriptor, None)
            if callback is not None:
                self._epoll.unregister(descriptor)
                callback()
