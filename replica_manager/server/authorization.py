"""Authorization checks of the handlers, and those of the dispatcher before a handler runs.

A broker without an authorizer allows everything, except requests between brokers on a listener for
clients.

Source: Kafka ``AuthHelper``, ``KafkaApis``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

from kio.schema.errors import ErrorCode

from kafka_common.acls import AclOperation, ResourceType
from kafka_common.protocol.api_versions import APIS, ApiKey
from replica_manager.request_errors import RequestRefused
from replica_manager.security.authorizer import CLUSTER_NAME, Requester
from replica_manager.security.permissions import Permissions, reference_counts
from replica_manager.security.principals import host_name_of
from replica_manager.server.context import BrokerContext, RequestContext
from replica_manager.server.slices import in_slices

_log = logging.getLogger("kafka.server.KafkaApis")

NOT_ASKED: Final = -(2**31)
"""The value of ``authorized_operations`` if the client did not ask for it."""

CLUSTER_GATES: Final[Mapping[int, tuple[AclOperation, ...]]] = {
    ApiKey.LEADER_AND_ISR: (AclOperation.CLUSTER_ACTION,),
    ApiKey.STOP_REPLICA: (AclOperation.CLUSTER_ACTION,),
    ApiKey.UPDATE_METADATA: (AclOperation.CLUSTER_ACTION,),
    ApiKey.CONTROLLED_SHUTDOWN: (AclOperation.CLUSTER_ACTION,),
    ApiKey.WRITE_TXN_MARKERS: (AclOperation.ALTER, AclOperation.CLUSTER_ACTION),
    ApiKey.ALTER_PARTITION: (AclOperation.CLUSTER_ACTION,),
    ApiKey.ALLOCATE_PRODUCER_IDS: (AclOperation.CLUSTER_ACTION,),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (AclOperation.ALTER,),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (AclOperation.DESCRIBE,),
    ApiKey.ELECT_LEADERS: (AclOperation.ALTER,),
    ApiKey.UPDATE_FEATURES: (AclOperation.ALTER,),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (AclOperation.ALTER,),
    ApiKey.DESCRIBE_ACLS: (AclOperation.DESCRIBE,),
    ApiKey.CREATE_ACLS: (AclOperation.ALTER,),
    ApiKey.DELETE_ACLS: (AclOperation.ALTER,),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (AclOperation.DESCRIBE_CONFIGS,),
    ApiKey.ALTER_CLIENT_QUOTAS: (AclOperation.ALTER_CONFIGS,),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (AclOperation.DESCRIBE,),
}
"""APIs that act on the cluster, with operations of which the client needs at least one.

For all other APIs the handler checks the client's rights on topics, groups and so on.
"""


OF_MEMBERS: Final = frozenset(
    map(
        int,
        (
            ApiKey.LEADER_AND_ISR,
            ApiKey.STOP_REPLICA,
            ApiKey.UPDATE_METADATA,
            ApiKey.CONTROLLED_SHUTDOWN,
            ApiKey.ALTER_PARTITION,
            ApiKey.ALLOCATE_PRODUCER_IDS,
        ),
    )
)
"""APIs that only brokers and controllers send.

WriteTxnMarkers is not one of them: the client ``kafka-transactions abort`` sends it.
"""
MORE_LISTENERS_KEY: Final = "broker.request.listeners"
"""More listeners that accept such requests, for a change of ``inter.broker.listener.name``."""


def requester_of(context: RequestContext) -> Requester:
    """The client's principal, host and API, for the authorizer."""
    return Requester(
        context.principal, host_name_of(context.client_address), APIS[context.api_key].name
    )


def permissions_of(broker: BrokerContext, context: RequestContext) -> Permissions:
    """The permissions of the request's client."""
    return Permissions(broker.authorizer, requester_of(context))


def check_cluster_gate(context: RequestContext, broker: BrokerContext) -> None:
    """Refuses a client that may do none of the operations in CLUSTER_GATES for the API.

    Raises RequestRefused(CLUSTER_AUTHORIZATION_FAILED).  Without an authorizer, an API in
    OF_MEMBERS is refused on a listener for clients.
    Source: Kafka's privileged listener, which Kafka requires for Envelope only
    (``KafkaApis.handleEnvelopeRequest``).
    """
    if broker.authorizer is None:
        if context.api_key in OF_MEMBERS:
            _check_listener_of_members(context, broker)
        return
    operations = CLUSTER_GATES.get(context.api_key)
    if operations is None:
        return
    *first, last = operations
    if any(is_cluster_allowed(broker, context, each, log_if_denied=False) for each in first):
        return
    check_cluster(broker, context, last)


def _check_listener_of_members(context: RequestContext, broker: BrokerContext) -> None:
    config = broker.config()
    listeners = config.listeners
    if context.listener_name in (listeners.inter_broker, listeners.control_plane):
        return
    more = config.originals.get(MORE_LISTENERS_KEY, "")
    if context.listener_name in (name.strip() for name in more.split(",")):
        return
    _log_refusal(broker.broker_id, APIS[context.api_key].name, context.listener_name)
    raise RequestRefused(ErrorCode.cluster_authorization_failed)


@cache
def _log_refusal(broker_id: int, api_name: str, listener_name: str) -> None:
    """Logs the refusal once for each API and listener."""
    _log.warning(
        "[KafkaApi-%d] Refused a %s request that came by listener %s: it must come by "
        "inter.broker.listener.name or control.plane.listener.name. %s names more listeners, and "
        "with an authorizer its rules decide. Further ones are refused without a line.",
        broker_id,
        api_name,
        listener_name,
        MORE_LISTENERS_KEY,
    )


def check_cluster(broker: BrokerContext, context: RequestContext, operation: AclOperation) -> None:
    """RequestRefused(CLUSTER_AUTHORIZATION_FAILED) unless the client may do it on the cluster."""
    if not is_cluster_allowed(broker, context, operation):
        raise RequestRefused(ErrorCode.cluster_authorization_failed)


def check_group(
    broker: BrokerContext, context: RequestContext, operation: AclOperation, group_id: str
) -> None:
    """RequestRefused(GROUP_AUTHORIZATION_FAILED) unless the client may do it on the group."""
    if not is_allowed(broker, context, operation, ResourceType.GROUP, group_id):
        raise RequestRefused(ErrorCode.group_authorization_failed)


def check_transactional_id(
    broker: BrokerContext, context: RequestContext, operation: AclOperation, name: str
) -> None:
    """RequestRefused(TRANSACTIONAL_ID_AUTHORIZATION_FAILED) unless the client may do it."""
    if not is_allowed(broker, context, operation, ResourceType.TRANSACTIONAL_ID, name):
        raise RequestRefused(ErrorCode.transactional_id_authorization_failed)


def is_cluster_allowed(
    broker: BrokerContext,
    context: RequestContext,
    operation: AclOperation,
    *,
    log_if_denied: bool = True,
) -> bool:
    """Whether the client may do the operation on the cluster."""
    return is_allowed(
        broker, context, operation, ResourceType.CLUSTER, CLUSTER_NAME, log_if_denied=log_if_denied
    )


def is_allowed(
    broker: BrokerContext,
    context: RequestContext,
    operation: AclOperation,
    resource_type: ResourceType,
    name: str,
    *,
    log_if_denied: bool = True,
) -> bool:
    """Whether the client may do the operation on the resource."""
    return broker.authorizer is None or broker.authorizer.authorize(
        requester_of(context), operation, resource_type, name, log_if_denied=log_if_denied
    )


async def allowed_names(
    broker: BrokerContext,
    context: RequestContext,
    operation: AclOperation,
    resource_type: ResourceType,
    names: Iterable[str],
    *,
    log_if_denied: bool = True,
) -> dict[str, None]:
    """The names of resources on which the client may do the operation, each once, in order."""
    if broker.authorizer is None:
        return dict.fromkeys(names)
    permissions = permissions_of(broker, context)
    allowed: dict[str, None] = {}
    async for name, count in in_slices(reference_counts(names).items()):
        if permissions.allow(
            operation, resource_type, name, log_if_denied=log_if_denied, reference_count=count
        ):
            allowed[name] = None
    return allowed


def is_allowed_on_any(
    broker: BrokerContext,
    context: RequestContext,
    operation: AclOperation,
    resource_type: ResourceType,
) -> bool:
    """Whether the client may do the operation on at least one resource of the type (KIP-679)."""
    return broker.authorizer is None or broker.authorizer.authorize_by_resource_type(
        requester_of(context), operation, resource_type
    )


def authorized_operations(
    broker: BrokerContext, context: RequestContext, resource_type: ResourceType, name: str
) -> int:
    """The operations that the client may do on the resource, as a bit field (KIP-430)."""
    return permissions_of(broker, context).authorized_operations(resource_type, name)


def cluster_operations(broker: BrokerContext, context: RequestContext, *, is_asked: bool) -> int:
    """The operations that the client may do on the cluster, as a bit field (KIP-430).

    0 if the client may not describe the cluster, ``NOT_ASKED`` if the request does not ask.
    """
    if not is_asked:
        return NOT_ASKED
    if not is_cluster_allowed(broker, context, AclOperation.DESCRIBE):
        return 0
    return authorized_operations(broker, context, ResourceType.CLUSTER, CLUSTER_NAME)
