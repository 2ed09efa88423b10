"""Listening sockets: opens them, and waits for connections.

Source: Kafka ``Acceptor.openServerSocket``.
"""

from __future__ import annotations

import asyncio
import socket

from kafka_common.model import Endpoint


def listening_socket(
    endpoint: Endpoint, *, backlog: int, receive_buffer_bytes: int
) -> socket.socket:
    """A listening socket, for IPv4 and IPv6 if the endpoint has no host; OSError on failure.

    ``receive_buffer_bytes`` applies to accepted connections; -1 is the operating system's default.
    """
    if not endpoint.host and socket.has_dualstack_ipv6():
        sock = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
        address: tuple[str, int] = ("::", endpoint.port)
    else:
        family, _, _, _, resolved = socket.getaddrinfo(
            endpoint.host or "0.0.0.0", endpoint.port, type=socket.SOCK_STREAM
        )[0]
        sock = socket.socket(family, socket.SOCK_STREAM)
        address = resolved  # type: ignore[assignment]  # IPv6 has four parts
    try:
        if address[0] == "::":
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if receive_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        sock.bind(address)
        sock.listen(backlog)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


async def readable(sock: socket.socket) -> None:
    """Waits until the socket has bytes to read, or a connection to accept."""
    loop = asyncio.get_running_loop()
    is_readable = asyncio.Event()
    loop.add_reader(sock, is_readable.set)
    try:
        await is_readable.wait()
    finally:
        loop.remove_reader(sock)
