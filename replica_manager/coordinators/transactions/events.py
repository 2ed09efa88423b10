"""Events and outputs of the transaction coordinator; requests are in another module.

A request (:mod:`.requests`) or an event goes in, one at a time, with the time; outputs come out, to
be performed in their order.  The events about partitions are those of the group coordinator; an
election's epoch is the coordinator's.

Source: Kafka ``TransactionCoordinator`` (``onElection``, ``onResignation``),
``TransactionStateManager``, ``TransactionMarkerChannelManager``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from kio.schema.errors import ErrorCode

from kafka_common.model import TopicPartition
from replica_manager.coordinators.groups.events import (
    CoordinatorLogLine,
    CoordinatorStartup,
    Elected,
    Load,
    Loaded,
    LoadFailed,
    LoadFinished,
    Resigned,
    Shutdown,
    Tick,
)
from replica_manager.coordinators.groups.records import SimpleRecord
from replica_manager.coordinators.transactions.requests import Request, Result

# ---------------------------------------------------------------------- in


@dataclass(frozen=True, slots=True)
class TransactionRecordsAppended:
    """The result of an :class:`AppendTransactionRecords`."""

    append_id: int
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class ProducerIdGiven:
    """The answer to :class:`NewProducerId`: an id, or the error."""

    wish_id: int
    producer_id: int
    error: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True)
class MarkersAnswered:
    """A broker's response to :class:`SendMarkers`."""

    send_id: int
    errors: Mapping[int, Mapping[TopicPartition, ErrorCode]] | None
    """By producer id; None if there was no answer."""


Event: TypeAlias = (
    CoordinatorStartup
    | Shutdown
    | Tick
    | Elected
    | Resigned
    | Loaded
    | LoadFinished
    | LoadFailed
    | TransactionRecordsAppended
    | ProducerIdGiven
    | MarkersAnswered
)

Input: TypeAlias = Request | Event

# ---------------------------------------------------------------------- out


@dataclass(frozen=True, slots=True)
class TransactionResponse:
    """Send the response to that request; every request is answered once."""

    request_id: int
    result: Result


@dataclass(frozen=True, slots=True)
class AppendTransactionRecords:
    """Append one batch to a partition of ``__transaction_state``, as coordinator.

    CreateTime, uncompressed, acknowledged by every replica in sync.  The outcome must come back as
    :class:`TransactionRecordsAppended`, also when this broker does not lead the partition
    (NOT_LEADER_OR_FOLLOWER) or the time is over (REQUEST_TIMED_OUT).
    """

    append_id: int
    partition: int
    records: tuple[SimpleRecord, ...]
    timestamp_ms: int
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class NewProducerId:
    """Get a new producer id; the answer is :class:`ProducerIdGiven`."""

    wish_id: int


class Marker(NamedTuple):
    """The end of a producer's transaction, for partitions of one leader."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class SendMarkers:
    """Send WriteTxnMarkers to that broker; its answer must come back as :class:`MarkersAnswered`.

    There is one such request to a broker at a time.
    """

    send_id: int
    broker_id: int
    markers: tuple[Marker, ...]


@dataclass(frozen=True, slots=True)
class PartitionLoaded:
    """The time it took to load a partition, for the metrics."""

    duration_ms: int


Output: TypeAlias = (
    TransactionResponse
    | AppendTransactionRecords
    | Load
    | NewProducerId
    | SendMarkers
    | CoordinatorLogLine
    | PartitionLoaded
)
