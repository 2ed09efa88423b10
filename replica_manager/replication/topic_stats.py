"""The meters of a broker's traffic, per topic and in total: Kafka's ``BrokerTopicMetrics``.

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
"""Names of the meters that only a leader marks; a follower may serve fetches as well."""


class TopicStats:
    """The meters of one topic, each created when it is first marked."""

    def __init__(self, metrics: Metrics, topic: str) -> None:
        self._metrics = metrics
        self._tags = {"topic": topic}
        self._meters: dict[str, Meter] = {}

    def mark(self, name: str, count: int = 1) -> None:
        """Adds ``count`` to the meter ``name``, a key of ``_NAMES``."""
        meter = self._meters.get(name)
        if meter is None:
            kafka_name, event_type = _NAMES[name]
            meter = self._meters[name] = self._metrics.meter(
                mbean("kafka.server", "BrokerTopicMetrics", kafka_name, self._tags), event_type
            )
        meter.mark(count)

    def remove(self, names: Iterable[str] = tuple(_NAMES)) -> None:
        """Removes meters, all by default; :meth:`mark` creates a removed meter again."""
        for name in names:
            if self._meters.pop(name, None) is not None:
                self._metrics.remove(
                    mbean("kafka.server", "BrokerTopicMetrics", _NAMES[name][0], self._tags)
                )


class BrokerTopicStats:
    """The meters of each topic, and those of all topics together."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._topics: dict[str, TopicStats] = {}
        self._all = {
            name: metrics.meter(mbean("kafka.server", "BrokerTopicMetrics", kafka_name), event_type)
            for name, (kafka_name, event_type) in {**_NAMES, **_NAMES_OF_ALL}.items()
        }

    def mark(self, topic: str, name: str, count: int = 1) -> None:
        """Adds ``count`` to the meter ``name`` of the topic and of all topics."""
        stats = self._topics.get(topic)
        if stats is None:
            stats = self._topics[topic] = TopicStats(self._metrics, topic)
        stats.mark(name, count)
        self._all[name].mark(count)

    def mark_all(self, name: str, count: int = 1) -> None:
        """Adds ``count`` only to the meter of all topics, for traffic between brokers."""
        self._all[name].mark(count)

    def has(self, topic: str) -> bool:
        return topic in self._topics

    def remove_led(self, topic: str) -> None:
        """Removes a topic's meters of a leader: this broker no longer leads a partition of it.

        Source: Kafka ``BrokerTopicStats.removeOldLeaderMetrics`` (KAFKA-8392).
        """
        stats = self._topics.get(topic)
        if stats is not None:
            stats.remove(_OF_LEADERS)

    def remove(self, topic: str) -> None:
        """Removes all meters of a topic: this broker no longer has a partition of it."""
        stats = self._topics.pop(topic, None)
        if stats is not None:
            stats.remove()
