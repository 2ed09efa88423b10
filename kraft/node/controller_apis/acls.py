"""DescribeAcls, CreateAcls and DeleteAcls: read from this node's authorizer, changed in the log.

Without an authorizer these requests get SECURITY_DISABLED.

Source: Kafka ``AclApis``, ``ClusterMetadataAuthorizer`` (KIP-801).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation
from kafka_common.api_error import ApiError, ApiException
from kafka_common.errors import InvalidFrame
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.versioned_messages import response_schema
from kraft.controller.acl_control import AclDeleteResult, StandardAcl
from kraft.controller.quorum_controller_requests import CreateAcls, DeleteAcls
from kraft.node.controller_apis.call import Call, ControllerApi
from replica_manager.request_errors import RequestRefused
from replica_manager.security.acl_cache import AclBindingFilter, AclBindingFilters
from replica_manager.server.acl_messages import (
    SECURITY_DISABLED,
    binding_of,
    deleted,
    described,
    filter_of,
    found,
    invalid_name,
)
from replica_manager.server.context import EncodedBody
from replica_manager.server.large_responses import composed
from replica_manager.server.slices import in_slices


async def _describe(
    request: request_types.DescribeAclsRequest, call: Call
) -> ResponsePayload | EncodedBody:
    schema = response_schema(ApiKey.DESCRIBE_ACLS, call.version)
    wanted = _filter(request)
    try:
        call.check()
        authorizer = call.services.authorizer
        if authorizer is None:
            raise ApiException(
                ErrorCode.security_disabled, "No Authorizer is configured on the broker"
            )
    except ApiException as refused:
        return schema.response(
            error_code=refused.error, error_message=refused.message, resources=()
        )
    bindings = await found(authorizer.cache, wanted)
    return await composed(
        len(bindings),
        lambda: schema.response(
            error_code=ErrorCode.none, error_message=None, resources=described(schema, bindings)
        ),
    )


async def _create(request: request_types.CreateAclsRequest, call: Call) -> ResponsePayload:
    schema = response_schema(ApiKey.CREATE_ACLS, call.version)
    wanted = [_acl(creation) async for creation in in_slices(request.creations)]
    try:
        call.check()
        if call.services.authorizer is None:
            raise ApiException(ErrorCode.security_disabled, SECURITY_DISABLED)
        results = await _created(wanted, call)
    except ApiException as refused:
        results = [refused.to_error()] * len(wanted)
    return schema.response(
        results=tuple(
            schema.part("AclCreationResult", error_code=error, error_message=message)
            for error, message in results
        )
    )


async def _created(wanted: Sequence[StandardAcl | ApiError], call: Call) -> Sequence[ApiError]:
    """Creates the ACLs and returns a result for each; errors are passed through as they are."""
    valid = tuple(acl for acl in wanted if isinstance(acl, StandardAcl))
    results: Sequence[ApiError]
    try:
        results = await call.ask(CreateAcls(valid))
    except ApiException as refused:
        results = [refused.to_error()] * len(valid)
    remaining = iter(results)
    return [next(remaining) if isinstance(acl, StandardAcl) else acl for acl in wanted]


async def _delete(
    request: request_types.DeleteAclsRequest, call: Call
) -> ResponsePayload | EncodedBody:
    filters = tuple([_filter(each) async for each in in_slices(request.filters)])
    results: Sequence[AclDeleteResult]
    try:
        call.check()
        if call.services.authorizer is None:
            raise ApiException(ErrorCode.security_disabled, SECURITY_DISABLED)
        results = await call.ask(DeleteAcls(AclBindingFilters(filters)))
    except ApiException as refused:
        results = [AclDeleteResult(refused.to_error())] * len(filters)
    count = len(results) + sum(len(result.deleted) for result in results)
    return await composed(count, lambda: _deleted(results, call))


def _deleted(results: Sequence[AclDeleteResult], call: Call) -> ResponsePayload:
    schema = response_schema(ApiKey.DELETE_ACLS, call.version)
    return schema.response(
        filter_results=tuple(
            schema.part(
                "DeleteAclsFilterResult",
                error_code=result.error.error,
                error_message=result.error.message,
                matching_acls=tuple(deleted(schema, *acl) for acl in result.deleted),
            )
            for result in results
        )
    )


def _acl(creation: request_types.AclCreation) -> StandardAcl | ApiError:
    """The ACL, or the error of an invalid one; InvalidFrame for a value that Kafka cannot read."""
    try:
        binding = binding_of(creation)
    except RequestRefused as refused:
        raise InvalidFrame(str(refused)) from None
    invalid = invalid_name(binding)
    if invalid is not None:
        return ApiError(ErrorCode.invalid_request, invalid)
    return StandardAcl(*binding)


def _filter(
    wanted: request_types.DescribeAclsRequest | request_types.DeleteAclsFilter,
) -> AclBindingFilter:
    try:
        return filter_of(wanted)
    except RequestRefused as refused:
        raise InvalidFrame(str(refused)) from None


ACL_APIS: Final[Mapping[int, ControllerApi]] = {
    ApiKey.DESCRIBE_ACLS: ControllerApi(0, 3, _describe, AclOperation.DESCRIBE),
    ApiKey.CREATE_ACLS: ControllerApi(0, 3, _create, AclOperation.ALTER),
    ApiKey.DELETE_ACLS: ControllerApi(0, 3, _delete, AclOperation.ALTER),
}
