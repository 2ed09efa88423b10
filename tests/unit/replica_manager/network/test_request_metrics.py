"""Requests are counted by kind and version, and their time goes where it belongs."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from prometheus_client.parser import text_string_to_metric_families

from kafka_common.errors import InvalidFrame
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.compression import Codec
from kafka_common.protocol.legacy_messages import encode_messages
from kafka_common.protocol.messages import write
from kafka_common.protocol.record_batch import MemoryRecords, encode_batch
from kafka_common.protocol.records import Record
from replica_manager.quotas.loop_time import LoopTime, Timed
from replica_manager.server.request_metrics import RequestMetrics
from tests.support.broker_world import BrokerWorld
from tests.support.exposition import exposition_of
from tests.support.fetch_world import ORDERS, ORDERS_ID, ask, fetch, made, request, waiting
from tests.support.frames import request_header
from tests.support.log_world import START_MS, batch

MS = 1_000_000
TIMES = {
    "RequestQueueTimeMs", "LocalTimeMs", "RemoteTimeMs", "ThrottleTimeMs", "ResponseSendTimeMs",
    "TotalTimeMs",
}  # fmt: skip


QUEUE = "kafka.network:type=RequestChannel,name=RequestQueueSize"


class Clock:
    """Goes on when the test says so, and by ``step_ns`` whenever it is read."""

    def __init__(self) -> None:
        self.ns = 0
        self.step_ns = 0

    def __call__(self) -> int:
        self.ns += self.step_ns
        return self.ns


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def world(executor: ThreadPoolExecutor, clock: Clock, tmp_path: Path) -> BrokerWorld:
    world = made(executor, tmp_path)
    world.lead("orders", topic_id=ORDERS_ID, isr=(1, 2), replicas=(1, 2))
    world.context.request_metrics = RequestMetrics(world.metrics, clock)
    return world


def told(world: BrokerWorld, name: str, kind: str, attribute: str = "Max", **tags: object) -> Any:
    """An attribute of one of the request metrics; None if it does not exist."""
    tail = "".join(f",{key}={value}" for key, value in tags.items())
    mbean = f"kafka.network:type=RequestMetrics,name={name},request={kind}{tail}"
    found = world.metrics.snapshot().get(mbean)
    return None if found is None else found[attribute]


def test_requests_are_counted_by_version_and_fetches_by_who_asks_too(world: BrokerWorld) -> None:
    fetch(world, version=11)
    fetch(world, version=11)
    fetch(world, version=17, replica_id=2)

    def count(kind: str, version: int) -> object:
        return told(world, "RequestsPerSec", kind, "Count", version=version)

    assert (count("Fetch", 11), count("Fetch", 17)) == (2, 1)
    assert (count("FetchConsumer", 11), count("FetchConsumer", 17)) == (2, None)
    assert (count("FetchFollower", 11), count("FetchFollower", 17)) == (None, 1)
    assert told(world, "TotalTimeMs", "Fetch", "Count") == 3
    assert told(world, "RequestBytes", "Fetch", "Min") > 40


def test_prometheus_reads_them_by_kind_and_version(world: BrokerWorld) -> None:
    fetch(world, version=11)

    samples = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(exposition_of(world.metrics).decode())
        for sample in family.samples
    }
    start = "kafka_network_requestmetrics_"
    assert samples[f"{start}requests_total", ("request", "Fetch"), ("version", "11")] == 1
    assert samples[f"{start}totaltimems_count", ("request", "FetchConsumer")] == 1


def test_what_a_request_waits_for_is_remote_time(world: BrokerWorld, clock: Clock) -> None:
    async def append_after_a_while() -> None:
        clock.ns += 50 * MS
        await world.appends.append_records({ORDERS: MemoryRecords(batch(2))}, acks=1, timeout_ms=1)

    waiting(world, append_after_a_while, (0, 0), replica_id=2)

    times = {name: told(world, name, "FetchFollower") for name in TIMES}
    assert times == dict.fromkeys(TIMES, 0) | {"RemoteTimeMs": 50, "TotalTimeMs": 50}


def test_what_a_request_holds_the_loop_for_is_local_time(
    world: BrokerWorld, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = world.replicas.get_partition_or_error

    def slow(tp: Any) -> Any:
        clock.ns += 30 * MS
        return original(tp)

    monkeypatch.setattr(world.replicas, "get_partition_or_error", slow)
    [response] = fetch(world)

    assert response.error_code is ErrorCode.none
    assert told(world, "LocalTimeMs", "Fetch") == told(world, "TotalTimeMs", "Fetch") == 30
    assert told(world, "RemoteTimeMs", "Fetch") == 0


def test_the_parts_make_up_the_whole(world: BrokerWorld, clock: Clock) -> None:
    clock.step_ns = 7 * MS

    fetch(world)

    parts = [told(world, name, "Fetch") for name in TIMES - {"TotalTimeMs"}]
    assert sum(parts) == told(world, "TotalTimeMs", "Fetch")
    assert told(world, "RequestQueueTimeMs", "Fetch") == 7
    assert told(world, "ResponseSendTimeMs", "Fetch") == 7


def test_what_is_refused_is_counted_and_what_is_no_request_is_not(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(world.reads, "fetch_messages", fail)
    assert ask(world, request((0, 0))).error_code is ErrorCode.unknown_server_error
    with pytest.raises(InvalidFrame):
        asyncio.run(world.ask_raw(b"\0\1\0\x11\0\0\0\1\0\0nonsense"))

    assert world.metrics.snapshot()[QUEUE] == {"Value": 0}
    assert told(world, "RequestsPerSec", "Fetch", "Count", version=17) == 1


def test_a_request_is_in_the_queue_until_its_handler_begins(world: BrokerWorld) -> None:
    assert world.context.request_metrics is not None
    waiting_times = world.context.request_metrics.begin(100)
    before = world.metrics.snapshot()[QUEUE]

    waiting_times.begin_handling(ApiKey.METADATA, 12, None)

    assert before == {"Value": 1}
    assert world.metrics.snapshot()[QUEUE] == {"Value": 0}


def errors(world: BrokerWorld, kind: str) -> dict[str, Any]:
    """The counts of one kind of request, by Kafka's name of the error."""
    start = f"kafka.network:type=RequestMetrics,name=ErrorsPerSec,request={kind},error="
    return {
        name.removeprefix(start): attributes["Count"]
        for name, attributes in world.metrics.snapshot().items()
        if name.startswith(start)
    }


def test_errors_of_an_answer_are_counted_and_none_is_one_of_them(world: BrokerWorld) -> None:
    fetch(world)
    assert errors(world, "Fetch") == {"NONE": 2}

    response = ask(world, request((0, 0), (7, 0)))
    assert len(response.responses[0].partitions) == 2
    assert errors(world, "Fetch") == {"NONE": 4, "UNKNOWN_TOPIC_OR_PARTITION": 1}
    assert errors(world, "FetchConsumer") == {}


def test_a_fetch_that_is_refused_as_a_whole_counts_for_every_partition(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(world.reads, "fetch_messages", fail)
    ask(world, request((0, 0)))

    assert errors(world, "Fetch") == {"UNKNOWN_SERVER_ERROR": 2}


def test_metadata_counts_topics_and_partitions(world: BrokerWorld) -> None:
    schema = import_module("kio.schema.metadata.v12.request")
    topics = [schema.MetadataRequestTopic(name=name, topic_id=None) for name in ("orders", "none")]
    asked = schema.MetadataRequest(
        topics=tuple(topics),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    asyncio.run(world.ask(asked))

    partitions = len(world.cache.snapshot.partitions["orders"])
    assert errors(world, "Metadata") == {"NONE": 1 + partitions, "UNKNOWN_TOPIC_OR_PARTITION": 1}


def produce(world: BrokerWorld, records: bytes, *, acks: int = 1, topic: str = "orders") -> None:
    schema = import_module("kio.schema.produce.v2.request")
    data = schema.PartitionProduceData(index=0, records=records)
    asked = schema.ProduceRequest(
        acks=acks,
        timeout=timedelta(seconds=1),
        topic_data=(schema.TopicProduceData(name=topic, partition_data=(data,)),),
    )
    asyncio.run(world.ask_raw(request_header(0, 2, 1, "test") + write(asked)))


def test_who_wants_no_answer_is_counted_only_if_the_connection_is_closed(
    world: BrokerWorld,
) -> None:
    produce(world, batch(1), acks=0)
    assert errors(world, "Produce") == {}

    produce(world, batch(1), acks=0, topic="none")
    assert errors(world, "Produce") == {"UNKNOWN_TOPIC_OR_PARTITION": 1}
    assert told(world, "RequestsPerSec", "Produce", "Count", version=2) == 2


def test_what_conversions_cost_is_reported_of_produce_and_fetch(world: BrokerWorld) -> None:
    converted = "kafka.server:type=BrokerTopicMetrics,name={}MessageConversionsPerSec"

    produce(world, batch(3))
    assert told(world, "TemporaryMemoryBytes", "Produce") == 0
    packed = encode_batch(
        [Record(offset, START_MS, None, bytes(100)) for offset in range(50)], codec=Codec.GZIP
    )
    assert len(packed) < 1_000
    produce(world, packed)
    assert told(world, "TemporaryMemoryBytes", "Produce") > 5_000
    assert world.metrics.snapshot()[converted.format("Produce")]["Count"] == 0

    old = encode_messages([Record(0, START_MS, None, b"x"), Record(1, START_MS, None, b"y")], 1)
    produce(world, old)
    assert world.metrics.snapshot()[converted.format("Produce")]["Count"] == 2
    assert told(world, "MessageConversionsTimeMs", "Produce", "Count") == 3

    fetch(world, version=11)
    assert told(world, "TemporaryMemoryBytes", "Fetch") == 0
    fetch(world, version=2, replica_id=2)
    assert told(world, "TemporaryMemoryBytes", "Fetch") > 0
    assert world.metrics.snapshot()[converted.format("Fetch")]["Count"] == 55
    assert told(world, "TemporaryMemoryBytes", "FetchConsumer", "Count") is None
    assert told(world, "TemporaryMemoryBytes", "Metadata", "Count") is None


def test_without_readers_of_metrics_requests_are_not_timed(world: BrokerWorld) -> None:
    world.context.request_metrics = None

    fetch(world)

    assert told(world, "RequestsPerSec", "Fetch", "Count", version=17) is None


async def test_a_timed_coroutine_is_cancelled_and_fails_as_any_other() -> None:
    seen: list[str] = []

    async def work() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        return "never"

    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError("inside")

    async def timed(coroutine: Any) -> Any:
        return await Timed(coroutine, LoopTime(lambda: 0))

    task = asyncio.create_task(timed(work()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(ValueError, match="inside"):
        await timed(fail())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await timed(work())

    assert seen == ["cancelled", "cancelled"]
