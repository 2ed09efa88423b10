"""``zkctl broker``: one broker in the foreground; the registered ones; stopping one."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any, Final

import click

from .cluster import existing_cluster, parse_overrides
from .errors import Refused, TimedOut
from .options import Group, say, settings
from .render import named

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

_LOG_DIR_KEYS: Final = (
    "broker_id",
    "log_dir",
    "replica_count",
    "future_replica_count",
    "size_bytes",
    "error",
)


@click.group("broker", cls=Group)
def command() -> None:
    """Start a broker; list, describe and stop brokers."""


@command.command("start")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    callback=parse_overrides,
    help="A configuration stronger than FILE's.",
)
@click.option("--detach", is_flag=True, help="Return when it is registered, and leave it running.")
def start(file: Path, overrides: dict[str, str], detach: bool) -> None:
    """Run a broker with the server.properties FILE, until Ctrl-C or SIGTERM.

    Once it is registered, one record about it goes to stdout; its log goes to stderr, or with
    --detach to console.log beside FILE.
    """
    from .broker_process import BrokerFile, become_broker, leave_broker

    broker = BrokerFile.load(file, overrides)
    if detach:
        leave_broker(broker, settings())
    else:
        become_broker(broker, settings())


@command.command("list")
def list_() -> None:
    """The brokers registered in ZooKeeper."""
    from .cluster_view import read_controller
    from .registrations import read_registrations
    from .zookeeper import open_zookeeper

    with open_zookeeper(settings()) as zookeeper:
        registrations = read_registrations(zookeeper)
        controller_id = read_controller(zookeeper).controller_id
    settings().renderer.rows([each.row(controller_id) for each in registrations], _LIST)


@command.command("describe")
@click.argument("broker_id", type=click.IntRange(min=0), metavar="ID")
def describe(broker_id: int) -> None:
    """Broker ID: its registration, and the partitions it leads and holds."""
    from .cluster_view import read_controller
    from .partitions import read_partitions
    from .registrations import read_registrations
    from .zookeeper import open_zookeeper

    with open_zookeeper(settings()) as zookeeper:
        found = read_registrations(zookeeper, [broker_id])
        if not found:
            raise Refused(f"broker {broker_id} is not registered")
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


@command.command("log-dirs")
@click.argument("broker_ids", nargs=-1, type=click.IntRange(min=0), metavar="[ID…]")
def log_dirs(broker_ids: tuple[int, ...]) -> None:
    """The log directories of broker ID, or of every broker, and how much is in them."""
    from .wire import Deadline, run
    from .wire_logs import log_dirs as asked

    given = settings()
    rows = run(asked(given.bootstrap(), Deadline(given.deadline_s), list(broker_ids)))
    given.renderer.rows(rows, named("log_dir", *_LOG_DIR_KEYS, keys=_LOG_DIR_KEYS))


@command.command("stop")
@click.argument("broker_id", type=click.IntRange(min=0), metavar="ID")
@click.option("--kill", is_flag=True, help="SIGKILL: as if the machine had lost power.")
@click.option(
    "--log-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Find the process by the broker.json there instead of the cluster file.",
)
def stop(broker_id: int, kill: bool, log_dir: Path | None) -> None:
    """Stop broker ID of the local cluster: SIGTERM and controlled shutdown, or --kill."""
    from .broker_process import process_of_log_dir

    given = settings()
    process = process_of_log_dir(log_dir, broker_id) if log_dir else None
    if log_dir is None:
        cluster = existing_cluster(given)
        entry = cluster.broker(broker_id)
        if entry is None:
            raise Refused(f"the cluster in {given.directory} has no broker {broker_id}")
        process = entry.process
    if process is None or not process.is_alive:
        raise Refused(f"broker {broker_id} does not run")
    number = signal.SIGKILL if kill else signal.SIGTERM
    say(f"{number.name} to broker {broker_id} (pid {process.pid})")
    process.signal(number)
    if not process.wait_gone(given.deadline_s):
        raise TimedOut(
            f"broker {broker_id} (pid {process.pid}) still runs after {given.deadline_s:g} s"
        )
    record = {"broker_id": broker_id, "pid": process.pid, "signal": number.name, "alive": False}
    given.renderer.record(record, named("broker_id"))
