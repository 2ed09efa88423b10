"""What goes through the broker, topic by topic and together: Kafka's ``BrokerTopicMetrics``.

Source: Kafka ``BrokerTopicStats``, ``BrokerTopicMetrics``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafka_common.observability.instruments import Meter
from kafka_common.observability.metrics import Metrics, mbean

_NAMES: Final = {
    "messages_in": ("MessagesInPerSec", "messages"),
    "bytes_in": ("BytesInPerSec", "bytes"),
    "bytes_out": ("BytesOutPerSec", "bytes"),
    "bytes_rejected": ("BytesRejectedPerSec", "bytes"),
    "failed_produce_requests": ("FailedProduceRequestsPerSec", "requests"),
    "failed_fetch_requests": ("FailedFetchRequestsPerSec", "requests"),
    "total_produce_requests": ("TotalProduceRequestsPerSec", "requests"),
    "total_fetch_requests": ("TotalFetchRequestsPerSec", "requests"),
    "fetch_message_conversions": ("FetchMessageConversionsPerSec", "requests"),
    "produce_message_conversions": ("ProduceMessageConversionsPerSec", "requests"),
    "no_key_compacted_topic_records": ("NoKeyCompactedTopicRecordsPerSec", "requests"),
    "invalid_magic_number_records": ("InvalidMagicNumberRecordsPerSec", "requests"),
    "invalid_message_crc_records": ("InvalidMessageCrcRecordsPerSec", "requests"),
    "invalid_offset_or_sequence_records": ("InvalidOffsetOrSequenceRecordsPerSec", "requests"),
}
_NAMES_OF_ALL: Final = {
    "replication_bytes_in": ("ReplicationBytesInPerSec", "bytes"),
    "replication_bytes_out": ("ReplicationBytesOutPerSec", "bytes"),
    "reassignment_bytes_in": ("ReassignmentBytesInPerSec", "bytes"),
    "reassignment_bytes_out": ("ReassignmentBytesOutPerSec", "bytes"),
}

_OF_LEADERS: Final = (
    "messages_in",
    "bytes_in",
    "bytes_rejected",
    "failed_produce_requests",
    "total_produce_requests",
    "produce_message_conversions",
)
"""What only happens where a topic is led; consumers may read from followers."""


class TopicStats:
    """The meters of one topic, each made when it first counts something."""

    def __init__(self, metrics: Metrics, topic: str) -> None:
        self._metrics = metrics
        self._tags = {"topic": topic}
        self._meters: dict[str, Meter] = {}

    def mark(self, name: str, count: int = 1) -> None:
        """Counts; ``name`` is one of the table above."""
        meter = self._meters.get(name)
        if meter is None:
            kafka_name, event_type = _NAMES[name]
            meter = self._meters[name] = self._metrics.meter(
                mbean("kafka.server", "BrokerTopicMetrics", kafka_name, self._tags), event_type
            )
        meter.mark(count)

    def remove(self, names: Iterable[str] = tuple(_NAMES)) -> None:
        """Forgets the meters; one that counts again is made anew."""
        for name in names:
            if self._meters.pop(name, None) is not None:
                self._metrics.remove(
                    mbean("kafka.server", "BrokerTopicMetrics", _NAMES[name][0], self._tags)
                )


class BrokerTopicStats:
    """The meters of every topic, and of all together."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._topics: dict[str, TopicStats] = {}
        self._all = {
            name: metrics.meter(mbean("kafka.server", "BrokerTopicMetrics", kafka_name), event_type)
            for name, (kafka_name, event_type) in {**_NAMES, **_NAMES_OF_ALL}.items()
        }

    def mark(self, topic: str, name: str, count: int = 1) -> None:
        """Counts for that topic and for all."""
        stats = self._topics.get(topic)
        if stats is None:
            stats = self._topics[topic] = TopicStats(self._metrics, topic)
        stats.mark(name, count)
        self._all[name].mark(count)

    def mark_all(self, name: str, count: int = 1) -> None:
        """Counts traffic between brokers, which is counted only in total."""
        self._all[name].mark(count)

    def has(self, topic: str) -> bool:
        return topic in self._topics

    def remove_led(self, topic: str) -> None:
        """No partition of that topic is led here any more.

        Source: Kafka ``BrokerTopicStats.removeOldLeaderMetrics`` (KAFKA-8392).
        """
        stats = self._topics.get(topic)
        if stats is not None:
            stats.remove(_OF_LEADERS)

    def remove(self, topic: str) -> None:
        """No partition of that topic is here any more."""
        stats = self._topics.pop(topic, None)
        if stats is not None:
            stats.remove()
