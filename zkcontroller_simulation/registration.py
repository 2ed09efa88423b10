"""How a broker registers: the same questions to ZooKeeper as the real broker's, as a procedure.

Source: Kafka ``KafkaZkClient.registerBroker`` and ``CheckedEphemeral``.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from zkcontroller.core.effects import Question
from zkcontroller.errors import BrokerIdInUse
from zkcontroller.model import Broker, Endpoint
from zkcontroller.zookeeper.requests import (
    Committed,
    Create,
    Delete,
    ReadZnodes,
    RolledBack,
    SetData,
    UnfencedBatch,
    Write,
    ZkCode,
    ZkTransaction,
)
from zkcontroller.zookeeper.znodes import BrokerIdZnode

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
"""Each with its parent before it."""

POLL_MS: Final = 500


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to ask: go on after this long."""

    delay_ms: int


Step: TypeAlias = Question | Wait


def broker_of(broker_id: int) -> Broker:
    """The broker as it registers: one listener on a port that follows from its id."""
    endpoint = Endpoint(f"host{broker_id}", 9092, "PLAINTEXT", "PLAINTEXT")
    return Broker(broker_id, (endpoint,))


def create_persistent_paths() -> Generator[Step, Any, None]:
    """Creates every parent that a fresh cluster lacks."""
    yield UnfencedBatch([Create(path) for path in PERSISTENT_PATHS])


def register(
    broker: Broker,
    now_ms: int,
    own_session_id: int,
    past_session_ids: tuple[int, ...],
    wait_ms: int,
) -> Generator[Step, Any, int]:
    """Registers the broker and returns its epoch.

    While a predecessor's session still owns the znode, waits up to ``wait_ms`` for it to end; then
    raises BrokerIdInUse.
    """
    path = BrokerIdZnode.path(broker.broker_id)
    data = BrokerIdZnode(broker, now_ms).encode()
    fresh: list[Write] = [Create(path, ephemeral=True), SetData(path, data, 0)]
    stale: list[Write] = []
    while True:
        outcome: Committed | RolledBack = yield ZkTransaction([*stale, *fresh])
        stale = []
        if isinstance(outcome, Committed):
            return outcome.results[-1].czxid
        (found,) = yield ReadZnodes([path])
        if isinstance(found, ZkCode):
            continue
        if found.ephemeral_owner == own_session_id:
            return int(found.czxid)  # the reply to our own success was lost
        if found.ephemeral_owner in past_session_ids:
            stale = [Delete(path, found.zk_version)]
            continue
        if wait_ms <= 0:
            raise BrokerIdInUse(f"broker id {broker.broker_id} belongs to another live session")
        wait_ms -= POLL_MS
        yield Wait(POLL_MS)
