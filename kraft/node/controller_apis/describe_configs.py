"""DescribeConfigs (32) of a controller: its own keys and loggers, topics, clients' metrics.

Dynamic values come from the node's own copy of the metadata, so that a standby controller responds
too.

Source: Kafka ``ControllerApis.handleDescribeConfigsRequest``, ``ConfigHelper``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation, ResourceType
from kafka_common.api_error import ApiError, ApiException
from kafka_common.errors import ConfigInvalid
from kafka_common.java import parse_int
from kafka_common.model import ConfigResourceType
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.error_codes import MALFORMED
from kafka_common.protocol.versioned_messages import ResponseSchema, response_schema
from kafka_common.topic_names import invalid_name_reason
from kraft.controller.config_schema import ALL_BROKERS, ConfigResource
from kraft.controller.configuration_control import DescribedConfigs
from kraft.controller.quorum_controller_requests import DescribeConfigs, FindTopicIds
from kraft.node.controller_apis.call import Call, ControllerApi
from kraft.node.controller_apis.refusals import CLUSTER_REFUSED, TOPIC_REFUSED
from replica_manager.configuration.config import BrokerConfig
from replica_manager.server.configs.config_entries import (
    DescribedEntry,
    broker_entries,
    client_metrics_entries,
    default_broker_entries,
    logger_entries,
    topic_entries,
)
from replica_manager.server.configs.config_rows import config_result, config_rows
from replica_manager.server.configs.log_levels import log_levels

_IN_THE_LOG: Final = (ConfigResourceType.TOPIC, ConfigResourceType.CLIENT_METRICS)


class _Metadata(NamedTuple):
    """The metadata of the requested resources."""

    configs: Mapping[ConfigResource, DescribedConfigs]
    topics: Mapping[str, UUID | ApiError]
    broker: BrokerConfig
    """This node's configuration, with its dynamic values."""

    def set_for(self, resource: ConfigResource) -> Mapping[str, str]:
        """The values that are set for the resource itself, by key."""
        return _keys(self.configs[resource])


async def _describe(request: request_types.DescribeConfigsRequest, call: Call) -> ResponsePayload:
    schema = response_schema(ApiKey.DESCRIBE_CONFIGS, call.version)
    resources = request.resources
    if any(each.resource_type not in ConfigResourceType._value2member_map_ for each in resources):
        rows = [config_result(schema, e, ErrorCode.invalid_request, MALFORMED) for e in resources]
        return schema.response(results=tuple(rows))
    try:
        denials = [_denial(each, call) for each in resources]
        allowed = [each for each, denial in zip(resources, denials, strict=True) if denial is None]
        metadata = await _ask(allowed, call)
    except ApiException as failed:
        rows = [config_result(schema, each, *failed.to_error()) for each in resources]
        return schema.response(results=tuple(rows))
    rows = [_row(schema, each, request, metadata) for each in allowed]
    rows += [
        config_result(schema, each, *denial)
        for each, denial in zip(resources, denials, strict=True)
        if denial is not None
    ]
    return schema.response(results=tuple(rows))


def _denial(resource: request_types.DescribeConfigsResource, call: Call) -> ApiError | None:
    """The error if the client may not see that resource; None if it may."""
    permissions = call.permissions
    if resource.resource_type == ConfigResourceType.TOPIC:
        is_allowed = permissions.allow(
            AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, resource.resource_name
        )
        return None if is_allowed else TOPIC_REFUSED
    is_allowed = permissions.allow_on_cluster(AclOperation.DESCRIBE_CONFIGS)
    return None if is_allowed else CLUSTER_REFUSED


async def _ask(resources: Iterable[request_types.DescribeConfigsResource], call: Call) -> _Metadata:
    config = call.services.node.config
    this_node = ConfigResource(ConfigResourceType.BROKER, str(config.broker_id))
    wanted: dict[ConfigResource, tuple[str, ...]] = {ALL_BROKERS: (), this_node: ()}
    for resource in resources:
        if resource.resource_type in _IN_THE_LOG and resource.resource_name:
            wanted[ConfigResource(resource.resource_type, resource.resource_name)] = ()
    configs: Mapping[ConfigResource, DescribedConfigs] = await call.ask(DescribeConfigs(wanted))
    names = [each.name for each in wanted if each.resource_type == ConfigResourceType.TOPIC]
    topics: Mapping[str, UUID | ApiError] = await call.ask(FindTopicIds(tuple(names)))
    default, own = _keys(configs[ALL_BROKERS]), _keys(configs[this_node])
    # As in Kafka, one invalid dynamic value makes all dynamic values ineffective.
    with contextlib.suppress(ConfigInvalid):
        config = config.with_dynamic(default=default, own=own)
    return _Metadata(configs, topics, config)


def _keys(described: DescribedConfigs) -> Mapping[str, str]:
    return {} if isinstance(described, ApiError) else described


def _row(
    schema: ResponseSchema,
    resource: request_types.DescribeConfigsResource,
    request: request_types.DescribeConfigsRequest,
    metadata: _Metadata,
) -> Any:
    try:
        entries = _entries(resource, metadata)
    except ApiException as refused:
        return config_result(schema, resource, refused.error, refused.message or "")
    rows = config_rows(schema, entries, request, resource.configuration_keys or ())
    # Without an error, Kafka sends the schema's default message, an empty text.
    return config_result(schema, resource, ErrorCode.none, "", rows)


def _entries(
    resource: request_types.DescribeConfigsResource, metadata: _Metadata
) -> Sequence[DescribedEntry]:
    resource_type, name = resource.resource_type, resource.resource_name
    node_id = metadata.broker.broker_id
    match resource_type:
        case ConfigResourceType.TOPIC:
            return _topic(name, resource.configuration_keys or (), metadata)
        case ConfigResourceType.CLIENT_METRICS:
            if not name:
                raise _refusal("Client metrics subscription name must not be empty")
            return client_metrics_entries(metadata.set_for(ConfigResource(resource_type, name)))
        case ConfigResourceType.BROKER if not name:
            return default_broker_entries(metadata.broker)
        case ConfigResourceType.BROKER:
            _check_is_this_node(name, node_id, f"{node_id} or empty string,")
            return broker_entries(metadata.broker)
        case _:
            if not name:
                raise _refusal("Broker id must not be empty")
            _check_is_this_node(name, node_id, f"{node_id}")
            return logger_entries(log_levels())


def _topic(name: str, wanted: Sequence[str], metadata: _Metadata) -> Sequence[DescribedEntry]:
    reason = invalid_name_reason(name)
    if reason is not None:
        raise ApiException(ErrorCode.invalid_topic_exception, reason)
    topic = metadata.topics[name]
    if isinstance(topic, ApiError):
        raise ApiException(topic.error)
    config = metadata.set_for(ConfigResource(ConfigResourceType.TOPIC, name))
    return topic_entries(config, metadata.broker, wanted)


def _check_is_this_node(name: str, node_id: int, expected: str) -> None:
    named = parse_int(name)
    if named is None:
        raise _refusal(f"Broker id must be an integer, but it is: {name}")
    if named != node_id:
        raise _refusal(f"Unexpected broker id, expected {expected} but received {name}")


def _refusal(message: str) -> ApiException:
    return ApiException(ErrorCode.invalid_request, message)


DESCRIBE_CONFIGS_APIS: Final[Mapping[int, ControllerApi]] = {
    ApiKey.DESCRIBE_CONFIGS: ControllerApi(0, 4, _describe),
}
