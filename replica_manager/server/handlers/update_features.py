"""UpdateFeatures (57): changes the finalized features of the cluster.

The controller writes the features, and the response waits until this broker has read them.  In
Kafka the controller's event thread waits for that; here only the request waits.

Source: Kafka ``KafkaApis.handleUpdateFeatures``, ``KafkaController.processFeatureUpdates``,
``UpdateFeaturesRequest`` (KIP-584, KIP-778).
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload
from msgspec.structs import replace

from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.inter_broker_versions import is_feature_versioning_supported
from kafka_common.protocol.request_types import field_or
from kafka_common.protocol.versioned_messages import response_schema
from replica_manager.request_errors import RequestRefused
from replica_manager.server.context import BrokerContext, EncodedBody, RequestContext
from replica_manager.server.controller_requests import ask, sentence, timeout_ms_of
from replica_manager.server.large_responses import composed
from replica_manager.server.slices import in_slices
from zkcontroller.core.effects import FeatureResults
from zkcontroller.core.events import FeatureUpdate, UpdateFeatures

API_KEY: Final = ApiKey.UPDATE_FEATURES
VERSIONS: Final = (0, 1)
_UPGRADE: Final = 1
_SAFE_DOWNGRADE: Final = 2


async def handle(
    request: request_types.UpdateFeaturesRequest, context: RequestContext, broker: BrokerContext
) -> ResponsePayload | EncodedBody:
    """The response with one result per feature, or only an error code."""
    if not broker.administration.controller.is_active:
        raise RequestRefused(ErrorCode.not_controller)
    if not is_feature_versioning_supported(broker.config().inter_broker_version):
        return _response(
            context,
            FeatureResults(ErrorCode.invalid_request, "Feature versioning system is disabled."),
        )
    # If a feature is named twice, the last update is used.
    updates = {
        update.feature: _update(update) async for update in in_slices(request.feature_updates)
    }
    response = await ask(
        broker,
        lambda request_id: UpdateFeatures(
            tuple(updates.values()), field_or(request, "validate_only", False), request_id
        ),
        FeatureResults,
        timeout_ms_of(request),
    )
    if response.epoch is not None and not await broker.administration.features.reaches(
        response.epoch, timeout_ms_of(request)
    ):
        # The features are written, but not read in time: FEATURE_UPDATE_FAILED, as in Kafka.
        response = replace(
            response,
            results=tuple(
                (feature, code or ErrorCode.feature_update_failed, message)
                for feature, code, message in response.results
            ),
        )
    return await composed(len(response.results), lambda: _response(context, response))


def refuse(
    _request: request_types.UpdateFeaturesRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with only an error code."""
    return _response(context, FeatureResults(error))


def _update(update: request_types.FeatureUpdateKey) -> FeatureUpdate:
    # Version 0 has only safe downgrades.
    is_downgrade = field_or(update, "allow_downgrade", False)
    upgrade_type = field_or(update, "upgrade_type", _SAFE_DOWNGRADE if is_downgrade else _UPGRADE)
    return FeatureUpdate(update.feature, update.max_version_level, upgrade_type)


def _response(context: RequestContext, response: FeatureResults) -> ResponsePayload:
    schema = response_schema(API_KEY, context.api_version)
    error = response.error_code
    return schema.response(
        error_code=error,
        error_message=sentence(error, response.message),
        results=tuple(
            schema.part(
                "UpdatableFeatureResult",
                feature=feature,
                error_code=code,
                error_message=sentence(code, message),
            )
            for feature, code, message in response.results
        ),
    )
