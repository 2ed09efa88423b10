"""A TCP proxy before a real ZooKeeper that loses what a test wants lost, exactly then."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import Final

from tests.support.zookeepers import PATIENCE_S

UNIMPLEMENTED: Final = -6


class Fate(Enum):
    """What happens to a request."""

    LOSE_REQUEST = auto()  # the connection breaks before the server has it
    LOSE_REPLY = auto()  # the server does it, the connection breaks before the answer is through
    UNIMPLEMENTED = auto()  # answered as by a server that does not know the opcode, then closed


class Proxy:
    """Listens on a port of its own; ``connect`` is what to put into a connect string."""

    def __init__(self, server: str) -> None:
        host, _, port = server.rpartition(":")
        self._server = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._pairs: list[_Pair] = []
        self._refusing = False
        self._fates: dict[int, deque[Fate | Callable[[], Fate | None]]] = {}
        self.requests: Counter[int] = Counter()
        self.largest_answer_bytes = 0
        self.connect = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def arrange(self, opcode: int, *fates: Fate | Callable[[], Fate | None]) -> None:
        """The next requests of this type meet these fates, in order.

        A function is called when the request arrives, before the server has it.
        """
        with self._lock:
            self._fates.setdefault(opcode, deque()).extend(fates)

    def cut(self) -> None:
        """Breaks the connections that stand."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            pair.close()

    def refuse(self) -> None:
        """Breaks the connections that stand and lets no new one in."""
        with self._lock:
            self._refusing = True
        self.cut()

    def allow(self) -> None:
        """Ends :meth:`refuse`."""
        with self._lock:
            self._refusing = False

    def lead_to(self, server: str) -> None:
        """Breaks the connections that stand; the next ones go to this server."""
        host, _, port = server.rpartition(":")
        with self._lock:
            self._server = (host, int(port))
        self.cut()

    def close(self) -> None:
        """Ends it all."""
        # A plain close would not wake the thread in accept.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(PATIENCE_S)
        self.cut()

    def fate_of(self, opcode: int) -> Fate | None:
        """What happens to a request that has just arrived."""
        with self._lock:
            self.requests[opcode] += 1
            fates = self._fates.get(opcode)
            fate = fates.popleft() if fates else None
        return fate() if callable(fate) else fate

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                refusing = self._refusing
            if refusing:
                client.close()
                continue
            try:
                pair = _Pair(self, client, socket.create_connection(self._server, PATIENCE_S))
            except OSError:
                client.close()
                continue
            with self._lock:
                self._pairs.append(pair)
            pair.start()


class _Pair:
    """One client's connection and ours to the server."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        server.settimeout(None)
        self._losing_xid: int | None = None
        self._threads = [
            threading.Thread(target=self._requests, daemon=True),
            threading.Thread(target=self._answers, daemon=True),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        for end in (self._client, self._server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _requests(self) -> None:
        for number, frame in enumerate(_frames(self._client)):
            if number:  # the first one opens the session and has no header
                xid, opcode = struct.unpack_from("!ii", frame)
                match self._proxy.fate_of(opcode):
                    case Fate.LOSE_REQUEST:
                        break
                    case Fate.LOSE_REPLY:
                        self._losing_xid = xid
                    case Fate.UNIMPLEMENTED:
                        header = struct.pack("!iqi", xid, 0, UNIMPLEMENTED)
                        _send(self._client, header)
                        break
                    case None:
                        pass
            if not _send(self._server, frame):
                break
        self.close()

    def _answers(self) -> None:
        for number, frame in enumerate(_frames(self._server)):
            largest = max(self._proxy.largest_answer_bytes, len(frame))
            self._proxy.largest_answer_bytes = largest
            if number and struct.unpack_from("!i", frame)[0] == self._losing_xid:
                break
            if not _send(self._client, frame):
                break
        self.close()


def _frames(end: socket.socket) -> Iterator[bytes]:
    with contextlib.suppress(OSError), end.makefile("rb") as stream:
        while len(head := stream.read(4)) == 4:
            (length,) = struct.unpack("!i", head)
            body = stream.read(length)
            if len(body) < length:
                return
            yield body


def _send(end: socket.socket, frame: bytes) -> bool:
    try:
        end.sendall(struct.pack("!i", len(frame)) + frame)
    except OSError:
        return False
    return True
