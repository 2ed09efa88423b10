"""The arguments of an API's function, and what all of them share.

An API is one coroutine: ``respond(request, call)``.  If the controller refuses the whole request,
:meth:`Call.ask` raises :class:`~kafka_common.api_error.ApiException`, and the coroutine writes the
error into its response.  The same happens if the client lacks the permission that the API's
:class:`ControllerApi` requires on the cluster; then the controller does not get the request.

Source: Kafka ``ControllerApis``, ``ControllerRequestContext``, ``RequestContext``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeAlias
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation
from kafka_common.api_error import ApiException
from kafka_common.protocol.api_versions import api
from kraft.controller.quorum_controller_requests import ControllerRequest
from kraft.controller.quorum_controller_values import unlimited
from kraft.controller.topic_requests import PartitionChangeQuota
from kraft.raft.kafka_raft_client import KafkaRaftClient
from replica_manager.configuration.config import BrokerConfig
from replica_manager.quotas.mutation_quotas import MutationQuota, MutationQuotas
from replica_manager.request_errors import RequestRefused
from replica_manager.security.authorizer import Authorizer, Requester
from replica_manager.security.permissions import Permissions
from replica_manager.security.principals import ANONYMOUS, Principal
from replica_manager.server.context import EncodedBody

ZERO_UUID: Final = UUID(int=0)
_QUOTA_EXCEEDED: Final = "The throttling quota has been exceeded."


class Controller(Protocol):
    """The controller of this node, active or not."""

    async def ask(
        self,
        request: ControllerRequest,
        timeout_ms: int | None = None,
        apply_quota: PartitionChangeQuota = unlimited,
    ) -> Any:
        """The controller's response, once its records are committed; ApiException if refused.

        A request that has not begun after ``timeout_ms`` gets REQUEST_TIMED_OUT.  ``apply_quota``
        is called in another thread, before partitions are created or deleted.
        """


@dataclass(frozen=True, slots=True)
class ControllerRequestContext:
    """The client and header of a request; of a forwarded request, those of the original client."""

    api_key: int
    api_version: int
    client_id: str = ""
    principal: Principal = ANONYMOUS
    client_host: str = ""
    """The client's IP address, in the form that ACLs use."""
    listener_name: str = ""
    """The listener that received the request, or the Envelope around it."""
    security_protocol: str = "PLAINTEXT"
    """The security protocol of that listener."""
    is_forwarded: bool = False
    """Whether the request came in a broker's Envelope."""
    is_token_authenticated: bool = False
    """Whether the client logged in with a delegation token, according to the forwarding broker."""


@dataclass(frozen=True, slots=True)
class LocalNode:
    """The data of the node that the APIs need; for the event loop."""

    cluster_id: str
    listener_name: str
    """The name of the quorum's listener."""
    config: BrokerConfig
    """The node's configuration, for DescribeConfigs."""
    raft: KafkaRaftClient
    """The node's raft state, only for reading."""

    @property
    def leader_id(self) -> int | None:
        """The id of the quorum's leader that this node knows; None if unknown."""
        return self.raft.leader_and_epoch.leader_id


@dataclass(frozen=True, slots=True)
class ControllerServices:
    """The objects that all APIs of one node use."""

    controller: Controller
    node: LocalNode
    authorizer: Authorizer | None = None
    """None if every client may do everything."""
    mutations: MutationQuotas | None = None
    """The quotas of partitions that clients create and delete; None for no quotas."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request being handled."""

    context: ControllerRequestContext
    services: ControllerServices
    refusal: ApiException | None = None
    """The error if the client may not send this request; None if it may."""
    quota: MutationQuota | None = None
    """The client's quota of created and deleted partitions; None if the API has no quota."""

    @property
    def version(self) -> int:
        """The version of the request and the response."""
        return self.context.api_version

    @property
    def permissions(self) -> Permissions:
        """The client's permissions."""
        return permissions_of(self.context, self.services.authorizer)

    async def ask(self, request: ControllerRequest, timeout_ms: int | None = None) -> Any:
        """Calls :meth:`Controller.ask` with the client's quota; raises ``refusal`` if it is set."""
        self.check()
        if self.quota is None:
            return await self.services.controller.ask(request, timeout_ms)
        return await self.services.controller.ask(request, timeout_ms, self._apply_quota)

    def _apply_quota(self, partition_count: int) -> None:
        assert self.quota is not None, "it is asked only where there is one"
        try:
            self.quota.charge(partition_count)
        except RequestRefused as refused:
            raise ApiException(refused.error, _QUOTA_EXCEEDED) from refused

    def check_cluster(self, operation: AclOperation) -> None:
        """ApiException(CLUSTER_AUTHORIZATION_FAILED) unless the client may do ``operation``."""
        if not self.permissions.allow_on_cluster(operation):
            raise ApiException(
                ErrorCode.cluster_authorization_failed,
                f"Request {api(self.context.api_key).name} is not authorized.",
            )

    def check(self) -> None:
        """Raises ``refusal`` if the client may not send this request."""
        if self.refusal is not None:
            raise self.refusal


Responding: TypeAlias = Callable[[Any, Call], Awaitable[ResponsePayload | EncodedBody]]


class ControllerApi(NamedTuple):
    """One API: its versions and its function."""

    first_version: int
    last_version: int
    respond: Responding
    cluster_operation: AclOperation | None = None
    """The operation on the cluster that a client needs; None if the function checks permissions."""
    quota_is_strict_since: int | None = None
    """The first version for which requests above the partition quota are refused, and not only
    throttled; None if the API has no quota."""


def permissions_of(context: ControllerRequestContext, authorizer: Authorizer | None) -> Permissions:
    """The permissions of the client that sent a request."""
    requester = Requester(context.principal, context.client_host, api(context.api_key).name)
    return Permissions(authorizer, requester)


def uuid_or_zero(value: UUID | None) -> UUID:
    """An id from a message; kio reads an id of all zeros as None."""
    return ZERO_UUID if value is None else value
