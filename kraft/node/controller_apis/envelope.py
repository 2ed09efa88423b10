"""Envelope: a client's request that a broker forwards, with the client's principal.

Source: Kafka ``EnvelopeUtils``, ``DefaultKafkaPrincipalBuilder.deserialize`` (KIP-590).
"""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from struct import Struct
from typing import Final, NamedTuple

from kio.schema.default_principal_data.v0.data import DefaultPrincipalData
from kio.schema.errors import ErrorCode

from kafka_common.errors import InvalidFrame, ZkControllerError
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.framing import RequestHeader, parse_request_header
from kafka_common.protocol.messages import read, write
from kafka_common.protocol.versioned_messages import response_schema
from kraft.node.controller_apis.call import ControllerRequestContext
from replica_manager.security.principals import Principal, host_name_of

_PRINCIPAL_VERSION: Final = 0
_VERSION: Final = Struct(">h")
_ADDRESS_SIZES: Final = (4, 16)
_FORWARDABLE: Final = frozenset(
    (
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    )
)
"""The requests that a broker may forward for a client."""


class EnvelopeRefused(ZkControllerError):
    """The request inside is not handled; ``error`` is the error of the Envelope response."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


class ForwardedRequest(NamedTuple):
    """The request inside an Envelope."""

    header: RequestHeader
    data: bytes
    start: int
    """The position in ``data`` at which the request's body begins."""
    context: ControllerRequestContext


def open_envelope(
    request: request_types.EnvelopeRequest, envelope: ControllerRequestContext
) -> ForwardedRequest:
    """The request inside, with the client's own context; EnvelopeRefused if malformed.

    ``envelope`` is the context of the Envelope request itself.
    """
    principal = _principal(request.request_principal)
    host = _host(request.client_host_address)
    data = request.request_data
    try:
        header, start = parse_request_header(data)
    except InvalidFrame as invalid:
        raise EnvelopeRefused(ErrorCode.unsupported_version, str(invalid)) from None
    if header.api_key not in _FORWARDABLE:
        raise EnvelopeRefused(
            ErrorCode.invalid_request,
            f"API {header.api_key} is not enabled or is not eligible for forwarding",
        )
    context = replace(
        envelope,
        api_key=header.api_key,
        api_version=header.api_version,
        client_id=header.client_id or "",
        principal=Principal(principal.type_, principal.name),
        client_host=host,
        is_forwarded=True,
        is_token_authenticated=principal.token_authenticated,
    )
    return ForwardedRequest(header, data, start, context)


def write_envelope(data: bytes | None, error: ErrorCode = ErrorCode.none) -> bytes:
    """The body of an Envelope response: the inner response with its header, or an error."""
    schema = response_schema(ApiKey.ENVELOPE, 0)
    return write(schema.response(response_data=data, error_code=error))


def _principal(data: bytes | None) -> DefaultPrincipalData:
    failed = ErrorCode.principal_deserialization_failure
    if data is None or len(data) < _VERSION.size:
        raise EnvelopeRefused(failed, "the envelope names no client principal")
    (version,) = _VERSION.unpack_from(data)
    if version != _PRINCIPAL_VERSION:
        raise EnvelopeRefused(failed, f"Invalid principal data version {version}")
    try:
        return read(DefaultPrincipalData, data, _VERSION.size)
    except InvalidFrame as invalid:
        raise EnvelopeRefused(failed, str(invalid)) from None


def _host(address: bytes) -> str:
    if len(address) not in _ADDRESS_SIZES:
        raise EnvelopeRefused(
            ErrorCode.invalid_request, "Failed to parse client address from envelope"
        )
    parsed = ipaddress.ip_address(address)
    # As in Java, an IPv4-mapped IPv6 address is read as the IPv4 address.
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return host_name_of(str(mapped or parsed))
