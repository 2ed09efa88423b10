"""One of our brokers, forked from a process that has imported it: a second of processor time less.

For tests that ask what a broker does, not how its process comes up or how large it is.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Final

from typing_extensions import override

from benchmarks.broker_process import STARTED, BrokerDidNotStartError, OurBroker
from zkcontroller_testing.fork_server import ForkedProcess, ForkServer

_SERVER: Final = ForkServer("replica_manager")


class ForkedBroker(OurBroker):
    """As :class:`OurBroker`, but its process is a child of the fork server."""

    _forked: ForkedProcess | None = None
    _has_started = False

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
            self._forked = _SERVER.start(
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
    def wait_until_started(self, timeout_s: float = 120) -> None:
        """Waits until it says that it serves; BrokerDidNotStartError if it does not."""
        self._spoke.wait(timeout_s)
        if not self._has_started:
            self.kill()
            raise BrokerDidNotStartError(
                f"{self.name} broker {self.broker_id} did not start:\n{self._last_words()}"
            )

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
        """Keeps what the process says, until its end closes the pipe."""
        with (
            os.fdopen(output, errors="replace") as said,
            (self.directory / "stdout.log").open("a") as kept,
        ):
            for line in said:
                kept.write(line)
                kept.flush()
                if STARTED in line:
                    self._has_started = True
                    self._spoke.set()
        self._spoke.set()
