"""The group coordinator on an event loop, with logs on disk: what is asked, written and loaded."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from math import isnan
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.errors import ConfigInvalid, LimitReached
from kafka_common.model import TopicPartition
from kafka_common.observability.metrics import Metrics
from kafka_common.protocol.compression import Codec
from kafka_common.protocol.record_batch import MemoryRecords, iterate_batches
from kafka_common.wall_time import set_wall_time_offset
from replica_manager.configuration.config import BrokerConfig
from replica_manager.coordinators import group_loading
from replica_manager.coordinators.group_service import GroupService
from replica_manager.coordinators.group_settings import group_settings
from replica_manager.coordinators.groups.group_metadata_manager import OFFSETS_TOPIC
from replica_manager.coordinators.groups.requests import (
    CommitOffsets,
    CommitResult,
    CommittedOffset,
    DeleteOffsets,
    DeleteOffsetsResult,
    DescribeGroups,
    DescribeGroupsResult,
    FetchedOffset,
    FetchOffsets,
    FetchResult,
    Heartbeat,
    HeartbeatResult,
    JoinGroup,
    JoinResult,
    ListGroups,
    ListGroupsResult,
    Protocol,
    SyncGroup,
    SyncResult,
    WantedOffsets,
)
from replica_manager.coordinators.groups.timers import TimerKind
from replica_manager.log.files import FileSlice
from replica_manager.log.log_cleaner import clean, cleaning_job
from replica_manager.log.log_config import LogConfig
from replica_manager.log.log_values import FetchIsolation
from tests.support.group_logs import GroupLogs
from tests.support.log_world import START_MS, batch

GROUP = "billing"
ORDERS = TopicPartition("orders", 0)
SUBSCRIPTION = b"\0\0\0\0\0\1\0\6orders\xff\xff\xff\xff"


class World:
    """A service, and those who ask it."""

    def __init__(self, logs: GroupLogs, service: GroupService, metrics: Metrics) -> None:
        self.logs = logs
        self.service = service
        self._metrics = metrics

    @property
    def measured(self) -> dict[str, Any]:
        """The attributes of the MBean of sensors."""
        return self._metrics.snapshot()["kafka.server:type=group-coordinator-metrics"]

    @property
    def partition(self) -> TopicPartition:
        return TopicPartition(OFFSETS_TOPIC, self.service.partition_for(GROUP))

    async def lead(self) -> None:
        """Takes the group's partition over, and returns when it is loaded."""
        self.begin_to_lead()
        await self.until(
            lambda response: response.error is not ErrorCode.coordinator_load_in_progress
        )

    def begin_to_lead(self, leader_epoch: int = 0) -> None:
        if self.logs.led(self.partition) is None:
            self.logs.lead(self.partition)
        self.service.on_led(self.partition, leader_epoch)

    async def until(self, is_it: Callable[[Any], bool]) -> Any:
        """The group as tools see it, when it is so."""
        async with asyncio.timeout(20):
            while not is_it(described := await self.describe()):
                await asyncio.sleep(0.001)
        return described

    async def describe(self) -> Any:
        asked = DescribeGroups(self.service.new_request_id(), (GROUP,))
        return (await self.service.ask(asked, DescribeGroupsResult)).groups[0]

    async def commit(
        self, offset: int, partition: TopicPartition = ORDERS, member: JoinResult | None = None
    ) -> ErrorCode:
        asked = CommitOffsets(
            self.service.new_request_id(), GROUP, {partition: CommittedOffset(offset)},
            *(() if member is None else (member.member_id, member.generation_id)),
        )  # fmt: skip
        return (await self.service.ask(asked, CommitResult)).errors[partition]

    async def offsets(self) -> dict[TopicPartition, FetchedOffset]:
        asked = FetchOffsets(self.service.new_request_id(), (WantedOffsets(GROUP),))
        [found] = (await self.service.ask(asked, FetchResult)).groups
        assert found.error is ErrorCode.none
        return dict(found.partitions)

    async def join(self, member_id: str = "", *, session_timeout_ms: int = 10_000) -> JoinResult:
        asked = JoinGroup(
            self.service.new_request_id(), GROUP, member_id, "consumer",
            (Protocol("range", SUBSCRIPTION),), session_timeout_ms, 10_000,
            client_id="reader", client_host="/192.0.2.1",
        )  # fmt: skip
        return await self.service.ask(asked, JoinResult)

    async def sync(self, joined: JoinResult) -> SyncResult:
        asked = SyncGroup(
            self.service.new_request_id(), GROUP, joined.generation_id, joined.member_id,
            assignments={each.member_id: b"all of it" for each in joined.members},
        )  # fmt: skip
        return await self.service.ask(asked, SyncResult)

    async def heartbeat(self, joined: JoinResult) -> ErrorCode:
        asked = Heartbeat(
            self.service.new_request_id(), GROUP, joined.generation_id, joined.member_id
        )
        return (await self.service.ask(asked, HeartbeatResult)).error


def settings_of(**properties: str) -> Any:
    given = {
        "zookeeper.connect": "memory:1",
        "offsets.topic.num.partitions": "5",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1",
        **{name.replace("__", "."): value for name, value in properties.items()},
    }
    return group_settings(BrokerConfig.parse(given), 1)


@asynccontextmanager
async def broker(
    folder: Path, *, log_config: LogConfig | None = None, **properties: str
) -> AsyncIterator[World]:
    logs = GroupLogs(folder, log_config)
    metrics = Metrics()
    service = GroupService(settings_of(**properties), logs.appends, logs.led, metrics=metrics)
    service.start(None)
    try:
        yield World(logs, service, metrics)
    finally:
        await service.stop()
        logs.close()


@asynccontextmanager
async def coordinator(folder: Path, **how: Any) -> AsyncIterator[World]:
    """A broker that has taken the group's partition over."""
    async with broker(folder, **how) as world:
        await world.lead()
        yield world


async def test_what_was_committed_is_there_for_the_next_coordinator(tmp_path: Path) -> None:
    async with coordinator(tmp_path) as world:
        assert await world.commit(42) is ErrorCode.none
        assert (await world.offsets())[ORDERS].offset == 42

    async with coordinator(tmp_path) as world:
        assert (await world.offsets())[ORDERS].offset == 42


async def test_offsets_and_rebalances_are_counted_and_loads_timed(tmp_path: Path) -> None:
    other = TopicPartition("orders", 1)

    async with broker(tmp_path) as world:
        assert isnan(world.measured["partition-load-time-max"])
        await world.lead()
        assert world.measured["partition-load-time-max"] >= 0
        assert world.measured["partition-load-time-avg"] >= 0
        await world.commit(42)
        await world.commit(43)
        await world.commit(7, other)
        # Kafka counts the batches, not the offsets in them.
        assert world.measured["offset-commit-count"] == 3
        assert world.measured["offset-commit-rate"] > 0
        asked = DeleteOffsets(world.service.new_request_id(), GROUP, (other,))
        await world.service.ask(asked, DeleteOffsetsResult)
        assert world.measured["offset-deletion-count"] == 1

        assert world.measured["group-completed-rebalance-count"] == 0
        joined = await world.join()
        assert world.service.timer_count(TimerKind.JOIN, TimerKind.SYNC) == 1
        await world.sync(joined)
        await world.heartbeat(joined)
        assert world.service.timer_count(TimerKind.SESSION) == 1
        assert world.service.timer_count(TimerKind.JOIN, TimerKind.SYNC) == 0
        assert world.measured["group-completed-rebalance-count"] == 1
        world.logs.resign(world.partition)
        assert await world.commit(44, member=joined) is not ErrorCode.none
        assert world.measured["offset-commit-count"] == 3
        assert world.measured["offset-expiration-count"] == 0


async def test_offsets_that_expire_are_counted(tmp_path: Path) -> None:
    async with coordinator(
        tmp_path,
        offsets__retention__minutes="1",
        offsets__retention__check__interval__ms="1",
    ) as world:
        committed = CommittedOffset(42, commit_timestamp_ms=START_MS - 3_600_000)
        asked = CommitOffsets(world.service.new_request_id(), GROUP, {ORDERS: committed})
        await world.service.ask(asked, CommitResult)
        await world.until(lambda _: world.measured["offset-expiration-count"] == 1)
        assert await world.offsets() == {}


async def test_a_generation_outlives_its_coordinator(tmp_path: Path) -> None:
    async with coordinator(tmp_path) as world:
        joined = await world.join()
        assert (await world.sync(joined)).assignment == b"all of it"

    async with coordinator(tmp_path) as world:
        assert await world.heartbeat(joined) is ErrorCode.none
        assert (await world.sync(joined)).assignment == b"all of it"
        described = await world.describe()
        assert (described.state, described.members[0].client_host) == ("Stable", "/192.0.2.1")


@pytest.fixture(params=[-3_600_000, 0, 3_600_000])
def clock_step_ms(request: pytest.FixtureRequest) -> Iterator[int]:
    """By how much a test sets the clock forward, which is set right after it."""
    yield request.param
    set_wall_time_offset(0)


async def test_setting_the_clock_ends_no_session(tmp_path: Path, clock_step_ms: int) -> None:
    async with coordinator(tmp_path) as world:
        joined = await world.join(session_timeout_ms=60_000)
        await world.sync(joined)

        set_wall_time_offset(clock_step_ms)

        assert await world.commit(1, member=joined) is ErrorCode.none
        assert await world.heartbeat(joined) is ErrorCode.none


async def test_a_member_that_says_nothing_is_out_when_its_time_is_over(
    tmp_path: Path, clock_step_ms: int
) -> None:
    async with coordinator(tmp_path) as world:
        joined = await world.join(session_timeout_ms=50)
        await world.sync(joined)

        set_wall_time_offset(clock_step_ms)

        await world.until(lambda group: group.state == "Empty")
        assert await world.heartbeat(joined) is ErrorCode.unknown_member_id


async def test_who_waits_gets_an_error_when_another_broker_coordinates(tmp_path: Path) -> None:
    async with coordinator(tmp_path, group__initial__rebalance__delay__ms="60000") as world:
        parked = asyncio.create_task(world.join())
        await world.until(lambda group: group.state == "PreparingRebalance")

        world.service.on_resigned(world.partition, 1)

        assert (await parked).error is ErrorCode.not_coordinator
        assert (await world.describe()).error is ErrorCode.not_coordinator


async def test_who_waits_gets_an_error_when_the_broker_stops(tmp_path: Path) -> None:
    async with coordinator(tmp_path, group__initial__rebalance__delay__ms="60000") as world:
        parked = asyncio.create_task(world.join())
        await world.until(lambda group: group.state == "PreparingRebalance")

        await world.service.stop()

        assert (await parked).error is ErrorCode.coordinator_not_available


async def test_the_answer_to_one_who_has_gone_away_disturbs_no_other(tmp_path: Path) -> None:
    async with coordinator(tmp_path, group__initial__rebalance__delay__ms="60000") as world:
        parked = asyncio.create_task(world.join())
        await world.until(lambda group: group.state == "PreparingRebalance")
        parked.cancel()
        await asyncio.gather(parked, return_exceptions=True)

        world.service.on_resigned(world.partition, 1)
        world.begin_to_lead(2)

        assert (await world.until(lambda group: group.error is ErrorCode.none)).state == "Dead"


async def test_while_a_large_log_is_read_others_are_served(tmp_path: Path) -> None:
    partitions = [TopicPartition("orders", each) for each in range(3_000)]
    async with coordinator(tmp_path) as world:
        for start in range(0, len(partitions), 500):
            asked = CommitOffsets(
                world.service.new_request_id(), GROUP,
                dict.fromkeys(partitions[start : start + 500], CommittedOffset(start)),
            )  # fmt: skip
            await world.service.ask(asked, CommitResult)

    async with broker(tmp_path, offsets__load__buffer__size="1000") as world:
        world.begin_to_lead()
        refusals = 0
        async with asyncio.timeout(20):
            while await world.commit(1) is ErrorCode.coordinator_load_in_progress:
                refusals += 1
                await asyncio.sleep(0)

        # Each batch is larger than the buffer, so there were six reads and steps at least.
        assert refusals >= 6
        found = await world.offsets()
        assert len(found) == len(partitions)
        assert found[partitions[-1]].offset == 2_500


async def test_a_compacted_log_says_the_same(tmp_path: Path) -> None:
    partitions = [TopicPartition("orders", each) for each in range(3)]
    compacted = LogConfig(
        segment_bytes=500, is_compacted=True, is_deleted=False, min_cleanable_dirty_ratio=0.0
    )

    async with coordinator(tmp_path, log_config=compacted) as world:
        joined = await world.join()
        await world.sync(joined)
        for offset in range(20):
            for partition in partitions:
                await world.commit(offset, partition, joined)
        world.service.on_partitions_deleted(partitions[:1])
        told = await world.offsets()
        log = world.logs.log(world.partition)
        async with asyncio.timeout(20):
            while log.log_end_offset < 62:
                await asyncio.sleep(0.001)
        log.update_high_watermark(log.log_end_offset)
        size = log.size
        cleaned = clean(cleaning_job(log, None, START_MS), 2**20)
        assert log.replace_segments(cleaned.replacements, cleaned.generation)
        assert log.size < size / 3

    async with coordinator(tmp_path, offsets__load__buffer__size="300") as world:
        assert await world.offsets() == told
        assert [offset.offset for offset in told.values()] == [19, 19]
        assert await world.heartbeat(joined) is ErrorCode.none


async def test_a_partition_whose_log_cannot_be_read_is_not_served(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with broker(tmp_path) as world:
        world.logs.lead(world.partition)
        log = world.logs.log(world.partition)
        log.append_as_leader(batch(3, codec=Codec.GZIP, size=100), 0)
        [path] = (tmp_path / str(world.partition)).glob("*.log")
        with path.open("r+b") as file:
            file.seek(70)
            file.write(bytes(20))

        await world.lead()

        assert (await world.describe()).error is ErrorCode.not_coordinator
        assert f"Error loading offsets from {world.partition}" in caplog.text


async def test_a_read_that_a_limit_of_the_system_refuses_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = [OSError(errno.ENOMEM, "Cannot allocate memory"), LimitReached("files")]

    def read(piece: FileSlice) -> bytes:
        if refusals:
            raise refusals.pop()
        return piece.file.read(piece.position, piece.length)

    async with coordinator(tmp_path) as world:
        await world.commit(1)

    monkeypatch.setattr(group_loading, "RETRY_S", 0)
    monkeypatch.setattr(FileSlice, "read", read)
    async with coordinator(tmp_path) as world:
        assert (await world.offsets())[ORDERS].offset == 1
        assert refusals == []


async def test_a_commit_that_cannot_be_appended_is_refused_and_not_shown(tmp_path: Path) -> None:
    async with coordinator(tmp_path) as world:
        await world.commit(1)
        world.logs.resign(world.partition)

        # The replica manager has given the partition up; the coordinator does not know.
        assert await world.commit(2) is ErrorCode.not_coordinator

        world.logs.lead(world.partition)
        assert (await world.offsets())[ORDERS].offset == 1


async def test_records_are_appended_in_the_order_of_the_decisions(tmp_path: Path) -> None:
    """A batch that takes long to check, behind one of a client that takes longer."""
    partitions = [TopicPartition("orders", each) for each in range(1_000)]
    clients = TopicPartition("clients", 0)

    async with coordinator(tmp_path) as world:
        asked = CommitOffsets(
            world.service.new_request_id(), GROUP, dict.fromkeys(partitions, CommittedOffset(1))
        )
        await world.service.ask(asked, CommitResult)
        world.logs.lead(clients)
        produced = asyncio.create_task(
            world.logs.appends.append_records(
                {clients: MemoryRecords(batch(50_000, codec=Codec.GZIP))},
                acks=1,
                timeout_ms=1_000,
            )
        )
        await asyncio.sleep(0)

        world.service.on_partitions_deleted(partitions)
        assert await world.commit(7, partitions[0]) is ErrorCode.none

        assert (await produced).outcomes[clients].error is ErrorCode.none

    async with coordinator(tmp_path) as world:
        found = await world.offsets()
        assert {each: offset.offset for each, offset in found.items()} == {partitions[0]: 7}


async def test_offsets_of_deleted_partitions_are_forgotten_for_good(tmp_path: Path) -> None:
    kept = TopicPartition("orders", 1)
    async with coordinator(tmp_path) as world:
        await world.commit(1)
        await world.commit(2, kept)

        world.service.on_partitions_deleted((ORDERS,))
        assert list(await world.offsets()) == [kept]
        async with asyncio.timeout(20):
            # No one waits for a tombstone, so no one can be asked when it is there.
            while world.logs.log(world.partition).log_end_offset < 3:
                await asyncio.sleep(0.001)

    async with coordinator(tmp_path) as world:
        assert list(await world.offsets()) == [kept]


@pytest.mark.parametrize("codec", list(Codec))
async def test_batches_are_packed_as_configured(tmp_path: Path, codec: Codec) -> None:
    async with coordinator(tmp_path, offsets__topic__compression__codec=str(int(codec))) as world:
        await world.commit(1)

        log = world.logs.log(world.partition)
        piece = log.read(0, 10_000, FetchIsolation.LOG_END, min_one_message=True).slice
        assert piece is not None
        assert [header.codec for _, header in iterate_batches(piece.read())] == [codec]

    async with coordinator(tmp_path) as world:
        assert (await world.offsets())[ORDERS].offset == 1


async def test_the_gauges_count_groups_by_state_and_their_offsets(tmp_path: Path) -> None:
    async with coordinator(tmp_path) as world:
        await world.commit(1)
        await world.sync(await world.join())

        assert world.service.gauges() == {
            "NumOffsets": 1,
            "NumGroups": 1,
            "NumGroupsPreparingRebalance": 0,
            "NumGroupsCompletingRebalance": 0,
            "NumGroupsStable": 1,
            "NumGroupsDead": 0,
            "NumGroupsEmpty": 0,
        }


async def test_before_it_leads_anything_a_broker_lists_no_groups(tmp_path: Path) -> None:
    async with broker(tmp_path) as world:
        asked = ListGroups(world.service.new_request_id())
        assert await world.service.ask(asked, ListGroupsResult) == ListGroupsResult(
            ErrorCode.none, ()
        )
        assert (await world.join()).error is ErrorCode.not_coordinator


def test_every_key_of_groups_reaches_the_coordinator() -> None:
    settings = settings_of(
        group__max__session__timeout__ms="7",
        group__max__size="8",
        offset__metadata__max__bytes="9",
        offsets__retention__minutes="2",
        offsets__retention__check__interval__ms="11",
        offsets__commit__required__acks="1",
        offsets__commit__timeout__ms="12",
        offsets__topic__segment__bytes="13",
        offsets__load__buffer__size="14",
        inter__broker__protocol__version="2.2",
    )

    assert settings.config.broker_id == 1
    assert settings.config.min_session_timeout_ms == 1
    assert settings.config.max_session_timeout_ms == 7
    assert settings.config.initial_rebalance_delay_ms == 0
    assert settings.config.max_size == 8
    assert settings.config.offset_metadata_max_bytes == 9
    assert settings.config.offsets_retention_ms == 120_000
    assert settings.config.offsets_retention_check_interval_ms == 11
    assert settings.config.offsets_commit_required_acks == 1
    assert settings.config.offsets_commit_timeout_ms == 12
    assert settings.config.offsets_topic_segment_bytes == 13
    assert not settings.config.has_static_membership
    assert (settings.load_buffer_bytes, settings.default_partition_count) == (14, 5)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("offsets.commit.required.acks", "4"),
        ("offsets.commit.required.acks", "-2"),
        ("offsets.topic.compression.codec", "5"),
    ],
)
def test_values_that_kafka_refuses_at_the_start_are_refused(key: str, value: str) -> None:
    with pytest.raises(ConfigInvalid, match=key):
        settings_of(**{key: value})
