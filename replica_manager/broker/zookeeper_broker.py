"""A broker whose metadata is in ZooKeeper: chooses the source for :mod:`.broker_server`."""

from __future__ import annotations

from functools import partial

from kafka_common.observability.metrics import Metrics
from replica_manager.broker.broker_server import BrokerServer
from replica_manager.broker.broker_settings import zookeeper_settings
from replica_manager.broker.zookeeper_metadata import ZooKeeperSource
from replica_manager.configuration.config import BrokerConfig
from zkcontroller.state_changes.log_files import StateChangeSink


def zookeeper_broker(
    config: BrokerConfig,
    *,
    state_changes: StateChangeSink,
    trace_state_changes: bool = False,
    metrics: Metrics | None = None,
    counts_requests: bool = False,
    counts_partitions: bool = False,
    zookeeper_auth: tuple[tuple[str, str], ...] = (),
) -> BrokerServer:
    """A broker that is not started yet; the parameters are those of :class:`BrokerServer`.

    ``zookeeper_auth`` holds pairs of scheme and credentials for ZooKeeper.
    ConfigInvalid if key stores or passwords are wrong.
    """
    settings = zookeeper_settings(config, zookeeper_auth)
    return BrokerServer(
        config,
        partial(ZooKeeperSource, config, settings),
        state_changes=state_changes,
        trace_state_changes=trace_state_changes,
        metrics=metrics,
        counts_requests=counts_requests,
        counts_partitions=counts_partitions,
    )
