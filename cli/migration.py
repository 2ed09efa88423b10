"""``zkctl migration``: whether a cluster can move from ZooKeeper to KRaft."""

from __future__ import annotations

from typing import Final

import click

from zkcontroller_cli.console.errors import ExitCode, NotChecked
from zkcontroller_cli.console.options import VerbGroup, say, settings
from zkcontroller_cli.console.render import named

_LAYOUT: Final = named(
    *("check", "effect", "check", "what", "where", "next_step"),
    keys=("effect", "check", "what", "count", "where", "next_step"),
)


@click.group("migration", cls=VerbGroup)
def command() -> None:
    """The way from ZooKeeper to KRaft: what stands in it. Reads only."""


@command.command("check")
def check() -> int:
    """What stands in the way of a migration to KRaft, and remnants of one that was rolled back.

    Looks at every znode that a migration copies, and asks every broker for its configuration and
    log directories. By effect: blocks (it does not begin, or fails), loses (what is named is not
    taken along), prepare (the quorum, or a broker that restarts, needs something). Exits with 0 if
    nothing blocks, with 1 if something does, with 2 if something could not be checked.

    Examples:
      zkctl migration check
    """
    from zkcontroller_cli.migrations.obstacles import MigrationEffect, obstacles_of
    from zkcontroller_cli.migrations.reading import ANSWER_S, read_brokers
    from zkcontroller_cli.snapshots.reading import read_snapshot
    from zkcontroller_cli.wire.requests import run
    from zkcontroller_cli.znodes.registrations import read_registrations
    from zkcontroller_cli.znodes.session import open_zookeeper

    given = settings()
    with open_zookeeper(given) as zookeeper:
        saved = read_snapshot(zookeeper)
        registered = read_registrations(zookeeper)
    if not registered:
        raise NotChecked("no broker is registered: a migration begins with brokers that run")
    responses = run(read_brokers(registered, given.security, min(ANSWER_S, given.deadline_s)))
    found = obstacles_of(saved, responses)
    given.renderer.rows([each.row() for each in found], _LAYOUT)
    ids = ", ".join(str(each.broker.broker_id) for each in registered)
    cluster_id = saved.header.cluster_id
    say(f"node.id of a controller must be none of {ids}; its cluster id is {cluster_id}")
    severities = {each.effect for each in found}
    if MigrationEffect.BLOCKS in severities:
        return ExitCode.FINDING
    return ExitCode.NOT_CHECKED if MigrationEffect.NOT_CHECKED in severities else ExitCode.OK
