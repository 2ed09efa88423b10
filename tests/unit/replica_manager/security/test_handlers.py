"""What the APIs of topics, configurations and the cluster answer to who may not."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.acls import (
    AclOperation,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
)
from kafka_common.protocol.api_versions import ApiKey
from replica_manager.server.authorization import CLUSTER_GATES
from replica_manager.server.zookeeper_handlers import HANDLERS
from tests.support.broker_world import ORDERS_ID, BrokerWorld
from tests.support.guarded_world import (
    CLUSTER,
    CLUSTER_DENIED,
    DENIED,
    INVOICES_ID,
    ask,
    ask_metadata,
    cluster_requests,
    creation,
    guarded_world,
    named,
    permit,
    schema,
    topic,
)
from zkcontroller.zookeeper.znodes import DeleteTopicZnode, TopicZnode

NOT_ASKED = -(2**31)


@pytest.fixture
def world(executor: ThreadPoolExecutor) -> BrokerWorld:
    return guarded_world(executor)


# Metadata


def test_metadata_hides_what_may_not_be_described(world: BrokerWorld) -> None:
    permit(world, topic("orders"), AclOperation.READ)

    # Whether a topic exists stays hidden.
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
    response = ask_metadata(world, "orders", "invoices", operations=True)
    orders, invoices = response.topics

    # READ, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS
    assert orders.topic_authorized_operations == sum(1 << code for code in (3, 8, 10, 11))
    assert invoices.topic_authorized_operations == NOT_ASKED
    assert response.cluster_authorized_operations == 0

    permit(world, CLUSTER, AclOperation.DESCRIBE)
    module = schema("describe_cluster", 1)
    described = ask(
        world, module.DescribeClusterRequest(include_cluster_authorized_operations=True)
    )
    assert described.cluster_authorized_operations == 1 << 8


def test_prefixed_rules_count_in_handlers_too(world: BrokerWorld) -> None:
    permit(
        world, ResourcePattern(ResourceType.TOPIC, "ord", PatternType.PREFIXED), AclOperation.ALL
    )

    assert named(ask_metadata(world)) == {"orders": ErrorCode.none}


# Topics


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
    permit(world, topic("invoices"), AclOperation.DELETE)
    permit(world, topic("invoices"), AclOperation.DESCRIBE, kind=PermissionType.DENY)
    assert delete((None, INVOICES_ID)) == [(None, DENIED)]
    assert world.znode(DeleteTopicZnode.path("invoices")) is None
    permit(world, topic("orders"), AclOperation.DELETE)
    assert delete(("orders", None)) == [("orders", ErrorCode.request_timed_out)]


def test_partitions_are_added_by_who_may(world: BrokerWorld) -> None:
    module = schema("create_partitions", 3)
    request = module.CreatePartitionsRequest(
        topics=(module.CreatePartitionsTopic(name="orders", count=3, assignments=None),),
        timeout=timedelta(0),
        validate_only=True,
    )

    (response,) = ask(world, request).results

    assert (response.error_code, response.error_message) == (
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
        (response,) = ask(world, request).responses
        assert isinstance(response.error_code, ErrorCode)
        return response.error_code

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


def test_who_may_do_nothing_to_the_cluster_is_refused_by_every_api(world: BrokerWorld) -> None:
    everybody = schema("describe_user_scram_credentials", 0).DescribeUserScramCredentialsRequest(
        users=None
    )
    for request in (*cluster_requests(), everybody):
        assert ask(world, request).error_code is CLUSTER_DENIED, type(request).__name__
    assert world.controller.requests == []
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
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.END_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.LIST_TRANSACTIONS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
        ApiKey.ENVELOPE,  # it closes the connection
        ApiKey.CONSUMER_GROUP_HEARTBEAT,  # refused for everyone, as the next
        ApiKey.CONSUMER_GROUP_DESCRIBE,
    }

    unguarded = [
        ApiKey(key).name
        for key in HANDLERS
        if key not in CLUSTER_GATES and key not in guarded_by_themselves
    ]
    assert unguarded == [], "name it in CLUSTER_GATES, or guard it in its handler and name it here"


def test_one_of_two_operations_is_enough_to_write_markers(world: BrokerWorld) -> None:
    module = schema("write_txn_markers", 1)
    topic = module.WritableTxnMarkerTopic(name="orders", partition_indexes=(9,))
    marker = module.WritableTxnMarker(
        producer_id=1, producer_epoch=0, transaction_result=True, topics=(topic,),
        coordinator_epoch=0,
    )  # fmt: skip
    permit(world, CLUSTER, AclOperation.ALTER)

    [response] = ask(world, module.WriteTxnMarkersRequest(markers=(marker,))).markers
    error = response.topics[0].partitions[0].error_code
    assert error is ErrorCode.unknown_topic_or_partition, "it was looked for"


def test_a_shutdown_is_asked_for_by_who_may_act_for_the_cluster_alone(world: BrokerWorld) -> None:
    request = schema("controlled_shutdown", 3).ControlledShutdownRequest(
        broker_id=1, broker_epoch=1
    )
    permit(world, CLUSTER, AclOperation.ALTER)
    assert ask(world, request).error_code is ErrorCode.cluster_authorization_failed

    permit(world, CLUSTER, AclOperation.CLUSTER_ACTION)
    assert ask(world, request).error_code is ErrorCode.none
    assert world.controller.asked == [(1, 1)]
