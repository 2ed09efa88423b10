"""``zkctl group reset``, ``delete``, ``delete-offsets``: plans, shows, asks, changes, and proves.

Each verb reads the group before the change, and again after the coordinator's response.  The result
shows the second reading.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from zkcontroller_cli.console.command_lines import command_line
from zkcontroller_cli.console.errors import BadUsage, Refused
from zkcontroller_cli.console.options import Bootstrap, Settings, say, settings
from zkcontroller_cli.console.render import Layout, named
from zkcontroller_cli.coordinators.group_plan import (
    Log,
    PlannedReset,
    ResetMode,
    TopicScope,
    parse_duration,
    parse_moment,
    parse_scope,
    partitions_in,
    plan_reset,
    plan_row,
    read_offsets,
    write_offsets,
)
from zkcontroller_cli.values.moves import NamedPartition

if TYPE_CHECKING:
    from zkcontroller_cli.wire.groups import GroupView
    from zkcontroller_cli.wire.requests import Deadline

_SHOWN: Final = 20
"""The most lines of a plan that are shown before a question; --dry-run shows all."""


def _name(row: Any) -> str:
    return f"{row['topic']}-{row['partition']}"


_PLAN_KEYS: Final = ("group", *PlannedReset._fields)
_PLAN: Final = Layout(_name, (), _PLAN_KEYS)
_RESET: Final = Layout(
    _name,
    ("topic", "partition", "current_offset", "new_offset", "committed_offset", "reason", "error"),
    (*_PLAN_KEYS, "committed_offset", "error"),
)
_DELETED_KEYS: Final = ("group", "is_deleted", "error", "reason")
_DELETED: Final = named("group", keys=_DELETED_KEYS)
_DELETED_OFFSETS: Final = Layout(
    _name, (), ("group", "topic", "partition", "current_offset", "is_deleted", "error", "reason")
)

_dry_run = click.option("--dry-run", is_flag=True, help="Show what would be done, do nothing.")
_yes = click.option("--yes", is_flag=True, help="Do not ask.")


@click.command("reset")
@click.argument("group")
@click.option("--topic", "topics", multiple=True, metavar="TOPIC[:P,P…]", help="These partitions.")
@click.option("--all-topics", is_flag=True, help="Every partition with a committed offset.")
@click.option("--to-earliest", is_flag=True, help="To the log's start.")
@click.option("--to-latest", is_flag=True, help="To the log's end.")
@click.option(
    "--to-current", is_flag=True, help="The committed offset; the log's end where there is none."
)
@click.option("--to-offset", type=click.IntRange(0, (1 << 63) - 1), help="To this offset.")
@click.option("--to-datetime", metavar="ISO8601", help="To the first record of this time or later.")
@click.option(
    "--by-duration", metavar="PnDTnHnMnS", help="Like --to-datetime, for the time this long ago."
)
@click.option("--shift-by", type=int, help="Forward by this many records; backward if negative.")
@click.option(
    "--from-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="To the offsets in a CSV, as --export writes it.",
)
@click.option(
    "--export",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the new offsets there, for --from-file and kafka-consumer-groups.",
)
@_dry_run
@_yes
def reset(
    group: str,
    topics: tuple[str, ...],
    all_topics: bool,
    export: Path | None,
    dry_run: bool,
    yes: bool,
    **modes: Any,
) -> None:
    """Commit other offsets for GROUP, which must have no members.

    The plan is shown first. An offset outside the log is set to its nearest end, and the plan says
    so. Nothing is committed if one partition cannot be reset. Afterwards the offsets are read
    again. --dry-run with --export FILE writes a plan for later.

    Examples:
      zkctl group reset billing --topic orders --to-earliest --dry-run
      zkctl group reset billing --topic orders:0,1 --shift-by -100 --yes
      zkctl group reset billing --all-topics --by-duration PT2H --dry-run
    """
    from zkcontroller_cli.wire.groups import DEAD
    from zkcontroller_cli.wire.requests import Deadline, run

    mode, number = _mode(modes)
    file = modes["from_file"]
    if (bool(topics) + all_topics) != (mode is not ResetMode.FILE):
        raise BadUsage(
            "--from-file says it all: leave --topic and --all-topics out"
            if mode is ResetMode.FILE
            else "say one of --topic TOPIC and --all-topics"
        )
    if export is not None and export.exists():
        raise BadUsage(f"{export} exists already: name another file with --export")
    scopes = [parse_scope(text) for text in topics]
    offsets = None if file is None else read_offsets(file, group)
    given = settings()
    question = f"Commit these offsets for group {group}?"
    if not dry_run:
        given.can_be_asked(question, yes=yes)
    deadline = Deadline(given.deadline_s)
    bootstrap, view = _target(given, deadline, group)
    if not dry_run:
        _must_have_no_members(view, "offsets are reset")
    if view.state == DEAD:
        say(f"there is no group {group}: a commit creates it")
    plan = run(_plan(bootstrap, deadline, view, mode, number, scopes, offsets))
    if dry_run:
        given.renderer.rows([plan_row(group, each) for each in plan], _PLAN)
        _must_have_no_members(view, "offsets are reset")
    impossible = [each for each in plan if each.new_offset is None]
    if impossible:
        first = impossible[0]
        raise Refused(
            f"{first.topic}-{first.partition}: {first.reason}; "
            f"{len(impossible)} of {len(plan)} partitions cannot be reset, nothing was done"
        )
    if not plan:
        raise Refused(
            f"group {group} has nothing to reset: no partition is in the scope; "
            f"{command_line('group describe', group)} shows what it has"
        )
    if export is not None:
        write_offsets(export, plan)
    if dry_run:
        return
    _show([_reset_text(each) for each in plan])
    given.confirm(question, yes=yes)
    deadline = Deadline(given.deadline_s)
    _commit(given, bootstrap, deadline, view, plan)


def _commit(
    given: Settings,
    bootstrap: Bootstrap,
    deadline: Deadline,
    view: GroupView,
    plan: list[PlannedReset],
) -> None:
    from zkcontroller_cli.wire.groups import commit_offsets, describe_groups
    from zkcontroller_cli.wire.requests import run

    wanted = {
        NamedPartition(each.topic, each.partition): each.new_offset
        for each in plan
        if each.new_offset is not None
    }
    refusals = run(commit_offsets(bootstrap, deadline, view.group, wanted))
    [after] = run(describe_groups(bootstrap, deadline, [view.group]))
    rows = []
    for each in plan:
        partition = NamedPartition(each.topic, each.partition)
        refusal = refusals[partition]
        rows.append(
            {
                **plan_row(view.group, each),
                "committed_offset": after.committed.get(partition),
                "error": None if refusal is None else refusal.error,
            }
        )
    given.renderer.rows(rows, _RESET)
    missed = [row for row in rows if row["committed_offset"] != row["new_offset"]]
    refused = [row for row in rows if row["error"] is not None]
    if not missed and not refused:
        return
    first = (refused or missed)[0]
    why = first["error"] or f"{first['committed_offset']} is committed"
    look = command_line("group describe", view.group)
    raise Refused(
        f"{_name(first)}: {why}; {len(missed)} of {len(rows)} offsets are not as planned: look for "
        f"members that came meanwhile ({look}), and reset again"
    )


def _mode(modes: Mapping[str, Any]) -> tuple[ResetMode, int]:
    """The chosen mode of a reset, and its number: an offset, a shift, or ms since 1970; else 0."""
    said = [
        (mode, value)
        for mode, value in (
            (ResetMode.EARLIEST, modes["to_earliest"] or None),
            (ResetMode.LATEST, modes["to_latest"] or None),
            (ResetMode.CURRENT, modes["to_current"] or None),
            (ResetMode.OFFSET, modes["to_offset"]),
            (ResetMode.SHIFT, modes["shift_by"]),
            (ResetMode.FILE, modes["from_file"]),
            (ResetMode.TIMESTAMP, modes["to_datetime"]),
            (ResetMode.TIMESTAMP, modes["by_duration"]),
        )
        if value is not None
    ]
    if len(said) != 1:
        raise BadUsage(
            "say one of --to-earliest, --to-latest, --to-current, --to-offset, --to-datetime, "
            "--by-duration, --shift-by and --from-file"
        )
    [(mode, value)] = said
    if modes["to_datetime"] is not None:
        return mode, _at_or_after_1970(parse_moment(value))
    if modes["by_duration"] is not None:
        now_ms = round(datetime.now(UTC).timestamp() * 1000)
        return mode, _at_or_after_1970(now_ms - parse_duration(value))
    return mode, value if type(value) is int else 0


def _at_or_after_1970(moment_ms: int) -> int:
    if not 0 <= moment_ms < 1 << 63:
        raise BadUsage("the time must not be before 1970")
    return moment_ms


async def _plan(
    bootstrap: Bootstrap,
    deadline: Deadline,
    view: GroupView,
    mode: ResetMode,
    number: int,
    scopes: list[TopicScope],
    offsets: Mapping[NamedPartition, int] | None,
) -> list[PlannedReset]:
    from zkcontroller_cli.wire.logs import EARLIEST, LATEST, leaders_in, offsets_at
    from zkcontroller_cli.wire.requests import visible_metadata

    topics = {scope.topic for scope in scopes}
    if not scopes:
        topics = {each.topic for each in offsets or view.committed}
    known = await visible_metadata(bootstrap, deadline, sorted(topics))
    if offsets is not None:
        wanted = dict(offsets)
    else:
        chosen = partitions_in(scopes, leaders_in(known)) if scopes else list(view.committed)
        wanted = dict.fromkeys(chosen, number)
    for scope in scopes:
        if all(each.topic != scope.topic for each in wanted):
            raise Refused(f"there is no topic {scope.topic}; zkctl topic list shows all")
    times = (EARLIEST, LATEST, *((number,) if mode is ResetMode.TIMESTAMP else ()))
    found = await offsets_at(bootstrap, deadline, known, list(wanted), times)
    logs = {each: Log(*log) if isinstance(log, tuple) else log for each, log in found.items()}
    return plan_reset(mode, wanted, view.committed, logs)


@click.command("delete")
@click.argument("groups", nargs=-1, required=True, metavar="GROUP…")
@_dry_run
@_yes
def delete(groups: tuple[str, ...], dry_run: bool, yes: bool) -> None:
    """Delete GROUP with all its committed offsets; it must have no members.

    Examples:
      zkctl group delete billing --dry-run
      zkctl group delete billing invoices --yes
    """
    from zkcontroller_cli.wire.groups import DEAD, describe_groups
    from zkcontroller_cli.wire.groups import delete_groups as delete_on_wire
    from zkcontroller_cli.wire.requests import Deadline, run
    from zkcontroller_cli.wire.target import brokers_to_change

    names = list(dict.fromkeys(groups))
    given = settings()
    question = f"Delete {', '.join(names)} with all committed offsets?"
    if not dry_run:
        given.can_be_asked(question, yes=yes)
    deadline = Deadline(given.deadline_s)
    bootstrap = brokers_to_change(given)
    views = run(describe_groups(bootstrap, deadline, names))
    for view in views:
        if view.state == DEAD:
            raise Refused(f"there is no group {view.group}; nothing was done")
        _must_have_no_members(view, "it is deleted")
    _show([f"  {view.group}: {len(view.committed)} committed offsets" for view in views])
    if dry_run:
        rows = [_deleted_row(view.group, None, is_deleted=False) for view in views]
        given.renderer.rows(rows, _DELETED)
        return
    given.confirm(question, yes=yes)
    deadline = Deadline(given.deadline_s)
    refusals = run(delete_on_wire(bootstrap, deadline, names))
    after = run(describe_groups(bootstrap, deadline, names))
    rows = [
        _deleted_row(view.group, refusals[view.group], is_deleted=view.state == DEAD)
        for view in after
    ]
    given.renderer.rows(rows, _DELETED)
    left = [row for row in rows if not row["is_deleted"]]
    if left:
        first = left[0]
        why = first["reason"] or "it is there again"
        raise Refused(
            f"group {first['group']}: {why}; {len(left)} of {len(rows)} groups are still there"
            + _advice(first, "see who uses them", first["group"])
        )


def _advice(row: Mapping[str, Any], step: str, group: str) -> str:
    """The next step, where it is members that keep the group from being deleted."""
    is_refused = row["error"] is not None and "AUTHORIZATION" in row["error"]
    return "" if is_refused else f": {step} ({command_line('group members', group)})"


def _deleted_row(group: str, refusal: Any, *, is_deleted: bool) -> dict[str, Any]:
    error, reason = (None, None) if refusal is None else refusal
    return {"group": group, "is_deleted": is_deleted, "error": error, "reason": reason}


@click.command("delete-offsets")
@click.argument("group")
@click.option(
    "--topic",
    "topics",
    multiple=True,
    required=True,
    metavar="TOPIC[:P,P…]",
    help="Of these partitions.",
)
@_dry_run
@_yes
def delete_offsets(group: str, topics: tuple[str, ...], dry_run: bool, yes: bool) -> None:
    """Delete what GROUP has committed for topics that no member subscribes to.

    Examples:
      zkctl group delete-offsets billing --topic orders --dry-run
    """
    from zkcontroller_cli.wire.groups import delete_offsets as delete_on_wire
    from zkcontroller_cli.wire.groups import describe_groups
    from zkcontroller_cli.wire.requests import Deadline, run

    scopes = [parse_scope(text) for text in topics]
    given = settings()
    question = f"Delete these committed offsets of group {group}?"
    if not dry_run:
        given.can_be_asked(question, yes=yes)
    deadline = Deadline(given.deadline_s)
    bootstrap, view = _target(given, deadline, group)
    _must_be_there(view)
    chosen = [each for each in partitions_in(scopes, view.committed) if each in view.committed]
    if not chosen:
        raise Refused(
            f"group {group} has committed nothing for {', '.join(topics)}; "
            f"{command_line('group describe', group)} shows what it has"
        )
    _show([f"  {topic}-{p}: {view.committed[NamedPartition(topic, p)]}" for topic, p in chosen])
    if dry_run:
        rows = [_offset_row(view, each, None, is_deleted=False) for each in chosen]
        given.renderer.rows(rows, _DELETED_OFFSETS)
        return
    given.confirm(question, yes=yes)
    deadline = Deadline(given.deadline_s)
    refusals = run(delete_on_wire(bootstrap, deadline, group, chosen))
    [after] = run(describe_groups(bootstrap, deadline, [group]))
    rows = [
        _offset_row(view, each, refusals[each], is_deleted=each not in after.committed)
        for each in chosen
    ]
    given.renderer.rows(rows, _DELETED_OFFSETS)
    left = [row for row in rows if not row["is_deleted"]]
    if left:
        first = left[0]
        why = first["reason"] or "it was committed again"
        raise Refused(
            f"{_name(first)}: {why}; {len(left)} of {len(rows)} offsets are still there"
            + _advice(first, "stop the members that read the topic first", group)
        )


def _offset_row(
    view: GroupView, partition: NamedPartition, refusal: Any, *, is_deleted: bool
) -> dict[str, Any]:
    error, reason = (None, None) if refusal is None else refusal
    return {
        "group": view.group,
        "topic": partition.topic,
        "partition": partition.partition,
        "current_offset": view.committed[partition],
        "is_deleted": is_deleted,
        "error": error,
        "reason": reason,
    }


def _target(given: Settings, deadline: Deadline, group: str) -> tuple[Bootstrap, GroupView]:
    """The brokers for the write, after they were named on stderr, and the current group."""
    from zkcontroller_cli.wire.groups import describe_groups
    from zkcontroller_cli.wire.requests import run
    from zkcontroller_cli.wire.target import brokers_to_change

    bootstrap = brokers_to_change(given)
    [view] = run(describe_groups(bootstrap, deadline, [group]))
    return bootstrap, view


def _must_be_there(view: GroupView) -> None:
    from zkcontroller_cli.wire.groups import DEAD

    if view.state == DEAD:
        raise Refused(f"there is no group {view.group}; zkctl group list shows all")


def _must_have_no_members(view: GroupView, before_what: str) -> None:
    from zkcontroller_cli.wire.groups import WITHOUT_MEMBERS

    if view.state not in WITHOUT_MEMBERS:
        raise Refused(
            f"group {view.group} is {view.state}: stop its {len(view.members)} members before "
            f"{before_what}: {view.members_text or 'they are joining'}"
        )


def _reset_text(planned: PlannedReset) -> str:
    now = "nothing" if planned.current_offset is None else planned.current_offset
    why = "" if planned.reason is None else f"  ({planned.reason})"
    return f"  {planned.topic}-{planned.partition}: {now} -> {planned.new_offset}{why}"


def _show(lines: Collection[str]) -> None:
    for line in list(lines)[:_SHOWN]:
        say(line)
    if len(lines) > _SHOWN:
        say(f"and {len(lines) - _SHOWN} more; --dry-run shows all")
