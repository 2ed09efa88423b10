"""The broker processes of one cluster: started, signalled, awaited."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from kafka_common.errors import ConfigInvalid
from kafka_common.wall_time import OFFSET_VARIABLE, SOCKET_VARIABLE
from zkcontroller_cli.local.local_cluster import start_broker
from zkcontroller_cli.machine.cluster_file import BrokerEntry, ClusterFile
from zkcontroller_cli.machine.processes import (
    BROKER,
    ProcessId,
    last_lines,
    python_module,
    spawn,
    wait_until,
)
from zkcontroller_cli.wire.polls import controllers_in_caches
from zkcontroller_testing import fork_server
from zkcontroller_testing.fork_server import ForkServer
from zkcontroller_testing.holds import HoldServer
from zkcontroller_testing.loop_thread import LoopThread
from zkcontroller_testing.network import LOOPBACK
from zkcontroller_testing.waiting import BrokerEnded, NotInTime, until

FORKED_BROKERS: Final = ForkServer(BROKER)
_GONE_S: Final = 10.0
_SUSPENDED_POLL_S: Final = 0.001


class BrokerProcesses:
    """The broker processes by id; a restarted broker keeps its folder, ports and configuration."""

    def __init__(
        self,
        file: ClusterFile,
        internal_ports: Mapping[int, int],
        overrides: Mapping[int, Mapping[str, str]],
        holds: HoldServer,
        loop: LoopThread,
    ) -> None:
        self._file = file
        self._internal_ports = internal_ports
        self._overrides = overrides
        self._holds = holds
        self._loop = loop

    def start(self, broker_ids: Collection[int]) -> None:
        """Starts the processes, all of them at once; ConfigInvalid if one runs already."""
        for broker_id in broker_ids:
            if self.entry(broker_id).is_alive:
                raise ConfigInvalid("broker", broker_id, "runs already")
        for broker_id in broker_ids:
            start_broker(
                self._file,
                self.entry(broker_id),
                self._overrides[broker_id],
                {
                    SOCKET_VARIABLE: str(self._holds.path),
                    OFFSET_VARIABLE: str(self._holds.clock_offsets_ms.get(broker_id, 0)),
                },
                note=lambda _: None,
                launch=_launch,
            )

    def wait_ready(
        self,
        broker_ids: Collection[int],
        controller: Callable[[], int | None],
        registered: Callable[[], Collection[int]],
        timeout_s: float,
    ) -> None:
        """Waits until these brokers are registered and their Metadata names the controller."""
        addresses = {each: (LOOPBACK, self._internal_ports[each]) for each in broker_ids}

        def look() -> bool | None:
            for each in broker_ids:
                if not self.entry(each).is_alive:
                    raise BrokerEnded(f"broker {each} ended while starting; {self.said(each)}")
            named = controller()
            if named is None or not set(broker_ids) <= set(registered()):
                return None
            # Call it on the loop of another thread: a test that is a coroutine runs one in this.
            known = self._loop.call(asyncio.to_thread(controllers_in_caches, addresses))
            return True if all(known.get(each) == named for each in broker_ids) else None

        until(
            look,
            lambda: f"brokers {list(broker_ids)} are ready; " + self.said(min(broker_ids)),
            timeout_s,
        )

    def signal(self, broker_id: int, number: signal.Signals) -> None:
        """Sends a signal; ConfigInvalid if the broker does not run."""
        process = self.entry(broker_id).process
        if process is None or not process.signal(number):
            raise ConfigInvalid("broker", broker_id, "does not run")

    def suspend(self, broker_id: int) -> None:
        """Suspends a process; returns when it has stopped.  ConfigInvalid if it does not run."""
        self.signal(broker_id, signal.SIGSTOP)
        process = self.entry(broker_id).process
        # If this process ends, the system ends only children that have stopped already.
        while process is not None and process.is_alive and not process.is_suspended:
            time.sleep(_SUSPENDED_POLL_S)

    def limit_files(self, broker_id: int, size: int | None) -> None:
        """Limits the size of files that the broker may write (EFBIG); None: this process's limit.

        Raises:
            ConfigInvalid: the broker does not run, or the system is not Linux.
        """
        if size is None and not self.entry(broker_id).is_alive:
            return  # the broker starts without a limit
        pid = self.running(broker_id).pid
        if sys.platform != "linux":
            raise ConfigInvalid("disk", broker_id, "needs Linux: no other system limits a process")
        mine, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (mine if size is None else size, most))

    def running(self, broker_id: int) -> ProcessId:
        """The broker's process; ConfigInvalid if it does not run."""
        process = self.entry(broker_id).process
        if process is None or not process.is_alive:
            raise ConfigInvalid("broker", broker_id, "does not run")
        return process

    def await_end(self, broker_id: int, timeout_s: float) -> None:
        """Waits until the process has ended; NotInTime if it does not."""
        process = self.entry(broker_id).process
        if process is not None and not _wait_gone(process, timeout_s):
            raise NotInTime(
                f"broker {broker_id} did not end in {timeout_s:g} s; {self.said(broker_id)}"
            )

    def kill_all(self) -> None:
        """Kills every process (SIGKILL) and waits until they have ended."""
        running = [entry.process for entry in self._file.brokers if entry.process is not None]
        for process in running:
            process.signal(signal.SIGKILL)
        for process in running:
            _wait_gone(process, _GONE_S)

    def entry(self, broker_id: int) -> BrokerEntry:
        """The broker's entry in the cluster's file; ConfigInvalid if it has none."""
        found = self._file.broker(broker_id)
        if found is None:
            known = ", ".join(str(each.broker_id) for each in self._file.brokers)
            raise ConfigInvalid("broker", broker_id, f"is none of {known}")
        return found

    def said(self, broker_id: int) -> str:
        """The last lines that the process printed, as a text for an error."""
        console = self._file.console_path(broker_id)
        lines = "".join(f"\n  {line}" for line in last_lines(console)) or " nothing"
        return f"the last lines of {console}:{lines}"


def _launch(
    module: str, arguments: Sequence[str], console: Path, environment: Mapping[str, str]
) -> ProcessId:
    """Starts a broker that ends with this process; its output is appended to ``console``."""
    if not fork_server.is_available():
        return spawn(python_module(module, *arguments), console, environment, is_bound=True)
    console.parent.mkdir(parents=True, exist_ok=True)
    with console.open("ab") as output:
        forked = FORKED_BROKERS.start(
            module,
            arguments,
            stdout=output.fileno(),
            stderr=output.fileno(),
            environment={**os.environ, **environment},
        )
    forked.leave()
    return ProcessId.of(forked.pid) or ProcessId(forked.pid, "gone")


def _wait_gone(process: ProcessId, timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    if not wait_until(lambda: not process.is_alive, timeout_s):
        return False
    # A zombie's other threads may still be ending, and hold its files and ports.
    return wait_until(lambda: _is_reaped(process), deadline - time.monotonic())


def _is_reaped(process: ProcessId) -> bool:
    with contextlib.suppress(ChildProcessError):  # it is a child of the fork server
        # Without this call the ended process would stay a zombie until this process ends.
        os.waitpid(process.pid, os.WNOHANG)
    return process.is_gone
