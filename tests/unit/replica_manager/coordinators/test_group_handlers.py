"""The requests about groups, over the wire's bytes: answers in every version, and who may ask."""

from __future__ import annotations

from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.acls import AclOperation, ResourceType
from kafka_common.model import LEADER_DURING_DELETE
from kafka_common.protocol.api_versions import APIS, ApiKey
from kafka_common.protocol.error_codes import MALFORMED
from replica_manager.coordinators.groups.group_metadata_manager import OFFSETS_TOPIC
from replica_manager.coordinators.transactions.transaction_state_manager import TRANSACTION_TOPIC
from replica_manager.server.large_responses import ENTRIES_AT_ONCE
from tests.support.broker_world import broker, metadata
from tests.support.group_api_world import GROUP, NONE, GroupApiWorld
from zkcontroller.zookeeper.znodes import ConfigZnode, TopicZnode

HIDDEN = ErrorCode.group_authorization_failed
ALL_GROUP_OPERATIONS = (1 << 3) | (1 << 6) | (1 << 8)
"""Read, Delete and Describe."""


def found_offsets(group: Any) -> dict[str, tuple[int, ErrorCode]]:
    return {
        topic.name: (topic.partitions[0].committed_offset, topic.partitions[0].error_code)
        for topic in group.topics
    }


@asynccontextmanager
async def coordinating(folder: Path) -> AsyncIterator[GroupApiWorld]:
    """A world that coordinates groups."""
    with ThreadPoolExecutor(1) as executor:
        world = GroupApiWorld(executor, folder)
        await world.begin()
        try:
            yield world
        finally:
            await world.end()


# Where the coordinator is


@pytest.mark.parametrize("version", range(7))
async def test_the_coordinator_is_the_leader_of_the_groups_partition(
    tmp_path: Path, version: int
) -> None:
    async with coordinating(tmp_path) as world:
        response = await world.find(version, GROUP)

        [found] = response.coordinators if version >= 4 else [response]
        assert (found.error_code, found.node_id, found.host, found.port) == (
            NONE, 1, "host1", 9092
        )  # fmt: skip


async def test_several_groups_are_looked_up_at_once(tmp_path: Path) -> None:
    async with coordinating(tmp_path) as world:
        response = await world.find(4, "a", "b", "c")
        assert [each.key for each in response.coordinators] == ["a", "b", "c"]


async def test_a_leader_that_is_gone_or_not_on_that_listener_is_no_coordinator(
    tmp_path: Path,
) -> None:
    async with coordinating(tmp_path) as world:
        world.update({OFFSETS_TOPIC: {0: metadata(-1)}})
        assert (await world.find(3, GROUP)).error_code is ErrorCode.coordinator_not_available
        world.update({OFFSETS_TOPIC: {0: metadata(2)}}, brokers=[broker(1), broker(2, "OTHER")])
        response = await world.find(3, GROUP)
        assert (response.error_code, response.node_id, response.host, response.port) == (
            ErrorCode.coordinator_not_available, -1, "", -1
        )  # fmt: skip
        assert response.error_message == "The coordinator is not available."


@pytest.mark.parametrize(
    ("version", "key_type", "error", "message"),
    [
        (3, 9, ErrorCode.invalid_request, MALFORMED),
        (4, 9, ErrorCode.invalid_request, MALFORMED),
        # Share groups are known since version 6.
        (3, 2, ErrorCode.invalid_request, MALFORMED),
        (5, 2, ErrorCode.invalid_request, ""),
        (6, 2, ErrorCode.cluster_authorization_failed, ""),
    ],
)
async def test_a_coordinator_of_another_kind_is_refused_with_kafkas_message(
    tmp_path: Path, version: int, key_type: int, error: ErrorCode, message: str
) -> None:
    async with coordinating(tmp_path) as world:
        world.authorize()
        response = await world.find(version, "any", key_type=key_type)
        [found] = response.coordinators if version >= 4 else [response]
        assert (found.error_code, found.error_message) == (error, message)


async def test_who_asks_first_has_the_offsets_topic_created(
    executor: ThreadPoolExecutor, tmp_path: Path
) -> None:
    world = GroupApiWorld(executor, tmp_path, offsets__topic__replication__factor="2")
    world.update()
    response = await world.find(4, GROUP)
    assert response.coordinators[0].error_code is ErrorCode.coordinator_not_available

    znode = world.znode(TopicZnode.path(OFFSETS_TOPIC))
    config = world.znode(ConfigZnode.topic_path(OFFSETS_TOPIC))
    assert znode is not None
    assert config is not None
    [replicas] = TopicZnode.decode(OFFSETS_TOPIC, znode.data).partitions.values()
    assert len(replicas.replicas) == 2
    assert ConfigZnode.decode("", config.data).config == {
        "cleanup.policy": "compact",
        "segment.bytes": "104857600",
        "compression.type": "producer",
    }


async def test_too_few_brokers_for_the_offsets_topic_leave_it_unmade_and_are_no_other_error(
    executor: ThreadPoolExecutor, tmp_path: Path
) -> None:
    world = GroupApiWorld(executor, tmp_path, offsets__topic__replication__factor="3")
    world.update(brokers=[broker(1), broker(2)])

    response = await world.find(3, GROUP)

    assert response.error_code is ErrorCode.coordinator_not_available
    assert world.znode(TopicZnode.path(OFFSETS_TOPIC)) is None
    world.update(brokers=[broker(1), broker(2), broker(3)])
    assert (await world.find(3, GROUP)).error_code is ErrorCode.coordinator_not_available
    assert world.znode(TopicZnode.path(OFFSETS_TOPIC)) is not None


@pytest.mark.parametrize("version", [1, 3, 4, 6])
async def test_who_asks_for_the_first_transactional_id_has_the_topic_created(
    tmp_path: Path, executor: ThreadPoolExecutor, version: int
) -> None:
    world = GroupApiWorld(executor, tmp_path, transaction__state__log__replication__factor="1")
    world.update(brokers=[broker(1)])

    async def find() -> Any:
        response = await world.find(version, "id", key_type=1)
        return response.coordinators[0] if version >= 4 else response

    assert (await find()).error_code is ErrorCode.coordinator_not_available
    assert world.znode(TopicZnode.path(TRANSACTION_TOPIC)) is not None
    world.lead(TRANSACTION_TOPIC, world.transactions.partition_for("id"))
    found = await find()
    assert found.error_code is ErrorCode.none
    assert found.node_id == 1


async def test_types_of_coordinators_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    async with coordinating(tmp_path) as world:
        assert (await world.find(3, "id", key_type=9)).error_code is ErrorCode.invalid_request
        [share] = (await world.find(5, "id", key_type=2)).coordinators
        assert share.error_code is ErrorCode.invalid_request
        [share] = (await world.find(6, "id", key_type=2)).coordinators
        assert share.error_code is ErrorCode.coordinator_not_available


# A member's life


async def test_a_member_joins_is_assigned_lives_commits_and_leaves(tmp_path: Path) -> None:
    async with coordinating(tmp_path) as world:
        joined = await world.join()
        assert (joined.error_code, joined.leader) == (NONE, joined.member_id)
        assert (await world.sync(joined)).assignment == b"all of it"
        assert await world.heartbeat(joined) is NONE
        [described] = await world.described(GROUP, operations=True)
        assert described.group_state == "Stable"
        assert described.authorized_operations == ALL_GROUP_OPERATIONS
        [member] = described.members
        assert (member.client_id, member.client_host) == ("test", "/192.0.2.1")

        left = await world.leave(joined.member_id)
        assert (left.error_code, left.members[0].error_code) == (NONE, NONE)
        assert await world.heartbeat(joined) is ErrorCode.unknown_member_id


@pytest.mark.parametrize("step", range(10))
async def test_every_version_has_the_same_outcome(tmp_path: Path, step: int) -> None:
    def at_most(key: ApiKey) -> int:
        return min(step, APIS[key].max_version)

    async with coordinating(tmp_path) as world:
        joined = await world.join(at_most(ApiKey.JOIN_GROUP))
        synced = await world.sync(joined, at_most(ApiKey.SYNC_GROUP))
        assert synced.assignment == b"all of it"
        assert await world.heartbeat(joined, at_most(ApiKey.HEARTBEAT)) is NONE
        assert await world.listed(at_most(ApiKey.LIST_GROUPS)) == [GROUP]
        [described] = await world.described(GROUP, version=at_most(ApiKey.DESCRIBE_GROUPS))
        assert described.protocol_data == "range"
        left = await world.leave(joined.member_id, at_most(ApiKey.LEAVE_GROUP))
        assert left.error_code is NONE
        assert await world.commit(5, "orders", version=step) == {"orders": NONE}
        group = await world.offsets("orders", version=step)
        assert found_offsets(group) == {"orders": (5, NONE)}
        deleted = await world.delete_groups(GROUP, version=at_most(ApiKey.DELETE_GROUPS))
        assert deleted == {GROUP: NONE}


async def test_a_sync_must_name_its_protocol_since_version_5(tmp_path: Path) -> None:
    async with coordinating(tmp_path) as world:
        joined = await world.join()
        refused = await world.sync(joined, protocol_name=None)
        assert refused.error_code is ErrorCode.inconsistent_group_protocol


# Offsets


async def test_a_commit_to_what_does_not_exist_is_refused_and_the_rest_is_written(
    tmp_path: Path,
) -> None:
    async with coordinating(tmp_path) as world:
        assert await world.commit(7, "none", "orders") == {
            "none": ErrorCode.unknown_topic_or_partition,
            "orders": NONE,
        }
        for partition in (2, -1):
            assert await world.commit(7, "orders", partition=partition) == {
                "orders": ErrorCode.unknown_topic_or_partition
            }
        assert found_offsets(await world.offsets()) == {"orders": (7, NONE)}


async def test_offsets_are_deleted_one_by_one(tmp_path: Path) -> None:
    async with coordinating(tmp_path) as world:
        await world.commit(7, "orders", "invoices")
        response = await world.delete_offset("orders", "none")
        assert response.error_code is NONE
        assert {topic.name: topic.partitions[0].error_code for topic in response.topics} == {
            "none": ErrorCode.unknown_topic_or_partition,
            "orders": NONE,
        }
        assert found_offsets(await world.offsets()) == {"invoices": (7, NONE)}


async def test_the_first_version_keeps_offsets_in_zookeeper(tmp_path: Path) -> None:
    async with coordinating(tmp_path) as world:
        assert await world.commit(7, "orders", "none", version=0) == {
            "none": ErrorCode.unknown_topic_or_partition,
            "orders": NONE,
        }
        assert await world.commit(8, "orders", version=0) == {"orders": NONE}
        assert await world.commit(9, "orders", version=0, metadata="m" * 4097) == {
            "orders": ErrorCode.offset_metadata_too_large
        }

        znode = world.znode(f"/consumers/{GROUP}/offsets/orders/0")
        assert znode is not None
        assert znode.data == b"8"
        group = await world.offsets("orders", "invoices", "none", version=0)
        assert found_offsets(group) == {
            "orders": (8, NONE),
            "invoices": (-1, ErrorCode.unknown_topic_or_partition),
            "none": (-1, ErrorCode.unknown_topic_or_partition),
        }
        # The coordinator knows nothing of them.
        assert found_offsets(await world.offsets("orders")) == {"orders": (-1, NONE)}


async def test_a_group_with_a_slash_in_its_name_has_no_offsets_in_zookeeper(tmp_path: Path) -> None:
    async with coordinating(tmp_path) as world:
        module = import_module("kio.schema.offset_fetch.v0.request")
        topic = module.OffsetFetchRequestTopic(name="orders", partition_indexes=(0,))

        response = await world.tell("offset_fetch", 0, group_id="deep/er", topics=(topic,))

        assert found_offsets(response) == {"orders": (-1, ErrorCode.invalid_group_id)}
        assert world.znode("/consumers/deep") is None


async def test_several_groups_are_fetched_in_the_order_of_the_request(tmp_path: Path) -> None:
    async with coordinating(tmp_path) as world:
        await world.commit(7, "orders")
        module = import_module("kio.schema.offset_fetch.v8.request")
        response = await world.tell(
            "offset_fetch", 8, require_stable=False,
            groups=tuple(
                module.OffsetFetchRequestGroup(group_id=group_id, topics=None)
                for group_id in ("other", GROUP)
            ),
        )  # fmt: skip
        assert [(group.group_id, found_offsets(group)) for group in response.groups] == [
            ("other", {}), (GROUP, {"orders": (7, NONE)})
        ]  # fmt: skip


async def test_offsets_of_a_topic_that_the_controller_deletes_are_forgotten(tmp_path: Path) -> None:
    module = import_module("kio.schema.update_metadata.v8.request")
    gone = module.UpdateMetadataPartitionState(
        partition_index=0, controller_epoch=1, leader=LEADER_DURING_DELETE, leader_epoch=1,
        isr=(1,), zk_version=0, replicas=(1,), offline_replicas=(),
    )  # fmt: skip

    async with coordinating(tmp_path) as world:
        await world.commit(7, "orders", "invoices")
        response = await world.tell(
            "update_metadata", 8, controller_id=1, controller_epoch=1, live_brokers=(),
            topic_states=(
                module.UpdateMetadataTopicState(
                    topic_name="orders", topic_id=None, partition_states=(gone,)
                ),
            ),
        )  # fmt: skip

        assert response.error_code is NONE
        assert found_offsets(await world.offsets()) == {"invoices": (7, NONE)}


async def test_an_answer_of_thousands_of_offsets_is_as_any_other(tmp_path: Path) -> None:
    count = ENTRIES_AT_ONCE + 1
    commit = import_module("kio.schema.offset_commit.v9.request")

    async with coordinating(tmp_path) as world:
        world.update({"orders": {each: metadata(1) for each in range(count)}})
        parts = tuple(
            commit.OffsetCommitRequestPartition(
                partition_index=each, committed_offset=each, committed_metadata=""
            )
            for each in range(count)
        )
        response = await world.tell(
            "offset_commit", 9, group_id=GROUP, generation_id_or_member_epoch=-1, member_id="",
            group_instance_id=None,
            topics=(commit.OffsetCommitRequestTopic(name="orders", partitions=parts),),
        )  # fmt: skip
        [topic] = response.topics
        assert {each.error_code for each in topic.partitions} == {NONE}
        assert len(topic.partitions) == count

        [topic] = (await world.offsets()).topics
        assert [each.committed_offset for each in topic.partitions] == list(range(count))


# Who may what


async def test_who_may_do_nothing_learns_nothing_of_a_group(tmp_path: Path) -> None:
    async with coordinating(tmp_path) as world:
        joined = await world.join()
        await world.sync(joined)
        world.authorize()

        assert (await world.find(3, GROUP)).error_code is HIDDEN
        [found] = (await world.find(4, "id", key_type=1)).coordinators
        assert found.error_code is ErrorCode.transactional_id_authorization_failed
        [share] = (await world.find(6, "id", key_type=2)).coordinators
        assert share.error_code is ErrorCode.cluster_authorization_failed
        assert (await world.join()).error_code is HIDDEN
        assert (await world.sync(joined)).error_code is HIDDEN
        assert await world.heartbeat(joined) is HIDDEN
        assert (await world.leave(joined.member_id)).error_code is HIDDEN
        assert await world.commit(1, "orders") == {"orders": HIDDEN}
        assert (await world.offsets("orders")).error_code is HIDDEN
        for version in (0, 1):
            old = await world.offsets("orders", version=version)
            assert found_offsets(old) == {"orders": (-1, HIDDEN)}
        assert (await world.delete_offset("orders")).error_code is HIDDEN
        assert await world.listed() == []
        assert [each.error_code for each in await world.described(GROUP, "other")] == [HIDDEN] * 2
        assert await world.delete_groups(GROUP, "other") == {GROUP: HIDDEN, "other": HIDDEN}

        world.context.authorizer = None
        assert await world.heartbeat(joined) is NONE


async def test_a_member_needs_to_read_the_group_and_its_topics(tmp_path: Path) -> None:
    async with coordinating(tmp_path) as world:
        world.authorize()
        world.permit(ResourceType.GROUP, GROUP, AclOperation.READ)
        world.permit(ResourceType.TOPIC, "orders", AclOperation.READ)

        # Who may read may describe.
        assert (await world.find(3, GROUP)).error_code is NONE
        joined = await world.join()
        assert (await world.sync(joined)).error_code is NONE
        assert await world.heartbeat(joined) is NONE
        assert (await world.leave(joined.member_id)).error_code is NONE
        assert await world.commit(5, "orders", "invoices") == {
            "invoices": ErrorCode.topic_authorization_failed,
            "orders": NONE,
        }
        assert await world.listed() == [GROUP]
        assert await world.delete_groups(GROUP) == {GROUP: HIDDEN}
        [described] = await world.described(GROUP, operations=True)
        assert described.authorized_operations == (1 << 3) | (1 << 8)


async def test_offsets_of_topics_that_may_not_be_described_are_hidden(tmp_path: Path) -> None:
    async with coordinating(tmp_path) as world:
        await world.commit(5, "orders", "invoices")
        world.authorize()
        world.permit(ResourceType.GROUP, GROUP, AclOperation.DESCRIBE)
        world.permit(ResourceType.TOPIC, "orders", AclOperation.DESCRIBE)

        assert found_offsets(await world.offsets()) == {"orders": (5, NONE)}
        denied = ErrorCode.topic_authorization_failed
        for version in (1, 7, 9):
            assert found_offsets(await world.offsets("invoices", "orders", version=version)) == {
                "orders": (5, NONE), "invoices": (-1, denied)
            }  # fmt: skip


async def test_deleting_takes_the_right_to_delete(tmp_path: Path) -> None:
    async with coordinating(tmp_path) as world:
        await world.commit(5, "orders", "invoices")
        world.authorize()
        world.permit(ResourceType.GROUP, GROUP, AclOperation.DELETE)
        world.permit(ResourceType.TOPIC, "orders", AclOperation.READ)

        response = await world.delete_offset("orders", "invoices")
        assert {topic.name: topic.partitions[0].error_code for topic in response.topics} == {
            "invoices": ErrorCode.topic_authorization_failed,
            "orders": NONE,
        }
        assert await world.delete_groups("other", GROUP) == {GROUP: NONE, "other": HIDDEN}


async def test_who_may_describe_the_cluster_sees_every_group(tmp_path: Path) -> None:
    async with coordinating(tmp_path) as world:
        await world.commit(5, "orders")
        world.authorize()
        world.permit(ResourceType.CLUSTER, "kafka-cluster", AclOperation.DESCRIBE)

        assert await world.listed() == [GROUP]
