"""The quotas of one broker: of clients, and of the connections that come to it.

The quotas are configured in ZooKeeper, below ``/config/users``, ``/config/clients`` and
``/config/ips``; ``server.properties`` configures the time windows of the measurements.

Source: Kafka ``QuotaFactory``, ``ConnectionQuotas``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from kafka_common.observability.metrics import Metrics
from replica_manager.configuration.config import BrokerConfig
from replica_manager.network.connection_rates import ConnectionRates
from replica_manager.quotas.mutation_quotas import MutationQuotas
from replica_manager.quotas.quota_managers import QuotaManagers
from replica_manager.quotas.rate_quotas import QuotaWindows


class BrokerQuotas:
    """All quotas of one broker.  Used on the event loop."""

    def __init__(self, config: BrokerConfig, metrics: Metrics) -> None:
        windows = QuotaWindows(
            config.integer("quota.window.num"),
            config.integer("quota.window.size.seconds") * 1000,
        )
        mutation_window_s = config.integer("controller.quota.window.num") * config.integer(
            "controller.quota.window.size.seconds"
        )
        listeners = config.listeners
        has_protected = len(listeners.bound) > 1
        self.clients = QuotaManagers(
            MutationQuotas(mutation_window_s, _now_ms), windows, metrics, _now_ms
        )
        self.connections = ConnectionRates(
            windows, _now_ms, metrics, listeners.inter_broker if has_protected else ""
        )

    def configure(self, entity_path: str, config: Mapping[str, str]) -> None:
        """Applies the changed configuration of a user, a client id, both, or an IP address."""
        if entity_path.startswith("ips/"):
            self.connections.configure(entity_path, config)
        else:
            self.clients.configure(entity_path, config)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
