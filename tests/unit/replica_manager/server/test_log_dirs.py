"""AlterReplicaLogDirs and DescribeLogDirs over the wire format, with logs on disk."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from kio.index import load_payload_module
from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType

from kafka_common.model import TopicPartition
from kafka_common.observability.metrics import Metrics
from replica_manager.broker.broker_gauges import register_move_gauges
from replica_manager.log.local_log import FlushPlan
from replica_manager.log.unified_log import UnifiedLog
from replica_manager.replication import log_dir_moves
from replica_manager.replication.log_dir_copy import align, append, has_caught_up, read_next
from replica_manager.replication.log_dir_moves import MOST_TASKS, LogDirMoves, MoveSettings, Pace
from replica_manager.replication.replica_fetcher import BATCHES_AT_ONCE
from tests.support.broker_world import ORDERS_ID, BrokerWorld, metadata
from tests.support.led_partitions import lead
from tests.support.log_world import START_MS, at, batch, content

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def dirs(tmp_path: Path) -> list[Path]:
    return [tmp_path / "a", tmp_path / "b"]


@pytest.fixture
def world(executor: ThreadPoolExecutor, dirs: list[Path]) -> BrokerWorld:
    world = BrokerWorld(executor, log_dirs=dirs)
    world.now_ms = START_MS
    world.update({"orders": {0: metadata(1), 1: metadata(2)}})
    return world


def filled(world: BrokerWorld, dirs: list[Path], batches: int = 5, size: int = 100) -> UnifiedLog:
    """A led partition with two records a batch, in the first directory."""
    world.logs.prefer_log_dir(ORDERS, dirs[0])
    lead(world, ORDERS, replicas=(1,), topic_id=ORDERS_ID)
    log = world.logs.log(ORDERS)
    assert log is not None
    for _ in range(batches):
        log.append_as_leader(batch(2, size=size), 0)
    log.update_high_watermark(log.log_end_offset)
    return log


def alter_request(path: str, version: int = 2, topic: str = "orders", partition: int = 0) -> Any:
    schema = load_payload_module(34, version, EntityType.request)
    topics = (schema.AlterReplicaLogDirTopic(name=topic, partitions=(partition,)),)
    return schema.AlterReplicaLogDirsRequest(
        dirs=(schema.AlterReplicaLogDir(path=path, topics=topics),)
    )


async def alter(world: BrokerWorld, path: object, **wishes: Any) -> ErrorCode:
    response = await world.ask(alter_request(str(path), **wishes))
    (topic,) = response.results
    code: ErrorCode = topic.partitions[0].error_code
    return code


async def describe(world: BrokerWorld, version: int = 4, topics: Any = None) -> dict[str, Any]:
    schema = load_payload_module(35, version, EntityType.request)
    if topics is not None:
        topics = tuple(
            schema.DescribableLogDirTopic(topic=topic, partitions=partitions)
            for topic, partitions in topics.items()
        )
    response = await world.ask(schema.DescribeLogDirsRequest(topics=topics))
    return {result.log_dir: result for result in response.results}


def replicas(result: Any) -> list[tuple[str, int, int, int, bool]]:
    """Topic, partition, size, lag, and whether it is a future one."""
    return [
        (topic.name, each.partition_index, each.partition_size, each.offset_lag, future(each))
        for topic in result.topics
        for each in topic.partitions
    ]


def future(partition: Any) -> bool:
    return bool(partition.is_future_key)


async def moved(is_done: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not is_done():
            await asyncio.sleep(0)


async def test_an_offline_directory_is_not_asked_for_its_size(
    world: BrokerWorld, dirs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Path] = []
    statvfs = os.statvfs

    def noted(path: Path) -> os.statvfs_result:
        asked.append(path)
        return statvfs(path)

    monkeypatch.setattr(os, "statvfs", noted)
    world.logs.fail(dirs[0], "pulled", OSError("a fault"))

    found = await describe(world)

    assert asked == [dirs[1]]
    assert found[str(dirs[0])].error_code is ErrorCode.kafka_storage_error
    assert found[str(dirs[1])].error_code is ErrorCode.none
    assert found[str(dirs[1])].total_bytes > 0


async def test_a_directory_that_does_not_answer_takes_none_of_the_threads_that_all_share(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = load_payload_module(35, 4, EntityType.request)
    is_back = threading.Event()
    statvfs = os.statvfs
    monkeypatch.setattr(os, "statvfs", lambda path: (is_back.wait(), statvfs(path))[1])

    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
    described = [
        asyncio.create_task(world.ask(schema.DescribeLogDirsRequest(topics=None))) for _ in range(5)
    ]
    try:
        await asyncio.sleep(0)
        for given_up in described[:2]:
            given_up.cancel()
        async with asyncio.timeout(20):
            assert await asyncio.to_thread(lambda: 7) == 7
    finally:
        is_back.set()
    responses = await asyncio.gather(*described[2:])
    assert {each.error_code for response in responses for each in response.results} == {
        ErrorCode.none
    }


@pytest.mark.parametrize("version", range(3))
async def test_a_replica_moves_with_everything_it_has(
    world: BrokerWorld, dirs: list[Path], version: int
) -> None:
    log = filled(world, dirs)
    log.roll()
    log.append_as_leader(batch(3, timestamp=START_MS + 9), 0)
    log.delete_records(3)
    log.assign_epoch_start_offset(6, log.log_end_offset)
    before, epochs = content(log), log.epoch_entries

    world.log_dir_moves.start()
    assert await alter(world, dirs[1], version=version) is ErrorCode.none
    await moved(lambda: world.logs.log(ORDERS) is not log)
    await world.log_dir_moves.stop()

    now = world.logs.log(ORDERS)
    assert now is not None
    assert now is world.replicas.partitions[ORDERS].log
    assert now.directory == dirs[1] / "orders-0"
    assert content(now) == [entry for entry in before if entry[0] >= 2]  # the batch of offset 3
    assert (now.log_start_offset, now.log_end_offset, now.high_watermark) == (3, 13, 10)
    assert (now.topic_id, now.epoch_entries) == (ORDERS_ID, epochs)
    assert now.recovery_point == now.log_end_offset  # the old one may be deleted
    assert not world.logs.future_logs
    assert [path.name[:9] for path in dirs[0].glob("orders-*")] == ["orders-0."]
    assert world.log_dir_moves.under_way == frozenset()


async def test_a_replica_moves_whose_records_were_all_deleted(
    world: BrokerWorld, dirs: list[Path]
) -> None:
    log = filled(world, dirs)
    log.delete_records(10)

    world.log_dir_moves.start()
    assert await alter(world, dirs[1]) is ErrorCode.none
    await moved(lambda: world.logs.log(ORDERS) is not log)
    await world.log_dir_moves.stop()

    now = world.logs.log(ORDERS)
    assert now is not None
    assert now.log_dir == dirs[1]
    assert (now.log_start_offset, now.log_end_offset, now.recovery_point) == (10, 10, 10)


async def test_records_that_come_while_a_replica_moves_are_in_the_new_log(
    world: BrokerWorld, dirs: list[Path]
) -> None:
    log = filled(world, dirs, batches=40, size=10_000)
    appended = 0

    world.log_dir_moves.start()
    assert await alter(world, dirs[1]) is ErrorCode.none
    while world.logs.log(ORDERS) is log:
        log.append_as_leader(batch(2, size=10), 0)
        appended += 2
        await asyncio.sleep(0)
    await world.log_dir_moves.stop()

    now = world.logs.log(ORDERS)
    assert now is not None
    assert appended > 0
    assert now.log_end_offset == 80 + appended
    assert [offset for offset, _ in content(now)] == list(range(80 + appended))


async def test_others_get_a_turn_after_so_many_batches_of_a_copy(
    world: BrokerWorld, dirs: list[Path]
) -> None:
    count = 3 * BATCHES_AT_ONCE + 1
    log = filled(world, dirs)
    while log.log_end_offset < count:
        log.append_as_leader(batch(), 0)
    ends = [0]

    world.log_dir_moves.start()
    assert await alter(world, dirs[1]) is ErrorCode.none
    while (future := world.logs.log(ORDERS, is_future=True)) is not None:
        ends.append(future.log_end_offset)
        await asyncio.sleep(0)
    await world.log_dir_moves.stop()

    now = world.logs.log(ORDERS)
    assert now is not None
    assert now is not log
    assert content(now) == content(log)
    ends.append(now.log_end_offset)  # the last batches come with the exchange
    assert max(after - before for before, after in pairwise(ends)) <= BATCHES_AT_ONCE + 10


async def test_a_move_goes_on_after_the_broker_was_stopped(
    executor: ThreadPoolExecutor, world: BrokerWorld, dirs: list[Path]
) -> None:
    filled(world, dirs)

    assert await alter(world, dirs[1]) is ErrorCode.none  # and no one works
    world.logs.close()

    again = BrokerWorld(executor, log_dirs=dirs)
    again.update({"orders": {0: metadata(1)}})
    assert list(again.logs.future_logs) == [ORDERS]

    again.log_dir_moves.start()
    lead(again, ORDERS, replicas=(1,), topic_id=ORDERS_ID)
    await moved(lambda: not again.logs.future_logs)
    await again.log_dir_moves.stop()

    log = again.logs.log(ORDERS)
    assert log is not None
    assert log.log_dir == dirs[1]
    assert log.log_end_offset == 10


async def test_a_move_takes_its_time_where_its_rate_is_limited(
    world: BrokerWorld, dirs: list[Path]
) -> None:
    log = filled(world, dirs, batches=100, size=1000)
    moves = LogDirMoves(
        world.replicas, world.logs, lambda: MoveSettings(50_000, 1000), world.storage.flush
    )
    world.context.records.log_dir_moves = moves

    moves.start()
    assert await alter(world, dirs[1]) is ErrorCode.none
    await moved(lambda: world.logs.future_logs[ORDERS].log_end_offset > 0)
    assert world.logs.log(ORDERS) is log  # some 50 KB of 200 are copied, for which a minute is due
    await moves.stop()
    result = (await describe(world))[str(dirs[1])]
    ((_, _, size, lag, is_future),) = replicas(result)
    assert 0 < size < log.size
    assert 0 < lag < 200
    assert is_future
    metrics = Metrics()
    register_move_gauges(metrics, moves)
    start, tags = (
        "kafka.server:type=ReplicaAlterLogDirsManager,name=",
        ",clientId=ReplicaAlterLogDirs",
    )
    assert metrics.snapshot() == {
        f"{start}DeadThreadCount{tags}": {"Value": 0},
        f"{start}FailedPartitionsCount{tags}": {"Value": 0},
        f"{start}MaxLag{tags}": {"Value": lag},
    }


def test_the_pace_is_kept_over_all_that_is_copied() -> None:
    pace = Pace()

    assert pace.delay_s(10, 5000, 1000) == 5
    assert pace.delay_s(10, 1000, 1000) == 6  # another one copies at the same time
    assert pace.delay_s(100, 1000, 1000) == 1
    assert pace.delay_s(200, 10**6, 2**63 - 1) < 1e-9
    assert pace.delay_s(300, 1, 0) == 1


def test_another_limit_counts_for_what_was_copied_before() -> None:
    pace = Pace()

    assert pace.delay_s(10, 1_000_000, 100) == 10_000
    assert pace.delay_s(10, 0, 10_000_000) == 0.1
    assert pace.delay_s(11, 0, 10_000_000) == 0


async def test_a_move_that_waits_goes_on_when_its_limit_is_raised(
    world: BrokerWorld, dirs: list[Path]
) -> None:
    filled(world, dirs, batches=20, size=1000)
    limits = [1] * 3
    moves = LogDirMoves(
        world.replicas,
        world.logs,
        lambda: MoveSettings(2_000, limits.pop() if limits else 2**63 - 1),
        world.storage.flush,
    )
    world.context.records.log_dir_moves = moves

    moves.start()
    async with asyncio.timeout(60):
        assert await alter(world, dirs[1]) is ErrorCode.none
        while moves.under_way:
            await asyncio.sleep(0)
    await moves.stop()
    log = world.logs.log(ORDERS)
    assert log is not None
    assert log.log_dir == dirs[1]


async def test_a_move_waits_until_the_copy_is_on_disk(
    world: BrokerWorld, dirs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(world, dirs)
    monkeypatch.setattr(log_dir_moves, "BACKOFF_S", 0.001)
    flush, current = FlushPlan.run, []

    def run(plan: FlushPlan) -> None:
        current.append(world.logs.log(ORDERS))
        if len(current) < 3:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        flush(plan)

    monkeypatch.setattr(FlushPlan, "run", run)
    world.log_dir_moves.start()
    assert await alter(world, dirs[1]) is ErrorCode.none
    await moved(lambda: not world.logs.future_logs)
    await world.log_dir_moves.stop()

    assert current[:3] == [log] * 3
    found = world.logs.log(ORDERS)
    assert found is not None
    assert found.recovery_point == found.log_end_offset == 10


async def test_what_cannot_be_moved_is_refused(world: BrokerWorld, dirs: list[Path]) -> None:
    log = filled(world, dirs)
    unknown, gone = ErrorCode.unknown_topic_or_partition, ErrorCode.kafka_storage_error

    assert await alter(world, "/nowhere") is ErrorCode.log_dir_not_found
    assert await alter(world, dirs[1].name) is ErrorCode.log_dir_not_found
    assert await alter(world, dirs[1], topic="x" * 230) is ErrorCode.invalid_topic_exception
    assert await alter(world, dirs[1], topic="invoices") is unknown
    assert await alter(world, dirs[1], partition=1) is ErrorCode.replica_not_available
    assert await alter(world, dirs[0]) is ErrorCode.none
    world.logs.fail(dirs[1], "test", OSError("a fault"))
    assert await alter(world, dirs[1]) is gone
    assert not world.logs.future_logs
    assert world.logs.log(ORDERS) is log


async def test_a_replica_that_is_not_here_yet_is_made_where_it_is_wanted(
    world: BrokerWorld, dirs: list[Path]
) -> None:
    tp = TopicPartition("orders", 1)

    assert await alter(world, dirs[1], partition=1) is ErrorCode.replica_not_available
    lead(world, tp, leader=2)

    log = world.logs.log(tp)
    assert log is not None
    assert log.log_dir == dirs[1]


async def test_another_directory_replaces_the_one_asked_for_before(
    executor: ThreadPoolExecutor, tmp_path: Path
) -> None:
    dirs = [tmp_path / name for name in "abc"]
    world = BrokerWorld(executor, log_dirs=dirs)
    world.update({"orders": {0: metadata(1)}})
    filled(world, dirs)

    assert await alter(world, dirs[1]) is ErrorCode.none
    first = world.logs.future_logs[ORDERS]
    assert await alter(world, dirs[1]) is ErrorCode.none
    assert world.logs.future_logs[ORDERS] is first
    assert await alter(world, dirs[2]) is ErrorCode.none
    assert world.logs.future_logs[ORDERS].log_dir == dirs[2]
    assert await alter(world, dirs[0]) is ErrorCode.none
    assert not world.logs.future_logs


def test_a_future_log_loses_what_the_current_one_has_truncated(
    world: BrokerWorld, dirs: list[Path]
) -> None:
    current = filled(world, dirs)
    world.logs.prefer_log_dir(ORDERS, dirs[1])
    future = world.logs.get_or_create(ORDERS, current.config, is_future=True)
    copy(current, future)
    current.truncate_to(6)
    current.append_as_follower(at(6, batch(3, timestamp=START_MS + 1), epoch=4))
    assert content(future)[6:] != content(current)[6:]

    copy(current, future)

    assert content(future) == content(current)
    assert future.epoch_entries == current.epoch_entries


def test_a_future_log_forgets_an_epoch_that_the_current_one_does_not_know(
    world: BrokerWorld, dirs: list[Path]
) -> None:
    current = filled(world, dirs)
    world.logs.prefer_log_dir(ORDERS, dirs[1])
    future = world.logs.get_or_create(ORDERS, current.config, is_future=True)
    copy(current, future)
    future.append_as_follower(at(10, batch(2), epoch=7))

    copy(current, future)

    assert content(future) == content(current)
    current.delete_records(10)
    current.truncate_fully_and_start_at(50)
    copy(current, future)
    assert (future.log_start_offset, future.log_end_offset) == (50, 50)


def copy(current: UnifiedLog, future: UnifiedLog) -> None:
    """All that a move copies."""
    align(current, future)
    while not has_caught_up(current, future):
        found = read_next(current, future, 200)
        assert found.slice is not None
        append(current, future, found.slice.read())


@pytest.mark.parametrize("version", range(5))
async def test_directories_are_described_with_what_is_in_them(
    world: BrokerWorld, dirs: list[Path], version: int
) -> None:
    log = filled(world, dirs)
    usage = shutil.disk_usage(dirs[0])

    described = await describe(world, version)

    assert list(described) == [str(path) for path in dirs]
    first, second = described.values()
    assert replicas(first) == [("orders", 0, log.size, 0, False)]
    assert replicas(second) == []
    if version >= 4:
        assert first.total_bytes == usage.total
        assert 0 < first.usable_bytes <= usage.total


async def test_only_the_partitions_asked_for_are_reported(
    world: BrokerWorld, dirs: list[Path]
) -> None:
    log = filled(world, dirs)

    assert replicas((await describe(world, topics={"orders": (1,)}))[str(dirs[0])]) == []
    assert replicas((await describe(world, topics={"orders": (0, 1)}))[str(dirs[0])]) == [
        ("orders", 0, log.size, 0, False)
    ]


async def test_a_log_without_a_role_has_an_unknown_lag_and_a_failed_directory_tells_nothing(
    world: BrokerWorld, dirs: list[Path]
) -> None:
    log = filled(world, dirs)
    world.replicas.partitions.clear()

    assert replicas((await describe(world))[str(dirs[0])]) == [("orders", 0, log.size, -1, False)]
    world.logs.fail(dirs[0], "test", OSError("a fault"))
    result = (await describe(world))[str(dirs[0])]
    assert result.error_code is ErrorCode.kafka_storage_error
    assert (result.topics, result.total_bytes, result.usable_bytes) == ((), -1, -1)


async def test_no_more_than_so_many_replicas_are_copied_at_once(world: BrokerWorld) -> None:
    moves = LogDirMoves(
        world.replicas, world.logs, lambda: MoveSettings(tasks=2**31 - 1), world.storage.flush
    )

    before = len(asyncio.all_tasks())
    moves.start()
    assert len(asyncio.all_tasks()) - before == MOST_TASKS
    await moves.stop()
