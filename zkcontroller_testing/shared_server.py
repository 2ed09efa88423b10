"""One ZooKeeper for all workers of a test run: started by the first, ended after the last.

Each user of the server holds a shared lock on one file as long as it lives, and the kernel gives
the lock back however it ends.  The server's keeper, a process of its own
(``python -m zkcontroller_testing.shared_server DIRECTORY``), waits for the exclusive lock: it gets
it when no user is left, and ends.
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
    """A user's hold on the ZooKeeper of a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._users: TextIO | None = None

    def acquire(self) -> str:
        """``host:port`` of the server, which is started if none runs.

        ConfigInvalid, ZooKeeperUnavailable: as of an embedded ZooKeeper.
        """
        from zkcontroller_cli.machine.processes import last_lines, python_module, spawn, wait_until

        self._directory.mkdir(parents=True, exist_ok=True)
        with (self._directory / "start.lock").open("w", encoding="ascii") as start:
            fcntl.flock(start, fcntl.LOCK_EX)
            self._users = (self._directory / "users.lock").open("w", encoding="ascii")
            # Waits while the keeper of an earlier server, which has got it, is ending.
            fcntl.flock(self._users, fcntl.LOCK_SH)
            address = self._directory / "connect"
            if address.exists():
                return address.read_text(encoding="ascii")
            # Refused here, where the reason can be seen.
            find_java(), find_jars()
            console = self._directory / "console.log"
            keeper = spawn(python_module(__name__, str(self._directory)), console)
            wait_until(lambda: address.exists() or not keeper.is_alive, _READY_S)
            if not address.exists():
                said = "\n  ".join(last_lines(console)) or "nothing"
                raise ZooKeeperUnavailable(f"the shared ZooKeeper did not start; it said {said}")
            return address.read_text(encoding="ascii")

    def release(self) -> None:
        """Gives the server back."""
        if self._users is not None:
            self._users.close()
            self._users = None


def main(arguments: Sequence[str]) -> int:
    """Serves until no user is left; 1 if the server does not come up."""
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
