"""What may not be in a history, by the names that Jepsen's Kafka workload gave to it.

===================== ==========================================================================
lost-write            a record was acknowledged, and a reading of everything does not have it
duplicate             a record is in the log more than once
inconsistent-offsets  an offset had one record for one client and another for another
nonmonotonic-poll     a consumer that goes forward was given an offset that it had behind it
poll-skip             a consumer that goes forward was not given a record between two others
G1a                   a record whose write was refused for certain was read (an aborted read)
===================== ==========================================================================

What disks hold is checked beside it: :func:`differing_partitions`.

Source: https://github.com/jepsen-io/jepsen ``jepsen.tests.kafka``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tests.faults.history import History, Outcome, Polled, Sent


class Anomaly(NamedTuple):
    """Something that must not happen, and where it did."""

    name: str
    what: str


def anomalies(history: History, *, is_idempotent: bool) -> list[Anomaly]:
    """Everything that is wrong with a history.

    Without idempotence a producer that sends again may write a record twice.
    """
    found = [*lost_writes(history), *inconsistent_offsets(history)]
    found += [*nonmonotonic_polls(history), *poll_skips(history), *aborted_reads(history)]
    if is_idempotent:
        found += duplicates(history)
    return found


def lost_records(history: History) -> list[Sent]:
    """Acknowledged, and not in the final reading."""
    there = {(read.partition, read.value) for read in history.final}
    return [sent for sent in history.acknowledged if (sent.partition, sent.value) not in there]


def lost_writes(history: History) -> Iterator[Anomaly]:
    """The same, as anomalies."""
    for sent in lost_records(history):
        yield Anomaly("lost-write", f"{sent.value} at {sent.partition}:{sent.offset}")


def duplicates(history: History) -> Iterator[Anomaly]:
    """In the final reading at more than one offset."""
    places: defaultdict[str, set[tuple[int, int]]] = defaultdict(set)
    for read in history.final:
        places[read.value].add((read.partition, read.offset))
    for value, offsets in places.items():
        if len(offsets) > 1:
            yield Anomaly("duplicate", f"{value} at {sorted(offsets)}")


def inconsistent_offsets(history: History) -> Iterator[Anomaly]:
    """All that saw a committed offset, in whichever way, saw the same record there."""
    for (partition, offset), values in disputed_offsets(history).items():
        yield Anomaly("inconsistent-offsets", f"{partition}:{offset} is {sorted(values)}")


def disputed_offsets(history: History) -> dict[tuple[int, int], set[str]]:
    """Partition and offset, of those with more than one record, and the records."""
    seen: defaultdict[tuple[int, int], set[str]] = defaultdict(set)
    for read in _all_reads(history):
        seen[read.partition, read.offset].add(read.value)
    for sent in history.acknowledged:
        if sent.offset >= 0:
            seen[sent.partition, sent.offset].add(sent.value)
    return {place: values for place, values in seen.items() if len(values) > 1}


def nonmonotonic_polls(history: History) -> Iterator[Anomaly]:
    """The final reading is one more consumer."""
    last: dict[tuple[str, int], Polled] = {}
    for read in _all_reads(history):
        before = last.get((read.consumer, read.partition))
        if before is not None and read.offset <= before.offset:
            yield Anomaly(
                "nonmonotonic-poll",
                f"{read.consumer} was given {read.partition}:{read.offset} after {before.offset}",
            )
        last[read.consumer, read.partition] = read


def poll_skips(history: History) -> Iterator[Anomaly]:
    """Between two records that a consumer was given one after the other there is none."""
    there = {(read.partition, read.offset) for read in history.final}
    last: dict[tuple[str, int], Polled] = {}
    for read in _all_reads(history):
        before = last.get((read.consumer, read.partition), read)
        skipped = [
            offset
            for offset in range(before.offset + 1, read.offset)
            if (read.partition, offset) in there
        ]
        if skipped:
            yield Anomaly("poll-skip", f"{read.consumer} was not given {read.partition}:{skipped}")
        last[read.consumer, read.partition] = read


def aborted_reads(history: History) -> Iterator[Anomaly]:
    """What was refused for certain is never read."""
    refused = {sent.value for sent in history.sent if sent.outcome is Outcome.FAIL}
    for read in _all_reads(history):
        if read.value in refused:
            yield Anomaly("G1a", f"{read.value} at {read.partition}:{read.offset}")


def _all_reads(history: History) -> Iterable[Polled]:
    return (*history.polled, *history.final)


def differing_partitions(replicas: Iterable[Sequence[bytes]]) -> list[int]:
    """Partitions whose logs are not equal byte for byte; a replica is its logs by partition."""
    return [p for p, logs in enumerate(zip(*replicas, strict=True)) if len(set(logs)) > 1]
