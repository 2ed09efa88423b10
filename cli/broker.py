"""``zkctl broker``: starts, lists, describes, drains and stops brokers."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any, Final

import click

from zkcontroller_cli.console.errors import Refused, TimedOut
from zkcontroller_cli.console.options import (
    VerbGroup,
    existing_cluster,
    parse_overrides,
    require_metrics_port,
    say,
    settings,
    without_contexts,
)
from zkcontroller_cli.console.render import named
from zkcontroller_cli.moving.broker_drain import drain

_KEYS: Final = (
    "broker_id",
    "host",
    "port",
    "endpoints",
    "rack",
    "broker_epoch",
    "is_controller",
    "registered_at_ms",
    "session_id",
)
_LIST: Final = named(
    "broker_id", "broker_id", "endpoints", "rack", "broker_epoch", "is_controller", keys=_KEYS
)


@click.group("broker", cls=VerbGroup)
def command() -> None:
    """Start a broker; list, describe, drain and stop brokers."""


command.add_command(drain)


@command.command("start")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    callback=parse_overrides,
    help="A configuration that overrides FILE's.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65_535),
    metavar="PORT",
    help="Serve its metrics for Prometheus at http://HOST:PORT/metrics; 0: a free port  [default: "
    "as cluster start gave it, else they are not served]",
)
@click.option(
    "--metrics-host",
    metavar="HOST",
    help="The address of that port  [default: 127.0.0.1]",
)
@click.option(
    "--metrics-of-partitions",
    is_flag=True,
    help="Also serve the metrics of single partitions, some ten for each.",
)
@click.option("--detach", is_flag=True, help="Return when it is started, and leave it running.")
@without_contexts
def start(
    file: Path,
    overrides: dict[str, str],
    metrics_port: int | None,
    metrics_host: str | None,
    metrics_of_partitions: bool,
    detach: bool,
) -> None:
    """Run a broker with the server.properties FILE, until Ctrl-C, SIGTERM or SIGHUP.

    Once it is started, one record about it goes to stdout; its log goes to stderr, or with
    --detach to console.log beside FILE.

    Examples:
      zkctl broker start broker-1/server.properties --detach
      zkctl broker start server.properties --metrics-port 9404
    """
    from kafka_common.net.loopback_ports import LOOPBACK
    from zkcontroller_cli.local.broker_process import BrokerFile, become_broker, leave_broker
    from zkcontroller_cli.machine.processes import MetricsOptions

    require_metrics_port(
        metrics_port,
        {"--metrics-host": metrics_host, "--metrics-of-partitions": metrics_of_partitions},
    )
    broker = BrokerFile.load(file, overrides)
    if metrics_port is not None:
        asked = MetricsOptions(metrics_port, metrics_host or LOOPBACK, metrics_of_partitions)
        broker = broker._replace(metrics=asked)
    if broker.metrics.port is not None:
        broker = broker.with_free_metrics_port()
        say(f"metrics: {broker.metrics.url}")
    if detach:
        leave_broker(broker, settings())
    else:
        become_broker(broker, settings())


@command.command("list")
def list_() -> None:
    """The brokers registered in ZooKeeper.

    Examples:
      zkctl broker list
      zkctl broker list -o name
    """
    from zkcontroller_cli.znodes.cluster_view import read_controller
    from zkcontroller_cli.znodes.registrations import read_registrations
    from zkcontroller_cli.znodes.session import open_zookeeper

    with open_zookeeper(settings()) as zookeeper:
        registrations = read_registrations(zookeeper)
        controller_id = read_controller(zookeeper).controller_id
    settings().renderer.rows([each.row(controller_id) for each in registrations], _LIST)


@command.command("describe")
@click.argument("broker_id", type=click.IntRange(min=0), metavar="ID")
def describe(broker_id: int) -> None:
    """Broker ID: its registration, and the partitions it leads and holds.

    Examples:
      zkctl broker describe 1
    """
    from zkcontroller_cli.znodes.cluster_view import read_controller
    from zkcontroller_cli.znodes.partitions import read_partitions
    from zkcontroller_cli.znodes.registrations import read_registrations
    from zkcontroller_cli.znodes.session import open_zookeeper

    with open_zookeeper(settings()) as zookeeper:
        found = read_registrations(zookeeper, [broker_id])
        if not found:
            raise Refused(f"broker {broker_id} is not registered; zkctl broker list shows all")
        controller_id = read_controller(zookeeper).controller_id
        partitions = read_partitions(zookeeper)
    held = [view for view in partitions if broker_id in view.assignment.replicas]
    led = [view for view in held if view.state and view.state.leader == broker_id]
    lagging = [v for v in held if v.state is None or broker_id not in v.state.in_sync_replicas]
    record: dict[str, Any] = {
        **found[0].row(controller_id),
        "replica_count": len(held),
        "leader_count": len(led),
        "preferred_leader_count": sum(v.assignment.replicas[0] == broker_id for v in held),
        "out_of_sync_count": len(lagging),
    }
    settings().renderer.record(record, named("broker_id"))


@command.command("stop")
@click.argument("broker_id", type=click.IntRange(min=0), metavar="ID")
@click.option("--kill", is_flag=True, help="SIGKILL: as if the machine had lost power.")
@click.option(
    "--log-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Find the process by the broker.json there instead of the cluster file.",
)
@without_contexts
def stop(broker_id: int, kill: bool, log_dir: Path | None) -> None:
    """Stop broker ID of the local cluster: SIGTERM and controlled shutdown, or --kill.

    Examples:
      zkctl broker stop 2
      zkctl broker stop 2 --kill
    """
    from zkcontroller_cli.local.broker_process import process_of_log_dir

    given = settings()
    process = process_of_log_dir(log_dir, broker_id) if log_dir else None
    if log_dir is None:
        cluster = existing_cluster(given)
        entry = cluster.broker(broker_id)
        if entry is None:
            raise Refused(
                f"the cluster in {given.directory} has no broker {broker_id}; "
                "zkctl cluster status shows all"
            )
        process = entry.process
    if process is None or not process.is_alive:
        raise Refused(f"broker {broker_id} does not run; zkctl cluster status shows what does")
    number = signal.SIGKILL if kill else signal.SIGTERM
    say(f"{number.name} to broker {broker_id} (pid {process.pid})")
    process.signal(number)
    if not process.wait_gone(given.deadline_s):
        raise TimedOut(
            f"broker {broker_id} (pid {process.pid}) still runs after {given.deadline_s:g} s; "
            "--kill ends it at once"
        )
    record = {"broker_id": broker_id, "pid": process.pid, "signal": number.name, "alive": False}
    given.renderer.record(record, named("broker_id"))
