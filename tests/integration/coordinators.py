"""Who coordinates a group or a transactional id, asked of a cluster."""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest

from tests.integration.broker_processes import wait_for
from tests.integration.calls import address_of, call
from zkcontroller_testing import KafkaCluster

OF_GROUP: Final = 0
OF_TRANSACTION: Final = 1


def coordinator_of(cluster: KafkaCluster, kind: int, key: str, *, but: int | None = None) -> int:
    """The broker that coordinates ``key``, when there is one, and another than ``but``.

    ``kind``: OF_GROUP or OF_TRANSACTION.
    """
    request = FindCoordinatorRequest(key_type=kind, coordinator_keys=(key,))  # type: ignore[arg-type]
    alive = next(each for each in cluster.broker_ids if cluster.is_alive(each))

    def ask() -> int | None:
        [found] = call(address_of(cluster, alive), request).coordinators
        is_there = found.error_code is ErrorCode.none and found.node_id != but
        return int(found.node_id) if is_there else None

    return wait_for(ask, f"a coordinator of {key}")
