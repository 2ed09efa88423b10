"""Requests that a client sends without waiting: Kafka's brokers and ours respond alike.

Kafka's read the next request of a connection after the response; ours append the records of the
Produce requests that have arrived before they wait for replicas.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pytest

from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.framing import frame
from kafka_common.protocol.messages import write
from kafka_common.protocol.versioned_messages import request_schema
from tests.peers.cluster import Cluster
from tests.support.frames import request_header
from tests.support.log_world import batch
from tests.unit.replica_manager.server.produced import request as produced

pytestmark = pytest.mark.peers

VERSION: Final = 9
TIMEOUT_MS: Final = 20_000
SILENCE_S: Final = 2.0
"""After so long without a byte, a connection that is still open has sent its responses."""


def produce(records: bytes | None = None, *, acks: int = -1, **how: Any) -> tuple[int, int, bytes]:
    """API key, version and body; two records unless said otherwise."""
    asked = produced(
        batch(2) if records is None else records,
        version=VERSION, acks=acks, timeout_ms=TIMEOUT_MS, **how,
    )  # fmt: skip
    return ApiKey.PRODUCE, VERSION, write(asked)


def sequenced(sequence: int, count: int = 2) -> tuple[int, int, bytes]:
    return produce(batch(count, producer_id=77, producer_epoch=0, base_sequence=sequence))


def latest_offset() -> tuple[int, int, bytes]:
    schema = request_schema(ApiKey.LIST_OFFSETS, 5)
    wanted = schema.part(
        "ListOffsetsPartition", partition_index=0, current_leader_epoch=-1, timestamp=-1
    )
    topic = schema.part("ListOffsetsTopic", name="orders", partitions=(wanted,))
    asked = schema.request(replica_id=-1, isolation_level=0, topics=(topic,))
    return ApiKey.LIST_OFFSETS, 5, write(asked)


def corrupt() -> bytes:
    records = bytearray(batch(2))
    records[-1] ^= 1
    return bytes(records)


INVALID: Final = (ApiKey.PRODUCE, VERSION, b"\xff\xff")
DIALOGUES: Final[Mapping[str, Sequence[tuple[int, int, bytes]]]] = {
    "more than wait at once": [produce()] * 12,
    "in sequence": [sequenced(each) for each in (0, 2, 4, 6, 8)],
    "again, too early, in sequence": [sequenced(each) for each in (8, 8, 40, 10, 0, 12)],
    "any acks": [produce(acks=each) for each in (-1, 1, -1, 0, 2, -1, 0, 1)],
    "to no topic": [produce(), produce(topic="none"), produce(partition=9), produce()],
    "damaged": [produce(), produce(corrupt()), produce(b""), produce()],
    "beside others": [produce(), latest_offset(), produce(), produce(), latest_offset()],
    "a refused one without response": [produce(), produce(topic="none", acks=0), produce()],
    "an invalid one": [produce(), produce(), INVALID, produce()],
    "the end": [latest_offset()],
}


async def sent_ahead(address: str, requests: Sequence[tuple[int, int, bytes]]) -> list[str]:
    """All bytes that come back, response by response; ``closed`` if the broker has closed."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(
            b"".join(
                frame((request_header(api_key, version, number, "ahead"), body))
                for number, (api_key, version, body) in enumerate(requests)
            )
        )
        found: list[str] = []
        while True:
            try:
                async with asyncio.timeout(SILENCE_S):
                    size = await reader.readexactly(4)
            except TimeoutError:
                return found
            except asyncio.IncompleteReadError:
                return [*found, "closed"]
            found.append((await reader.readexactly(int.from_bytes(size, "big"))).hex())
    finally:
        writer.close()


def responses(cluster: Cluster) -> dict[str, list[str]]:
    cluster.topic_command(1, "--create", "--topic", "orders", "--replica-assignment", "1:2")
    cluster.wait_until_all_brokers_agree(1)
    address = cluster.bootstrap(1)
    return {
        name: asyncio.run(sent_ahead(address, requests)) for name, requests in DIALOGUES.items()
    }


@pytest.mark.timeout(300)
def test_requests_sent_ahead_are_answered_as_by_kafka(new_cluster: Callable[[], Cluster]) -> None:
    found = {}
    for name in ("ours", "kafka"):
        cluster = new_cluster()
        for broker_id in (1, 2):
            overrides = {"auto.create.topics.enable": "false"}
            (cluster.start_ours if name == "ours" else cluster.start_kafka)(broker_id, overrides)
        found[name] = responses(cluster)
        for broker in cluster.brokers.values():
            broker.kill()

    assert found["ours"] == found["kafka"]
    assert len(found["ours"]["more than wait at once"]) == 12
    assert found["ours"]["an invalid one"][2:] == ["closed"]
