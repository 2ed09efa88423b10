"""Requests to change configurations, as controllers and brokers get them."""

from __future__ import annotations

from typing import Any

from kio.static.primitive import i8

from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.versioned_messages import request_schema


def altered_resources(*resources: tuple[int, str, str, int, str | None]) -> tuple[Any, ...]:
    """For IncrementalAlterConfigs: type, name, key, operation and value of one change each."""
    schema = request_schema(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1)
    return tuple(
        schema.part(
            "AlterConfigsResource",
            resource_type=i8(resource_type),
            resource_name=name,
            configs=(
                schema.part(
                    "AlterableConfig", name=key, config_operation=i8(operation), value=value
                ),
            ),
        )
        for resource_type, name, key, operation, value in resources
    )
