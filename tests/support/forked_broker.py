"""One of our brokers, forked from a process that has imported it: a second of processor time less.

For tests that ask what a broker does, not how its process comes up or how large it is.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import IO

from typing_extensions import override

from benchmarks.broker_process import OurBroker
from zkcontroller_testing.brokers import FORKED_BROKERS
from zkcontroller_testing.fork_server import ForkedProcess


class ForkedBroker(OurBroker):
    """As :class:`OurBroker`, but its process is a child of the fork server."""

    _forked: ForkedProcess | None = None

    @property
    @override
    def pid(self) -> int:
        assert self._forked is not None, "not started"
        return self._forked.pid

    @property
    @override
    def is_running(self) -> bool:
        return self._forked is not None and self._forked.poll() is None

    @override
    def _spawn(self, properties: Path) -> IO[str]:
        ours, theirs = os.pipe()
        try:
            self._forked = FORKED_BROKERS.start(
                "replica_manager",
                [str(properties), "--logs-dir", str(self.logs)],
                stdout=theirs,
                stderr=theirs,
                environment=os.environ,
            )
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        return os.fdopen(ours, errors="replace")

    @override
    def stop(self, timeout_s: float = 60) -> int:
        """SIGTERM, that is with a controlled shutdown; returns the exit code."""
        assert self._forked is not None, "not started"
        self._forked.send_signal(signal.SIGTERM)
        try:
            return self._forked.wait(timeout_s)
        finally:
            self.kill()

    @override
    def kill(self) -> None:
        """SIGKILL; nothing to do if it is not running."""
        if self._forked is None:
            return
        self._forked.kill()
        self._forked.wait(30)
        if self._reader is not None:
            self._reader.join(10)
