"""States, windows without a leader, unclean elections and invariants, from rows made by hand."""

from __future__ import annotations

from operator import attrgetter

import pytest
from pyspark.sql import SparkSession

from kafka_history.analyses.history import History
from kafka_history.rules.partition_states import State
from tests.support.event_rows import START_MS, Row, row
from tests.support.partition_rows import created, online, shrunk

from .rows import answers, elected, frame

pytestmark = [pytest.mark.history, pytest.mark.timeout(600)]

TP = ("orders", 0)


def died(at_ms: int, broker: int, live: str = "9") -> list[Row]:
    """A broker that stops writing, and the controller's view without it 6 s later."""
    return [
        row("server-life", 0, broker, "starting"),
        row("thread-life", at_ms, broker, "the last word"),
        row("ctl-brokers-changed", at_ms + 6_000, 9, values={"deleted": str(broker), "live": live}),
    ]


def test_a_window_begins_with_the_death_and_is_noticed_with_the_state_that_has_no_leader(
    spark: SparkSession,
) -> None:
    rows = frame(
        spark,
        elected(0, 9, 1),
        created(1_000, 9, 1, TP, [1]),
        died(10_000, 1),
        shrunk(16_100, 9, 1, TP, -1, 1, [1], 1, removed=1),
        online(40_000, 9, 1, TP, 1, 2, [1], 2),
    )

    windows = History(rows).leaderless

    assert answers(windows, "partition", "from_ms", "noticed_ms", "to_ms", "cause") == [
        (0, START_MS + 10_000, START_MS + 16_100, START_MS + 40_000, "broker 1 died")
    ]


def test_a_leader_that_moved_after_a_death_had_been_missing_since_the_death(
    spark: SparkSession,
) -> None:
    other = ("orders", 1)
    rows = frame(
        spark,
        elected(0, 9, 1),
        created(1_000, 9, 1, TP, [1, 2]),
        created(1_000, 9, 1, other, [2, 1]),  # its leader lives on
        died(10_000, 1),
        online(16_100, 9, 1, TP, 2, 1, [2], 1),
        online(16_100, 9, 1, other, 2, 1, [2], 1),
    )

    found = History(rows)

    assert answers(found.leaderless, "partition", "from_ms", "noticed_ms", "to_ms") == [
        (0, START_MS + 10_000, START_MS + 16_100, START_MS + 16_100)
    ]
    sums = answers(found.blast_radius, "leader_moves", "leaderless", "isr_shrinks")
    assert sums == [(1, 1, 2)]


def test_what_an_election_moves_is_no_effect_of_a_stop_that_begins_later(
    spark: SparkSession,
) -> None:
    other = ("orders", 1)
    rows = frame(
        spark,
        elected(0, 9, 1),
        row("server-life", 0, 1, "starting"),
        created(1_000, 9, 1, TP, [1, 2]),
        created(1_000, 9, 1, other, [1, 2]),
        row("elect-start", 20_000, 9, values={"partitions": "orders-0", "type": "PREFERRED",
                                             "trigger": "AdminClientTriggered"}),
        online(20_020, 9, 1, TP, 2, 1, [1, 2], 1, from_state="OnlinePartition"),
        row("server-life", 66_000, 1, "shutting down"),
        shrunk(66_100, 9, 1, TP, 2, 1, [2], 2, removed=1),
        online(66_100, 9, 1, other, 2, 1, [2], 1, from_state="OnlinePartition"),
        row("server-life", 66_300, 1, "shut down completed"),
    )  # fmt: skip

    found = History(rows)

    assert answers(found.blast_radius, "leader_moves", "leaderless", "isr_shrinks") == [(1, 0, 2)]
    assert [
        (each.act, each.partitions, each.says)
        for each in found.acts
        if each.act.endswith("election")
    ] == [("preferred election", 1, "An election of preferred leaders was ordered for 1 partition")]


def test_a_process_is_paused_if_zookeeper_is_unheard_for_longer_than_the_session_lasts(
    spark: SparkSession,
) -> None:
    def silence(at_ms: int, broker: int, elapsed_ms: int) -> list[Row]:
        return [
            row("zk-session", 100, broker, "Session establishment complete on server x, "
                "session id = 0x1, negotiated timeout = 6000"),
            row("zk-timeout", at_ms, broker, "Client session timed out, have not heard from "
                f"server in {elapsed_ms}ms for session id 0x1", elapsed_ms=elapsed_ms),
        ]  # fmt: skip

    rows = frame(
        spark,
        silence(30_000, 1, 12_000),
        silence(30_000, 2, 6_004),  # the server was not there: this is no pause
        silence(30_000, 3, 12_000),
        row("thread-life", 25_000, 3, "it wrote in between"),
    )

    assert answers(History(rows).pauses, "broker", "from_ms", "to_ms") == [
        (1, START_MS + 19_000, START_MS + 30_000)
    ]


def test_the_deletion_of_a_topic_opens_no_window_and_its_second_life_breaks_no_invariant(
    spark: SparkSession,
) -> None:
    rows = frame(
        spark,
        elected(0, 9, 1),
        created(1_000, 9, 1, TP, [1]),
        shrunk(2_000, 9, 1, TP, 1, 5, [1], 7, removed=2),
        row("delete-starting", 5_000, 9, values={"topics": "orders"}),
        shrunk(5_020, 9, 1, TP, -1, 6, [1], 8, removed=1),
        row("delete-completed", 5_100, 9, topic="orders"),
        created(9_000, 9, 1, TP, [2]),
    )

    history = History(rows)

    assert answers(history.leaderless, "topic") == []
    assert answers(history.violations, "rule") == []
    assert answers(history.deletions, "topic", "took_ms", "blocked_by") == [("orders", 100, None)]
    states = sorted(history.listed(history.states, State), key=attrgetter("incarnation", "number"))
    assert answers(states, "incarnation", "leader_epoch", "is_deleted") == [
        (1, 0, False), (1, 5, False), (1, 6, False), (1, None, True), (2, 0, False),
    ]  # fmt: skip
    assert answers(history.partitions_at(None), "leader", "zk_version") == [(2, 0)]
    assert answers(history.partitions_at(START_MS + 7_000), "leader") == []
    assert answers(history.partitions_at(START_MS + 3_000), "leader_epoch") == [5]


def test_a_storm_names_the_follower_that_is_common_to_it(spark: SparkSession) -> None:
    rows: list[Row | list[Row]] = [elected(0, 9, 1)]
    for number in range(25):
        tp = ("wide", number)
        rows.append(created(1_000, 9, 1, tp, [1 + number % 2, 3]))
        rows.append(
            row("ctl-isr-updated", 120_000 + number, 9, topic=tp[0], partition=tp[1],
                leader=1 + number % 2, leader_epoch=0, isr=[1 + number % 2], zk_version=1)
        )  # fmt: skip

    found = History(frame(spark, *rows))

    assert answers(found.isr_storms, "shrinks", "leaders", "common_follower") == [(25, 2, 3)]


def test_two_windows_of_time_are_compared(spark: SparkSession) -> None:
    rows = frame(
        spark,
        elected(0, 9, 1),
        created(1_000, 9, 1, TP, [1, 2]),
        online(20_000, 9, 1, TP, 2, 1, [2], 1),
        {**row("fetcher-marked-failed", 21_000, 1), "level": "WARN"},
    )
    both = (START_MS, START_MS + 10_000), (START_MS + 10_000, START_MS + 30_000)

    changes = dict(answers(History(rows).differences(both), "metric", "change"))

    assert changes["leader changes"] == 1
    assert changes["ISR shrinks"] == 1
    assert changes["WARN fetcher-marked-failed"] == 1
    assert changes["controller elections"] == -1


def test_answers_kept_in_a_directory_are_the_same_when_they_are_asked_again(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = tmp_path_factory.mktemp("answers")
    rows = frame(spark, elected(0, 9, 1), created(1_000, 9, 1, TP, [1, 2]))

    first = answers(History(rows, store).states, "topic", "leader", "isr")
    again = answers(History(rows.limit(0), store).states, "topic", "leader", "isr")

    assert first == again == [("orders", 1, [1, 2])]
