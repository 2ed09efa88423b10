"""SaslHandshake and SaslAuthenticate after the login, or on a listener without SASL: an error.

The login itself is handled in :mod:`replica_manager.security.sasl_authenticator`.

Source: Kafka ``ControllerApis.handleSaslHandshakeRequest``, ``handleSaslAuthenticateRequest``.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from kio.schema.errors import ErrorCode

from kafka_common.errors import UnsupportedVersion
from kafka_common.protocol.api_versions import ApiKey, api
from kafka_common.protocol.framing import RequestHeader
from kafka_common.protocol.messages import read_request, write
from kafka_common.protocol.versioned_messages import response_schema

OFFERED_FOR_LOGINS: Final[Mapping[int, tuple[int, int]]] = {
    ApiKey.SASL_HANDSHAKE: (0, 1),
    ApiKey.SASL_AUTHENTICATE: (0, 2),
}
"""The login APIs in ApiVersions, with first and last version; also without a login here."""


def respond_to_late_login(header: RequestHeader, data: bytes, start: int) -> bytes:
    """A response body with ILLEGAL_SASL_STATE; InvalidFrame if the request is malformed."""
    first, last = OFFERED_FOR_LOGINS[header.api_key]
    if not first <= header.api_version <= last:
        name = api(header.api_key).name
        raise UnsupportedVersion(f"{name} version {header.api_version} is not answered here")
    read_request(header.api_key, header.api_version, data, start)
    return write(
        response_schema(header.api_key, header.api_version).response(
            error_code=ErrorCode.illegal_sasl_state,
            error_message="SaslAuthenticate request received after successful authentication",
            mechanisms=(),
            auth_bytes=b"",
            session_lifetime=timedelta(0),
        )
    )
