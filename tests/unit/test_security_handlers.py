"""What each API answers to who may not, and the APIs that change rules and credentials."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from importlib import import_module
from typing import Any, cast
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from replica_manager.security.acl_cache import AclBinding
from replica_manager.security.acl_store import AclStore
from replica_manager.security.authorizer import CLUSTER_NAME, Authorizer
from replica_manager.security.principals import Principal
from replica_manager.security.settings import authorizer_settings
from replica_manager.server.authorization import CLUSTER_GATES
from replica_manager.server.dispatch import HANDLERS
from tests.unit.broker_world import ORDERS_ID, BrokerWorld, metadata
from zkcontroller.protocol.api_versions import ApiKey
from zkcontroller.protocol.scram import ScramCredential, ScramMechanism, salt_password
from zkcontroller.zookeeper.kafka_acl_znodes import (
    AccessControlEntry,
    AclOperation,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
)
from zkcontroller.zookeeper.requests import Create
from zkcontroller.zookeeper.session import ZooKeeperSession
from zkcontroller.zookeeper.znodes import ConfigZnode, TopicZnode

DENIED = ErrorCode.topic_authorization_failed
CLUSTER_DENIED = ErrorCode.cluster_authorization_failed
CLUSTER = ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME)
NOT_ASKED = -(2**31)
INVOICES_ID = UUID(int=9)


def topic(name: str) -> ResourcePattern:
    return ResourcePattern(ResourceType.TOPIC, name)


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


@pytest.fixture
def world(executor: ThreadPoolExecutor) -> BrokerWorld:
    """A broker with an authorizer and two topics, asked by a user without rules."""
    world = BrokerWorld(
        executor,
        authorizer__class__name="kafka.security.authorizer.AclAuthorizer",
        super__users="User:admin",
    )
    settings = authorizer_settings(world.config)
    assert settings is not None
    world.context.authorizer = Authorizer(
        cache=import_module("replica_manager.security.acl_cache").AclCache({}),
        super_users=frozenset(Principal(*user) for user in settings.super_users),
    )
    world.context.acls = AclStore(
        cast(ZooKeeperSession, world.session), world.context.authorizer, sleep=lambda _: None
    )
    world.context.acls.load()
    world.principal = Principal("User", "alice")
    world.update(
        {"orders": {0: metadata(1)}, "invoices": {0: metadata(1)}},
        topic_ids={"orders": ORDERS_ID, "invoices": INVOICES_ID},
    )
    for name in ("orders", "invoices"):
        world.session.write(Create(TopicZnode.path(name), b"{}"))
    return world


def permit(world: BrokerWorld, pattern: ResourcePattern, *operations: AclOperation) -> None:
    """Rules that allow alice something."""
    assert world.context.acls is not None
    bindings = [
        AclBinding(pattern, AccessControlEntry("User:alice", "*", each, PermissionType.ALLOW))
        for each in operations
    ]
    assert set(world.context.acls.create(bindings)) == {ErrorCode.none}


def schema(api: str, version: int) -> Any:
    return import_module(f"kio.schema.{api}.v{version}.request")


def ask(world: BrokerWorld, request: Any) -> Any:
    return asyncio.run(world.ask(request))


def ask_metadata(world: BrokerWorld, *names: str | UUID, **options: bool) -> Any:
    module = schema("metadata", 12 if any(isinstance(n, UUID) for n in names) else 8)
    topics = tuple(
        module.MetadataRequestTopic(name=None, topic_id=name)
        if isinstance(name, UUID)
        else module.MetadataRequestTopic(name=name)
        for name in names
    )
    fields: dict[str, Any] = {
        "topics": topics or None,
        "allow_auto_topic_creation": options.get("create", False),
        "include_topic_authorized_operations": options.get("operations", False),
    }
    if "include_cluster_authorized_operations" in module.MetadataRequest.__dataclass_fields__:
        fields["include_cluster_authorized_operations"] = options.get("operations", False)
    return ask(world, module.MetadataRequest(**fields))


def named(response: Any) -> dict[str | UUID, ErrorCode]:
    return {each.name or each.topic_id: each.error_code for each in response.topics}


# Metadata


def test_metadata_hides_what_may_not_be_described(world: BrokerWorld) -> None:
    permit(world, topic("orders"), AclOperation.READ)

    # Whether a topic exists is not told.
    assert named(ask_metadata(world, "orders", "invoices", "none")) == {
        "orders": ErrorCode.none,
        "invoices": DENIED,
        "none": DENIED,
    }
    assert named(ask_metadata(world)) == {"orders": ErrorCode.none}
    # An id is no secret, but the name that it belongs to is.
    assert named(ask_metadata(world, ORDERS_ID, INVOICES_ID, UUID(int=5))) == {
        "orders": ErrorCode.none,
        INVOICES_ID: DENIED,
        UUID(int=5): ErrorCode.unknown_topic_id,
    }


def test_metadata_creates_only_what_may_be_created(world: BrokerWorld) -> None:
    permit(world, topic("new"), AclOperation.DESCRIBE)
    permit(world, topic("newer"), AclOperation.DESCRIBE, AclOperation.CREATE)

    assert named(ask_metadata(world, "new", "newer", create=True)) == {
        "new": DENIED,
        "newer": ErrorCode.leader_not_available,
    }
    assert world.znode(TopicZnode.path("new")) is None

    permit(world, CLUSTER, AclOperation.CREATE)
    assert named(ask_metadata(world, "new", create=True)) == {"new": ErrorCode.leader_not_available}


def test_authorized_operations_are_those_that_the_rules_allow(world: BrokerWorld) -> None:
    permit(world, topic("orders"), AclOperation.READ, AclOperation.ALTER_CONFIGS)
    answer = ask_metadata(world, "orders", "invoices", operations=True)
    orders, invoices = answer.topics

    # READ, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS
    assert orders.topic_authorized_operations == sum(1 << code for code in (3, 8, 10, 11))
    assert invoices.topic_authorized_operations == NOT_ASKED
    assert answer.cluster_authorized_operations == 0

    permit(world, CLUSTER, AclOperation.DESCRIBE)
    module = schema("describe_cluster", 1)
    described = ask(
        world, module.DescribeClusterRequest(include_cluster_authorized_operations=True)
    )
    assert described.cluster_authorized_operations == 1 << 8


# Topics


def creation(*names: str) -> Any:
    module = schema("create_topics", 7)
    return module.CreateTopicsRequest(
        topics=tuple(
            module.CreatableTopic(
                name=name, num_partitions=1, replication_factor=1, assignments=(), configs=()
            )
            for name in names
        ),
        timeout=timedelta(0),
        validate_only=True,
    )


def test_topics_are_created_by_who_may(world: BrokerWorld) -> None:
    permit(world, topic("a"), AclOperation.CREATE)
    permit(world, topic("b"), AclOperation.CREATE, AclOperation.DESCRIBE_CONFIGS)

    a, b, c = ask(world, creation("a", "b", "c")).topics

    assert (a.error_code, a.topic_config_error_code) == (ErrorCode.none, DENIED)
    assert (a.num_partitions, a.configs) == (-1, ())
    assert (b.error_code, b.topic_config_error_code) == (ErrorCode.none, ErrorCode.none)
    assert b.num_partitions == 1
    assert (c.error_code, c.error_message) == (DENIED, "Authorization failed.")
    assert c.topic_config_error_code == DENIED.value


def test_topics_are_deleted_by_who_may_and_hidden_from_who_may_not_see_them(
    world: BrokerWorld,
) -> None:
    permit(world, topic("orders"), AclOperation.DESCRIBE)
    permit(world, topic("none"), AclOperation.DELETE)
    module = schema("delete_topics", 6)

    def delete(*topics: tuple[str | None, UUID | None]) -> list[tuple[str | None, ErrorCode]]:
        states = tuple(module.DeleteTopicState(name=name, topic_id=id_) for name, id_ in topics)
        request = module.DeleteTopicsRequest(topics=states, timeout=timedelta(0))
        return [(each.name, each.error_code) for each in ask(world, request).responses]

    assert delete(("orders", None), ("invoices", None), ("none", None)) == [
        ("orders", DENIED),
        ("invoices", DENIED),
        ("none", ErrorCode.unknown_topic_or_partition),
    ]
    assert delete((None, ORDERS_ID), (None, INVOICES_ID), (None, UUID(int=5))) == [
        ("orders", DENIED),
        (None, DENIED),
        (None, ErrorCode.unknown_topic_id),
    ]
    permit(world, topic("orders"), AclOperation.DELETE)
    assert delete(("orders", None)) == [("orders", ErrorCode.request_timed_out)]


def test_partitions_are_added_by_who_may(world: BrokerWorld) -> None:
    module = schema("create_partitions", 3)
    request = module.CreatePartitionsRequest(
        topics=(module.CreatePartitionsTopic(name="orders", count=3, assignments=None),),
        timeout=timedelta(0),
        validate_only=True,
    )

    (answer,) = ask(world, request).results

    assert (answer.error_code, answer.error_message) == (
        DENIED,
        "The topic authorization is failed.",
    )


# Configurations


def test_configurations_are_seen_and_changed_by_who_may(world: BrokerWorld) -> None:
    describe, alter = schema("describe_configs", 4), schema("incremental_alter_configs", 1)

    def describing(*resources: tuple[int, str]) -> Any:
        request = describe.DescribeConfigsRequest(
            resources=tuple(
                describe.DescribeConfigsResource(
                    resource_type=kind, resource_name=name, configuration_keys=None
                )
                for kind, name in resources
            ),
            include_synonyms=False,
            include_documentation=False,
        )
        return [
            (each.resource_name, each.error_code, each.error_message)
            for each in ask(world, request).results
        ]

    def altering(kind: int, name: str, key: str, value: str) -> ErrorCode:
        request = alter.IncrementalAlterConfigsRequest(
            resources=(
                alter.AlterConfigsResource(
                    resource_type=kind,
                    resource_name=name,
                    configs=(alter.AlterableConfig(name=key, config_operation=0, value=value),),
                ),
            ),
            validate_only=True,
        )
        (answer,) = ask(world, request).responses
        assert isinstance(answer.error_code, ErrorCode)
        return answer.error_code

    permit(world, topic("invoices"), AclOperation.ALTER_CONFIGS)

    # Those that may be seen come first, as in Kafka.
    assert describing((4, "1"), (2, "orders"), (2, "invoices"), (8, "1")) == [
        ("invoices", ErrorCode.none, ""),
        ("1", CLUSTER_DENIED, "Cluster authorization failed."),
        ("orders", DENIED, "Topic authorization failed."),
        ("1", CLUSTER_DENIED, "Cluster authorization failed."),
    ]
    assert altering(2, "orders", "retention.ms", "1") is DENIED
    assert altering(2, "invoices", "retention.ms", "1") is ErrorCode.none
    assert altering(4, "", "log.retention.ms", "1") is CLUSTER_DENIED
    assert altering(8, "1", "kafka.server.KafkaApis", "INFO") is CLUSTER_DENIED
    permit(world, CLUSTER, AclOperation.ALTER_CONFIGS)
    assert altering(4, "", "log.retention.ms", "1") is ErrorCode.none
    assert describing((4, "1"))[0][1] is ErrorCode.none


# The cluster as a whole


def cluster_requests() -> list[Any]:
    """One of each API that the table guards and this broker answers."""
    alter_partition = schema("alter_partition", 3)
    reassign = schema("alter_partition_reassignments", 0)
    return [
        schema("leader_and_isr", 7).LeaderAndIsrRequest(
            controller_id=1, controller_epoch=1, broker_epoch=-1, type_=0,
            is_k_raft_controller=False, topic_states=(), live_leaders=(),
        ),
        schema("stop_replica", 4).StopReplicaRequest(
            controller_id=1, controller_epoch=1, broker_epoch=-1, topic_states=(),
            is_k_raft_controller=False,
        ),
        schema("controlled_shutdown", 3).ControlledShutdownRequest(broker_id=1, broker_epoch=1),
        alter_partition.AlterPartitionRequest(broker_id=1, broker_epoch=1, topics=()),
        schema("allocate_producer_ids", 0).AllocateProducerIdsRequest(
            broker_id=1, broker_epoch=1
        ),
        reassign.AlterPartitionReassignmentsRequest(timeout=timedelta(0), topics=()),
        schema("list_partition_reassignments", 0).ListPartitionReassignmentsRequest(
            timeout=timedelta(0), topics=None
        ),
        schema("elect_leaders", 2).ElectLeadersRequest(
            election_type=0, topic_partitions=None, timeout=timedelta(0)
        ),
        schema("update_features", 1).UpdateFeaturesRequest(
            timeout=timedelta(0), feature_updates=(), validate_only=True
        ),
        schema("describe_acls", 3).DescribeAclsRequest(
            resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1,
            principal_filter=None, host_filter=None, operation=1, permission_type=1,
        ),
        schema("describe_user_scram_credentials", 0).DescribeUserScramCredentialsRequest(
            users=(schema("describe_user_scram_credentials", 0).UserName(name="bob"),)
        ),
    ]  # fmt: skip


def test_who_may_do_nothing_to_the_cluster_is_told_so_by_every_api(world: BrokerWorld) -> None:
    everybody = schema("describe_user_scram_credentials", 0).DescribeUserScramCredentialsRequest(
        users=None
    )
    for request in (*cluster_requests(), everybody):
        assert ask(world, request).error_code is CLUSTER_DENIED, type(request).__name__
    assert world.controller.questions == []
    assert world.controller.asked == []


def test_the_table_has_every_api_that_asks_the_controller_or_obeys_it() -> None:
    guarded_by_themselves = {
        ApiKey.METADATA,
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.API_VERSIONS,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.LIST_OFFSETS,
        ApiKey.DELETE_RECORDS,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.FIND_COORDINATOR,
        ApiKey.JOIN_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.LIST_GROUPS,
        ApiKey.DELETE_GROUPS,
        ApiKey.OFFSET_DELETE,
    }

    unguarded = [
        ApiKey(key).name
        for key in HANDLERS
        if key not in CLUSTER_GATES and key not in guarded_by_themselves
    ]
    assert unguarded == [], "name it in CLUSTER_GATES, or guard it in its handler and name it here"


def test_one_of_two_operations_is_enough_to_ask_for_a_shutdown(world: BrokerWorld) -> None:
    request = schema("controlled_shutdown", 3).ControlledShutdownRequest(
        broker_id=1, broker_epoch=1
    )
    permit(world, CLUSTER, AclOperation.ALTER)

    assert ask(world, request).error_code is ErrorCode.none
    assert world.controller.asked == [(1, 1)]


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
    stored = world.znode(ConfigZnode.user_path("bob"))
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


def test_prefixed_rules_count_in_handlers_too(world: BrokerWorld) -> None:
    permit(
        world, ResourcePattern(ResourceType.TOPIC, "ord", PatternType.PREFIXED), AclOperation.ALL
    )

    assert named(ask_metadata(world)) == {"orders": ErrorCode.none}


# The logs


def list_offsets(*names: str) -> Any:
    module = schema("list_offsets", 9)
    return module.ListOffsetsRequest(
        replica_id=-1,
        isolation_level=0,
        topics=tuple(
            module.ListOffsetsTopic(
                name=name,
                partitions=(module.ListOffsetsPartition(partition_index=0, timestamp=-1),),
            )
            for name in names
        ),
    )


def test_offsets_are_told_of_topics_that_may_be_described_and_the_others_come_last(
    world: BrokerWorld,
) -> None:
    permit(world, topic("invoices"), AclOperation.DESCRIBE)

    response = ask(world, list_offsets("orders", "invoices"))

    assert [(each.name, each.partitions[0].error_code) for each in response.topics] == [
        ("invoices", ErrorCode.not_leader_or_follower),  # no LeaderAndIsr has come
        ("orders", DENIED),
    ]


def test_records_are_deleted_by_who_may_delete_the_topic(world: BrokerWorld) -> None:
    permit(world, topic("invoices"), AclOperation.DELETE)
    module = schema("delete_records", 2)
    partition = module.DeleteRecordsPartition(partition_index=0, offset=1)

    response = ask(
        world,
        module.DeleteRecordsRequest(
            timeout=timedelta(0),
            topics=tuple(
                module.DeleteRecordsTopic(name=name, partitions=(partition,))
                for name in ("orders", "invoices", "none")
            ),
        ),
    )

    assert {each.name: each.partitions[0].error_code for each in response.topics} == {
        "orders": DENIED,
        "invoices": ErrorCode.not_leader_or_follower,
        "none": DENIED,
    }


def test_producers_are_told_to_who_may_read_the_topic(world: BrokerWorld) -> None:
    permit(world, topic("invoices"), AclOperation.READ)
    module = schema("describe_producers", 0)

    response = ask(
        world,
        module.DescribeProducersRequest(
            topics=tuple(
                module.TopicRequest(name=name, partition_indexes=(0,))
                for name in ("orders", "invoices")
            )
        ),
    )

    assert [each.partitions[0].error_code for each in response.topics] == [
        DENIED,
        ErrorCode.not_leader_or_follower,
    ]


@pytest.mark.parametrize(
    ("pattern", "operation"),
    [(CLUSTER, AclOperation.IDEMPOTENT_WRITE), (topic("orders"), AclOperation.WRITE)],
)
def test_a_producer_id_is_given_to_who_may_write_anywhere(
    world: BrokerWorld, pattern: ResourcePattern, operation: AclOperation
) -> None:
    request = schema("init_producer_id", 5).InitProducerIdRequest(
        transactional_id=None, transaction_timeout=timedelta(0)
    )
    assert ask(world, request).error_code is CLUSTER_DENIED
    permit(world, pattern, operation)
    assert ask(world, request).error_code is ErrorCode.none


def test_a_transactional_id_has_rules_of_its_own(world: BrokerWorld) -> None:
    request = schema("init_producer_id", 5).InitProducerIdRequest(
        transactional_id="payments", transaction_timeout=timedelta(0)
    )
    denied = ErrorCode.transactional_id_authorization_failed
    assert ask(world, request).error_code is denied
    permit(
        world,
        ResourcePattern(ResourceType.TRANSACTIONAL_ID, "payments"),
        AclOperation.WRITE,
    )
    assert ask(world, request).error_code is ErrorCode.unsupported_version


def test_log_directories_are_the_clusters_affair(world: BrokerWorld) -> None:
    describing = schema("describe_log_dirs", 4).DescribeLogDirsRequest(topics=None)
    module = schema("alter_replica_log_dirs", 2)
    there = module.AlterReplicaLogDirTopic(name="orders", partitions=(0,))
    altering = module.AlterReplicaLogDirsRequest(
        dirs=(module.AlterReplicaLogDir(path="/nowhere", topics=(there,)),)
    )

    def altered() -> ErrorCode:
        code: ErrorCode = ask(world, altering).results[0].partitions[0].error_code
        return code

    assert ask(world, describing).error_code is CLUSTER_DENIED
    assert altered() is CLUSTER_DENIED
    permit(world, CLUSTER, AclOperation.DESCRIBE)
    assert ask(world, describing).error_code is ErrorCode.none
    assert altered() is CLUSTER_DENIED
    permit(world, CLUSTER, AclOperation.ALTER)
    assert altered() is ErrorCode.log_dir_not_found
