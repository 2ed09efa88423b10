"""``zkctl cluster``: a whole cluster on this machine, for trying things out and for tests."""

from __future__ import annotations

import signal
from types import FrameType
from typing import TYPE_CHECKING, Final

import click

from .errors import ExitCode, Refused
from .options import Group, Settings, say, settings
from .render import named

if TYPE_CHECKING:
    from .cluster_file import ClusterFile

_START_TIMEOUT_S: Final = 60.0
_LAYOUT: Final = named("directory")


@click.group("cluster", cls=Group)
def command() -> None:
    """Run a whole cluster on this machine: ZooKeeper and brokers."""


def parse_overrides(
    _ctx: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    """``k=v`` options as a mapping, the last of equal keys wins."""
    pairs = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{value!r} is not KEY=VALUE")
        pairs[key.strip()] = text.strip()
    return pairs


@command.command("start")
@click.option(
    "--brokers",
    type=click.IntRange(1, 100),
    metavar="N",
    help="How many brokers  [default: as last time in DIR, or 3]",
)
@click.option(
    "--base-port",
    type=click.IntRange(0, 65_000),
    default=0,
    metavar="P",
    help="Brokers listen on P, P+1, …, the embedded ZooKeeper on the next one  [default: as last "
    "time in DIR, or free ones]",
)
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    callback=parse_overrides,
    help="A broker configuration for this run, stronger than server.properties.",
)
@click.option(
    "--detach", is_flag=True, help="Return when the cluster is ready, and leave it running."
)
def start(brokers: int | None, base_port: int, overrides: dict[str, str], detach: bool) -> int:
    """Start brokers, and a ZooKeeper unless --zookeeper HOSTS names one.

    ZooKeeper is "embedded" by default: the server that pyspark's jars hold, its data in DIR. Here
    --zookeeper counts as a flag only: ZKCTL_ZOOKEEPER is not read, so that no broker joins a
    cluster by accident. Without --detach the cluster stops at Ctrl-C.
    """
    from . import local_cluster
    from .cluster_file import exclusive

    given = settings()
    # SIGTERM unwinds like Ctrl-C, from the first process on.
    signal.signal(signal.SIGTERM, _interrupt)
    with exclusive(given.directory):
        cluster = local_cluster.plan(given.directory, brokers, given.zookeeper_flag, base_port)
        timeout_s = _START_TIMEOUT_S if given.timeout_s is None else given.timeout_s
        view = local_cluster.start(cluster, overrides, given, timeout_s)
    if detach:
        given.renderer.record(view.record(), _LAYOUT)
        say(f"the cluster runs; zkctl cluster stop --dir {given.directory} ends it")
        return ExitCode.OK
    try:
        given.renderer.record(view.record(), _LAYOUT)
        say("the cluster runs; Ctrl-C stops it")
        _await_end(given)
    except KeyboardInterrupt:
        say("")
        with exclusive(given.directory):
            local_cluster.stop(existing_cluster(given), given, given.deadline_s)
    return ExitCode.OK


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _await_end(given: Settings) -> None:
    """Return when no process of the cluster is left; say who comes and goes."""
    from .processes import wait_until

    running = set(existing_cluster(given).processes)

    def is_over() -> bool:
        nonlocal running
        # Read again each time: another zkctl may stop a broker and start it again.
        now = set(existing_cluster(given).processes)
        for name in sorted(running ^ now):
            say(f"{name} {'has ended' if name in running else 'runs again'}")
        running = now
        return not running

    wait_until(is_over, timeout_s=float("inf"), poll_s=0.2)


@command.command("status")
@click.option("--check", is_flag=True, help="Exit with 1 unless everything runs.")
def status(check: bool) -> int:
    """Processes, registrations and the controller of the cluster in DIR."""
    from .cluster_view import read_view
    from .errors import exit_code_of
    from .zookeeper import open_zookeeper

    given = settings()
    cluster = existing_cluster(given)
    code: int = ExitCode.OK
    if not cluster.processes:
        view = read_view(cluster, None)
    else:
        try:
            with open_zookeeper(given, connect=cluster.zookeeper_connect) as zookeeper:
                view = read_view(cluster, zookeeper)
        except Exception as error:
            # What the processes show is worth printing; the exit code says that it is not all.
            code = exit_code_of(error)
            if code == ExitCode.INTERNAL:
                raise
            say(f"zkctl: {error}")
            view = read_view(cluster, None)
    given.renderer.record(view.record(), _LAYOUT)
    return ExitCode.FINDING if check and code == ExitCode.OK and view.state != "running" else code


@command.command("stop")
@click.option("--force", is_flag=True, help="Kill every process at once, as a power cut would.")
def stop(force: bool) -> None:
    """Stop the cluster in DIR: brokers one by one, the controller last, then ZooKeeper."""
    from . import local_cluster
    from .cluster_file import exclusive
    from .cluster_view import read_view

    given = settings()
    existing_cluster(given)
    with exclusive(given.directory):
        cluster = existing_cluster(given)  # again: another zkctl may just have written it
        if not cluster.processes:
            say(f"nothing runs in {given.directory}")
        elif force:
            local_cluster.kill(cluster)
        else:
            local_cluster.stop(cluster, given, given.deadline_s)
    given.renderer.record(read_view(cluster, None).record(), _LAYOUT)


def existing_cluster(given: Settings) -> ClusterFile:
    """The cluster in ``--dir``; Refused if there is none."""
    from .cluster_file import ClusterFile

    cluster = ClusterFile.load(given.directory)
    if cluster is None:
        raise Refused(f"there is no cluster in {given.directory}: zkctl cluster start makes one")
    return cluster
