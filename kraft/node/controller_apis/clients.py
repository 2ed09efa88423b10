"""Client quotas and SCRAM credentials.

Source: Kafka ``ControllerApis.handleAlterClientQuotas``, ``handleAlterUserScramCredentials``
(KIP-546, KIP-554).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation
from kafka_common.api_error import ApiError, ApiException
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.versioned_messages import response_schema
from kraft.controller.client_quota_control import ClientQuotaAlteration
from kraft.controller.quorum_controller_requests import (
    AlterClientQuotas,
    AlterUserScramCredentials,
)
from kraft.controller.scram_control import (
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kraft.node.controller_apis.call import Call, ControllerApi


async def _alter_client_quotas(
    request: request_types.AlterClientQuotasRequest, call: Call
) -> ResponsePayload:
    schema = response_schema(ApiKey.ALTER_CLIENT_QUOTAS, call.version)
    alterations = tuple(
        ClientQuotaAlteration(
            tuple((part.entity_type, part.entity_name) for part in entry.entity),
            tuple((op.key, None if op.remove else op.value) for op in entry.ops),
        )
        for entry in request.entries
    )
    try:
        results = await call.ask(AlterClientQuotas(alterations, request.validate_only))
    except ApiException as error:
        results = {alteration.entity: error.to_error() for alteration in alterations}
    return schema.response(
        entries=tuple(
            schema.part(
                "EntryData",
                error_code=error.error,
                error_message=error.message,
                entity=tuple(
                    schema.part("EntityData", entity_type=kind, entity_name=name)
                    for kind, name in entity
                ),
            )
            for entity, error in results.items()
        )
    )


async def _alter_scram_credentials(
    request: request_types.AlterUserScramCredentialsRequest, call: Call
) -> ResponsePayload:
    schema = response_schema(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, call.version)
    wanted = AlterUserScramCredentials(
        tuple(
            ScramCredentialDeletion(deletion.name, deletion.mechanism)
            for deletion in request.deletions
        ),
        tuple(
            ScramCredentialUpsertion(
                upsertion.name,
                upsertion.mechanism,
                upsertion.iterations,
                upsertion.salt,
                upsertion.salted_password,
            )
            for upsertion in request.upsertions
        ),
    )
    results: Mapping[str, ApiError]
    try:
        results = await call.ask(wanted)
    except ApiException as error:
        users = [deletion.name for deletion in wanted.deletions]
        users += [upsertion.name for upsertion in wanted.upsertions]
        results = dict.fromkeys(users, error.to_error())
    return schema.response(
        results=tuple(
            schema.part(
                "AlterUserScramCredentialsResult",
                user=user,
                error_code=error.error,
                error_message=error.message,
            )
            for user, error in results.items()
        )
    )


CLIENT_APIS: Final[Mapping[int, ControllerApi]] = {
    ApiKey.ALTER_CLIENT_QUOTAS: ControllerApi(
        0, 1, _alter_client_quotas, AclOperation.ALTER_CONFIGS
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: ControllerApi(
        0, 0, _alter_scram_credentials, AclOperation.ALTER
    ),
}
