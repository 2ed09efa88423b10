"""AlterClientQuotas (49): sets and removes quotas of users, client ids and addresses.

Any broker handles it.  The change is written to ZooKeeper, which notifies every broker.

Source: Kafka ``KafkaApis.handleAlterClientQuotasRequest``, ``ZkAdminManager.alterClientQuotas``
(KIP-546).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final, TypeAlias

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.errors import ZkControllerError
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.error_codes import error_code_for
from kafka_common.protocol.versioned_messages import response_schema
from replica_manager.request_errors import RequestRefused
from replica_manager.server.context import BrokerContext, EncodedBody, RequestContext
from replica_manager.server.controller_requests import sentence
from replica_manager.server.large_responses import composed
from replica_manager.server.quota_entities import Entity, QuotaChange
from replica_manager.server.slices import in_slices

API_KEY: Final = ApiKey.ALTER_CLIENT_QUOTAS
VERSIONS: Final = (0, 1)

_Outcome: TypeAlias = tuple[ErrorCode, str | None]
_log = logging.getLogger("kafka.server.ZkAdminManager")
_REFUSED: Final = "[Admin Manager on Broker %d]: Error encountered while updating client quotas: %s"


async def handle(
    request: request_types.AlterClientQuotasRequest, context: RequestContext, broker: BrokerContext
) -> ResponsePayload | EncodedBody:
    """The response with one result per entity; for an entity named twice, the last result."""
    outcomes: dict[frozenset[tuple[str, str | None]], tuple[Entity, _Outcome]] = {}
    async for entry in in_slices(request.entries):
        entity = _entity(entry)
        outcome = await _alter(entity, entry, broker, validate_only=request.validate_only)
        outcomes[frozenset(entity.items())] = entity, outcome
    return await composed(len(outcomes), lambda: _response(context, outcomes.values()))


def refuse(
    request: request_types.AlterClientQuotasRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with ``error`` for every entity of the request."""
    outcome = error, sentence(error)
    return _response(context, [(_entity(entry), outcome) for entry in request.entries])


def _entity(entry: request_types.EntryData) -> Entity:
    return {each.entity_type: each.entity_name for each in entry.entity}


async def _alter(
    entity: Entity,
    entry: request_types.EntryData,
    broker: BrokerContext,
    *,
    validate_only: bool,
) -> _Outcome:
    changes = [QuotaChange(each.key, None if each.remove else each.value) for each in entry.ops]
    try:
        await broker.administration.admin.alter_client_quotas(
            entity, changes, validate_only=validate_only
        )
    except RequestRefused as refused:
        _log.info(_REFUSED, broker.broker_id, refused)
        return refused.error, refused.message
    except ZkControllerError as failure:
        _log.info(_REFUSED, broker.broker_id, failure)
        return error_code_for(failure), None
    return ErrorCode.none, None


def _response(
    context: RequestContext, outcomes: Iterable[tuple[Entity, _Outcome]]
) -> ResponsePayload:
    schema = response_schema(API_KEY, context.api_version)
    return schema.response(
        entries=tuple(
            schema.part(
                "EntryData",
                error_code=error,
                error_message=message,
                entity=tuple(
                    schema.part("EntityData", entity_type=entity_type, entity_name=name)
                    for entity_type, name in entity.items()
                ),
            )
            for entity, (error, message) in outcomes
        )
    )
