"""Kafka's metrics of the ZooKeeper session."""

from __future__ import annotations

from typing import Final

from kafka_common.observability.instruments import Meter
from kafka_common.observability.metrics import Metrics, mbean
from zkcontroller.zookeeper.session import SessionState

_METER_OF: Final = {
    SessionState.SUSPENDED: ("ZooKeeperDisconnectsPerSec", "disconnects"),
    SessionState.CONNECTED: ("ZooKeeperSyncConnectsPerSec", "syncconnects"),
    SessionState.AUTH_FAILED: ("ZooKeeperAuthFailuresPerSec", "authfailures"),
    SessionState.EXPIRED: ("ZooKeeperExpiresPerSec", "expires"),
}
_READ_ONLY_CONNECTS: Final = ("ZooKeeperReadOnlyConnectsPerSec", "readonlyconnects")
"""This meter stays at 0, because a session never uses a read-only server."""
_SASL_LOGINS: Final = ("ZooKeeperSaslAuthenticationsPerSec", "saslauthentications")

_KAFKA_NAME_OF: Final = {
    SessionState.CONNECTED: "CONNECTED",
    SessionState.SUSPENDED: "CONNECTING",
    SessionState.EXPIRED: "CLOSED",
    SessionState.AUTH_FAILED: "AUTH_FAILED",
    SessionState.CLOSED: "CLOSED",
}
"""The names of the states in ZooKeeper's own client, which Kafka shows."""


class SessionMetrics:
    """``kafka.server:type=SessionExpireListener`` and the latency of requests.

    Source: Kafka ``ZooKeeperClient`` (its metrics are in that group for historical reasons).
    """

    def __init__(self, metrics: Metrics, *, logs_in_by_sasl: bool = False) -> None:
        """``logs_in_by_sasl``: a connection is usable only after a SASL login."""

        def meter(name: str, event_type: str) -> Meter:
            return metrics.meter(mbean("kafka.server", "SessionExpireListener", name), event_type)

        self._state = metrics.gauge(mbean("kafka.server", "SessionExpireListener", "SessionState"))
        self._meters = {state: meter(*names) for state, names in _METER_OF.items()}
        self._logs_in_by_sasl = logs_in_by_sasl
        self._sasl_logins = meter(*_SASL_LOGINS)
        meter(*_READ_ONLY_CONNECTS)
        # Count the first connection here: the session was opened before this object was created.
        self.entered(SessionState.CONNECTED)
        self.request_latency = metrics.histogram(
            mbean("kafka.server", "ZooKeeperClientMetrics", "ZooKeeperRequestLatencyMs")
        )

    def entered(self, state: SessionState) -> None:
        """Counts that the session entered this state."""
        self._state.set(_KAFKA_NAME_OF[state])
        if state in self._meters:
            self._meters[state].mark()
        if state is SessionState.CONNECTED and self._logs_in_by_sasl:
            self._sasl_logins.mark()
