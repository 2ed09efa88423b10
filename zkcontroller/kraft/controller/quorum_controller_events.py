"""What waits in the controller's queue.

Source: Kafka ``ControllerWriteEvent``, ``ControllerReadEvent``, ``ControllerEvent``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from zkcontroller.kraft.controller.quorum_controller_operations import AnyResult, WriteOperation
from zkcontroller.kraft.controller.quorum_controller_requests import ReadRequest
from zkcontroller.kraft.controller.quorum_controller_values import (
    CommitHandled,
    LeaderChanged,
    SnapshotLoaded,
)


@dataclass(slots=True, eq=False)
class WriteEvent:
    """A write, of somebody who asked or of the controller itself (no request id)."""

    operation: WriteOperation
    request_id: int | None = None
    result: AnyResult | None = None
    """What was generated, while it waits to be committed."""


@dataclass(slots=True, eq=False)
class ReadEvent:
    """A read."""

    request: ReadRequest
    request_id: int


@dataclass(slots=True, eq=False)
class RaftEvent:
    """News of the quorum."""

    news: CommitHandled | SnapshotLoaded | LeaderChanged


ControllerEvent: TypeAlias = WriteEvent | ReadEvent | RaftEvent
