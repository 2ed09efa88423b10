"""What a node of the quorum answers on its socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.net.connection import Connection
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.messages import read_response as read_message
from kafka_common.protocol.messages import write
from kafka_common.protocol.versioned_messages import request_schema
from kraft.raft.messages import (
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    FetchRequest,
    RaftRequest,
    VoteRequest,
)
from kraft.raft.values import OffsetAndEpoch, ReplicaKey
from kraft.raft.wire import OFFERED, api_key_of, read_response, write_request
from tests.support.quorum import CLUSTER_ID, Quorum


@asynccontextmanager
async def one_of_three(directory: Path) -> AsyncIterator[Connection]:
    """A connection to one of three voters, which is alone."""
    async with Quorum(directory) as quorum:
        await quorum.start(1)
        endpoint = quorum.voters.endpoints[1]
        connection = await Connection.open(*endpoint, client_id="test")
        yield connection
        await connection.close()


async def ask(connection: Connection, request: RaftRequest, version: int) -> Any:
    api_key = api_key_of(request)
    body = await connection.call(api_key, version, (write_request(request, version),))
    return read_response(api_key, version, body)


@pytest.mark.parametrize("version", range(5))
async def test_api_versions_offers_exactly_what_is_answered(tmp_path: Path, version: int) -> None:
    async with one_of_three(tmp_path) as connection:
        request = request_schema(ApiKey.API_VERSIONS, version).request(
            client_software_name="test", client_software_version="1.0"
        )
        response: Any = await connection.request(request)

        assert response.error_code is ErrorCode.none
        offered = {
            int(each.api_key): (int(each.min_version), int(each.max_version))
            for each in response.api_keys
        }
        assert offered == {
            **OFFERED,
            ApiKey.API_VERSIONS: (0, 4),
            ApiKey.SASL_HANDSHAKE: (0, 1),
            ApiKey.SASL_AUTHENTICATE: (0, 2),
        }


async def test_an_unknown_version_of_api_versions_is_answered_in_version_0(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as connection:
        request = request_schema(ApiKey.API_VERSIONS, 4).request(
            client_software_name="test", client_software_version="1.0"
        )
        # Version 4's header and body under a number of the future, by hand.
        sock_body = write(request)
        host, _, port = connection.peer.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = b"\0\x12\0\x09\0\0\0\x07\0\x01t\0"
        writer.write(len(head + sock_body).to_bytes(4, "big") + head + sock_body)
        size = int.from_bytes(await reader.readexactly(4), "big")
        frame = await reader.readexactly(size)
        writer.close()
        await writer.wait_closed()

        assert frame[:4] == b"\0\0\0\x07"
        response: Any = read_message(ApiKey.API_VERSIONS, 0, frame, 4)
        assert response.error_code is ErrorCode.unsupported_version
        [entry] = response.api_keys
        assert (entry.api_key, entry.min_version, entry.max_version) == (18, 0, 4)


async def test_what_is_not_offered_closes_the_connection(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as connection:
        with pytest.raises(ConnectionError):
            await connection.call(ApiKey.METADATA, 12, (b"\0" * 8,))


@pytest.mark.parametrize("version", range(13, 18))
async def test_who_does_not_lead_answers_a_fetch_at_once_and_says_whom_it_knows(
    tmp_path: Path, version: int
) -> None:
    async with one_of_three(tmp_path) as connection:
        fetch = FetchRequest(CLUSTER_ID, ReplicaKey(2), 0, 0, 0, 60_000, 1_000)
        async with asyncio.timeout(5):
            response = await ask(connection, fetch, version)

        assert response.error in (
            ErrorCode.not_leader_or_follower,
            ErrorCode.fenced_leader_epoch,  # it stands for election already
        )
        assert response.leader_id is None


@pytest.mark.parametrize("version", [0, 1])
async def test_a_vote_is_given_over_the_wire(tmp_path: Path, version: int) -> None:
    async with one_of_three(tmp_path) as connection:
        vote = VoteRequest(CLUSTER_ID, ReplicaKey(1), 50, ReplicaKey(2), OffsetAndEpoch(0, 0))
        response = await ask(connection, vote, version)

        assert (response.error, response.vote_granted) == (ErrorCode.none, True)
        assert response.leader_epoch == 50
        again = await ask(connection, VoteRequest(
            CLUSTER_ID, ReplicaKey(1), 50, ReplicaKey(3), OffsetAndEpoch(0, 0)
        ), version)  # fmt: skip
        assert (again.error, again.vote_granted) == (ErrorCode.none, False)


async def test_another_cluster_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as connection:
        begin = BeginQuorumEpochRequest("another", None, 2, 99, {})
        refused = await ask(connection, begin, 1)
        described = await ask(connection, DescribeQuorumRequest(), 2)

        assert refused.top_level_error is ErrorCode.inconsistent_cluster_id
        assert described.error is ErrorCode.not_leader_or_follower
        begun = await ask(connection, BeginQuorumEpochRequest(CLUSTER_ID, None, 2, 98, {}), 1)
        assert begun.error is ErrorCode.none
        assert (begun.leader_id, begun.leader_epoch) == (2, 98)
