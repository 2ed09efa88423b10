"""What the APIs of logs and producers answer to who may not."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.acls import AclOperation, ResourcePattern, ResourceType
from tests.support.broker_world import BrokerWorld
from tests.support.guarded_world import (
    CLUSTER,
    CLUSTER_DENIED,
    DENIED,
    ask,
    guarded_world,
    permit,
    schema,
    topic,
)


@pytest.fixture
def world(executor: ThreadPoolExecutor) -> BrokerWorld:
    return guarded_world(executor)


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


def test_offsets_are_reported_of_topics_that_may_be_described_and_the_others_come_last(
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


def test_producers_are_shown_to_who_may_read_the_topic(world: BrokerWorld) -> None:
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
    permit(world, ResourcePattern(ResourceType.TRANSACTIONAL_ID, "payments"), AclOperation.WRITE)
    assert ask(world, request).error_code is ErrorCode.invalid_transaction_timeout


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
