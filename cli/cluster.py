"""``zkctl cluster``: a whole cluster on this machine, for experiments and for tests."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from zkcontroller_cli.console.command_lines import command_line
from zkcontroller_cli.console.errors import CommandFailed, ExitCode
from zkcontroller_cli.console.options import (
    Settings,
    VerbGroup,
    existing_cluster,
    parse_overrides,
    require_metrics_port,
    say,
    settings,
)
from zkcontroller_cli.console.render import named

if TYPE_CHECKING:
    pass

_START_TIMEOUT_S: Final = 60.0
_LAYOUT: Final = named("directory")


@click.group("cluster", cls=VerbGroup, uses_contexts=False)
def command() -> None:
    """Run a whole cluster on this machine: ZooKeeper and brokers."""


@command.command("fetch")
def fetch() -> None:
    """Fetch the jars of the embedded ZooKeeper: 10 MB, once for all projects of this user.

    From Maven Central, or the Maven repository that ZKCONTROLLER_MAVEN_REPOSITORY names. pyspark,
    the extra history, has them as well.

    Examples:
      zkctl cluster fetch
    """
    from zkcontroller.zookeeper.server_jars import cache_folder, fetch_jars

    folder = cache_folder()
    jars = fetch_jars(folder, say)
    record = {"directory": str(folder), "jars": [each.name for each in jars]}
    settings().renderer.record(record, _LAYOUT)


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
    help="A broker configuration for this run; it overrides server.properties.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65_535),
    metavar="M",
    help="Brokers serve their metrics for Prometheus on M, M+1, …, in this run; 0: free ports.",
)
@click.option(
    "--metrics-of-partitions",
    is_flag=True,
    help="Also serve the metrics of single partitions, some ten for each.",
)
@click.option(
    "--detach", is_flag=True, help="Return when the cluster is ready, and leave it running."
)
def start(
    brokers: int | None,
    base_port: int,
    overrides: dict[str, str],
    metrics_port: int | None,
    metrics_of_partitions: bool,
    detach: bool,
) -> int:
    """Start brokers, and a ZooKeeper unless --zookeeper HOSTS names one.

    ZooKeeper is "embedded" by default: the server that pyspark's jars hold, its data in DIR. Here
    --zookeeper counts as a flag only: ZKCTL_ZOOKEEPER is not read, so that no broker joins a
    cluster by accident. Without --detach the cluster stops at Ctrl-C.

    Examples:
      zkctl cluster start --brokers 3 --detach
      zkctl cluster start --base-port 9092 --override num.partitions=6
      zkctl cluster start -z zk1:2181/test --dir /tmp/test
    """
    from kafka_common.process.stop_signals import interrupt_at_stop_signals
    from zkcontroller_cli.local import local_cluster
    from zkcontroller_cli.machine.cluster_file import exclusive
    from zkcontroller_cli.machine.processes import MetricsOptions

    given = settings()
    require_metrics_port(metrics_port, {"--metrics-of-partitions": metrics_of_partitions})
    metrics = MetricsOptions(metrics_port, of_partitions=metrics_of_partitions)
    interrupt_at_stop_signals()  # before the first process starts
    with exclusive(given.directory):
        cluster = local_cluster.plan(
            given.directory, brokers, given.zookeeper_flag, base_port, metrics
        )
        timeout_s = _START_TIMEOUT_S if given.timeout_s is None else given.timeout_s
        view = local_cluster.start(cluster, overrides, given, timeout_s)
    if detach:
        given.renderer.record(view.record(), _LAYOUT)
        end = command_line("cluster stop", options=("--dir", given.directory))
        say(f"the cluster runs; {end} ends it")
        _warn_of_context(given)
        return ExitCode.OK
    try:
        # All imports come before the record, after which the user may press Ctrl-C.  After a SIGINT
        # during an import, Python may end as killed by the signal, whatever the exit code.
        _warn_of_context(given)
        given.renderer.record(view.record(), _LAYOUT)
        say("the cluster runs; Ctrl-C stops it")
        _await_end(given)
    except KeyboardInterrupt:
        say("")
        with exclusive(given.directory):
            local_cluster.stop(existing_cluster(given), given, given.deadline_s)
    return ExitCode.OK


def _warn_of_context(given: Settings) -> None:
    """Say on stderr if verbs without an address use a context, not the started cluster."""
    with suppress(CommandFailed):
        chosen = replace(given, directory_flag=None, zookeeper_flag=None).choose_context()
        if chosen is not None:
            say(
                f"verbs go to context {chosen.name} ({chosen.source}); "
                f"--dir {given.directory} names this cluster"
            )


def _await_end(given: Settings) -> None:
    """Wait until no process of the cluster runs; name on stderr processes that end or restart."""
    from zkcontroller_cli.machine.processes import wait_until

    running = set(existing_cluster(given).processes)

    def is_over() -> bool:
        nonlocal running
        # Read from the file each time, as another zkctl may stop a broker and start it again.
        now = set(existing_cluster(given).processes)
        for name in sorted(running ^ now):
            say(f"{name} {'has ended' if name in running else 'runs again'}")
        running = now
        return not running

    wait_until(is_over, timeout_s=float("inf"), poll_s=0.2)


@command.command("status")
@click.option("--check", is_flag=True, help="Exit with 1 unless everything runs.")
def status(check: bool) -> int:
    """Processes, registrations and the controller of the cluster in DIR.

    Examples:
      zkctl cluster status
      zkctl cluster status --check -o jsonl
    """
    from zkcontroller_cli.console.errors import exit_code_of
    from zkcontroller_cli.znodes.cluster_view import read_view
    from zkcontroller_cli.znodes.session import open_zookeeper

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
            # The state of the processes is printed anyway; the exit code says that a part failed.
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
    """Stop the cluster in DIR: brokers one by one, the controller last, then ZooKeeper.

    Examples:
      zkctl cluster stop
      zkctl cluster stop --force --dir /tmp/test
    """
    from zkcontroller_cli.local import local_cluster
    from zkcontroller_cli.machine.cluster_file import exclusive
    from zkcontroller_cli.znodes.cluster_view import read_view

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
