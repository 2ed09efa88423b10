"""Describes, creates and deletes ACLs by requests to brokers.

Source: Kafka ``AclCommand``, ``KafkaAdminClient``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final, TypeVar

from kio.schema.create_acls.v3.request import AclCreation, CreateAclsRequest
from kio.schema.create_acls.v3.response import CreateAclsResponse
from kio.schema.delete_acls.v3.request import DeleteAclsFilter, DeleteAclsRequest
from kio.schema.delete_acls.v3.response import DeleteAclsResponse
from kio.schema.describe_acls.v3.request import DescribeAclsRequest
from kio.schema.describe_acls.v3.response import DescribeAclsResponse
from kio.schema.errors import ErrorCode
from kio.static.primitive import i8

from kafka_common.acls import (
    AccessControlEntry,
    AclOperation,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
    by_code,
)
from replica_manager.security.acl_cache import AclBinding, AclBindingFilter
from zkcontroller_cli.console.errors import Refused
from zkcontroller_cli.console.options import Bootstrap
from zkcontroller_cli.values.acls import filter_of_resource
from zkcontroller_cli.wire.requests import (
    BrokerRefusal,
    Deadline,
    connected,
    parse_bootstrap,
    raise_for_code,
    refusal_of,
)
from zkcontroller_cli.wire.versions import BrokerConnection

R = TypeVar("R")

_RULES_PER_REQUEST: Final = 500


async def describe_acls(
    bootstrap: Bootstrap, deadline: Deadline, filters: Sequence[AclBindingFilter]
) -> list[AclBinding]:
    """The ACLs that at least one of the filters matches, from the first broker that answers.

    Refused if the brokers have no authorizer, or if the user may not see ACLs.
    """
    addresses = parse_bootstrap(bootstrap.servers)
    async with connected(addresses, deadline, bootstrap.security) as connection:
        return await _described(connection, filters)


async def _described(
    connection: BrokerConnection, filters: Sequence[AclBindingFilter]
) -> list[AclBinding]:
    found: dict[AclBinding, None] = {}
    for wanted in filters:
        response = await connection.request(
            DescribeAclsRequest(
                resource_type_filter=i8(wanted.resource_type),
                resource_name_filter=wanted.name,
                pattern_type_filter=i8(wanted.pattern_type),
                principal_filter=wanted.principal,
                host_filter=wanted.host,
                operation=i8(wanted.operation),
                permission_type=i8(wanted.permission_type),
            )
        )
        assert isinstance(response, DescribeAclsResponse), "request() answers in kind"
        _raise_for_acls("see", "Describe", response.error_code, response.error_message)
        for resource in response.resources:
            pattern = ResourcePattern(
                by_code(ResourceType, resource.resource_type),
                resource.resource_name,
                by_code(PatternType, resource.pattern_type),
            )
            for acl in resource.acls:
                entry = AccessControlEntry(
                    acl.principal,
                    acl.host,
                    by_code(AclOperation, acl.operation),
                    by_code(PermissionType, acl.permission_type),
                )
                found[AclBinding(pattern, entry)] = None
    return list(found)


def _raise_for_acls(verb: str, operation: str, code: ErrorCode, message: str | None) -> None:
    """Raise Refused with the next step, unless the code is no error."""
    if code is ErrorCode.security_disabled:
        raise Refused(
            "the broker checks no ACLs: authorizer.class.name is not set (SECURITY_DISABLED)"
        )
    if code is ErrorCode.cluster_authorization_failed:
        raise Refused(
            f"this user may not {verb} ACLs, that takes {operation} on the cluster: log in as a "
            "super user with --command-config FILE (CLUSTER_AUTHORIZATION_FAILED)"
        )
    raise_for_code("ACLs", code, message)


async def create_acls(
    bootstrap: Bootstrap, deadline: Deadline, bindings: Sequence[AclBinding]
) -> list[BrokerRefusal | None]:
    """Add ACLs; returns for each the broker's refusal, or None if it was added."""

    def request(some: Sequence[AclBinding]) -> CreateAclsRequest:
        return CreateAclsRequest(creations=tuple(map(_creation, some)))

    responses = await _in_batches(bootstrap, deadline, bindings, request, CreateAclsResponse)
    return [
        refusal_of(each.error_code, each.error_message)
        for response in responses
        for each in response.results
    ]


async def _in_batches(
    bootstrap: Bootstrap,
    deadline: Deadline,
    bindings: Sequence[AclBinding],
    request: Callable[[Sequence[AclBinding]], CreateAclsRequest | DeleteAclsRequest],
    kind: type[R],
) -> list[R]:
    """Send the ACLs to one broker in requests of bounded size; the responses, in order."""
    responses: list[R] = []
    addresses = parse_bootstrap(bootstrap.servers)
    async with connected(addresses, deadline, bootstrap.security) as connection:
        for start in range(0, len(bindings), _RULES_PER_REQUEST):
            some = bindings[start : start + _RULES_PER_REQUEST]
            response = await connection.request(request(some))
            assert isinstance(response, kind), "request() answers in kind"
            responses.append(response)
    return responses


def _creation(binding: AclBinding) -> AclCreation:
    pattern, entry = binding
    return AclCreation(
        resource_type=i8(pattern.resource_type),
        resource_name=pattern.name,
        resource_pattern_type=i8(pattern.pattern_type),
        principal=entry.principal,
        host=entry.host,
        operation=i8(entry.operation),
        permission_type=i8(entry.permission_type),
    )


async def delete_acls(
    bootstrap: Bootstrap, deadline: Deadline, bindings: Sequence[AclBinding]
) -> list[BrokerRefusal | None]:
    """Delete exactly these ACLs; returns for each the broker's refusal, or None if it had none."""

    def request(some: Sequence[AclBinding]) -> DeleteAclsRequest:
        return DeleteAclsRequest(filters=tuple(map(_exact, some)))

    refusals = []
    for response in await _in_batches(bootstrap, deadline, bindings, request, DeleteAclsResponse):
        for result in response.filter_results:
            outcomes = [(result.error_code, result.error_message)]
            outcomes += [(each.error_code, each.error_message) for each in result.matching_acls]
            refused = (refusal_of(*outcome) for outcome in outcomes)
            refusals.append(next(filter(None, refused), None))
    return refusals


def _exact(binding: AclBinding) -> DeleteAclsFilter:
    pattern, entry = binding
    return DeleteAclsFilter(
        resource_type_filter=i8(pattern.resource_type),
        resource_name_filter=pattern.name,
        pattern_type_filter=i8(pattern.pattern_type),
        principal_filter=entry.principal,
        host_filter=entry.host,
        operation=i8(entry.operation),
        permission_type=i8(entry.permission_type),
    )


def missed_rules(
    bindings: Collection[AclBinding], *, is_added: bool
) -> Callable[[BrokerConnection], Awaitable[set[AclBinding]]]:
    """For :func:`asked_until_shown`: the ACLs whose change a broker does not show yet.

    ``is_added``: True if the ACLs were added, False if they were deleted.
    """
    # One request for each resource, not for each ACL.
    patterns = dict.fromkeys(each.pattern for each in bindings)
    filters = [filter_of_resource(pattern) for pattern in patterns]

    async def missed_by(connection: BrokerConnection) -> set[AclBinding]:
        shown = set(await _described(connection, filters))
        return {each for each in bindings if (each in shown) is not is_added}

    return missed_by
