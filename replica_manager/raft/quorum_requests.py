"""What a node of the quorum answers: from a frame to its answer.

What is the quorum's goes through the raft step, one request after another; what is the controller's
goes to it, where the node has one; ApiVersions alone is answered here.  A frame that is no request,
or one of an API or version that is not offered, closes the connection without an answer.

Source: Kafka ``ControllerApis``, ``SocketServer`` of a controller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from replica_manager.raft.controller_apis.call import (
    Call,
    Controller,
    ControllerServices,
    RequestContext,
)
from replica_manager.raft.controller_apis.envelope import (
    EnvelopeRefused,
    open_envelope,
    write_envelope,
)
from replica_manager.raft.controller_apis.table import (
    OFFERED_BY_CONTROLLER,
    answer,
    check_version,
)
from replica_manager.security.authorizer import Authorizer
from replica_manager.security.principals import host_name_of
from replica_manager.server.connection import Answer, Peer
from zkcontroller.errors import InvalidFrame, UnsupportedVersion
from zkcontroller.kraft.controller.api_error import ApiException
from zkcontroller.kraft.controller.quorum_controller_requests import ControllerRequest
from zkcontroller.kraft.wire import OFFERED, RefusedRequest, read_request, write_response
from zkcontroller.model import Endpoint as Listener
from zkcontroller.protocol.api_versions import (
    ApiKey,
    api,
    api_versions_error,
    api_versions_response,
    is_valid_software,
    unsupported_api_versions_response,
)
from zkcontroller.protocol.framing import (
    RequestHeader,
    frame,
    parse_request_header,
    response_header,
)
from zkcontroller.protocol.messages import read_request as read_message
from zkcontroller.protocol.messages import write
from zkcontroller.runtime.raft_driver import RaftDriver
from zkcontroller.zookeeper.kafka_acl_znodes import AclOperation

_API_VERSIONS: Final = (0, 4)
_NAMES_SOFTWARE_SINCE: Final = 3

ALL_OFFERED: Final[Mapping[int, tuple[int, int]]] = {
    **OFFERED,
    ApiKey.API_VERSIONS: _API_VERSIONS,
}
"""What ApiVersions tells: API key to first and last version."""


class QuorumRequests:
    """Answers the requests of one node."""

    def __init__(
        self,
        driver: RaftDriver,
        cluster_id: str,
        controller: Controller | None = None,
        *,
        authorizer: Authorizer | None = None,
        listeners: Iterable[Listener] = (),
    ) -> None:
        """Without a controller only what is the quorum's is offered.

        ``authorizer``: None where everybody may do everything.
        """
        self._driver = driver
        self._cluster_id = cluster_id
        self._authorizer = authorizer
        self._services: ControllerServices | None = None
        self._offered = ALL_OFFERED
        self._protocols = {each.listener_name: each.security_protocol for each in listeners}
        if controller is not None:
            self._services = ControllerServices(controller, authorizer)
            self._offered = {**OFFERED_BY_CONTROLLER, **ALL_OFFERED}

    async def respond(self, data: bytes, peer: Peer) -> Answer:
        """The answer to the request in ``data``; InvalidFrame if it must not be answered."""
        header, start = parse_request_header(data)
        context = RequestContext(
            header.api_key,
            header.api_version,
            header.client_id or "",
            peer.principal,
            host_name_of(peer.address),
            peer.listener_name,
            self._protocols.get(peer.listener_name, "PLAINTEXT"),
        )
        if header.api_key == ApiKey.API_VERSIONS:
            body = write(_versions(header, data, start, self._offered))
        elif header.api_key == ApiKey.ENVELOPE and self._services is not None:
            check_version(header)
            body = await self._envelope(data, start, Call(context, self._services))
        else:
            body = await self._body(header, data, start, context, self._services)
        head = response_header(header.api_key, header.api_version, header.correlation_id)
        return Answer(frame((head, body)))

    async def _body(
        self,
        header: RequestHeader,
        data: bytes,
        start: int,
        context: RequestContext,
        services: ControllerServices | None,
    ) -> bytes:
        if services is not None and header.api_key in OFFERED_BY_CONTROLLER:
            check_version(header)
            return await answer(data, start, Call(context, services))
        return await self._raft(header, data, start, context)

    async def _envelope(self, data: bytes, start: int, call: Call) -> bytes:
        """The client's own answer, in an envelope again.

        An answer that this is not the controller is told by the envelope itself, so that the broker
        looks for the one that is.
        """
        request = read_message(ApiKey.ENVELOPE, call.version, data, start)
        if not call.permissions.allow_on_cluster(AclOperation.CLUSTER_ACTION):
            return write_envelope(None, ErrorCode.cluster_authorization_failed)
        watched = _Watched(call.services.controller)
        try:
            header, inner, inner_start, context = open_envelope(request, call.context)
            body = await self._body(
                header, inner, inner_start, context, replace(call.services, controller=watched)
            )
        except EnvelopeRefused as refused:
            return write_envelope(None, refused.error)
        except InvalidFrame:
            # Of what it could not read in an envelope Kafka says so too.
            return write_envelope(None, ErrorCode.unsupported_version)
        if watched.has_moved:
            return write_envelope(None, ErrorCode.not_controller)
        head = response_header(header.api_key, header.api_version, header.correlation_id)
        return write_envelope(head + body)

    async def _raft(
        self, header: RequestHeader, data: bytes, start: int, context: RequestContext
    ) -> bytes:
        api_key, version = header.api_key, header.api_version
        first, last = OFFERED.get(api_key, (0, -1))
        if not first <= version <= last:
            raise UnsupportedVersion(f"{api(api_key).name} version {version} is not answered here")
        request = read_request(api_key, version, data, start, cluster_id=self._cluster_id)
        if isinstance(request, RefusedRequest):
            return request.body
        return write_response(await self._driver.ask(request, context.listener_name), version)


class _Watched:
    """A controller that remembers whether it said that it is none."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self.has_moved = False

    async def ask(self, request: ControllerRequest, timeout_ms: int | None = None) -> Any:
        """As the controller's own."""
        try:
            return await self._controller.ask(request, timeout_ms)
        except ApiException as error:
            self.has_moved |= error.error is ErrorCode.not_controller
            raise


def _versions(
    header: RequestHeader, data: bytes, start: int, offered: Mapping[int, tuple[int, int]]
) -> ResponsePayload:
    first, last = _API_VERSIONS
    if not first <= header.api_version <= last:
        return unsupported_api_versions_response()
    request: Any = read_message(ApiKey.API_VERSIONS, header.api_version, data, start)
    if header.api_version >= _NAMES_SOFTWARE_SINCE and not (
        is_valid_software(request.client_software_name)
        and is_valid_software(request.client_software_version)
    ):
        return api_versions_error(header.api_version, ErrorCode.invalid_request)
    return api_versions_response(header.api_version, offered)
