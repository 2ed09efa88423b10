"""Who may see what a controller is, who may change its levels, and who gets tokens for others."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i8, i16, i32, i64Timedelta, u16
from kio.static.protocol import RequestPayload

from kafka_common.acls import AclOperation, ResourceType
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.messages import read, write
from kafka_common.protocol.numeric_times import numeric_response_type
from kafka_common.protocol.versioned_messages import request_schema
from tests.support.secured_quorum import AUTHORIZED, secured_node
from tests.unit.kraft.node.permissions import CLUSTER, DENIED, TOPIC_DENIED, allow, codes

SOMEWHERE: Final = UUID(int=7)
TOPIC, BROKER, LOGGER, METRICS = 2, 4, 8, 16


def cluster_description() -> RequestPayload:
    return request_schema(ApiKey.DESCRIBE_CLUSTER, 1).request(
        include_cluster_authorized_operations=True, endpoint_type=i8(1)
    )


def voter_addition() -> RequestPayload:
    schema = request_schema(ApiKey.ADD_RAFT_VOTER, 0)
    listener = schema.part("Listener", name="CONTROLLER", host="localhost", port=u16(9))
    return schema.request(
        cluster_id="another",
        timeout=timedelta(seconds=1),
        voter_id=i32(5),
        voter_directory_id=SOMEWHERE,
        listeners=(listener,),
    )


def voter_removal() -> RequestPayload:
    return request_schema(ApiKey.REMOVE_RAFT_VOTER, 0).request(
        cluster_id="another", voter_id=i32(5), voter_directory_id=SOMEWHERE
    )


def voter_update() -> RequestPayload:
    schema = request_schema(ApiKey.UPDATE_RAFT_VOTER, 0)
    levels = schema.part(
        "KRaftVersionFeature", min_supported_version=i16(0), max_supported_version=i16(1)
    )
    return schema.request(
        cluster_id="another",
        current_leader_epoch=i32(1),
        voter_id=i32(5),
        voter_directory_id=SOMEWHERE,
        listeners=(),
        k_raft_version_feature=levels,
    )


@pytest.mark.parametrize(
    ("request_", "operation"),
    [
        (cluster_description(), AclOperation.ALTER),
        (voter_addition(), AclOperation.ALTER),
        (voter_removal(), AclOperation.ALTER),
        (voter_update(), AclOperation.CLUSTER_ACTION),
    ],
)
async def test_what_is_wrong_with_a_request_is_reported_to_who_may_make_it(
    tmp_path: Path, request_: RequestPayload, operation: AclOperation
) -> None:
    async with secured_node(tmp_path) as node, node.client("alice") as alice:
        assert codes([await alice.ask(request_)]) == [DENIED]

        await allow(node, (ResourceType.CLUSTER, CLUSTER, operation))
        [error] = codes([await alice.ask(request_)])
        assert error in (ErrorCode.mismatched_endpoint_type, ErrorCode.inconsistent_cluster_id)


def description(*resources: tuple[int, str]) -> RequestPayload:
    schema = request_schema(ApiKey.DESCRIBE_CONFIGS, 4)
    wanted = tuple(
        schema.part(
            "DescribeConfigsResource",
            resource_type=i8(resource_type),
            resource_name=name,
            configuration_keys=None,
        )
        for resource_type, name in resources
    )
    return schema.request(resources=wanted, include_synonyms=False, include_documentation=False)


async def test_configurations_are_shown_to_who_may_see_them(tmp_path: Path) -> None:
    asked = description((BROKER, "1"), (LOGGER, "1"), (METRICS, "m"), (TOPIC, "orders"))

    async with secured_node(tmp_path) as node:

        async def shown_to_alice() -> dict[int, ErrorCode]:
            async with node.client("alice") as alice:
                response = await alice.ask(asked)
                assert all(
                    bool(row.configs) <= (row.error_code == 0) for row in response.results
                ), "told in spite of an error"
                return {row.resource_type: ErrorCode(row.error_code) for row in response.results}

        assert await shown_to_alice() == {
            BROKER: DENIED, LOGGER: DENIED, METRICS: DENIED, TOPIC: TOPIC_DENIED,
        }  # fmt: skip
        await allow(node, (ResourceType.TOPIC, "orders", AclOperation.DESCRIBE_CONFIGS))
        unknown = ErrorCode.unknown_topic_or_partition
        assert (await shown_to_alice())[TOPIC] is unknown
        await allow(node, (ResourceType.CLUSTER, CLUSTER, AclOperation.DESCRIBE_CONFIGS))
        none = ErrorCode.none
        assert await shown_to_alice() == {BROKER: none, LOGGER: none, METRICS: none, TOPIC: unknown}


async def test_levels_are_changed_by_who_may_act_on_the_cluster(tmp_path: Path) -> None:
    schema = request_schema(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1)
    change = schema.part("AlterableConfig", name="no.such.logger", config_operation=i8(0), value="")
    resource = schema.part(
        "AlterConfigsResource", resource_type=i8(LOGGER), resource_name="1", configs=(change,)
    )
    asked = schema.request(resources=(resource,), validate_only=False)

    async with secured_node(tmp_path) as node, node.client("alice") as alice:
        await allow(node, (ResourceType.CLUSTER, CLUSTER, AclOperation.ALTER_CONFIGS))
        assert codes((await alice.ask(asked)).responses) == [DENIED]

        await allow(node, (ResourceType.CLUSTER, CLUSTER, AclOperation.CLUSTER_ACTION))
        assert codes((await alice.ask(asked)).responses) == [ErrorCode.invalid_config]


async def test_who_has_logged_in_gets_a_token_and_one_for_others_by_a_rule(tmp_path: Path) -> None:
    async with (
        secured_node(tmp_path, {**AUTHORIZED, "delegation.token.secret.key": "opensesame"}) as node,
        node.client("alice") as alice,
    ):

        async def token_for(owner: str | None) -> Any:
            schema = request_schema(ApiKey.CREATE_DELEGATION_TOKEN, 3)
            request = schema.request(
                owner_principal_type=owner and "User",
                owner_principal_name=owner,
                renewers=(),
                max_lifetime=i64Timedelta.parse(timedelta(milliseconds=-1)),
            )
            api_key = int(ApiKey.CREATE_DELEGATION_TOKEN)
            response = await alice.call(api_key, 3, write(request))
            return read(numeric_response_type(api_key, 3), response)

        own = await token_for(None)
        assert (ErrorCode(own.error_code), own.principal_name) == (ErrorCode.none, "alice")
        refused = await token_for("bob")
        denied = ErrorCode.delegation_token_authorization_failed
        assert (ErrorCode(refused.error_code), refused.hmac) == (denied, b"")

        await allow(node, (ResourceType.USER, "User:bob", AclOperation.CREATE_TOKENS))
        bobs = await token_for("bob")
        assert (ErrorCode(bobs.error_code), bobs.principal_name) == (ErrorCode.none, "bob")
        assert bobs.token_requester_principal_name == "alice"
