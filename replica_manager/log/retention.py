"""Retention: the oldest segments to delete by age, size or log start.

Pure.  Source: Kafka ``UnifiedLog.deleteOldSegments``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from itertools import accumulate
from typing import NamedTuple

from replica_manager.log.log_config import LogConfig
from replica_manager.log.segment import LogSegment


class SegmentFacts(NamedTuple):
    """The data of one segment that retention needs."""

    base_offset: int
    size: int
    largest_timestamp: int
    """The largest timestamp of its records, or the file's time if they have none."""


class DeletionRule(Enum):
    """Why segments are deleted."""

    LOG_START = "the log start offset is behind them"
    SIZE = "retention.bytes"
    TIME = "retention.ms"


class RetentionBreach(NamedTuple):
    """The number of oldest segments to delete, and the rule that deletes them."""

    segments: int
    rule: DeletionRule


def breaches(
    segments: Sequence[SegmentFacts],
    config: LogConfig,
    *,
    log_start_offset: int,
    log_end_offset: int,
    high_watermark: int,
    now_ms: int,
) -> RetentionBreach | None:
    """The first rule that deletes segments, None if none does; call again after deleting.

    Only the oldest segments are deleted, and none with records at or past the high watermark, so
    the log start offset never passes it.  Segments below the log start offset are deleted under
    every cleanup policy.
    """

    def below_start(place: int) -> bool:
        return place + 1 < len(segments) and segments[place + 1].base_offset <= log_start_offset

    rules: list[tuple[DeletionRule, Callable[[int], bool]]] = [
        (DeletionRule.LOG_START, below_start)
    ]
    if config.is_deleted:
        total = sum(segment.size for segment in segments)
        if 0 <= config.retention_bytes <= total:
            excess = total - config.retention_bytes
            sums = list(accumulate(segment.size for segment in segments))
            rules.append((DeletionRule.SIZE, lambda place: sums[place] <= excess))
        if config.retention_ms >= 0:
            oldest = now_ms - config.retention_ms
            rules.append(
                (DeletionRule.TIME, lambda place: segments[place].largest_timestamp < oldest)
            )
    for rule, may_go in rules:
        count = _prefix(segments, may_go, log_end_offset, high_watermark)
        if count:
            return RetentionBreach(count, rule)
    return None


def _prefix(
    segments: Sequence[SegmentFacts],
    may_go: Callable[[int], bool],
    log_end_offset: int,
    high_watermark: int,
) -> int:
    for place, segment in enumerate(segments):
        is_last = place + 1 == len(segments)
        end = log_end_offset if is_last else segments[place + 1].base_offset
        if high_watermark < end or not may_go(place) or (is_last and segment.size == 0):
            return place
    return len(segments)


def deletion_lines(
    rule: DeletionRule,
    segments: Sequence[LogSegment],
    config: LogConfig,
    log_start_offset: int,
    size: int,
) -> Iterator[str]:
    """Lines for the log: why segments are deleted from one of ``size`` bytes.

    Source: Kafka ``StartOffsetBreach``, ``RetentionSizeBreach``, ``RetentionMsBreach``.
    """
    if rule is DeletionRule.LOG_START:
        shown = ",".join(map(str, segments))
        yield f"Deleting segments due to log start offset {log_start_offset} breach: {shown}"
        return
    for segment in segments:
        size -= segment.size
        if rule is DeletionRule.SIZE:
            yield (
                f"Deleting segment {segment} due to log retention size {config.retention_bytes} "
                f"breach. Log size after deletion will be {size}."
            )
        else:
            has_timestamp = segment.largest_timestamp_so_far.timestamp >= 0
            based_on = (
                "largest record timestamp in the segment"
                if has_timestamp
                else "last modified time of the segment"
            )
            yield (
                f"Deleting segment {segment} due to log retention time {config.retention_ms}ms "
                f"breach based on the {based_on}"
            )
