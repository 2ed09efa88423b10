"""SCRAM credentials: any broker describes them, the controller changes them.

The password itself is never sent, only the salted password.

Source: Kafka ``ConfigCommand``, KIP-554.
"""

from __future__ import annotations

from collections.abc import Sequence

from kio.schema.alter_user_scram_credentials.v0 import request as alter_request
from kio.schema.alter_user_scram_credentials.v0.response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from kio.schema.describe_user_scram_credentials.v0.request import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from kio.schema.describe_user_scram_credentials.v0.response import (
    DescribeUserScramCredentialsResponse,
)
from kio.schema.errors import ErrorCode
from kio.static.primitive import i8, i32

from kafka_common.protocol.scram import MECHANISMS, MECHANISMS_BY_TYPE
from kafka_common.sanitizer import desanitize
from zkcontroller_cli.console.errors import TimedOut
from zkcontroller_cli.console.options import Bootstrap
from zkcontroller_cli.values.users import CredentialChange, HeldCredential, with_names_of_users
from zkcontroller_cli.wire.requests import (
    BrokerRefusal,
    Deadline,
    ask_controller,
    connected,
    parse_bootstrap,
    raise_for_code,
    refusal_of,
)
from zkcontroller_cli.wire.versions import BrokerConnection


async def describe_credentials(
    bootstrap: Bootstrap, deadline: Deadline, users: Sequence[str] = ()
) -> list[HeldCredential]:
    """The credentials of those users (none named: of all), sorted by user and mechanism.

    A user without credentials is left out.

    A Kafka broker that does not let this user see all credentials fails while it makes the refusal,
    and never answers.
    """
    where = parse_bootstrap(bootstrap.servers)
    async with connected(where, deadline, bootstrap.security) as connection:
        await connection.ask_versions()
        try:
            found = await _described(connection, users)
        except TimeoutError as error:
            if users:
                raise
            raise TimedOut(
                "the broker did not show the credentials in time: a broker of Kafka leaves a user "
                "without Describe on the cluster without an answer"
            ) from error
        if not users:
            # Before 3.5 Kafka lists users by the encoded names of their znodes, but a request
            # must name them decoded.
            encoded = {each.user for each in found if desanitize(each.user) != each.user}
            if encoded:
                meant = await _described(connection, sorted({*map(desanitize, encoded)}))
                found = with_names_of_users(found, meant)
    return sorted(found)


async def _described(connection: BrokerConnection, users: Sequence[str]) -> list[HeldCredential]:
    request = DescribeUserScramCredentialsRequest(
        users=tuple(UserName(name=user) for user in users) if users else None
    )
    response = await connection.request(request)
    assert isinstance(response, DescribeUserScramCredentialsResponse), "request() answers in kind"
    raise_for_code("the credentials", response.error_code, response.error_message)
    found = []
    for result in response.results:
        if result.error_code is ErrorCode.resource_not_found:
            continue
        raise_for_code(f"user {result.user}", result.error_code, result.error_message)
        for each in result.credential_infos:
            mechanism = MECHANISMS_BY_TYPE.get(int(each.mechanism))
            name = f"type {each.mechanism}" if mechanism is None else mechanism.mechanism_name
            found.append(HeldCredential(result.user, name, int(each.iterations)))
    return found


async def alter_credentials(
    bootstrap: Bootstrap, deadline: Deadline, changes: Sequence[CredentialChange]
) -> dict[str, BrokerRefusal | None]:
    """Set and delete credentials; by user the refusal, or None if all changes were made.

    The controller makes all changes of a user or none.
    """
    request = alter_request.AlterUserScramCredentialsRequest(
        deletions=tuple(
            alter_request.ScramCredentialDeletion(
                name=each.user, mechanism=i8(MECHANISMS[each.mechanism].type_id)
            )
            for each in changes
            if each.secret is None
        ),
        upsertions=tuple(
            alter_request.ScramCredentialUpsertion(
                name=each.user,
                mechanism=i8(MECHANISMS[each.mechanism].type_id),
                iterations=i32(each.secret.iterations),
                salt=each.secret.salt,
                salted_password=each.secret.salted_password,
            )
            for each in changes
            if each.secret is not None
        ),
    )

    async def ask(connection: BrokerConnection) -> list[AlterUserScramCredentialsResult]:
        response = await connection.request(request)
        assert isinstance(response, AlterUserScramCredentialsResponse), "it answers in kind"
        return list(response.results)

    return {
        result.user: refusal_of(result.error_code, result.error_message)
        for result in await ask_controller(bootstrap, deadline, ask)
    }
