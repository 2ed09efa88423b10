"""Finds hanging transactions: pure.

A transaction hangs if the partition's leader waits for a marker that no coordinator will write.
Source: Kafka ``TransactionsCommand.FindHangingTransactionsCommand``, KIP-664.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from zkcontroller_cli.values.moves import NamedPartition

if TYPE_CHECKING:
    from zkcontroller_cli.wire.transactions import Producer, TransactionDescription


class Hanging(NamedTuple):
    """An open transaction that no coordinator will end; its transactional id, None if not known."""

    producer: Producer
    transactional_id: str | None


def open_longer_than(producers: Sequence[Producer], max_age_ms: int, now_ms: int) -> list[Producer]:
    """The producers in a transaction whose last record is older than ``max_age_ms``."""
    return [
        each
        for each in producers
        if each.start_offset is not None and now_ms - each.last_record_at_ms > max_age_ms
    ]


def hanging(
    candidates: Sequence[Producer],
    ids: Mapping[int, str],
    transactions: Mapping[str, TransactionDescription | None],
) -> list[Hanging]:
    """The candidates for which no coordinator will write a marker, sorted by partition.

    ``ids``: the transactional id of each producer id that a coordinator lists.  A partition in its
    coordinator's description still gets a marker, so its transaction does not hang.
    """
    found = []
    for each in candidates:
        name = ids.get(each.producer_id)
        transaction = None if name is None else transactions.get(name)
        waits_for = () if transaction is None else transaction.partitions
        if NamedPartition(each.topic, each.partition) not in waits_for:
            found.append(Hanging(each, name))
    return sorted(found, key=lambda h: (h.producer.topic, h.producer.partition, h.producer))
