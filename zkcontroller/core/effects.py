"""Everything the core may ask its driver to do, as values.

There are two kinds, which the driver gets in two ways:

* **Questions** are *yielded* by a :data:`Procedure`, because the next decision needs the result:
  the requests of :mod:`zkcontroller.zookeeper.requests`, :class:`RegisterBrokerZnode` and
  :class:`Pause`.
* **Effects** have no result.  Pure code appends them to the outbox (``Outbox.append``) in the
  order in which they must happen; the driver of the procedure performs the outbox before it
  performs the next question, and once more when the procedure ends.  So an effect never overtakes
  a write that precedes it.

The driver does this, in order, for each event: (1) ``procedure = controller.handle(event,
now_ms)``; (2) advance it; (3) perform and clear ``controller.outbox``; (4) perform the question it
yielded and send the result in, or throw ControllerMoved / SessionExpired in; repeat from 2 until
StopIteration, then 3.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar
from uuid import UUID

from kio.schema.errors import ErrorCode
from msgspec import Struct

from kafka_common.model import Broker, LeaderAndIsr, ReplicaAssignment, TopicPartition
from zkcontroller.core.events import Event
from zkcontroller.state_changes.record import StateChange
from zkcontroller.zookeeper.requests import ZkRequest

T = TypeVar("T")


class RegisterBrokerZnode(Struct, frozen=True):
    """Register this broker in the new session.  Result: its new broker epoch (int)."""


class Pause(Struct, frozen=True):
    """Wait ``delay_ms`` because ZooKeeper was too busy to reply.  Result: None."""

    delay_ms: int


Question: TypeAlias = ZkRequest | RegisterBrokerZnode | Pause


class AddChannel(Struct, frozen=True):
    """Open a channel to a broker: a queue, one connection, one request in flight."""

    broker: Broker


class RemoveChannel(Struct, frozen=True):
    """Close the channel to a broker; its queued requests are lost."""

    broker_id: int


class RemoveAllChannels(Struct, frozen=True):
    """Close every channel: the controller resigned."""


class SendControlRequest(Struct, frozen=True):
    """Queue one control request for a broker.

    ``body`` is the encoded request without its header, in chunks: chunks that several brokers get
    are the same ``bytes`` object.  The channel adds size, header, correlation id and client id.
    """

    broker_id: int
    api_key: int  # 4 LeaderAndIsr, 5 StopReplica, 6 UpdateMetadata
    api_version: int
    body: tuple[bytes, ...]
    controller_epoch: int
    deleting: tuple[TopicPartition, ...] = ()
    """StopReplica: the partitions sent with delete whose topics are being deleted; only what is
    answered for these becomes an event."""
    probing: tuple[TopicPartition, ...] = ()
    """LeaderAndIsr: partitions believed to lie in a failed log directory of that broker."""


class ControlledShutdownResult(Struct, frozen=True):
    """No error and the partitions the broker still leads; or an error and none."""

    error_code: ErrorCode
    remaining_partitions: tuple[TopicPartition, ...] = ()


class PartitionResult(NamedTuple):
    """The outcome for one partition of a request; ``message`` None: the code has no text."""

    partition: TopicPartition
    error_code: ErrorCode
    message: str | None = None


class PartitionResults(Struct, frozen=True):
    """A top-level error and an outcome per partition."""

    error_code: ErrorCode
    results: tuple[PartitionResult, ...] = ()


class OngoingReassignments(Struct, frozen=True):
    """Response to ListPartitionReassignments."""

    error_code: ErrorCode
    reassignments: tuple[tuple[TopicPartition, ReplicaAssignment], ...] = ()


class IsrChangeResult(NamedTuple):
    """The outcome for one partition of AlterPartition; ``state`` is set only without an error."""

    topic: UUID | str
    partition: int
    error_code: ErrorCode
    state: LeaderAndIsr | None = None


class AlterPartitionResult(Struct, frozen=True):
    """Response to AlterPartition: a top-level error, or an outcome per partition."""

    error_code: ErrorCode
    results: tuple[IsrChangeResult, ...] = ()


class ProducerIdBlock(Struct, frozen=True):
    """Response to AllocateProducerIds: ``length`` ids from ``start``."""

    error_code: ErrorCode
    start: int = 0
    length: int = 0


class FeatureResults(Struct, frozen=True):
    """Response to UpdateFeatures: a top-level error, or (feature, error code, message) per item.

    ``epoch`` is the dataVersion of ``/feature`` as it was written; None if it was not.
    """

    error_code: ErrorCode
    message: str | None = None
    results: tuple[tuple[str, ErrorCode, str | None], ...] = ()
    epoch: int | None = None


Result: TypeAlias = (
    ControlledShutdownResult
    | PartitionResults
    | OngoingReassignments
    | AlterPartitionResult
    | ProducerIdBlock
    | FeatureResults
)


class Put(Struct, frozen=True):
    """Put an event into the queue after ``delay_ms``; a delayed one is dropped at resignation."""

    event: Event
    delay_ms: int = 0


class CancelPuts(Struct, frozen=True):
    """Drop every delayed event: the controller resigned."""


class RequestResponse(Struct, frozen=True):
    """The response to the request whose event carried this ``request_id``; the first one counts."""

    request_id: int
    result: Result


class LogLine(Struct, frozen=True):
    """One line of ``controller.log``: level and logger as in Kafka, the message with its prefix."""

    level: str  # TRACE DEBUG INFO WARN ERROR
    logger: str  # e.g. kafka.controller.KafkaController
    message: str
    exception: str | None = None
    """The exception below the message, as Java prints it."""

    @property
    def text(self) -> str:
        """The message, and the exception on the lines after it."""
        return self.message if self.exception is None else f"{self.message}\n{self.exception}"


class StateChanges(Struct, frozen=True):
    """Records for ``state-change.log`` and the export; formatted off the critical path."""

    records: Sequence[StateChange]


class MarkMeter(Struct, frozen=True):
    """Count ``count`` occurrences in a meter of ``kafka.controller:type=ControllerStats``."""

    name: str
    count: int = 1


Effect: TypeAlias = (
    AddChannel
    | RemoveChannel
    | RemoveAllChannels
    | SendControlRequest
    | RequestResponse
    | LogLine
    | StateChanges
    | MarkMeter
    | Put
    | CancelPuts
)

Outbox: TypeAlias = list[Effect]

# The result's type depends on the question; the methods of `ControllerTools` give each its own.
Procedure: TypeAlias = Generator[Question, Any, T]
