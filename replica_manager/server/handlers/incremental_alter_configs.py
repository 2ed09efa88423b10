"""IncrementalAlterConfigs (44): changes single keys of configurations.

Source: Kafka ``KafkaApis.handleIncrementalAlterConfigsRequest`` (KIP-339).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from replica_manager.server.config_alteration import Change
from replica_manager.server.config_resources import ConfigAlteration, Outcome, ResourceChanges
from replica_manager.server.context import BrokerContext, RequestContext
from replica_manager.server.controller_questions import LONGEST_MESSAGE
from replica_manager.server.schema import response_schema
from zkcontroller.protocol.api_versions import ApiKey

API_KEY: Final = ApiKey.INCREMENTAL_ALTER_CONFIGS
VERSIONS: Final = (0, 1)


async def handle(request: Any, context: RequestContext, broker: BrokerContext) -> ResponsePayload:
    """One outcome per resource, in the request's order."""
    alteration = ConfigAlteration(broker, is_incremental=True, validate_only=request.validate_only)
    outcomes = await alteration.run([_changes(resource) for resource in request.resources])
    return _response(request, context, outcomes)


def refuse(request: Any, context: RequestContext, error: ErrorCode) -> ResponsePayload:
    """Every resource of the request, with that code."""
    return _response(request, context, [(error, None)] * len(request.resources))


def _changes(resource: Any) -> ResourceChanges:
    return ResourceChanges(
        resource.resource_type,
        resource.resource_name,
        tuple(
            Change(entry.name, entry.config_operation, entry.value) for entry in resource.configs
        ),
    )


def _response(
    request: Any, context: RequestContext, outcomes: Iterable[Outcome]
) -> ResponsePayload:
    schema = response_schema(API_KEY, context.api_version)
    return schema.response(
        responses=tuple(
            schema.part(
                "AlterConfigsResourceResponse",
                error_code=error,
                error_message=message and message[:LONGEST_MESSAGE],
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource, (error, message) in zip(request.resources, outcomes, strict=True)
        )
    )
