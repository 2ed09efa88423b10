"""Chooses free TCP ports of the loopback interface, for servers that start a moment later.

They are below the range from which systems take ports of outgoing connections and of listeners on
port 0, so that none of those takes the port between its choice and the server's start.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Collection
from random import SystemRandom
from typing import Final

LOOPBACK: Final = "127.0.0.1"
FIRST: Final = 12_000
LAST: Final = 32_000
_TRIES: Final = 1_000
_random = SystemRandom()  # processes that begin with the same seed must not choose the same ports


def is_free(port: int) -> bool:
    """Whether a server could listen on the loopback port now."""
    with socket.socket() as probe:
        # Set as servers set it, so that a port with connections in TIME_WAIT counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def free_port(taken: Collection[int] = ()) -> int:
    """A free port that is not in ``taken``; OSError if none is found.

    It is the next one after ``taken`` if possible, so that a cluster has neighbouring ports.
    """
    following = max(taken, default=LAST) + 1
    candidates = (following, *(_random.randint(FIRST, LAST) for _ in range(_TRIES)))
    for port in candidates:
        if port <= LAST and port not in taken and is_free(port):
            return port
    raise OSError(errno.EADDRINUSE, f"no free TCP port between {FIRST} and {LAST}")
