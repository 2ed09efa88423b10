"""``zkctl partition elect``: elects preferred leaders, or any live replicas as leaders."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from zkcontroller_cli.console.errors import BadUsage, Refused, TimedOut
from zkcontroller_cli.console.options import settings
from zkcontroller_cli.console.render import Layout
from zkcontroller_cli.moving.reassign_options import (
    dry_run_option,
    partition_name,
    show,
    yes_option,
)
from zkcontroller_cli.values.moves import distinct, parse_partition, read_partition_names

if TYPE_CHECKING:
    from zkcontroller_cli.wire.admin import Verdict

_ELECTIONS: Final = Layout(
    partition_name, (), ("topic", "partition", "is_elected", "error", "reason")
)
_PLANNED_ELECTIONS: Final = Layout(
    partition_name, (), ("topic", "partition", "leader", "elected", "reason")
)


@click.command("elect")
@click.argument("partitions", nargs=-1, metavar="[TOPIC-PARTITION]…")
@click.option(
    "--file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Partitions as JSON, as kafka-leader-election reads them.",
)
@click.option("--all", "is_all", is_flag=True, help="Every partition that needs it.")
@click.option(
    "--unclean",
    is_flag=True,
    help="Any live replica may lead where no leader is left: records may be lost.",
)
@dry_run_option
@yes_option
def elect(
    partitions: tuple[str, ...],
    file: Path | None,
    is_all: bool,
    unclean: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Give leaderships back to preferred leaders, or with --unclean to any live replica.

    A partition that has the right leader is no error: is_elected is false then. --dry-run shows
    from a broker's metadata who would lead; the controller may know better.

    Examples:
      zkctl partition elect orders-0 orders-1
      zkctl partition elect --all --dry-run
      zkctl partition elect orders-0 --unclean --dry-run
    """
    from kio.schema.errors import ErrorCode

    from zkcontroller_cli.moving.move_plan import plan_elections
    from zkcontroller_cli.wire.admin import elect as elect_on_wire
    from zkcontroller_cli.wire.requests import Deadline, metadata, run
    from zkcontroller_cli.wire.target import brokers_to_change

    if is_all + bool(partitions) + (file is not None) != 1:
        raise BadUsage("name partitions as TOPIC-PARTITION, give a --file, or say --all")
    named = [parse_partition(text) for text in partitions]
    named += [] if file is None else read_partition_names(file)
    distinct(named)
    given = settings()
    question = "Elect leaders that may lack records?" if unclean else "Move these leaderships?"
    if not dry_run:
        given.can_be_asked(question, yes=yes)
    deadline = Deadline(given.deadline_s)
    bootstrap = brokers_to_change(given)
    topics = None if is_all else sorted({each.topic for each in named})
    known = run(metadata(bootstrap, deadline, topics))
    plan = plan_elections(known, None if is_all else named, is_unclean=unclean)
    if dry_run:
        given.renderer.rows([each.row() for each in plan], _PLANNED_ELECTIONS)
        return
    show([f"  {each.text}" for each in plan])
    given.confirm(question, yes=yes)
    deadline = Deadline(given.deadline_s)
    verdicts = run(
        elect_on_wire(bootstrap, deadline, None if is_all else named, is_unclean=unclean)
    )
    is_needed = [v for v in verdicts if v.error_code is not ErrorCode.election_not_needed]
    rows = [
        {
            "topic": v.topic,
            "partition": v.partition,
            "is_elected": v.error is None,
            "error": v.error if v in is_needed else None,
            "reason": v.reason if v in is_needed else None,
        }
        for v in verdicts
    ]
    given.renderer.rows(rows, _ELECTIONS)
    _refuse_for(is_needed)


def _refuse_for(verdicts: list[Verdict]) -> None:
    refused = [verdict for verdict in verdicts if verdict.error is not None]
    if not refused:
        return
    first = refused[0]
    said = f"{first.topic}-{first.partition}: {first.reason} ({first.error})"
    if len(refused) > 1:
        said = f"{len(refused)} elections were refused; the first: {said}"
    is_late = all(verdict.error == "REQUEST_TIMED_OUT" for verdict in refused)
    raise TimedOut(said) if is_late else Refused(said)
