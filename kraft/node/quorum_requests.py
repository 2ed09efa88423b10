"""Requests to a quorum node: from a frame to its response.

Requests of the quorum are handled by the raft step, one after another; the controller's requests by
the controller, if the node has one.  ApiVersions, and a SASL request after the login, are handled
here.  A malformed frame, or an API or version that is not offered, closes the connection without a
response.

If handling a request or encoding its response fails unexpectedly, the log names the request.  Then
a request of the quorum or an Envelope gets UNKNOWN_SERVER_ERROR; for any other, the connection is
closed.

Source: Kafka ``ControllerApis``, ``SocketServer`` of a controller.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from kio.schema.errors import ErrorCode

from kafka_common.acls import AclOperation
from kafka_common.api_error import ApiException
from kafka_common.errors import InvalidFrame, UnsupportedVersion
from kafka_common.model import Endpoint
from kafka_common.protocol.api_versions import ApiKey, api
from kafka_common.protocol.framing import (
    RequestHeader,
    frame,
    parse_request_header,
    response_header,
)
from kafka_common.protocol.messages import read_request as read_message
from kafka_common.protocol.messages import write
from kraft.controller.quorum_controller_requests import ControllerRequest
from kraft.controller.quorum_controller_values import unlimited
from kraft.controller.topic_requests import PartitionChangeQuota
from kraft.node.controller_apis.call import (
    Call,
    Controller,
    ControllerRequestContext,
    ControllerServices,
    LocalNode,
    permissions_of,
)
from kraft.node.controller_apis.envelope import (
    EnvelopeRefused,
    open_envelope,
    write_envelope,
)
from kraft.node.controller_apis.sasl import OFFERED_FOR_LOGINS, respond_to_late_login
from kraft.node.controller_apis.table import (
    OFFERED_BY_CONTROLLER,
    ResponseBody,
    check_version,
    respond,
)
from kraft.node.described_config import UNCONFIGURED
from kraft.node.node_versions import API_VERSIONS, NodeVersions
from kraft.node.raft_driver import RaftDriver
from kraft.raft.wire import (
    OFFERED,
    RefusedRequest,
    read_request,
    write_refusal,
    write_response,
)
from replica_manager.configuration.config import BrokerConfig
from replica_manager.network.connection import Peer, ResponseFrame
from replica_manager.quotas.mutation_quotas import MutationQuotas
from replica_manager.security.authorizer import Authorizer
from replica_manager.security.principals import host_name_of

_log: Final = logging.getLogger("kafka.server.ControllerApis")
_OPERATIONS: Final[Mapping[int, AclOperation]] = {
    ApiKey.DESCRIBE_QUORUM: AclOperation.DESCRIBE,
}
"""The operation on the cluster that a request needs; CLUSTER_ACTION for all other requests."""

ALL_OFFERED: Final[Mapping[int, tuple[int, int]]] = {
    **OFFERED,
    **OFFERED_FOR_LOGINS,
    ApiKey.API_VERSIONS: API_VERSIONS,
}
"""The APIs of a node without a controller: first and last version by API key."""


class QuorumRequests:
    """Responds to the requests that one node receives."""

    def __init__(
        self,
        driver: RaftDriver,
        cluster_id: str,
        controller: Controller | None = None,
        *,
        authorizer: Authorizer | None = None,
        listeners: Sequence[Endpoint] = (),
        config: BrokerConfig = UNCONFIGURED,
        mutations: MutationQuotas | None = None,
    ) -> None:
        """Without a controller only the quorum's APIs are offered.

        ``authorizer`` is None if every client may do everything.  The first of the listeners is
        the quorum's.  ``config`` is what DescribeConfigs shows.
        """
        self._driver = driver
        self._cluster_id = cluster_id
        self._authorizer = authorizer
        self._services: ControllerServices | None = None
        self._offered = ALL_OFFERED
        self._protocols = {each.listener_name: each.security_protocol for each in listeners}
        if controller is not None:
            listener_name = listeners[0].listener_name if listeners else ""
            node = LocalNode(cluster_id, listener_name, config, driver.node)
            self._services = ControllerServices(controller, node, authorizer, mutations)
            self._offered = {**OFFERED_BY_CONTROLLER, **ALL_OFFERED}
        self._versions = NodeVersions(self._offered, controller)

    async def respond(self, data: bytes, peer: Peer) -> ResponseFrame:
        """The response to the request in ``data``; an error closes the connection.

        InvalidFrame if the request is malformed or not offered, ConnectionAbortedError if handling
        it failed or the node ends.
        """
        header, start = parse_request_header(data)
        context = ControllerRequestContext(
            header.api_key,
            header.api_version,
            header.client_id or "",
            peer.principal,
            host_name_of(peer.address),
            peer.listener_name,
            self._protocols.get(peer.listener_name, "PLAINTEXT"),
        )
        try:
            body, mute_ms = await self._whole_body(header, data, start, context)
        except (InvalidFrame, ConnectionAbortedError):
            raise
        except Exception as failure:  # a defect in one request must not affect others
            _log_failure(header, context)
            if header.api_key not in OFFERED:
                raise ConnectionAbortedError("there is no response") from failure
            error = ErrorCode.unknown_server_error
            body, mute_ms = write_refusal(header.api_key, header.api_version, error), 0
        head = response_header(header.api_key, header.api_version, header.correlation_id)
        return ResponseFrame(frame((head, body)), mute_ms)

    async def _whole_body(
        self, header: RequestHeader, data: bytes, start: int, context: ControllerRequestContext
    ) -> ResponseBody:
        if header.api_key == ApiKey.API_VERSIONS:
            return ResponseBody(write(await self._versions.respond(header, data, start)))
        if header.api_key == ApiKey.ENVELOPE and self._services is not None:
            check_version(header)
            call = Call(context, self._services)
            return ResponseBody(await self._envelope(header, data, start, call))
        return await self._body(header, data, start, context, self._services)

    async def _body(
        self,
        header: RequestHeader,
        data: bytes,
        start: int,
        context: ControllerRequestContext,
        services: ControllerServices | None,
    ) -> ResponseBody:
        if services is not None and header.api_key in OFFERED_BY_CONTROLLER:
            check_version(header)
            return await respond(data, start, Call(context, services))
        if header.api_key in OFFERED_FOR_LOGINS:
            return ResponseBody(respond_to_late_login(header, data, start))
        return ResponseBody(await self._raft(header, data, start, context))

    async def _envelope(self, header: RequestHeader, data: bytes, start: int, call: Call) -> bytes:
        """Handles the request inside an envelope and wraps its response.

        NOT_CONTROLLER becomes an error of the Envelope response itself, so that the broker looks
        for the active controller.
        """
        request: Any = read_message(ApiKey.ENVELOPE, call.version, data, start)
        error = self._refusal_of(call.context)
        if error is not None:
            return write_envelope(None, error)
        watched = _Watched(call.services.controller)
        context = call.context
        try:
            header, inner, inner_start, context = open_envelope(request, call.context)
            body, _ = await self._body(
                header, inner, inner_start, context, replace(call.services, controller=watched)
            )
        except EnvelopeRefused as refused:
            return write_envelope(None, refused.error)
        except InvalidFrame:
            # As in Kafka, this is the error for a request inside that cannot be read.
            return write_envelope(None, ErrorCode.unsupported_version)
        except ConnectionAbortedError:
            raise  # the node ends
        except Exception:  # noqa: BLE001 - one client's request must not cost its broker the connection
            _log_failure(header, context)
            return write_envelope(None, ErrorCode.unknown_server_error)
        if watched.has_moved:
            return write_envelope(None, ErrorCode.not_controller)
        head = response_header(header.api_key, header.api_version, header.correlation_id)
        return write_envelope(head + body)

    async def _raft(
        self, header: RequestHeader, data: bytes, start: int, context: ControllerRequestContext
    ) -> bytes:
        api_key, version = header.api_key, header.api_version
        first, last = OFFERED.get(api_key, (0, -1))
        if not first <= version <= last:
            raise UnsupportedVersion(f"{api(api_key).name} version {version} is not answered here")
        error = self._refusal_of(context)
        if error is not None:
            return write_refusal(api_key, version, error)
        request = read_request(api_key, version, data, start, cluster_id=self._cluster_id)
        if isinstance(request, RefusedRequest):
            return request.body
        return write_response(await self._driver.ask(request, context.listener_name), version)

    def _refusal_of(self, context: ControllerRequestContext) -> ErrorCode | None:
        """The error if the client may not send the request; None if it may."""
        operation = _OPERATIONS.get(context.api_key, AclOperation.CLUSTER_ACTION)
        try:
            is_allowed = permissions_of(context, self._authorizer).allow_on_cluster(operation)
        except ApiException as not_ready:
            return not_ready.error
        return None if is_allowed else ErrorCode.cluster_authorization_failed


def _log_failure(header: RequestHeader, context: ControllerRequestContext) -> None:
    _log.exception(
        "Unexpected error handling request: clientId=%s, correlationId=%d, api=%s, version=%d, "
        "listener=%s, principal=%s",
        context.client_id,
        header.correlation_id,
        api(header.api_key).name,
        header.api_version,
        context.listener_name,
        context.principal,
    )


def refusal(data: bytes, error: ErrorCode) -> bytes | None:
    """The frame that refuses the request in ``data``; None if the connection only closes."""
    header, _ = parse_request_header(data)
    first, last = OFFERED.get(header.api_key, (0, -1))
    if not first <= header.api_version <= last:
        return None
    head = response_header(header.api_key, header.api_version, header.correlation_id)
    return frame((head, write_refusal(header.api_key, header.api_version, error)))


class _Watched:
    """Passes requests to a controller and records whether one failed with NOT_CONTROLLER."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self.has_moved = False

    async def ask(
        self,
        request: ControllerRequest,
        timeout_ms: int | None = None,
        apply_quota: PartitionChangeQuota = unlimited,
    ) -> Any:
        """Passes the request on; sets ``has_moved`` if it fails with NOT_CONTROLLER."""
        try:
            return await self._controller.ask(request, timeout_ms, apply_quota)
        except ApiException as error:
            self.has_moved |= error.error is ErrorCode.not_controller
            raise
