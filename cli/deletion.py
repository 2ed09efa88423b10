"""``zkctl deletion``: topics marked for deletion, what delays them, and how to continue safely."""

from __future__ import annotations

from typing import Final

import click

from zkcontroller_cli.console.errors import ExitCode
from zkcontroller_cli.console.options import VerbGroup, say, settings
from zkcontroller_cli.console.render import named

_STATUS: Final = named(
    *("topic", "topic", "age_ms", "partition_count", "is_blocked", "brokers"),
    keys=(
        *("topic", "ordered_at_ms", "age_ms", "czxid", "zk_version", "partition_count"),
        *("is_blocked", "controller_id", "brokers", "blockers"),
    ),
)
_UNBLOCKED: Final = named("topic")


@click.group("deletion", cls=VerbGroup)
def command() -> None:
    """Deletions of topics that do not end: what holds them up, and the safe act."""


@command.command("status")
@click.argument("topics", nargs=-1, metavar="[TOPIC]…")
@click.option("--check", is_flag=True, help="Exit with 1 if a deletion is blocked.")
def status(topics: tuple[str, ...], check: bool) -> int:
    """Every topic marked for deletion: since when, which replicas are left, what blocks it.

    Each blocker has its next safe step. A deletion that was ordered a moment ago, and that nothing
    visible holds up, is not blocked. The znode of a topic must not be deleted by hand: brokers keep
    the logs, and bring them back as strays of the next topic of that name.

    Examples:
      zkctl deletion status
      zkctl deletion status --check -o name
    """
    from zkcontroller_cli.deletions.reading import read_marked
    from zkcontroller_cli.znodes.session import open_zookeeper

    given = settings()
    names = list(dict.fromkeys(topics)) or None
    with open_zookeeper(given) as zookeeper:
        found = read_marked(given, zookeeper, names)
    rows = [deletion.row() for deletion in found.deletions]
    given.renderer.descriptions(rows, _STATUS)
    if not rows:
        say("no topic is marked for deletion")
    return ExitCode.FINDING if check and any(row["is_blocked"] for row in rows) else ExitCode.OK


@command.command("unblock")
@click.argument("topic")
@click.option(
    "--keep-topic",
    "kept",
    metavar="TOPIC",
    help="Type its name again: take the mark away, and the topic stays.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be done, do nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def unblock(topic: str, kept: str | None, dry_run: bool, yes: bool) -> None:
    """Do what is safe so that the deletion of TOPIC goes on, and prove that it ends.

    Another controller is elected where this one does not go on; a reassignment that holds the
    deletion up is cancelled. Where a broker has to be started or a disk repaired, nothing is done,
    and the broker is named. --keep-topic calls the deletion off, if no replica is deleted yet. No
    znode of a topic is deleted here: that is the controller's work.

    Examples:
      zkctl deletion unblock orders --dry-run
      zkctl deletion unblock orders --keep-topic orders
    """
    from zkcontroller_cli.deletions.plan import plan_unblock
    from zkcontroller_cli.deletions.reading import read_marked
    from zkcontroller_cli.deletions.unblock import Unblocking
    from zkcontroller_cli.wire.target import name_zookeeper_to_change
    from zkcontroller_cli.znodes.session import open_zookeeper

    given = settings()
    question = "Do this?"
    if not dry_run:
        given.can_be_asked(f"Unblock the deletion of {topic}?", yes=yes)
    with open_zookeeper(given) as zookeeper:
        name_zookeeper_to_change(given, zookeeper)
        found = read_marked(given, zookeeper, [topic])
        [deletion] = found.deletions
        plan = plan_unblock(deletion, kept=kept)
        for number, step in enumerate(plan.steps, 1):
            say(f"  {number}. {step}")
        unblocking = Unblocking(given, zookeeper, deletion, found.controller, plan)
        if dry_run:
            given.renderer.record(unblocking.dry_run(), _UNBLOCKED)
            return
        given.confirm(question, yes=yes)
        record = unblocking.run()
    given.renderer.record(record, _UNBLOCKED)
