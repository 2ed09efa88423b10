"""``zkctl metrics``: the metrics of one broker, and their meaning."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any, Final

import click

from zkcontroller_cli.console.command_lines import command_line
from zkcontroller_cli.console.errors import BadUsage, Refused
from zkcontroller_cli.console.options import (
    Settings,
    reads,
    say,
    settings,
    shared_options,
    without_contexts,
)
from zkcontroller_cli.console.render import named

_KEYS: Final = ("metric", "labels", "value", "type", "meaning")
_LAYOUT: Final = named("metric", "metric", "value", "meaning", keys=_KEYS)


@shared_options
@click.command("metrics")
@click.argument("broker_id", required=False, type=click.IntRange(min=0), metavar="[BROKER]")
@click.option(
    "--address",
    metavar="HOST:PORT",
    help="Where the metrics are served; of a real Kafka, its JMX exporter. Without it BROKER is "
    "one of the local cluster.",
)
@click.option(
    "--name",
    "globs",
    multiple=True,
    metavar="GLOB",
    help="Only metrics of such a name, as '*underreplicated*'; may be repeated.",
)
@reads
@without_contexts
def command(broker_id: int | None, address: str | None, globs: tuple[str, ...]) -> None:
    """What a broker measures of itself: numbers, and what they mean.

    Reads what Prometheus would read: from a broker that was started with --metrics-port, or from
    any server of Prometheus' text format.

    Examples:
      zkctl metrics 1 --name '*underreplicated*'
      zkctl metrics --address broker-1:9404 -o json
    """
    from zkcontroller_cli.wire.metrics_page import read_metrics

    given = settings()
    if address is None:
        address = _address_of(broker_id, given)
    elif broker_id is not None:
        raise BadUsage("say BROKER or --address, not both: the address is that of one broker")
    rows = read_metrics(address, given.deadline_s)
    patterns = [glob.lower() for glob in globs]
    shown: list[dict[str, Any]] = [
        row
        for row in rows
        if not patterns or any(fnmatchcase(row["metric"].lower(), each) for each in patterns)
    ]
    if not shown:
        say(f"none of the {len(rows)} metrics at {address} is called {' or '.join(globs)}")
    if given.renderer.is_for_eyes:
        shown = [_for_eyes(row) for row in shown]
    given.renderer.rows(shown, _LAYOUT)


def _for_eyes(row: dict[str, Any]) -> dict[str, Any]:
    """The row for a table: the name with its labels as in Prometheus, and a rounded value."""
    labels = ",".join(f'{key}="{value}"' for key, value in row["labels"].items())
    value = row["value"]
    return {
        **row,
        "metric": f"{row['metric']}{{{labels}}}" if labels else row["metric"],
        "value": f"{value:.6g}" if isinstance(value, float) else value,
    }


def _address_of(broker_id: int | None, given: Settings) -> str:
    cluster = given.cluster_file
    if cluster is None:
        raise BadUsage(
            f"there is no local cluster in {given.directory}: say --address HOST:PORT, the "
            "metrics port of a broker"
        )
    ids = ", ".join(str(broker.broker_id) for broker in cluster.brokers)
    if broker_id is None and len(cluster.brokers) == 1:
        broker_id = cluster.brokers[0].broker_id
    if broker_id is None:
        raise BadUsage(f"which broker? The cluster in {given.directory} has {ids}")
    entry = cluster.broker(broker_id)
    if entry is None:
        raise Refused(f"the cluster in {given.directory} has no broker {broker_id}, but {ids}")
    if not entry.is_alive:
        raise Refused(f"broker {broker_id} does not run; zkctl cluster status shows what does")
    if entry.metrics.port is None:
        start = command_line(
            "broker start",
            cluster.properties_path(broker_id),
            options=("--metrics-port", 0, "--detach"),
        )
        raise Refused(f"broker {broker_id} serves no metrics: stop it, and start it with {start}")
    return f"{entry.metrics.reached_at}:{entry.metrics.port}"
