"""``zkctl group``: shows groups and their lag, resets offsets, deletes groups and offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from zkcontroller_cli.console.errors import BadUsage, Refused
from zkcontroller_cli.console.options import Settings, VerbGroup, reads, settings
from zkcontroller_cli.console.render import Layout, named
from zkcontroller_cli.coordinators.group_changes import delete, delete_offsets, reset
from zkcontroller_cli.coordinators.group_lag import group_record

if TYPE_CHECKING:
    from zkcontroller_cli.wire.groups import GroupView
    from zkcontroller_cli.wire.requests import Deadline

STATES: Final = (
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Empty",
)
_LIST_KEYS: Final = ("group", "state", "protocol_type", "coordinator_id")
_LIST: Final = named("group", *_LIST_KEYS, keys=_LIST_KEYS)
_MEMBER_KEYS: Final = (
    "group",
    "member_id",
    "group_instance_id",
    "client_id",
    "host",
    "partition_count",
    "assignment",
)
_DESCRIBE: Final = named("group")


@click.group("group", cls=VerbGroup)
def command() -> None:
    """What groups read and commit; reset and delete their offsets, delete groups."""


for _verb in (reset, delete, delete_offsets):
    command.add_command(_verb)


@command.command("list")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(STATES, case_sensitive=False),
    help="Only groups in this state.  [needs Kafka 2.6]",
)
def list_(states: tuple[str, ...]) -> None:
    """Every group of every coordinator, with its state and protocol type.

    Examples:
      zkctl group list
      zkctl group list --state empty -o name
    """
    from zkcontroller_cli.wire.groups import list_groups
    from zkcontroller_cli.wire.requests import Deadline, run, say_what_is_hidden

    given = settings()
    bootstrap = given.bootstrap()
    groups = run(list_groups(bootstrap, Deadline(given.deadline_s), states))
    if not groups and not states:
        say_what_is_hidden(bootstrap, "groups")
    given.renderer.rows([each._asdict() for each in groups], _LIST)


@command.command("describe")
@click.argument("groups", nargs=-1, metavar="[GROUP]…")
@click.option("--all", "is_all", is_flag=True, help="Every group.")
def describe(groups: tuple[str, ...], is_all: bool) -> None:
    """GROUP with what it has committed, how far it lags, and who reads which partition.

    Partitions that a member is assigned are shown also where nothing is committed. One GROUP is one
    object, several are a list.

    Examples:
      zkctl group describe billing
      zkctl group describe --all -o json
    """
    from zkcontroller_cli.wire.requests import Deadline, run

    given = settings()
    records = run(_records(given, Deadline(given.deadline_s), groups, is_all=is_all))
    if is_all or len(groups) > 1:
        given.renderer.descriptions(records, _DESCRIBE)
    else:
        given.renderer.record(records[0], _DESCRIBE)


@command.command("members")
@click.argument("groups", nargs=-1, metavar="[GROUP]…")
@click.option("--all", "is_all", is_flag=True, help="Of every group.")
@click.option("--verbose", is_flag=True, help="Show the partitions of each member in the table.")
@reads
def members(groups: tuple[str, ...], is_all: bool, verbose: bool) -> None:
    """The members of GROUP, and what they are assigned.

    Examples:
      zkctl group members billing --verbose
    """
    from zkcontroller_cli.wire.requests import Deadline, run

    given = settings()
    views = run(
        _views(given, Deadline(given.deadline_s), groups, is_all=is_all, is_with_offsets=False)
    )
    rows = [
        {
            "group": view.group,
            "member_id": each.member_id,
            "group_instance_id": each.group_instance_id,
            "client_id": each.client_id,
            "host": each.host,
            "partition_count": None if each.assignment is None else len(each.assignment),
            "assignment": None
            if each.assignment is None
            else [f"{topic}-{partition}" for topic, partition in each.assignment],
        }
        for view in views
        for each in view.members
    ]
    columns = _MEMBER_KEYS if verbose else _MEMBER_KEYS[:-1]
    given.renderer.rows(rows, Layout(lambda row: str(row["member_id"]), columns, _MEMBER_KEYS))


async def _views(
    given: Settings,
    deadline: Deadline,
    groups: tuple[str, ...],
    *,
    is_all: bool,
    is_with_offsets: bool,
) -> list[GroupView]:
    """The groups that the command line names; Refused if one does not exist."""
    from zkcontroller_cli.wire.groups import DEAD, describe_groups, list_groups

    if is_all == bool(groups):
        raise BadUsage("which groups? Name them, or say --all")
    bootstrap = given.bootstrap()
    names = list(groups)
    if is_all:
        names = [each.group for each in await list_groups(bootstrap, deadline)]
    views = await describe_groups(bootstrap, deadline, names, is_with_offsets=is_with_offsets)
    missing = [view.group for view in views if view.state == DEAD]
    if missing and not is_all:
        raise Refused(f"there is no group {', '.join(missing)}; zkctl group list shows all")
    return [view for view in views if view.state != DEAD]


async def _records(
    given: Settings, deadline: Deadline, groups: tuple[str, ...], *, is_all: bool
) -> list[dict[str, Any]]:
    from zkcontroller_cli.wire.logs import LATEST, offsets_at
    from zkcontroller_cli.wire.requests import metadata

    views = await _views(given, deadline, groups, is_all=is_all, is_with_offsets=True)
    wanted = sorted(
        {
            partition
            for view in views
            for partition in [
                *view.committed,
                *(each for member in view.members for each in member.assignment or ()),
            ]
        }
    )
    bootstrap = given.bootstrap()
    known = await metadata(bootstrap, deadline, sorted({each.topic for each in wanted}))
    ends = await offsets_at(bootstrap, deadline, known, wanted, (LATEST,))
    return [group_record(view, ends) for view in views]
