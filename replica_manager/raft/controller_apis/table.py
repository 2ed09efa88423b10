"""Every API of the controller, and the way of a frame to its answer.

A broker forwards what clients want changed in an Envelope: the client's whole request, with who it
is from.  An answer that this is not the controller is told by the envelope itself, so that the
broker looks for the one that is.

Source: Kafka ``ControllerApis.handle``, ``EnvelopeUtils``, ``RequestContext`` (KIP-590).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kio.schema.errors import ErrorCode

from replica_manager.raft.controller_apis.acls import ACL_APIS
from replica_manager.raft.controller_apis.call import Controller, ControllerApi
from replica_manager.raft.controller_apis.clients import CLIENT_APIS
from replica_manager.raft.controller_apis.cluster import CLUSTER_APIS
from replica_manager.raft.controller_apis.configs import CONFIG_APIS
from replica_manager.raft.controller_apis.partitions import PARTITION_APIS
from replica_manager.raft.controller_apis.topics import TOPIC_APIS
from replica_manager.server.schema import response_schema
from zkcontroller.errors import InvalidFrame, UnsupportedVersion
from zkcontroller.kraft.controller.api_error import ApiException
from zkcontroller.kraft.controller.quorum_controller_requests import ControllerRequest
from zkcontroller.protocol.api_versions import ApiKey, api
from zkcontroller.protocol.framing import RequestHeader, parse_request_header, response_header
from zkcontroller.protocol.messages import read_request, write

_APIS: Final[Mapping[int, ControllerApi]] = {
    **CLUSTER_APIS,
    **PARTITION_APIS,
    **TOPIC_APIS,
    **CONFIG_APIS,
    **CLIENT_APIS,
    **ACL_APIS,
}
_FORWARDABLE: Final = frozenset({*TOPIC_APIS, *CONFIG_APIS, *CLIENT_APIS, *ACL_APIS})
"""What a client may want of a controller by way of a broker."""
_ENVELOPE_VERSIONS: Final = (0, 0)

OFFERED_BY_CONTROLLER: Final[Mapping[int, tuple[int, int]]] = {
    **{key: (row.first_version, row.last_version) for key, row in _APIS.items()},
    ApiKey.ENVELOPE: _ENVELOPE_VERSIONS,
}
"""What ApiVersions tells beside the quorum's own: API key to first and last version."""


async def answer(header: RequestHeader, data: bytes, start: int, controller: Controller) -> bytes:
    """The body that answers the request at ``start``; InvalidFrame if it must not be answered."""
    request = read_request(header.api_key, header.api_version, data, start)
    if header.api_key == ApiKey.ENVELOPE:
        return await _envelope(request, controller)
    row = _APIS[header.api_key]
    return write(await row.answer(request, header.api_version, controller))


def check_version(header: RequestHeader) -> None:
    """UnsupportedVersion for what is not answered here."""
    first, last = OFFERED_BY_CONTROLLER.get(header.api_key, (0, -1))
    if not first <= header.api_version <= last:
        name = api(header.api_key).name
        raise UnsupportedVersion(f"{name} version {header.api_version} is not answered here")


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


async def _envelope(request: Any, controller: Controller) -> bytes:
    schema = response_schema(ApiKey.ENVELOPE, 0)
    try:
        header, start = parse_request_header(request.request_data)
        if header.api_key not in _FORWARDABLE:
            raise InvalidFrame(f"{api(header.api_key).name} cannot be forwarded")
        check_version(header)
        watched = _Watched(controller)
        body = await answer(header, request.request_data, start, watched)
    except UnsupportedVersion:
        return write(schema.response(response_data=None, error_code=ErrorCode.unsupported_version))
    except InvalidFrame:
        return write(schema.response(response_data=None, error_code=ErrorCode.invalid_request))
    if watched.has_moved:
        return write(schema.response(response_data=None, error_code=ErrorCode.not_controller))
    head = response_header(header.api_key, header.api_version, header.correlation_id)
    return write(schema.response(response_data=head + body, error_code=ErrorCode.none))
