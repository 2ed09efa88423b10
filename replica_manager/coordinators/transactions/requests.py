"""Requests to the transaction coordinator and their results, independent of versions.

Every request has a ``request_id``; exactly one response has the same id.

Source: Kafka ``TransactionCoordinator`` (its ``handle…`` methods and their results).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from kio.schema.errors import ErrorCode
from msgspec import Struct

from kafka_common.model import TopicPartition
from replica_manager.coordinators.transactions.transaction import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

ANY_DURATION: Final = -1


class ProducerIdAndEpoch(NamedTuple):
    """The producer id and epoch that a producer sends (KIP-360)."""

    producer_id: int
    producer_epoch: int


class InitProducerId(Struct, frozen=True):
    """An InitProducerId request (API key 22) with a transactional id."""

    request_id: int
    transactional_id: str
    timeout_ms: int
    expected: ProducerIdAndEpoch | None = None
    """What a producer that continues after an error sends, from version 3 on; otherwise None."""


class InitProducerIdResult(Struct, frozen=True):
    """The response to InitProducerId."""

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class AddPartitions(Struct, frozen=True):
    """An AddPartitionsToTxn request (API key 24), or an AddOffsetsToTxn request (25).

    For the latter, the partition is the group's partition of ``__consumer_offsets``.
    """

    request_id: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]


class VerifyPartitions(Struct, frozen=True):
    """An AddPartitionsToTxn request (API key 24) of a broker that only verifies partitions."""

    request_id: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]


class VerifyResult(Struct, frozen=True):
    """The response to VerifyPartitions: an error per partition."""

    errors: Mapping[TopicPartition, ErrorCode]


class EndTransaction(Struct, frozen=True):
    """An EndTxn request (API key 26)."""

    request_id: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool


class ErrorResult(Struct, frozen=True):
    """The response to AddPartitions and EndTransaction: one error for the whole request."""

    error: ErrorCode


class DescribeTransactions(Struct, frozen=True):
    """A DescribeTransactions request (API key 65)."""

    request_id: int
    transactional_ids: tuple[str, ...]


class DescribedTransaction(NamedTuple):
    """A transactional id in a DescribeTransactions response."""

    transactional_id: str
    error: ErrorCode
    producer_id: int = 0
    producer_epoch: int = 0
    state: str = ""
    timeout_ms: int = 0
    start_ms: int = 0
    partitions: tuple[TopicPartition, ...] = ()


class DescribeTransactionsResult(Struct, frozen=True):
    """The response to DescribeTransactions, in the order of the request."""

    transactions: tuple[DescribedTransaction, ...]


class ListTransactions(Struct, frozen=True):
    """A ListTransactions request (API key 66); an empty filter selects all transactional ids."""

    request_id: int
    states: tuple[str, ...] = ()
    producer_ids: tuple[int, ...] = ()
    longer_than_ms: int = ANY_DURATION
    """Select transactions that are open for longer than this; -1 selects all."""


class ListedTransaction(NamedTuple):
    """A transactional id in a ListTransactions response."""

    transactional_id: str
    producer_id: int
    state: str


class ListTransactionsResult(Struct, frozen=True):
    """The response to ListTransactions; ``unknown_states`` are the unknown states requested."""

    error: ErrorCode
    transactions: tuple[ListedTransaction, ...] = ()
    unknown_states: tuple[str, ...] = ()


Request: TypeAlias = (
    InitProducerId
    | AddPartitions
    | VerifyPartitions
    | EndTransaction
    | DescribeTransactions
    | ListTransactions
)

Result: TypeAlias = (
    InitProducerIdResult
    | ErrorResult
    | VerifyResult
    | DescribeTransactionsResult
    | ListTransactionsResult
)
