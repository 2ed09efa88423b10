"""Byte rates and request time: a client over its quota is throttled as long as by a real Kafka.

The rate of a new client is measured over exactly ten seconds.  So the first throttle time is equal
to the millisecond.  A later one depends on the time of its request; the test allows a band for it.
Every step opens its own connection, because the broker mutes a throttled connection.
"""

from __future__ import annotations

import ast
import asyncio
import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i32Timedelta

from benchmarks.kafka_peer import run_kafka_tool
from kafka_common.net.connection import Connection
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.framing import frame
from kafka_common.protocol.messages import write
from kafka_common.protocol.versioned_messages import request_schema
from replica_manager.quotas.client_quotas import LONGEST_THROTTLE_MS
from tests.peers.cluster import PROPERTIES, Cluster
from tests.peers.scraped_broker import ScrapedBroker
from tests.support.frames import request_header
from tests.support.log_world import batch
from zkcontroller.zookeeper.requests import Create
from zkcontroller.zookeeper.znodes import ConfigZnode

pytestmark = pytest.mark.peers

MBEANS: Final = str(Path(__file__).with_name("MBeans.java"))
TOPIC: Final = "orders"
TEN_SECONDS: Final = timedelta(seconds=10)
BAND_MS: Final = 1_000
"""A rate is over ten seconds and what has passed of one more."""

QUOTAS: Final[Mapping[str, Mapping[str, str]]] = {
    "users/ANONYMOUS/clients/exact": {"producer_byte_rate": "1000"},
    "users/<default>/clients/exact": {"producer_byte_rate": "9000"},
    "users/ANONYMOUS": {"producer_byte_rate": "2000", "consumer_byte_rate": "1000000000"},
    "users/<default>/clients/shared": {"producer_byte_rate": "3000"},
    "users/ANONYMOUS/clients/reader": {"consumer_byte_rate": "500"},
    "users/ANONYMOUS/clients/busy": {"request_percentage": "0.00001"},
    "users/ANONYMOUS/clients/both": {
        "producer_byte_rate": "4000",
        "request_percentage": "0.00001",
    },
    "users/ANONYMOUS/clients/nothing": {"producer_byte_rate": "0"},
    "users/ANONYMOUS/clients/muted": {"producer_byte_rate": "4000"},
    "users/ANONYMOUS/clients/free": {"producer_byte_rate": "1000000000"},
    "clients/<default>": {"producer_byte_rate": "1"},
}


def limit(cluster: Cluster) -> None:
    """Writes the quotas before there is a broker."""
    for entity_path, quotas in QUOTAS.items():
        path = ConfigZnode.path(entity_path)
        cluster.session.create_missing([path.rpartition("/")[0]])
        cluster.session.write(Create(path, ConfigZnode(dict(quotas)).encode()))


def produce(size: int, version: int = 9) -> Any:
    schema = request_schema(ApiKey.PRODUCE, version)
    partition = schema.part("PartitionProduceData", index=0, records=batch(1, size=size))
    return schema.request(
        transactional_id=None,
        acks=1,
        timeout=i32Timedelta.parse(TEN_SECONDS),
        topic_data=(schema.part("TopicProduceData", name=TOPIC, partition_data=(partition,)),),
    )


def fetch(offset: int, version: int = 12) -> Any:
    schema = request_schema(ApiKey.FETCH, version)
    partition = schema.part(
        "FetchPartition", partition=0, current_leader_epoch=-1, fetch_offset=offset,
        last_fetched_epoch=-1, log_start_offset=-1, partition_max_bytes=1_000_000,
    )  # fmt: skip
    return schema.request(
        replica_id=-1,
        max_wait=i32Timedelta.parse(timedelta(0)),
        min_bytes=1,
        max_bytes=10_000_000,
        isolation_level=0,
        session_id=0,
        session_epoch=0,
        rack_id="",
        topics=(schema.part("FetchTopic", topic=TOPIC, partitions=(partition,)),),
        forgotten_topics_data=(),
    )


def asked(api_key: ApiKey, version: int, **values: Any) -> Any:
    return request_schema(api_key, version).request(**values)


METADATA: Final = asked(
    ApiKey.METADATA, 12, topics=None, allow_auto_topic_creation=False,
    include_topic_authorized_operations=False,
)  # fmt: skip
API_VERSIONS: Final = asked(
    ApiKey.API_VERSIONS, 3, client_software_name="peer", client_software_version="1"
)
SCENARIO: Final[dict[str, tuple[str, Any]]] = {
    "a user's client": ("exact", produce(30_000)),
    "the user's own quota is stronger than any user's client": ("shared", produce(30_000)),
    "an old version": ("free", produce(100, version=3)),
    "a consumer": ("reader", fetch(0)),
    "a small fetch afterwards": ("reader", fetch(10**6)),
    "time": ("busy", METADATA),
    "time of the first thing a client asks": ("busy", API_VERSIONS),
    "time of a fetch": ("busy", fetch(0)),
    "bytes and time": ("both", produce(50_000)),
    "nothing to wait for": ("free", METADATA),
    "nothing allowed": ("nothing", produce(100)),
}
EXACT: Final = (
    "a user's client",
    "the user's own quota is stronger than any user's client",
    "a consumer",
    "a small fetch afterwards",
    "time",
    "time of the first thing a client asks",
    "time of a fetch",
    "bytes and time",
    "nothing to wait for",
)
AGAIN: Final[dict[str, tuple[str, Any]]] = {
    "the user's client again": ("exact", produce(10_000)),
    "the user's others again": ("shared", produce(10_000)),
}


async def _tell(cluster: Cluster, client_id: str, request: Any) -> Any:
    host, _, port = cluster.bootstrap(1).rpartition(":")
    connection = await Connection.open(host, int(port), client_id=client_id)
    try:
        return await connection.request(request)
    finally:
        await connection.close()


def told(cluster: Cluster, client_id: str, request: Any) -> list[Any]:
    """For how many milliseconds to wait; for a Fetch also the error, and how much there was.

    Of a Produce the records are taken, however long the client has to wait.

    Kafka closes a connection now and then before it answers; such a question is asked again, and
    nothing of it was counted.
    """
    try:
        response = asyncio.run(_tell(cluster, client_id, request))
    except OSError:
        response = asyncio.run(_tell(cluster, client_id, request))
    waits_ms = response.throttle_time // timedelta(milliseconds=1)
    if int(request.__api_key__) == ApiKey.PRODUCE:
        [produced] = response.responses[0].partition_responses
        assert produced.error_code is ErrorCode.none
    if not hasattr(response, "session_id"):
        return [waits_ms]
    partitions = [each for topic in response.responses for each in topic.partitions]
    return [
        waits_ms,
        response.error_code.name,
        response.session_id > 0,
        [(each.error_code.name, len(each.records or b"")) for each in partitions],
    ]


def is_led(cluster: Cluster) -> bool:
    response = asyncio.run(_tell(cluster, "free", produce(30_000)))
    [produced] = response.responses[0].partition_responses
    return bool(produced.error_code is ErrorCode.none)


def live(cluster: Cluster) -> dict[str, list[Any]]:
    cluster.wait_until(lambda: cluster.controller_id() == 1, "a controller")
    cluster.topic_command(1, "--create", "--topic", TOPIC, "--partitions", "1")
    cluster.wait_until_all_brokers_agree(1)
    # A new leader may still refuse a request; a repeated request would change the rates.
    cluster.wait_until(lambda: is_led(cluster), "a leader that takes records")
    return {name: told(cluster, *question) for name, question in (SCENARIO | AGAIN).items()}


def answers_in_order(cluster: Cluster) -> list[str]:
    """A client over its quota asks twice without waiting; meanwhile another one asks."""
    host, _, port = cluster.bootstrap(1).rpartition(":")
    order: list[str] = []
    api_versions = request_schema(ApiKey.API_VERSIONS, 0).request()

    def ask(writer: asyncio.StreamWriter, client_id: str, *requests: Any) -> None:
        for request in requests:
            api_key, version = int(request.__api_key__), int(request.__version__)
            header = request_header(api_key, version, 1, client_id)
            writer.write(frame((header, write(request))))

    async def answer(reader: asyncio.StreamReader, name: str) -> None:
        (length,) = struct.unpack(">i", await reader.readexactly(4))
        await reader.readexactly(length)
        order.append(name)

    async def scenario() -> None:
        muted_reader, muted = await asyncio.open_connection(host, int(port))
        free_reader, free = await asyncio.open_connection(host, int(port))
        ask(muted, "muted", produce(66_000), api_versions)
        await answer(muted_reader, "over the quota")
        later = asyncio.create_task(answer(muted_reader, "when its time is over"))
        for _ in range(3):
            ask(free, "free", api_versions)
            await answer(free_reader, "another's")
        await later
        muted.close()
        free.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))
    return order


def connection_quota(rate: float | None) -> Any:
    """Sets the quota of this address; None removes it."""
    schema = request_schema(ApiKey.ALTER_CLIENT_QUOTAS, 1)
    entity = schema.part("EntityData", entity_type="ip", entity_name="127.0.0.1")
    change = schema.part(
        "OpData", key="connection_creation_rate", value=rate or 0.0, remove=rate is None
    )
    entry = schema.part("EntryData", entity=(entity,), ops=(change,))
    return schema.request(entries=(entry,), validate_only=False)


def is_served_again(cluster: Cluster) -> bool:
    """Whether the broker's responses to an address follow its quota of new connections.

    With a quota of zero there must be no response; without the quota there must be one.
    """
    host, _, port = cluster.bootstrap(1).rpartition(":")
    asks = frame((request_header(int(ApiKey.API_VERSIONS), 0, 1, "new"), b""))

    async def is_served() -> bool:
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(asks)
        try:
            return bool(await reader.read(4))
        except ConnectionResetError:
            return False
        finally:
            writer.close()

    async def scenario() -> bool:
        connection = await Connection.open(host, int(port), client_id="administrator")
        await connection.request(connection_quota(0.0))
        while await is_served():
            await asyncio.sleep(0.05)
        unheard = [await is_served() for _ in range(2)]
        await connection.request(connection_quota(None))
        while not await is_served():
            await asyncio.sleep(0.05)
        await connection.close()
        return not any(unheard)

    return asyncio.run(asyncio.wait_for(scenario(), 60))


Shown = dict[str, set[str]]
"""MBean to its attributes, for the clients of the scenario."""


def of_the_scenario(mbeans: Sequence[tuple[str, str]]) -> Shown:
    names = {client_id for client_id, _ in SCENARIO.values()} - {"shared"}
    shown: Shown = {}
    for mbean, attribute in mbeans:
        if "client-id" not in mbean or mbean.rpartition("client-id=")[2] in names:
            shown.setdefault(mbean, set()).add(attribute)
    return shown


def kafkas_mbeans(pid: int) -> list[tuple[str, str]]:
    types = [f"kafka.server:type={name},*" for name in ("Produce", "Fetch", "Request")]
    done = run_kafka_tool(MBEANS, str(pid), *types)
    assert done.returncode == 0, done.stderr
    return [(line.split("\t")[0], line.split("\t")[1]) for line in done.stdout.splitlines()]


def our_mbeans(broker: ScrapedBroker) -> list[tuple[str, str]]:
    """Back from Prometheus' names."""
    found: list[tuple[str, str]] = []
    for sample in broker.metrics():
        name, _, labels = sample.partition("[")
        for kind in ("produce", "fetch", "request"):
            prefix = f"kafka_server_{kind}_"
            if name.startswith(prefix):
                tags = dict(ast.literal_eval(f"[{labels}"))
                tail = "".join(
                    f",{key}={tags[label]}"
                    for key, label in (("user", "user"), ("client-id", "client_id"))
                    if label in tags
                )
                attribute = name.removeprefix(prefix).replace("_", "-")
                found.append((f"kafka.server:type={kind.capitalize()}{tail}", attribute))
    return found


@pytest.mark.timeout(300)
def test_who_is_over_a_quota_waits_alike(
    new_cluster: Callable[[], Cluster], tmp_path: Path
) -> None:
    ours, kafkas = new_cluster(), new_cluster()
    for cluster in (ours, kafkas):
        limit(cluster)
    our_broker = ScrapedBroker(1, ours.zookeeper, tmp_path / "scraped", PROPERTIES)
    ours.start(our_broker)
    kafka_broker = kafkas.start_kafka(1)

    our_answers, kafka_answers = live(ours), live(kafkas)

    differences = {
        name: (our_answers[name], kafka_answers[name])
        for name in EXACT
        if our_answers[name] != kafka_answers[name]
    }
    assert differences == {}
    for name in AGAIN:
        [our_ms], [kafka_ms] = our_answers[name], kafka_answers[name]
        assert our_ms == pytest.approx(kafka_ms, abs=BAND_MS), name
        assert kafka_ms > 1_000
    assert kafka_answers["a user's client"][0] > 20_000
    assert kafka_answers["a consumer"][1:] == ["none", False, []]
    assert kafka_answers["time"] == [1_000]
    assert kafka_answers["nothing to wait for"] == [0]
    # There an endless wait does not fit into 32 bits, and becomes none.
    assert kafka_answers["nothing allowed"] == [0]
    assert our_answers["nothing allowed"] == [LONGEST_THROTTLE_MS]
    shown = of_the_scenario(kafkas_mbeans(kafka_broker.pid))
    assert of_the_scenario(our_mbeans(our_broker)) == shown
    assert shown["kafka.server:type=Produce,user=ANONYMOUS,client-id=exact"] == {
        "byte-rate",
        "throttle-time",
    }
    order = ["over the quota", *["another's"] * 3, "when its time is over"]
    assert (answers_in_order(ours), answers_in_order(kafkas)) == (order, order)
    assert (is_served_again(ours), is_served_again(kafkas)) == (True, True)
