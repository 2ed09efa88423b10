"""Events and outputs of the group coordinator; requests are in another module.

A request (:mod:`.requests`) or an event of those below goes in, one at a time, with the time; the
outputs below come out, to be performed in their order.

Source: Kafka ``GroupCoordinator`` (``onElection``, ``onResignation``), ``GroupMetadataManager``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias

from kio.schema.errors import ErrorCode

from kafka_common.model import TopicPartition
from replica_manager.coordinators.groups.records import SimpleRecord
from replica_manager.coordinators.groups.requests import Request, Result, TransactionalProducer

# ---------------------------------------------------------------------- in


@dataclass(frozen=True, slots=True)
class CoordinatorStartup:
    """The broker is ready.  Before this, and after Shutdown, every request is refused."""

    partition_count: int
    """Of the coordinator's topic: those it has, else those it will be created with."""


@dataclass(frozen=True, slots=True)
class Shutdown:
    """The broker stops: every partition is unloaded and parked requests are answered."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed: due timers fire."""


@dataclass(frozen=True, slots=True)
class Elected:
    """This broker became leader of a partition, and so coordinator of its groups."""

    partition: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class Resigned:
    """Leadership was lost; ``leader_epoch`` is None when the replica was deleted."""

    partition: int
    leader_epoch: int | None


class LoadedRecord(NamedTuple):
    """A record as it stands in the log."""

    offset: int
    key: bytes | None
    value: bytes | None


class LoadedBatch(NamedTuple):
    """A batch of the log, decompressed, records in order."""

    records: tuple[LoadedRecord, ...]
    producer_id: int = -1
    is_transactional: bool = False
    is_control: bool = False


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
class GroupRecordsAppended:
    """The result of an :class:`AppendGroupRecords` that has an id."""

    append_id: int
    error: ErrorCode
    base_offset: int = -1
    """Of the batch that was appended."""


@dataclass(frozen=True, slots=True)
class TransactionCompleted:
    """A commit or abort marker of a producer was written to these partitions."""

    producer_id: int
    partitions: frozenset[int]
    is_commit: bool


@dataclass(frozen=True, slots=True)
class PartitionsDeleted:
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

# ---------------------------------------------------------------------- out


@dataclass(frozen=True, slots=True)
class GroupResponse:
    """Send the response to that request; every request is answered once."""

    request_id: int
    result: Result


@dataclass(frozen=True, slots=True)
class AppendGroupRecords:
    """Append one batch of records to a partition of ``__consumer_offsets``, as coordinator.

    CreateTime, compressed as ``offsets.topic.compression.codec`` says.  With an ``append_id`` the
    outcome must come back as :class:`GroupRecordsAppended`, also when this broker does not lead the
    partition (NOT_LEADER_OR_FOLLOWER) or the time is over (REQUEST_TIMED_OUT); without one no
    result is expected.
    """

    partition: int
    records: tuple[SimpleRecord, ...]
    timestamp_ms: int
    required_acks: int
    timeout_ms: int
    append_id: int | None
    producer: TransactionalProducer | None = None
    """Whose transaction they belong to."""


@dataclass(frozen=True, slots=True)
class Load:
    """Read that partition from log start to log end: Loaded …, then LoadFinished or LoadFailed.

    Events of a load that was cancelled meanwhile are ignored.
    """

    partition: int
    load_id: int


class Level(Enum):
    """The level of a line; the values are those of Python's ``logging``."""

    DEBUG = 10
    INFO = 20
    WARN = 30
    ERROR = 40


@dataclass(frozen=True, slots=True)
class CoordinatorLogLine:
    """A line for ``server.log``."""

    level: Level
    logger: str
    text: str


class Quantity(Enum):
    """A measured quantity; the values are metric names without suffixes such as ``-rate``."""

    COMMITTED_OFFSETS = "offset-commit"
    EXPIRED_OFFSETS = "offset-expiration"
    DELETED_OFFSETS = "offset-deletion"
    """Those that an administrator deleted, one by one; not those that went with a group."""
    COMPLETED_REBALANCES = "group-completed-rebalance"
    PARTITION_LOAD_MS = "partition-load-time"


@dataclass(frozen=True, slots=True)
class Measured:
    """A count or a duration of a quantity."""

    quantity: Quantity
    value: int


Output: TypeAlias = GroupResponse | AppendGroupRecords | Load | CoordinatorLogLine | Measured
