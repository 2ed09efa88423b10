"""``zkctl topic delete``: shows the topics, asks, deletes them, and proves that they are gone.

The controller responds to DeleteTopics when brokers do not know the topic any more.  The deletion
of its logs and znodes has only begun then, so their end is read afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from kafka_history.report.moments import counted
from zkcontroller_cli.console.command_lines import command_line
from zkcontroller_cli.console.errors import CommandFailed, Refused
from zkcontroller_cli.console.options import Bootstrap, Settings, say, settings
from zkcontroller_cli.console.render import named
from zkcontroller_cli.topics.changes import LATE, chosen_on_brokers, refuse_for, show_plan
from zkcontroller_cli.values.topic_names import ChosenTopics

if TYPE_CHECKING:
    from zkcontroller_cli.topics.reading import TopicRow
    from zkcontroller_cli.wire.requests import Deadline

_DELETED: Final = named("topic", keys=("topic", "is_deleted", "error", "reason"))
_SETTING_S: Final = 3.0
"""Seconds that the controller may take to show a configuration value."""


@click.command("delete")
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC…")
@click.option(
    "--regex", "is_regex", is_flag=True, help="TOPIC is a regular expression, not a glob."
)
@click.option("--exclude-internal", is_flag=True, help="Leave Kafka's own topics out.")
@click.option("--if-exists", is_flag=True, help="A missing topic is no error.")
@click.option("--dry-run", is_flag=True, help="Show what would be done, do nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(
    topics: tuple[str, ...],
    is_regex: bool,
    exclude_internal: bool,
    if_exists: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Delete TOPIC (names or globs) with all its data, and wait until it is gone.

    The topics are shown first, with what will hold a deletion up. A topic is gone when every
    replica is deleted and its znodes are; is_deleted is null where that cannot be seen.

    Examples:
      zkctl topic delete orders
      zkctl topic delete 'test-*' --dry-run
    """
    from zkcontroller_cli.wire.requests import Deadline, run
    from zkcontroller_cli.wire.target import brokers_to_change

    chosen = ChosenTopics(topics, is_regex, exclude_internal)
    given = settings()
    question = f"Delete {', '.join(topics)} with all data?"
    if not dry_run:
        given.can_be_asked(question, yes=yes)
    bootstrap = brokers_to_change(given)
    deadline = Deadline(given.deadline_s)
    found, marked, missing = run(_to_delete(bootstrap, deadline, chosen, if_exists=if_exists))
    names = [*(str(row["topic"]) for row in found), *marked]
    show_plan([*map(_deletion_text, found), *(f"  {name}: is marked already" for name in marked)])
    _say_obstacles(bootstrap, deadline, found)
    rows = [_deleted_row(name, is_deleted=False) for name in [*names, *missing]]
    if dry_run or not names:
        given.renderer.rows(rows, _DELETED)
        return
    if chosen.exact is None:
        question = f"Delete these {len(names)} topics with all data?"
    given.confirm(question, yes=yes)
    deadline = Deadline(given.deadline_s)
    done = run(_delete(bootstrap, deadline, names))
    _prove(given, bootstrap, deadline, done)
    given.renderer.rows(
        [*done, *(_deleted_row(name, is_deleted=False) for name in missing)], _DELETED
    )
    refuse_for(done, "topics were not deleted")


async def _to_delete(
    bootstrap: Bootstrap, deadline: Deadline, chosen: ChosenTopics, *, if_exists: bool
) -> tuple[list[TopicRow], list[str], list[str]]:
    """The topics in Metadata, the names already marked for deletion, and the missing names.

    Refused if one is missing and not ``if_exists``.
    """
    from zkcontroller_cli.wire.topic_state import topics_still_there

    is_lenient = if_exists or chosen.exact is not None
    found = await chosen_on_brokers(bootstrap, deadline, chosen, if_exists=is_lenient)
    names = {row["topic"] for row in found}
    unknown = [name for name in chosen.exact or () if name not in names]
    there = await topics_still_there(bootstrap, deadline, unknown) if unknown else {}
    marked = [name for name in unknown if there[name]]
    missing = [name for name in unknown if not there[name]]
    if missing and not if_exists:
        raise Refused(f"there is no topic {missing[0]}; nothing was done")
    return found, marked, missing


def _deletion_text(row: TopicRow) -> str:
    internal = ", a topic of Kafka's own" if row["is_internal"] else ""
    # Replicas that a move adds count, too: their copies go with the others.
    replicas = counted(sum(len(each["replicas"]) for each in row["partitions"]), "replica")
    partitions = counted(row["partition_count"], "partition")
    return f"  delete {row['topic']}: {partitions}, {replicas}{internal}"


def _say_obstacles(bootstrap: Bootstrap, deadline: Deadline, found: Sequence[TopicRow]) -> None:
    """Warn of what will delay the deletion; Refused if ``delete.topic.enable`` is false."""
    from zkcontroller_cli.wire.requests import Deadline, run
    from zkcontroller_cli.wire.topic_state import DELETE_TOPIC_ENABLE, is_deletion_enabled

    try:
        is_enabled = run(is_deletion_enabled(bootstrap, Deadline(min(_SETTING_S, deadline.left_s))))
    except CommandFailed:
        is_enabled = None  # the controller will refuse the deletion itself
    if is_enabled is False:
        raise Refused(
            f"the controller has {DELETE_TOPIC_ENABLE}=false: no topic can be deleted; set it in "
            "the server.properties of every broker and restart them. Nothing was done"
        )
    offline = {
        broker
        for row in found
        for partition in row["partitions"]
        for broker in partition["offline_replicas"]
    }
    if offline:
        ids = ", ".join(map(str, sorted(offline)))
        say(
            f"warning: replicas are on brokers that are not alive ({ids}): the deletion does not "
            "end before these brokers are back (zkctl deletion status)"
        )


async def _delete(
    bootstrap: Bootstrap, deadline: Deadline, names: Sequence[str]
) -> list[dict[str, Any]]:
    from kio.schema.errors import ErrorCode

    from zkcontroller_cli.wire.requests import delete_topics_named, error_text

    results = await delete_topics_named(bootstrap, deadline, names)
    rows = []
    for result in results:
        code = result.error_code
        row = _deleted_row(str(result.name), is_deleted=False)
        # After a timeout the deletion may still come: _prove reads whether the topic is gone.
        if code not in (ErrorCode.none, ErrorCode.request_timed_out):
            row["error"] = code.name.upper()
            row["reason"] = result.error_message or error_text(code)
        rows.append(row)
    return rows


def _prove(
    given: Settings, bootstrap: Bootstrap, deadline: Deadline, rows: Collection[dict[str, Any]]
) -> None:
    """Wait until the accepted topics are gone or time is up, and set ``is_deleted`` in the rows."""
    from zkcontroller_cli.topics.presence import until_gone

    waiting = [row for row in rows if row["error"] is None]
    there = until_gone(given, bootstrap, deadline, [row["topic"] for row in waiting])
    for row in waiting:
        is_there = there[row["topic"]]
        row["is_deleted"] = None if is_there is None else not is_there
        if is_there:
            row["error"] = LATE
            row["reason"] = (
                "it is marked for deletion, and not gone in time: "
                f"{command_line('deletion status', row['topic'])} names what holds it up"
            )
        elif is_there is None:
            row["reason"] = "brokers have forgotten it; whether it is gone cannot be seen"


def _deleted_row(topic: str, *, is_deleted: bool) -> dict[str, Any]:
    return {"topic": topic, "is_deleted": is_deleted, "error": None, "reason": None}
