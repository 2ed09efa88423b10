"""What was ordered, from events made by hand."""

from __future__ import annotations

from kafka_history.rules.acts import acts, effects
from kafka_history.rules.event import Event
from kafka_history.rules.reassignments import Reassignment
from kafka_history.rules.tenures import Tenure
from kafka_history.rules.topic_deletions import DeletedTopic
from tests.support.event_rows import START_MS, event

HELD = [Tenure(9, 1, START_MS, None, None, "open", None, None, True, "f", 1, None, None)]


def election(at_ms: int, partitions: str, broker: int = 9, **values: str) -> Event:
    return event("elect-start", at_ms, broker, values={"partitions": partitions, **values})


def told(*events: Event) -> list[str]:
    return [each.says for each in acts(events, HELD, [], [])]


def test_created_and_grown_topics_are_named() -> None:
    assert told(
        event("topics-changed", 0, 9, values={"added": "Set(a, b)"}),
        event("partitions-added", 1, 9, values={"assignment": "Map(a-1 -> x, a-2 -> x, b-1 -> x)"}),
    ) == [
        "Topic a was created", "Topic b was created",
        "Topic a got 2 more partitions", "Topic b got 1 more partitions",
    ]  # fmt: skip


def test_an_election_is_the_controllers_own_where_it_checked_the_balance_before() -> None:
    assert told(
        election(0, "a-0", trigger="AdminClientTriggered"),
        event("elect-auto", 9_000, 9),
        election(9_100, "[a,0],[a,1]"),  # 0.11 does not say what ordered it
        election(20_000, "a-1", type="UNCLEAN"),
        election(30_000, " "),
        election(40_000, "a-0", broker=8),  # deposed: it does not happen
    ) == [
        "An election of preferred leaders was ordered for 1 partition",
        "The controller balanced leaders: the preferred leaders of 2 partitions",
        "An unclean election was ordered for 1 partition",
    ]


def test_a_configuration_that_every_broker_applies_changed_once() -> None:
    def applied(at_ms: int, broker: int, config: str) -> Event:
        return event("config-applied", at_ms, broker, topic="a", values={"config": config})

    def updated(at_ms: int, path: str) -> Event:
        return event("config-updated", at_ms, 9, values={"path": path, "config": "Map(x -> 1)"})

    assert told(
        updated(0, "topics/a"), applied(100, 1, "Map(x -> 1)"), applied(150, 2, "Map(x -> 1)"),
        updated(60_000, "brokers/1"), applied(90_000, 1, "Map(x -> 1)"),  # started again
    ) == [
        "The configuration of topics/a became x -> 1",
        "The configuration of brokers/1 became x -> 1",
    ]  # fmt: skip


def test_what_a_broker_applies_while_it_starts_was_changed_before() -> None:
    def applied(at_ms: int, broker: int, config: str) -> Event:
        return event("config-applied", at_ms, broker, topic="a", values={"config": config})

    def server(at_ms: int, text: str) -> Event:
        return event("server-life", at_ms, 2, text)

    events = [
        applied(0, 1, "Map(x -> 1)"),
        server(50_000, "starting"), applied(50_100, 2, "Map()"), server(50_200, "started"),
        applied(50_300, 2, "Map()"),
        applied(60_000, 2, "Map(x -> 1)"),
    ]  # fmt: skip
    deleted = DeletedTopic("a", START_MS, START_MS + 40_000, None, 0, None, "f", 1, None, None)

    assert told(*events) == ["The configuration of topics/a became x -> 1"]
    # A topic that was created again has no configuration yet.
    assert [each.at_ms - START_MS for each in acts(events, HELD, [deleted], [])] == [
        0, 0, 60_000,
    ]  # fmt: skip


def test_what_an_act_may_change_ends_soon_after_it() -> None:
    move = Reassignment(
        "m", 3, 100, None, 200, 100, "completed", None, None, None, None, None, "f", 1, "f", 2
    )
    gone = DeletedTopic("d", 100, None, None, 0, None, "f", 1, None, None)

    found = list(effects([election(0, "a-b-7")], HELD, [gone], [move, move._replace(partition=4)]))

    assert [(each.topic, each.partition, each.to_ms) for each in found] == [
        ("d", None, 2**62), ("m", 3, 5_200), ("m", 4, 5_200), ("a-b", 7, START_MS + 10_000),
    ]  # fmt: skip
    assert [each.says for each in acts([], HELD, [gone], [move, move._replace(partition=4)])] == [
        "Topic d was deleted, which did not end",
        "A reassignment of 2 partitions of m began, and was completed",
    ]


def test_partitions_that_begin_to_move_one_after_the_other_are_one_order() -> None:
    move = Reassignment(
        "m", 0, 900, None, 2_000, 1_100, "completed", None, None, None, None, None, "f", 1, "f", 2
    )
    begun = [(0, 900), (1, 1_100), (2, 3_000)]

    found = acts([], HELD, [], [move._replace(partition=p, from_ms=ms) for p, ms in begun])

    assert [(each.at_ms, each.partitions) for each in found] == [(900, 2), (3_000, 1)]
