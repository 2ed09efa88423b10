"""Reads the topics that a command line chooses, from brokers or from ZooKeeper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from zkcontroller_cli.console.errors import CommandFailed, Refused
from zkcontroller_cli.console.options import Settings, say
from zkcontroller_cli.values.topic_names import ChosenTopics

if TYPE_CHECKING:
    from zkcontroller_cli.wire.admin import Ongoing

_MOVES_S: Final = 3.0
"""Seconds that the controller may take; without an answer topics are shown all the same."""

TopicRow = dict[str, Any]
"""A topic as ``topic describe`` shows it."""


class TopicsRead(NamedTuple):
    """Topics with their partitions, and the ids of the live brokers."""

    topics: list[TopicRow]
    live_brokers: frozenset[int]
    is_from_zookeeper: bool


def is_from_zookeeper(given: Settings) -> bool:
    """Whether to read ZooKeeper: it is named, and brokers are not or less explicitly.

    ``Origin`` has the order: an option is more explicit than a context.
    """
    zookeeper, bootstrap = given.find_zookeeper(), given.find_bootstrap()
    return zookeeper is not None and (bootstrap is None or zookeeper.origin < bootstrap.origin)


def read_topics_chosen(
    given: Settings, chosen: ChosenTopics, *, is_missing_refused: bool, is_with_moves: bool = False
) -> TopicsRead:
    """Read the chosen topics, in the order of the command line, from brokers or ZooKeeper.

    Refused if a name or pattern matches none and ``is_missing_refused``.  ``is_with_moves``: also
    read reassignments from the controller; from ZooKeeper they are always read.
    """
    if is_from_zookeeper(given):
        return _from_zookeeper(given, chosen, is_missing_refused=is_missing_refused)
    found = _from_brokers(given, chosen, is_missing_refused=is_missing_refused)
    return _with_moves(given, found) if is_with_moves else found


def _from_zookeeper(
    given: Settings, chosen: ChosenTopics, *, is_missing_refused: bool
) -> TopicsRead:
    from zkcontroller_cli.znodes.partitions import live_broker_ids
    from zkcontroller_cli.znodes.session import open_zookeeper
    from zkcontroller_cli.znodes.topics import topics_from_zookeeper

    with open_zookeeper(given) as zookeeper:
        exact = chosen.exact if is_missing_refused else None
        rows = topics_from_zookeeper(zookeeper, exact)
        live = frozenset(live_broker_ids(zookeeper))
    return TopicsRead(_chosen(rows, chosen, is_missing_refused=is_missing_refused), live, True)


def _from_brokers(given: Settings, chosen: ChosenTopics, *, is_missing_refused: bool) -> TopicsRead:
    from zkcontroller_cli.wire.requests import Deadline, run, say_what_is_hidden, visible_metadata
    from zkcontroller_cli.wire.topics import topics_from_metadata

    response = run(visible_metadata(given.bootstrap(), Deadline(given.deadline_s), chosen.exact))
    if not response.topics:
        say_what_is_hidden(given.bootstrap(), "topics")
    live = frozenset(int(broker.node_id) for broker in response.brokers)
    rows = topics_from_metadata(response)
    return TopicsRead(_chosen(rows, chosen, is_missing_refused=is_missing_refused), live, False)


def _chosen(
    rows: list[TopicRow], chosen: ChosenTopics, *, is_missing_refused: bool
) -> list[TopicRow]:
    by_name = {str(row["topic"]): row for row in rows}
    names = chosen.among(by_name, is_missing_refused=is_missing_refused)
    return [by_name[name] for name in names]


def _with_moves(given: Settings, found: TopicsRead) -> TopicsRead:
    """Add reassignments from the controller; they stay None if it does not show them.

    Before Kafka 2.4 it cannot.
    """
    from zkcontroller_cli.wire.admin import ongoing_reassignments
    from zkcontroller_cli.wire.requests import Deadline, run

    deadline = Deadline(min(_MOVES_S, given.deadline_s))
    try:
        ongoing = run(ongoing_reassignments(given.bootstrap(), deadline))
    except Refused:  # an older Kafka, or no right to ask
        return found
    except CommandFailed as error:
        say(f"warning: what is being moved is not known: {error}")
        return found
    moves = {(each.topic, each.partition): each for each in ongoing}
    return found._replace(topics=[_topic_with_moves(row, moves) for row in found.topics])


def _topic_with_moves(row: TopicRow, moves: dict[tuple[str, int], Ongoing]) -> TopicRow:
    partitions = []
    for each in row["partitions"]:
        move = moves.get((row["topic"], each["partition"]))
        # A move may have ended between the two requests.
        is_under_way = move is not None and not set(each["replicas"]).isdisjoint(
            {*move.adding_replicas, *move.removing_replicas}
        )
        moving = (
            {
                "adding_replicas": list(move.adding_replicas),
                "removing_replicas": list(move.removing_replicas),
            }
            if move is not None and is_under_way
            else {"adding_replicas": [], "removing_replicas": []}
        )
        partitions.append({**each, **moving})
    factor = row["replication_factor"]
    if partitions:
        factor = len(partitions[0]["replicas"]) - len(partitions[0]["adding_replicas"])
    return {**row, "replication_factor": factor, "partitions": partitions}


def with_configs(given: Settings, rows: list[TopicRow]) -> list[TopicRow]:
    """The topics with the configuration set on them; None if a broker does not show it."""
    from zkcontroller_cli.wire.admin import configs_set_on
    from zkcontroller_cli.wire.requests import Deadline, run

    names = [str(row["topic"]) for row in rows]
    if not names:
        return rows
    configs = run(configs_set_on(given.bootstrap(), Deadline(given.deadline_s), names))
    return [{**row, "configs": configs.get(row["topic"])} for row in rows]
