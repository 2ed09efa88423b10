"""SASL authentication of a client on one connection, frame by frame.

Pure: a call gets a frame and the time, and returns a response.  The order of frames is Kafka's::

    [ApiVersions] -> SaslHandshake -> SASL tokens -> authenticated

After SaslHandshake version 0 the tokens are bare frames, after version 1 they are in
SaslAuthenticate requests.  Every failure ends the connection: the caller sends ``reply`` after a
delay and closes it.  A re-authentication (KIP-368) must have the same mechanism and the same user.

Source: Kafka ``SaslServerAuthenticator``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from enum import Enum, auto
from struct import Struct
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.errors import InvalidFrame, SaslRefused
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import APIS, ApiKey, client_software
from kafka_common.protocol.framing import (
    RequestHeader,
    frame,
    parse_request_header,
    response_header,
)
from kafka_common.protocol.messages import read_request, response_type, write
from replica_manager.security.principals import USER, Principal
from replica_manager.security.sasl_mechanisms import LoginFailed, SaslServer

MIN_REAUTHENTICATION_INTERVAL_MS: Final = 1000
_SIZE: Final = Struct(">i")
_HANDSHAKE_VERSIONS: Final = (0, 1)
_AUTHENTICATE_VERSIONS: Final = (0, 2)
_API_VERSIONS_VERSIONS: Final = (0, 4)
_HAS_LIFETIME_SINCE: Final = 1
"""The version of SaslAuthenticate since which its response has the session's lifetime."""


class _State(Enum):
    HANDSHAKE_OR_VERSIONS = auto()
    HANDSHAKE = auto()
    AUTHENTICATE = auto()
    BAD_MECHANISM = auto()


class Step(NamedTuple):
    """What the connection must do after a frame."""

    reply: bytes | None = None
    """The response frame with its size; None if there is none to send."""
    failure: str | None = None
    """Why the connection must be closed, for the log; None if it stays open."""
    is_for_dispatcher: bool = False
    """Whether the frame is an ApiVersions request that the dispatcher must handle."""


class Login(NamedTuple):
    """A completed authentication, and when its session expires."""

    principal: Principal
    mechanism_name: str
    expires_at_ms: int | None
    """When the session expires, in ms of the connection's clock; None is never."""
    is_token: bool = False
    """Whether the client authenticated with a delegation token of the principal."""
    can_reauthenticate: bool = False
    """Whether the client's version can authenticate again (KIP-368)."""


class SaslAuthenticator:
    """The state of one authentication."""

    def __init__(
        self,
        servers: Mapping[str, Callable[[], SaslServer]],
        *,
        max_reauth_ms: Mapping[str, int],
        refusal: Callable[[bytes, ErrorCode], bytes | None],
        before: Login | None = None,
    ) -> None:
        """``servers`` makes the server of each mechanism, in the order of the handshake response.

        ``refusal`` makes the dispatcher's response to a request that is not allowed now.
        ``before`` is the login that a re-authentication renews.
        """
        self.login: Login | None = None
        """None until the client is authenticated."""
        self._servers = servers
        self._max_reauth_ms = max_reauth_ms
        self._refusal = refusal
        self._before = before
        self._state = _State.HANDSHAKE_OR_VERSIONS if before is None else _State.HANDSHAKE
        self._is_framed = False
        self._can_reauthenticate = False
        self._server: SaslServer | None = None

    @property
    def _phase(self) -> str:
        return "authentication" if self._before is None else "re-authentication"

    def receive(self, data: bytes, now_ms: int) -> Step:
        """Handles a frame; InvalidFrame if it is not a valid request."""
        match self._state:
            case _State.HANDSHAKE_OR_VERSIONS | _State.HANDSHAKE:
                return self._request(data)
            case _State.AUTHENTICATE:
                return (
                    self._token_request(data, now_ms)
                    if self._is_framed
                    else self._bare_token(data, now_ms)
                )
            case _State.BAD_MECHANISM:
                return Step(failure="another SASL mechanism than before for re-authentication")

    def _request(self, data: bytes) -> Step:
        header, start = parse_request_header(data)
        if header.api_key == ApiKey.SASL_HANDSHAKE:
            _check_version(header, _HANDSHAKE_VERSIONS)
            request: Any = read_request(header.api_key, header.api_version, data, start)
            return self._handshake(header, request)
        if header.api_key != ApiKey.API_VERSIONS:
            name = ApiKey(header.api_key).name
            return Step(failure=f"Unexpected Kafka request of type {name} during SASL handshake.")
        if self._state is _State.HANDSHAKE:
            return Step(failure="Unexpected ApiVersions request before the SASL handshake.")
        if self._is_valid_api_versions(header, data, start):
            self._state = _State.HANDSHAKE
        return Step(is_for_dispatcher=True)

    def _is_valid_api_versions(self, header: RequestHeader, data: bytes, start: int) -> bool:
        """Whether the ApiVersions request is valid; after an error the client may send another."""
        first, last = _API_VERSIONS_VERSIONS
        if not first <= header.api_version <= last:
            return False
        request: Any = read_request(header.api_key, header.api_version, data, start)
        return client_software(header.api_version, request) is not None

    def _handshake(
        self, header: RequestHeader, request: request_types.SaslHandshakeRequest
    ) -> Step:
        wanted = request.mechanism
        self._is_framed = header.api_version >= 1
        enabled = tuple(self._servers)
        if wanted not in self._servers:
            return Step(
                _response(
                    header, error_code=ErrorCode.unsupported_sasl_mechanism, mechanisms=enabled
                ),
                # The client's mechanism name is not logged, because it is arbitrary text.
                "Unsupported SASL mechanism",
            )
        if self._before is not None and self._before.mechanism_name != wanted:
            self._state = _State.BAD_MECHANISM
        else:
            self._server = self._servers[wanted]()
            self._state = _State.AUTHENTICATE
        return Step(_response(header, error_code=ErrorCode.none, mechanisms=enabled))

    def _bare_token(self, token: bytes, now_ms: int) -> Step:
        assert self._server is not None
        try:
            response = self._server.step(token)
            self._take(now_ms)
        except SaslRefused as refused:
            return Step(failure=str(refused))
        return Step(_SIZE.pack(len(response)) + response)

    def _token_request(self, data: bytes, now_ms: int) -> Step:
        assert self._server is not None
        header, start = parse_request_header(data)
        if header.api_key != ApiKey.SASL_AUTHENTICATE:
            name = ApiKey(header.api_key).name
            return Step(
                self._refusal(data, ErrorCode.illegal_sasl_state),
                f"Unexpected Kafka request of type {name} during SASL authentication.",
            )
        _check_version(header, _AUTHENTICATE_VERSIONS)
        self._can_reauthenticate = header.api_version >= _HAS_LIFETIME_SINCE
        request: Any = read_request(header.api_key, header.api_version, data, start)
        try:
            response = self._server.step(request.auth_bytes)
            lifetime_ms = self._take(now_ms)
        except SaslRefused as refused:
            return self._refused(header, refused)
        return Step(
            _response(
                header,
                error_code=ErrorCode.none,
                error_message="",
                auth_bytes=response,
                session_lifetime=timedelta(milliseconds=lifetime_ms),
            )
        )

    def _refused(self, header: RequestHeader, refused: SaslRefused) -> Step:
        assert self._server is not None
        client_text = refused.client_text if isinstance(refused, LoginFailed) else None
        return Step(
            _response(
                header,
                error_code=ErrorCode.sasl_authentication_failed,
                # The reason is not sent, because it could reveal whether a user exists.
                error_message=client_text
                or f"Authentication failed during {self._phase} due to invalid credentials with "
                f"SASL mechanism {self._server.mechanism_name}",
                auth_bytes=b"",
                session_lifetime=timedelta(0),
            ),
            str(refused),
        )

    def _take(self, now_ms: int) -> int:
        """Stores the login if authentication is complete.

        Returns the lifetime of the session in ms, 0 if unlimited or not complete.
        """
        assert self._server is not None
        if self._server.username is None:
            return 0
        principal = Principal(USER, self._server.username)
        if self._before is not None and self._before.principal != principal:
            text = (
                "Cannot change principals during re-authentication from "
                f"{'.'.join(self._before.principal)}: {'.'.join(principal)}"
            )
            raise LoginFailed(text, client_text=text)
        mechanism_name = self._server.mechanism_name
        lifetime_ms = self._lifetime_ms(self._server)
        expires_at_ms = None if lifetime_ms is None else now_ms + lifetime_ms
        self.login = Login(
            principal, mechanism_name, expires_at_ms, self._server.is_token,
            self._can_reauthenticate,
        )  # fmt: skip
        return lifetime_ms or 0

    def _lifetime_ms(self, server: SaslServer) -> int | None:
        """The lifetime of the session in ms, at most that of the token; None if unlimited.

        Source: Kafka ``SaslServerAuthenticator.ReauthInfo``.
        """
        lifetimes = []
        max_reauth_ms = self._max_reauth_ms.get(server.mechanism_name, 0)
        if max_reauth_ms > 0:
            lifetimes.append(max_reauth_ms)
        if server.lifetime_ms is not None:
            lifetimes.append(max(server.lifetime_ms, 0))
        return min(lifetimes, default=None)


def _check_version(header: RequestHeader, versions: Sequence[int]) -> None:
    first, last = versions
    if not first <= header.api_version <= last:
        raise InvalidFrame(f"{APIS[header.api_key].name} version {header.api_version}")


def _response(header: RequestHeader, **values: object) -> bytes:
    kind: Any = response_type(header.api_key, header.api_version)
    known = {name: value for name, value in values.items() if name in kind.__dataclass_fields__}
    body: ResponsePayload = kind(**known)
    head = response_header(header.api_key, header.api_version, header.correlation_id)
    return frame((head, write(body)))
