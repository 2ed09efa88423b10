"""Channels to other nodes: how each request ends, whatever the other side is like."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Final

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.model import Endpoint
from kafka_common.net.client_security import PLAIN, PLAINTEXT, ClientSecurity, Credentials
from kafka_common.protocol.api_versions import ApiKey, api_versions_response
from kafka_common.protocol.framing import frame, parse_request_header, response_header
from kafka_common.protocol.messages import write
from kraft.node import raft_channel
from kraft.node.raft_channel import Outcome, RaftChannels
from kraft.raft.inputs import RaftRequestFailed, RaftResponseReceived
from kraft.raft.messages import DescribeQuorumRequest, VoteRequest, VoteResponse
from kraft.raft.outputs import SendRequest
from kraft.raft.values import NodeAddress, OffsetAndEpoch, ReplicaKey
from kraft.raft.wire import OFFERED, write_response
from replica_manager.network.connection import Peer, Respond, ResponseFrame
from replica_manager.network.listener import ServerLimits, SocketServer
from tests.support.quorum import eventually, free_ports

VOTE: Final = VoteRequest("cluster", ReplicaKey(2), 5, ReplicaKey(1), OffsetAndEpoch(3, 4))
GRANTED: Final = VoteResponse(leader_epoch=5, vote_granted=True)
VERSIONS: Final = {**OFFERED, int(ApiKey.API_VERSIONS): (0, 4)}


class Node:
    """The other side: answers Vote by ``vote``, offers what ``offered`` says."""

    def __init__(self) -> None:
        self.offered: dict[int, tuple[int, int]] = dict(VERSIONS)
        self.asked: list[tuple[int, int]] = []
        self.client_ids: set[str | None] = set()
        self.hold = asyncio.Event()
        self.hold.set()
        self.is_mad = False

    async def respond(self, data: bytes, _peer: Peer) -> ResponseFrame:
        header, _ = parse_request_header(data)
        self.asked.append((header.api_key, header.api_version))
        self.client_ids.add(header.client_id)
        head = response_header(header.api_key, header.api_version, header.correlation_id)
        match header.api_key:
            case ApiKey.API_VERSIONS:
                return ResponseFrame(
                    frame((head, write(api_versions_response(header.api_version, self.offered))))
                )
            case ApiKey.SASL_HANDSHAKE:
                # UNSUPPORTED_SASL_MECHANISM, and none that would be.
                return ResponseFrame(frame((head, struct.pack(">hi", 33, 0))))
            case _:
                await self.hold.wait()
                body = b"\xff\xff" if self.is_mad else write_response(GRANTED, header.api_version)
                return ResponseFrame(frame((head, body)))


@asynccontextmanager
async def listening(respond: Respond, port: int) -> AsyncIterator[None]:
    listener = Endpoint("127.0.0.1", port, "CONTROLLER", "PLAINTEXT")
    server = SocketServer(
        (listener,), ServerLimits(), respond, broker_id=2, protected_listener="CONTROLLER"
    )
    server.open()
    try:
        yield
    finally:
        await server.close()


class Asking:
    """This side."""

    def __init__(self, security: ClientSecurity = PLAINTEXT, timeout_ms: int = 2_000) -> None:
        [self.port] = free_ports(1)
        self.outcomes: list[Outcome] = []
        self.channels = RaftChannels(
            node_id=1,
            request_timeout_ms=timeout_ms,
            on_outcome=self.outcomes.append,
            random=Random(1),
            security=security,
        )
        self._sent = 0

    def send(self, request: VoteRequest | DescribeQuorumRequest = VOTE) -> int:
        self._sent += 1
        self.channels.send(SendRequest(2, NodeAddress("127.0.0.1", self.port), self._sent, request))
        return self._sent

    async def outcome(self) -> Outcome:
        await eventually(lambda: bool(self.outcomes), "the request has an outcome")
        return self.outcomes.pop(0)

    async def error(self) -> ErrorCode:
        outcome = await self.outcome()
        assert isinstance(outcome, RaftRequestFailed)
        return outcome.error


async def test_a_request_is_answered_and_the_connection_serves_the_next_one() -> None:
    asking, node = Asking(), Node()
    async with listening(node.respond, asking.port):
        asking.send()
        assert await asking.outcome() == RaftResponseReceived(2, 1, GRANTED)
        asking.send()
        assert await asking.outcome() == RaftResponseReceived(2, 2, GRANTED)
        await asking.channels.close()

    assert node.asked == [(ApiKey.API_VERSIONS, 0), (ApiKey.VOTE, 1), (ApiKey.VOTE, 1)]
    assert node.client_ids == {"raft-client-1"}


async def test_a_peer_that_knows_only_version_0_gets_that() -> None:
    asking, node = Asking(), Node()
    node.offered[ApiKey.VOTE] = (0, 0)
    async with listening(node.respond, asking.port):
        asking.send()
        assert isinstance(await asking.outcome(), RaftResponseReceived)
        await asking.channels.close()

    assert node.asked[-1] == (ApiKey.VOTE, 0)


async def test_a_peer_that_knows_no_such_request_is_not_sent_it() -> None:
    asking, node = Asking(), Node()
    del node.offered[ApiKey.VOTE]
    async with listening(node.respond, asking.port):
        asking.send()
        assert await asking.error() is ErrorCode.unsupported_version
        asking.send()
        assert await asking.error() is ErrorCode.unsupported_version
        await asking.channels.close()

    # One connection was enough to know.
    assert node.asked == [(ApiKey.API_VERSIONS, 0)]


async def test_without_a_listener_requests_fail_at_once_until_it_is_time_to_try_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # On a busy machine 50 ms can be over before the next request.
    monkeypatch.setattr(raft_channel, "RECONNECT_BACKOFF_MS", 10_000)
    monkeypatch.setattr(raft_channel, "RECONNECT_BACKOFF_MAX_MS", 10_000)
    asking, node = Asking(), Node()
    asking.send()
    assert await asking.error() is ErrorCode.broker_not_available

    async with listening(node.respond, asking.port):
        asking.send()
        assert await asking.error() is ErrorCode.broker_not_available
        assert node.asked == []
        loop = asyncio.get_running_loop()
        now = loop.time
        monkeypatch.setattr(loop, "time", lambda: now() + 20)
        asking.send()
        assert isinstance(await asking.outcome(), RaftResponseReceived)
        await asking.channels.close()


async def test_a_held_request_does_not_keep_the_next_one_waiting() -> None:
    asking, node = Asking(timeout_ms=60_000), Node()
    node.hold.clear()
    async with listening(node.respond, asking.port):
        asking.send()
        await eventually(lambda: (ApiKey.VOTE, 1) in node.asked, "it has arrived")

        second = asking.send()
        await eventually(lambda: node.asked.count((ApiKey.VOTE, 1)) == 2, "so has the other")
        node.hold.set()

        assert await asking.outcome() == RaftResponseReceived(2, second, GRANTED)
        await asyncio.sleep(0.05)
        assert asking.outcomes == []
        await asking.channels.close()


async def test_a_peer_that_does_not_answer_in_time_is_not_available() -> None:
    asking, node = Asking(timeout_ms=100), Node()
    node.hold.clear()
    async with listening(node.respond, asking.port):
        asking.send()
        assert await asking.error() is ErrorCode.broker_not_available
        await asking.channels.close()


async def test_a_peer_that_answers_nonsense_is_not_available() -> None:
    asking, node = Asking(), Node()
    node.is_mad = True
    async with listening(node.respond, asking.port):
        asking.send()
        assert await asking.error() is ErrorCode.broker_not_available
        await asking.channels.close()


async def test_a_peer_that_does_not_let_us_in_is_a_network_exception() -> None:
    asking = Asking(ClientSecurity(credentials=Credentials(PLAIN, "us", "secret")))
    node = Node()
    async with listening(node.respond, asking.port):
        asking.send()
        assert await asking.error() is ErrorCode.network_exception
        await asking.channels.close()

    assert node.asked == [(ApiKey.SASL_HANDSHAKE, 1)]
