"""Keeps an embedded ZooKeeper alive after the command that wanted it has returned.

The server dies with the process that started it, which is right for tests; a detached cluster needs
a process that stays until SIGTERM or SIGINT:
``python -m zkcontroller_cli.machine.embedded_server DATA_DIR PORT``.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from kafka_common.errors import ZkControllerError
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper


def main(arguments: Sequence[str]) -> int:
    """Serve until stopped; 1, and the reason on stderr, if the server does not come up."""
    data_dir, port = arguments
    # Blocked first: a signal that comes while the server starts waits until sigwait takes it.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    server = EmbeddedZooKeeper(Path(data_dir), int(port))
    try:
        server.start()
    except ZkControllerError as error:
        print(error, file=sys.stderr)
        return 1
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
