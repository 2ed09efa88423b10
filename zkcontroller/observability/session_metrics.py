"""Kafka's metrics of the ZooKeeper session."""

from __future__ import annotations

from typing import Final

from zkcontroller.observability.metrics import Metrics, mbean
from zkcontroller.zookeeper.session import SessionState

_METER_OF: Final = {
    SessionState.SUSPENDED: ("ZooKeeperDisconnectsPerSec", "disconnects"),
    SessionState.CONNECTED: ("ZooKeeperSyncConnectsPerSec", "syncconnects"),
    SessionState.AUTH_FAILED: ("ZooKeeperAuthFailuresPerSec", "authfailures"),
    SessionState.EXPIRED: ("ZooKeeperExpiresPerSec", "expires"),
}
_NEVER_MARKED: Final = (
    ("ZooKeeperReadOnlyConnectsPerSec", "readonlyconnects"),
    ("ZooKeeperSaslAuthenticationsPerSec", "saslauthentications"),
)
"""We neither accept a read-only server nor speak SASL; dashboards find the meters all the same."""

_KAFKA_NAME_OF: Final = {
    SessionState.CONNECTED: "CONNECTED",
    SessionState.SUSPENDED: "CONNECTING",
    SessionState.EXPIRED: "CLOSED",
    SessionState.AUTH_FAILED: "AUTH_FAILED",
    SessionState.CLOSED: "CLOSED",
}
"""The states of ZooKeeper's own client, which Kafka shows."""


class SessionMetrics:
    """``kafka.server:type=SessionExpireListener`` and the latency of requests.

    Source: Kafka ``ZooKeeperClient`` (its metrics are in that group for historical reasons).
    """

    def __init__(self, metrics: Metrics) -> None:
        self._state = metrics.gauge(mbean("kafka.server", "SessionExpireListener", "SessionState"))
        self._meters = {
            state: metrics.meter(mbean("kafka.server", "SessionExpireListener", name), event_type)
            for state, (name, event_type) in _METER_OF.items()
        }
        for name, event_type in _NEVER_MARKED:
            metrics.meter(mbean("kafka.server", "SessionExpireListener", name), event_type)
        # The runtime is made on a session that stands.
        self.entered(SessionState.CONNECTED)
        self.request_latency = metrics.histogram(
            mbean("kafka.server", "ZooKeeperClientMetrics", "ZooKeeperRequestLatencyMs")
        )

    def entered(self, state: SessionState) -> None:
        """Counts that the session entered this state."""
        self._state.set(_KAFKA_NAME_OF[state])
        if state in self._meters:
            self._meters[state].mark()
