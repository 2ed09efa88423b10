"""How long a broker leaves its other clients waiting while something big happens.

A thread asks the broker for its ApiVersions every few milliseconds over a connection of its own.
How long an answer takes is how long the broker's sockets stood still, plus what the machine's
other processes took.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from typing import Final

PERIOD_S: Final = 0.005
TIMEOUT_S: Final = 120.0
_API_VERSIONS: Final = 18
_CLIENT: Final = b"stall-probe"
# Length, api key, version 0, correlation id, client id; the body is empty.
_FRAME: Final = struct.pack(
    f">ihhih{len(_CLIENT)}s", 10 + len(_CLIENT), _API_VERSIONS, 0, 7, len(_CLIENT), _CLIENT
)


class StallProbe:
    """Pings ``host:port`` from :meth:`start` to :meth:`stop`."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._stopping = threading.Event()
        self._waits_ms: list[float] = []
        self._failure: OSError | None = None
        self._thread = threading.Thread(target=self._run, name="stall-probe", daemon=True)

    def start(self) -> None:
        """Begins to ping."""
        self._thread.start()

    def stop(self) -> list[float]:
        """How long each answer took, in ms, in order; OSError if one did not come."""
        self._stopping.set()
        self._thread.join(TIMEOUT_S)
        if self._failure is not None:
            raise self._failure
        return self._waits_ms

    def _run(self) -> None:
        try:
            with socket.create_connection(self._address, TIMEOUT_S) as connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                while not self._stopping.wait(PERIOD_S):
                    began = time.perf_counter()
                    connection.sendall(_FRAME)
                    (size,) = struct.unpack(">i", _receive(connection, 4))
                    _receive(connection, size)
                    self._waits_ms.append((time.perf_counter() - began) * 1000)
        except OSError as failure:
            self._failure = failure


def quantile(waits_ms: list[float], share: float) -> float:
    """The wait that ``share`` of all waits (0 to 1) do not exceed; 0 if there were none."""
    if not waits_ms:
        return 0.0
    ordered = sorted(waits_ms)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def _receive(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        received = connection.recv(size - len(parts))
        if not received:
            raise ConnectionError("the broker closed the probe's connection")
        parts += received
    return bytes(parts)
