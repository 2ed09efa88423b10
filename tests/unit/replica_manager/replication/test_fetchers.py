"""Fetchers with their connections, against a leader on a real socket that the test plays.

Source of the behaviours: Kafka ``ReplicaFetcherThreadTest``, ``AbstractFetcherManagerTest``.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from typing_extensions import override

from kafka_common.model import Endpoint, TopicPartition
from kafka_common.observability.metrics import Metrics
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.inter_broker_versions import LATEST, version_of
from kafka_common.protocol.versioned_messages import response_schema
from replica_manager.log import unified_log
from replica_manager.log.leader_epoch_file_cache import EpochEndOffset
from replica_manager.log.truncation_plans import TruncationPlan
from replica_manager.replication.fetch_requests import FetcherSettings
from replica_manager.replication.fetch_state import InitialFetchState
from replica_manager.replication.fetcher_metrics import FetcherMetrics
from replica_manager.replication.fetcher_task import FAIR_BYTES, FetcherListener, FetcherTask
from replica_manager.replication.leader_end_point import LeaderEndPoint, LinkSettings
from replica_manager.replication.leader_messages import FetchLimits, LeaderRequestVersions
from replica_manager.replication.replica_fetcher import ReplicaFetcher
from replica_manager.replication.replica_fetchers import FetcherKey, ReplicaFetchers
from tests.simulation.replication_log import Appended, InMemoryLog
from tests.support.kafka_log_shapes import shape_of
from tests.support.log_world import LogWorld, at, batch
from tests.support.wire_peer import HANG_UP, WirePeer, until

ID = UUID(int=7)
ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)
LEADER, EPOCH, BROKER_EPOCH = 2, 4, 42
LIMITS = FetchLimits(max_wait_ms=5)


class Leader:
    """Broker 2: logs in memory, served over a socket."""

    def __init__(self) -> None:
        self.logs = {ZERO: InMemoryLog(), ONE: InMemoryLog()}
        self.requests: list[tuple[int, int, Any]] = []
        self.instead: Callable[[int], object | None] = lambda _: None
        """What to answer instead to the nth request (from 0), None for the truth."""
        self.peer = WirePeer(self._answer)

    def lead(self, *values: str, tp: TopicPartition = ZERO) -> None:
        for value in values:
            self.logs[tp].append_as_leader(value, EPOCH)
        self.logs[tp].maybe_increment_high_watermark(self.logs[tp].log_end_offset)

    async def _answer(self, key: int, version: int, request: Any) -> Any:
        self.requests.append((key, version, request))
        instead = self.instead(len(self.requests) - 1)
        if instead is not None:
            return instead
        schema = response_schema(key, version)
        match key:
            case ApiKey.FETCH:
                await asyncio.sleep(request.max_wait.total_seconds())
                return schema.response(
                    error_code=ErrorCode.none,
                    responses=tuple(self._fetched(schema, topic) for topic in request.topics),
                )
            case ApiKey.OFFSET_FOR_LEADER_EPOCH:
                return schema.response(
                    topics=tuple(self._ends(schema, topic) for topic in request.topics)
                )
            case _:
                return schema.response(
                    topics=tuple(self._offsets(schema, topic) for topic in request.topics)
                )

    def _fetched(self, schema: Any, topic: Any) -> Any:
        told = []
        for asked in topic.partitions:
            log = self.logs[TopicPartition("orders", asked.partition)]
            fields: dict[str, Any] = {"error_code": ErrorCode.none, "records": b""}
            end = log.end_offset_for_epoch(getattr(asked, "last_fetched_epoch", -1))
            if not log.log_start_offset <= asked.fetch_offset <= log.log_end_offset:
                fields["error_code"] = ErrorCode.offset_out_of_range
            elif schema.version >= 12 and end is not None and end.end_offset < asked.fetch_offset:
                fields["diverging_epoch"] = schema.part(
                    "EpochEndOffset", epoch=end.epoch, end_offset=end.end_offset
                )
            else:
                fields["records"] = log.read(asked.fetch_offset, 3)
            told.append(
                schema.part(
                    "PartitionData",
                    partition_index=asked.partition,
                    high_watermark=log.high_watermark,
                    last_stable_offset=log.high_watermark,
                    log_start_offset=log.log_start_offset,
                    aborted_transactions=None,
                    **fields,
                )
            )
        return schema.part(
            "FetchableTopicResponse", topic="orders", topic_id=ID, partitions=tuple(told)
        )

    def _ends(self, schema: Any, topic: Any) -> Any:
        told = []
        for asked in topic.partitions:
            log = self.logs[TopicPartition("orders", asked.partition)]
            end = log.end_offset_for_epoch(asked.leader_epoch) or EpochEndOffset(-1, -1)
            told.append(
                schema.part(
                    "EpochEndOffset",
                    error_code=ErrorCode.none,
                    partition=asked.partition,
                    leader_epoch=end.epoch,
                    end_offset=end.end_offset,
                )
            )
        return schema.part("OffsetForLeaderTopicResult", topic=topic.topic, partitions=tuple(told))

    def _offsets(self, schema: Any, topic: Any) -> Any:
        told = []
        for asked in topic.partitions:
            log = self.logs[TopicPartition("orders", asked.partition_index)]
            is_end = asked.timestamp == -1
            told.append(
                schema.part(
                    "ListOffsetsPartitionResponse",
                    partition_index=asked.partition_index,
                    error_code=ErrorCode.none,
                    timestamp=-1,
                    offset=log.log_end_offset if is_end else log.log_start_offset,
                    leader_epoch=EPOCH,
                )
            )
        return schema.part("ListOffsetsTopicResponse", name=topic.name, partitions=tuple(told))


class Follower:
    """Broker 1 and its fetchers, as :class:`ReplicationTasks` runs them."""

    def __init__(self, port: int, *, version: str = LATEST.name) -> None:
        self.logs = {ZERO: InMemoryLog(), ONE: InMemoryLog()}
        self.port: int | None = port
        self.moved: list[TopicPartition] = []
        self.fetched_bytes = 0
        self.flushed: list[tuple[TopicPartition, int, int]] = []
        """What was flushed, up to where, and how many requests the leader had got by then."""
        self.fetches_seen: Callable[[], int] = lambda: 0
        self.count: Callable[[TopicPartition, int], None] = self._count
        spoken = version_of(version)
        truncates = spoken.is_at_least("2.7-IV1")
        self.link_settings = LinkSettings(1, LeaderRequestVersions.of(spoken), LIMITS, 5_000, 5_000)
        settings = FetcherSettings(backoff_ms=5, truncates_on_fetch=truncates, replica_id=1)
        self.tasks: dict[FetcherKey, FetcherTask] = {}
        self.ended: list[asyncio.Task[None]] = []
        self.fetchers = ReplicaFetchers(
            1, self.logs.__getitem__, settings, self._added, self._removed, lambda _: "here:1"
        )

    @property
    def log(self) -> InMemoryLog:
        return self.logs[ZERO]

    @property
    def values(self) -> list[str]:
        return [record.value for record in self.log.records]

    def follow(self, *partitions: TopicPartition, leader_epoch: int = EPOCH) -> None:
        self.fetchers.add(
            (tp, InitialFetchState(ID, LEADER, leader_epoch, self.logs[tp].log_end_offset))
            for tp in partitions or (ZERO,)
        )

    def _added(self, key: FetcherKey, fetcher: ReplicaFetcher) -> None:
        if key in self.tasks:
            self.tasks[key].wake()
            return

        self.tasks[key] = FetcherTask(
            fetcher,
            key.fetcher_id,
            LeaderEndPoint(
                LEADER, key.fetcher_id, self.link_settings, self._where, lambda: BROKER_EPOCH
            ),
            self.link_settings,
            self.fetchers.settings.backoff_ms,
            lambda: time.monotonic_ns() // 1_000_000,
            FetcherListener(self.moved.extend, self.count, flush=self.flush),
        )

    async def flush(self, tp: TopicPartition) -> None:
        self.flushed.append((tp, self.logs[tp].log_end_offset, self.fetches_seen()))

    def _count(self, _: TopicPartition, size: int) -> None:
        self.fetched_bytes += size

    def _removed(self, key: FetcherKey) -> None:
        self.ended.append(self.tasks.pop(key).end())

    def _where(self, _: int) -> Endpoint | None:
        return None if self.port is None else Endpoint("127.0.0.1", self.port, "L", "PLAINTEXT")

    async def stop(self) -> None:
        for key in list(self.tasks):
            self._removed(key)
        await asyncio.gather(*self.ended, return_exceptions=True)


@asynccontextmanager
async def replication(**options: Any) -> AsyncIterator[tuple[Leader, Follower]]:
    leader = Leader()
    await leader.peer.listen()
    follower = Follower(leader.peer.port, **options)
    try:
        yield leader, follower
    finally:
        await follower.stop()
        await leader.peer.close()


@pytest.fixture(autouse=True)
def _talkative(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


async def test_what_the_leader_has_comes_to_the_follower_and_so_does_what_it_gets_later() -> None:
    async with replication() as (leader, follower):
        leader.lead("a", "b", "c", "d")
        follower.follow()
        await until(lambda: follower.values == ["a", "b", "c", "d"])

        leader.lead("e")
        await until(lambda: follower.values[4:] == ["e"])
        await until(lambda: follower.log.high_watermark == 5)
        assert ZERO in follower.moved
        assert follower.fetched_bytes > 0

        assert leader.peer.client_ids == {"broker-1-fetcher-0"}
        _, version, request = leader.requests[0]
        assert version == 17
        assert request.replica_state.replica_epoch == BROKER_EPOCH
        assert request.max_wait == timedelta(milliseconds=5)


class FlushingLog(InMemoryLog):
    """Has ``flush.messages=1``."""

    @override
    def append_as_follower(self, records: bytes | memoryview) -> Appended:
        appended = super().append_as_follower(records)
        return appended._replace(is_flush_due=appended.valid_bytes > 0)


async def test_what_is_to_be_flushed_is_on_disk_before_the_next_fetch_acknowledges_it() -> None:
    async with replication() as (leader, follower):
        follower.logs[ZERO] = FlushingLog()
        follower.fetches_seen = lambda: len(leader.requests)
        leader.lead("a")
        follower.follow()
        await until(lambda: follower.log.high_watermark == 1)

        assert follower.flushed == [(ZERO, 1, 1)]


async def test_a_partition_that_is_added_to_a_running_fetcher_is_fetched_too() -> None:
    async with replication() as (leader, follower):
        leader.lead("a")
        leader.lead("x", tp=ONE)
        follower.follow(ZERO)
        await until(lambda: follower.values == ["a"])
        follower.follow(ONE)
        await until(lambda: follower.logs[ONE].log_end_offset == 1)
        assert leader.peer.connections == 1


async def test_what_comes_to_a_replica_that_is_being_added_is_counted_apart() -> None:
    metrics = Metrics()

    def count(name: str) -> object:
        found = [each for mbean, each in metrics.snapshot().items() if f"name={name}" in mbean]
        return found[0]["Count"]

    async with replication() as (leader, follower):
        meters = FetcherMetrics(
            metrics, follower.fetchers, lambda _: "here:1", lambda tp: tp == ONE
        )
        follower.count = meters.added(FetcherKey(LEADER, 0)).bytes_in
        leader.lead("a", "b")
        follower.follow(ZERO)
        await until(lambda: follower.log.log_end_offset == 2)
        assert count("ReassignmentBytesInPerSec") == 0
        old = count("ReplicationBytesInPerSec")
        assert isinstance(old, int)
        assert old > 0

        leader.lead("x", tp=ONE)
        follower.follow(ONE)
        await until(lambda: follower.logs[ONE].log_end_offset == 1)
        now, adding = count("ReplicationBytesInPerSec"), count("ReassignmentBytesInPerSec")
        assert isinstance(adding, int)
        assert (now, adding > 0) == (old + adding, True)


async def test_a_leader_that_hangs_up_is_asked_again_and_nothing_comes_twice() -> None:
    async with replication() as (leader, follower):
        leader.instead = lambda number: HANG_UP if number in (0, 2, 3) else None
        leader.lead("a", "b", "c", "d", "e", "f", "g")
        follower.follow()
        await until(lambda: follower.values == list("abcdefg"))
        assert leader.peer.connections >= 4


async def test_a_leader_that_comes_back_at_another_port_is_found_there() -> None:
    async with replication() as (leader, follower):
        leader.lead("a")
        follower.follow()
        await until(lambda: follower.values == ["a"])

        await leader.peer.close()
        follower.port = None  # not in the metadata cache
        leader.lead("b")
        await leader.peer.listen()
        follower.port = leader.peer.port
        await until(lambda: follower.values == ["a", "b"])


async def test_a_leader_without_a_listener_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    async with replication() as (leader, follower):
        await leader.peer.close()
        follower.follow()
        warning = "Error in response for fetch request"
        await until(lambda: any(warning in line.getMessage() for line in caplog.records))
        leader.lead("a")
        await leader.peer.listen(leader.peer.port)
        await until(lambda: follower.values == ["a"])


async def test_logs_that_diverge_agree_again() -> None:
    async with replication() as (leader, follower):
        for log in (leader.logs[ZERO], follower.log):
            log.append_as_leader("common", 2)
        follower.log.append_as_leader("lost", 2)
        leader.lead("new")
        follower.follow()
        await until(lambda: follower.values == ["common", "new"])


async def test_below_2_7_a_follower_asks_for_epochs_before_it_fetches() -> None:
    async with replication(version="2.6") as (leader, follower):
        for log in (leader.logs[ZERO], follower.log):
            log.append_as_leader("common", 2)
        follower.log.append_as_leader("lost", 2)
        leader.lead("new")
        follower.follow()
        await until(lambda: follower.values == ["common", "new"])
        assert [(key, version) for key, version, _ in leader.requests[:2]] == [(23, 3), (1, 11)]


@pytest.mark.parametrize("version", ["2.6", LATEST.name])
def test_what_a_truncation_must_know_is_read_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setattr(unified_log, "READ_AT_ONCE_BYTES", 0)
    threads: list[int] = []
    run = TruncationPlan.run

    def noted(plan: TruncationPlan) -> None:
        threads.append(threading.get_ident())
        run(plan)

    monkeypatch.setattr(TruncationPlan, "run", noted)
    log = LogWorld(tmp_path / "orders-0").open()
    for sequence in range(8):
        sent = batch(producer_id=7, producer_epoch=0, base_sequence=sequence)
        log.append_as_follower(at(sequence, sent, epoch=2))

    async def follow() -> None:
        async with replication(version=version) as (leader, follower):
            for _ in range(5):
                leader.logs[ZERO].append_as_leader("common", 2)
            leader.lead("the", "leader", "has", "more")
            follower.logs[ZERO] = cast("InMemoryLog", log)
            follower.follow()
            await until(lambda: log.log_end_offset == 5)

    asyncio.run(follow())

    assert log.producers.entry(7).last_sequence == 4
    assert len(threads) == 1
    assert threading.get_ident() not in threads


async def test_a_log_that_the_leader_does_not_have_any_more_begins_anew_at_the_leaders_start() -> (
    None
):
    async with replication() as (leader, follower):
        leader.logs[ZERO].truncate_fully_and_start_at(10)
        leader.lead("k", "l")
        follower.follow()
        await until(lambda: follower.values == ["k", "l"])
        assert follower.log.log_start_offset == 10


async def test_answers_that_are_no_fetch_response_are_waited_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    wrong = response_schema(ApiKey.FETCH, 4).response(responses=())

    async with replication() as (leader, follower):
        leader.instead = lambda number: wrong if number == 0 else None
        leader.lead("a")
        follower.follow()
        await until(lambda: follower.values == ["a"])
    assert any(
        "Error in response for fetch request" in line.getMessage() for line in caplog.records
    )


class FatLog(InMemoryLog):
    """Takes one record for as much as may be taken without a break."""

    @override
    def append_as_follower(self, records: bytes | memoryview) -> Any:
        taken = super().append_as_follower(records)
        return taken._replace(valid_bytes=FAIR_BYTES if taken.valid_bytes else 0)


async def test_others_get_their_turn_between_the_partitions_of_a_large_answer() -> None:
    async with replication() as (leader, follower):
        follower.logs = {tp: FatLog() for tp in follower.logs}
        follower.fetchers._log_of = follower.logs.__getitem__
        leader.lead("a")
        leader.lead("x", tp=ONE)
        seen: list[tuple[int, int]] = []

        async def look() -> None:
            while len(seen) < 2:
                ends = tuple(follower.logs[tp].log_end_offset for tp in (ZERO, ONE))
                if sum(ends) > len(seen):
                    seen.append(ends)  # type: ignore[arg-type]
                await asyncio.sleep(0)

        follower.follow(ZERO, ONE)
        async with asyncio.timeout(20):
            await look()
        assert sum(seen[0]) == 1


async def test_a_fetcher_that_is_taken_away_ends_and_writes_nothing_more() -> None:
    async with replication() as (leader, follower):
        leader.lead("a")
        follower.follow()
        await until(lambda: follower.values == ["a"])

        follower.fetchers.remove([ZERO])
        follower.fetchers.remove_idle()
        leader.lead("b")
        (ending,) = follower.ended
        await asyncio.wait({ending})

        assert follower.values == ["a"]
        assert not follower.tasks


async def test_more_fetchers_share_the_partitions_and_fewer_take_them_back() -> None:
    async with replication() as (leader, follower):
        follower.follow(ZERO, ONE)
        leader.lead("a")
        await until(lambda: follower.values == ["a"])

        follower.fetchers.resize(2)
        assert set(follower.tasks) == {FetcherKey(LEADER, 0), FetcherKey(LEADER, 1)}
        leader.lead("b")
        leader.lead("x", tp=ONE)
        await until(lambda: follower.values == ["a", "b"])
        await until(lambda: follower.logs[ONE].log_end_offset == 1)

        follower.fetchers.resize(1)
        assert set(follower.tasks) == {FetcherKey(LEADER, 0)}
        leader.lead("c")
        await until(lambda: follower.values == ["a", "b", "c"])


async def test_an_unexpected_failure_does_not_end_replication(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with replication() as (leader, follower):
        leader.lead("a")
        follower.follow()
        fetcher = follower.fetchers.fetchers[FetcherKey(LEADER, 0)]
        session, failures = fetcher.session, iter([True, True])

        class Failing:
            def plan(self, wanted: Any) -> Any:
                if next(failures, False):
                    raise ZeroDivisionError
                return session.plan(wanted)

            def __getattr__(self, name: str) -> Any:
                return getattr(session, name)

        fetcher.session = cast(Any, Failing())
        await until(lambda: follower.values == ["a"])
    assert sum("Error due to" in line.getMessage() for line in caplog.records) == 2


async def test_every_line_is_one_that_kafka_writes(caplog: pytest.LogCaptureFixture) -> None:
    async with replication() as (leader, follower):
        follower.log.append_as_leader("lost", 2)
        leader.lead("new")
        leader.instead = lambda number: HANG_UP if number == 0 else None
        follower.follow()
        await until(lambda: follower.values == ["new"])
        follower.fetchers.remove([ZERO])
        follower.fetchers.remove_idle()
    families = []
    for line in caplog.records:
        if not line.name.startswith(("kafka.", "org.apache.kafka.")):
            continue
        found = shape_of(line.getMessage())
        assert found is not None, line.getMessage()
        shape, _ = found
        level = {"WARNING": "WARN"}.get(line.levelname, line.levelname)
        assert level in shape.levels, line.getMessage()
        assert line.name == shape.logger or line.name in shape.logger, (line.name, shape.logger)
        families.append(shape.family)
    assert {
        "fetcher-added",
        "fetcher-thread",
        "fetch-session-error",
        "fetcher-response-error",
        "truncating-epoch",
        "fetcher-removed",
    } <= set(families)
