"""``zkctl topic``: created, grown, deleted by the controller; listed from brokers or ZooKeeper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from .cluster import parse_overrides
from .errors import Refused
from .options import Group, Settings, settings
from .render import Layout, named

if TYPE_CHECKING:
    from kio.schema.create_topics.v7.request import CreatableTopic

_KEYS: Final = ("topic", "topic_id", "partition_count", "replication_factor", "is_internal")
_LIST: Final = named("topic", *_KEYS, keys=_KEYS)
_NAMED: Final = named("topic")
_OFFSET_KEYS: Final = (
    "topic",
    "partition",
    "leader",
    "earliest_offset",
    "latest_offset",
    "offset_count",
    "error",
)
_OFFSETS: Final = Layout(
    lambda row: f"{row['topic']}-{row['partition']}", _OFFSET_KEYS, _OFFSET_KEYS
)


@click.group("topic", cls=Group)
def command() -> None:
    """Create, list, describe, grow and delete topics."""


@command.command("create")
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
def create(
    topic: str,
    partitions: int | None,
    replication_factor: int | None,
    configs: dict[str, str],
    replica_assignment: str | None,
    if_not_exists: bool,
) -> None:
    """Create TOPIC and wait until its partitions have leaders."""
    from kio.schema.errors import ErrorCode

    from .target import brokers_to_change
    from .topics import topic_id_text
    from .wire import Deadline, create_topic, raise_for, run
    from .wire_topics import creatable

    if replica_assignment is not None and (partitions or replication_factor):
        raise click.UsageError(
            "--replica-assignment says it all: leave --partitions and --replication-factor out"
        )
    wanted = creatable(topic, partitions, replication_factor, configs, replica_assignment)
    given = settings()
    bootstrap = brokers_to_change(given)
    result = run(create_topic(bootstrap, Deadline(given.deadline_s), wanted))
    if if_not_exists and result.error_code is ErrorCode.topic_already_exists:
        record = next(row for row in _from_brokers(given, [topic]) if row["topic"] == topic)
        del record["partitions"]
        given.renderer.record({**record, "is_created": False, "configs": None}, _NAMED)
        return
    raise_for(result)
    given.renderer.record(
        {
            "topic": str(result.name),
            "topic_id": topic_id_text(result.topic_id),
            "partition_count": result.num_partitions,
            "replication_factor": result.replication_factor,
            "is_internal": False,
            "is_created": True,
            "configs": _set_configs(wanted),
        },
        _NAMED,
    )


@command.command("list")
def list_() -> None:
    """Every topic, as a broker knows it, or ZooKeeper where only that is named."""
    rows = _describe(settings(), None)
    settings().renderer.rows([{key: row[key] for key in _KEYS} for row in rows], _LIST)


@command.command("describe")
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC…")
def describe(topics: tuple[str, ...]) -> None:
    """TOPIC with its partitions, as a broker knows it, or ZooKeeper where only that is named.

    One TOPIC is one object, several are a list. configs are those set on the topic; null where a
    broker does not show them.
    """
    given = settings()
    rows = _describe(given, list(topics))
    if rows and rows[0]["configs"] is None:
        rows = _with_configs(given, rows)
    if len(topics) == 1:
        settings().renderer.record(rows[0], _NAMED)
    else:
        settings().renderer.rows(rows, _LIST)


@command.command("offsets")
@click.argument("topics", nargs=-1, metavar="[TOPIC…]")
def offsets(topics: tuple[str, ...]) -> None:
    """Where the partitions of TOPIC, or of every topic, begin and end, as their leaders say."""
    from .wire import Deadline, run
    from .wire_logs import topic_offsets

    given = settings()
    names = list(dict.fromkeys(topics)) or None
    rows = run(topic_offsets(given.bootstrap(), Deadline(given.deadline_s), names))
    given.renderer.rows(rows, _OFFSETS)


@command.command("alter")
@click.argument("topic")
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
@click.option("--dry-run", is_flag=True, help="Have it checked, change nothing.")
def alter(topic: str, partitions: int, replica_assignment: str | None, dry_run: bool) -> None:
    """Give TOPIC more partitions and wait until they have leaders.

    Records with a key may go to another partition than before.
    """
    from .target import brokers_to_change
    from .wire import Deadline, run
    from .wire_admin import add_partitions
    from .wire_topics import parse_assignment

    assignments = None
    if replica_assignment is not None:
        assignments = [each.broker_ids for each in parse_assignment(replica_assignment)]
    given = settings()
    run(
        add_partitions(
            brokers_to_change(given),
            Deadline(given.deadline_s),
            topic,
            partitions,
            assignments,
            is_dry_run=dry_run,
        )
    )
    record = {"topic": topic, "partition_count": partitions, "is_dry_run": dry_run}
    given.renderer.record(record, _NAMED)


@command.command("delete")
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC…")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--if-exists", is_flag=True, help="A missing topic is no error.")
def delete(topics: tuple[str, ...], yes: bool, if_exists: bool) -> None:
    """Delete TOPIC with all its data, and wait until the brokers have forgotten it."""
    from kio.schema.errors import ErrorCode

    from .target import brokers_to_change
    from .wire import Deadline, delete_topics_named, raise_for, run

    given = settings()
    question = f"Delete {', '.join(topics)} with all data?"
    given.can_be_asked(question, yes=yes)
    bootstrap = brokers_to_change(given)
    given.confirm(question, yes=yes)
    names = list(dict.fromkeys(topics))
    results = run(delete_topics_named(bootstrap, Deadline(given.deadline_s), names))
    rows = []
    for result in results:
        is_missing = result.error_code is ErrorCode.unknown_topic_or_partition
        if not (is_missing and if_exists):
            raise_for(result)
        rows.append({"topic": str(result.name), "is_deleted": not is_missing})
    given.renderer.rows(rows, named("topic", keys=("topic", "is_deleted")))


def _describe(given: Settings, topics: list[str] | None) -> list[dict[str, Any]]:
    """Topics from the source named most explicitly; from brokers where both are named alike."""
    zookeeper, bootstrap = given.find_zookeeper(), given.find_bootstrap()
    if zookeeper is not None and (bootstrap is None or zookeeper.origin < bootstrap.origin):
        from .topics import topics_from_zookeeper
        from .zookeeper import open_zookeeper

        with open_zookeeper(given) as connection:
            return topics_from_zookeeper(connection, topics)
    return _from_brokers(given, topics)


def _from_brokers(given: Settings, topics: list[str] | None) -> list[dict[str, Any]]:
    from .wire import Deadline, metadata, run
    from .wire_topics import topics_from_metadata

    answer = run(metadata(given.bootstrap(), Deadline(given.deadline_s), topics))
    rows = topics_from_metadata(answer)
    for topic in topics or ():
        if all(row["topic"] != topic for row in rows):
            raise Refused(f"there is no topic {topic}")
    # In the order asked for: a broker answers in its own.
    order = {topic: position for position, topic in enumerate(topics or ())}
    return sorted(rows, key=lambda row: (order.get(row["topic"], 0), row["topic"]))


def _with_configs(given: Settings, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    from .wire import Deadline, run
    from .wire_admin import configs_set_on

    names = [str(row["topic"]) for row in rows]
    configs = run(configs_set_on(given.bootstrap(), Deadline(given.deadline_s), names))
    return [{**row, "configs": configs.get(row["topic"])} for row in rows]


def _set_configs(wanted: CreatableTopic) -> dict[str, str | None]:
    return {config.name: config.value for config in wanted.configs}
