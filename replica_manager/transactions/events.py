"""Events and outputs of the transaction coordinator; requests are in another module.

In go :data:`~replica_manager.transactions.requests.Request` and events, one at a time, with the
time; out come outputs, to be performed in their order.  The events about
partitions are in :mod:`replica_manager.groups.events`; an election's epoch is the coordinator's.

Source: Kafka ``TransactionCoordinator`` (``onElection``, ``onResignation``),
``TransactionStateManager``, ``TransactionMarkerChannelManager``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from kio.schema.errors import ErrorCode

from replica_manager.groups.events import (
    Elected,
    Load,
    Loaded,
    LoadFailed,
    LoadFinished,
    LogLine,
    Resigned,
    Shutdown,
    Startup,
    Tick,
)
from replica_manager.groups.records import Record
from replica_manager.transactions.requests import Request, Result
from zkcontroller.model import TopicPartition

# ---------------------------------------------------------------------- in


@dataclass(frozen=True, slots=True)
class Appended:
    """The result of an :class:`Append`."""

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
    Startup
    | Shutdown
    | Tick
    | Elected
    | Resigned
    | Loaded
    | LoadFinished
    | LoadFailed
    | Appended
    | ProducerIdGiven
    | MarkersAnswered
)

Input: TypeAlias = Request | Event

# ---------------------------------------------------------------------- out


@dataclass(frozen=True, slots=True)
class Answer:
    """Send the response to that request; every request is answered once."""

    request_id: int
    result: Result


@dataclass(frozen=True, slots=True)
class Append:
    """Append one batch to a partition of ``__transaction_state``, as coordinator.

    CreateTime, uncompressed, acknowledged by every replica in sync.  The outcome must come back as
    :class:`Appended`, also when this broker does not lead the partition (NOT_LEADER_OR_FOLLOWER) or
    the time is over (REQUEST_TIMED_OUT).
    """

    append_id: int
    partition: int
    records: tuple[Record, ...]
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


Output: TypeAlias = Answer | Append | Load | NewProducerId | SendMarkers | LogLine | PartitionLoaded
