"""Too few in-sync replicas: only where the logs say how many are needed."""

from __future__ import annotations

from kafka_history.rules.min_isr import UnderMinIsr, by_topic, needs, under_min_isr
from kafka_history.rules.partition_states import partition_states
from tests.support.event_rows import START_MS, Row, row
from tests.support.partition_rows import created, events_of, online, shrunk

TP = ("orders", 0)


def under(*told: Row) -> list[UnderMinIsr]:
    """Of a partition whose follower was away from 2 s to 5 s, its leader from 4 s on."""
    states = partition_states(
        events_of(
            created(1_000, 9, 1, TP, [1, 2]),
            shrunk(2_000, 9, 1, TP, 1, 1, [1], 1, removed=2),
            shrunk(4_000, 9, 1, TP, -1, 2, [1], 2, removed=1),
            online(5_000, 9, 1, TP, 1, 3, [1, 2], 3),
        ),
        {}, {},
    )  # fmt: skip
    return list(under_min_isr(states, by_topic(needs(events_of(*told)))))


def setting(at_ms: int, count: int) -> Row:
    return row("config-applied", at_ms, 1, f"{{min.insync.replicas={count}}}",
               values={"path": "topics/orders"})  # fmt: skip


def test_a_setting_counts_from_its_change_to_the_next_one() -> None:
    (found,) = under(setting(900, 2))
    (lowered,) = under(setting(900, 2), setting(3_000, 1))
    (raised,) = under(setting(900, 1), setting(3_000, 2))

    assert (found.from_ms, found.to_ms) == (START_MS + 2_000, START_MS + 4_000)
    assert (found.isr, found.min_isr, found.refused) == ([1], 2, 0)
    assert (lowered.from_ms, lowered.to_ms) == (START_MS + 2_000, START_MS + 3_000)
    assert (raised.from_ms, raised.to_ms) == (START_MS + 3_000, START_MS + 4_000)
    assert under(setting(6_000, 2)) == under() == []


def test_a_refused_write_proves_what_held_before_it_too() -> None:
    refusal = row(
        "replica-manager-error", 6_000, 1, "Error processing append operation on partition",
        exception_message="The size of the current ISR Set(1) is insufficient to satisfy the "
        "min.isr requirement of 2 for partition orders-0",
    )  # fmt: skip

    (found,) = under(refusal)
    (refused,) = under(refusal | {"time_ms": START_MS + 3_000})

    assert (found.min_isr, found.refused) == (2, 0)
    assert (refused.min_isr, refused.refused) == (2, 1)


def test_a_setting_ends_when_it_is_taken_back_or_its_topic_is_deleted() -> None:
    taken_back = row("config-applied", 3_000, 1, "{}", values={"path": "topics/orders"})
    deleted = row("delete-completed", 3_000, 9, topic="orders")
    made_again = row("log-created", 3_500, 1, "with properties {min.insync.replicas=2}",
                     topic="orders")  # fmt: skip

    for end in (taken_back, deleted):
        (found,) = under(setting(900, 2), end)
        assert (found.from_ms, found.to_ms) == (START_MS + 2_000, START_MS + 3_000)
    # What a creation says held when the topic was there.
    (found,) = under(setting(900, 2), deleted, made_again)
    assert (found.from_ms, found.to_ms) == (START_MS + 2_000, START_MS + 4_000)
