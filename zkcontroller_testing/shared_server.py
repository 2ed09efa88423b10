"""One ZooKeeper for all workers of a test run: started by the first, ended after the last.

Each worker that uses the server holds a shared lock on one file.  The kernel releases the lock when
the worker ends, even if it crashes.  The server runs in a process of its own
(``python -m zkcontroller_testing.shared_server DIRECTORY``), the keeper.  The keeper waits for the
exclusive lock, gets it when no worker is left, and ends.
"""

from __future__ import annotations

import fcntl
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TextIO

from kafka_common.errors import ZkControllerError, ZooKeeperUnavailable
from kafka_common.process.java_runtime import find_java
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper
from zkcontroller.zookeeper.server_jars import find_jars

_READY_S: Final = 40.0


class SharedServer:
    """One worker's use of the shared ZooKeeper of a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._users: TextIO | None = None

    def acquire(self) -> str:
        """Starts the server if none runs; returns its ``host:port``.

        Raises ZooKeeperUnavailable if it does not start, and the errors of an embedded ZooKeeper.
        """
        from zkcontroller_cli.machine.processes import last_lines, python_module, spawn, wait_until

        self._directory.mkdir(parents=True, exist_ok=True)
        with (self._directory / "start.lock").open("w", encoding="ascii") as start:
            fcntl.flock(start, fcntl.LOCK_EX)
            self._users = (self._directory / "users.lock").open("w", encoding="ascii")
            # If the keeper of an earlier server holds the exclusive lock, wait until it has ended.
            fcntl.flock(self._users, fcntl.LOCK_SH)
            address = self._directory / "connect"
            if address.exists():
                return address.read_text(encoding="ascii")
            # Check here that Java and the jars exist, so that the caller gets the error.
            find_java(), find_jars()
            console = self._directory / "console.log"
            keeper = spawn(python_module(__name__, str(self._directory)), console)
            wait_until(lambda: address.exists() or not keeper.is_alive, _READY_S)
            if not address.exists():
                said = "\n  ".join(last_lines(console)) or "nothing"
                raise ZooKeeperUnavailable(f"the shared ZooKeeper did not start; it said {said}")
            return address.read_text(encoding="ascii")

    def release(self) -> None:
        """Ends this worker's use of the server."""
        if self._users is not None:
            self._users.close()
            self._users = None


def main(arguments: Sequence[str]) -> int:
    """Runs the server until no worker is left; returns 1 if it does not start."""
    (directory,) = map(Path, arguments)
    address = directory / "connect"
    server = EmbeddedZooKeeper(directory / "data")
    try:
        server.start()
    except ZkControllerError as error:
        print(error, file=sys.stderr)
        return 1
    draft = address.with_suffix(".new")
    draft.write_text(server.connect, encoding="ascii")
    draft.replace(address)
    with (directory / "users.lock").open("w", encoding="ascii") as users:
        fcntl.flock(users, fcntl.LOCK_EX)
        address.unlink()
        server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
