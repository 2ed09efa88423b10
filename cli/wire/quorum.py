"""DescribeQuorum, sent to the quorum's leader.

A node that is not the leader refuses DescribeQuorum without naming the leader.  Its refusal of a
Fetch names the leader and its address, so the leader is found from any node.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kio.schema.errors import ErrorCode

from kafka_common.errors import InvalidFrame
from kafka_common.net.connection import Connection
from kafka_common.protocol.error_codes import error_name
from kafka_common.protocol.uuid_text import uuid_text
from kraft.node.raft_channel import versions_of
from kraft.raft.messages import (
    AnyRaftResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    FetchRequest,
    RaftRequest,
    ReplicaProgress,
)
from kraft.raft.wire import api_key_of, common_version, read_response, write_request
from zkcontroller_cli.console.errors import CannotConnect, Refused
from zkcontroller_cli.console.options import Bootstrap
from zkcontroller_cli.wire.requests import BrokerAddress, Deadline, connected_raw, parse_bootstrap

MAX_NODES: Final = 100
"""The most nodes that are asked, as each may name another node."""
_MAX_FETCH_BYTES: Final = 1_000

_FETCH_IN_EPOCH_0: Final = FetchRequest(
    cluster_id=None,
    replica=None,
    leader_epoch=0,
    fetch_offset=0,
    last_fetched_epoch=0,
    max_wait_ms=0,
    max_bytes=_MAX_FETCH_BYTES,
)
"""A Fetch in epoch 0, which every node refuses, as an epoch with a leader is above 0.

The refusal names the leader.
"""


async def describe_quorum(bootstrap: Bootstrap, deadline: Deadline) -> DescribeQuorumResponse:
    """The leader's response; CannotConnect if no node answers, Refused if no leader is found."""
    waiting = parse_bootstrap(bootstrap.servers)
    asked: list[BrokerAddress] = []
    reasons: list[str] = []
    while waiting and len(asked) < MAX_NODES:
        address = waiting.pop(0)
        asked.append(address)
        try:
            async with connected_raw(address, deadline, bootstrap.security) as connection:
                response = await _described_by(connection, address)
        except CannotConnect as failure:
            reasons.append(str(failure))
            continue
        if isinstance(response, DescribeQuorumResponse):
            return response
        waiting += [each for each in response if each not in (*asked, *waiting)]
    if len(reasons) == len(asked):
        raise CannotConnect("; ".join(reasons))
    silent = f" ({'; '.join(reasons)})" if reasons else ""
    raise Refused(f"no node of the quorum leads: asked {', '.join(map(str, asked))}{silent}")


async def _described_by(
    connection: Connection, address: BrokerAddress
) -> DescribeQuorumResponse | Sequence[BrokerAddress]:
    """The node's description of the quorum if it leads, else the leader that it names."""
    versions = await versions_of(connection)
    response = await _ask(connection, versions, DescribeQuorumRequest())
    assert isinstance(response, DescribeQuorumResponse), "an answer in kind"
    error = response.error
    if response.top_level_error is not ErrorCode.none:
        error = response.top_level_error
    if error is ErrorCode.none:
        return response
    if error is not ErrorCode.not_leader_or_follower:
        raise Refused(f"{address} does not describe the quorum: {error_name(error.value)}")
    with contextlib.suppress(Refused, InvalidFrame):
        leader = (await _ask(connection, versions, _FETCH_IN_EPOCH_0)).leader_endpoint
        return () if leader is None else (BrokerAddress(leader.host, leader.port),)
    return ()


async def _ask(
    connection: Connection, versions: Mapping[int, tuple[int, int]], request: RaftRequest
) -> AnyRaftResponse:
    api_key = api_key_of(request)
    version = common_version(api_key, versions)
    if version is None:
        raise Refused(f"{connection.peer} is no node of a quorum: it does not know {api_key.name}")
    body = await connection.call(api_key, version, (write_request(request, version),))
    return read_response(api_key, version, body)


def status_record(described: DescribeQuorumResponse) -> dict[str, Any]:
    """A summary of the quorum: leader, high watermark, lag, voters and observers.

    Source: Kafka ``MetadataQuorumCommand.handleDescribeStatus``.
    """
    leader = _leader(described)
    behind = min(described.voters, key=lambda voter: voter.log_end_offset, default=leader)
    lag_ms = leader.last_caught_up_timestamp - behind.last_caught_up_timestamp
    is_known = min(leader.last_caught_up_timestamp, behind.last_caught_up_timestamp) >= 0
    return {
        "leader_id": described.leader_id,
        "leader_epoch": described.leader_epoch,
        "high_watermark": described.high_watermark,
        "max_follower_lag": leader.log_end_offset - behind.log_end_offset,
        "max_follower_lag_time_ms": lag_ms if is_known else -1,
        "current_voters": [each.replica.id for each in described.voters],
        "current_observers": [each.replica.id for each in described.observers],
    }


def replication_rows(described: DescribeQuorumResponse) -> list[dict[str, Any]]:
    """One row for each node: the leader first, then the other voters, then the observers."""
    leader = _leader(described)
    followers = [each for each in described.voters if each is not leader]
    return [
        _replication_row(leader, leader, "leader"),
        *(_replication_row(each, leader, "follower") for each in followers),
        *(_replication_row(each, leader, "observer") for each in described.observers),
    ]


def _replication_row(
    replica: ReplicaProgress, leader: ReplicaProgress, status: str
) -> dict[str, Any]:
    directory_id = replica.replica.directory_id
    return {
        "node_id": replica.replica.id,
        "directory_id": None if directory_id is None else uuid_text(directory_id),
        "log_end_offset": replica.log_end_offset,
        "lag": leader.log_end_offset - replica.log_end_offset,
        "last_fetch_timestamp": replica.last_fetch_timestamp,
        "last_caught_up_timestamp": replica.last_caught_up_timestamp,
        "status": status,
    }


def _leader(described: DescribeQuorumResponse) -> ReplicaProgress:
    for voter in described.voters:
        if voter.replica.id == described.leader_id:
            return voter
    raise Refused(f"node {described.leader_id} says that it leads, and is no voter")
