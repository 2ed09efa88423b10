"""Rules: a controller without an authorizer has none, and says so, as Kafka's does.

A node of a quorum starts with no ``authorizer.class.name`` only.

Source: Kafka ``AclApis``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from replica_manager.raft.controller_apis.call import Call, ControllerApi
from replica_manager.server.acl_messages import SECURITY_DISABLED
from replica_manager.server.schema import response_schema
from zkcontroller.protocol.api_versions import ApiKey
from zkcontroller.zookeeper.kafka_acl_znodes import AclOperation


async def _describe(_request: Any, call: Call) -> ResponsePayload:
    return response_schema(ApiKey.DESCRIBE_ACLS, call.version).response(
        error_code=ErrorCode.security_disabled,
        error_message="No Authorizer is configured on the broker",
        resources=(),
    )


async def _create(request: Any, call: Call) -> ResponsePayload:
    schema = response_schema(ApiKey.CREATE_ACLS, call.version)
    refused = schema.part(
        "AclCreationResult",
        error_code=ErrorCode.security_disabled,
        error_message=SECURITY_DISABLED,
    )
    return schema.response(results=(refused,) * len(request.creations))


async def _delete(request: Any, call: Call) -> ResponsePayload:
    schema = response_schema(ApiKey.DELETE_ACLS, call.version)
    refused = schema.part(
        "DeleteAclsFilterResult",
        error_code=ErrorCode.security_disabled,
        error_message=SECURITY_DISABLED,
        matching_acls=(),
    )
    return schema.response(filter_results=(refused,) * len(request.filters))


ACL_APIS: Final[Mapping[int, ControllerApi]] = {
    ApiKey.DESCRIBE_ACLS: ControllerApi(0, 3, _describe, AclOperation.DESCRIBE),
    ApiKey.CREATE_ACLS: ControllerApi(0, 3, _create, AclOperation.ALTER),
    ApiKey.DELETE_ACLS: ControllerApi(0, 3, _delete, AclOperation.ALTER),
}
