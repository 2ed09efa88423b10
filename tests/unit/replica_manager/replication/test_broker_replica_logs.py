"""What LeaderAndIsr and StopReplica leave in the log directories.

Source of the behaviours: Kafka ``ReplicaManagerTest``, ``PartitionTest``.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.model import EPOCH_DURING_DELETE, NO_EPOCH, LeaderAndIsr, TopicPartition
from kafka_common.observability.metrics import Metrics
from kafka_common.protocol.bulk import leader_and_isr_body
from kafka_common.protocol.messages import read_response
from kafka_common.protocol.record_batch import MemoryRecords
from replica_manager.broker.broker_gauges import LATE_TRANSACTION_BUFFER_MS, register_replica_gauges
from replica_manager.log import files
from replica_manager.log.checkpoints import write_offsets
from replica_manager.log.partition_metadata import FILE_NAME, read_topic_id
from replica_manager.log.unified_log import UnifiedLog
from replica_manager.regular_files import open_regular
from replica_manager.replication.control_requests import (
    LeaderAndIsrRequest,
    StopReplicaPartition,
    StopReplicaRequest,
)
from replica_manager.replication.leader_and_isr import become_leader_or_follower
from replica_manager.replication.partition import LeaderAndIsrPartitionState
from replica_manager.server.handlers import leader_and_isr
from tests.support.broker_world import CORRELATION_ID, ORDERS_ID, BrokerWorld, broker
from tests.support.control_entries import leader_and_isr_entry
from tests.support.frames import parse_response_header, request_header
from tests.support.log_world import batch
from tests.support.steps import completed

ORDERS = TopicPartition("orders", 0)
BILLS = TopicPartition("bills", 0)


@pytest.fixture
def world(executor: ThreadPoolExecutor, tmp_path: Path) -> BrokerWorld:
    world = BrokerWorld(executor, log_dirs=[tmp_path / "a", tmp_path / "b"])
    world.update({}, brokers=[broker(1), broker(2)])
    return world


def hear(
    world: BrokerWorld,
    *,
    leader: int = 1,
    leader_epoch: int = 0,
    topic_id: UUID | None = ORDERS_ID,
    is_new: bool = True,
) -> ErrorCode:
    state = LeaderAndIsrPartitionState(
        1, leader, leader_epoch, (1, 2), 0, (1, 2), (), (), is_new, 0
    )
    result = completed(
        become_leader_or_follower(
            world.replicas,
            LeaderAndIsrRequest(
                1, 1, -1, {ORDERS: state}, {} if topic_id is None else {"orders": topic_id}
            ),
            CORRELATION_ID,
        )
    )
    return result.partitions[ORDERS]


def refuse_files(monkeypatch: pytest.MonkeyPatch, code: int, times: int) -> None:
    """No file can be opened, so many times."""
    attempts = itertools.count()

    def opened(path: Path, flags: int) -> int:
        if next(attempts) < times:
            raise OSError(code, os.strerror(code))
        return open_regular(path, flags)

    monkeypatch.setattr(files, "open_regular", opened)


def hear_from_controller(world: BrokerWorld) -> ErrorCode:
    """The broker's answer to a LeaderAndIsr request on the wire."""
    entry = leader_and_isr_entry(
        4, "orders", 0, LeaderAndIsr(1, 0, (1, 2), 0, 1), (1, 2), (), (), True
    )
    body = leader_and_isr_body(
        4, controller_id=1, controller_epoch=1, broker_epoch=-1,
        topics=[("orders", None, [entry])], live_leaders=[(1, "host1", 9092)],
    )  # fmt: skip
    frame = request_header(4, 4, CORRELATION_ID, None) + b"".join(body)
    answer = asyncio.run(world.ask_raw(frame))
    _, start = parse_response_header(4, 4, answer)
    response: Any = read_response(4, 4, answer, start)
    [error] = [each.error_code for each in response.partition_errors]
    assert isinstance(error, ErrorCode)
    return error


@pytest.mark.parametrize("times", [1, 5])
def test_a_log_that_a_limit_keeps_shut_is_opened_a_little_later(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    monkeypatch.setattr(leader_and_isr, "OPEN_RETRY_S", 0)
    refuse_files(monkeypatch, errno.EMFILE, times)

    assert hear_from_controller(world) is ErrorCode.none

    assert world.replicas.partitions[ORDERS].is_leader
    assert len(world.logs.live_log_dirs) == 2


def test_a_log_that_a_limit_keeps_shut_for_long_is_opened_at_the_next_request(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leader_and_isr, "OPEN_RETRY_S", 0)
    refuse_files(monkeypatch, errno.EMFILE, 1 + leader_and_isr.OPEN_RETRIES)

    assert hear_from_controller(world) is ErrorCode.kafka_storage_error

    assert hear(world, leader_epoch=1) is ErrorCode.none
    assert world.replicas.offline == set()


def test_a_disk_that_cannot_be_read_goes_offline_at_once(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_files(monkeypatch, errno.EIO, 2)

    assert hear_from_controller(world) is ErrorCode.kafka_storage_error

    assert world.replicas.offline == {ORDERS}
    assert world.logs.live_log_dirs == ()


def stop(world: BrokerWorld, leader_epoch: int) -> ErrorCode:
    order = StopReplicaPartition(leader_epoch, delete_partition=True)
    result = completed(
        world.replicas.stop_replicas(StopReplicaRequest(1, 1, -1, {ORDERS: order}), CORRELATION_ID)
    )
    return result.partitions[ORDERS]


def log_of(world: BrokerWorld, tp: TopicPartition = ORDERS) -> UnifiedLog:
    log = world.logs.log(tp)
    assert log is not None
    return log


def do_deferred_tasks(world: BrokerWorld, now_ms: int = 2**60) -> None:
    for task in list(world.logs.environment.deferred_tasks.take_due(now_ms)):
        task.action()


def append(world: BrokerWorld, records: bytes, tp: TopicPartition = ORDERS) -> None:
    appended = asyncio.run(
        world.appends.append_records({tp: MemoryRecords(records)}, acks=1, timeout_ms=1)
    )
    assert appended.outcomes[tp].error is ErrorCode.none


# ---------------------------------------------------------------------- topic ids


@pytest.mark.parametrize("leader", [1, 2])
def test_an_id_that_comes_later_at_the_same_leader_epoch_is_written(
    world: BrokerWorld, leader: int
) -> None:
    assert hear(world, leader=leader, topic_id=None) is ErrorCode.none
    do_deferred_tasks(world, now_ms=0)
    assert read_topic_id(log_of(world).directory) is None

    assert hear(world, leader=leader) is ErrorCode.none

    do_deferred_tasks(world, now_ms=0)
    assert read_topic_id(log_of(world).directory) == ORDERS_ID
    assert log_of(world).topic_id == ORDERS_ID


@pytest.mark.parametrize("leader", [1, 2])
def test_an_id_that_comes_with_a_raised_leader_epoch_is_written(
    world: BrokerWorld, leader: int
) -> None:
    assert hear(world, leader=leader, topic_id=None) is ErrorCode.none
    do_deferred_tasks(world, now_ms=0)

    assert hear(world, leader=leader, leader_epoch=1) is ErrorCode.none

    do_deferred_tasks(world, now_ms=0)
    assert read_topic_id(log_of(world).directory) == ORDERS_ID


@pytest.mark.parametrize("leader", [1, 2])
def test_without_an_id_no_metadata_file_is_written(world: BrokerWorld, leader: int) -> None:
    assert hear(world, leader=leader, topic_id=None) is ErrorCode.none

    do_deferred_tasks(world, now_ms=0)
    log_of(world).append_as_leader(batch(), 0)
    log_of(world).close()

    assert not (log_of(world).directory / FILE_NAME).exists()


def test_an_id_is_written_though_no_record_ever_comes(world: BrokerWorld) -> None:
    assert hear(world) is ErrorCode.none

    world.logs.close()

    [folder] = [found for path in world.logs.live_log_dirs for found in path.glob("orders-0")]
    assert read_topic_id(folder) == ORDERS_ID


def test_a_log_of_another_topic_id_is_left_as_it_is(world: BrokerWorld) -> None:
    hear(world)
    append(world, batch(3))
    world.replicas.partitions.clear()

    assert hear(world, leader_epoch=9, topic_id=UUID(int=8)) is ErrorCode.inconsistent_topic_id

    assert (log_of(world).topic_id, log_of(world).log_end_offset) == (ORDERS_ID, 3)


# ---------------------------------------------------------------------- deletion


@pytest.mark.parametrize("leader_epoch", [0, EPOCH_DURING_DELETE, NO_EPOCH])
def test_a_deleted_log_is_out_of_service_at_once_and_gone_later(
    world: BrokerWorld, leader_epoch: int
) -> None:
    hear(world)
    append(world, batch(3))
    directory = log_of(world).directory

    assert stop(world, leader_epoch) is ErrorCode.none

    assert world.logs.log(ORDERS) is None
    assert not directory.exists()
    assert len(list(directory.parent.glob("orders-0.*-delete"))) == 1
    do_deferred_tasks(world)
    assert list(directory.parent.glob("orders-0*")) == []


def test_a_log_whose_epoch_is_newer_than_the_order_keeps_its_records(world: BrokerWorld) -> None:
    hear(world, leader_epoch=5)
    append(world, batch(3))

    assert stop(world, 4) is ErrorCode.fenced_leader_epoch

    assert log_of(world).log_end_offset == 3
    assert log_of(world).directory.exists()


def test_a_log_that_no_partition_knows_is_deleted_all_the_same(world: BrokerWorld) -> None:
    hear(world)
    directory = log_of(world).directory
    world.replicas.partitions.clear()

    assert stop(world, 0) is ErrorCode.none

    assert world.logs.log(ORDERS) is None
    assert not directory.exists()


def test_a_log_directory_that_fails_a_deletion_is_offline_and_the_other_serves(
    world: BrokerWorld,
) -> None:
    hear(world)
    world.lead("bills")
    directory = log_of(world).directory
    assert log_of(world, BILLS).log_dir != directory.parent
    shutil.rmtree(directory.parent)
    directory.parent.write_text("no directory any more")

    assert stop(world, 0) is ErrorCode.kafka_storage_error

    assert world.logs.offline_log_dirs == (directory.parent,)
    assert hear(world, leader_epoch=1) is ErrorCode.kafka_storage_error
    append(world, batch(), BILLS)


# ---------------------------------------------------------------------- high watermarks


def test_a_high_watermark_is_that_of_the_directory_that_the_log_is_in(world: BrokerWorld) -> None:
    hear(world)
    append(world, batch(5))
    home = log_of(world).log_dir
    [other] = [path for path in world.logs.live_log_dirs if path != home]
    world.logs.close()
    write_offsets(home / "replication-offset-checkpoint", {ORDERS: 3})
    write_offsets(other / "replication-offset-checkpoint", {ORDERS: 1})

    world.replicas.partitions.clear()
    world.disk_logs.load(lambda _: None)
    hear(world, leader_epoch=1, is_new=False)

    assert world.replicas.partitions[ORDERS].high_watermark == 3


@pytest.mark.parametrize(("checkpoint", "expected"), [(99, 5), (0, 2)])
def test_a_high_watermark_from_a_checkpoint_stays_within_the_log(
    world: BrokerWorld, checkpoint: int, expected: int
) -> None:
    hear(world)
    append(world, batch(5))
    log = log_of(world)
    log.update_high_watermark(5)
    log.delete_records(2)
    world.logs.close()
    write_offsets(log.log_dir / "replication-offset-checkpoint", {ORDERS: checkpoint})

    world.disk_logs.load(lambda _: None)

    assert log_of(world).high_watermark == expected


# ---------------------------------------------------------------------- producers


def test_unreadable_high_watermarks_take_one_directory_offline(world: BrokerWorld) -> None:
    assert hear(world) is ErrorCode.none
    log_dir = log_of(world).log_dir
    world.logs.close()
    (log_dir / "replication-offset-checkpoint").unlink(missing_ok=True)
    (log_dir / "replication-offset-checkpoint").mkdir()

    world.disk_logs.load(lambda _: None)

    assert world.logs.offline_log_dirs == (log_dir,)
    assert len(world.logs.live_log_dirs) == 1


def test_producers_are_counted_over_all_partitions_as_long_as_these_are_here(
    world: BrokerWorld,
) -> None:
    metrics = Metrics()
    register_replica_gauges(metrics, world.replicas, world.logs)

    def count() -> object:
        gauge = metrics.snapshot()["kafka.server:type=ReplicaManager,name=ProducerIdCount"]
        return gauge["Value"]

    hear(world)
    world.lead("bills")
    assert count() == 0
    for tp, producer_id in ((ORDERS, 7), (BILLS, 7), (BILLS, 8)):
        append(world, batch(producer_id=producer_id, producer_epoch=0, base_sequence=0), tp)
    assert count() == 3
    append(world, batch(producer_id=7, producer_epoch=0, base_sequence=1))
    assert count() == 3

    stop(world, 0)

    assert count() == 2


def test_transactions_that_should_have_been_aborted_long_ago_are_counted(
    world: BrokerWorld,
) -> None:
    metrics = Metrics()
    register_replica_gauges(metrics, world.replicas, world.logs, 1_000)

    def count() -> object:
        name = "kafka.server:type=ReplicaManager,name=PartitionsWithLateTransactionsCount"
        return metrics.snapshot()[name]["Value"]

    hear(world)
    log = log_of(world)
    transaction = batch(
        timestamp=5_000, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    log.append_as_leader(transaction, 0, verification_guard=log.start_verification(7, 0, 0))
    world.now_ms = 5_000 + 1_000 + LATE_TRANSACTION_BUFFER_MS
    assert count() == 0
    world.now_ms += 1
    assert count() == 1

    stop(world, 0)

    assert count() == 0
