"""The APIs that change rules and credentials, and who may use them."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any, Final, cast

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.protocol.scram import ScramCredential, ScramMechanism, salt_password
from replica_manager.security.acl_store import AclStore
from replica_manager.security.principals import Principal
from replica_manager.server.zookeeper_admin import AclsInZooKeeper
from tests.support.broker_world import BrokerWorld
from tests.support.guarded_world import CLUSTER_DENIED, ask, guarded_world, schema
from zkcontroller.zookeeper.znodes import ConfigZnode

TIMEOUT_S: Final = 10


@pytest.fixture
def world(executor: ThreadPoolExecutor) -> BrokerWorld:
    return guarded_world(executor)


# Rules on the wire


def rule(name: str = "orders", kind: int = 3, **changes: Any) -> dict[str, Any]:
    return {
        "resource_type": 2,
        "resource_name": name,
        "resource_pattern_type": kind,
        "principal": "User:bob",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
        **changes,
    }


def create_acls(world: BrokerWorld, *rules: dict[str, Any]) -> list[tuple[ErrorCode, str | None]]:
    module = schema("create_acls", 3)
    request = module.CreateAclsRequest(
        creations=tuple(module.AclCreation(**each) for each in rules)
    )
    return [(each.error_code, each.error_message) for each in ask(world, request).results]


def test_changes_of_rules_that_wait_take_no_thread_from_other_requests() -> None:
    begun, may_end = Event(), Event()

    class SlowStore:
        def delete(self, _: object) -> list[object]:
            begun.set()
            assert may_end.wait(TIMEOUT_S)
            return []

    async def story(executor: ThreadPoolExecutor) -> str:
        acls = AclsInZooKeeper(cast(AclStore, SlowStore()), executor)
        changes = [asyncio.ensure_future(acls.delete([])) for _ in range(3)]
        assert await asyncio.to_thread(begun.wait, TIMEOUT_S)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await loop.run_in_executor(executor, lambda: "served")
        finally:
            may_end.set()
            await asyncio.gather(*changes)

    with ThreadPoolExecutor(2) as two:
        assert asyncio.run(story(two)) == "served"


def test_rules_are_created_described_and_deleted(world: BrokerWorld) -> None:
    world.principal = Principal("User", "admin")
    describe, delete = schema("describe_acls", 3), schema("delete_acls", 3)

    outcomes = create_acls(
        world,
        rule(),
        rule("or", kind=4),
        rule("kafka", resource_type=4),
        rule(""),
        rule("a/b"),
        rule(kind=1),
        rule(operation=1),
        rule(principal="bob"),
    )

    assert [code for code, _ in outcomes] == [ErrorCode.none] * 2 + [ErrorCode.invalid_request] * 6
    assert outcomes[2][1] == "The only valid name for the CLUSTER resource is kafka-cluster"
    assert outcomes[3][1] == "Invalid empty resource name"

    described = ask(
        world,
        describe.DescribeAclsRequest(
            resource_type_filter=2, resource_name_filter="orders", pattern_type_filter=2,
            principal_filter=None, host_filter=None, operation=1, permission_type=1,
        ),
    )  # fmt: skip
    assert [(each.resource_name, each.pattern_type) for each in described.resources] == [
        ("orders", 3),
        ("or", 4),
    ]
    assert described.resources[0].acls[0].principal == "User:bob"

    deletion = delete.DeleteAclsRequest(
        filters=(
            delete.DeleteAclsFilter(
                resource_type_filter=2, resource_name_filter="orders", pattern_type_filter=3,
                principal_filter="User:bob", host_filter=None, operation=1, permission_type=1,
            ),
            delete.DeleteAclsFilter(
                resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1,
                principal_filter="User:bob", host_filter=None, operation=1, permission_type=1,
            ),
        )
    )  # fmt: skip
    first, second = ask(world, deletion).filter_results
    assert [each.resource_name for each in first.matching_acls] == ["orders"]
    assert [each.resource_name for each in second.matching_acls] == ["or"]
    assert world.context.authorizer is not None
    assert world.context.authorizer.cache.acls == {}


def test_rules_may_not_be_changed_by_anybody(world: BrokerWorld) -> None:
    assert create_acls(world, rule()) == [(CLUSTER_DENIED, "Cluster authorization failed.")]


def test_without_an_authorizer_there_are_no_rules_to_change(executor: ThreadPoolExecutor) -> None:
    open_world = BrokerWorld(executor)

    assert create_acls(open_world, rule()) == [
        (ErrorCode.security_disabled, "No Authorizer is configured.")
    ]


# Credentials on the wire


def test_credentials_are_set_described_and_deleted(world: BrokerWorld) -> None:
    world.principal = Principal("User", "admin")
    module = schema("alter_user_scram_credentials", 0)
    mechanism = ScramMechanism.SCRAM_SHA_512
    salted = salt_password(mechanism, "bobs", b"salt", 4096)

    def alter(
        *upsertions: tuple[str, int, int], deletions: tuple[tuple[str, int], ...] = ()
    ) -> Any:
        request = module.AlterUserScramCredentialsRequest(
            deletions=tuple(
                module.ScramCredentialDeletion(name=name, mechanism=kind)
                for name, kind in deletions
            ),
            upsertions=tuple(
                module.ScramCredentialUpsertion(
                    name=name,
                    mechanism=kind,
                    iterations=count,
                    salt=b"salt",
                    salted_password=salted,
                )
                for name, kind, count in upsertions
            ),
        )
        return {each.user: each.error_code for each in ask(world, request).results}

    def described(*users: str) -> Any:
        describe = schema("describe_user_scram_credentials", 0)
        request = describe.DescribeUserScramCredentialsRequest(
            users=tuple(describe.UserName(name=user) for user in users) or None
        )
        return {
            each.user: (
                each.error_code,
                [(info.mechanism, info.iterations) for info in each.credential_infos],
            )
            for each in ask(world, request).results
        }

    outcomes = alter(
        ("bob", 2, 4096), ("few", 1, 4095), ("many", 1, 16385), ("odd", 7, 4096), ("", 1, 4096),
        ("twice", 1, 4096), ("twice", 1, 4096), deletions=(("none", 1),),
    )  # fmt: skip
    assert outcomes == {
        "bob": ErrorCode.none,
        "few": ErrorCode.unacceptable_credential,
        "many": ErrorCode.unacceptable_credential,
        "odd": ErrorCode.unsupported_sasl_mechanism,
        "": ErrorCode.unacceptable_credential,
        "twice": ErrorCode.duplicate_resource,
        "none": ErrorCode.resource_not_found,
    }
    stored = world.znode(ConfigZnode.path("users/bob"))
    assert stored is not None
    config = ConfigZnode.decode("/", stored.data).config
    expected = ScramCredential.of_salted_password(mechanism, b"salt", salted, 4096)
    assert ScramCredential.decode(config["SCRAM-SHA-512"]) == expected

    assert described() == {"bob": (ErrorCode.none, [(2, 4096)])}
    assert described("bob", "eve", "eve", "none") == {
        "bob": (ErrorCode.none, [(2, 4096)]),
        "eve": (ErrorCode.duplicate_resource, []),
        "none": (ErrorCode.resource_not_found, []),
    }
    assert alter(deletions=(("bob", 2),)) == {"bob": ErrorCode.none}
    assert described() == {}

    world.controller.is_active = False
    assert alter(("bob", 2, 4096)) == {"bob": ErrorCode.not_controller}
    world.controller.is_active = True
    world.principal = Principal("User", "alice")
    assert alter(("bob", 2, 4096)) == {"bob": CLUSTER_DENIED}


def test_what_belongs_to_a_login_is_answered_outside_of_one(world: BrokerWorld) -> None:
    handshake = ask(world, schema("sasl_handshake", 1).SaslHandshakeRequest(mechanism="PLAIN"))
    token = ask(world, schema("sasl_authenticate", 2).SaslAuthenticateRequest(auth_bytes=b""))

    assert (handshake.error_code, handshake.mechanisms) == (ErrorCode.illegal_sasl_state, ())
    assert (token.error_code, token.error_message) == (
        ErrorCode.illegal_sasl_state,
        "SaslAuthenticate request received after successful authentication",
    )
