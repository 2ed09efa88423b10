"""``zkctl quorum``: runs a node of a raft quorum, describes the quorum, and reads its log files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

from zkcontroller_cli.console.errors import BadUsage, ExitCode
from zkcontroller_cli.console.options import VerbGroup, names_cluster, settings, without_contexts
from zkcontroller_cli.console.render import named

_REPLICATION_KEYS: Final = (
    "node_id",
    "directory_id",
    "log_end_offset",
    "lag",
    "last_fetch_timestamp",
    "last_caught_up_timestamp",
    "status",
)


@click.group("quorum", cls=VerbGroup)
def command() -> None:
    """Run a node of a raft quorum; describe one; read its log."""


@command.command("start")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Serve the metrics at http://127.0.0.1:PORT/metrics; 0: a free port.",
)
@without_contexts
def start(file: Path, metrics_port: int | None) -> int:
    """Run a node with the controller.properties FILE, until Ctrl-C, SIGTERM or SIGHUP.

    It is a controller of a KRaft cluster with static voters, alone or beside Kafka's.  Its log goes
    to stderr.

    Examples:
      zkctl quorum start controller.properties
    """
    from kraft.node.quorum_process import run_node

    return run_node(file, metrics_port)


@command.command("demo")
@without_contexts
def demo() -> int:
    """Three nodes lose their leader, get it back, and lose the next one; all is shown.

    It takes no Java and no ZooKeeper. Everything is done by real zkctl commands and checked in what
    they answer; the exit code is 0 only if all of it was true. With -o json (or another format) the
    text goes to stderr and the facts to stdout. The nodes live in a temporary directory unless
    --dir names one, and are stopped at the end.

    Examples:
      zkctl quorum demo
    """
    from zkcontroller_cli.local.quorum_demo import run

    return run(settings())


@command.command("describe")
@click.option(
    "--bootstrap-controller",
    "controllers",
    required=True,
    metavar="HOST:PORT[,…]",
    callback=names_cluster,
    help="Nodes to ask first; the leader is found from them.",
)
@click.option("--status", "wants_status", is_flag=True, help="The quorum in short (the default).")
@click.option("--replication", "wants_replication", is_flag=True, help="One line for each node.")
def describe(controllers: str, wants_status: bool, wants_replication: bool) -> None:
    """Who leads, who votes, and how far each node has come.

    Examples:
      zkctl quorum describe --bootstrap-controller node1:9093
      zkctl quorum describe --bootstrap-controller node1:9093 --replication
    """
    from zkcontroller_cli.wire.quorum import describe_quorum, replication_rows, status_record
    from zkcontroller_cli.wire.requests import Deadline, run

    if wants_status and wants_replication:
        raise BadUsage("--status or --replication, not both")
    given = settings()
    described = run(describe_quorum(given.servers(controllers), Deadline(given.deadline_s)))
    if wants_replication:
        layout = named("node_id", keys=_REPLICATION_KEYS)
        given.renderer.rows(replication_rows(described), layout)
    else:
        given.renderer.record(status_record(described), named("leader_id"))


@command.command("dump")
@click.argument(
    "files",
    nargs=-1,
    required=True,
    metavar="FILE…",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@without_contexts
def dump(files: tuple[Path, ...]) -> int:
    """The records of segments (.log) and snapshots (.checkpoint), one JSON object a line.

    Exits with 1 if a file ends within a batch, or is damaged; what is before that is printed.

    Examples:
      zkctl quorum dump __cluster_metadata-0/00000000000000000000.log
    """
    from zkcontroller_cli.local.quorum_dump import dump_file

    out = sys.stdout.buffer
    is_whole = [dump_file(file, out) for file in files]
    out.flush()
    return ExitCode.OK if all(is_whole) else ExitCode.FINDING
