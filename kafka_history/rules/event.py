"""A row of the history as a value: one log line with the exception below it, or one export row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple


class Event(NamedTuple):
    """One row of ``events``; :data:`kafka_history.event_schema.EVENT_COLUMNS` explains the fields.

    A field is None where its column does not apply.
    """

    cluster: str | None = None
    file: str = ""
    line: int = 0
    lines: int | None = None
    size_bytes: int | None = None
    broker_id: int | None = None
    time_ms: int = 0
    level: str | None = None
    logger: str | None = None
    shape: str | None = None
    kind: str | None = None
    story: str | None = None
    component: str | None = None
    controller_id: int | None = None
    controller_epoch: int | None = None
    state_controller_epoch: int | None = None
    topic: str | None = None
    partition: int | None = None
    replica: int | None = None
    leader: int | None = None
    leader_epoch: int | None = None
    isr: Sequence[int] | None = None
    zk_version: int | None = None
    leader_recovery_state: int | None = None
    replicas: Sequence[int] | None = None
    adding_replicas: Sequence[int] | None = None
    removing_replicas: Sequence[int] | None = None
    offline_replicas: Sequence[int] | None = None
    is_new: bool | None = None
    delete_partition: bool | None = None
    from_state: str | None = None
    to_state: str | None = None
    previous_leader: int | None = None
    previous_leader_epoch: int | None = None
    current_leader_epoch: int | None = None
    latest_controller_epoch: int | None = None
    offset: int | None = None
    high_watermark: int | None = None
    topic_id: str | None = None
    request: str | None = None
    correlation_id: int | None = None
    peer: int | None = None
    peers: Sequence[int] | None = None
    role: str | None = None
    reason: str | None = None
    error: str | None = None
    error_code: int | None = None
    elapsed_ms: int | None = None
    count: int | None = None  # type: ignore[assignment]  # a tuple's own is of no use here
    other_count: int | None = None
    exception_class: str | None = None
    exception_message: str | None = None
    exception_frames: Sequence[str] | None = None
    exception_frame_count: int | None = None
    fingerprint: str | None = None
    values: Mapping[str, str] | None = None
    text: str | None = None

    def value(self, name: str) -> str | None:
        """A field of the shape that has no column of its own; None if the line lacks it."""
        return None if self.values is None else self.values.get(name)

    def says(self, *texts: str) -> bool:
        """Whether the message contains at least one of these texts."""
        return self.text is not None and any(map(self.text.__contains__, texts))

    def ends_with(self, text: str) -> bool:
        """Whether the message ends with this text."""
        return self.text is not None and self.text.endswith(text)


def in_order(events: Iterable[Event]) -> list[Event]:
    """The events sorted by time, then by file and line."""
    return sorted(events, key=attrgetter("time_ms", "file", "line"))
