"""Operations of clients in a history: the client, what it did, when, and how it ended.

An operation is invoked once and completed at most once, as in Jepsen: ``ok`` (it took effect),
``fail`` (it did not and never will), or ``info`` (not known).  One that is not completed yet counts
as ``info``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_NS_PER_S: Final = 1_000_000_000


class ClientAct(StrEnum):
    """What an operation does."""

    SEND = "send"
    READ = "read"
    """One record that a consumer was given."""
    SEEK = "seek"
    """A consumer changes its position in a partition: a new assignment, or a seek."""
    READ_TO_END = "read-to-end"
    """The process has read the whole partition, up to ``offset``."""
    WATERMARK = "watermark"
    """A client was given the end of a partition: ``offset``."""
    COMMIT = "commit"
    ABORT = "abort"
    COMMIT_OFFSET = "commit-offset"
    FETCH_OFFSET = "fetch-offset"
    RESET_OFFSET = "reset-offset"
    """A group's offset is moved on purpose."""
    LEAD = "lead"
    """A broker leads a partition from now on, in ``epoch``; ``value`` is the topic id."""
    CONTROL = "control"
    """A broker is elected controller; ``epoch`` is the controller epoch."""
    DELETE_TOPIC = "delete-topic"


class OperationResult(StrEnum):
    """How an operation ended."""

    OK = "ok"
    FAIL = "fail"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation; fields that its act does not have keep their defaults."""

    index: int
    """Number of the operation in the order of invocations, from 0."""
    process: str
    """The client: one producer, one consumer, or a broker."""
    act: ClientAct
    invoked_ns: int
    """Nanoseconds since the history began, by a monotonic clock."""
    completed_ns: int | None = None
    """The same for the completion; None: not completed."""
    completion: OperationResult = OperationResult.INFO
    topic: str = ""
    partition: int = -1
    value: str = ""
    offset: int = -1
    """Offset of a record; for offsets of groups and ends of partitions, the next one; -1: none."""
    transaction: str = ""
    """The unique name of the transaction; empty outside of transactions."""
    group: str = ""
    epoch: int = -1
    is_idempotent: bool = False
    """The producer of a SEND is idempotent: no duplicates, and records stay in order."""
    is_committed_only: bool = False
    """A reader with ``isolation.level=read_committed``."""
    error: str = ""

    @property
    def is_ok(self) -> bool:
        return self.completion is OperationResult.OK

    @property
    def place(self) -> str:
        """``topic-partition``."""
        return f"{self.topic}-{self.partition}"

    def is_before(self, other: Operation) -> bool:
        """Whether this operation was completed no later than ``other`` was invoked."""
        return self.completed_ns is not None and self.completed_ns <= other.invoked_ns


def operation_text(operation: Operation) -> str:
    """The operation as one line: start and end in seconds, client, act, result and fields."""
    until = operation.completed_ns
    fields = [
        f"{operation.invoked_ns / _NS_PER_S:10.6f}",
        " " * 10 if until is None else f"{until / _NS_PER_S:10.6f}",
        f"{operation.process:<14}",
        f"{operation.act:<13}",
        f"{operation.completion:<4}",
    ]
    if operation.topic:
        fields.append(operation.place if operation.partition >= 0 else operation.topic)
    fields += [f"group={operation.group}"] * bool(operation.group)
    fields += [f"at {operation.offset}"] * (operation.offset >= 0)
    fields += [f"epoch={operation.epoch}"] * (operation.epoch >= 0)
    fields += [f"value={operation.value}"] * bool(operation.value)
    fields += [f"transaction={operation.transaction}"] * bool(operation.transaction)
    fields += [operation.error] * bool(operation.error)
    return " ".join(fields)


def history_text(operations: Iterable[Operation]) -> str:
    """The operations as text, one on each line."""
    return "".join(f"{operation_text(each)}\n" for each in operations)
