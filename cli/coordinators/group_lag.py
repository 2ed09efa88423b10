"""Computes the lag of a group behind the logs that it reads: pure.

Source: Kafka ``ConsumerGroupCommand.collectGroupsOffsets``, ``getLag``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from zkcontroller_cli.values.moves import NamedPartition

if TYPE_CHECKING:
    from zkcontroller_cli.wire.groups import GroupView, MemberDescription


def lag_of(committed: int | None, log_end: int | None) -> int | None:
    """The offsets between the committed offset and the log's end; None if either is not known.

    Negative if records were lost, so that the log ends before the committed offset.
    """
    return None if committed is None or log_end is None else log_end - committed


def group_record(
    view: GroupView, ends: Mapping[NamedPartition, tuple[int, ...] | str]
) -> dict[str, Any]:
    """A group as a record: its totals, and a row for each partition committed or assigned.

    ``ends``: each partition's high watermark, or why it is not known.  A partition assigned to
    several members has a row for each, and counts once in the totals.
    """
    owners: dict[NamedPartition, list[MemberDescription | None]] = {}
    for member in view.members:
        for partition in member.assignment or ():
            owners.setdefault(partition, []).append(member)
    lags: dict[NamedPartition, int | None] = {}
    rows = []
    for partition in sorted({*view.committed, *owners}):
        end = ends[partition]
        committed = view.committed.get(partition)
        log_end = end[0] if isinstance(end, tuple) else None
        lags[partition] = lag_of(committed, log_end)
        shared = {
            "topic": partition.topic,
            "partition": partition.partition,
            "committed_offset": committed,
            "log_end_offset": log_end,
            "lag": lags[partition],
        }
        error = end if isinstance(end, str) else None
        rows += [
            {**shared, **_reader(member), "error": error}
            for member in owners.get(partition, [None])
        ]
    known = [lag for lag in lags.values() if lag is not None]
    return {
        "group": view.group,
        "state": view.state,
        "protocol_type": view.protocol_type,
        "protocol": view.protocol,
        "coordinator_id": view.coordinator.broker_id,
        "coordinator": str(view.coordinator.address),
        "member_count": len(view.members),
        "partition_count": len(lags),
        "total_lag": sum(known),
        "unknown_lag_count": len(lags) - len(known),
        "partitions": rows,
    }


def _reader(member: MemberDescription | None) -> dict[str, str | None]:
    if member is None:
        return {"member_id": None, "host": None, "client_id": None}
    return {"member_id": member.member_id, "host": member.host, "client_id": member.client_id}
