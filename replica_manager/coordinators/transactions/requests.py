"""Requests to the transaction coordinator and their results, independent of versions.

Every request carries the ``request_id`` under which its answer will come, exactly once.

Source: Kafka ``TransactionCoordinator`` (its ``handle…`` methods and their results).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from kio.schema.errors import ErrorCode

from kafka_common.model import TopicPartition
from replica_manager.coordinators.transactions.transaction import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

ANY_DURATION: Final = -1


class ProducerIdAndEpoch(NamedTuple):
    """The producer id and epoch that a producer sends (KIP-360)."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class InitProducerId:
    """InitProducerId (22) with a transactional id."""

    request_id: int
    transactional_id: str
    timeout_ms: int
    expected: ProducerIdAndEpoch | None = None
    """From version 3 on a producer that goes on after an error says what it was."""


@dataclass(frozen=True, slots=True)
class InitProducerIdResult:
    """The answer to InitProducerId."""

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """AddPartitionsToTxn (24), and AddOffsetsToTxn (25) for a partition of offsets."""

    request_id: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class VerifyPartitions:
    """AddPartitionsToTxn (24) of a broker that verifies partitions and adds none."""

    request_id: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """The answer to VerifyPartitions."""

    errors: Mapping[TopicPartition, ErrorCode]


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """EndTxn (26)."""

    request_id: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool


@dataclass(frozen=True, slots=True)
class ErrorResult:
    """The answer to AddPartitions and EndTransaction: one error for the request."""

    error: ErrorCode


@dataclass(frozen=True, slots=True)
class DescribeTransactions:
    """DescribeTransactions (65)."""

    request_id: int
    transactional_ids: tuple[str, ...]


class DescribedTransaction(NamedTuple):
    """A transactional id in DescribeTransactions."""

    transactional_id: str
    error: ErrorCode
    producer_id: int = 0
    producer_epoch: int = 0
    state: str = ""
    timeout_ms: int = 0
    start_ms: int = 0
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeTransactionsResult:
    """The answer to DescribeTransactions, in the order of the request."""

    transactions: tuple[DescribedTransaction, ...]


@dataclass(frozen=True, slots=True)
class ListTransactions:
    """ListTransactions (66); an empty filter lets everything pass."""

    request_id: int
    states: tuple[str, ...] = ()
    producer_ids: tuple[int, ...] = ()
    longer_than_ms: int = ANY_DURATION
    """Only those that were begun before that time; from version 1 on."""


class ListedTransaction(NamedTuple):
    """A transactional id in ListTransactions."""

    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class ListTransactionsResult:
    """The answer to ListTransactions."""

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
