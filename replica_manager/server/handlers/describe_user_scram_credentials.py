"""DescribeUserScramCredentials (50): which SCRAM credentials users have; never the credentials.

Source: Kafka ``KafkaApis.handleDescribeUserScramCredentialsRequest``,
``ZkAdminManager.describeUserScramCredentials`` (KIP-554).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.scram import ScramCredential, ScramMechanism
from kafka_common.protocol.versioned_messages import ResponseSchema, response_schema
from kafka_common.sanitizer import DEFAULT_ENTITY, desanitize, sanitize
from replica_manager.server.context import BrokerContext, EncodedBody, RequestContext
from replica_manager.server.large_responses import composed
from replica_manager.server.slices import in_slices

API_KEY: Final = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS
VERSIONS: Final = (0, 0)


async def handle(
    request: request_types.DescribeUserScramCredentialsRequest,
    context: RequestContext,
    broker: BrokerContext,
) -> ResponsePayload | EncodedBody:
    """The response with the mechanisms of the requested users; of all users if none is named."""
    schema = response_schema(API_KEY, context.api_version)
    if request.users:
        results = [
            await _named(schema, user, count, broker)
            async for user, count in in_slices(Counter(user.name for user in request.users).items())
        ]
    else:
        results = await _every_user(schema, broker)
    return await composed(
        len(results),
        lambda: schema.response(
            error_code=ErrorCode.none, error_message=None, results=tuple(results)
        ),
    )


def refuse(
    request: request_types.DescribeUserScramCredentialsRequest,
    context: RequestContext,
    error: ErrorCode,
) -> ResponsePayload:
    """The response with ``error`` for the request and for each named user, without the names."""
    schema = response_schema(API_KEY, context.api_version)
    # If no user is named, Kafka fails here and sends no response.
    results = tuple(_refused(schema, "", error, None) for _ in request.users or ())
    return schema.response(error_code=error, error_message=None, results=results)


async def _named(schema: ResponseSchema, user: str, count: int, broker: BrokerContext) -> Any:
    if not user:
        return _refused(schema, user, ErrorCode.resource_not_found, "Username must not be empty")
    if count > 1:
        return _refused(
            schema,
            user,
            ErrorCode.duplicate_resource,
            "Cannot describe SCRAM credentials for the same user twice in a single request: "
            f"{user}",
        )
    found = _described(
        schema, user, await broker.administration.admin.config_of(f"users/{sanitize(user)}")
    )
    return found or _refused(
        schema,
        user,
        ErrorCode.resource_not_found,
        f"Attempt to describe a user credential that does not exist: {user}",
    )


async def _every_user(schema: ResponseSchema, broker: BrokerContext) -> list[Any]:
    configs = await broker.administration.admin.configs_of("users")
    users = {desanitize(name): config for name, config in configs.items() if name != DEFAULT_ENTITY}
    described = (_described(schema, user, users[user]) for user in sorted(users))
    return [each for each in described if each is not None]


def _described(schema: ResponseSchema, user: str, config: Mapping[str, str]) -> Any | None:
    """The result with a user's SCRAM mechanisms; None if the user has no credentials."""
    infos = []
    for mechanism in ScramMechanism:
        text = config.get(mechanism.mechanism_name)
        if text is None:
            continue
        try:
            iterations = ScramCredential.decode(text).iterations
        except ValueError:
            return _refused(schema, user, ErrorCode.unknown_server_error, None)
        infos.append(
            schema.part("CredentialInfo", mechanism=mechanism.type_id, iterations=iterations)
        )
    if not infos:
        return None
    return schema.part(
        "DescribeUserScramCredentialsResult",
        user=user,
        error_code=ErrorCode.none,
        error_message=None,
        credential_infos=tuple(infos),
    )


def _refused(schema: ResponseSchema, user: str, error: ErrorCode, message: str | None) -> Any:
    return schema.part(
        "DescribeUserScramCredentialsResult",
        user=user,
        error_code=error,
        error_message=message,
        credential_infos=(),
    )
