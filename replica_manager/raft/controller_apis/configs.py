"""Dynamic configuration of topics and brokers, and the levels of features.

Source: Kafka ``ControllerApis.handleIncrementalAlterConfigs``, ``handleLegacyAlterConfigs``,
``handleUpdateFeatures`` (KIP-339, KIP-584).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from replica_manager.raft.controller_apis.call import Call, ControllerApi, milliseconds
from replica_manager.server.schema import ResponseSchema, response_schema
from zkcontroller.kraft.controller.api_error import ApiError, ApiException
from zkcontroller.kraft.controller.config_schema import ConfigResource
from zkcontroller.kraft.controller.configuration_control import ConfigOperation, OpType
from zkcontroller.kraft.controller.features import FeatureUpdate, UpgradeType
from zkcontroller.kraft.controller.quorum_controller_requests import (
    IncrementalAlterConfigs,
    LegacyAlterConfigs,
    UpdateFeatures,
)
from zkcontroller.protocol.api_versions import ApiKey
from zkcontroller.zookeeper.kafka_acl_znodes import AclOperation

_DUPLICATE_RESOURCE: Final = ApiError(
    ErrorCode.invalid_request, "Each resource must appear at most once."
)
_DUPLICATE_KEY: Final = ApiError(ErrorCode.invalid_request, "Error due to duplicate config keys")
_ALLOWS_DOWNGRADE: Final = "allow_downgrade"


async def _incremental_alter(request: Any, call: Call) -> ResponsePayload:
    schema = response_schema(ApiKey.INCREMENTAL_ALTER_CONFIGS, call.version)
    refused = _refused(request.resources)
    wanted: dict[ConfigResource, dict[str, ConfigOperation]] = {}
    for resource in request.resources:
        key = _key(resource)
        if key in refused:
            continue
        operations = [OpType._value2member_map_.get(c.config_operation) for c in resource.configs]
        if None in operations:
            message = "Unknown operation type of a configuration key"
            refused[key] = ApiError(ErrorCode.invalid_request, message)
            continue
        wanted[key] = {
            config.name: ConfigOperation(OpType(config.config_operation), config.value)
            for config in resource.configs
        }
    asked = IncrementalAlterConfigs(wanted, request.validate_only)
    results = refused | await _altered(call, asked, wanted)
    return _response(schema, results)


async def _legacy_alter(request: Any, call: Call) -> ResponsePayload:
    schema = response_schema(ApiKey.ALTER_CONFIGS, call.version)
    refused = _refused(request.resources)
    wanted: dict[ConfigResource, dict[str, str | None]] = {
        _key(resource): {config.name: config.value for config in resource.configs}
        for resource in request.resources
        if _key(resource) not in refused
    }
    asked = LegacyAlterConfigs(wanted, request.validate_only)
    results = refused | await _altered(call, asked, wanted)
    return _response(schema, results)


def _key(resource: Any) -> ConfigResource:
    return ConfigResource(resource.resource_type, resource.resource_name)


def _refused(resources: Iterable[Any]) -> dict[ConfigResource, ApiError]:
    """What need not be looked at: resources and keys that are named twice."""
    resources = list(resources)
    counts = Counter(map(_key, resources))
    refused = {key: _DUPLICATE_RESOURCE for key, count in counts.items() if count > 1}
    for resource in resources:
        names = [config.name for config in resource.configs]
        if len(set(names)) < len(names):
            refused.setdefault(_key(resource), _DUPLICATE_KEY)
    return refused


async def _altered(
    call: Call,
    request: IncrementalAlterConfigs | LegacyAlterConfigs,
    wanted: Mapping[ConfigResource, object],
) -> dict[ConfigResource, ApiError]:
    try:
        altered: dict[ConfigResource, ApiError] = await call.ask(request)
    except ApiException as error:
        return dict.fromkeys(wanted, error.to_error())
    return altered


def _response(
    schema: ResponseSchema, results: Mapping[ConfigResource, ApiError]
) -> ResponsePayload:
    return schema.response(
        responses=tuple(
            schema.part(
                "AlterConfigsResourceResponse",
                error_code=error.error,
                error_message=error.message,
                resource_type=resource.resource_type,
                resource_name=resource.name,
            )
            for resource, error in results.items()
        )
    )


async def _update_features(request: Any, call: Call) -> ResponsePayload:
    schema = response_schema(ApiKey.UPDATE_FEATURES, call.version)
    updates = {
        update.feature: FeatureUpdate(update.max_version_level, _upgrade_type(update))
        for update in request.feature_updates
    }
    wanted = UpdateFeatures(updates, getattr(request, "validate_only", False))
    failure = ApiError()
    results: Mapping[str, ApiError] = {}
    try:
        results = await call.ask(wanted, milliseconds(request.timeout))
    except ApiException as error:
        failure = error.to_error()
    return schema.response(
        error_code=failure.error,
        error_message=failure.message,
        results=tuple(
            schema.part(
                "UpdatableFeatureResult",
                feature=name,
                error_code=error.error,
                error_message=error.message,
            )
            for name, error in results.items()
        ),
    )


def _upgrade_type(update: Any) -> UpgradeType:
    if hasattr(update, _ALLOWS_DOWNGRADE):
        return UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
    return UpgradeType.from_code(update.upgrade_type)


CONFIG_APIS: Final[Mapping[int, ControllerApi]] = {
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ControllerApi(0, 1, _incremental_alter),
    ApiKey.ALTER_CONFIGS: ControllerApi(0, 2, _legacy_alter),
    ApiKey.UPDATE_FEATURES: ControllerApi(0, 1, _update_features, AclOperation.ALTER),
}
