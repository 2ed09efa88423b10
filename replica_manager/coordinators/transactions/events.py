"""Events and outputs of the transaction coordinator; requests are in another module.

The coordinator takes one request (:mod:`.requests`) or event at a time, with the current time, and
returns outputs, which must be performed in their order.  The events about partitions are those of
the group coordinator.  The leader epoch of an election is the coordinator epoch.

Source: Kafka ``TransactionCoordinator`` (``onElection``, ``onResignation``),
``TransactionStateManager``, ``TransactionMarkerChannelManager``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from kio.schema.errors import ErrorCode
from msgspec import Struct

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

# ---------------------------------------------------------------------- events


class TransactionRecordsAppended(Struct, frozen=True):
    """The result of an :class:`AppendTransactionRecords`."""

    append_id: int
    error: ErrorCode


class ProducerIdGiven(Struct, frozen=True):
    """The result of a :class:`NewProducerId`: a producer id, or -1 and an error."""

    wish_id: int
    producer_id: int
    error: ErrorCode = ErrorCode.none


class MarkersResponse(Struct, frozen=True):
    """A broker's response to :class:`SendMarkers`."""

    send_id: int
    errors: Mapping[int, Mapping[TopicPartition, ErrorCode]] | None
    """The error of each partition, by producer id; None if there was no response."""


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
    | MarkersResponse
)

Input: TypeAlias = Request | Event

# ---------------------------------------------------------------------- outputs


class TransactionResponse(Struct, frozen=True):
    """The response to the request with this ``request_id``; each request gets exactly one."""

    request_id: int
    result: Result


class AppendTransactionRecords(Struct, frozen=True):
    """Append one batch to a partition of ``__transaction_state``, as coordinator.

    The timestamp type is CreateTime, without compression, with acks=all.  The result must come back
    as :class:`TransactionRecordsAppended`, even if this broker is not the leader
    (NOT_LEADER_OR_FOLLOWER) or the append timed out (REQUEST_TIMED_OUT).
    """

    append_id: int
    partition: int
    records: tuple[SimpleRecord, ...]
    timestamp_ms: int
    timeout_ms: int


class NewProducerId(Struct, frozen=True):
    """Get a new producer id; the result must come back as :class:`ProducerIdGiven`."""

    wish_id: int


class Marker(NamedTuple):
    """A commit or abort marker of a transaction, for partitions with the same leader."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    partitions: tuple[TopicPartition, ...]


class SendMarkers(Struct, frozen=True):
    """Send WriteTxnMarkers to a broker; the result must come back as :class:`MarkersResponse`.

    Only one such request to a broker is in flight at a time.
    """

    send_id: int
    broker_id: int
    markers: tuple[Marker, ...]


class PartitionLoaded(Struct, frozen=True):
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
