"""ListOffsets over the wire format, on a broker with a log on disk."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from kio.index import load_payload_module
from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType
from typing_extensions import override

from kafka_common.model import TopicPartition
from replica_manager.log.log_values import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
)
from replica_manager.log.offsets_by_time import TimestampSearch
from replica_manager.log.retention import DeletionRule
from replica_manager.log.segment import TimestampedOffset
from replica_manager.log.unified_log import UnifiedLog
from tests.support.broker_world import BrokerWorld, metadata
from tests.support.led_partitions import lead
from tests.support.log_world import START_MS, batch

ORDERS = TopicPartition("orders", 0)
CONSUMER, DEBUGGER, FOLLOWER = -1, -2, 2
NOTHING = (ErrorCode.none, -1, -1, -1)


@pytest.fixture
def world(executor: ThreadPoolExecutor, tmp_path: Path) -> BrokerWorld:
    world = BrokerWorld(executor, log_dirs=[tmp_path / "a"])
    world.now_ms = START_MS + 1_000_000
    world.update({"orders": {0: metadata(1), 1: metadata(2)}})
    lead(world, ORDERS, leader_epoch=3)
    return world


def fill(world: BrokerWorld, *timestamps: int) -> UnifiedLog:
    """A batch of two records for each timestamp, all of them committed."""
    log = world.logs.log(ORDERS)
    assert log is not None
    for timestamp in timestamps:
        log.append_as_leader(batch(2, timestamp=START_MS + timestamp), 3)
    log.update_high_watermark(log.log_end_offset)
    return log


def request(
    version: int,
    *timestamps: int,
    replica_id: int = CONSUMER,
    isolation_level: int = 0,
    leader_epoch: int = -1,
    partition: int = 0,
    topic: str = "orders",
    max_num_offsets: int = 1,
) -> Any:
    """Asks for each timestamp in a topic of its own, so that no partition is named twice."""
    schema = load_payload_module(2, version, EntityType.request)
    fields: dict[str, Any] = {}
    if version >= 4:
        fields["current_leader_epoch"] = leader_epoch
    if version == 0:
        fields["max_num_offsets"] = max_num_offsets
    topics = tuple(
        schema.ListOffsetsTopic(
            name=topic,
            partitions=(
                schema.ListOffsetsPartition(
                    partition_index=partition, timestamp=timestamp, **fields
                ),
            ),
        )
        for timestamp in timestamps
    )
    levels = {"isolation_level": isolation_level} if version >= 2 else {}
    return schema.ListOffsetsRequest(replica_id=replica_id, topics=topics, **levels)


def ask(world: BrokerWorld, version: int, timestamp: int, **wishes: Any) -> Any:
    response = asyncio.run(world.ask(request(version, timestamp, **wishes)))
    return response.topics[0].partitions[0]


def found(world: BrokerWorld, timestamp: int, version: int = 9, **wishes: Any) -> Any:
    response = ask(world, version, timestamp, **wishes)
    return response.error_code, response.timestamp, response.offset, response.leader_epoch


def test_special_values_and_timestamps_find_their_offsets(world: BrokerWorld) -> None:
    fill(world, 0, 100, 50)

    assert found(world, LATEST_TIMESTAMP) == (ErrorCode.none, -1, 6, 3)
    assert found(world, EARLIEST_TIMESTAMP) == (ErrorCode.none, -1, 0, 3)
    assert found(world, EARLIEST_LOCAL_TIMESTAMP) == (ErrorCode.none, -1, 0, 3)
    assert found(world, MAX_TIMESTAMP) == (ErrorCode.none, START_MS + 100, 2, 3)
    assert found(world, LATEST_TIERED_TIMESTAMP) == NOTHING
    assert found(world, START_MS + 60) == (ErrorCode.none, START_MS + 100, 2, 3)
    assert found(world, START_MS + 101) == NOTHING
    assert found(world, -6)[0] is ErrorCode.unsupported_version


def test_an_empty_log_ends_where_it_begins_and_has_no_largest_timestamp(world: BrokerWorld) -> None:
    assert found(world, LATEST_TIMESTAMP) == (ErrorCode.none, -1, 0, 3)
    assert found(world, EARLIEST_TIMESTAMP) == (ErrorCode.none, -1, 0, 3)
    assert found(world, MAX_TIMESTAMP) == NOTHING
    assert found(world, 0) == NOTHING


@pytest.mark.parametrize("version", range(1, 10))
def test_every_version_answers_what_it_knows(world: BrokerWorld, version: int) -> None:
    fill(world, 0, 100)

    latest = ask(world, version, LATEST_TIMESTAMP)
    by_time = ask(world, version, START_MS + 1)

    assert (latest.offset, by_time.offset, by_time.timestamp) == (4, 2, START_MS + 100)
    if version >= 4:
        assert latest.leader_epoch == by_time.leader_epoch == 3
    for value, since in (
        (MAX_TIMESTAMP, 7), (EARLIEST_LOCAL_TIMESTAMP, 8), (LATEST_TIERED_TIMESTAMP, 9),
    ):  # fmt: skip
        error = ErrorCode.none if version >= since else ErrorCode.unsupported_version
        assert ask(world, version, value).error_code is error


def test_the_first_version_answers_base_offsets_of_segments(world: BrokerWorld) -> None:
    log = fill(world, 0)
    log.roll()
    fill(world, 100)

    def offsets(timestamp: int, count: int, **wishes: Any) -> tuple[int, ...]:
        response = ask(world, 0, timestamp, max_num_offsets=count, **wishes)
        assert response.error_code is ErrorCode.none
        return tuple(response.old_style_offsets)

    assert offsets(LATEST_TIMESTAMP, 5) == (4, 2, 0)
    assert offsets(LATEST_TIMESTAMP, 1) == (4,)
    assert offsets(EARLIEST_TIMESTAMP, 5) == (0,)
    log.update_high_watermark(3)
    assert offsets(LATEST_TIMESTAMP, 5) == (3, 2, 0)
    assert offsets(LATEST_TIMESTAMP, 5, replica_id=FOLLOWER) == (4, 2, 0)
    assert ask(world, 0, MAX_TIMESTAMP).error_code is ErrorCode.unsupported_version
    assert ask(world, 0, -1, max_num_offsets=-1).error_code is ErrorCode.unknown_server_error


def test_a_client_sees_what_is_committed_and_a_replica_sees_everything(world: BrokerWorld) -> None:
    log = fill(world, 0)
    transaction = batch(
        2, timestamp=START_MS + 7, producer_id=9, producer_epoch=0, base_sequence=0,
        is_transactional=True,
    )  # fmt: skip
    guard = log.start_verification(9, 0, 0)
    log.append_as_leader(transaction, 3, verification_guard=guard)
    log.append_as_leader(batch(2, timestamp=START_MS + 8), 3)
    log.update_high_watermark(4)

    assert found(world, LATEST_TIMESTAMP)[2] == 4
    assert found(world, LATEST_TIMESTAMP, isolation_level=1)[2] == 2
    assert found(world, LATEST_TIMESTAMP, replica_id=FOLLOWER)[2] == 6
    assert found(world, START_MS + 7)[2] == 2
    assert found(world, START_MS + 7, isolation_level=1) == NOTHING
    assert found(world, START_MS + 8) == NOTHING
    assert found(world, START_MS + 8, replica_id=FOLLOWER)[2] == 4
    assert found(world, LATEST_TIMESTAMP, isolation_level=7)[0] is ErrorCode.unknown_server_error


def test_a_new_leader_does_not_tell_an_end_that_may_be_too_low(world: BrokerWorld) -> None:
    log = fill(world, 0, 100)
    lead(world, ORDERS, leader_epoch=4, isr=(1, 2, 3))
    log.update_high_watermark(1)
    not_yet = ErrorCode.offset_not_available

    assert found(world, LATEST_TIMESTAMP) == (not_yet, -1, -1, -1)
    assert found(world, START_MS + 100)[0] is not_yet
    assert ask(world, 4, LATEST_TIMESTAMP).error_code is ErrorCode.leader_not_available
    assert found(world, START_MS)[2] == 0
    assert found(world, EARLIEST_TIMESTAMP)[0] is ErrorCode.none
    assert found(world, LATEST_TIMESTAMP, replica_id=FOLLOWER)[2] == 4


def test_the_leader_epoch_counts_before_the_role(world: BrokerWorld) -> None:
    fill(world, 0)

    assert found(world, LATEST_TIMESTAMP, leader_epoch=2)[0] is ErrorCode.fenced_leader_epoch
    assert found(world, LATEST_TIMESTAMP, leader_epoch=3)[0] is ErrorCode.none
    assert found(world, LATEST_TIMESTAMP, leader_epoch=4)[0] is ErrorCode.unknown_leader_epoch
    lead(world, ORDERS, leader_epoch=4, leader=2)
    assert found(world, LATEST_TIMESTAMP, leader_epoch=3)[0] is ErrorCode.fenced_leader_epoch
    assert found(world, LATEST_TIMESTAMP)[0] is ErrorCode.not_leader_or_follower
    assert found(world, EARLIEST_TIMESTAMP, replica_id=DEBUGGER)[:3] == (ErrorCode.none, -1, 0)


def test_partitions_that_are_not_here_are_distinguished_from_those_that_are_nowhere(
    world: BrokerWorld,
) -> None:
    def error(partition: int, topic: str = "orders") -> ErrorCode:
        code: ErrorCode = found(world, LATEST_TIMESTAMP, partition=partition, topic=topic)[0]
        return code

    assert error(1) is ErrorCode.not_leader_or_follower
    assert error(2) is ErrorCode.unknown_topic_or_partition
    assert error(0, "invoices") is ErrorCode.unknown_topic_or_partition
    world.replicas.mark_offline([ORDERS])
    assert error(0) is ErrorCode.kafka_storage_error


def test_a_partition_named_twice_is_refused_both_times(world: BrokerWorld) -> None:
    response = asyncio.run(world.ask(request(9, LATEST_TIMESTAMP, EARLIEST_TIMESTAMP)))

    errors = [topic.partitions[0].error_code for topic in response.topics]
    assert errors == [ErrorCode.invalid_request] * 2


class StaleOnce(UnifiedLog):
    """A log whose first search is one that began before its files were deleted."""

    stale: TimestampSearch | None

    @override
    def search_offset_by_timestamp(self, timestamp: int) -> TimestampedOffset | TimestampSearch:
        stale, self.stale = self.stale, None
        return stale or super().search_offset_by_timestamp(timestamp)


def test_a_search_begins_anew_when_its_segment_was_deleted_meanwhile(world: BrokerWorld) -> None:
    log = fill(world, 0)
    log.roll()
    fill(world, 100)
    stale = log.search_offset_by_timestamp(START_MS)
    assert isinstance(stale, TimestampSearch)
    log.delete_segments(list(log.segments)[:1], DeletionRule.TIME)
    for task in list(world.logs.environment.deferred_tasks.take_due(2**62)):
        task.action()
    with pytest.raises(FileNotFoundError):
        stale.run()
    log.__class__ = StaleOnce
    log.stale = stale  # type: ignore[attr-defined]

    assert found(world, START_MS) == (ErrorCode.none, START_MS + 100, 2, 3)
    assert log.stale is None  # type: ignore[attr-defined]
    assert world.logs.offline_log_dirs == ()
