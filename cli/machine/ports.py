"""Chooses free TCP ports for a local cluster, which keeps them for later starts."""

from __future__ import annotations

import random
import socket
from collections.abc import Collection
from typing import Final

from zkcontroller_cli.console.errors import Refused

LOOPBACK: Final = "127.0.0.1"
# Below the range from which systems take the ports of outgoing connections, so that no client takes
# a port between its choice and the server's start.
_FIRST: Final = 12_000
_LAST: Final = 32_000
_TRIES: Final = 1_000


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


def pick_free(taken: Collection[int] = ()) -> int:
    """A free port that is not in ``taken``; Refused if none is found.

    It is the next one after ``taken`` if possible, so that a cluster has neighbouring ports.
    """
    following = max(taken, default=_LAST) + 1
    candidates = (following, *(random.randint(_FIRST, _LAST) for _ in range(_TRIES)))
    for port in candidates:
        if port <= _LAST and port not in taken and is_free(port):
            return port
    raise Refused(f"no free TCP port between {_FIRST} and {_LAST}")


def require_free(port: int, owner: str) -> int:
    """The port, if it is valid and free; else Refused, with ``owner`` in the message."""
    if not 0 < port < 65536:
        raise Refused(f"{port}, the port of {owner}, is not a TCP port: they end with 65535")
    if not is_free(port):
        raise Refused(
            f"port {port}, which {owner} needs, is in use: choose another, or stop what listens "
            "there"
        )
    return port
