"""What else goes into the transaction coordinator, and what comes out of it.

In go :data:`~replica_manager.transactions.requests.Request` and the events below, one at a time,
with the time; out come the outputs below, to be performed in their order.

Source: Kafka ``TransactionCoordinator`` (``onElection``, ``onResignation``),
``TransactionStateManager``, ``TransactionMarkerChannelManager``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from kio.schema.errors import ErrorCode

from replica_manager.groups.events import (
    LoadedBatch,
    LogLine,
)
from replica_manager.groups.records import Record
from replica_manager.transactions.requests import Request, Result
from zkcontroller.model import TopicPartition

# ---------------------------------------------------------------------- in


@dataclass(frozen=True, slots=True)
class Startup:
    """The broker is ready: timeouts and expiry begin to count."""

    partition_count: int
    """Of ``__transaction_state``: those it has, else ``transaction.state.log.num.partitions``."""


@dataclass(frozen=True, slots=True)
class Shutdown:
    """The broker stops; every partition is given up."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Some time has passed: what is due is done."""


@dataclass(frozen=True, slots=True)
class Elected:
    """This broker leads a partition of ``__transaction_state`` now, and coordinates its ids.

    The leader epoch is the coordinator's epoch.
    """

    partition: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class Resigned:
    """This broker does not lead that partition any more, or the replica is deleted (no epoch)."""

    partition: int
    leader_epoch: int | None


@dataclass(frozen=True, slots=True)
class Loaded:
    """More of a partition that is being loaded, in the order of the log."""

    load_id: int
    batches: tuple[LoadedBatch, ...]


@dataclass(frozen=True, slots=True)
class LoadFinished:
    """The end of the log was reached (the log end offset, not the high watermark)."""

    load_id: int


@dataclass(frozen=True, slots=True)
class LoadFailed:
    """The log could not be read to its end."""

    load_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class Appended:
    """What became of an :class:`Append`."""

    append_id: int
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class ProducerIdGiven:
    """The answer to :class:`NewProducerId`: an id, or why there is none."""

    wish_id: int
    producer_id: int
    error: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True)
class MarkersAnswered:
    """What a broker made of :class:`SendMarkers`."""

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
    """Answer that request; every request is answered once."""

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
class Load:
    """Read that partition from log start to log end: Loaded …, then LoadFinished or LoadFailed.

    Whatever is told of a load that is not wanted any more is ignored.
    """

    partition: int
    load_id: int


@dataclass(frozen=True, slots=True)
class NewProducerId:
    """Get an id that no other producer has; the answer is :class:`ProducerIdGiven`."""

    wish_id: int


class Marker(NamedTuple):
    """How a producer's transaction ended, for partitions of one leader."""

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
    """How long it took to load a partition: for the metrics."""

    duration_ms: int


Output: TypeAlias = Answer | Append | Load | NewProducerId | SendMarkers | LogLine | PartitionLoaded
