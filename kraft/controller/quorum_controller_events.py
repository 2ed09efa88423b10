"""The events in the controller's queue.

Source: Kafka ``ControllerWriteEvent``, ``ControllerReadEvent``, ``ControllerEvent``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from kraft.controller.quorum_controller_operations import AnyResult, WriteOperation
from kraft.controller.quorum_controller_requests import ReadRequest
from kraft.controller.quorum_controller_values import (
    CommitHandled,
    LeaderChanged,
    QueueMark,
    SnapshotLoaded,
)


@dataclass(slots=True, eq=False)
class WriteEvent:
    """A write; ``request_id`` is None if the controller itself started it."""

    operation: WriteOperation
    request_id: int | None = None
    result: AnyResult | None = None
    """The generated records and response; None before the write has run."""


@dataclass(slots=True, eq=False)
class ReadEvent:
    """A read of the stable state."""

    request: ReadRequest
    request_id: int


@dataclass(slots=True, eq=False)
class RaftEvent:
    """An input of the quorum: a commit, a snapshot or a leader change."""

    change: CommitHandled | SnapshotLoaded | LeaderChanged


ControllerEvent: TypeAlias = WriteEvent | ReadEvent | RaftEvent | QueueMark
