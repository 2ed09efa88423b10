"""The cluster at a moment: partitions, brokers, controller."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kafka_history.rules.broker_lives import BrokerLife
from kafka_history.rules.partition_states import State
from kafka_history.rules.tenures import Tenure


class PartitionAt(NamedTuple):
    """The state of a partition at a moment; ``since_ms`` is when it was written."""

    topic: str
    partition: int
    leader: int | None
    leader_epoch: int | None
    isr: Sequence[int] | None
    zk_version: int | None
    controller_epoch: int | None
    since_ms: int
    file: str | None
    line: int | None


def partitions_at(states: Iterable[State], at_ms: int | None) -> Iterator[PartitionAt]:
    """The state of each partition at ``at_ms``; None: at the end of the logs.

    Partitions that were deleted, or that the logs do not mention before that moment, are left out.
    """
    last: dict[tuple[str, int], State] = {}
    for state in states:
        if at_ms is None or state.time_ms <= at_ms:
            tp = state.topic, state.partition
            last[tp] = max(
                state, last.get(tp, state), key=lambda each: (each.incarnation, each.number)
            )
    for (topic, partition), state in sorted(last.items()):
        if not state.is_deleted:
            yield PartitionAt(
                topic,
                partition,
                state.leader,
                state.leader_epoch,
                state.isr,
                state.zk_version,
                state.controller_epoch,
                state.time_ms,
                state.file,
                state.line,
            )


def brokers_at(lives: Iterable[BrokerLife], at_ms: int) -> list[int]:
    """The ids of the brokers that ran at ``at_ms``, in order."""
    return sorted(each.broker for each in lives if _is_within(each, at_ms))


def controller_at(held: Iterable[Tenure], at_ms: int) -> Tenure | None:
    """The tenure that covers ``at_ms``; None: there was no controller, or it is not known."""
    return next((each for each in held if _is_within(each, at_ms)), None)


def _is_within(each: BrokerLife | Tenure, at_ms: int) -> bool:
    return each.from_ms <= at_ms and (each.to_ms is None or each.to_ms > at_ms)
