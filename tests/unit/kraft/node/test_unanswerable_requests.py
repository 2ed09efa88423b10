"""A request to a quorum node whose answer no field of the wire holds.

Its client gets an error or loses the connection; the log names the request, and the node serves on.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i32, i64
from typing_extensions import override

from kafka_common.net.connection import Connection
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.messages import read_response, write
from kafka_common.protocol.versioned_messages import request_schema
from kraft.controller.quorum_controller_requests import ControllerRequest
from kraft.node.controller_apis.call import Controller
from kraft.node.quorum_requests import QuorumRequests
from kraft.raft.messages import VoteRequest, VoteResponse
from kraft.raft.values import OffsetAndEpoch, ReplicaKey
from kraft.raft.wire import write_request
from replica_manager.network.connection import Peer
from replica_manager.security.principals import Principal
from tests.support.envelopes import principal_bytes
from tests.support.frames import parse_response_header, request_header
from tests.unit.kraft.node.controller_client import client_of_voter

NO_WIRE_HOLDS: Final = SimpleNamespace(first_producer_id=2**63, size=1000)
"""A block of producer ids that begins beyond 64 bits."""
ALLOCATION: Final = request_schema(ApiKey.ALLOCATE_PRODUCER_IDS, 0).request(
    broker_id=i32(1), broker_epoch=i64(0)
)


class Giving(Controller):
    """A controller with one answer."""

    @override
    async def ask(
        self, request: ControllerRequest, timeout_ms: int | None = None, apply_quota: object = None
    ) -> Any:
        return NO_WIRE_HOLDS


async def _never_read(*_: object) -> Any:
    return VoteResponse(leader_epoch=2**40)


def answer_to(api_key: ApiKey, version: int, body: bytes) -> Any:
    """What a node with such a controller, and such votes, answers."""
    driver = cast(Any, SimpleNamespace(node=None, ask=_never_read))
    requests = QuorumRequests(driver, "cluster", Giving())
    data = request_header(int(api_key), version, 7, "broker") + body
    response = asyncio.run(requests.respond(data, Peer("CONTROLLER", "10.0.0.9"))).frame[4:]
    _, start = parse_response_header(int(api_key), version, response)
    return read_response(api_key, version, response, start)


def test_an_answer_that_cannot_be_encoded_is_named_in_the_log_and_closes_the_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(ConnectionAbortedError):
        answer_to(ApiKey.ALLOCATE_PRODUCER_IDS, 0, write(ALLOCATION))

    assert "correlationId=7, api=AllocateProducerIds, version=0" in caplog.text
    assert "int too large" in caplog.text


def test_inside_of_an_envelope_it_is_the_envelopes_error(caplog: pytest.LogCaptureFixture) -> None:
    inner = request_header(int(ApiKey.ALLOCATE_PRODUCER_IDS), 0, 42, "admin") + write(ALLOCATION)
    enveloped: Any = request_schema(ApiKey.ENVELOPE, 0).request(
        request_data=inner,
        request_principal=principal_bytes(Principal("User", "alice")),
        client_host_address=b"\x7f\0\0\1",
    )

    response = answer_to(ApiKey.ENVELOPE, 0, write(enveloped))

    assert response.error_code is ErrorCode.unknown_server_error
    assert "clientId=admin, correlationId=42, api=AllocateProducerIds" in caplog.text


def test_another_voter_is_answered_with_an_error(caplog: pytest.LogCaptureFixture) -> None:
    voter = ReplicaKey(1, UUID(int=1))
    vote = VoteRequest("cluster", voter, 3, ReplicaKey(2, UUID(int=2)), OffsetAndEpoch(0, 0))

    response = answer_to(ApiKey.VOTE, 1, write_request(vote, 1))

    assert response.error_code is ErrorCode.unknown_server_error
    assert "api=Vote, version=1" in caplog.text


async def test_the_node_serves_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with client_of_voter(tmp_path) as client:
        await client.join()
        controller: Any = client.node.controller
        usual = controller.ask

        async def ask(*_: object) -> Any:
            return NO_WIRE_HOLDS

        controller.ask = ask
        with pytest.raises(ConnectionError):
            await client.ask(ApiKey.ALLOCATE_PRODUCER_IDS, 0, broker_id=i32(1), broker_epoch=i64(0))
        controller.ask = usual

        port = int(client.connection.peer.rpartition(":")[2])
        client.connection = await Connection.open("127.0.0.1", port, client_id="again")
        try:
            assert "orders" in await client.create("orders")
        finally:
            await client.connection.close()

    assert "clientId=test" in caplog.text
    assert "api=AllocateProducerIds" in caplog.text
