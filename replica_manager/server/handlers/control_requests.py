"""The check of the broker epoch, which the handlers of control requests have in common.

A request for an earlier registration of this broker has a smaller broker epoch, and is refused
first.  A larger broker epoch is accepted: the controller may see a new registration before the
broker itself.

Source: Kafka ``ZkSupport.isBrokerEpochStale``, ``AbstractControlRequest`` (KIP-380).
"""

from __future__ import annotations

import logging
from typing import TypeAlias

from kafka_common.model import UNKNOWN_BROKER_EPOCH
from kafka_common.protocol import request_types
from kafka_common.protocol.request_types import field_or
from replica_manager.server.context import BrokerContext

_ControlRequest: TypeAlias = (
    "request_types.LeaderAndIsrRequest"
    " | request_types.StopReplicaRequest | request_types.UpdateMetadataRequest"
)
_log = logging.getLogger("kafka.server.KafkaApis")


def is_stale(name: str, request: _ControlRequest, broker: BrokerContext) -> bool:
    """Whether the request is for an earlier registration of this broker; if so, it is logged."""
    requested = broker_epoch_of(request)
    current = broker.broker_epoch()
    if requested == UNKNOWN_BROKER_EPOCH or requested >= current:
        return False
    _log.info(
        "[KafkaApi-%d] Received %s request with broker epoch %d smaller than the current broker "
        "epoch %d from controller %d with epoch %d.",
        broker.broker_id,
        name,
        requested,
        current,
        request.controller_id,
        request.controller_epoch,
    )
    return True


def broker_epoch_of(request: _ControlRequest | request_types.ControlledShutdownRequest) -> int:
    """The broker epoch of the request; -1 in versions without one."""
    return field_or(request, "broker_epoch", UNKNOWN_BROKER_EPOCH)


def is_from_kraft(request: _ControlRequest) -> bool:
    """Whether a KRaft controller sent the request; False in versions without the flag."""
    return field_or(request, "is_k_raft_controller", False)
