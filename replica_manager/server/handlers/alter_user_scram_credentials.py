"""AlterUserScramCredentials (51): sets and deletes users' SCRAM credentials.

Only the active controller handles it.  A request has salted passwords.  The keys stored in
ZooKeeper reveal neither these nor the passwords.  If one change of a user is invalid, none of the
user's changes is made.

Source: Kafka ``KafkaApis.handleAlterUserScramCredentialsRequest``,
``ZkAdminManager.alterUserScramCredentials`` (KIP-554).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, Protocol, TypeAlias, TypeVar

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation
from kafka_common.errors import ZkControllerError
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.error_codes import error_code_for
from kafka_common.protocol.scram import (
    MAX_ITERATIONS,
    MECHANISMS_BY_TYPE,
    MIN_ITERATIONS,
    ScramCredential,
)
from kafka_common.protocol.versioned_messages import response_schema
from kafka_common.sanitizer import sanitize
from replica_manager.request_errors import RequestRefused
from replica_manager.server.authorization import check_cluster
from replica_manager.server.context import BrokerContext, EncodedBody, RequestContext
from replica_manager.server.controller_requests import sentence
from replica_manager.server.large_responses import aside, composed
from replica_manager.server.slices import in_slices

API_KEY: Final = ApiKey.ALTER_USER_SCRAM_CREDENTIALS
VERSIONS: Final = (0, 0)
_Outcome: TypeAlias = tuple[ErrorCode, str | None]
_DONE: Final[_Outcome] = (ErrorCode.none, None)
_log = logging.getLogger("kafka.server.ZkAdminManager")


async def handle(
    request: request_types.AlterUserScramCredentialsRequest,
    context: RequestContext,
    broker: BrokerContext,
) -> ResponsePayload | EncodedBody:
    """The response with one result per user."""
    if not broker.administration.controller.is_active:
        raise RequestRefused(ErrorCode.not_controller)
    check_cluster(broker, context, AclOperation.ALTER)
    outcomes = await aside(
        len(request.upsertions) + len(request.deletions), partial(_invalid_or_repeated, request)
    )
    deletions, upsertions = _by_user(request.deletions), _by_user(request.upsertions)
    async for user in in_slices(_users(request)):
        if user not in outcomes:
            outcomes[user] = await _alter(
                user, deletions.get(user, ()), upsertions.get(user, ()), broker
            )
    return await composed(len(outcomes), lambda: _response(context, outcomes))


def refuse(
    request: request_types.AlterUserScramCredentialsRequest,
    context: RequestContext,
    error: ErrorCode,
) -> ResponsePayload:
    """The response with ``error`` for every user of the request, sorted by name."""
    return _response(context, dict.fromkeys(sorted(_users(request)), (error, None)))


_TWICE: Final[_Outcome] = (
    ErrorCode.duplicate_resource,
    "A user credential cannot be altered twice in the same request",
)


def _invalid_or_repeated(
    request: request_types.AlterUserScramCredentialsRequest,
) -> dict[str, _Outcome]:
    """The users with an invalid change or with two changes of one mechanism, with the error."""
    outcomes = _invalid(request)
    return outcomes | {user: _TWICE for user in _repeated(request) if user not in outcomes}


def _users(request: request_types.AlterUserScramCredentialsRequest) -> list[str]:
    return list(dict.fromkeys(name for name, _ in _alterations(request)))


def _alterations(
    request: request_types.AlterUserScramCredentialsRequest,
) -> Iterator[tuple[str, int]]:
    """The user and the mechanism of each change, upsertions first."""
    for upsertion in request.upsertions:
        yield upsertion.name, upsertion.mechanism
    for deletion in request.deletions:
        yield deletion.name, deletion.mechanism


def _repeated(request: request_types.AlterUserScramCredentialsRequest) -> Iterable[str]:
    pairs = Counter(_alterations(request))
    return (user for (user, _), count in pairs.items() if count > 1)


def _invalid(request: request_types.AlterUserScramCredentialsRequest) -> dict[str, _Outcome]:
    """The users with an invalid change, with the error."""
    outcomes: dict[str, _Outcome] = {}
    # The error of an upsertion takes precedence over that of a deletion.
    for deletion in request.deletions:
        if not deletion.name:
            outcomes[deletion.name] = _EMPTY
        elif deletion.mechanism not in MECHANISMS_BY_TYPE:
            outcomes[deletion.name] = _UNKNOWN
    for upsertion in request.upsertions:
        if not upsertion.name:
            outcomes[upsertion.name] = _EMPTY
        elif upsertion.mechanism not in MECHANISMS_BY_TYPE:
            outcomes[upsertion.name] = _UNKNOWN
        elif upsertion.iterations > MAX_ITERATIONS:
            outcomes[upsertion.name] = ErrorCode.unacceptable_credential, "Too many iterations"
        elif upsertion.iterations < MIN_ITERATIONS:
            outcomes[upsertion.name] = ErrorCode.unacceptable_credential, "Too few iterations"
    return outcomes


_EMPTY: Final[_Outcome] = (ErrorCode.unacceptable_credential, "Username must not be empty")
_UNKNOWN: Final[_Outcome] = (ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism")


class _Alteration(Protocol):
    @property
    def name(self) -> str: ...


_A = TypeVar("_A", bound=_Alteration)


def _by_user(alterations: Iterable[_A]) -> dict[str, list[_A]]:
    by_user: dict[str, list[_A]] = {}
    for each in alterations:
        by_user.setdefault(each.name, []).append(each)
    return by_user


async def _alter(
    user: str,
    deletions: Sequence[request_types.ScramCredentialDeletion],
    upsertions: Sequence[request_types.ScramCredentialUpsertion],
    broker: BrokerContext,
) -> _Outcome:
    path = f"users/{sanitize(user)}"
    try:
        config = await broker.administration.admin.config_of(path)
        for deletion in deletions:
            name = MECHANISMS_BY_TYPE[deletion.mechanism].mechanism_name
            if name not in config:
                return (
                    ErrorCode.resource_not_found,
                    "Attempt to delete a user credential that does not exist",
                )
            del config[name]
        for upsertion in upsertions:
            mechanism = MECHANISMS_BY_TYPE[upsertion.mechanism]
            config[mechanism.mechanism_name] = ScramCredential.of_salted_password(
                mechanism, upsertion.salt, upsertion.salted_password, upsertion.iterations
            ).encode()
        await broker.administration.admin.change_config(path, config)
    except ZkControllerError as failure:
        _log.info("Error encountered while altering user SCRAM credentials: %s", failure)
        error = failure.error if isinstance(failure, RequestRefused) else error_code_for(failure)
        return error, sentence(error)
    return _DONE


def _response(context: RequestContext, outcomes: Mapping[str, _Outcome]) -> ResponsePayload:
    schema = response_schema(API_KEY, context.api_version)
    return schema.response(
        results=tuple(
            schema.part(
                "AlterUserScramCredentialsResult",
                user=user,
                error_code=error,
                error_message=message,
            )
            for user, (error, message) in outcomes.items()
        )
    )
