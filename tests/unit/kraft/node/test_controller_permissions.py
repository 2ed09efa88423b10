"""Who may do what at a controller; what one may not know stays hidden."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i8, i32, i64
from kio.static.protocol import RequestPayload

from kafka_common.acls import (
    AccessControlEntry,
    AclOperation,
    PermissionType,
    ResourcePattern,
    ResourceType,
)
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.versioned_messages import request_schema
from replica_manager.security.acl_cache import AclBinding, AclBindingFilter, AclCache, VersionedAcls
from tests.support.quorum import in_the_end
from tests.support.secured_quorum import AUTHORIZED, Client, secured_node
from tests.unit.kraft.node.permissions import (
    CLUSTER,
    DENIED,
    SOON,
    TOPIC_DENIED,
    _any_rule_of,
    acl_creation,
    acl_description,
    allow,
    an_existing_topic,
    codes,
    topic_creation,
)

# Requests.


def acl_deletion(name: str | None = None) -> RequestPayload:
    schema = request_schema(ApiKey.DELETE_ACLS, 3)
    return schema.request(filters=(schema.part("DeleteAclsFilter", **_any_rule_of(name)),))


def topic_deletion(*topics: str | UUID) -> RequestPayload:
    schema = request_schema(ApiKey.DELETE_TOPICS, 6)
    states = tuple(
        schema.part(
            "DeleteTopicState",
            name=topic if isinstance(topic, str) else None,
            topic_id=topic if isinstance(topic, UUID) else None,
        )
        for topic in topics
    )
    return schema.request(topics=states, timeout=SOON)


def config_change(*resources: tuple[int, str]) -> RequestPayload:
    schema = request_schema(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1)
    return schema.request(
        resources=tuple(
            schema.part(
                "AlterConfigsResource",
                resource_type=i8(code),
                resource_name=name,
                configs=(
                    schema.part("AlterableConfig", name="x", config_operation=i8(1), value=None),
                ),
            )
            for code, name in resources
        ),
        validate_only=True,
    )


def partition_creation(*names: str) -> RequestPayload:
    schema = request_schema(ApiKey.CREATE_PARTITIONS, 3)
    topics = tuple(
        schema.part("CreatePartitionsTopic", name=name, count=i32(2), assignments=None)
        for name in names
    )
    return schema.request(topics=topics, timeout=SOON, validate_only=False)


def election(election_type: int = 0) -> RequestPayload:
    schema = request_schema(ApiKey.ELECT_LEADERS, 2)
    topic = schema.part("TopicPartitions", topic="orders", partitions=(i32(0), i32(1)))
    return schema.request(election_type=i8(election_type), topic_partitions=(topic,), timeout=SOON)


def reassignment() -> RequestPayload:
    schema = request_schema(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0)
    partition = schema.part("ReassignablePartition", partition_index=i32(0), replicas=(i32(1),))
    topic = schema.part("ReassignableTopic", name="orders", partitions=(partition,))
    return schema.request(timeout=SOON, topics=(topic,))


def quota_change() -> RequestPayload:
    schema = request_schema(ApiKey.ALTER_CLIENT_QUOTAS, 1)
    entity = schema.part("EntityData", entity_type="user", entity_name="bob")
    entry = schema.part("EntryData", entity=(entity,), ops=())
    return schema.request(entries=(entry,), validate_only=False)


def password_deletion() -> RequestPayload:
    schema = request_schema(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0)
    deletions = (schema.part("ScramCredentialDeletion", name="bob", mechanism=i8(1)),)
    return schema.request(deletions=deletions, upsertions=())


def simple(api_key: ApiKey, version: int, **values: object) -> RequestPayload:
    return request_schema(api_key, version).request(**values)


BROKER_9: Final[dict[str, object]] = {"broker_id": i32(9), "broker_epoch": i64(1)}
GUARDED: Final = (
    (
        simple(
            ApiKey.BROKER_HEARTBEAT, 1, **BROKER_9, current_metadata_offset=i64(1),
            want_fence=False, want_shut_down=False, offline_log_dirs=(),
        ),
        AclOperation.CLUSTER_ACTION,
    ),
    (simple(ApiKey.ALLOCATE_PRODUCER_IDS, 0, **BROKER_9), AclOperation.CLUSTER_ACTION),
    (simple(ApiKey.ALTER_PARTITION, 3, **BROKER_9, topics=()), AclOperation.CLUSTER_ACTION),
    (
        simple(ApiKey.ASSIGN_REPLICAS_TO_DIRS, 0, **BROKER_9, directories=()),
        AclOperation.CLUSTER_ACTION,
    ),
    (simple(ApiKey.UNREGISTER_BROKER, 0, broker_id=i32(9)), AclOperation.ALTER),
    (election(), AclOperation.ALTER),
    (reassignment(), AclOperation.ALTER),
    (
        simple(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, timeout=SOON, topics=None),
        AclOperation.DESCRIBE,
    ),
    (
        simple(ApiKey.UPDATE_FEATURES, 1, timeout=SOON, feature_updates=(), validate_only=True),
        AclOperation.ALTER,
    ),
    (quota_change(), AclOperation.ALTER_CONFIGS),
    (password_deletion(), AclOperation.ALTER),
    (acl_description(), AclOperation.DESCRIBE),
    (acl_creation((ResourceType.TOPIC, "", AclOperation.READ)), AclOperation.ALTER),
    (acl_deletion("nothing"), AclOperation.ALTER),
)  # fmt: skip
ROWS: Final[Mapping[int, Callable[[Any], list[Any]]]] = {
    ApiKey.ELECT_LEADERS: lambda response: [
        response,
        *(row for topic in response.replica_election_results for row in topic.partition_result),
    ],
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: lambda response: [
        response, *(row for topic in response.responses for row in topic.partitions)
    ],
    ApiKey.ALTER_CLIENT_QUOTAS: lambda response: list(response.entries),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: lambda response: list(response.results),
    ApiKey.CREATE_ACLS: lambda response: list(response.results),
    ApiKey.DELETE_ACLS: lambda response: list(response.filter_results),
}  # fmt: skip
"""Where an answer has errors; the others have one for all."""


@pytest.mark.parametrize(
    ("request_", "operation"),
    GUARDED,
    ids=[ApiKey(int(request.__api_key__)).name for request, _ in GUARDED],
)
async def test_what_is_the_clusters_affair_needs_leave_for_the_cluster(
    tmp_path: Path, request_: RequestPayload, operation: AclOperation
) -> None:
    rows = ROWS.get(int(request_.__api_key__), lambda response: [response])

    async with secured_node(tmp_path) as node, node.client("alice") as alice:
        refused = rows(await alice.ask(request_))
        assert refused
        assert set(codes(refused)) == {DENIED}

        await allow(node, (ResourceType.CLUSTER, CLUSTER, operation))
        assert DENIED not in codes(rows(await alice.ask(request_)))


async def test_rules_are_created_described_and_deleted(tmp_path: Path) -> None:
    async with secured_node(tmp_path) as node:
        rules = (
            (ResourceType.TOPIC, "orders", AclOperation.READ),
            (ResourceType.CLUSTER, "another", AclOperation.ALTER),
            (ResourceType.TOPIC, "", AclOperation.READ),
            (ResourceType.TOPIC, "orders", AclOperation.WRITE),
        )
        async with node.client("admin") as admin:
            created = await admin.ask(acl_creation(*rules))
            assert [(ErrorCode(r.error_code), r.error_message) for r in created.results] == [
                (ErrorCode.none, None),
                (
                    ErrorCode.invalid_request,
                    "The only valid name for the CLUSTER resource is kafka-cluster",
                ),
                (ErrorCode.invalid_request, "Invalid empty resource name"),
                (ErrorCode.none, None),
            ]

            async def described() -> list[tuple[str, list[tuple[str, int]]]]:
                response = await admin.ask(acl_description())
                return [
                    (each.resource_name, [(acl.principal, int(acl.operation)) for acl in each.acls])
                    for each in response.resources
                ]

            both = [("User:alice", AclOperation.READ), ("User:alice", AclOperation.WRITE)]

            async def are_shown() -> bool:
                return await described() == [("orders", both)]

            await in_the_end(are_shown, "the rules are shown")

            deleted = await admin.ask(acl_deletion("orders"))
            [result] = deleted.filter_results
            assert ErrorCode(result.error_code) is ErrorCode.none
            assert sorted(int(acl.operation) for acl in result.matching_acls) == [
                AclOperation.READ,
                AclOperation.WRITE,
            ]

            async def are_gone() -> bool:
                return await described() == []

            await in_the_end(are_gone, "the rules are gone")


async def test_an_envelope_is_its_brokers_and_what_is_in_it_its_clients(tmp_path: Path) -> None:
    async with (
        secured_node(tmp_path) as node,
        node.client("controller") as broker,
        node.client("alice") as alice,
    ):
        # alice may not forward anything, not even what the admin asks for.
        refused = await alice.forward("admin", quota_change())
        assert ErrorCode(refused.error_code) is DENIED
        # The broker may; what alice may not is answered inside.
        inside = await broker.forward("alice", quota_change())
        assert codes(inside.entries) == [DENIED]
        assert codes((await broker.forward("admin", quota_change())).entries) == [ErrorCode.none]
        # What is the quorum's may be asked through a broker too.
        quorum = simple(ApiKey.DESCRIBE_QUORUM, 2, topics=())
        described = await broker.forward("admin", quorum)
        assert ErrorCode(described.error_code) is ErrorCode.none
        described = await broker.forward("alice", quorum)
        assert ErrorCode(described.error_code) is DENIED


async def test_an_election_of_no_known_kind_is_refused_with_its_partitions(tmp_path: Path) -> None:
    async with (
        secured_node(tmp_path) as node,
        node.client("controller") as broker,
        node.client("alice") as alice,
    ):
        for response in (await broker.ask(election(5)), await broker.forward("admin", election(5))):
            assert ErrorCode(response.error_code) is ErrorCode.invalid_request
            [topic] = response.replica_election_results
            assert [(p.partition_id, p.error_message) for p in topic.partition_result] == [
                (0, "Unknown election type 5"),
                (1, "Unknown election type 5"),
            ]
        assert ErrorCode((await alice.ask(election(5))).error_code) is DENIED


async def test_topics_are_created_by_who_may_create_them(tmp_path: Path) -> None:
    async def created(client: Client, *names: str) -> dict[str, tuple[ErrorCode, str | None]]:
        response = await client.ask(topic_creation(*names))
        return {t.name: (ErrorCode(t.error_code), t.error_message) for t in response.topics}

    async with secured_node(tmp_path) as node:
        refused = TOPIC_DENIED, "Authorization failed."
        await allow(node, (ResourceType.TOPIC, "hers", AclOperation.CREATE))
        async with node.client("alice") as alice:
            found = await created(alice, "hers", "theirs", "twice", "twice", "__cluster_metadata")

            # It would be created if there were a broker to have it.
            assert found["hers"][0] is ErrorCode.invalid_replication_factor
            assert found["theirs"] == refused
            assert found["twice"][0] is ErrorCode.invalid_request
            assert found["__cluster_metadata"][0] is ErrorCode.invalid_request

            await allow(node, (ResourceType.CLUSTER, CLUSTER, AclOperation.CREATE))
            found = await created(alice, "theirs")
            assert found["theirs"][0] is ErrorCode.invalid_replication_factor


async def test_a_topic_that_may_not_be_seen_seems_to_be_there_or_not(tmp_path: Path) -> None:
    missing = UUID(int=99)

    async def deleted(client: Client, *topics: str | UUID) -> list[tuple[object, ErrorCode]]:
        response = await client.ask(topic_deletion(*topics))
        rows = [(row.name or row.topic_id, ErrorCode(row.error_code)) for row in response.responses]
        return sorted(rows, key=str)

    async with secured_node(tmp_path) as node:
        async with node.client("alice") as alice:
            assert await deleted(alice, "orders") == [("orders", TOPIC_DENIED)]

            await allow(node, (ResourceType.TOPIC, "orders", AclOperation.DESCRIBE))
            unknown = ErrorCode.unknown_topic_or_partition
            assert await deleted(alice, "orders") == [("orders", unknown)]

            # An id tells nothing, so whether it exists may be known.
            assert await deleted(alice, missing) == [(missing, ErrorCode.unknown_topic_id)]

        async with node.client("admin") as admin:
            assert await deleted(admin, "orders") == [("orders", unknown)]
            assert await deleted(admin, "a", "a") == [("a", ErrorCode.invalid_request)]


async def test_an_id_does_not_tell_its_topics_name(tmp_path: Path) -> None:
    async with secured_node(tmp_path) as node:
        topic_id = await an_existing_topic(node, "orders")
        async with node.client("alice") as alice:

            async def deleted(*topics: str | UUID) -> list[tuple[str | None, ErrorCode]]:
                response = await alice.ask(topic_deletion(*topics))
                return [(row.name, ErrorCode(row.error_code)) for row in response.responses]

            assert await deleted(topic_id) == [(None, TOPIC_DENIED)]
            await allow(node, (ResourceType.TOPIC, "orders", AclOperation.DESCRIBE))
            assert await deleted(topic_id) == [("orders", TOPIC_DENIED)]
            assert await deleted("orders") == [("orders", TOPIC_DENIED)]

            await allow(node, (ResourceType.TOPIC, "orders", AclOperation.DELETE))
            # Twice the same topic: which of the two is meant?
            assert await deleted(topic_id, "orders") == [("orders", ErrorCode.invalid_request)]
            assert await deleted(topic_id) == [("orders", ErrorCode.none)]
            assert await deleted(topic_id) == [(None, ErrorCode.unknown_topic_id)]


@pytest.mark.parametrize(
    ("version", "error"),
    [(2, ErrorCode.invalid_request), (3, ErrorCode.topic_deletion_disabled)],
)
async def test_topics_are_not_deleted_where_that_is_switched_off(
    tmp_path: Path, version: int, error: ErrorCode
) -> None:
    async with (
        secured_node(tmp_path, {**AUTHORIZED, "delete.topic.enable": "false"}) as node,
        node.client("admin") as admin,
    ):
        names = ("orders",)
        request = simple(ApiKey.DELETE_TOPICS, version, topic_names=names, timeout=SOON)
        assert codes((await admin.ask(request)).responses) == [error]


async def test_partitions_are_added_to_topics_that_may_be_altered(tmp_path: Path) -> None:
    async with secured_node(tmp_path) as node:
        await allow(node, (ResourceType.TOPIC, "hers", AclOperation.ALTER))
        async with node.client("alice") as alice:
            response = await alice.ask(partition_creation("hers", "theirs"))

        assert {row.name: ErrorCode(row.error_code) for row in response.results} == {
            "hers": ErrorCode.unknown_topic_or_partition,
            "theirs": TOPIC_DENIED,
        }


async def test_configurations_are_altered_by_who_may(tmp_path: Path) -> None:
    topic, broker, logger, metrics, unknown = 2, 4, 8, 16, 77

    async def altered(client: Client) -> dict[int, ErrorCode]:
        change = config_change(
            (topic, "hers"), (broker, ""), (logger, "1"), (unknown, "u"),
            (metrics, "twice"), (metrics, "twice"),
        )  # fmt: skip
        response = await client.ask(change)
        return {int(row.resource_type): ErrorCode(row.error_code) for row in response.responses}

    async with secured_node(tmp_path) as node, node.client("alice") as alice:
        found = await altered(alice)
        assert found[topic] is TOPIC_DENIED
        assert found[broker] is DENIED
        assert found[logger] is DENIED
        assert found[unknown] is ErrorCode.unsupported_version
        assert found[metrics] is ErrorCode.invalid_request

        await allow(
            node,
            (ResourceType.TOPIC, "hers", AclOperation.ALTER_CONFIGS),
            (ResourceType.CLUSTER, CLUSTER, AclOperation.ALTER_CONFIGS),
        )
        found = await altered(alice)
        assert found[topic] is ErrorCode.unknown_topic_or_partition
        assert found[broker] is ErrorCode.none


async def test_without_rules_all_may_if_the_configuration_says_so(tmp_path: Path) -> None:
    async with (
        secured_node(tmp_path, {**AUTHORIZED, "allow.everyone.if.no.acl.found": "true"}) as node,
        node.client("alice") as alice,
    ):
        assert codes((await alice.ask(quota_change())).entries) == [ErrorCode.none]


async def test_a_creation_says_that_configurations_may_not_be_seen(tmp_path: Path) -> None:
    async with secured_node(tmp_path) as node:
        await an_existing_topic(node, "orders")  # there is a broker
        await allow(
            node,
            (ResourceType.CLUSTER, CLUSTER, AclOperation.CREATE),
            (ResourceType.TOPIC, "shown", AclOperation.DESCRIBE_CONFIGS),
        )
        async with node.client("alice") as alice:
            response = await alice.ask(topic_creation("shown", "hidden", "orders"))

        shown, hidden, existing = (
            {topic.name: topic for topic in response.topics}[each]
            for each in ("shown", "hidden", "orders")
        )
        assert (shown.error_code, shown.topic_config_error_code) == (0, 0)
        assert (shown.num_partitions, shown.replication_factor) == (1, 1)
        assert "retention.ms" in {entry.name for entry in shown.configs}
        assert (hidden.error_code, hidden.topic_config_error_code) == (0, TOPIC_DENIED.value)
        assert (hidden.num_partitions, hidden.replication_factor, hidden.configs) == (-1, -1, ())
        assert existing.error_code == ErrorCode.topic_already_exists.value
        assert (existing.topic_config_error_code, existing.configs) == (0, ())


async def test_many_rules_are_looked_through_beside_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = {
        ResourcePattern(ResourceType.TOPIC, f"t{n}"): VersionedAcls(
            (AccessControlEntry("User:alice", "*", AclOperation.READ, PermissionType.ALLOW),), 0
        )
        for n in range(2_000)
    }
    threads: list[threading.Thread] = []
    bindings = AclCache.bindings

    def seen(cache: AclCache, wanted: AclBindingFilter) -> list[AclBinding]:
        threads.append(threading.current_thread())
        return bindings(cache, wanted)

    monkeypatch.setattr(AclCache, "bindings", seen)

    async with secured_node(tmp_path) as node:
        authorizer = node.quorum.security[1].authorizer
        assert authorizer is not None
        authorizer.cache = AclCache(rules)
        async with node.client("admin") as admin:
            assert len((await admin.ask(acl_description())).resources) == 2_000
        assert threading.current_thread() not in threads
