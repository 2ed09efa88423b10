"""What is in an Envelope: whose request, from where, and what is refused."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kio.schema.errors import ErrorCode
from typing_extensions import override

from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.messages import read_response, write
from kafka_common.protocol.versioned_messages import request_schema
from kraft.controller.quorum_controller_requests import ControllerRequest
from kraft.node.controller_apis.call import Controller, ControllerRequestContext
from kraft.node.controller_apis.envelope import EnvelopeRefused, open_envelope
from kraft.node.quorum_requests import QuorumRequests
from replica_manager.network.connection import Peer
from replica_manager.security.principals import Principal
from tests.support.envelopes import principal_bytes
from tests.support.frames import parse_response_header, request_header

BROKER = ControllerRequestContext(
    int(ApiKey.ENVELOPE), 0, "broker", Principal("User", "broker"), "10.0.0.9", "CONTROLLER", "SSL"
)
ALICE = principal_bytes(Principal("User", "alice"))
LOCALHOST = b"\x7f\0\0\1"


def envelope(
    principal: bytes | None = ALICE,
    address: bytes = LOCALHOST,
    data: bytes = request_header(int(ApiKey.CREATE_TOPICS), 7, 42, "admin") + b"body",
) -> Any:
    return SimpleNamespace(
        request_principal=principal, client_host_address=address, request_data=data
    )


def test_a_forwarded_request_is_the_clients_own() -> None:
    header, data, start, context = open_envelope(envelope(), BROKER)

    assert data[start:] == b"body"
    assert header.correlation_id == 42
    assert context == ControllerRequestContext(
        int(ApiKey.CREATE_TOPICS),
        7,
        "admin",
        Principal("User", "alice"),
        "127.0.0.1",
        "CONTROLLER",
        "SSL",
        is_forwarded=True,
    )


def test_the_principal_is_written_as_kafka_writes_it() -> None:
    # PrincipalData version 0, as DefaultKafkaPrincipalBuilder.serialize has it.
    assert ALICE == b"\0\0" + b"\x05User" + b"\x06alice" + b"\0" + b"\0"


def test_who_logged_in_by_a_token_is_known_as_such() -> None:
    principal = principal_bytes(Principal("User", "alice"), is_token_authenticated=True)

    context = open_envelope(envelope(principal), BROKER).context

    assert context.is_token_authenticated
    assert context.principal == Principal("User", "alice")


@pytest.mark.parametrize(
    ("address", "host"),
    [
        (bytes.fromhex("20010db8000000000000000000000001"), "2001:db8:0:0:0:0:0:1"),
        (bytes(10) + b"\xff\xff\x0a\0\0\x07", "10.0.0.7"),
    ],
)
def test_addresses_are_named_as_in_rules(address: bytes, host: str) -> None:
    assert open_envelope(envelope(address=address), BROKER).context.client_host == host


@pytest.mark.parametrize(
    ("refused", "error"),
    [
        (envelope(principal=None), ErrorCode.principal_deserialization_failure),
        (envelope(principal=b""), ErrorCode.principal_deserialization_failure),
        (envelope(principal=b"\0\1" + ALICE[2:]), ErrorCode.principal_deserialization_failure),
        (envelope(principal=ALICE[:-3]), ErrorCode.principal_deserialization_failure),
        # The first mistake is named, in Kafka's order.
        (envelope(principal=b"", address=b""), ErrorCode.principal_deserialization_failure),
        (envelope(address=b"\x7f\0\0"), ErrorCode.invalid_request),
        (envelope(data=b"\0"), ErrorCode.unsupported_version),
        (
            envelope(data=request_header(int(ApiKey.DESCRIBE_ACLS), 3, 1, "admin")),
            ErrorCode.invalid_request,
        ),
    ],
)
def test_what_cannot_be_taken_out_has_the_envelopes_error(refused: Any, error: ErrorCode) -> None:
    with pytest.raises(EnvelopeRefused) as raised:
        open_envelope(refused, BROKER)

    assert raised.value.error is error


class Failing(Controller):
    """A controller with a defect, or one that stops."""

    def __init__(self, failure: Exception) -> None:
        self._failure = failure

    @override
    async def ask(
        self, request: ControllerRequest, timeout_ms: int | None = None, apply_quota: object = None
    ) -> Any:
        raise self._failure


def forwarded_to(controller: Failing) -> Any:
    """What a broker is answered that forwards a question for every reassignment."""
    schema = request_schema(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0)
    inner = request_header(int(ApiKey.LIST_PARTITION_REASSIGNMENTS), 0, 42, "admin")
    enveloped: Any = request_schema(ApiKey.ENVELOPE, 0).request(
        request_data=inner + write(schema.request(topics=None)),
        request_principal=ALICE,
        client_host_address=LOCALHOST,
    )
    driver = cast(Any, SimpleNamespace(node=None))
    requests = QuorumRequests(driver, "cluster", controller)
    data = request_header(int(ApiKey.ENVELOPE), 0, 7, "broker") + write(enveloped)
    response = asyncio.run(requests.respond(data, Peer("CONTROLLER", "10.0.0.9"))).frame[4:]
    _, start = parse_response_header(int(ApiKey.ENVELOPE), 0, response)
    return read_response(ApiKey.ENVELOPE, 0, response, start)


def test_a_request_that_meets_a_defect_does_not_cost_the_broker_its_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    response = forwarded_to(Failing(RuntimeError("a defect")))

    assert response.error_code is ErrorCode.unknown_server_error
    assert response.response_data is None
    assert "a defect" in caplog.text


def test_a_controller_that_stops_answers_nothing_more() -> None:
    with pytest.raises(ConnectionAbortedError):
        forwarded_to(Failing(ConnectionAbortedError("the controller stops")))
