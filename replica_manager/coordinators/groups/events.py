"""Events and outputs of the group coordinator; requests are in another module.

The coordinator takes one request (:mod:`.requests`) or event at a time, with the current time, and
returns outputs, which must be performed in their order.

Source: Kafka ``GroupCoordinator`` (``onElection``, ``onResignation``), ``GroupMetadataManager``.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, TypeAlias

from kio.schema.errors import ErrorCode
from msgspec import Struct

from kafka_common.model import TopicPartition
from kafka_common.protocol.record_batch import NO_SEQUENCE
from replica_manager.coordinators.groups.records import SimpleRecord
from replica_manager.coordinators.groups.requests import Request, Result, TransactionalProducer

# ---------------------------------------------------------------------- events


class CoordinatorStartup(Struct, frozen=True):
    """The broker is ready.  Before this event, and after Shutdown, every request is refused."""

    partition_count: int
    """Partitions of the coordinator's topic, or those it will have when it is created."""


class Shutdown(Struct, frozen=True):
    """The broker stops: all groups are unloaded, and parked requests get an error."""


class Tick(Struct, frozen=True):
    """Time has passed: due timers fire."""


class Elected(Struct, frozen=True):
    """This broker became leader of a partition, and so coordinator of its groups."""

    partition: int
    leader_epoch: int


class Resigned(Struct, frozen=True):
    """This broker lost the leadership of a partition; ``leader_epoch`` is None if unknown."""

    partition: int
    leader_epoch: int | None


class LoadedRecord(NamedTuple):
    """A record that was read from the log; ``value`` is None for a tombstone."""

    offset: int
    key: bytes | None
    value: bytes | None


class LoadedBatch(NamedTuple):
    """A decompressed batch that was read from the log; ``producer_id`` is -1 without producer."""

    records: tuple[LoadedRecord, ...]
    producer_id: int = -1
    is_transactional: bool = False
    is_control: bool = False


class Loaded(Struct, frozen=True):
    """The next batches of a partition that is being loaded, in the order of the log."""

    load_id: int
    batches: tuple[LoadedBatch, ...]


class LoadFinished(Struct, frozen=True):
    """The partition was read to its log end offset (not only to its high watermark)."""

    load_id: int


class LoadFailed(Struct, frozen=True):
    """The partition could not be read to its log end offset."""

    load_id: int
    reason: str


class GroupRecordsAppended(Struct, frozen=True):
    """The result of an :class:`AppendGroupRecords` with this ``append_id``."""

    append_id: int
    error: ErrorCode
    base_offset: int = -1
    """Offset of the first record of the batch; -1 after an error."""


class TransactionCompleted(Struct, frozen=True):
    """A commit or abort marker of a producer was written to these partitions."""

    producer_id: int
    partitions: frozenset[int]
    is_commit: bool


class PartitionsDeleted(Struct, frozen=True):
    """Partitions of any topic were deleted; their offsets are removed."""

    partitions: tuple[TopicPartition, ...]


Event: TypeAlias = (
    CoordinatorStartup
    | Shutdown
    | Tick
    | Elected
    | Resigned
    | Loaded
    | LoadFinished
    | LoadFailed
    | GroupRecordsAppended
    | TransactionCompleted
    | PartitionsDeleted
)

Input: TypeAlias = Request | Event

# ---------------------------------------------------------------------- outputs


class GroupResponse(Struct, frozen=True):
    """The response to the request with this ``request_id``; each request gets exactly one."""

    request_id: int
    result: Result


class AppendGroupRecords(Struct, frozen=True):
    """Append one batch of records to a partition of ``__consumer_offsets``, as coordinator.

    The timestamp type is CreateTime; ``offsets.topic.compression.codec`` is the compression.  If
    ``append_id`` is set, the result must come back as :class:`GroupRecordsAppended`, even if this
    broker is not the leader (NOT_LEADER_OR_FOLLOWER) or the append timed out (REQUEST_TIMED_OUT).
    If it is None, no result is expected.
    """

    partition: int
    records: tuple[SimpleRecord, ...]
    timestamp_ms: int
    required_acks: int
    timeout_ms: int
    append_id: int | None
    producer: TransactionalProducer | None = None
    """The producer whose transaction contains the records; None outside a transaction."""
    base_sequence: int = NO_SEQUENCE
    """Kafka's compaction fails on a batch that has a producer and no sequence."""


class Load(Struct, frozen=True):
    """Read a partition from its start to its end.

    The results come back as any number of Loaded events, then LoadFinished or LoadFailed.  Events
    of a load that was cancelled meanwhile are ignored.
    """

    partition: int
    load_id: int


class Level(Enum):
    """The level of a line; the values are those of Python's ``logging``."""

    DEBUG = 10
    INFO = 20
    WARN = 30
    ERROR = 40


class CoordinatorLogLine(Struct, frozen=True):
    """A line for ``server.log``."""

    level: Level
    logger: str
    text: str


class Quantity(Enum):
    """A measured quantity; the values are metric names without suffixes such as ``-rate``."""

    COMMITTED_OFFSETS = "offset-commit"
    EXPIRED_OFFSETS = "offset-expiration"
    DELETED_OFFSETS = "offset-deletion"
    """Offsets deleted by OffsetDelete requests; those deleted with their group do not count."""
    COMPLETED_REBALANCES = "group-completed-rebalance"
    PARTITION_LOAD_MS = "partition-load-time"


class Measured(Struct, frozen=True):
    """A measurement for the metrics: a count, or a duration in milliseconds."""

    quantity: Quantity
    value: int


Output: TypeAlias = GroupResponse | AppendGroupRecords | Load | CoordinatorLogLine | Measured
