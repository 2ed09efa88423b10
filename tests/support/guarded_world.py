"""A broker with an authorizer, asked by a user whom rules allow something or nothing."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from importlib import import_module
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from kafka_common.acls import (
    AccessControlEntry,
    AclOperation,
    PermissionType,
    ResourcePattern,
    ResourceType,
)
from replica_manager.security.acl_cache import AclBinding
from replica_manager.security.authorizer import CLUSTER_NAME, Authorizer
from replica_manager.security.principals import Principal
from replica_manager.security.settings import authorizer_settings
from tests.support.broker_world import ORDERS_ID, BrokerWorld, metadata
from zkcontroller.zookeeper.requests import Create
from zkcontroller.zookeeper.znodes import TopicZnode

DENIED = ErrorCode.topic_authorization_failed
CLUSTER_DENIED = ErrorCode.cluster_authorization_failed
CLUSTER = ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME)
INVOICES_ID = UUID(int=9)


def topic(name: str) -> ResourcePattern:
    return ResourcePattern(ResourceType.TOPIC, name)


def guarded_world(executor: ThreadPoolExecutor) -> BrokerWorld:
    """A broker with an authorizer and two topics, asked by a user without rules."""
    world = BrokerWorld(
        executor,
        authorizer__class__name="kafka.security.authorizer.AclAuthorizer",
        super__users="User:admin",
    )
    settings = authorizer_settings(world.config)
    assert settings is not None
    world.guard_by(
        Authorizer(
            cache=import_module("replica_manager.security.acl_cache").AclCache({}),
            super_users=frozenset(Principal(*user) for user in settings.super_users),
        )
    )
    world.principal = Principal("User", "alice")
    world.update(
        {"orders": {0: metadata(1)}, "invoices": {0: metadata(1)}},
        topic_ids={"orders": ORDERS_ID, "invoices": INVOICES_ID},
    )
    for name in ("orders", "invoices"):
        world.session.write(Create(TopicZnode.path(name), b"{}"))
    return world


def permit(
    world: BrokerWorld,
    pattern: ResourcePattern,
    *operations: AclOperation,
    kind: PermissionType = PermissionType.ALLOW,
) -> None:
    """Rules that allow alice something, or deny it."""
    bindings = [
        AclBinding(pattern, AccessControlEntry("User:alice", "*", each, kind))
        for each in operations
    ]
    assert set(world.create_acls(bindings)) == {ErrorCode.none}


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
