"""What Fetch answers to consumers and followers.

Source of the behaviours: Kafka ``FetchRequestTest``, ``ReplicaManagerTest``, ``PartitionTest``,
``KafkaApisTest``.
"""

from __future__ import annotations

import asyncio
import dataclasses
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.model import TopicPartition
from kafka_common.protocol.compression import Codec
from kafka_common.protocol.record_batch import MemoryRecords, iterate_batches
from replica_manager.replication.isr import CommittedIsr, PendingExpand
from replica_manager.security.acl_cache import AclCache
from replica_manager.security.authorizer import Authorizer
from tests.support.broker_world import BrokerWorld, broker
from tests.support.fetch_world import (
    NEWEST,
    ORDERS,
    ORDERS_ID,
    ask,
    fetch,
    fill,
    log_of,
    made,
    offsets,
    request,
    waiting,
)
from tests.support.log_world import batch


@pytest.fixture
def world(executor: ThreadPoolExecutor, tmp_path: Path) -> BrokerWorld:
    return made(executor, tmp_path)


@pytest.mark.parametrize("version", range(4, NEWEST + 1))
def test_records_are_read_from_the_batch_of_the_offset_on(world: BrokerWorld, version: int) -> None:
    world.lead("orders", topic_id=ORDERS_ID)
    fill(world, 2, 3)

    [response] = fetch(world, (0, 3), version=version)

    assert response.error_code is ErrorCode.none
    assert (response.high_watermark, response.last_stable_offset) == (5, 5)
    assert offsets(response.records) == [2, 3, 4]
    assert response.aborted_transactions is None


def test_partitions_are_answered_in_the_order_of_the_request(world: BrokerWorld) -> None:
    """A consumer turns them, so that none is read last each time, and a topic's stand apart."""
    for topic in ("orders", "returns"):
        for partition in (0, 1):
            world.lead(topic, partition)
    asked = [("orders", 0), ("returns", 1), ("orders", 1), ("returns", 0)]
    topics = tuple(
        request((partition, 0), topic=topic, version=12).topics[0] for topic, partition in asked
    )

    responses = ask(world, dataclasses.replace(request(version=12), topics=topics)).responses

    assert [(each.topic, each.partitions[0].partition_index) for each in responses] == asked


@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1), (3, 1)])
def test_old_versions_get_old_messages(world: BrokerWorld, version: int, magic: int) -> None:
    world.lead("orders")
    fill(world, 2, 3)

    [response] = fetch(world, (0, 1), version=version)

    assert {header.magic for _, header in iterate_batches(response.records)} == {magic}
    assert offsets(response.records) == [1, 2, 3, 4]


def test_old_versions_are_refused_where_conversion_is_forbidden(world: BrokerWorld) -> None:
    world.disk_logs.topic_changed("orders", {"message.downconversion.enable": "false"})
    world.lead("orders")
    fill(world, 2)

    assert fetch(world, version=3)[0].error_code is ErrorCode.unsupported_version
    # Also where nothing could be read.
    assert fetch(world, (0, 9), version=3)[0].error_code is ErrorCode.unsupported_version
    assert offsets(fetch(world, version=4)[0].records) == [0, 1]


def test_zstd_is_for_who_knows_it(world: BrokerWorld) -> None:
    world.disk_logs.topic_changed("orders", {"compression.type": "zstd"})
    world.lead("orders")
    fill(world, 2)

    assert fetch(world, version=9)[0].error_code is ErrorCode.unsupported_compression_type
    [response] = fetch(world, version=10)
    assert offsets(response.records) == [0, 1]
    assert next(iterate_batches(response.records))[1].codec is Codec.ZSTD


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ({"partition": 0, "offset": 9}, ErrorCode.offset_out_of_range),
        ({"partition": 0, "offset": -1}, ErrorCode.offset_out_of_range),
        ({"partition": 5, "offset": 0}, ErrorCode.unknown_topic_or_partition),
        ({"topic_id": UUID(int=99)}, ErrorCode.unknown_topic_id),
        ({"topic_id": None}, ErrorCode.unknown_topic_id),
        ({"leader_epoch": 1}, ErrorCode.fenced_leader_epoch),
        ({"leader_epoch": 5}, ErrorCode.unknown_leader_epoch),
        ({"replica_id": 8, "leader_epoch": 3}, ErrorCode.unknown_leader_epoch),
        ({"replica_id": 8}, ErrorCode.not_leader_or_follower),
    ],
)
def test_what_cannot_be_read_has_its_error(
    world: BrokerWorld, how: dict[str, Any], error: ErrorCode
) -> None:
    world.lead("orders", topic_id=ORDERS_ID, leader_epoch=3)
    fill(world, 2)
    place = (how.pop("partition", 0), how.pop("offset", 0))

    [response] = fetch(world, place, max_wait_ms=60_000, **how)

    assert response.error_code is error
    assert (response.high_watermark, response.last_stable_offset, response.log_start_offset) == (
        -1,
        -1,
        -1,
    )


def test_an_offline_directory_is_a_storage_error_that_old_clients_can_bear(
    world: BrokerWorld,
) -> None:
    world.replicas.mark_offline([world.lead("orders", topic_id=ORDERS_ID)])

    assert fetch(world)[0].error_code is ErrorCode.kafka_storage_error
    assert fetch(world, version=5)[0].error_code is ErrorCode.not_leader_or_follower


def test_a_topic_that_was_made_again_is_not_the_one_that_was_asked_for(world: BrokerWorld) -> None:
    world.lead("orders", topic_id=ORDERS_ID)
    world.replicas.partitions[ORDERS].topic_id = UUID(int=8)

    assert fetch(world)[0].error_code is ErrorCode.inconsistent_topic_id


@pytest.mark.parametrize("replica_id", [-1, -2], ids=["consumer", "debugging consumer"])
def test_consumers_see_what_is_committed_and_followers_all(
    world: BrokerWorld, replica_id: int
) -> None:
    """Kafka 3.9 takes replica id -2 for a consumer in Fetch, and for a follower in ListOffsets."""
    world.lead("orders", topic_id=ORDERS_ID, isr=(1, 2), replicas=(1, 2))
    fill(world, 3)

    [consumer] = fetch(world, replica_id=replica_id)
    [follower] = fetch(world, replica_id=2)

    assert (consumer.high_watermark, consumer.records) == (0, b"")
    assert offsets(follower.records) == [0, 1, 2]


def test_a_follower_that_has_fetched_all_commits_it(world: BrokerWorld) -> None:
    world.lead("orders", topic_id=ORDERS_ID, isr=(1, 2), replicas=(1, 2))
    fill(world, 3)

    fetch(world, (0, 3), replica_id=2)

    assert log_of(world).high_watermark == 3
    assert world.replicas.partitions[ORDERS].remote_replicas[2].broker_epoch == 9
    assert offsets(fetch(world)[0].records) == [0, 1, 2]


def test_a_follower_that_has_caught_up_is_proposed_for_the_isr(world: BrokerWorld) -> None:
    world.lead("orders", topic_id=ORDERS_ID, isr=(1,), replicas=(1, 2))
    fill(world, 3)

    fetch(world, (0, 1), replica_id=2)
    assert isinstance(world.replicas.partitions[ORDERS].isr_state, CommittedIsr)

    fetch(world, (0, 3), replica_id=2)
    pending = world.replicas.partitions[ORDERS].isr_state
    assert isinstance(pending, PendingExpand)
    assert pending.proposal.new_isr == (1, 2)


def test_a_follower_that_has_diverged_learns_where(world: BrokerWorld) -> None:
    world.lead("orders", topic_id=ORDERS_ID, isr=(1, 2), replicas=(1, 2), leader_epoch=1)
    fill(world, 3)
    world.lead("orders", topic_id=ORDERS_ID, isr=(1, 2), replicas=(1, 2), leader_epoch=4)
    fill(world, 1)

    [response] = fetch(world, (0, 4), replica_id=2, last_fetched_epoch=2, max_wait_ms=60_000)

    assert response.error_code is ErrorCode.none
    assert (response.diverging_epoch.epoch, response.diverging_epoch.end_offset) == (1, 3)
    assert response.records == b""
    assert log_of(world).high_watermark == 0


def test_consumers_may_read_from_a_follower_since_version_11(world: BrokerWorld) -> None:
    world.lead("orders", topic_id=ORDERS_ID, isr=(1, 2), replicas=(1, 2))
    fill(world, 3)
    fetch(world, (0, 3), replica_id=2)
    world.lead("orders", leader=2, topic_id=ORDERS_ID, isr=(1, 2), replicas=(1, 2), leader_epoch=1)

    assert offsets(fetch(world, version=11)[0].records) == [0, 1, 2]
    assert fetch(world, version=10)[0].error_code is ErrorCode.not_leader_or_follower
    [refused] = fetch(world, replica_id=3)
    assert refused.error_code is ErrorCode.not_leader_or_follower
    assert (refused.current_leader.leader_id, refused.current_leader.leader_epoch) == (2, 1)


def test_a_consumer_is_sent_to_a_follower_in_its_rack(
    executor: ThreadPoolExecutor, tmp_path: Path
) -> None:
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    world = made(executor, tmp_path, replica__selector__class=selector)
    world.lead("orders", topic_id=ORDERS_ID, isr=(1, 2), replicas=(1, 2, 3))
    fill(world, 3)
    fetch(world, (0, 3), replica_id=2)
    world.update(brokers=[broker(1, rack="a"), broker(2, rack="b"), broker(3, rack="c")])

    [sent] = fetch(world, rack_id="b", max_wait_ms=60_000)
    assert (sent.preferred_read_replica, sent.records) == (2, b"")
    assert sent.high_watermark == 3
    for rack_id in ("a", "c", "d", ""):
        assert offsets(fetch(world, rack_id=rack_id)[0].records) == [0, 1, 2]


def test_limits_hold_but_for_the_first_batch(world: BrokerWorld) -> None:
    world.lead("orders", 0, topic_id=ORDERS_ID)
    world.lead("orders", 1, topic_id=ORDERS_ID)
    for partition in (0, 1):
        fill(world, 1, 1, 1, tp=TopicPartition("orders", partition), size=500)

    def sizes(**how: Any) -> list[list[int]]:
        return [offsets(response.records) for response in fetch(world, (0, 0), (1, 0), **how)]

    assert sizes() == [[0, 1, 2], [0, 1, 2]]
    assert sizes(max_bytes=10) == [[0], []]
    assert sizes(partition_max_bytes=10) == [[0], []]
    assert sizes(partition_max_bytes=1200) == [[0, 1], [0, 1]]
    assert sizes(max_bytes=2000) == [[0, 1, 2], []]
    old = fetch(world, (0, 0), version=2, topic_id=None, partition_max_bytes=10)
    assert offsets(old[0].records) == []


def test_the_brokers_own_limit_holds_too(executor: ThreadPoolExecutor, tmp_path: Path) -> None:
    world = made(executor, tmp_path, fetch__max__bytes="1024")
    world.lead("orders", topic_id=ORDERS_ID)
    fill(world, 1, 1, 1, size=500)

    assert offsets(fetch(world, min_bytes=100_000)[0].records) == [0]


def test_reading_committed_records_tells_aborted_transactions(world: BrokerWorld) -> None:
    world.lead("orders", topic_id=ORDERS_ID)
    fill(world, 2)

    [response] = fetch(world, is_read_committed=True)

    assert offsets(response.records) == [0, 1]
    assert response.aborted_transactions == ()


# ---------------------------------------------------------------------- waiting


def test_a_consumer_waits_for_records(world: BrokerWorld) -> None:
    world.lead("orders", topic_id=ORDERS_ID)

    response = waiting(
        world,
        lambda: world.appends.append_records(
            {ORDERS: MemoryRecords(batch(2))}, acks=1, timeout_ms=1
        ),
        (0, 0),
    )

    assert offsets(response.records) == [0, 1]


def test_a_consumer_waits_for_enough(world: BrokerWorld) -> None:
    world.lead("orders", topic_id=ORDERS_ID)

    async def append_twice() -> None:
        await world.appends.append_records(
            {ORDERS: MemoryRecords(batch(1, size=300))}, acks=1, timeout_ms=1
        )
        assert len(world.reads.waiting) == 1
        await world.appends.append_records(
            {ORDERS: MemoryRecords(batch(1, size=300))}, acks=1, timeout_ms=1
        )

    response = waiting(world, append_twice, (0, 0), min_bytes=600)

    assert offsets(response.records) == [0, 1]


def test_a_consumer_waits_until_records_are_committed(world: BrokerWorld) -> None:
    world.lead("orders", topic_id=ORDERS_ID, isr=(1, 2), replicas=(1, 2))

    async def append_and_follow() -> None:
        await world.appends.append_records({ORDERS: MemoryRecords(batch(2))}, acks=1, timeout_ms=1)
        assert len(world.reads.waiting) == 1
        await world.ask(request((0, 2), replica_id=2))

    response = waiting(world, append_and_follow, (0, 0))

    assert (offsets(response.records), response.high_watermark) == ([0, 1], 2)


def test_a_follower_is_woken_by_every_append(world: BrokerWorld) -> None:
    world.lead("orders", topic_id=ORDERS_ID, isr=(1, 2), replicas=(1, 2))

    response = waiting(
        world,
        lambda: world.appends.append_records(
            {ORDERS: MemoryRecords(batch(2))}, acks=1, timeout_ms=1
        ),
        (0, 0),
        replica_id=2,
    )

    assert (offsets(response.records), response.high_watermark) == ([0, 1], 0)


def test_who_waits_gets_an_error_when_this_broker_leads_no_more(world: BrokerWorld) -> None:
    world.lead("orders", topic_id=ORDERS_ID, isr=(1, 2), replicas=(1, 2))

    def resign() -> None:
        world.lead("orders", leader=2, isr=(1, 2), replicas=(1, 2), leader_epoch=1)

    response = waiting(world, resign, (0, 0), replica_id=2)

    assert response.error_code is ErrorCode.not_leader_or_follower


def test_time_runs_out_for_who_waits_and_there_is_what_there_is(world: BrokerWorld) -> None:
    world.lead("orders", topic_id=ORDERS_ID)
    fill(world, 1)

    [response] = fetch(world, min_bytes=5000, max_wait_ms=1)

    assert offsets(response.records) == [0]
    assert len(world.reads.waiting) == 0


# ---------------------------------------------------------------------- sessions


def test_a_session_is_answered_only_what_has_changed(world: BrokerWorld) -> None:
    world.lead("orders", 0, topic_id=ORDERS_ID)
    world.lead("orders", 1, topic_id=ORDERS_ID)

    first = ask(world, request((0, 0), (1, 0), session=(0, 0)))
    assert first.session_id > 0
    assert len(first.responses[0].partitions) == 2

    fill(world, 2, tp=TopicPartition("orders", 1))
    second = ask(world, request(session=(first.session_id, 1)))
    [told] = second.responses[0].partitions
    assert (told.partition_index, offsets(told.records)) == (1, [0, 1])

    third = ask(world, request((1, 2), forgotten=[0], session=(first.session_id, 2)))
    assert third.responses == ()
    late = ask(world, request(session=(first.session_id, 2)))
    assert late.error_code is ErrorCode.invalid_fetch_session_epoch
    unknown = ask(world, request(session=(first.session_id + 1, 1)))
    assert unknown.error_code is ErrorCode.fetch_session_id_not_found


# ---------------------------------------------------------------------- permission


def test_who_may_not_read_is_refused(world: BrokerWorld) -> None:
    world.lead("orders", topic_id=ORDERS_ID)
    world.context.authorizer = Authorizer(
        AclCache({}), super_users=frozenset(), allow_everyone_if_no_acl_found=False
    )

    assert fetch(world)[0].error_code is ErrorCode.topic_authorization_failed
    assert fetch(world, replica_id=2)[0].error_code is ErrorCode.topic_authorization_failed


async def test_of_many_partitions_only_those_that_changed_are_looked_at_again(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    for partition in range(20):
        world.lead("orders", partition, topic_id=ORDERS_ID, isr=(1, 2), replicas=(1, 2))
    changed = TopicPartition("orders", 7)
    looked_at: list[TopicPartition] = []
    original = world.replicas.get_partition_or_error

    def noted(tp: TopicPartition) -> Any:
        looked_at.append(tp)
        return original(tp)

    async def append() -> None:
        monkeypatch.setattr(world.replicas, "get_partition_or_error", noted)
        await world.appends.append_records({changed: MemoryRecords(batch(2))}, acks=1, timeout_ms=1)

    asked = request(*[(p, 0) for p in range(20)], replica_id=2, max_wait_ms=60_000)
    answer = asyncio.create_task(world.ask(asked))
    while not len(world.reads.waiting):
        await asyncio.sleep(0)
    await append()
    response = await answer

    responses = {each.partition_index: each for each in response.responses[0].partitions}
    assert [p for p, each in responses.items() if each.records] == [7]
    assert offsets(responses[7].records) == [0, 1]
    assert all(each.error_code is ErrorCode.none for each in responses.values())
    assert set(looked_at) == {changed}


def test_a_client_that_calls_itself_a_future_replica_reads_what_is_committed(
    world: BrokerWorld,
) -> None:
    world.lead("orders", topic_id=ORDERS_ID, isr=(1, 2), replicas=(1, 2))
    fill(world, 2)

    [future] = fetch(world, (0, 0), replica_id=-3)
    [follower] = fetch(world, (0, 0), replica_id=2)

    assert offsets(future.records) == []
    assert offsets(follower.records) == [0, 1]
