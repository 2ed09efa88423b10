"""The transaction coordinator's settings from ``server.properties`` and ZooKeeper.

Source: Kafka ``TransactionCoordinator.apply``, ``KafkaServer.startup``.
"""

from __future__ import annotations

from typing import NamedTuple

from kafka_common.protocol.inter_broker_versions import write_txn_markers_version
from replica_manager.configuration.config import BrokerConfig
from replica_manager.coordinators.transactions.config import TransactionConfig
from zkcontroller.zookeeper.requests import CheckExists
from zkcontroller.zookeeper.results import optional
from zkcontroller.zookeeper.session import ZooKeeperSession
from zkcontroller.zookeeper.znodes import DeleteTopicZnode, TopicZnode


class TransactionSettings(NamedTuple):
    """The configuration of the transaction coordinator and of :mod:`.transaction_service`."""

    config: TransactionConfig
    load_buffer_bytes: int
    """``transaction.state.log.load.buffer.size``: bytes that are read at once, or one batch."""
    default_partition_count: int
    """``transaction.state.log.num.partitions``: used while the topic does not exist."""
    markers_version: int
    """The version of WriteTxnMarkers, which every broker of the cluster must know."""
    metrics_num_samples: int
    metrics_sample_window_ms: int


def transaction_settings(config: BrokerConfig, broker_id: int) -> TransactionSettings:
    """The settings in all ``transaction.*`` and ``transactional.*`` keys."""
    abort_interval = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
    expiry_interval = "transaction.remove.expired.transaction.cleanup.interval.ms"
    return TransactionSettings(
        TransactionConfig(
            broker_id=broker_id,
            max_timeout_ms=config.integer("transaction.max.timeout.ms"),
            transactional_id_expiration_ms=config.integer("transactional.id.expiration.ms"),
            abort_timed_out_interval_ms=config.integer(abort_interval),
            remove_expired_interval_ms=config.integer(expiry_interval),
            request_timeout_ms=config.integer("request.timeout.ms"),
        ),
        config.integer("transaction.state.log.load.buffer.size"),
        config.integer("transaction.state.log.num.partitions"),
        write_txn_markers_version(config.inter_broker_version),
        config.integer("metrics.num.samples"),
        config.integer("metrics.sample.window.ms"),
    )


def is_topic_deleted(session: ZooKeeperSession, topic: str) -> bool:
    """Whether ``topic`` does not exist or is being deleted, according to ZooKeeper.  Blocks."""
    exists, goes = TopicZnode.path(topic), DeleteTopicZnode.path(topic)
    found, marked = session.perform(CheckExists((exists, goes)))
    return optional(exists, found) is None or optional(goes, marked) is not None
