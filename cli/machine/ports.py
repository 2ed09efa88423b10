"""Chooses free TCP ports for a local cluster, which keeps them for later starts."""

from __future__ import annotations

from collections.abc import Collection

from kafka_common.net.loopback_ports import free_port, is_free
from zkcontroller_cli.console.errors import Refused


def pick_free(taken: Collection[int] = ()) -> int:
    """A free port that is not in ``taken``, as :func:`.free_port`; Refused if none is found."""
    try:
        return free_port(taken)
    except OSError as error:
        raise Refused(error.strerror) from None


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
