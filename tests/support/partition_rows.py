"""What a controller writes about partitions, as rows made by hand."""

from __future__ import annotations

from collections.abc import Sequence

from kafka_history.rules.event import Event, in_order
from tests.support.event_rows import Row, row


def online(at_ms: int, broker: int, epoch: int, tp: tuple[str, int], leader: int,
           leader_epoch: int, isr: Sequence[int], version: int, *, recovering: bool = False,
           from_state: str = "OfflinePartition") -> Row:  # fmt: skip
    """A controller has written a leader."""
    return row(
        "partition-online", at_ms, broker, controller_epoch=epoch, topic=tp[0], partition=tp[1],
        leader=leader, leader_epoch=leader_epoch, isr=list(isr), zk_version=version,
        leader_recovery_state=int(recovering), from_state=from_state, to_state="OnlinePartition",
    )  # fmt: skip


def created(
    at_ms: int, broker: int, epoch: int, tp: tuple[str, int], isr: Sequence[int]
) -> list[Row]:
    """A controller has created a partition; its first replica leads."""
    new = row(
        "partition-new", at_ms, broker, controller_epoch=epoch, topic=tp[0], partition=tp[1],
        replicas=list(isr), from_state="NonExistentPartition", to_state="NewPartition",
    )  # fmt: skip
    return [new, online(at_ms + 5, broker, epoch, tp, isr[0], 0, isr, 0, from_state="NewPartition")]


def shrunk(at_ms: int, broker: int, epoch: int, tp: tuple[str, int], leader: int,
           leader_epoch: int, isr: Sequence[int], version: int, removed: int) -> Row:  # fmt: skip
    """A controller has taken a replica out of an ISR."""
    return row(
        "partition-shrunk-offline", at_ms, broker, controller_epoch=epoch, topic=tp[0],
        partition=tp[1], leader=leader, leader_epoch=leader_epoch, isr=list(isr),
        zk_version=version, replica=removed, state_controller_epoch=epoch, leader_recovery_state=0,
    )  # fmt: skip


def events_of(*rows: Row | list[Row]) -> list[Event]:
    """The rows as events, in order."""
    flat: list[Row] = []
    for entry in rows:
        flat.extend(entry if isinstance(entry, list) else [entry])
    return in_order(Event(**entry) for entry in flat)
