"""A plugin of pytest for ``make coverage``: what runs is counted in every process, to its end.

A process writes which lines it ran when it ends, and a killed one does not get to it.  So brokers
that a fixture has no more use for are stopped instead of killed.  What a test kills is killed.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

import coverage
import pytest

from tests.integration.broker_processes import BrokerProcess
from zkcontroller_cli.machine.processes import wait_until
from zkcontroller_testing.brokers import BrokerProcesses

_END_S: Final = 5.0
"""What has not ended by then is killed: a broker without its ZooKeeper, or a suspended one."""


def pytest_runtest_setup() -> None:
    """Counts again where a test has ended the tracing, as a RecursionError may."""
    measuring = coverage.Coverage.current()
    if measuring is not None and sys.gettrace() is None:
        measuring.stop()
        measuring.start()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Writes what ran: xdist kills a worker that takes more than ten seconds to end."""
    measuring = coverage.Coverage.current()
    if measuring is not None:
        measuring.save()


@pytest.fixture(scope="session", autouse=True)
def brokers_are_stopped() -> Iterator[None]:
    """Puts a SIGTERM, and time to follow it, before the SIGKILL at the end of fixtures."""
    kill_all, end = BrokerProcesses.kill_all, BrokerProcess.end

    def stop_all(self: BrokerProcesses) -> None:
        processes = [entry.process for entry in self._file.brokers if entry.process is not None]
        for process in processes:
            process.signal(signal.SIGTERM)
        wait_until(lambda: not any(process.is_alive for process in processes), _END_S)
        kill_all(self)

    def stop(self: BrokerProcess) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_S)
        end(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BrokerProcesses, "kill_all", stop_all)
        patch.setattr(BrokerProcess, "end", stop)
        yield
