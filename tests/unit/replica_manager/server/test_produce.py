"""What Produce answers, and what stands in the logs afterwards.

Source of the behaviours: Kafka ``KafkaApisTest``, ``ReplicaManagerTest``, ``ProduceRequestTest``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.model import TopicPartition
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.compression import Codec
from kafka_common.protocol.messages import write
from kafka_common.protocol.record_batch import MemoryRecords
from replica_manager.configuration.config import BrokerConfig
from replica_manager.log.log_config import LogConfig
from replica_manager.replication.control_requests import StopReplicaPartition, StopReplicaRequest
from replica_manager.replication.record_appends import PartitionResponse
from replica_manager.security.acl_cache import AclCache
from replica_manager.security.authorizer import Authorizer
from tests.support.broker_world import BrokerWorld
from tests.support.frames import request_header
from tests.support.log_world import batch
from tests.support.steps import completed
from tests.unit.replica_manager.server.produced import log_of, produce, request


@pytest.fixture
def world(executor: ThreadPoolExecutor, tmp_path: Path) -> BrokerWorld:
    return BrokerWorld(executor, log_dirs=[tmp_path / "data"])


@pytest.mark.parametrize("version", range(3, 12))
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_records_get_the_offsets_that_follow(
    world: BrokerWorld, version: int, codec: Codec
) -> None:
    world.lead("orders")

    first = produce(world, batch(3, codec=codec), version=version)
    second = produce(world, batch(2, codec=codec), version=version)

    assert (first.error_code, first.base_offset) == (ErrorCode.none, 0)
    assert (second.error_code, second.base_offset) == (ErrorCode.none, 3)
    log = log_of(world)
    assert (log.log_end_offset, log.high_watermark) == (5, 5)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_old_versions_may_bring_new_batches(world: BrokerWorld, version: int) -> None:
    world.lead("orders")

    assert produce(world, batch(3), version=version).error_code is ErrorCode.none


@pytest.mark.parametrize(
    ("records", "version", "error"),
    [
        (None, 3, ErrorCode.invalid_record),
        (b"", 9, ErrorCode.invalid_record),
        (batch() + batch(), 9, ErrorCode.invalid_record),
        (batch(codec=Codec.ZSTD), 6, ErrorCode.unsupported_compression_type),
        (batch()[:-1] + b"?", 9, ErrorCode.corrupt_message),
        (batch(is_transactional=True, producer_id=1, producer_epoch=0, base_sequence=0), 9,
         ErrorCode.transactional_id_authorization_failed),
    ],
)  # fmt: skip
def test_what_is_no_batch_for_the_version_is_refused(
    world: BrokerWorld, records: bytes | None, version: int, error: ErrorCode
) -> None:
    world.lead("orders")

    response = produce(world, records, version=version)

    assert (response.error_code, response.base_offset) == (error, -1)
    assert log_of(world).log_end_offset == 0


def test_partitions_that_are_not_led_here_are_answered_with_the_leader(world: BrokerWorld) -> None:
    world.lead("orders", leader=2, isr=(1, 2), replicas=(1, 2), leader_epoch=4)

    assert produce(world, batch(), partition=9).error_code is ErrorCode.unknown_topic_or_partition
    assert produce(world, batch(), topic="bills").error_code is (
        ErrorCode.unknown_topic_or_partition
    )
    response = asyncio.run(world.ask(request(batch())))
    answer = response.responses[0].partition_responses[0]
    assert answer.error_code is ErrorCode.not_leader_or_follower
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (2, 4)
    [node] = response.node_endpoints
    assert (node.node_id, node.host, node.port) == (2, "host2", 9092)


def test_an_offline_directory_is_a_storage_error(world: BrokerWorld) -> None:
    tp = world.lead("orders")
    world.replicas.mark_offline([tp])

    assert produce(world, batch()).error_code is ErrorCode.kafka_storage_error


@pytest.mark.parametrize("acks", [2, -2])
def test_other_acks_are_refused(world: BrokerWorld, acks: int) -> None:
    world.lead("orders")

    response = produce(world, batch(), acks=acks)

    assert response.error_code is ErrorCode.invalid_required_acks
    assert log_of(world).log_end_offset == 0


def test_only_the_admin_client_writes_to_internal_topics(world: BrokerWorld) -> None:
    tp = TopicPartition("__consumer_offsets", 0)

    async def append_as_coordinator() -> ErrorCode:
        world.lead(tp.topic)
        appended = await world.appends.append_records(
            {tp: MemoryRecords(batch())}, acks=1, timeout_ms=1, allows_internal_topics=True
        )
        return appended.outcomes[tp].error

    assert asyncio.run(append_as_coordinator()) is ErrorCode.none
    assert produce(world, batch(), topic=tp.topic).error_code is ErrorCode.invalid_topic_exception


def test_records_at_fault_are_named(world: BrokerWorld) -> None:
    world.disk_logs.topic_changed("orders", {"cleanup.policy": "compact"})
    world.lead("orders")

    response = produce(world, batch(2, key=None))

    assert response.error_code is ErrorCode.invalid_record
    assert [error.batch_index for error in response.record_errors] == [0, 1]
    assert "without key" in response.record_errors[0].batch_index_error_message
    assert response.error_message.startswith("One or more records have been rejected")
    assert response.log_start_offset == 0


def test_a_batch_that_is_too_large_is_refused(world: BrokerWorld) -> None:
    world.disk_logs.topic_changed("orders", {"max.message.bytes": "100"})
    world.lead("orders")

    response = produce(world, batch(1, size=200))

    assert response.error_code is ErrorCode.message_too_large
    assert response.log_start_offset == -1


def test_a_repeated_batch_of_an_idempotent_producer_keeps_its_offset(world: BrokerWorld) -> None:
    world.lead("orders")
    first = batch(2, producer_id=7, producer_epoch=0, base_sequence=0)
    third = batch(2, producer_id=7, producer_epoch=0, base_sequence=9)

    offsets = [produce(world, first).base_offset for _ in range(2)]

    assert offsets == [0, 0]
    assert log_of(world).log_end_offset == 2
    assert produce(world, third).error_code is ErrorCode.out_of_order_sequence_number


def test_a_sequence_out_of_order_is_answered_with_the_start_of_the_log(world: BrokerWorld) -> None:
    world.lead("orders")
    produce(world, batch(5, producer_id=7, producer_epoch=0, base_sequence=0))
    log_of(world).delete_records(3)

    response = produce(world, batch(producer_id=7, producer_epoch=0, base_sequence=9))

    assert response.error_code is ErrorCode.out_of_order_sequence_number
    assert (response.base_offset, response.log_start_offset) == (-1, 3)


def test_without_acks_nothing_is_answered_and_a_failure_ends_the_connection(
    world: BrokerWorld,
) -> None:
    world.lead("orders")

    assert asyncio.run(_raw(world, request(batch(), acks=0))) == (b"", False)
    assert log_of(world).log_end_offset == 1
    assert asyncio.run(_raw(world, request(b"", acks=0))) == (b"", True)


async def _raw(world: BrokerWorld, asked: Any) -> tuple[bytes, bool]:
    header = request_header(ApiKey.PRODUCE, int(asked.__version__), 1, "test")
    return await world.ask_raw(header + write(asked)), world.is_closed


def test_too_few_in_sync_are_not_enough_for_all(
    world: BrokerWorld, caplog: pytest.LogCaptureFixture
) -> None:
    world.disk_logs.topic_changed("orders", {"min.insync.replicas": "2"})
    world.lead("orders", isr=(1,), replicas=(1, 2))

    assert produce(world, batch(), acks=-1).error_code is ErrorCode.not_enough_replicas
    [line] = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert line.getMessage() == (
        "[ReplicaManager broker=1] Error processing append operation on partition orders-0"
    )
    # The history of our logs and Kafka's finds refused writes by this sentence.
    assert getattr(line, "cause", "") == (
        "org.apache.kafka.common.errors.NotEnoughReplicasException: The size of the current ISR "
        "Set(1) is insufficient to satisfy the min.isr requirement of 2 for partition orders-0"
    )
    assert produce(world, batch(), acks=1).error_code is ErrorCode.none
    assert log_of(world).high_watermark == 0


def test_all_waits_until_every_replica_in_sync_has_the_records(world: BrokerWorld) -> None:
    tp = world.lead("orders", isr=(1, 2), replicas=(1, 2))

    async def follow() -> None:
        world.replicas.partitions[tp].record_fetch(2, 3, 0, 3, world.now_ms)
        world.replicas.partition_changed(tp)

    [outcome] = asyncio.run(_while_waiting(world, tp, follow))

    assert (outcome.error, outcome.base_offset) == (ErrorCode.none, 0)
    assert log_of(world).high_watermark == 3


def test_all_ends_when_this_broker_leads_no_more(world: BrokerWorld) -> None:
    tp = world.lead("orders", isr=(1, 2), replicas=(1, 2))

    async def resign() -> None:
        world.lead("orders", leader=2, isr=(1, 2), replicas=(1, 2), leader_epoch=1)

    [outcome] = asyncio.run(_while_waiting(world, tp, resign))

    assert outcome.error is ErrorCode.not_leader_or_follower


def test_all_ends_when_the_partition_is_deleted_here(world: BrokerWorld) -> None:
    tp = world.lead("orders", isr=(1, 2), replicas=(1, 2))

    async def delete() -> None:
        order = StopReplicaPartition(0, delete_partition=True)
        completed(world.replicas.stop_replicas(StopReplicaRequest(1, 1, -1, {tp: order}), 5))

    [outcome] = asyncio.run(_while_waiting(world, tp, delete))

    assert outcome.error is ErrorCode.not_leader_or_follower


def test_time_runs_out_for_all_and_the_records_stay(world: BrokerWorld) -> None:
    world.lead("orders", isr=(1, 2), replicas=(1, 2))

    response = produce(world, batch(3), acks=-1, timeout_ms=1)

    assert response.error_code is ErrorCode.request_timed_out
    assert log_of(world).log_end_offset == 3
    assert len(world.appends.waiting) == 0


async def _while_waiting(
    world: BrokerWorld, tp: TopicPartition, do: Callable[[], Awaitable[None]]
) -> list[PartitionResponse]:
    appended = await world.appends.append_records(
        {tp: MemoryRecords(batch(3))}, acks=-1, timeout_ms=60_000
    )
    assert len(world.appends.waiting) == 1
    assert log_of(world, tp).high_watermark == 0
    await do()
    return list((await appended.acknowledged()).values())


def test_a_flush_that_is_due_comes_before_the_answer(world: BrokerWorld) -> None:
    world.disk_logs.topic_changed("orders", {"flush.messages": "3"})
    world.lead("orders")

    produce(world, batch(2))
    assert log_of(world).recovery_point == 0
    produce(world, batch(2))
    assert log_of(world).recovery_point == 4


def test_topics_follow_their_configuration_and_the_brokers(world: BrokerWorld) -> None:
    world.lead("orders")
    assert log_of(world).config == LogConfig()

    world.disk_logs.topic_changed("orders", {"retention.ms": "5", "segment.bytes": "nonsense"})
    assert (log_of(world).config.retention_ms, log_of(world).config.segment_bytes) == (5, 2**30)

    world.config = world.config.with_dynamic(default={}, own={"log.segment.bytes": "2048"})
    world.disk_logs.broker_changed()
    assert (log_of(world).config.retention_ms, log_of(world).config.segment_bytes) == (5, 2048)

    world.disk_logs.topic_changed("orders", {})
    assert log_of(world).config.retention_ms == LogConfig().retention_ms


@pytest.mark.parametrize(
    ("protocol", "shown"), [("2.8", 'message.format.version="2.8", '), ("3.0", "")]
)
def test_the_line_of_a_new_log_shows_what_the_topic_sets(
    world: BrokerWorld, caplog: pytest.LogCaptureFixture, protocol: str, shown: str
) -> None:
    caplog.set_level(logging.INFO, "kafka.log.LogManager")
    world.config = BrokerConfig.parse(
        {"zookeeper.connect": "z:1", "inter.broker.protocol.version": protocol}
    )
    own = {
        "compression.type": "zstd",
        "cleanup.policy": "compact,delete",
        "min.cleanable.dirty.ratio": "0.50",
        "message.format.version": "2.8",
        "no.such.key": "1",
    }
    world.disk_logs.topic_changed("orders", own)
    world.disk_logs.broker_changed()

    world.lead("orders")

    assert (
        ' with properties {cleanup.policy=compact,delete, compression.type="zstd", '
        f"{shown}min.cleanable.dirty.ratio=0.50, no.such.key=(redacted)}}"
    ) in caplog.text


def test_a_topics_record_format_that_is_not_written_is_reported(
    world: BrokerWorld, caplog: pytest.LogCaptureFixture
) -> None:
    world.config = BrokerConfig.parse(
        {"zookeeper.connect": "z:1", "inter.broker.protocol.version": "2.8"}
    )

    world.disk_logs.topic_changed("orders", {"message.format.version": "0.10.2"})

    assert "topic orders is ignored in part: invalid value '0.10.2'" in caplog.text


def test_a_client_that_may_not_write_gets_an_error(world: BrokerWorld) -> None:
    world.lead("orders")
    world.context.authorizer = Authorizer(
        AclCache({}), super_users=frozenset(), allow_everyone_if_no_acl_found=False
    )

    assert produce(world, batch()).error_code is ErrorCode.topic_authorization_failed
    assert log_of(world).log_end_offset == 0
