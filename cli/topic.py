"""``zkctl topic``: lists and describes topics; the verbs that change them are in ``topics``."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import click

from zkcontroller_cli.console.errors import BadUsage, CommandFailed, ExitCode, Refused
from zkcontroller_cli.console.options import Settings, VerbGroup, say, settings
from zkcontroller_cli.console.render import Layout, named
from zkcontroller_cli.console.tables import RowColour
from zkcontroller_cli.topics.changes import alter, create
from zkcontroller_cli.topics.delete import delete
from zkcontroller_cli.topics.offsets import offsets
from zkcontroller_cli.topics.reading import TopicRow, TopicsRead, read_topics_chosen, with_configs
from zkcontroller_cli.topics.records import delete_records
from zkcontroller_cli.values.topic_names import ChosenTopics
from zkcontroller_cli.values.topic_reports import (
    MIN_IN_SYNC,
    PARTITION_KEYS,
    TopicReport,
    partition_rows,
)

_KEYS: Final = (
    "topic",
    "topic_id",
    "partition_count",
    "replication_factor",
    "is_internal",
    "is_marked_for_deletion",
)
_LIST: Final = named("topic", *_KEYS, keys=_KEYS)
_NAMED: Final = named("topic")
_OVERRIDES_KEYS: Final = (*_KEYS, "configs")
_OVERRIDES: Final = named("topic", *_OVERRIDES_KEYS, keys=_OVERRIDES_KEYS)
_PARTITIONS: Final = Layout(
    lambda row: f"{row['topic']}-{row['partition']}",
    ("topic", "partition", "leader", "isr", *TopicReport),
    PARTITION_KEYS,
    lambda row: (
        RowColour.ERROR
        if row[TopicReport.UNAVAILABLE] or row[TopicReport.UNDER_MIN_ISR]
        else RowColour.WARNING
    ),
)
_regex = click.option(
    "--regex", "is_regex", is_flag=True, help="TOPIC is a regular expression, not a glob."
)
_exclude_internal = click.option(
    "--exclude-internal", is_flag=True, help="Leave Kafka's own topics out."
)


@click.group("topic", cls=VerbGroup)
def command() -> None:
    """Create, list, describe, grow and delete topics; their offsets and records."""


for _verb in (create, alter, delete, offsets, delete_records):
    command.add_command(_verb)


@command.command("list")
@click.argument("topics", nargs=-1, metavar="[TOPIC]…")
@_regex
@_exclude_internal
def list_(topics: tuple[str, ...], is_regex: bool, exclude_internal: bool) -> None:
    """Every topic, or those that TOPIC (a name or a glob) chooses.

    As a broker knows them, or ZooKeeper where only that is named. is_marked_for_deletion is null
    where brokers are asked, which know no topic that is being deleted.

    Examples:
      zkctl topic list
      zkctl topic list 'orders-*' -o name
    """
    chosen = ChosenTopics(topics, is_regex, exclude_internal)
    rows = read_topics_chosen(settings(), chosen, is_missing_refused=False).topics
    settings().renderer.rows([{key: row[key] for key in _KEYS} for row in rows], _LIST)


@command.command("describe")
@click.argument("topics", nargs=-1, metavar="[TOPIC]…")
@click.option("--topic-id", metavar="ID", help="The topic with this id, instead of names.")
@_regex
@_exclude_internal
@click.option("--if-exists", is_flag=True, help="A missing topic is no error.")
@click.option(
    "--under-replicated-partitions", is_flag=True, help="Only partitions with replicas out of sync."
)
@click.option("--unavailable-partitions", is_flag=True, help="Only those without a live leader.")
@click.option(
    "--under-min-isr-partitions",
    is_flag=True,
    help="Only those with fewer than min.insync.replicas.",
)
@click.option(
    "--at-min-isr-partitions", is_flag=True, help="Only those with just min.insync.replicas."
)
@click.option("--topics-with-overrides", is_flag=True, help="Only topics that set configurations.")
@click.option("--check", is_flag=True, help="Exit with 1 if such a partition is listed.")
def describe(
    topics: tuple[str, ...],
    topic_id: str | None,
    is_regex: bool,
    exclude_internal: bool,
    if_exists: bool,
    under_replicated_partitions: bool,
    unavailable_partitions: bool,
    under_min_isr_partitions: bool,
    at_min_isr_partitions: bool,
    topics_with_overrides: bool,
    check: bool,
) -> int:
    """TOPIC (names or globs; none: every topic) with partitions and configurations.

    As a broker knows it, or ZooKeeper where only that is named. One name, or --topic-id, is one
    object, anything else a list. configs are those set on the topic; null where a broker does not
    show them. With an option that names partitions, those that at least one of them finds are
    listed, and nothing else.

    Examples:
      zkctl topic describe orders
      zkctl topic describe --under-min-isr-partitions --check
      zkctl topic describe 'orders-*' -o json
    """
    reports = [
        report
        for report, is_wanted in (
            (TopicReport.UNDER_REPLICATED, under_replicated_partitions),
            (TopicReport.UNAVAILABLE, unavailable_partitions),
            (TopicReport.UNDER_MIN_ISR, under_min_isr_partitions),
            (TopicReport.AT_MIN_ISR, at_min_isr_partitions),
        )
        if is_wanted
    ]
    if topics_with_overrides and reports:
        raise BadUsage("--topics-with-overrides lists topics: leave the options of partitions out")
    if check and not reports:
        raise BadUsage("--check needs an option that says which partitions are listed")
    if topic_id is not None and topics:
        raise BadUsage("name topics or say --topic-id, not both")
    given = settings()
    chosen = ChosenTopics(topics, is_regex, exclude_internal)
    found = read_topics_chosen(
        given, chosen, is_missing_refused=not if_exists, is_with_moves=not topics_with_overrides
    )
    if topic_id is not None:
        found = found._replace(topics=_with_id(found.topics, topic_id, if_exists=if_exists))
    if reports:
        rows = _in_reports(given, found, reports)
        given.renderer.rows(rows, _PARTITIONS)
        return ExitCode.FINDING if check and rows else ExitCode.OK
    described = found.topics if found.is_from_zookeeper else with_configs(given, found.topics)
    if topics_with_overrides:
        keys = _OVERRIDES_KEYS
        overriding = [{key: row[key] for key in keys} for row in described if row["configs"]]
        given.renderer.rows(overriding, _OVERRIDES)
        return ExitCode.OK
    is_one = topic_id is not None or (chosen.exact is not None and len(chosen.exact) == 1)
    if is_one and described:
        given.renderer.record(described[0], _NAMED)
    else:
        given.renderer.descriptions(described, _LIST)
    return ExitCode.OK


def _with_id(rows: list[TopicRow], topic_id: str, *, if_exists: bool) -> list[TopicRow]:
    found = [row for row in rows if row["topic_id"] == topic_id]
    if not found and not if_exists:
        raise Refused(f"there is no topic with the id {topic_id}; zkctl topic list shows all")
    return found


def _in_reports(
    given: Settings, found: TopicsRead, reports: Collection[TopicReport]
) -> list[dict[str, Any]]:
    min_isr: dict[str, int] = {}
    if any(report.needs_min_isr for report in reports):
        min_isr = _min_isr(given, found)
    return partition_rows(found.topics, found.live_brokers, min_isr, reports)


def _min_isr(given: Settings, found: TopicsRead) -> dict[str, int]:
    """``min.insync.replicas`` of each topic, from brokers, which also use server.properties.

    If they do not answer and the topics are from ZooKeeper: from znodes, with a warning.
    """
    from zkcontroller_cli.wire.requests import Deadline, run
    from zkcontroller_cli.wire.topic_state import min_in_sync_replicas

    names = [str(row["topic"]) for row in found.topics]
    try:
        deadline = Deadline(given.deadline_s)
        known = run(min_in_sync_replicas(given.bootstrap(), deadline, names))
    except CommandFailed as error:
        if not found.is_from_zookeeper:
            raise
        say(f"warning: {MIN_IN_SYNC} is read from ZooKeeper, not from server.properties: {error}")
        return _min_isr_in_znodes(given, found)
    hidden = len(names) - len(known)
    if hidden:
        say(f"warning: {MIN_IN_SYNC} of {hidden} topics is not shown: they are not listed by it")
    return known


def _min_isr_in_znodes(given: Settings, found: TopicsRead) -> dict[str, int]:
    from zkcontroller.zookeeper.znodes import ConfigZnode
    from zkcontroller_cli.znodes.session import open_zookeeper
    from zkcontroller_cli.znodes.topics import read_configs

    with open_zookeeper(given) as zookeeper:
        [of_all] = read_configs(zookeeper, [ConfigZnode.broker_path(None)])
    values = {
        str(row["topic"]): (row["configs"] or {}).get(MIN_IN_SYNC)
        or (of_all or {}).get(MIN_IN_SYNC, "1")
        for row in found.topics
    }
    return {topic: int(value) for topic, value in values.items() if value.isdecimal()}
