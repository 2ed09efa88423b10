"""Metrics of a quorum node: Kafka's ``raft-metrics``.

The driver calls :meth:`RaftMetrics.observe` after each step.  Rates and latencies are computed from
the changes since the call before.

Source: Kafka ``KafkaRaftMetrics``, ``TimeRatio``.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple
from uuid import UUID

from kafka_common.observability.instruments import Attribute
from kafka_common.observability.metrics import Metrics, mbean
from kafka_common.observability.sensors import Samples, SpanSensor
from kafka_common.protocol.uuid_text import uuid_text
from kraft.raft.kafka_raft_client import KafkaRaftClient
from kraft.raft.states import StateName
from kraft.raft.values import NO_LEADER, ReplicaKey

MAX_PENDING_COMMITS: Final = 1_000
"""The most appends that are timed until their commit; with more, the oldest is not timed."""
_MBEAN: Final = "kafka.server:type=raft-metrics"
_NO_DIRECTORY: Final = UUID(int=0)


class _Seen(NamedTuple):
    """Values copied after a step."""

    state: StateName
    epoch: int
    leader_id: int | None
    voted_key: ReplicaKey | None
    high_watermark: int | None
    end_offset: int
    last_epoch: int


class _Pending(NamedTuple):
    """Records that this leader appended and that are not committed yet."""

    next_offset: int
    records: int
    appended_ms: int


class RaftMetrics:
    """The metrics of one node.  The driver's loop updates them; any thread may read."""

    def __init__(self, metrics: Metrics, node: KafkaRaftClient, local: ReplicaKey | None) -> None:
        """Registers the metrics, with the node's current values."""
        self._local = local
        self._is_observer = local is None or local.id not in node.voters
        self._seen = _look(node)
        self._pending: deque[_Pending] = deque(maxlen=MAX_PENDING_COMMITS)
        self._election_began_ms: int | None = None
        self._appended, self._fetched = Samples(), Samples()
        self._idle = IdleRatio()
        self._commit_latency = metrics.sensor(_MBEAN, SpanSensor("commit-latency"))
        self._election_latency = metrics.sensor(_MBEAN, SpanSensor("election-latency"))
        for name, read in self._gauges().items():
            metrics.gauge(mbean("kafka.server", "raft-metrics", name), read)

    def _gauges(self) -> dict[str, Callable[[], Attribute]]:
        return {
            "current-state": lambda: self._state_text(),
            "current-leader": lambda: _number(self._seen.leader_id),
            "current-vote": lambda: _number(None if (v := self._vote()) is None else v.id),
            "current-vote-directory-id": lambda: _directory_text(self._vote()),
            "current-epoch": lambda: self._seen.epoch,
            "high-watermark": lambda: _number(self._seen.high_watermark),
            "log-end-offset": lambda: self._seen.end_offset,
            "log-end-epoch": lambda: self._seen.last_epoch,
            # The addresses of all static voters are known.
            "number-unknown-voter-connections": lambda: 0,
            "fetch-records-rate": lambda: self._fetched.rate_per_s(_monotonic_ms()),
            "append-records-rate": lambda: self._appended.rate_per_s(_monotonic_ms()),
            "poll-idle-ratio-avg": lambda: self._idle.measure(),
        }

    def observe(self, node: KafkaRaftClient, now_ms: int) -> None:
        """Updates the metrics from the node's state after a step."""
        before, after = self._seen, _look(node)
        if after == before:
            return
        self._seen = after
        self._time_election(before, after, now_ms)
        grown = after.end_offset - before.end_offset
        if after.state is StateName.LEADER:
            if grown > 0:
                self._appended.record(grown, _monotonic_ms())
                self._pending.append(_Pending(after.end_offset, grown, now_ms))
            self._time_commits(after, now_ms)
        else:
            self._pending.clear()
            if grown > 0:
                self._fetched.record(grown, _monotonic_ms())

    def was_idle(self, duration_ns: int) -> None:
        """Records how long the driver waited for an input."""
        self._idle.record(duration_ns, time.monotonic_ns())

    def _time_election(self, before: _Seen, after: _Seen, now_ms: int) -> None:
        if after.state is StateName.CANDIDATE:
            if before.state is not StateName.CANDIDATE or after.epoch != before.epoch:
                self._election_began_ms = now_ms
        elif self._election_began_ms is not None and (
            after.state in (StateName.LEADER, StateName.FOLLOWER)
        ):
            self._election_latency.record(now_ms - self._election_began_ms)
            self._election_began_ms = None

    def _time_commits(self, after: _Seen, now_ms: int) -> None:
        while self._pending and _number(after.high_watermark) >= self._pending[0].next_offset:
            done = self._pending.popleft()
            self._commit_latency.record((now_ms - done.appended_ms) / done.records)

    def _state_text(self) -> str:
        match self._seen.state:
            case StateName.FOLLOWER if self._is_observer:
                return "observer"
            case StateName.UNATTACHED if self._seen.voted_key is not None:
                return "voted"
            case StateName.RESIGNED:
                return "unattached"  # as Kafka shows it
            case state:
                return state.value

    def _vote(self) -> ReplicaKey | None:
        if self._seen.state in (StateName.LEADER, StateName.CANDIDATE):
            return self._local
        return self._seen.voted_key if self._seen.state is StateName.UNATTACHED else None


class IdleRatio:
    """The part of the time since the last measurement that was spent waiting; 1 at first."""

    def __init__(self) -> None:
        self._began_ns: int | None = None
        self._last_ns = 0
        self._total_ns = 0

    def record(self, duration_ns: int, now_ns: int) -> None:
        """Records a wait that just ended."""
        if self._began_ns is None:
            self._began_ns = now_ns - duration_ns
        self._total_ns += duration_ns
        self._last_ns = now_ns

    def measure(self) -> float:
        """The ratio since the last measurement; begins a new one."""
        interval_ns = 0 if self._began_ns is None else self._last_ns - self._began_ns
        if interval_ns <= 0:
            return 1.0
        ratio = self._total_ns / interval_ns
        self._began_ns, self._total_ns = self._last_ns, 0
        return min(ratio, 1.0)


def _look(node: KafkaRaftClient) -> _Seen:
    return _Seen(
        node.state_name,
        node.epoch,
        node.leader_and_epoch.leader_id,
        node.election.voted_key,
        node.high_watermark,
        node.log.end_offset,
        node.log.last_epoch,
    )


def _number(value: int | None) -> int:
    return NO_LEADER if value is None else value


def _directory_text(vote: ReplicaKey | None) -> str:
    directory_id = None if vote is None else vote.directory_id
    return uuid_text(directory_id or _NO_DIRECTORY)


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000
