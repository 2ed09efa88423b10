"""ApiVersions (18) of a quorum node: offered APIs and finalized features.

The controller provides the finalized features.  A busy controller is waited for only briefly: other
nodes send ApiVersions before any other request, so elections would wait too.  Then the response has
the features that the controller returned last.

Source: Kafka ``SimpleApiVersionManager``, ``ApiVersionsResponse``, ``FeaturesPublisher`` (KIP-511,
KIP-584).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.api_error import ApiException
from kafka_common.protocol.api_versions import (
    ApiKey,
    api_versions_error,
    client_software,
    unsupported_api_versions_response,
)
from kafka_common.protocol.framing import RequestHeader
from kafka_common.protocol.messages import read_request
from kafka_common.protocol.versioned_messages import ResponseSchema, response_schema
from kraft.controller.features import NEVER_CHANGED, FinalizedControllerFeatures
from kraft.controller.quorum_controller_requests import GetFinalizedFeatures
from kraft.controller.quorum_features import default_feature_map
from kraft.metadata.metadata_version import FEATURE_NAME, MINIMUM_KRAFT_VERSION
from kraft.node.controller_apis.call import Controller

API_VERSIONS: Final = (0, 4)
LONGEST_WAIT_S: Final = 0.05
"""The longest wait for the controller."""
_SUPPORTS_LEVEL_0_SINCE: Final = 4
_UNKNOWN: Final = FinalizedControllerFeatures(
    {FEATURE_NAME: MINIMUM_KRAFT_VERSION.level}, NEVER_CHANGED
)
"""The features that a Kafka controller returns before it has read a record."""


class NodeVersions:
    """Responds to ApiVersions for one node.  For the event loop."""

    def __init__(
        self, offered: Mapping[int, tuple[int, int]], controller: Controller | None
    ) -> None:
        """``offered`` is first and last version by API key; no controller means no features."""
        self._offered = offered
        self._controller = controller
        self._known = _UNKNOWN
        self._asking: asyncio.Task[None] | None = None

    async def respond(self, header: RequestHeader, data: bytes, start: int) -> ResponsePayload:
        """The response to the request at ``start``; InvalidFrame if it is malformed."""
        first, last = API_VERSIONS
        version = header.api_version
        if not first <= version <= last:
            return unsupported_api_versions_response()
        request: Any = read_request(ApiKey.API_VERSIONS, version, data, start)
        if client_software(version, request) is None:
            return api_versions_error(version, ErrorCode.invalid_request)
        schema = response_schema(ApiKey.API_VERSIONS, version)
        features = {}
        if self._controller is not None and schema.has("FinalizedFeatureKey"):
            features = _feature_fields(schema, await self._finalized(self._controller))
        return schema.response(
            error_code=ErrorCode.none, api_keys=_api_keys(schema, self._offered), **features
        )

    async def _finalized(self, controller: Controller) -> FinalizedControllerFeatures:
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask(controller))
        await asyncio.wait((self._asking,), timeout=LONGEST_WAIT_S)
        return self._known

    async def _ask(self, controller: Controller) -> None:
        try:
            self._known = await controller.ask(GetFinalizedFeatures())
        except (ApiException, ConnectionAbortedError):
            # Without a controller, the features that it returned last are used.
            return


def _api_keys(schema: ResponseSchema, offered: Mapping[int, tuple[int, int]]) -> tuple[Any, ...]:
    return tuple(
        schema.part("ApiVersion", api_key=key, min_version=first, max_version=last)
        for key, (first, last) in sorted(offered.items())
    )


def _feature_fields(
    schema: ResponseSchema, finalized: FinalizedControllerFeatures
) -> dict[str, object]:
    return {
        "supported_features": tuple(
            schema.part(
                "SupportedFeatureKey", name=name, min_version=levels.min, max_version=levels.max
            )
            for name, levels in sorted(default_feature_map().items())
            # Older clients take level 0 for an error.
            if levels.min > 0 or schema.version >= _SUPPORTS_LEVEL_0_SINCE
        ),
        "finalized_features_epoch": finalized.epoch,
        "finalized_features": tuple(
            schema.part(
                "FinalizedFeatureKey", name=name, max_version_level=level, min_version_level=level
            )
            for name, level in sorted(finalized.levels.items())
            if level > 0
        ),
        # A migration from ZooKeeper is not offered.
        "zk_migration_ready": False,
    }
