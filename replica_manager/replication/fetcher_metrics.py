"""The metrics of a broker's fetchers.

Source: Kafka ``AbstractFetcherManager``, ``FetcherStats``, ``BrokerTopicStats``.  The lag of each
partition (``FetcherLagMetrics``) is not here, only the largest one (``MaxLag``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kafka_common.model import TopicPartition
from kafka_common.observability.instruments import Meter
from kafka_common.observability.metrics import Metrics, mbean
from replica_manager.replication.replica_fetchers import FetcherKey, ReplicaFetchers


class FetcherMeters(NamedTuple):
    """The functions that mark the meters of one fetcher."""

    bytes_in: Callable[[TopicPartition, int], None]
    requested: Callable[[], None]


class FetcherMetrics:
    """Gauges over all fetchers, and meters for each fetcher."""

    def __init__(
        self,
        metrics: Metrics,
        fetchers: ReplicaFetchers,
        address_of: Callable[[int], str],
        is_being_added: Callable[[TopicPartition], bool],
    ) -> None:
        """``address_of`` returns the ``host:port`` of a broker.

        ``is_being_added`` says whether a reassignment adds the local replica of a partition.
        """
        self._metrics = metrics
        self._fetchers = fetchers
        self._address_of = address_of
        self._is_being_added = is_being_added
        self._names: dict[FetcherKey, tuple[str, str]] = {}
        self._requests: dict[FetcherKey, Meter] = {}
        # These meters count all topics together; single topics have none.
        self._replication_bytes, self._reassignment_bytes = (
            metrics.meter(mbean("kafka.server", "BrokerTopicMetrics", name), "bytes")
            for name in ("ReplicationBytesInPerSec", "ReassignmentBytesInPerSec")
        )
        for name, read in (
            ("MaxLag", self._max_lag),
            ("MinFetchRate", self._min_fetch_rate),
            ("FailedPartitionsCount", lambda: len(fetchers.failed)),
            ("DeadThreadCount", lambda: 0),
        ):
            tags = {"clientId": "Replica"}
            metrics.gauge(mbean("kafka.server", "ReplicaFetcherManager", name, tags), read)

    def added(self, key: FetcherKey) -> FetcherMeters:
        """Creates the meters of a new fetcher."""
        host, _, port = self._address_of(key.leader).rpartition(":")
        tags = {
            "clientId": f"ReplicaFetcherThread-{key.fetcher_id}-{key.leader}",
            "brokerHost": host,
            "brokerPort": port,
        }
        requests_name, bytes_name = (
            mbean("kafka.server", "FetcherStats", name, tags)
            for name in ("RequestsPerSec", "BytesPerSec")
        )
        requests = self._metrics.meter(requests_name, "requests")
        received = self._metrics.meter(bytes_name, "bytes")
        self._names[key] = (requests_name, bytes_name)
        self._requests[key] = requests

        def bytes_in(partition: TopicPartition, count: int) -> None:
            received.mark(count)
            self._replication_bytes.mark(count)
            if self._is_being_added(partition):
                self._reassignment_bytes.mark(count)

        return FetcherMeters(bytes_in, requests.mark)

    def removed(self, key: FetcherKey) -> None:
        """Removes the meters of a fetcher."""
        self._requests.pop(key, None)
        for name in self._names.pop(key, ()):
            self._metrics.remove(name)

    def _max_lag(self) -> int:
        # Called from another thread: the copies do not change during the iteration.
        states = [
            s for f in list(self._fetchers.fetchers.values()) for s in list(f.partitions.values())
        ]
        return max((state.lag or 0 for state in states), default=0)

    def _min_fetch_rate(self) -> float:
        rates = [meter.attributes()["OneMinuteRate"] for meter in list(self._requests.values())]
        return min((float(rate) for rate in rates), default=0.0)
