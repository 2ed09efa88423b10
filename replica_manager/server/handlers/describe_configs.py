"""DescribeConfigs (32): the configuration of topics and brokers, and the levels of loggers.

Source: Kafka ``ConfigHelper.describeConfigs``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation
from kafka_common.acls import ResourceType as AclResourceType
from kafka_common.errors import ZkControllerError
from kafka_common.java import parse_int
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.error_codes import MALFORMED, error_code_for
from kafka_common.protocol.versioned_messages import response_schema
from replica_manager.request_errors import RequestRefused
from replica_manager.server.authorization import is_allowed, is_cluster_allowed
from replica_manager.server.configs.config_entries import (
    DescribedEntry,
    broker_entries,
    default_broker_entries,
    logger_entries,
    topic_entries,
)
from replica_manager.server.configs.config_responses import ConfigResults
from replica_manager.server.configs.config_rows import config_result
from replica_manager.server.configs.log_levels import log_levels
from replica_manager.server.context import BrokerContext, EncodedBody, RequestContext
from replica_manager.server.slices import in_slices
from replica_manager.server.topics.topic_creation import check_name

API_KEY: Final = ApiKey.DESCRIBE_CONFIGS
VERSIONS: Final = (0, 4)
_TOPIC: Final = 2
_TYPES: Final = frozenset({_TOPIC, 4, 8, 16})
"""TOPIC, BROKER, BROKER_LOGGER and CLIENT_METRICS."""
_SENTENCES: Final = {
    ErrorCode.topic_authorization_failed: "Topic authorization failed.",
    ErrorCode.cluster_authorization_failed: "Cluster authorization failed.",
}


async def handle(
    request: request_types.DescribeConfigsRequest, context: RequestContext, broker: BrokerContext
) -> EncodedBody:
    """The response with one result per resource; unauthorized ones are at the end."""
    described = ConfigResults(
        request, context.api_version, broker.config().integer("socket.request.max.bytes")
    )
    async for resource in in_slices(request.resources):
        if resource.resource_type not in _TYPES:
            raise RequestRefused(ErrorCode.invalid_request)  # of all resources, as in Kafka
    unauthorized = []
    own = _OwnEntries(broker)
    async for resource in in_slices(request.resources):
        if (denied := _unauthorized(resource, context, broker)) is not None:
            unauthorized.append((resource, denied))
            continue
        # The message is empty, not null, without an error, as in Kafka.
        error, message = ErrorCode.none, ""
        entries: Sequence[DescribedEntry] = ()
        try:
            entries = await _entries(resource, broker, own)
        except RequestRefused as refused:
            error, message = refused.error, refused.message or ""
        except ZkControllerError as failure:
            error, message = error_code_for(failure), str(failure)
        described.add(resource, error, message, entries)
    async for resource, denied in in_slices(unauthorized):
        described.add(resource, denied, _SENTENCES[denied])
    return described.response()


def _unauthorized(
    resource: request_types.DescribeConfigsResource, context: RequestContext, broker: BrokerContext
) -> ErrorCode | None:
    """The error if the client may not see the resource's configuration; None if it may."""
    if resource.resource_type == _TOPIC:
        is_free = is_allowed(
            broker,
            context,
            AclOperation.DESCRIBE_CONFIGS,
            AclResourceType.TOPIC,
            resource.resource_name,
        )
        return None if is_free else ErrorCode.topic_authorization_failed
    is_free = is_cluster_allowed(broker, context, AclOperation.DESCRIBE_CONFIGS)
    return None if is_free else ErrorCode.cluster_authorization_failed


def refuse(
    request: request_types.DescribeConfigsRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with ``error`` for every resource of the request."""
    message = MALFORMED if error is ErrorCode.invalid_request else None
    schema = response_schema(API_KEY, context.api_version)
    return schema.response(
        results=tuple(config_result(schema, each, error, message) for each in request.resources)
    )


class _OwnEntries:
    """This broker's own configuration entries, made at most once per request."""

    def __init__(self, broker: BrokerContext) -> None:
        self._broker = broker

    @cached_property
    def config(self) -> Sequence[DescribedEntry]:
        return broker_entries(self._broker.config())

    @cached_property
    def default_config(self) -> Sequence[DescribedEntry]:
        return default_broker_entries(self._broker.config())

    @cached_property
    def loggers(self) -> Sequence[DescribedEntry]:
        return logger_entries(log_levels())


async def _entries(
    resource: request_types.DescribeConfigsResource, broker: BrokerContext, own: _OwnEntries
) -> Sequence[DescribedEntry]:
    match resource.resource_type:
        case 2:  # TOPIC
            return await _topic(resource, broker)
        case 4:  # BROKER
            return _broker(resource.resource_name, broker, own)
        case 8:  # BROKER_LOGGER
            return _loggers(resource.resource_name, broker, own)
        case _:
            raise RequestRefused(
                ErrorCode.invalid_request,
                "Config type client-metrics is only supported on KRaft clusters"
                if resource.resource_name
                else "Client metrics subscription name must not be empty",
            )


async def _topic(
    resource: request_types.DescribeConfigsResource, broker: BrokerContext
) -> Sequence[DescribedEntry]:
    name = resource.resource_name
    check_name(name)
    if name not in broker.metadata_cache.snapshot.partitions:
        raise RequestRefused(ErrorCode.unknown_topic_or_partition)
    config = await broker.administration.topics.config_of(f"topics/{name}")
    return topic_entries(config, broker.config(), resource.configuration_keys or ())


def _loggers(name: str, broker: BrokerContext, own: _OwnEntries) -> Sequence[DescribedEntry]:
    if not name:
        raise RequestRefused(ErrorCode.invalid_request, "Broker id must not be empty")
    if _broker_id(name) != broker.broker_id:
        raise RequestRefused(
            ErrorCode.invalid_request,
            f"Unexpected broker id, expected {broker.broker_id} but received {name}",
        )
    return own.loggers


def _broker(name: str, broker: BrokerContext, own: _OwnEntries) -> Sequence[DescribedEntry]:
    if not name:
        return own.default_config
    if _broker_id(name) != broker.broker_id:
        raise RequestRefused(
            ErrorCode.invalid_request,
            f"Unexpected broker id, expected {broker.broker_id} or empty string, "
            f"but received {name}",
        )
    return own.config


def _broker_id(name: str) -> int:
    broker_id = parse_int(name)
    if broker_id is None:
        raise RequestRefused(
            ErrorCode.invalid_request, f"Broker id must be an integer, but it is: {name}"
        )
    return broker_id
