"""Registrations, heartbeats and producer id blocks for brokers and controllers.

Source: Kafka ``ControllerApis.handleBrokerRegistration``, ``handleBrokerHeartBeatRequest``,
``handleUnregisterBroker``, ``handleControllerRegistration`` (KIP-631, KIP-919).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation
from kafka_common.api_error import ApiException
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.request_types import field_or
from kafka_common.protocol.versioned_messages import response_schema
from kraft.controller.cluster_requests import (
    BrokerRegistrationRequest,
    ControllerRegistrationRequest,
)
from kraft.controller.heartbeats import BrokerHeartbeat
from kraft.controller.quorum_controller_requests import (
    AllocateProducerIdBlock,
    ProcessBrokerHeartbeat,
    RegisterBroker,
    RegisterController,
    UnregisterBroker,
)
from kraft.metadata.records import BrokerEndpoint, BrokerFeature
from kraft.node.controller_apis.call import Call, ControllerApi, uuid_or_zero

HEARTBEAT_TIMEOUT_MS: Final = 1_000
"""How long a heartbeat may be queued: half of ``broker.heartbeat.interval.ms`` by default."""
_NO_EPOCH: Final = -1
_Listener: TypeAlias = (
    "request_types.BrokerRegistrationListener | request_types.ControllerRegistrationListener"
)
_Feature: TypeAlias = (
    "request_types.BrokerRegistrationFeature | request_types.ControllerRegistrationFeature"
)
_NO_PRODUCER_ID: Final = -1


async def _register_broker(
    request: request_types.BrokerRegistrationRequest, call: Call
) -> ResponsePayload:
    schema = response_schema(ApiKey.BROKER_REGISTRATION, call.version)
    wanted = BrokerRegistrationRequest(
        broker_id=request.broker_id,
        cluster_id=request.cluster_id,
        incarnation_id=uuid_or_zero(request.incarnation_id),
        listeners=_endpoints(request.listeners),
        features=_features(request.features),
        rack=request.rack,
        is_migrating_zk_broker=field_or(request, "is_migrating_zk_broker", False),
        log_dirs=tuple(map(uuid_or_zero, field_or(request, "log_dirs", ()))),
    )
    try:
        reply = await call.ask(RegisterBroker(wanted))
    except ApiException as refused:
        return schema.response(error_code=refused.error, broker_epoch=_NO_EPOCH)
    return schema.response(error_code=ErrorCode.none, broker_epoch=reply.epoch)


async def _heartbeat(request: request_types.BrokerHeartbeatRequest, call: Call) -> ResponsePayload:
    schema = response_schema(ApiKey.BROKER_HEARTBEAT, call.version)
    heartbeat = BrokerHeartbeat(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        current_metadata_offset=request.current_metadata_offset,
        want_fence=request.want_fence,
        want_shut_down=request.want_shut_down,
        offline_log_dirs=tuple(map(uuid_or_zero, field_or(request, "offline_log_dirs", ()))),
    )
    try:
        reply = await call.ask(ProcessBrokerHeartbeat(heartbeat), HEARTBEAT_TIMEOUT_MS)
    except ApiException as refused:
        return schema.response(
            error_code=refused.error, is_caught_up=False, is_fenced=True, should_shut_down=False
        )
    return schema.response(
        error_code=ErrorCode.none,
        is_caught_up=reply.is_caught_up,
        is_fenced=reply.is_fenced,
        should_shut_down=reply.should_shut_down,
    )


async def _unregister_broker(
    request: request_types.UnregisterBrokerRequest, call: Call
) -> ResponsePayload:
    schema = response_schema(ApiKey.UNREGISTER_BROKER, call.version)
    try:
        await call.ask(UnregisterBroker(request.broker_id))
    except ApiException as refused:
        return schema.response(error_code=refused.error, error_message=refused.message)
    return schema.response(error_code=ErrorCode.none, error_message=None)


async def _register_controller(
    request: request_types.ControllerRegistrationRequest, call: Call
) -> ResponsePayload:
    schema = response_schema(ApiKey.CONTROLLER_REGISTRATION, call.version)
    wanted = ControllerRegistrationRequest(
        controller_id=request.controller_id,
        incarnation_id=uuid_or_zero(request.incarnation_id),
        zk_migration_ready=request.zk_migration_ready,
        listeners=_endpoints(request.listeners),
        features=_features(request.features),
    )
    try:
        await call.ask(RegisterController(wanted))
    except ApiException as refused:
        return schema.response(error_code=refused.error, error_message=refused.message)
    return schema.response(error_code=ErrorCode.none, error_message=None)


async def _allocate_producer_ids(
    request: request_types.AllocateProducerIdsRequest, call: Call
) -> ResponsePayload:
    schema = response_schema(ApiKey.ALLOCATE_PRODUCER_IDS, call.version)
    try:
        block = await call.ask(AllocateProducerIdBlock(request.broker_id, request.broker_epoch))
    except ApiException as refused:
        return schema.response(
            error_code=refused.error, producer_id_start=_NO_PRODUCER_ID, producer_id_len=0
        )
    return schema.response(
        error_code=ErrorCode.none,
        producer_id_start=block.first_producer_id,
        producer_id_len=block.size,
    )


def _endpoints(listeners: Iterable[_Listener]) -> tuple[BrokerEndpoint, ...]:
    return tuple(
        BrokerEndpoint(
            name=listener.name,
            host=listener.host,
            port=listener.port,
            security_protocol=listener.security_protocol,
        )
        for listener in listeners
    )


def _features(features: Iterable[_Feature]) -> tuple[BrokerFeature, ...]:
    return tuple(
        BrokerFeature(
            name=feature.name,
            min_supported_version=feature.min_supported_version,
            max_supported_version=feature.max_supported_version,
        )
        for feature in features
    )


CLUSTER_APIS: Final[Mapping[int, ControllerApi]] = {
    ApiKey.BROKER_REGISTRATION: ControllerApi(0, 4, _register_broker, AclOperation.CLUSTER_ACTION),
    ApiKey.BROKER_HEARTBEAT: ControllerApi(0, 1, _heartbeat, AclOperation.CLUSTER_ACTION),
    ApiKey.UNREGISTER_BROKER: ControllerApi(0, 0, _unregister_broker, AclOperation.ALTER),
    ApiKey.CONTROLLER_REGISTRATION: ControllerApi(
        0, 0, _register_controller, AclOperation.CLUSTER_ACTION
    ),
    ApiKey.ALLOCATE_PRODUCER_IDS: ControllerApi(
        0, 0, _allocate_producer_ids, AclOperation.CLUSTER_ACTION
    ),
}
