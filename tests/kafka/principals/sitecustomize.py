"""Lets a ``KafkaPrincipalBuilder`` of Kafka's tests say who is connected to a broker of ours.

Python imports this module at its start from the folder in PYTHONPATH.  Our brokers load no Java
classes; the JVM that runs the tests does, and is asked for each connection
(``tests/kafka/KafkaServer.scala``): the listener's name goes there, ``User:alice`` comes back.
"""

from __future__ import annotations

import os
import socket
from typing import Any


def ask_for_principals(port: int) -> None:
    """Connections get the principals that a JVM says at this port."""
    from replica_manager.network.connection import ClientConnection
    from replica_manager.security.principals import Principal

    accept = ClientConnection.__init__
    only = os.environ.get("PRINCIPALS_LISTENERS")

    def accept_as_asked(
        self: ClientConnection, sock: socket.socket, address: str, listener_name: str, **rest: Any
    ) -> None:
        accept(self, sock, address, listener_name, **rest)
        if only is not None and listener_name not in only.split(","):
            return
        with socket.create_connection(("127.0.0.1", port)) as jvm:
            jvm.sendall(listener_name.encode())
            jvm.shutdown(socket.SHUT_WR)
            kind, _, name = jvm.makefile().read().partition(":")
        self._peer = self._peer._replace(principal=Principal(kind, name))

    ClientConnection.__init__ = accept_as_asked  # type: ignore[method-assign]


if "PRINCIPALS_PORT" in os.environ:
    ask_for_principals(int(os.environ["PRINCIPALS_PORT"]))
