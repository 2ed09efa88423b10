"""Unclean elections: what proves one, and what it cost."""

from __future__ import annotations

from kafka_history.rules.history import EventHistory
from kafka_history.rules.partition_states import partition_states
from kafka_history.rules.unclean_elections import UncleanElection, unclean_elections
from tests.support.event_rows import Row, row
from tests.support.partition_rows import created, events_of, online, shrunk

TP = ("orders", 0)


def of_partition(epoch: int, version: int, *said: Row, recovering: bool = False,
                 isr: tuple[int, ...] = (2,)) -> list[UncleanElection]:  # fmt: skip
    """Replica 2 was taken out of the ISR and is elected at 3 s."""
    states = partition_states(
        events_of(
            created(1_000, 9, 1, TP, [1, 2]),
            shrunk(2_000, 9, 1, TP, 1, 1, [1], 1, removed=2),
            online(3_000, 9, 1, TP, 2, epoch, isr, version, recovering=recovering),
        ),
        {}, {},
    )  # fmt: skip
    return list(unclean_elections(states, events_of(*said)))


def test_a_leader_from_outside_the_isr_is_unclean_but_a_gap_in_the_versions_proves_nothing() -> (
    None
):
    (next_write,) = of_partition(2, 2)
    (no_one_joined,) = of_partition(3, 3)  # version 2 raised the epoch: no replica joined

    assert (next_write.leader, next_write.last_isr) == (2, [1])
    assert no_one_joined.proof == "leader was not in sync"
    assert of_partition(3, 4) == []  # in version 2 or 3 a replica may have joined
    assert of_partition(2, 2, isr=(2, 3)) == []
    assert of_partition(3, 4, recovering=True)[0].proof == "RECOVERING"


def test_a_line_that_says_so_counts_once_and_for_itself() -> None:
    said = row("election-unclean", 3_001, 9, topic=TP[0], partition=TP[1], leader=2)

    assert len(of_partition(2, 2, said)) == 1
    assert [each.proof for each in of_partition(3, 4, said)] == ["the log says so"]


def test_what_a_returning_replica_truncates_is_lost() -> None:
    def own(kind: str, at_ms: int, broker: int, offset: int) -> Row:
        return row(kind, at_ms, broker, topic=TP[0], partition=TP[1], offset=offset)

    loaded = row(
        "log-load-completed", 9_000, 1, "Completed load of Log(topic=orders, logEndOffset=120)",
        topic=TP[0], partition=TP[1],
    )  # fmt: skip
    (found,) = of_partition(
        2, 2, own("leader-starts", 3_010, 2, 100), own("log-truncating", 9_500, 1, 100), loaded,
        own("log-truncating", 9_000, 2, 5),
    )  # fmt: skip

    assert (found.leader_offset, found.lost_records) == (100, 20)
    assert (found.lost_from, found.lost_to, found.truncated_by) == (100, 120, 1)


def test_the_line_of_a_loaded_log_names_its_partition_in_words() -> None:
    said = "Completed load of Log(dir=/d/orders-0, topic=orders, partition=0, logEndOffset=120)"
    history = EventHistory(
        events_of(
            row("ctl-elected", 0, 9, controller_id=9, controller_epoch=1),
            created(1_000, 9, 1, TP, [1, 2]),
            shrunk(2_000, 9, 1, TP, 1, 1, [1], 1, removed=2),
            online(3_000, 9, 1, TP, 2, 2, (2,), 2),
            row("log-load-completed", 9_000, 1, f"{said} with 1 segments"),
            row("log-truncating", 9_500, 1, topic=TP[0], partition=TP[1], offset=100),
        )
    )

    assert [each.lost_records for each in history.unclean_elections] == [20]
