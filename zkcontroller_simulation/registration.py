"""The znode that a simulated broker registers, and the parents that it creates before."""

from __future__ import annotations

from typing import Final

from kafka_common.model import Broker, Endpoint
from zkcontroller.core.effects import Procedure
from zkcontroller.zookeeper.requests import Create, UnfencedBatch

PERSISTENT_PATHS: Final = (
    "/consumers",
    "/brokers",
    "/brokers/ids",
    "/brokers/topics",
    "/config",
    "/config/changes",
    "/admin",
    "/admin/delete_topics",
    "/brokers/seqid",
    "/isr_change_notification",
    "/latest_producer_id_block",
    "/log_dir_event_notification",
    "/config/topics",
    "/config/clients",
    "/config/users",
    "/config/brokers",
    "/config/ips",
)
"""Each path after its parent."""


def broker_of(broker_id: int) -> Broker:
    """The broker's registration: one PLAINTEXT listener on ``host<id>``, port 9092."""
    endpoint = Endpoint(f"host{broker_id}", 9092, "PLAINTEXT", "PLAINTEXT")
    return Broker(broker_id, (endpoint,))


def create_persistent_paths() -> Procedure[None]:
    """Creates the parent znodes that a new cluster lacks."""
    yield UnfencedBatch([Create(path) for path in PERSISTENT_PATHS])
