"""``zkctl partition``: shows leaders and in-sync replicas from the state znodes; elects leaders."""

from __future__ import annotations

from typing import Final

import click

from zkcontroller_cli.console.errors import ExitCode
from zkcontroller_cli.console.options import VerbGroup, settings
from zkcontroller_cli.console.render import Layout
from zkcontroller_cli.console.tables import RowColour
from zkcontroller_cli.moving.partition_elect import elect

_KEYS: Final = (
    "topic",
    "partition",
    "leader",
    "leader_epoch",
    "isr",
    "replicas",
    "adding_replicas",
    "removing_replicas",
    "controller_epoch",
    "zk_version",
    "leader_recovery_state",
    "is_offline",
    "is_under_replicated",
    "is_preferred_leader",
)
LAYOUT: Final = Layout(
    lambda row: f"{row['topic']}-{row['partition']}",
    (
        "topic",
        "partition",
        "leader",
        "leader_epoch",
        "isr",
        "replicas",
        "controller_epoch",
        "zk_version",
    ),
    _KEYS,
    lambda row: (
        RowColour.ERROR
        if row["is_offline"]
        else RowColour.WARNING
        if row["is_under_replicated"]
        else RowColour.FINE
    ),
)


@click.group("partition", cls=VerbGroup)
def command() -> None:
    """Who leads and who is in sync, as ZooKeeper has it; elect leaders."""


command.add_command(elect)


@command.command("list")
@click.option(
    "--topic", "topics", multiple=True, metavar="TOPIC", help="Only partitions of this topic."
)
@click.option("--offline", is_flag=True, help="Only partitions without a live leader.")
@click.option("--under-replicated", is_flag=True, help="Only partitions with replicas out of sync.")
@click.option(
    "--not-preferred", is_flag=True, help="Only partitions not led by their preferred leader."
)
@click.option("--check", is_flag=True, help="Exit with 1 if anything is listed.")
def list_(
    topics: tuple[str, ...], offline: bool, under_replicated: bool, not_preferred: bool, check: bool
) -> int:
    """Every partition, or those that at least one of the filters finds.

    Examples:
      zkctl partition list --under-replicated
      zkctl partition list --topic orders -o name
      zkctl partition list --offline --check
    """
    from zkcontroller_cli.znodes.partitions import read_partitions
    from zkcontroller_cli.znodes.session import open_zookeeper

    filters = [
        key
        for key, is_wanted in (
            ("is_offline", offline),
            ("is_under_replicated", under_replicated),
            ("is_not_preferred", not_preferred),
        )
        if is_wanted
    ]
    with open_zookeeper(settings()) as zookeeper:
        partitions = read_partitions(zookeeper, topics or None)
    rows = [
        partition.row()
        for partition in partitions
        if not filters or any(getattr(partition, key) for key in filters)
    ]
    settings().renderer.rows(rows, LAYOUT)
    return ExitCode.FINDING if check and rows else ExitCode.OK
