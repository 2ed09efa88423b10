"""Windows without a leader: where they begin, end, and what opened none."""

from __future__ import annotations

from collections.abc import Sequence

from kafka_history.rules.dead_leaders import Window
from kafka_history.rules.departures import Departure
from kafka_history.rules.leaderless import DELETION_KINDS, KINDS, deletions_begun, leaderless
from kafka_history.rules.partition_states import STATE_KINDS, partition_states, topic_ends
from tests.support.event_rows import START_MS, Row, row
from tests.support.partition_rows import created, events_of, online, shrunk

TP = ("orders", 0)


def gone(broker: int, at_ms: int, how: str, *, since_ms: int = 0, until_ms: int | None = None,
         back_ms: int | None = None) -> Departure:  # fmt: skip
    """A departure; times count from the start."""
    until, back = (None if ms is None else START_MS + ms for ms in (until_ms, back_ms))
    at = START_MS + at_ms
    return Departure(broker, at, at, how, START_MS + since_ms, until, back, "gone.log", 1)


def windows(rows: Sequence[Row | list[Row]], *departures: Departure) -> list[Window]:
    """Of the one partition that the rows are about, by time."""
    events = events_of(*rows)
    its = [each for each in events if each.partition is not None]
    told = [each for each in its if each.kind in STATE_KINDS]
    states = list(partition_states(told, {}, topic_ends(events, {})))
    begun = deletions_begun(each for each in events if each.kind in DELETION_KINDS)
    said = [each for each in its if each.kind in KINDS]
    found = leaderless(states, said, departures, begun)
    return sorted(found, key=lambda each: each.from_ms)


def from_to(found: Sequence[Window]) -> list[tuple[int | None, ...]]:
    """Begin, notice and end, in ms since the start."""
    return [
        tuple(ms and ms - START_MS for ms in (each.from_ms, each.noticed_ms, each.to_ms))
        for each in found
    ]


def test_two_deaths_within_a_session_timeout_are_one_window_to_the_third_leader() -> None:
    found = windows(
        [
            created(1_000, 9, 1, TP, [1, 2, 3]),
            # The controller does not know yet that broker 2 is dead, too.
            online(16_100, 9, 1, TP, 2, 1, [2, 3], 1),
            online(16_900, 9, 1, TP, 3, 2, [3], 2),
        ],
        gone(1, 10_000, "killed", until_ms=16_000),
        gone(2, 10_600, "killed", until_ms=16_600),
    )

    assert from_to(found) == [(10_000, 16_100, 16_900)]
    assert (found[0].cause, found[0].next_leader) == ("broker 1 died", 3)


def test_a_dead_leader_leads_no_more_when_another_replica_is_taken_out_first() -> None:
    found = windows(
        [
            created(1_000, 9, 1, TP, [1, 2, 3]),
            shrunk(16_010, 9, 1, TP, 1, 1, [1, 3], 1, removed=2),
            shrunk(16_020, 9, 1, TP, -1, 2, [3], 2, removed=1),
            online(16_030, 9, 1, TP, 3, 3, [3], 3),
        ],
        gone(1, 10_000, "killed", until_ms=16_000),
    )

    assert from_to(found) == [(10_000, 16_010, 16_030)]


def test_a_life_that_began_later_did_not_cause_the_window_before() -> None:
    found = windows(
        [
            created(1_000, 9, 1, TP, [1]),
            shrunk(16_100, 9, 1, TP, -1, 1, [1], 1, removed=1),
            online(17_500, 9, 1, TP, 1, 2, [1], 2),
        ],
        # It was killed 6 s before, started again, and stopped in order after the window began.
        gone(1, 10_000, "killed", until_ms=16_000, back_ms=17_000),
        gone(1, 18_050, "clean_shutdown", since_ms=17_000),
    )

    # The stop ended its last leadership.
    assert from_to(found) == [(10_000, 16_100, 17_500), (18_050, None, None)]
    assert [each.cause for each in found] == ["broker 1 died", "broker 1 was stopped"]


def test_a_leader_that_came_back_leads_again_when_it_says_so() -> None:
    found = windows(
        [
            created(1_000, 9, 1, TP, [1]),
            row("leader-starts", 14_500, 1, topic=TP[0], partition=TP[1]),
        ],
        gone(1, 10_000, "paused", back_ms=14_000),
    )

    assert from_to(found) == [(10_000, None, 14_500)]
    assert (found[0].next_leader, found[0].file) == (1, "gone.log")


def test_an_election_that_follows_an_offline_moment_at_once_ends_no_window() -> None:
    offline = row("partition-state", 16_000, 9, topic=TP[0], partition=TP[1],
                  from_state="OnlinePartition", to_state="OfflinePartition")  # fmt: skip
    before = created(1_000, 9, 1, TP, [1, 2])

    assert windows([before, offline, online(16_030, 9, 1, TP, 2, 1, [2], 1)]) == []
    late = windows([before, offline, online(18_000, 9, 1, TP, 2, 1, [2], 1)])
    assert from_to(late) == [(16_000, 16_000, 18_000)]
    assert late[0].cause == "broker 1 left, unknown how"


def test_the_deletion_of_a_topic_opens_no_window() -> None:
    deletion = [
        row("delete-starting", 5_000, 9, values={"topics": "orders"}),
        shrunk(5_020, 9, 1, TP, -1, 6, [1], 8, removed=1),
        row("delete-completed", 7_100, 9, topic="orders"),
    ]

    assert windows([created(1_000, 9, 1, TP, [1]), *deletion]) == []
    assert from_to(windows([created(1_000, 9, 1, TP, [1]), *deletion[1:]])) == [
        (5_020, 5_020, 7_100)
    ]


def test_a_deletion_that_waits_for_a_dead_broker_opens_no_window_either() -> None:
    deletion = [
        row("delete-starting", 5_000, 9, values={"topics": "orders"}),
        shrunk(5_020, 9, 1, TP, -1, 6, [1], 8, removed=1),
    ]
    again: list[Row] = [
        row("delete-completed", 7_100, 9, topic="orders"),
        *created(8_000, 9, 1, TP, [1]),
        shrunk(9_000, 9, 1, TP, -1, 1, [1], 1, removed=1),
    ]

    assert windows([created(1_000, 9, 1, TP, [1]), *deletion]) == []
    # What has the name now was created after that deletion.
    assert from_to(windows([created(1_000, 9, 1, TP, [1]), *deletion, *again])) == [
        (9_000, 9_000, None)
    ]


def test_a_window_that_a_death_opened_right_before_a_deletion_lasts_until_that_ends() -> None:
    rows: list[Row] = [
        *created(1_000, 9, 1, TP, [1]),
        shrunk(4_000, 9, 1, TP, -1, 1, [1], 1, removed=1),
        row("delete-starting", 5_000, 9, values={"topics": "orders"}),
        row("delete-completed", 9_000, 9, topic="orders"),
    ]

    found = windows(rows, gone(1, 2_000, "killed", until_ms=4_000))

    assert from_to(found) == [(2_000, 4_000, 9_000)]


def test_a_broker_that_was_started_again_at_once_leads_no_more_when_its_session_ends() -> None:
    found = windows(
        [created(1_000, 9, 1, TP, [1, 2]), online(14_050, 9, 1, TP, 2, 1, [2], 1)],
        gone(1, 10_000, "killed", until_ms=14_000, back_ms=14_000),
    )

    assert from_to(found) == [(10_000, 14_050, 14_050)]
    assert found[0].next_leader == 2
