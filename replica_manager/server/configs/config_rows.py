"""Encodes DescribeConfigs results: resources and their configuration entries.

Source: Kafka ``ConfigHelper``, ``DescribeConfigsResponse``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from kafka_common.protocol import request_types
from kafka_common.protocol.request_types import field_or
from kafka_common.protocol.versioned_messages import ResponseSchema
from replica_manager.server.configs.config_entries import DescribedEntry


def config_result(
    schema: ResponseSchema,
    resource: request_types.DescribeConfigsResource,
    error: ErrorCode,
    message: str | None,
    configs: tuple[Any, ...] = (),
) -> Any:
    """The DescribeConfigs result of one resource."""
    return schema.part(
        "DescribeConfigsResult",
        error_code=error,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=configs,
    )


def config_rows(
    schema: ResponseSchema,
    entries: Sequence[DescribedEntry],
    request: request_types.DescribeConfigsRequest,
    wanted: Collection[str],
) -> tuple[Any, ...]:
    """The wanted entries for the response; all entries if ``wanted`` is empty."""
    has_synonyms = field_or(request, "include_synonyms", False)
    has_documentation = field_or(request, "include_documentation", False)
    wanted = frozenset(wanted)
    return tuple(
        _row(schema, entry, has_synonyms=has_synonyms, has_documentation=has_documentation)
        for entry in entries
        if not wanted or entry.name in wanted
    )


def _row(
    schema: ResponseSchema, entry: DescribedEntry, *, has_synonyms: bool, has_documentation: bool
) -> Any:
    synonyms: tuple[Any, ...] = ()
    if has_synonyms and schema.has("DescribeConfigsSynonym"):
        synonyms = tuple(
            schema.part(
                "DescribeConfigsSynonym",
                name=synonym.name,
                value=synonym.value,
                source=synonym.source,
            )
            for synonym in entry.synonyms
        )
    return schema.part(
        "DescribeConfigsResourceResult",
        name=entry.name,
        value=entry.value,
        read_only=entry.is_read_only,
        # Only version 0 has this field, which Kafka 3.9 does not set any more.
        is_default=False,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=synonyms,
        config_type=entry.type_id,
        documentation=entry.documentation
        if has_documentation or entry.documentation == ""
        else None,
    )
