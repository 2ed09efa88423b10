"""The voters of a quorum are its configuration's: a request to change them is refused."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i16, i32, u16

from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.versioned_messages import request_schema
from tests.support.quorum import CLUSTER_ID
from tests.unit.kraft.node.controller_client import Client, client_of_voter

SOMEWHERE = UUID(int=7)


def listeners(api_key: ApiKey, name: str) -> tuple[Any, ...]:
    schema = request_schema(api_key, 0)
    return (schema.part("Listener", name=name, host="localhost", port=u16(9)),)


async def add(client: Client, **changes: object) -> Any:
    asked: dict[str, object] = {
        "cluster_id": CLUSTER_ID,
        "timeout": timedelta(seconds=1),
        "voter_id": i32(5),
        "voter_directory_id": SOMEWHERE,
        "listeners": listeners(ApiKey.ADD_RAFT_VOTER, "CONTROLLER"),
    }
    return await client.ask(ApiKey.ADD_RAFT_VOTER, 0, **(asked | changes))


async def remove(client: Client, **changes: object) -> Any:
    asked: dict[str, object] = {
        "cluster_id": None,
        "voter_id": i32(1),
        "voter_directory_id": SOMEWHERE,
    }
    return await client.ask(ApiKey.REMOVE_RAFT_VOTER, 0, **(asked | changes))


async def update(client: Client, levels: tuple[int, int] = (0, 1), **changes: object) -> Any:
    schema = request_schema(ApiKey.UPDATE_RAFT_VOTER, 0)
    asked: dict[str, object] = {
        "cluster_id": None,
        "current_leader_epoch": i32(client.node.driver.node.epoch),
        "voter_id": i32(1),
        "voter_directory_id": SOMEWHERE,
        "listeners": listeners(ApiKey.UPDATE_RAFT_VOTER, "CONTROLLER"),
        "k_raft_version_feature": schema.part(
            "KRaftVersionFeature",
            min_supported_version=i16(levels[0]),
            max_supported_version=i16(levels[1]),
        ),
    }
    return await client.ask(ApiKey.UPDATE_RAFT_VOTER, 0, **(asked | changes))


def verdict(response: Any) -> tuple[ErrorCode, str | None]:
    return ErrorCode(response.error_code), response.error_message


async def test_a_request_in_order_is_refused_for_the_level_of_the_quorum(tmp_path: Path) -> None:
    async with client_of_voter(tmp_path) as client:
        reason = "because the kraft.version feature is 0"
        assert verdict(await add(client)) == (
            ErrorCode.unsupported_version,
            f"Cluster doesn't support adding voter {reason}",
        )
        assert verdict(await remove(client)) == (
            ErrorCode.unsupported_version,
            f"Cluster doesn't support removing voter {reason}",
        )
        updated = await update(client)
        assert ErrorCode(updated.error_code) is ErrorCode.unsupported_version
        leader = updated.current_leader
        assert (leader.leader_id, leader.leader_epoch, leader.host) == (1, 1, "127.0.0.1")
        assert client.connection.peer == f"{leader.host}:{leader.port}"


async def test_a_request_that_says_too_little_is_not_looked_at_further(tmp_path: Path) -> None:
    async with client_of_voter(tmp_path) as client:
        invalid = ErrorCode.invalid_request
        elsewhere = listeners(ApiKey.ADD_RAFT_VOTER, "OTHER")
        for response in (
            await add(client, voter_directory_id=None),
            await add(client, voter_id=i32(-1)),
            await add(client, listeners=elsewhere),
            await remove(client, voter_directory_id=None),
            await remove(client, voter_id=i32(-1)),
            await update(client, voter_directory_id=None),
            await update(client, listeners=()),
            await update(client, levels=(-1, 1)),
            await update(client, levels=(1, 0)),
        ):
            assert ErrorCode(response.error_code) is invalid


async def test_another_cluster_or_epoch_is_reported_first(tmp_path: Path) -> None:
    async with client_of_voter(tmp_path) as client:
        wrong: dict[str, Any] = {"cluster_id": "other", "voter_directory_id": None}
        for response in (
            await add(client, **wrong),
            await remove(client, **wrong),
            await update(client, **wrong),
        ):
            assert ErrorCode(response.error_code) is ErrorCode.inconsistent_cluster_id
        old = await update(client, current_leader_epoch=i32(0), voter_directory_id=None)
        new = await update(client, current_leader_epoch=i32(99), voter_directory_id=None)
        assert ErrorCode(old.error_code) is ErrorCode.fenced_leader_epoch
        assert ErrorCode(new.error_code) is ErrorCode.unknown_leader_epoch


@pytest.mark.parametrize("ask", [add, remove, update])
async def test_only_a_leader_looks_at_it_at_all(tmp_path: Path, ask: Any) -> None:
    async with client_of_voter(tmp_path, voters=(1, 2)) as client:
        refused = await ask(client)

        # An election may have begun in between: then the epoch is not that of the request.
        assert ErrorCode(refused.error_code) in (
            ErrorCode.not_leader_or_follower,
            ErrorCode.fenced_leader_epoch,
        )
        if ask is update:
            assert (refused.current_leader.leader_id, refused.current_leader.host) == (-1, "")

    # The other voter never comes, so no one is ever elected.
