"""The arguments of an API's function, and what all of them share.

An API is one coroutine: ``answer(request, call)``.  The controller's refusal of a whole request
reaches it as :class:`~kafka_common.api_error.ApiException`; it says so in the
terms of its message.  So does it for a client that may not ask: the API's :class:`ControllerApi`
names an operation on the cluster, and without that the controller refuses whatever is asked.

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
        """The controller's response, once it is committed; ApiException if refused.

        With ``timeout_ms`` it is not begun later than that.  ``apply_quota`` is called before
        partitions are created or deleted, in another thread.
        """


@dataclass(frozen=True, slots=True)
class ControllerRequestContext:
    """The client and header of a request; of a forwarded request, those of the original client."""

    api_key: int
    api_version: int
    client_id: str = ""
    principal: Principal = ANONYMOUS
    client_host: str = ""
    """The client's IP address, as rules name it."""
    listener_name: str = ""
    """Where it came in; of a forwarded request the envelope."""
    security_protocol: str = "PLAINTEXT"
    """That listener's."""
    is_forwarded: bool = False
    """It came in a broker's Envelope."""
    is_token_authenticated: bool = False
    """The client logged in by a delegation token, as the broker that forwards it says."""


@dataclass(frozen=True, slots=True)
class LocalNode:
    """The data of the node that the APIs need; for the event loop."""

    cluster_id: str
    listener_name: str
    """The one by which the quorum talks."""
    config: BrokerConfig
    """Its configuration for DescribeConfigs."""
    raft: KafkaRaftClient
    """To look at."""

    @property
    def leader_id(self) -> int | None:
        """The leader that this node knows."""
        return self.raft.leader_and_epoch.leader_id


@dataclass(frozen=True, slots=True)
class ControllerServices:
    """What the APIs of one node share."""

    controller: Controller
    node: LocalNode
    authorizer: Authorizer | None = None
    """None: every client may do everything."""
    mutations: MutationQuotas | None = None
    """The quotas of created and deleted partitions; None: there are none."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request being handled."""

    context: ControllerRequestContext
    services: ControllerServices
    refusal: ApiException | None = None
    """Why the client may not ask at all."""
    quota: MutationQuota | None = None
    """The client's quota of partitions, for an API that has one."""

    @property
    def version(self) -> int:
        """The version of the request and the response."""
        return self.context.api_version

    @property
    def permissions(self) -> Permissions:
        """The client's permissions."""
        return permissions_of(self.context, self.services.authorizer)

    async def ask(self, request: ControllerRequest, timeout_ms: int | None = None) -> Any:
        """As :meth:`Controller.ask`, for a client that may ask."""
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
        """ApiException(CLUSTER_AUTHORIZATION_FAILED) unless that is allowed on the cluster."""
        if not self.permissions.allow_on_cluster(operation):
            raise ApiException(
                ErrorCode.cluster_authorization_failed,
                f"Request {api(self.context.api_key).name} is not authorized.",
            )

    def check(self) -> None:
        """ApiException if the client may not send this request at all."""
        if self.refusal is not None:
            raise self.refusal


Answering: TypeAlias = Callable[[Any, Call], Awaitable[ResponsePayload | EncodedBody]]


class ControllerApi(NamedTuple):
    """One API: its versions and its function."""

    first_version: int
    last_version: int
    answer: Answering
    cluster_operation: AclOperation | None = None
    """What must be allowed on the cluster; None: the function itself looks at what it needs."""
    quota_is_strict_since: int | None = None
    """The first version that is refused above the quota of partitions; None: it has no quota."""


def permissions_of(context: ControllerRequestContext, authorizer: Authorizer | None) -> Permissions:
    """A client's permissions, given the authorizer."""
    requester = Requester(context.principal, context.client_host, api(context.api_key).name)
    return Permissions(authorizer, requester)


def uuid_or_zero(value: UUID | None) -> UUID:
    """An id of the wire; kio reads one of zeros as None."""
    return ZERO_UUID if value is None else value
