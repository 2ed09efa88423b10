"""Reports of partitions that need attention, as those of ``kafka-topics --describe``.

Source: Kafka ``TopicCommand.PartitionDescription``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from enum import StrEnum
from typing import Any, Final

MIN_IN_SYNC: Final = "min.insync.replicas"


class TopicReport(StrEnum):
    """A report; its value is the key of a row that says whether the partition is in it."""

    UNDER_REPLICATED = "is_under_replicated"
    UNAVAILABLE = "is_unavailable"
    UNDER_MIN_ISR = "is_under_min_isr"
    AT_MIN_ISR = "is_at_min_isr"

    @property
    def needs_min_isr(self) -> bool:
        """Whether the report depends on ``min.insync.replicas``."""
        return self in (TopicReport.UNDER_MIN_ISR, TopicReport.AT_MIN_ISR)


PARTITION_KEYS: Final = (
    "topic",
    "partition",
    "leader",
    "leader_epoch",
    "isr",
    "replicas",
    "offline_replicas",
    "adding_replicas",
    "removing_replicas",
    "min_isr",
    *TopicReport,
)


def partition_rows(
    topics: Iterable[Mapping[str, Any]],
    live_brokers: Set[int],
    min_isr: Mapping[str, int],
    reports: Collection[TopicReport],
) -> list[dict[str, Any]]:
    """The partitions that are in at least one of the reports, as rows.

    ``min_isr``: by topic, ``min.insync.replicas`` if it is known.  If it is not, ``is_at_min_isr``
    is None; so is ``is_under_min_isr``, unless the partition has no leader.
    """
    rows = (
        _row(topic["topic"], partition, live_brokers, min_isr.get(topic["topic"]))
        for topic in topics
        for partition in topic["partitions"]
    )
    return [row for row in rows if any(row[report] for report in reports)]


def _row(
    topic: str, partition: Mapping[str, Any], live_brokers: Set[int], min_isr: int | None
) -> dict[str, Any]:
    leader, in_sync = partition["leader"], len(partition["isr"] or ())
    has_leader = leader is not None and leader >= 0
    wanted = len(partition["replicas"]) - len(partition["adding_replicas"] or ())
    row = {
        "topic": topic,
        **partition,
        "min_isr": min_isr,
        TopicReport.UNDER_REPLICATED: in_sync < wanted,
        TopicReport.UNAVAILABLE: not has_leader or leader not in live_brokers,
        TopicReport.UNDER_MIN_ISR: True
        if not has_leader
        else None
        if min_isr is None
        else in_sync < min_isr,
        TopicReport.AT_MIN_ISR: None if min_isr is None else in_sync == min_isr,
    }
    return {str(key): row[key] for key in PARTITION_KEYS}
