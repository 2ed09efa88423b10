"""What a node of the quorum answers: from a frame to its answer.

What is the quorum's goes through the raft step, one request after another; what is the controller's
goes to it, where the node has one; ApiVersions alone is answered here.  A frame that is no request,
or one of an API or version that is not offered, closes the connection without an answer.

Source: Kafka ``ControllerApis``, ``SocketServer`` of a controller.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from replica_manager.raft.controller_apis.call import Controller
from replica_manager.raft.controller_apis.table import (
    OFFERED_BY_CONTROLLER,
    answer,
    check_version,
)
from replica_manager.server.connection import Answer, Peer
from zkcontroller.errors import UnsupportedVersion
from zkcontroller.kraft.wire import OFFERED, RefusedRequest, read_request, write_response
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
        self, driver: RaftDriver, cluster_id: str, controller: Controller | None = None
    ) -> None:
        """Without a controller only what is the quorum's is offered."""
        self._driver = driver
        self._cluster_id = cluster_id
        self._controller = controller
        self._offered = ALL_OFFERED
        if controller is not None:
            self._offered = {**OFFERED_BY_CONTROLLER, **ALL_OFFERED}

    async def respond(self, data: bytes, peer: Peer) -> Answer:
        """The answer to the request in ``data``; InvalidFrame if it must not be answered."""
        header, start = parse_request_header(data)
        if header.api_key == ApiKey.API_VERSIONS:
            body = write(_versions(header, data, start, self._offered))
        elif self._controller is not None and header.api_key in OFFERED_BY_CONTROLLER:
            check_version(header)
            body = await answer(header, data, start, self._controller)
        else:
            body = await self._raft(header, data, start, peer)
        head = response_header(header.api_key, header.api_version, header.correlation_id)
        return Answer(frame((head, body)))

    async def _raft(self, header: RequestHeader, data: bytes, start: int, peer: Peer) -> bytes:
        api_key, version = header.api_key, header.api_version
        first, last = OFFERED.get(api_key, (0, -1))
        if not first <= version <= last:
            raise UnsupportedVersion(f"{api(api_key).name} version {version} is not answered here")
        request = read_request(api_key, version, data, start, cluster_id=self._cluster_id)
        if isinstance(request, RefusedRequest):
            return request.body
        return write_response(await self._driver.ask(request, peer.listener_name), version)


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
