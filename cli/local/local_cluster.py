"""Starts and stops brokers and a ZooKeeper as processes of this machine.

Every process has its own session, so that Ctrl-C reaches only zkctl.  It then stops the brokers one
by one with controlled shutdown, which hands over their leaderships: the controller last, and
ZooKeeper after the brokers.  ``cluster.json`` says which processes run, so a cluster that was
started in one terminal can be stopped in another.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from kafka_common.errors import ZkControllerError
from kafka_common.net.loopback_ports import LOOPBACK, is_free
from kafka_common.process.java_runtime import find_java
from replica_manager.configuration.config import BrokerConfig
from replica_manager.configuration.properties import format_properties, parse_properties
from replica_manager.regular_files import write_private
from zkcontroller.zookeeper.embedded import is_serving
from zkcontroller.zookeeper.server_jars import find_jars
from zkcontroller_cli.console.command_lines import command_line
from zkcontroller_cli.console.errors import CannotConnect, CommandFailed, Refused, TimedOut
from zkcontroller_cli.console.options import Settings, say
from zkcontroller_cli.machine.cluster_file import BrokerEntry, ClusterFile, ZooKeeperEntry
from zkcontroller_cli.machine.ports import pick_free, require_free
from zkcontroller_cli.machine.processes import (
    BROKER,
    NO_METRICS,
    ZKCTL,
    MetricsOptions,
    ProcessId,
    broker_arguments,
    last_lines,
    python_module,
    spawn,
    spawn_module,
    wait_until,
)
from zkcontroller_cli.znodes.cluster_view import ClusterView, read_view

EMBEDDED: Final = "embedded"
DEFAULT_BROKERS: Final = 3
SESSION_TIMEOUT_MS: Final = 6_000
"""The brokers' session timeout, after which a killed broker is noticed; Kafka's default is 18 s."""
_ZOOKEEPER_READY_S: Final = 30.0
_KILL_WAIT_S: Final = 10.0
_POLL_S: Final = 0.1


def plan(
    directory: Path,
    brokers: int | None,
    zookeeper: str | None,
    base_port: int,
    metrics: MetricsOptions = NO_METRICS,
) -> ClusterFile:
    """The cluster to start: as last time in this directory, except for what the arguments change.

    ``metrics`` are for the first broker; the others use the next ports, or free ones if the port
    is 0.  Refused if the directory's cluster runs, or if a requested port is in use.
    """
    before = ClusterFile.load(directory)
    if before is not None and before.processes:
        running = ", ".join(f"{name} (pid {p.pid})" for name, p in before.processes.items())
        end = command_line("cluster stop", options=("--dir", directory))
        raise Refused(f"{directory} is in use by a running cluster: {running}; {end} ends it")
    count = brokers or (len(before.brokers) if before else 0) or DEFAULT_BROKERS
    ports = _broker_ports(before, count, base_port)
    entries = [BrokerEntry(broker_id, port) for broker_id, port in enumerate(ports, start=1)]
    wanted = zookeeper or (before.zookeeper.connect if before else EMBEDDED)
    zookeeper_entry = ZooKeeperEntry(wanted, False)
    if wanted == EMBEDDED or (before and before.zookeeper.is_embedded and not zookeeper):
        port = _zookeeper_port(before, ports, base_port)
        zookeeper_entry = ZooKeeperEntry(f"{LOOPBACK}:{port}", True, port)
    if metrics.port is not None:
        _give_metrics_ports(entries, metrics, zookeeper_entry.port)
    return ClusterFile(directory.absolute(), zookeeper_entry, entries)


def _give_metrics_ports(
    entries: Sequence[BrokerEntry], metrics: MetricsOptions, zookeeper_port: int | None
) -> None:
    owners = {entry.port: f"broker {entry.broker_id}" for entry in entries}
    if zookeeper_port is not None:
        owners[zookeeper_port] = "ZooKeeper"
    for position, entry in enumerate(entries):
        if metrics.port:
            port, purpose = (
                metrics.port + position,
                f"the metrics server of broker {entry.broker_id}",
            )
            if port in owners:
                raise Refused(
                    f"port {port}, which {purpose} needs, is that of {owners[port]}: "
                    "choose another --metrics-port, or 0 for free ones"
                )
            require_free(port, purpose)
        else:
            port = pick_free(owners)
        owners[port] = f"the metrics of broker {entry.broker_id}"
        entry.metrics = replace(metrics, port=port)


def _broker_ports(before: ClusterFile | None, count: int, base_port: int) -> list[int]:
    if base_port:
        return [require_free(base_port + n, f"broker {n + 1}") for n in range(count)]
    remembered = {b.broker_id: b.port for b in before.brokers} if before else {}
    spoken_for = [before.zookeeper.port] if before and before.zookeeper.port else []
    ports: list[int] = []
    for broker_id in range(1, count + 1):
        port = remembered.get(broker_id)
        ports.append(port if port and is_free(port) else pick_free([*ports, *spoken_for]))
    return ports


def _zookeeper_port(before: ClusterFile | None, brokers: Sequence[int], base_port: int) -> int:
    if base_port:
        return require_free(base_port + len(brokers), "ZooKeeper")
    remembered = before.zookeeper.port if before else None
    return remembered if remembered and is_free(remembered) else pick_free(brokers)


def properties_of(cluster: ClusterFile, entry: BrokerEntry) -> dict[str, str]:
    """The content of one broker's ``server.properties``; keys that a user added are kept."""
    path = cluster.properties_path(entry.broker_id)
    kept = parse_properties(path.read_text(encoding="utf-8")) if path.exists() else {}
    listener = f"PLAINTEXT://{entry.host}:{entry.port}"
    replication = str(min(3, len(cluster.brokers)))
    defaults = {
        "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
        # The last broker cannot hand over its partitions, and should not retry for 15 s.
        "controlled.shutdown.retry.backoff.ms": "500",
        "offsets.topic.replication.factor": replication,
        "transaction.state.log.replication.factor": replication,
        "transaction.state.log.min.isr": str(min(2, len(cluster.brokers))),
    }
    ours = {
        "broker.id": str(entry.broker_id),
        "listeners": listener,
        "advertised.listeners": listener,
        "log.dirs": str(cluster.data_directory(entry.broker_id)),
        "zookeeper.connect": cluster.zookeeper_connect,
    }
    return {**defaults, **kept, **ours}


def start(
    cluster: ClusterFile, overrides: Mapping[str, str], settings: Settings, timeout_s: float
) -> ClusterView:
    """Start all processes, and wait until every broker is registered and knows the controller.

    After any error all started processes are killed before it is raised.
    """
    for entry in cluster.brokers:
        # An invalid value is refused here, before any process starts.
        BrokerConfig.parse({**properties_of(cluster, entry), **overrides})
    if cluster.zookeeper.is_embedded:
        find_java(), find_jars()
    try:
        if cluster.zookeeper.is_embedded:
            start_zookeeper(cluster)
        for entry in cluster.brokers:
            start_broker(cluster, entry, overrides)
        return await_ready(cluster, settings, timeout_s)
    except BaseException:
        kill(cluster)
        raise


def start_zookeeper(cluster: ClusterFile) -> None:
    """Start the embedded ZooKeeper, and wait until it serves requests."""
    directory, port = cluster.zookeeper_directory, cluster.zookeeper.port
    assert port is not None, "an embedded server has a port"
    console = directory / "server.log"
    say(f"starting ZooKeeper on port {port}")
    command = python_module(f"{ZKCTL}.machine.embedded_server", str(directory), str(port))
    process = spawn(command, console)
    cluster.zookeeper.process = process
    cluster.save()
    wait_until(lambda: is_serving(LOOPBACK, port) or not process.is_alive, _ZOOKEEPER_READY_S)
    if not is_serving(LOOPBACK, port):
        raise CannotConnect(_with_log(f"ZooKeeper did not start on port {port}", console))


def start_broker(
    cluster: ClusterFile,
    entry: BrokerEntry,
    overrides: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    note: Callable[[str], None] = say,
    *,
    launch: Callable[[str, Sequence[str], Path, Mapping[str, str]], ProcessId] = spawn_module,
) -> None:
    """Start one broker's process by ``launch``, without waiting for it.

    ``environment`` is added to the environment of zkctl.
    """
    path = cluster.properties_path(entry.broker_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Only its owner may read the file, as it may hold passwords.
    write_private(path, format_properties(properties_of(cluster, entry)))
    arguments = broker_arguments(path, overrides or {}, entry.metrics)
    note(f"starting broker {entry.broker_id} on port {entry.port}")
    if entry.metrics.port is not None:
        note(f"metrics of broker {entry.broker_id}: {entry.metrics.url}")
    # LOG_DIR is Kafka's own variable for the directory of log files.
    variables = {"LOG_DIR": str(cluster.logs_directory(entry.broker_id)), **(environment or {})}
    console = cluster.console_path(entry.broker_id)
    entry.process = launch(BROKER, arguments, console, variables)
    cluster.save()


def await_ready(cluster: ClusterFile, settings: Settings, timeout_s: float) -> ClusterView:
    """Wait until all brokers are registered and each names the controller in its Metadata."""
    from zkcontroller_cli.wire.polls import controllers_in_caches
    from zkcontroller_cli.znodes.session import open_zookeeper

    addresses = {entry.broker_id: (entry.host, entry.port) for entry in cluster.brokers}

    def is_ready() -> bool:
        _require_alive(cluster)
        view = read_view(cluster, zookeeper)
        if view.state != "running":
            return False
        known = controllers_in_caches(addresses)
        return all(known.get(entry.broker_id) == view.controller_id for entry in cluster.brokers)

    with open_zookeeper(settings, connect=cluster.zookeeper_connect, is_new=True) as zookeeper:
        is_in_time = wait_until(is_ready, timeout_s, _POLL_S)
        view = read_view(cluster, zookeeper)
    if is_in_time:
        return view
    missing = [b.broker_id for b in view.brokers if not b.registered]
    what = (
        f"brokers {', '.join(map(str, missing))} did not register"
        if missing
        else "the brokers did not agree on a controller"
    )
    suspect = missing[0] if missing else cluster.brokers[0].broker_id
    raise TimedOut(_with_log(f"{what} within {timeout_s:g} s", cluster.console_path(suspect)))


def _require_alive(cluster: ClusterFile) -> None:
    for entry in cluster.brokers:
        if not entry.is_alive:
            console = cluster.console_path(entry.broker_id)
            raise CommandFailed(
                _with_log(f"broker {entry.broker_id} ended while starting", console)
            )


def _with_log(sentence: str, log: Path) -> str:
    lines = last_lines(log)
    shown = "".join(f"\n  {line}" for line in lines) or " nothing"
    return f"{sentence}; the last lines of {log}:{shown}"


def stop(
    cluster: ClusterFile,
    settings: Settings,
    timeout_s: float,
    note: Callable[[str], None] = say,
) -> None:
    """Stop the brokers one by one, the controller last, then ZooKeeper; TimedOut if one stays."""
    controller_id = _controller_id(cluster, settings)
    for entry in sorted(cluster.brokers, key=lambda e: e.broker_id == controller_id):
        if entry.process is not None and entry.process.is_alive:
            note(f"stopping broker {entry.broker_id}")
            _terminate(entry.process, f"broker {entry.broker_id}", timeout_s)
        entry.process = None
        cluster.save()
    process = cluster.zookeeper.process
    if process is not None and process.is_alive:
        note("stopping ZooKeeper")
        _terminate(process, "ZooKeeper", timeout_s)
    cluster.zookeeper.process = None
    cluster.save()


def kill(cluster: ClusterFile) -> None:
    """Kill every process at once (SIGKILL)."""
    running = list(cluster.processes.values())
    for process in running:
        process.signal(signal.SIGKILL)
    for process in running:
        process.wait_gone(_KILL_WAIT_S)
    for entry in cluster.brokers:
        entry.process = None
    cluster.zookeeper.process = None
    cluster.save()


def _controller_id(cluster: ClusterFile, settings: Settings) -> int | None:
    """The id of the controller; None if there is none, or if ZooKeeper does not answer."""
    from zkcontroller_cli.znodes.session import open_zookeeper

    zookeeper = cluster.zookeeper
    if zookeeper.is_embedded and not (zookeeper.process and zookeeper.process.is_alive):
        return None
    try:
        with open_zookeeper(settings, connect=zookeeper.connect) as connection:
            return read_view(cluster, connection).controller_id
    except ZkControllerError:
        return None


def _terminate(process: ProcessId, name: str, timeout_s: float) -> None:
    # A suspended process would not handle SIGTERM before SIGCONT.
    process.signal(signal.SIGCONT)
    process.signal(signal.SIGTERM)
    if not process.wait_gone(timeout_s):
        raise TimedOut(f"{name} (pid {process.pid}) did not stop in {timeout_s:g} s; --force kills")
