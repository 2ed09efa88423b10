"""One of our brokers, forked from a process that has imported it: a second of processor time less.

For tests that ask what a broker does, not how its process comes up or how large it is.
"""

from __future__ import annotations

import os
import signal
import threading

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
    def launch(self) -> None:
        """Starts the process."""
        properties = self.write_properties()
        self._spoke.clear()
        self._has_started = False
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
        self._reader = threading.Thread(target=self._listen, args=(ours,), daemon=True)
        self._reader.start()

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

    def _listen(self, output: int) -> None:
        self._keep(os.fdopen(output, errors="replace"))
        self._spoke.set()
