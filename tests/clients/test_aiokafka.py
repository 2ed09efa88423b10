"""aiokafka: an asyncio client; three of its consumers share a topic."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.clients.conftest import NewTopicName
from tests.integration.broker_processes import PATIENCE_S
from zkcontroller_testing import KafkaCluster

aiokafka: Any = pytest.importorskip("aiokafka")

pytestmark = pytest.mark.integration

PARTITIONS = 6


async def produce(cluster: KafkaCluster, topic: str, count: int, **settings: Any) -> None:
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, acks="all", **settings
    )
    await producer.start()
    try:
        sent = [
            await producer.send(topic, b"value %d" % number, partition=number % PARTITIONS)
            for number in range(count)
        ]
        await asyncio.gather(*sent)
    finally:
        await producer.stop()


class Member:
    """A consumer of a group that reads all the time."""

    def __init__(self, cluster: KafkaCluster, group: str, topic: str) -> None:
        self.consumer = aiokafka.AIOKafkaConsumer(
            topic,
            bootstrap_servers=cluster.bootstrap_servers,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=200,
            session_timeout_ms=6000,
        )
        self.values: list[bytes] = []

    async def start(self) -> Member:
        await self.consumer.start()
        self._reading = asyncio.create_task(self._read())
        return self

    @property
    def partitions(self) -> set[int]:
        return {tp.partition for tp in self.consumer.assignment()}

    async def positions(self) -> dict[int, int]:
        """Where it reads next in each of its partitions."""
        held = self.consumer.assignment()
        return {tp.partition: await self.consumer.position(tp) for tp in held}

    async def committed(self) -> dict[int, int | None]:
        """What its group has committed in each of its partitions."""
        held = self.consumer.assignment()
        return {tp.partition: await self.consumer.committed(tp) for tp in held}

    async def stop(self) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        await self.consumer.stop()

    async def _read(self) -> None:
        async for message in self.consumer:
            self.values.append(message.value)


async def until(is_it: Callable[[], bool], why: str) -> None:
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not is_it():
                await asyncio.sleep(0.05)
    except TimeoutError:
        pytest.fail(f"waited in vain for {why}")


async def until_read(members: list[Member], offset: int) -> None:
    """Every partition was read up to there, by the member that has it now."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            places = {p: at for member in members for p, at in (await member.positions()).items()}
            if places == dict.fromkeys(range(PARTITIONS), offset):
                return
            await asyncio.sleep(0.05)


def shares(members: list[Member]) -> list[int]:
    """How many partitions each has; empty unless each partition is in one pair of hands."""
    held = sorted(partition for member in members for partition in member.partitions)
    if held != list(range(PARTITIONS)):
        return []
    return sorted(len(member.partitions) for member in members)


@pytest.mark.parametrize("codec", [None, "gzip", "lz4", "snappy", "zstd"])
def test_an_idempotent_producer_is_read_as_it_has_written(
    cluster: KafkaCluster, new_topic: NewTopicName, codec: str | None
) -> None:
    topic = new_topic(PARTITIONS)

    async def scenario() -> dict[int, list[bytes]]:
        await produce(cluster, topic, 120, enable_idempotence=True, compression_type=codec)
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            everything = [aiokafka.TopicPartition(topic, each) for each in range(PARTITIONS)]
            consumer.assign(everything)
            assert set((await consumer.end_offsets(everything)).values()) == {20}
            read: dict[int, list[bytes]] = {}
            async with asyncio.timeout(PATIENCE_S):
                for _ in range(120):
                    message = await consumer.getone()
                    read.setdefault(message.partition, []).append(message.value)
            return read
        finally:
            await consumer.stop()

    assert asyncio.run(scenario()) == {
        partition: [b"value %d" % number for number in range(partition, 120, PARTITIONS)]
        for partition in range(PARTITIONS)
    }


def test_three_consumers_share_a_topic_and_two_go_on_without_the_third(
    cluster: KafkaCluster, new_topic: NewTopicName
) -> None:
    topic = new_topic(PARTITIONS)
    group = f"group-of-{topic}"

    async def scenario() -> None:
        await produce(cluster, topic, 60)
        members = [await Member(cluster, group, topic).start() for _ in range(3)]
        try:
            await until(lambda: shares(members) == [2, 2, 2], "three equal shares")
            await until_read(members, 10)
            for member in members:
                await member.consumer.commit()
                assert set((await member.committed()).values()) == {10}
            await members.pop().stop()
            await until(lambda: shares(members) == [3, 3], "two equal shares")
            await until_read(members, 10)
            for member in members:
                member.values.clear()
            await produce(cluster, topic, 60)
            await until_read(members, 20)
            # Nothing of before was read again: all of it was committed.
            read = sorted(value for member in members for value in member.values)
            assert read == sorted(b"value %d" % number for number in range(60))
        finally:
            for member in members:
                await member.stop()

    asyncio.run(scenario())


def test_transactions_are_committed_and_aborted(
    cluster: KafkaCluster, new_topic: NewTopicName
) -> None:
    topic = new_topic(1)

    async def scenario() -> list[bytes]:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers, transactional_id="payments"
        )
        await asyncio.wait_for(producer.start(), PATIENCE_S)
        try:
            async with producer.transaction():
                await producer.send_and_wait(topic, b"first")
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"never")
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send_and_wait(topic, b"second")
        finally:
            await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(
            topic,
            bootstrap_servers=cluster.bootstrap_servers,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        await consumer.start()
        try:
            return [(await asyncio.wait_for(consumer.getone(), PATIENCE_S)).value for _ in range(2)]
        finally:
            await consumer.stop()

    assert asyncio.run(scenario()) == [b"first", b"second"]
