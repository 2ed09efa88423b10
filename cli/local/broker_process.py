"""Starts one broker, in the foreground or in the background.

In the foreground this process *becomes* the broker (exec), so that signals, exit code and pid are
the broker's own.  Before that it forks a child process that waits until the broker is started,
prints one record about it, and exits.  A broker is started when it is registered and accepts
connections: as in Kafka it binds a port that is not 0 after it has registered, and ends if another
process has it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Final, NamedTuple, NoReturn

from msgspec import DecodeError

from kafka_common.errors import ZkControllerError
from replica_manager.broker.broker_identity import stored_broker_id
from replica_manager.broker.broker_status import FILE_NAME, BrokerStatus
from replica_manager.configuration.config import BrokerConfig, load_config
from replica_manager.security.zookeeper_tls import zookeeper_tls
from zkcontroller_cli.console.command_lines import command_line
from zkcontroller_cli.console.errors import CommandFailed, ExitCode, Refused, TimedOut
from zkcontroller_cli.console.options import Settings
from zkcontroller_cli.console.render import named
from zkcontroller_cli.machine.cluster_file import ClusterFile, exclusive
from zkcontroller_cli.machine.ports import pick_free, require_free
from zkcontroller_cli.machine.processes import (
    NO_METRICS,
    MetricsOptions,
    ProcessId,
    broker_command,
    last_lines,
    spawn,
    wait_until,
)
from zkcontroller_cli.znodes.registrations import LiveBroker, read_registrations
from zkcontroller_cli.znodes.session import now_ms, open_zookeeper

_POLL_S: Final = 0.05
_STATUS_S: Final = 5.0
"""How long a registered broker may take to write its status file; on a full disk it cannot."""


class BrokerFile(NamedTuple):
    """A server.properties file, its configuration, and its local cluster; None without one."""

    path: Path
    config: BrokerConfig
    overrides: Mapping[str, str]
    cluster: ClusterFile | None
    metrics: MetricsOptions = NO_METRICS

    @classmethod
    def load(cls, path: Path, overrides: Mapping[str, str]) -> BrokerFile:
        """Read the file; ConfigInvalid if it is invalid, Refused if the broker runs already."""
        config = load_config(path, overrides)
        cluster = ClusterFile.load(path.absolute().parent.parent)
        if cluster is not None and (
            cluster.broker(config.broker_id) is None
            or cluster.properties_path(config.broker_id) != path.absolute()
        ):
            cluster = None
        entry = None if cluster is None else cluster.broker(config.broker_id)
        if entry is not None and entry.process is not None and entry.is_alive:
            raise Refused(
                f"broker {entry.broker_id} runs already (pid {entry.process.pid}): "
                f"{command_line('broker stop', entry.broker_id)} ends it"
            )
        metrics = NO_METRICS if entry is None else entry.metrics
        return cls(path, config, overrides, cluster, metrics)

    def with_free_metrics_port(self) -> BrokerFile:
        """The broker with a real metrics port instead of 0; Refused if the port is in use."""
        port = self.metrics.port
        assert port is not None, "it serves metrics"
        # A listener's port may be 0, too: any free one.
        taken = [listener.port for listener in self.config.listeners.bound if listener.port]
        if port and port in taken:
            raise Refused(
                f"port {port}, which the metrics server of the broker needs, is its listener's: "
                "choose another --metrics-port, or 0 for a free one"
            )
        port = require_free(port, "the metrics server of the broker") if port else pick_free(taken)
        return self._replace(metrics=replace(self.metrics, port=port))

    @property
    def command(self) -> list[str]:
        """The command line of the broker's process."""
        return broker_command(self.path, self.overrides, self.metrics)

    @property
    def environment(self) -> dict[str, str]:
        """Kafka's variable LOG_DIR for the log files, if the broker belongs to a local cluster."""
        if self.cluster is None:
            return {}
        return {"LOG_DIR": str(self.cluster.logs_directory(self.config.broker_id))}

    @property
    def broker_id(self) -> int | None:
        """The configured id, or the generated one in ``meta.properties``; None before that."""
        if self.config.broker_id >= 0:
            return self.config.broker_id
        return stored_broker_id(self.config.log_dirs[:1])

    def note(self, process: ProcessId) -> None:
        """Record the process in the cluster file, for ``cluster status`` and ``broker stop``."""
        if self.cluster is None:
            return
        with exclusive(self.cluster.directory):
            cluster = ClusterFile.load(self.cluster.directory)
            entry = cluster.broker(self.config.broker_id) if cluster else None
            if cluster is not None and entry is not None:
                entry.process, entry.metrics = process, self.metrics
                cluster.save()


def become_broker(file: BrokerFile, settings: Settings) -> NoReturn:
    """Turn this process into the broker; does not return."""
    process = ProcessId.of(os.getpid())
    assert process is not None, "we are alive"
    began_ms = now_ms()
    sys.stdout.flush()
    if os.fork() == 0:
        _announce(file, process, began_ms, settings)
    file.note(process)
    # stdout is for the record that scripts read, so the broker's output goes to stderr.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    os.environ.update(file.environment)
    os.execv(sys.executable, file.command)


def _announce(file: BrokerFile, process: ProcessId, began_ms: int, settings: Settings) -> NoReturn:
    """In the forked child: wait for the broker, print the record, and exit."""
    code = ExitCode.OK
    try:
        registration = await_start(file, process, began_ms, settings)
        show(registration, process, file.metrics, settings)
    except ZkControllerError:
        code = ExitCode.REFUSED  # the broker itself prints why it did not start
    except KeyboardInterrupt:
        code = ExitCode.INTERRUPTED
    finally:
        os._exit(code)


def leave_broker(file: BrokerFile, settings: Settings) -> None:
    """Start the broker in the background and wait until it is started; if not, end it."""
    began_ms = now_ms()
    console = file.path.absolute().parent / "console.log"
    process = spawn(file.command, console, file.environment)
    file.note(process)
    try:
        registration = await_start(file, process, began_ms, settings, settings.deadline_s)
    except BaseException as error:
        process.signal(signal.SIGKILL)
        if not isinstance(error, CommandFailed):
            raise
        lines = "".join(f"\n  {line}" for line in last_lines(console))
        raise type(error)(f"{error}; the last lines of {console}:{lines}") from error
    show(registration, process, file.metrics, settings)


def await_start(
    file: BrokerFile,
    process: ProcessId,
    began_ms: int,
    settings: Settings,
    timeout_s: float = float("inf"),
) -> LiveBroker:
    """Wait until the broker accepts connections; the registration made by this start.

    CommandFailed if the process ends before, TimedOut if the broker does not start in time.
    """
    found: list[LiveBroker] = []
    registered_at_s = 0.0

    connect, tls = file.config.zookeeper_connect, zookeeper_tls(file.config.values)
    with open_zookeeper(settings, connect=connect, tls=tls, is_new=True) as zookeeper:

        def is_started() -> bool:
            nonlocal registered_at_s
            if not process.is_alive:
                raise CommandFailed("the broker ended before it was started")
            broker_id = file.broker_id
            if broker_id is None:
                return False
            # An older registration is of an earlier run, whose session has not expired yet.
            found[:] = [
                registration
                for registration in read_registrations(zookeeper, [broker_id])
                if registration.timestamp_ms >= began_ms
            ]
            if not found:
                return False
            registered_at_s = registered_at_s or monotonic()
            return (
                any(_names(log_dir, process, began_ms) for log_dir in file.config.log_dirs)
                or monotonic() - registered_at_s >= _STATUS_S
            )

        if not wait_until(is_started, timeout_s, _POLL_S):
            what = "accept connections" if found else "register"
            raise TimedOut(f"the broker did not {what} within {timeout_s:g} s")
    return found[0]


def _names(log_dir: Path, process: ProcessId, began_ms: int) -> bool:
    """Whether the status file in the log directory is of this start of this process.

    In a container an earlier run may have had the same pid.
    """
    try:
        status = BrokerStatus.read(log_dir)
    except (OSError, DecodeError):
        return False
    return status.pid == process.pid and status.started_at_ms >= began_ms


def show(
    registration: LiveBroker, process: ProcessId, metrics: MetricsOptions, settings: Settings
) -> None:
    """Print the record about a broker that was started."""
    row = registration.row(controller_id=None)
    del row["is_controller"]
    record = {**row, "pid": process.pid, "metrics_port": metrics.port}
    settings.renderer.record(record, named("broker_id"))


def process_of_log_dir(log_dir: Path, broker_id: int) -> ProcessId:
    """The running process that ``broker.json`` in the log directory names as this broker.

    Refused if the file is missing or of another broker, or if the process is gone or no broker of
    this user.
    """
    path = log_dir / FILE_NAME
    try:
        status = BrokerStatus.read(log_dir)
    except FileNotFoundError:
        raise Refused(f"there is no {path}: no broker runs in this log directory") from None
    except DecodeError as error:
        raise Refused(f"{path} does not say which process the broker is: {error}") from error
    if status.broker_id != broker_id:
        raise Refused(
            f"{path} is of broker {status.broker_id}, not of broker {broker_id}: "
            "is this its log directory?"
        )
    process = ProcessId.of(status.pid)
    if process is None or not process.began_by(status.started_at_ms):
        raise Refused(f"broker {broker_id} does not run any more: {path} is left from its last run")
    if not process.runs("-m", "replica_manager"):
        raise Refused(
            f"pid {process.pid}, which {path} names, is no broker of this user: it gets no signal"
        )
    return process
