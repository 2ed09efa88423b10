"""Replicas that an administrator wants to go slowly, on both sides.

Source of the behaviours: Kafka ``ReplicationQuotaManagerTest``, ``ReplicaManagerQuotasTest``.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.model import TopicPartition
from kafka_common.protocol.fetch import FetchPartition
from replica_manager.log.log_values import FetchIsolation
from replica_manager.log.unified_log import UnifiedLog
from replica_manager.replication.fetch_requests import (
    AskRecords,
    FetcherSettings,
    Idle,
    LeaderFetchResponse,
)
from replica_manager.replication.fetch_state import InitialFetchState
from replica_manager.replication.fetch_values import FetchPartitionData, TopicIdPartition
from replica_manager.replication.record_reads import FetchParams, RecordReads
from replica_manager.replication.replica_fetcher import ReplicaFetcher
from replica_manager.replication.throttle import (
    FOLLOWER_REPLICAS,
    LEADER_REPLICAS,
    ReplicationThrottle,
    ReplicationThrottles,
    throttled_partitions,
)
from tests.simulation.replication_log import InMemoryLog, Record, encoded
from tests.support.broker_world import BrokerWorld
from tests.support.followers import take_records
from tests.support.log_world import batch

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)
ID = UUID(int=7)
EPOCH = 4


class Clock:
    def __init__(self) -> None:
        self.ms = 1_000_000


@pytest.fixture
def clock() -> Clock:
    return Clock()


def throttle_of(
    clock: Clock, replicas: str = "0:1", bytes_per_second: int = 100
) -> ReplicationThrottle:
    throttle = ReplicationThrottle(lambda: clock.ms)
    throttle.bytes_per_second = bytes_per_second
    throttle.set_topic("orders", 1, replicas)
    return throttle


@pytest.mark.parametrize(
    ("replicas", "partitions"),
    [
        ("", frozenset()),
        ("none", frozenset()),
        ("0:1,1:2,2:1", frozenset({0, 2})),
        (" 0:1 , 5:1", frozenset({0, 5})),
        ("*", None),
    ],
)
def test_a_topics_configuration_names_replicas_of_every_broker(
    replicas: str, partitions: frozenset[int] | None
) -> None:
    assert throttled_partitions(replicas, 1) == partitions


def test_each_direction_has_a_list_and_a_rate_of_its_own(clock: Clock) -> None:
    throttles = ReplicationThrottles(1, lambda: clock.ms)
    throttles.set_rates(10, 20)
    throttles.topic_changed("orders", {LEADER_REPLICAS: "0:1", FOLLOWER_REPLICAS: "*"})
    assert throttles.leader.is_throttled(ZERO)
    assert not throttles.leader.is_throttled(ONE)
    assert throttles.follower.is_throttled(ONE)
    assert (throttles.leader.bytes_per_second, throttles.follower.bytes_per_second) == (10, 20)

    throttles.topic_changed("orders", {})
    assert not throttles.leader.is_throttled(ZERO)
    assert not throttles.follower.is_throttled(ONE)


def test_the_rate_is_that_of_the_last_eleven_seconds(clock: Clock) -> None:
    throttle = throttle_of(clock)
    assert throttle.rate() == 0
    throttle.record(500)
    assert throttle.rate() == 500
    assert throttle.is_exceeded

    clock.ms += 5_000
    assert throttle.rate() == 100
    assert not throttle.is_exceeded
    clock.ms += 6_001
    assert throttle.rate() == 0


# ---------------------------------------------------------------------- the follower


class Follower:
    """Two partitions, of which the first is throttled."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.logs = {ZERO: InMemoryLog(), ONE: InMemoryLog()}
        self.throttle = throttle_of(clock)
        self.fetcher = ReplicaFetcher(
            2, self.logs.__getitem__, FetcherSettings(backoff_ms=1_000), throttle=self.throttle
        )

    def add(self, *partitions: TopicPartition) -> Follower:
        for tp in partitions:
            self.logs[tp].append_as_leader("old", EPOCH)
        states = {tp: InitialFetchState(ID, self.fetcher.leader, EPOCH, 1) for tp in partitions}
        self.fetcher.add_partitions(states)
        return self

    def asked(self) -> set[TopicPartition] | int | None:
        """The partitions of the next fetch, or until when to wait."""
        self.request = self.fetcher.next_request(self.clock.ms)
        if isinstance(self.request, Idle):
            return self.request.until_ms
        assert isinstance(self.request, AskRecords)
        return set(self.request.fetch.session_partitions)

    def answer(self, high_watermark: int, value: str = "x" * 500) -> None:
        """A record for the first partition, of a leader that has so many."""
        assert isinstance(self.request, AskRecords)
        records = encoded([Record(self.logs[ZERO].log_end_offset, EPOCH, value)])
        told = {ZERO: FetchPartitionData(ErrorCode.none, high_watermark, -1, 0, records)}
        told |= {
            tp: FetchPartitionData(ErrorCode.none, 1, -1, 0)
            for tp in self.request.fetch.session_partitions
            if tp != ZERO
        }
        responses = LeaderFetchResponse(17, ErrorCode.none, 0, told, [ID])
        take_records(self.fetcher, self.request, responses, self.clock.ms)


def test_a_follower_does_not_ask_for_throttled_replicas_while_there_was_too_much(
    clock: Clock,
) -> None:
    follower = Follower(clock).add(ZERO, ONE)
    assert follower.asked() == {ZERO, ONE}
    follower.answer(high_watermark=100)

    assert follower.asked() == {ONE}
    clock.ms += 6_000
    assert follower.asked() == {ZERO, ONE}


def test_a_fetcher_with_nothing_else_to_do_looks_again_after_the_backoff(clock: Clock) -> None:
    follower = Follower(clock).add(ZERO)
    follower.asked()
    follower.answer(high_watermark=100)
    assert follower.asked() == clock.ms + 1_000


def test_a_replica_that_has_caught_up_is_never_held_back(clock: Clock) -> None:
    follower = Follower(clock).add(ZERO)
    follower.asked()
    follower.answer(high_watermark=2)
    assert follower.throttle.is_exceeded
    assert follower.asked() == {ZERO}


# ---------------------------------------------------------------------- the leader


@pytest.fixture
def world(executor: ThreadPoolExecutor, tmp_path: Path) -> BrokerWorld:
    world = BrokerWorld(executor, log_dirs=[tmp_path])
    world.now_ms = 1_000_000
    return world


def test_a_leader_sends_a_throttled_follower_nothing_while_it_sent_too_much(
    world: BrokerWorld,
) -> None:
    clock = Clock()
    throttle = throttle_of(clock)
    reads = RecordReads(
        world.replicas, world.topic_stats, lambda: world.now_ms, lambda *_: None, throttle=throttle
    )
    world.lead("orders", isr=(1, 3), replicas=(1, 2, 3), topic_id=ID)
    log = world.replicas.partitions[ZERO].log
    assert isinstance(log, UnifiedLog)
    log.append_as_leader(batch(50), 0)
    wanted = {TopicIdPartition(ID, "orders", 0): FetchPartition(ID, 0, 10_000)}

    def sent_to(replica_id: int, max_wait_ms: int = 0) -> int:
        params = FetchParams(max_wait_ms, 1, 10_000, FetchIsolation.LOG_END, replica_id=replica_id)
        (response,) = asyncio.run(reads.fetch_messages(params, wanted)).values()
        assert response.error is ErrorCode.none
        return len(response.records)

    assert sent_to(2) > 0
    assert throttle.is_exceeded
    assert sent_to(2) == 0
    assert sent_to(3) > 0, "it is in sync"

    throttle.set_topic("orders", 1, "")
    assert sent_to(2) > 0


def test_a_follower_that_is_held_back_waits_as_if_there_was_nothing(world: BrokerWorld) -> None:
    clock = Clock()
    throttle = throttle_of(clock)
    expired: list[bool] = []
    reads = RecordReads(
        world.replicas, world.topic_stats, lambda: world.now_ms, lambda *_: None,
        expired.append, throttle,
    )  # fmt: skip
    world.lead("orders", isr=(1,), replicas=(1, 2), topic_id=ID)
    log = world.replicas.partitions[ZERO].log
    assert isinstance(log, UnifiedLog)
    log.append_as_leader(batch(50), 0)
    throttle.record(10_000)
    params = FetchParams(20, 1, 10_000, FetchIsolation.LOG_END, replica_id=2)

    wanted = {TopicIdPartition(ID, "orders", 0): FetchPartition(ID, 0, 10_000)}
    (response,) = asyncio.run(reads.fetch_messages(params, wanted)).values()

    assert len(response.records) == 0
    assert expired == [True]


def test_operators_see_how_fast_throttled_replicas_move(world: BrokerWorld) -> None:
    world.parts.register_gauges(counts_partitions=False)
    throttles = world.throttles
    throttles.follower.record(5_000)

    shown = world.metrics.snapshot()

    assert shown["kafka.server:type=LeaderReplication"] == {"byte-rate": 0.0}
    assert shown["kafka.server:type=FollowerReplication"] == {"byte-rate": 5_000.0}
