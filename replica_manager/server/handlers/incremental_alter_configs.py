"""IncrementalAlterConfigs (44): changes single keys of configurations.

Source: Kafka ``KafkaApis.handleIncrementalAlterConfigsRequest`` (KIP-339).
"""

from __future__ import annotations

from functools import partial
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from replica_manager.server.configs.altered_resources import resources_response
from replica_manager.server.configs.config_alteration import (
    ConfigAlteration,
    ResourceChanges,
)
from replica_manager.server.configs.key_changes import KeyChange
from replica_manager.server.context import BrokerContext, EncodedBody, RequestContext
from replica_manager.server.large_answers import aside, composed
from replica_manager.server.slices import in_slices

API_KEY: Final = ApiKey.INCREMENTAL_ALTER_CONFIGS
VERSIONS: Final = (0, 1)


async def handle(
    request: request_types.IncrementalAlterConfigsRequest,
    context: RequestContext,
    broker: BrokerContext,
) -> ResponsePayload | EncodedBody:
    """One outcome per resource, in the request's order."""
    alteration = ConfigAlteration(
        broker, context, is_incremental=True, validate_only=request.validate_only
    )
    changes = [
        await aside(len(resource.configs), partial(_changes, resource))
        async for resource in in_slices(request.resources)
    ]
    outcomes = await alteration.run(changes)
    return await composed(
        len(outcomes),
        lambda: resources_response(API_KEY, context.api_version, request.resources, outcomes),
    )


def refuse(
    request: request_types.IncrementalAlterConfigsRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """Every resource of the request, with that code."""
    outcomes = [(error, None)] * len(request.resources)
    return resources_response(API_KEY, context.api_version, request.resources, outcomes)


def _changes(
    resource: request_types.IncrementalAlterConfigsAlterConfigsResource,
) -> ResourceChanges:
    return ResourceChanges(
        resource.resource_type,
        resource.resource_name,
        tuple(
            KeyChange(entry.name, entry.config_operation, entry.value) for entry in resource.configs
        ),
    )
