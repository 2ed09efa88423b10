"""``zkctl topic create`` and ``alter``: checks and shows the change, makes it, and proves it.

The result is read from the brokers after the change.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from kafka_history.report.moments import counted
from zkcontroller_cli.console.command_lines import command_line
from zkcontroller_cli.console.errors import Refused, TimedOut
from zkcontroller_cli.console.options import Bootstrap, parse_overrides, say, settings
from zkcontroller_cli.console.render import named
from zkcontroller_cli.values.topic_names import ChosenTopics

if TYPE_CHECKING:
    from kio.schema.create_topics.v7.request import CreatableTopic
    from kio.schema.metadata.v12.response import MetadataResponse

    from zkcontroller_cli.topics.reading import TopicRow
    from zkcontroller_cli.wire.requests import Deadline

_POLL_S: Final = 0.2
_SHOWN: Final = 20
"""The most lines of a plan that are shown before a question; --dry-run shows all."""
LATE: Final = "REQUEST_TIMED_OUT"
_NAMED: Final = named("topic")
_ALTERED_KEYS: Final = (
    "topic",
    "current_partition_count",
    "partition_count",
    "is_dry_run",
    "error",
    "reason",
)
_ALTERED: Final = named("topic", keys=_ALTERED_KEYS)
_dry_run = click.option("--dry-run", is_flag=True, help="Have it checked, change nothing.")
_yes = click.option("--yes", is_flag=True, help="Do not ask.")
_regex = click.option(
    "--regex", "is_regex", is_flag=True, help="TOPIC is a regular expression, not a glob."
)


@click.command("create")
@click.argument("topic")
@click.option(
    "--partitions",
    type=click.IntRange(1, 1_000_000),
    help="[default: num.partitions of the broker]",
)
@click.option(
    "--replication-factor",
    type=click.IntRange(1, 32_767),
    help="[default: default.replication.factor of the broker]",
)
@click.option(
    "--config",
    "configs",
    multiple=True,
    metavar="KEY=VALUE",
    callback=parse_overrides,
    help="A configuration of the topic.",
)
@click.option(
    "--replica-assignment",
    metavar="1:2:3,2:3:1,…",
    help="Replicas of each partition, the preferred leader first.",
)
@click.option("--if-not-exists", is_flag=True, help="An existing topic is no error.")
@_dry_run
def create(
    topic: str,
    partitions: int | None,
    replication_factor: int | None,
    configs: dict[str, str],
    replica_assignment: str | None,
    if_not_exists: bool,
    dry_run: bool,
) -> None:
    """Create TOPIC and wait until its partitions have leaders.

    The request is shown before it is sent. There is no question, because nothing is deleted. With
    --dry-run the controller checks everything (names, configurations, policies) and creates
    nothing.

    Examples:
      zkctl topic create orders --partitions 6 --replication-factor 3
      zkctl topic create orders --config min.insync.replicas=2 --dry-run
      zkctl topic create orders --replica-assignment 1:2,2:3,3:1
    """
    from kio.schema.errors import ErrorCode

    from zkcontroller_cli.wire.requests import Deadline, create_topic, raise_for, run
    from zkcontroller_cli.wire.target import brokers_to_change
    from zkcontroller_cli.wire.topics import creatable
    from zkcontroller_cli.znodes.topics import topic_id_text

    if replica_assignment is not None and (partitions or replication_factor):
        raise click.UsageError(
            "--replica-assignment says it all: leave --partitions and --replication-factor out"
        )
    wanted = creatable(topic, partitions, replication_factor, configs, replica_assignment)
    given = settings()
    bootstrap = brokers_to_change(given)
    deadline = Deadline(given.deadline_s)
    say(_creation_text(wanted))
    result = run(create_topic(bootstrap, deadline, wanted, is_dry_run=dry_run))
    if if_not_exists and result.error_code is ErrorCode.topic_already_exists:
        found = run(_described(bootstrap, deadline, [topic]))
        if topic not in found:
            raise Refused(
                f"topic {topic}: {result.error_message or 'it is marked for deletion'}; wait with "
                f"{command_line('wait', options=[f'--for=deleted={topic}'])}, and create it again"
            )
        given.renderer.record(
            {**_record(found[topic], None), "is_created": False, "is_dry_run": dry_run}, _NAMED
        )
        return
    raise_for(result)
    if dry_run:
        row: Mapping[str, Any] = {
            "topic": topic,
            "topic_id": None,
            "partition_count": result.num_partitions,
            "replication_factor": result.replication_factor,
            "is_internal": False,
        }
    else:
        created = run(_until_led(bootstrap, deadline, topic, max(1, result.num_partitions)))
        row = created or {
            "topic": topic,
            "topic_id": topic_id_text(result.topic_id),
            "partition_count": _known(result.num_partitions),
            "replication_factor": _known(result.replication_factor),
            "is_internal": False,
        }
    given.renderer.record(
        {**_record(row, _set_configs(wanted)), "is_created": not dry_run, "is_dry_run": dry_run},
        _NAMED,
    )


def _creation_text(wanted: CreatableTopic) -> str:
    said = []
    if wanted.assignments:
        for each in wanted.assignments:
            replicas = ",".join(map(str, each.broker_ids))
            said.append(f"partition {each.partition_index} on {replicas}")
    else:
        count, factor = wanted.num_partitions, wanted.replication_factor
        said.append("partitions by default" if count == -1 else counted(count, "partition"))
        said.append(f"replication factor {'by default' if factor == -1 else factor}")
    said += [f"{config.name}={config.value}" for config in wanted.configs]
    text = f"  create {wanted.name}: {', '.join(said)}"
    if "." in wanted.name or "_" in wanted.name:
        text += (
            "\nwarning: in names of metrics . and _ are the same: use only one of them in the "
            "names of topics"
        )
    return text


def _record(row: Mapping[str, Any], configs: dict[str, str | None] | None) -> dict[str, Any]:
    keys = ("topic", "topic_id", "partition_count", "replication_factor", "is_internal")
    record = {key: row[key] for key in keys}
    return {**record, "configs": configs}


def _set_configs(wanted: CreatableTopic) -> dict[str, str | None]:
    return {config.name: config.value for config in wanted.configs}


async def _described(
    bootstrap: Bootstrap, deadline: Deadline, topics: Sequence[str]
) -> dict[str, TopicRow]:
    from zkcontroller_cli.wire.requests import metadata
    from zkcontroller_cli.wire.topics import topics_from_metadata

    known = await metadata(bootstrap, deadline, topics)
    return {str(row["topic"]): row for row in topics_from_metadata(known)}


def _known(number: int) -> int | None:
    """The number; None for the -1 of a client that may not describe the topic."""
    return None if number < 0 else number


async def _until_led(
    bootstrap: Bootstrap, deadline: Deadline, topic: str, count: int
) -> TopicRow | None:
    """Wait until the topic has ``count`` partitions with leaders, and return it; else TimedOut.

    None, after a warning, if this client may not describe the topic.
    """
    import asyncio

    from kio.schema.errors import ErrorCode

    from zkcontroller_cli.wire.requests import metadata
    from zkcontroller_cli.wire.topics import topics_from_metadata

    while True:
        known = await metadata(bootstrap, deadline, [topic])
        if any(each.error_code is ErrorCode.topic_authorization_failed for each in known.topics):
            say(
                f"warning: topic {topic}: it was done; whether its partitions have leaders is not "
                "shown to a client without Describe on it"
            )
            return None
        row = next(iter(topics_from_metadata(known)), None)
        led = [] if row is None else [each for each in row["partitions"] if each["leader"] >= 0]
        if (
            row is not None
            and row["partition_count"] >= count
            and len(led) == len(row["partitions"])
        ):
            _say_racks(known, row)
            return row
        if deadline.is_over:
            wait = command_line("wait", options=("--for=isr=full", "--topic", topic))
            raise TimedOut(
                f"topic {topic}: it was done, and {len(led)} of {count} partitions have a leader; "
                f"wait with {wait}, or ask zkctl doctor"
            )
        await asyncio.sleep(min(_POLL_S, deadline.left_s))


def _say_racks(known: MetadataResponse, row: TopicRow) -> None:
    """Warn if racks are known, and replicas of a partition share a rack without need."""
    racks = {int(broker.node_id): broker.rack for broker in known.brokers}
    if not racks or None in racks.values():
        return
    possible = len(set(racks.values()))
    narrow = [
        each["partition"]
        for each in row["partitions"]
        if len({racks.get(broker) for broker in each["replicas"]})
        < min(possible, len(each["replicas"]))
    ]
    if narrow:
        say(
            f"warning: {len(narrow)} partitions of {row['topic']} are on fewer racks than there "
            "are: zkctl reassign plan --balance plans other replicas"
        )


@click.command("alter")
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC…")
@_regex
@click.option(
    "--partitions",
    type=click.IntRange(1, 1_000_000),
    required=True,
    help="How many it shall have in all.",
)
@click.option(
    "--replica-assignment",
    metavar="1:2:3,2:3:1,…",
    help="Replicas of each new partition, the preferred leader first.",
)
@click.option("--if-exists", is_flag=True, help="A missing topic is no error.")
@_dry_run
@_yes
def alter(
    topics: tuple[str, ...],
    is_regex: bool,
    partitions: int,
    replica_assignment: str | None,
    if_exists: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Give TOPIC (names or globs) more partitions and wait until they have leaders.

    Partitions cannot be removed again, and records with a key may go to another partition than
    before. So the plan is shown, and you are asked. With --dry-run the controller only checks it.

    Examples:
      zkctl topic alter orders --partitions 12 --dry-run
      zkctl topic alter 'orders-*' --partitions 12
    """
    from zkcontroller_cli.wire.requests import Deadline, run
    from zkcontroller_cli.wire.target import brokers_to_change
    from zkcontroller_cli.wire.topics import parse_assignment

    assignments = None
    if replica_assignment is not None:
        assignments = [each.broker_ids for each in parse_assignment(replica_assignment)]
    chosen = ChosenTopics(topics, is_regex)
    given = settings()
    question = f"Give {', '.join(topics)} {partitions} partitions, for good?"
    if not dry_run:
        given.can_be_asked(question, yes=yes)
    bootstrap = brokers_to_change(given)
    deadline = Deadline(given.deadline_s)
    found = run(chosen_on_brokers(bootstrap, deadline, chosen, if_exists=if_exists))
    show_plan([f"  {row['topic']}: {row['partition_count']} -> {partitions}" for row in found])
    for row in found:
        if row["partition_count"] >= partitions:
            raise Refused(
                f"topic {row['topic']} has {row['partition_count']} partitions already, and none "
                "can be taken away; nothing was done"
            )
    if not dry_run and found:
        given.confirm(question, yes=yes)
    deadline = Deadline(given.deadline_s)
    rows = run(_grow(bootstrap, deadline, found, partitions, assignments, is_dry_run=dry_run))
    if len(rows) == 1 and chosen.exact is not None and len(chosen.exact) == 1:
        refuse_for(rows, "topics were not altered")
        given.renderer.record(rows[0], _ALTERED)
        return
    given.renderer.rows(rows, _ALTERED)
    refuse_for(rows, "topics were not altered")


async def _grow(
    bootstrap: Bootstrap,
    deadline: Deadline,
    found: Sequence[TopicRow],
    partitions: int,
    assignments: Sequence[Sequence[int]] | None,
    *,
    is_dry_run: bool,
) -> list[dict[str, Any]]:
    """Add partitions; one row for each topic, with ``error`` if refused or without leaders."""
    from kio.schema.errors import ErrorCode

    from zkcontroller_cli.wire.admin import add_partitions
    from zkcontroller_cli.wire.requests import error_text

    rows = []
    for found_row in found:
        topic, count = str(found_row["topic"]), found_row["partition_count"]
        row = {
            "topic": topic,
            "current_partition_count": count,
            "partition_count": partitions if is_dry_run else count,
            "is_dry_run": is_dry_run,
            "error": None,
            "reason": None,
        }
        rows.append(row)
        result = await add_partitions(
            bootstrap, deadline, topic, partitions, assignments, is_dry_run=is_dry_run
        )
        if result.error_code is not ErrorCode.none:
            row["partition_count"] = count
            row["error"] = result.error_code.name.upper()
            row["reason"] = result.error_message or error_text(result.error_code)
        elif not is_dry_run:
            try:
                grown = await _until_led(bootstrap, deadline, topic, partitions)
            except TimedOut as late:
                row["error"], row["reason"] = LATE, str(late)
            else:
                row["partition_count"] = partitions if grown is None else grown["partition_count"]
    return rows


async def chosen_on_brokers(
    bootstrap: Bootstrap, deadline: Deadline, chosen: ChosenTopics, *, if_exists: bool
) -> list[TopicRow]:
    """The chosen topics from Metadata; Refused if one is missing and not ``if_exists``.

    Refused as well if this user may not see one that is named.
    """
    from zkcontroller_cli.wire.requests import visible_metadata
    from zkcontroller_cli.wire.topics import topics_from_metadata

    known = await visible_metadata(bootstrap, deadline, chosen.exact)
    rows = topics_from_metadata(known)
    by_name = {str(row["topic"]): row for row in rows}
    return [by_name[name] for name in chosen.among(by_name, is_missing_refused=not if_exists)]


def refuse_for(rows: Collection[Mapping[str, Any]], what: str) -> None:
    """Refused if a row has an error; TimedOut if all errors are REQUEST_TIMED_OUT."""
    failed = [row for row in rows if row["error"] is not None]
    if not failed:
        return
    first = failed[0]
    said = f"topic {first['topic']}: {first['reason']} ({first['error']})"
    if len(failed) > 1:
        said = f"{len(failed)} of {len(rows)} {what}; the first: {said}"
    is_late = all(row["error"] == LATE for row in failed)
    raise TimedOut(said) if is_late else Refused(said)


def show_plan(lines: Sequence[str]) -> None:
    """Show the first lines of a plan on stderr."""
    for line in lines[:_SHOWN]:
        say(line)
    if len(lines) > _SHOWN:
        say(f"and {len(lines) - _SHOWN} more; --dry-run shows all")
