"""The way between brokers, through a proxy before each of them that can cut one of the others off.

Clients are known by the client id of the first request: a fetcher's is ``broker-<id>-fetcher-<n>``,
a broker that asks the controller and a controller that commands a broker give their id alone.
"""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import threading
from typing import Final

_PATIENCE_S: Final = 10.0
_CLIENT_ID: Final = re.compile(rb"(?:broker-)?(\d+)(?:-fetcher-\d+)?$")
_PIECE_BYTES: Final = 64 * 1024


class Link:
    """Before one broker; listens on a port of its own."""

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._cut_off: frozenset[int] = frozenset()
        self._pairs: dict[tuple[socket.socket, socket.socket], int | None] = {}
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def cut_off(self, *broker_ids: int) -> None:
        """These brokers do not come through from now on; no other is cut off."""
        with self._lock:
            self._cut_off = frozenset(broker_ids)
            gone = [pair for pair, who in self._pairs.items() if who in self._cut_off]
        for pair in gone:
            _close(pair)

    def close(self) -> None:
        """Ends it all."""
        # A plain close would not wake the thread in accept.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(_PATIENCE_S)
        with self._lock:
            pairs = list(self._pairs)
        for pair in pairs:
            _close(pair)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            head = _first_frame(client)
            who = _broker_of(head)
            server = socket.create_connection(self._server, _PATIENCE_S)
            server.settimeout(None)
            pair = (client, server)
            with self._lock:
                is_cut_off = who in self._cut_off
                self._pairs[pair] = who
            try:
                if not is_cut_off:
                    server.sendall(head)
                    back = threading.Thread(target=_pump, args=(server, client), daemon=True)
                    back.start()
                    _pump(client, server)
            finally:
                _close(pair)
                with self._lock:
                    del self._pairs[pair]
        client.close()


def _first_frame(client: socket.socket) -> bytes:
    """The first request with its size; all that has arrived if the client goes before."""
    data = b""
    while len(data) < 4 or len(data) < 4 + int(struct.unpack_from(">i", data)[0]):
        piece = client.recv(_PIECE_BYTES)
        if not piece:
            break
        data += piece
    return data


def _broker_of(head: bytes) -> int | None:
    """Which broker has sent that request; None if it was another client."""
    # size, api key, api version, correlation id, then the client id with its length
    if len(head) < 14:
        return None
    (length,) = struct.unpack_from(">h", head, 12)
    found = _CLIENT_ID.match(head[14 : 14 + max(length, 0)])
    return int(found[1]) if found else None


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(_PIECE_BYTES):
            target.sendall(piece)
    _close((source, target))


def _close(pair: tuple[socket.socket, socket.socket]) -> None:
    for end in pair:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
