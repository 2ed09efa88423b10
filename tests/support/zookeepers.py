"""What tests do to a real ZooKeeper: record what a session reports, end a session from outside."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from zkcontroller.zookeeper.session import ZooKeeperSession
from zkcontroller_testing import zookeeper_door

PATIENCE_S: Final = 20.0

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
        """Waits until ``value`` has come so many times; all that has come by then."""
        return self.wait_until(lambda heard: heard.count(value) >= times)


def end_session(connect: str, session: ZooKeeperSession) -> None:
    """Has the server end the session, as if its time had run out."""
    client_id = session._life.connection.client_id
    assert client_id is not None, "the session has no connection"
    host, _, port = connect.partition("/")[0].rpartition(":")
    zookeeper_door.end_session((host, int(port)), client_id)
