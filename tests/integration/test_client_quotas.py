"""Quotas over the wire: real clients are slowed down, others are not, and a muted client waits.

Nothing here looks at a clock: what a client is answered, and what comes before what, is enough.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final, cast

import pytest
from kio.schema.api_versions.v0.request import ApiVersionsRequest
from kio.static.primitive import i32Timedelta

from kafka_common.net.connection import Connection
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.versioned_messages import request_schema
from tests.integration.broker_processes import wait_for
from tests.support.log_world import batch
from zkcontroller.zookeeper.znodes import ConfigZnode
from zkcontroller_testing import KafkaCluster
from zkcontroller_testing.plugin import StartCluster

pytestmark = pytest.mark.integration

confluent = pytest.importorskip("confluent_kafka")

TOPIC: Final = "orders"
NOTHING: Final = timedelta(0)
AT_ONCE: Final = {"quota.window.num": "2", "quota.window.size.seconds": "1"}
"""A rate is over a second, and forgotten two seconds later."""
OTHERS_REQUESTS: Final = 5
MANY_CONNECTIONS: Final = 20


@pytest.fixture(scope="module")
def cluster(kafka_cluster_factory: StartCluster, zookeeper_connect: str) -> KafkaCluster:
    """A broker that finds the quota of client ``early`` when it starts."""
    cluster = kafka_cluster_factory(1, zookeeper=zookeeper_connect, configs=AT_ONCE)
    early = ConfigZnode({"producer_byte_rate": "1000"}).encode()
    cluster.znode(ConfigZnode.path("clients/early")).set(early)
    cluster.bounce(1)
    cluster.create_topic(TOPIC)
    return cluster


@asynccontextmanager
async def connected(cluster: KafkaCluster, client_id: str) -> AsyncIterator[Connection]:
    host, _, port = cluster.bootstrap_servers.rpartition(":")
    connection = await Connection.open(host, int(port), client_id=client_id)
    try:
        yield connection
    finally:
        await connection.close()


def alteration(entity: Mapping[str, str | None], quotas: Mapping[str, float | None]) -> Any:
    schema = request_schema(ApiKey.ALTER_CLIENT_QUOTAS, 1)
    return schema.request(
        entries=(
            schema.part(
                "EntryData",
                entity=tuple(
                    schema.part("EntityData", entity_type=kind, entity_name=name)
                    for kind, name in entity.items()
                ),
                ops=tuple(
                    schema.part("OpData", key=key, value=value or 0.0, remove=value is None)
                    for key, value in quotas.items()
                ),
            ),
        ),
        validate_only=False,
    )


def limit(cluster: KafkaCluster, entity: Mapping[str, str | None], **quotas: float | None) -> None:
    """Sets quotas (None removes one) as administrators do."""

    async def scenario() -> None:
        async with connected(cluster, "administrator") as connection:
            response: Any = await connection.request(alteration(entity, quotas))
            [entry] = response.entries
            assert int(entry.error_code) == 0, entry

    asyncio.run(scenario())


def produce_request(size: int) -> Any:
    schema = request_schema(ApiKey.PRODUCE, 9)
    partition = schema.part("PartitionProduceData", index=0, records=batch(1, size=size))
    return schema.request(
        transactional_id=None,
        acks=1,
        timeout=i32Timedelta.parse(timedelta(seconds=10)),
        topic_data=(schema.part("TopicProduceData", name=TOPIC, partition_data=(partition,)),),
    )


async def produce(connection: Connection, size: int) -> tuple[timedelta, int]:
    """How long the client must wait, and the offset of its record."""
    response: Any = await connection.request(produce_request(size))
    [partition] = response.responses[0].partition_responses
    assert int(partition.error_code) == 0
    return response.throttle_time, partition.base_offset


async def until_throttled(connection: Connection, request: Any) -> timedelta:
    """Asks until there is something to wait for: a note of a quota takes its time to be read."""
    while True:
        response: Any = await connection.request(request)
        if response.throttle_time > NOTHING:
            return cast(timedelta, response.throttle_time)
        await asyncio.sleep(0.05)


def test_a_muted_client_waits_while_others_are_served(cluster: KafkaCluster) -> None:
    async def scenario() -> None:
        async with connected(cluster, "early") as slow, connected(cluster, "free") as free:
            # 5,000 bytes where 1,000 a second are allowed: four seconds, and what is around them.
            told, first = await produce(slow, 5_000)
            assert timedelta(seconds=4) < told < timedelta(seconds=5)

            second = asyncio.create_task(produce(slow, 10))
            others = [await produce(free, 5_000) for _ in range(OTHERS_REQUESTS)]
            assert not second.done()

            _, offset = await second
            assert [throttle for throttle, _ in others] == [NOTHING] * OTHERS_REQUESTS
            assert [first, *[offset for _, offset in others], offset] == list(
                range(first, first + OTHERS_REQUESTS + 2)
            )

    asyncio.run(scenario())


def test_quotas_take_effect_on_connections_that_are_open(cluster: KafkaCluster) -> None:
    async def scenario() -> None:
        async with (
            connected(cluster, "late") as connection,
            connected(cluster, "administrator") as administrator,
        ):
            assert (await produce(connection, 3_000))[0] == NOTHING

            whose = {"user": "ANONYMOUS", "client-id": "late"}
            await administrator.request(alteration(whose, {"producer_byte_rate": 1_000.0}))
            assert await until_throttled(connection, produce_request(3_000)) > NOTHING

            await administrator.request(alteration(whose, {"producer_byte_rate": None}))
            while (await produce(connection, 3_000))[0] > NOTHING:
                pass

    asyncio.run(scenario())


def test_the_time_of_requests_is_limited_too(cluster: KafkaCluster) -> None:
    limit(cluster, {"client-id": "busy"}, request_percentage=0.0001)

    async def scenario() -> None:
        request = request_schema(ApiKey.METADATA, 12).request(
            topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False
        )
        async with connected(cluster, "busy") as connection:
            told = await until_throttled(connection, request)
            assert told == timedelta(seconds=1)  # never more than a window
        async with connected(cluster, "idle") as connection:
            response: Any = await connection.request(request)
            assert response.throttle_time == NOTHING

    asyncio.run(scenario())


def test_a_producer_of_librdkafka_is_held_up_and_loses_nothing(cluster: KafkaCluster) -> None:
    limit(cluster, {"client-id": "producer"}, producer_byte_rate=50_000.0)
    throttles: list[float] = []
    delivered: list[int] = []
    producer = confluent.Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "client.id": "producer",
            "throttle_cb": lambda event: throttles.append(event.throttle_time),
            "batch.size": 20_000,
            "linger.ms": 0,
        }
    )

    def send(_: object = None) -> bool:
        for _ in range(100):
            producer.produce(
                TOPIC, bytes(1_000), on_delivery=lambda error, _: delivered.append(error is None)
            )
        assert producer.flush(60) == 0
        return any(throttles)

    wait_for(send, "the producer to be told that it has to wait")
    assert all(delivered)
    assert len(delivered) % 100 == 0


def test_a_consumer_of_librdkafka_is_held_up_and_misses_nothing(cluster: KafkaCluster) -> None:
    values = [b"%d|" % n + bytes(2_000) for n in range(100)]
    cluster.create_topic("consumed")
    producer = confluent.Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for value in values:
        producer.produce("consumed", value)
    assert producer.flush(60) == 0
    limit(cluster, {"client-id": "consumer"}, consumer_byte_rate=100_000.0)
    throttles: list[float] = []
    consumer = confluent.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "client.id": "consumer",
            "group.id": "g",
            "throttle_cb": lambda event: throttles.append(event.throttle_time),
        }
    )

    def read() -> bool:
        consumer.assign([confluent.TopicPartition("consumed", 0, 0)])
        found: list[bytes] = []
        while len(found) < len(values):
            for message in consumer.consume(len(values), timeout=1):
                assert message.error() is None
                found.append(message.value())
        assert found == values
        return any(throttles)

    wait_for(read, "the consumer to be told that it has to wait")
    consumer.close()


def test_an_address_that_connects_too_fast_is_not_served(cluster: KafkaCluster) -> None:
    host, _, port = cluster.bootstrap_servers.rpartition(":")

    async def is_served() -> bool:
        try:
            connection = await Connection.open(host, int(port), client_id="many")
        except OSError:
            return False
        try:
            await connection.request(ApiVersionsRequest())
        except OSError:
            return False
        else:
            return True
        finally:
            await connection.close()

    async def scenario() -> None:
        async with connected(cluster, "administrator") as administrator:
            local = {"ip": host}
            await administrator.request(alteration(local, {"connection_creation_rate": 2.0}))
            while all([await is_served() for _ in range(MANY_CONNECTIONS)]):
                pass

            await administrator.request(alteration(local, {"connection_creation_rate": None}))
            while not all([await is_served() for _ in range(MANY_CONNECTIONS)]):
                pass
            assert await is_served()

    asyncio.run(scenario())
