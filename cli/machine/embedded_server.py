"""Keeps an embedded ZooKeeper alive after the command that needed it has returned.

The server ends with the process that started it, which is right for tests.  A detached cluster
needs a process that stays until SIGTERM or SIGINT:
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
    """Run the server until a signal; returns 1, with the reason on stderr, if it does not start."""
    data_dir, port = arguments
    # Block the signals first, so that a signal during the start waits for sigwait.
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
