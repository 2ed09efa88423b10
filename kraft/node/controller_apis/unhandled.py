"""APIs that a controller offers but does not implement.

Kafka's controller names these APIs in ApiVersions but does not handle them: each request gets
UNKNOWN_SERVER_ERROR.  A DescribeUserScramCredentials for all users gets no response at all from
Kafka; here it gets that error too.

Source: Kafka ``ControllerApis.handle``, the ``listeners`` of its message schemas.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.versioned_messages import response_schema
from kraft.node.controller_apis.call import Call, ControllerApi

_ERROR: Final = ErrorCode.unknown_server_error


async def _controlled_shutdown(
    _request: request_types.ControlledShutdownRequest, call: Call
) -> ResponsePayload:
    schema = response_schema(ApiKey.CONTROLLED_SHUTDOWN, call.version)
    return schema.response(error_code=_ERROR, remaining_partitions=())


async def _describe_tokens(
    _request: request_types.DescribeDelegationTokenRequest, call: Call
) -> ResponsePayload:
    schema = response_schema(ApiKey.DESCRIBE_DELEGATION_TOKEN, call.version)
    return schema.response(error_code=_ERROR, tokens=())


async def _describe_scram_credentials(
    request: request_types.DescribeUserScramCredentialsRequest, call: Call
) -> ResponsePayload:
    schema = response_schema(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, call.version)
    return schema.response(
        error_code=_ERROR,
        error_message=None,
        # One result for each user in the request, as in Kafka without the user's name.
        results=tuple(
            schema.part(
                "DescribeUserScramCredentialsResult",
                user="",
                error_code=_ERROR,
                error_message=None,
                credential_infos=(),
            )
            for _ in request.users or ()
        ),
    )


UNHANDLED_APIS: Final[Mapping[int, ControllerApi]] = {
    ApiKey.CONTROLLED_SHUTDOWN: ControllerApi(0, 3, _controlled_shutdown),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: ControllerApi(0, 3, _describe_tokens),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: ControllerApi(0, 0, _describe_scram_credentials),
}
