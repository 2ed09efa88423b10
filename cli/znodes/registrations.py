"""Reads the registrations of brokers in ZooKeeper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kafka_common.model import Broker
from zkcontroller.zookeeper.results import optional
from zkcontroller.zookeeper.znodes import BrokerIdZnode
from zkcontroller_cli.znodes.cluster_view import session_text
from zkcontroller_cli.znodes.partitions import live_broker_ids
from zkcontroller_cli.znodes.session import ZooKeeper, decoded


class LiveBroker(NamedTuple):
    """A registered broker; its epoch is the czxid of its znode."""

    broker: Broker
    broker_epoch: int
    timestamp_ms: int
    session_id: str | None

    def address_by(self, security_protocol: str) -> tuple[str, int] | None:
        """Host and port of the first listener with that security protocol; None without one."""
        return next(
            (
                (endpoint.host, endpoint.port)
                for endpoint in self.broker.endpoints
                if endpoint.security_protocol == security_protocol
            ),
            None,
        )

    def row(self, controller_id: int | None) -> dict[str, Any]:
        """The broker as ``broker list`` and ``broker describe`` show it."""
        first = self.broker.endpoints[0] if self.broker.endpoints else None
        return {
            "broker_id": self.broker.broker_id,
            "host": first.host if first else None,
            "port": first.port if first else None,
            "endpoints": [f"{e.listener_name}://{e.address}" for e in self.broker.endpoints],
            "rack": self.broker.rack,
            "broker_epoch": self.broker_epoch,
            "is_controller": self.broker.broker_id == controller_id,
            "registered_at_ms": self.timestamp_ms,
            "session_id": self.session_id,
        }


def read_registrations(
    zookeeper: ZooKeeper, broker_ids: Sequence[int] | None = None
) -> list[LiveBroker]:
    """The registered brokers, sorted by id; corrupt registrations are warned about and left out.

    ``broker_ids``: only these brokers, in this order.
    """
    ids = live_broker_ids(zookeeper) if broker_ids is None else list(broker_ids)
    paths = [BrokerIdZnode.path(broker_id) for broker_id in ids]
    found = []
    for broker_id, path, result in zip(ids, paths, zookeeper.read(paths), strict=True):
        znode = optional(path, result)
        if znode is None:
            continue
        broker = decoded(BrokerIdZnode.decode, broker_id, znode.data)
        if broker is not None:
            found.append(
                LiveBroker(
                    broker.broker,
                    znode.czxid,
                    broker.timestamp_ms,
                    session_text(znode),
                )
            )
    return found
