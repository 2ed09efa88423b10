"""Throttles replication: compares the rate of throttled replicas with the allowed rate.

An administrator who moves replicas names the throttled replicas in the topic's configuration
(``partition:broker`` pairs, or ``*``), and the allowed rate in the broker's configuration.  In-sync
replicas are never throttled, so that the ISR does not shrink.

Source: Kafka ``ReplicationQuotaManager``, ``TopicConfigHandler.parseThrottledPartitions``,
``SimpleRate``; KIP-73.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from kafka_common.java import parse_int
from kafka_common.model import TopicPartition

UNLIMITED: Final = 2**63 - 1

LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"

_EVERY_REPLICA: Final = "*"
_NO_REPLICA: Final = "none"


@dataclass(slots=True)
class _Sample:
    """The bytes of throttled replicas in one time window."""

    started_ms: int
    bytes_seen: float = 0


class ReplicationThrottle:
    """The throttle of one direction: to followers or from leaders.  Used on the event loop."""

    def __init__(
        self, now_ms: Callable[[], int], *, samples: int = 11, sample_ms: int = 1_000
    ) -> None:
        """``samples`` is ``replication.quota.window.num``.

        ``sample_ms`` is ``replication.quota.window.size.seconds`` in milliseconds.
        """
        self._now_ms = now_ms
        self._most_samples = samples
        self._sample_ms = sample_ms
        self.bytes_per_second = UNLIMITED
        self._samples: deque[_Sample] = deque()
        self._throttled: dict[str, frozenset[int] | None] = {}

    def set_topic(self, topic: str, broker_id: int, replicas: str) -> None:
        """Sets the throttled replicas of a topic, as configured; an empty text throttles none."""
        partitions = throttled_partitions(replicas, broker_id)
        if partitions is not None and not partitions:
            self._throttled.pop(topic, None)
        else:
            self._throttled[topic] = partitions

    def is_throttled(self, partition: TopicPartition) -> bool:
        """Whether this broker's replica of the partition is throttled."""
        if partition.topic not in self._throttled:
            return False
        partitions = self._throttled[partition.topic]
        return partitions is None or partition.partition in partitions

    def record(self, size: float) -> None:
        """Records ``size`` bytes that throttled replicas sent or received."""
        now_ms = self._now_ms()
        oldest_ms = self._oldest_ms(now_ms)
        while self._samples and self._samples[0].started_ms < oldest_ms:
            self._samples.popleft()
        if not self._samples or now_ms - self._samples[-1].started_ms >= self._sample_ms:
            self._samples.append(_Sample(now_ms))
        self._samples[-1].bytes_seen += size

    @property
    def is_exceeded(self) -> bool:
        """Whether the measured rate is above ``bytes_per_second``."""
        return self.rate() > self.bytes_per_second

    def rate(self) -> float:
        """The bytes per second of throttled replicas, over the last windows.  For any thread."""
        now_ms = self._now_ms()
        oldest_ms = self._oldest_ms(now_ms)
        samples = [each for each in list(self._samples) if each.started_ms >= oldest_ms]
        if not samples:
            return 0.0
        seen = sum(sample.bytes_seen for sample in samples)
        elapsed_ms = max(now_ms - samples[0].started_ms, self._sample_ms)
        return seen * 1000 / elapsed_ms

    def attributes(self) -> dict[str, float]:
        """The rate as a metric."""
        return {"byte-rate": self.rate()}

    def _oldest_ms(self, now_ms: int) -> int:
        return now_ms - self._most_samples * self._sample_ms


class ReplicationThrottles:
    """The throttles of one broker: to followers and from leaders."""

    def __init__(
        self,
        broker_id: int,
        now_ms: Callable[[], int],
        *,
        samples: int = 11,
        sample_ms: int = 1_000,
    ) -> None:
        self._broker_id = broker_id
        self.leader = ReplicationThrottle(now_ms, samples=samples, sample_ms=sample_ms)
        """Throttles what this broker sends to followers."""
        self.follower = ReplicationThrottle(now_ms, samples=samples, sample_ms=sample_ms)
        """Throttles what this broker fetches from leaders."""

    def set_rates(self, leader: int, follower: int) -> None:
        """Sets the allowed bytes per second of both throttles."""
        self.leader.bytes_per_second = leader
        self.follower.bytes_per_second = follower

    def topic_changed(self, topic: str, config: Mapping[str, str]) -> None:
        """Sets the throttled replicas of a topic from its configuration."""
        self.leader.set_topic(topic, self._broker_id, config.get(LEADER_REPLICAS, ""))
        self.follower.set_topic(topic, self._broker_id, config.get(FOLLOWER_REPLICAS, ""))


def throttled_partitions(replicas: str, broker_id: int) -> frozenset[int] | None:
    """The partitions whose replica on ``broker_id`` is throttled; None means all of them."""
    pairs = [pair.strip() for pair in replicas.split(",") if pair.strip()]
    if pairs == [_EVERY_REPLICA]:
        return None
    if pairs == [_NO_REPLICA]:
        return frozenset()
    split = [pair.partition(":") for pair in pairs]
    return frozenset(
        number
        for partition, _, broker in split
        if parse_int(broker) == broker_id and (number := parse_int(partition)) is not None
    )
