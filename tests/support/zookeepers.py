"""What tests do to a real ZooKeeper: record what a session reports, end a session from outside."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from zkcontroller.zookeeper.session import ZooKeeperSession

PATIENCE_S: Final = 20.0
CLOSE_SESSION: Final = -11

T = TypeVar("T")


class Recorder(Generic[T]):
    """A callback that keeps what it was called with."""

    def __init__(self) -> None:
        self._heard: list[T] = []
        self._changed = threading.Condition()

    def __call__(self, value: T) -> None:
        with self._changed:
            self._heard.append(value)
            self._changed.notify_all()

    @property
    def heard(self) -> list[T]:
        """All of it, in order."""
        with self._changed:
            return list(self._heard)

    def wait_until(self, is_enough: Callable[[list[T]], bool]) -> list[T]:
        """All of it, once ``is_enough`` says so."""
        with self._changed:
            enough = self._changed.wait_for(lambda: is_enough(self._heard), PATIENCE_S)
            assert enough, f"after {PATIENCE_S} s only {self._heard[-20:]}"
            return list(self._heard)

    def wait_for(self, value: T, times: int = 1) -> list[T]:
        """All of it, once ``value`` has come."""
        return self.wait_until(lambda heard: heard.count(value) >= times)


def end_session(connect: str, session: ZooKeeperSession) -> None:
    """Has the server end the session, as if its time had run out.

    A second connection resumes the session and closes it.  Both requests go out in one write, so
    that the session's own client cannot win it back in between.
    """
    client_id = session._life.connection.client_id
    assert client_id is not None, "the session has no connection"
    session_id, password = client_id
    host, _, port = connect.partition("/")[0].rpartition(":")
    resume = struct.pack("!iqiqi", 0, 0, 10_000, session_id, len(password)) + password + b"\0"
    close = struct.pack("!ii", 1, CLOSE_SESSION)
    with socket.create_connection((host, int(port)), PATIENCE_S) as connection:
        connection.sendall(
            b"".join(struct.pack("!i", len(each)) + each for each in (resume, close))
        )
        while connection.recv(4096):
            pass
