"""Which open transactions hang."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

transactions: Any = import_module("zkcontroller_cli.coordinators.transactions")
wire: Any = import_module("zkcontroller_cli.wire.transactions")
NamedPartition: Any = import_module("zkcontroller_cli.values.moves").NamedPartition

NOW_MS = 1_700_000_000_000


def producer(partition: int, producer_id: int, start: int | None = 0, age_ms: int = 0) -> Any:
    return wire.Producer("orders", partition, producer_id, 0, -1, 0, NOW_MS - age_ms, start)


def transaction(name: str, *partitions: int) -> Any:
    waits_for = tuple(NamedPartition("orders", partition) for partition in partitions)
    return wire.TransactionDescription(name, None, 1, 0, "Ongoing", 60_000, NOW_MS, waits_for)


def test_only_transactions_that_are_old_enough_are_candidates() -> None:
    old, young, ended = producer(0, 1, 5, 901), producer(0, 2, 6, 900), producer(0, 3, None, 9999)

    assert transactions.open_longer_than([old, young, ended], 900, NOW_MS) == [old]


@given(
    st.sets(st.tuples(st.integers(0, 3), st.integers(0, 3))),
    st.dictionaries(st.integers(0, 3), st.sampled_from("abcd"), max_size=4),
    st.dictionaries(st.sampled_from("abcd"), st.none() | st.sets(st.integers(0, 3))),
)
def test_a_transaction_hangs_unless_a_coordinator_waits_for_its_partition(
    open_ones: set[tuple[int, int]], ids: dict[int, str], described: dict[str, set[int] | None]
) -> None:
    candidates = [producer(partition, producer_id) for partition, producer_id in sorted(open_ones)]
    by_name = {
        name: None if partitions is None else transaction(name, *sorted(partitions))
        for name, partitions in described.items()
    }

    found = transactions.hanging(candidates[::-1], ids, by_name)

    expected = {
        (partition, producer_id)
        for partition, producer_id in open_ones
        if partition not in (described.get(ids.get(producer_id, "none")) or ())
    }
    assert [(each.producer.partition, each.producer.producer_id) for each in found] == sorted(
        expected
    )
    assert all(each.transactional_id == ids.get(each.producer.producer_id) for each in found)
