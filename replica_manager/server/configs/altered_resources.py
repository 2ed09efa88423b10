"""Resources and responses that AlterConfigs and IncrementalAlterConfigs have in common.

Source: Kafka ``AlterConfigsResponse``, ``IncrementalAlterConfigsResponse``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.protocol.versioned_messages import response_schema


class NamedResource(Protocol):
    """A resource in an AlterConfigs or IncrementalAlterConfigs request."""

    @property
    def resource_type(self) -> int:
        """The code of a :class:`~kafka_common.model.ConfigResourceType`, or an unknown number."""

    @property
    def resource_name(self) -> str:
        """The name of the topic or the id of the broker; empty for all brokers."""


def alteration_response(
    api_key: int, version: int, results: Iterable[tuple[int, str, ErrorCode, str | None]]
) -> ResponsePayload:
    """The response with a type, a name, an error and a message for each resource."""
    schema = response_schema(api_key, version)
    return schema.response(
        responses=tuple(
            schema.part(
                "AlterConfigsResourceResponse",
                error_code=error,
                error_message=message,
                resource_type=resource_type,
                resource_name=name,
            )
            for resource_type, name, error, message in results
        )
    )


def resources_response(
    api_key: int,
    version: int,
    resources: Iterable[NamedResource],
    outcomes: Iterable[tuple[ErrorCode, str | None]],
) -> ResponsePayload:
    """The response with an error and a message for each resource of the request, in its order."""
    return alteration_response(
        api_key,
        version,
        (
            (resource.resource_type, resource.resource_name, *outcome)
            for resource, outcome in zip(resources, outcomes, strict=True)
        ),
    )
