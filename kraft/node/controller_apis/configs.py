"""Dynamic configuration of topics, brokers and loggers, and feature levels.

Source: Kafka ``ControllerApis.handleIncrementalAlterConfigs``, ``handleLegacyAlterConfigs``,
``handleUpdateFeatures`` (KIP-339, KIP-584).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation, ResourceType
from kafka_common.api_error import ApiError, ApiException
from kafka_common.model import ConfigResourceType, OpType
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.milliseconds import milliseconds
from kafka_common.protocol.request_types import field_or
from kafka_common.protocol.versioned_messages import response_schema
from kraft.controller.config_schema import ConfigResource
from kraft.controller.configuration_control import ConfigOperation
from kraft.controller.features import FeatureLevelUpdate, UpgradeType
from kraft.controller.quorum_controller_requests import (
    IncrementalAlterConfigs,
    LegacyAlterConfigs,
    UpdateFeatureLevels,
)
from kraft.node.controller_apis.call import Call, ControllerApi
from kraft.node.controller_apis.loggers import alter_loggers
from kraft.node.controller_apis.refusals import CLUSTER_REFUSED, TOPIC_REFUSED
from replica_manager.server.configs.altered_resources import NamedResource, alteration_response

_R = TypeVar("_R", bound=NamedResource)
_DUPLICATE: Final = ApiError(ErrorCode.invalid_request, "Duplicate resource.")
_OPERATIONS: Final = frozenset(each.value for each in OpType)
_LOGGER: Final = ConfigResourceType.BROKER_LOGGER


async def _incremental_alter(
    request: request_types.IncrementalAlterConfigsRequest, call: Call
) -> ResponsePayload:
    loggers = [each for each in request.resources if each.resource_type == _LOGGER]
    others = [each for each in request.resources if each.resource_type != _LOGGER]
    try:
        altered = [alter_loggers(e, call, validate_only=request.validate_only) for e in loggers]
        refused, resources = _split_refused(others, call)
        wanted: dict[ConfigResource, dict[str, ConfigOperation]] = {}
        for key, resource in resources.items():
            codes = [config.config_operation for config in resource.configs]
            if any(code not in _OPERATIONS for code in codes):
                message = "Unknown operation type of a configuration key"
                refused[key] = ApiError(ErrorCode.invalid_request, message)
                continue
            wanted[key] = {
                config.name: ConfigOperation(OpType(config.config_operation), config.value)
                for config in resource.configs
            }
        results = await call.ask(IncrementalAlterConfigs(wanted, request.validate_only))
    except ApiException as error:
        return _refusal(ApiKey.INCREMENTAL_ALTER_CONFIGS, call, request.resources, error)
    rows = [*(refused | results).items(), *zip(map(_key, loggers), altered, strict=True)]
    return _response(ApiKey.INCREMENTAL_ALTER_CONFIGS, call, rows)


async def _legacy_alter(request: request_types.AlterConfigsRequest, call: Call) -> ResponsePayload:
    try:
        refused, resources = _split_refused(request.resources, call)
        wanted: dict[ConfigResource, dict[str, str | None]] = {
            key: {config.name: config.value for config in resource.configs}
            for key, resource in resources.items()
        }
        results = await call.ask(LegacyAlterConfigs(wanted, request.validate_only))
    except ApiException as error:
        return _refusal(ApiKey.ALTER_CONFIGS, call, request.resources, error)
    return _response(ApiKey.ALTER_CONFIGS, call, (refused | results).items())


def _key(resource: NamedResource) -> ConfigResource:
    return ConfigResource(resource.resource_type, resource.resource_name)


def _split_refused(
    resources: Sequence[_R], call: Call
) -> tuple[dict[ConfigResource, ApiError], dict[ConfigResource, _R]]:
    """The resources that are refused here, with their errors, and those for the controller."""
    counts = Counter(map(_key, resources))
    refused: dict[ConfigResource, ApiError] = {}
    left: dict[ConfigResource, _R] = {}
    for resource in resources:
        key = _key(resource)
        error = _DUPLICATE if counts[key] > 1 else _error_of(key, call)
        if error is None:
            left[key] = resource
        else:
            refused[key] = error
    return refused, left


def _error_of(resource: ConfigResource, call: Call) -> ApiError | None:
    """The error if this client may not alter that resource; None if it may."""
    permissions = call.permissions
    match resource.resource_type:
        case ConfigResourceType.BROKER | ConfigResourceType.CLIENT_METRICS:
            is_allowed = permissions.allow_on_cluster(AclOperation.ALTER_CONFIGS)
            return None if is_allowed else CLUSTER_REFUSED
        case ConfigResourceType.TOPIC:
            is_allowed = permissions.allow(
                AclOperation.ALTER_CONFIGS, ResourceType.TOPIC, resource.name
            )
            return None if is_allowed else TOPIC_REFUSED
        case ConfigResourceType.BROKER_LOGGER:
            return ApiError(ErrorCode.invalid_request, "Unexpected resource type BROKER_LOGGER.")
        case code:
            return ApiError(ErrorCode.unsupported_version, f"Unknown resource type {code}.")


def _refusal(
    api_key: ApiKey, call: Call, resources: Iterable[NamedResource], error: ApiException
) -> ResponsePayload:
    return _response(api_key, call, [(_key(each), error.to_error()) for each in resources])


def _response(
    api_key: ApiKey, call: Call, results: Iterable[tuple[ConfigResource, ApiError]]
) -> ResponsePayload:
    return alteration_response(
        api_key,
        call.version,
        (
            (resource.resource_type, resource.name, error.error, error.message)
            for resource, error in results
        ),
    )


async def _update_features(
    request: request_types.UpdateFeaturesRequest, call: Call
) -> ResponsePayload:
    schema = response_schema(ApiKey.UPDATE_FEATURES, call.version)
    updates = {
        update.feature: FeatureLevelUpdate(update.max_version_level, _upgrade_type(update))
        for update in request.feature_updates
    }
    wanted = UpdateFeatureLevels(updates, field_or(request, "validate_only", False))
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


def _upgrade_type(update: request_types.FeatureUpdateKey) -> UpgradeType:
    code = field_or(update, "upgrade_type", None)
    if code is not None:
        return UpgradeType.from_code(code)
    # In version 0 every downgrade is a safe one.
    is_downgrade = field_or(update, "allow_downgrade", False)
    return UpgradeType.SAFE_DOWNGRADE if is_downgrade else UpgradeType.UPGRADE


CONFIG_APIS: Final[Mapping[int, ControllerApi]] = {
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ControllerApi(0, 1, _incremental_alter),
    ApiKey.ALTER_CONFIGS: ControllerApi(0, 2, _legacy_alter),
    ApiKey.UPDATE_FEATURES: ControllerApi(0, 1, _update_features, AclOperation.ALTER),
}
