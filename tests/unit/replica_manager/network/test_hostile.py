"""Hostile input: whatever arrives, the broker answers, or closes that connection, and lives on."""

from __future__ import annotations

import asyncio
import logging
import resource
import struct
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from kafka_common.model import Endpoint
from kafka_common.protocol.api_versions import APIS, ApiKey
from kafka_common.protocol.messages import read_request, read_response, write
from replica_manager.network.connection import Begun, Peer
from replica_manager.network.listener import ServerLimits, SocketServer
from replica_manager.server.dispatch import respond
from replica_manager.server.zookeeper_handlers import HANDLERS
from tests.support.broker_world import ORDERS_ID, BrokerWorld, metadata
from tests.support.frames import request_header
from tests.unit.replica_manager.network.bodies import empty_body

MUTATED_FRAMES = 10_000
PIPELINED = 8
MEMORY_GROWTH_LIMIT_MB = 200
HIGHEST_KEY = max(APIS) + 3


@asynccontextmanager
async def hosted(world: BrokerWorld) -> AsyncIterator[int]:
    """A server in this process; its port."""

    async def answer(data: bytes, peer: Peer) -> Begun:
        return await respond(data, peer, world.context)

    server = SocketServer(
        (Endpoint("127.0.0.1", 0, "PLAINTEXT", "PLAINTEXT"),),
        ServerLimits(max_request_bytes=1_000_000, max_idle_ms=10_000),
        answer,
        broker_id=1,
        protected_listener="PLAINTEXT",
    )
    server.open()
    try:
        yield server.ports["PLAINTEXT"]
    finally:
        await server.close()


async def exchange(port: int, *frames: bytes) -> list[bytes]:
    """Sends frames on one connection, ends our side, and returns what came back until the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"".join(struct.pack(">i", len(data)) + data for data in frames))
        writer.write_eof()
        received = await asyncio.wait_for(reader.read(), 20)
    except ConnectionError:
        return []
    finally:
        writer.close()
    responses = []
    while len(received) >= 4:
        end = 4 + struct.unpack_from(">i", received)[0]
        responses.append(received[4:end])
        received = received[end:]
    assert received == b"", "an answer was cut off"
    return responses


async def is_alive(port: int) -> bool:
    data = request_header(ApiKey.METADATA, 1, 4, "probe") + b"\xff\xff\xff\xff"
    [answer] = await exchange(port, data)
    response: Any = read_response(ApiKey.METADATA, 1, answer, 4)
    return any(topic.name == "orders" for topic in response.topics)


def test_every_api_key_in_every_version_is_answered_or_closed(executor: ThreadPoolExecutor) -> None:
    async def scenario(world: BrokerWorld) -> None:
        async with hosted(world) as port:
            for api_key in range(-1, HIGHEST_KEY):
                last = APIS[api_key].max_version if api_key in APIS else 1
                for version in range(-1, last + 2):
                    flexible = api_key in APIS and APIS[api_key].is_flexible(version)
                    head = struct.pack(">hhih", api_key, version, 1, 0)
                    head += b"\0" if flexible else b""
                    responses = await exchange(port, head + empty_body(api_key, version))

                    handler = HANDLERS.get(api_key)
                    is_offered = handler is not None and (
                        handler.VERSIONS[0] <= version <= handler.VERSIONS[1]
                    )
                    # The zeros of an old Produce request say that no answer is wanted; an Envelope
                    # closes the connection where nothing is forwarded.
                    is_answered = (
                        is_offered
                        and (api_key != ApiKey.PRODUCE or flexible)
                        and api_key != ApiKey.ENVELOPE
                    )
                    assert len(responses) == int(is_answered or api_key == ApiKey.API_VERSIONS)
            assert await is_alive(port)

    world = BrokerWorld(executor, auto__create__topics__enable="false")
    world.update({"orders": {0: metadata(1)}}, topic_ids={"orders": ORDERS_ID})
    # ControlledShutdown version 0 has a header of its own, two bytes shorter than ours.
    asyncio.run(asyncio.wait_for(scenario(world), 60))


def seeds(world: BrokerWorld) -> list[bytes]:
    """Frames that are right: every API in every version, with something in its lists."""
    random = Random(1)
    frames = []
    for api_key, handler in HANDLERS.items():
        for version in range(handler.VERSIONS[0], handler.VERSIONS[1] + 1):
            head = request_header(api_key, version, 1, "client")
            frames.append(head + empty_body(api_key, version))
            body = write(read_request(api_key, version, empty_body(api_key, version)))
            frames.append(head + body)
            frames.append(head + bytes(random.randrange(256) for _ in range(60)))
    assert len(world.cache.snapshot.partitions) == 1
    return frames


def mutated(frame: bytes, random: Random) -> bytes:
    """The frame with a few bytes changed, cut out, repeated or put in."""
    data = bytearray(frame)
    for _ in range(random.randint(1, 6)):
        position = random.randrange(len(data)) if data else 0
        match random.randrange(5):
            case 0 if data:
                data[position] = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))
            case 1:
                del data[position : position + random.randint(1, 20)]
            case 2:
                data[position:position] = data[position : position + random.randint(1, 40)]
            case 3:
                data[position:position] = random.choice(
                    (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\0" * 9)
                )
            case _ if len(data) > 14:
                data[13] = random.randrange(256)
    return bytes(data)


def test_ten_thousand_mutated_frames_neither_kill_the_broker_nor_fill_its_memory() -> None:
    random = Random(20_251_121)

    async def scenario(world: BrokerWorld) -> None:
        frames = seeds(world)
        async with hosted(world) as port:
            assert await is_alive(port)
            before_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            for _ in range(MUTATED_FRAMES // PIPELINED):
                await exchange(
                    port, *(mutated(random.choice(frames), random) for _ in range(PIPELINED))
                )
            after_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            # What the frames may have done by right (epochs, live brokers) is undone for the probe.
            world.replicas.controller_epoch = 0
            world.update({"orders": {0: metadata(1)}}, topic_ids={"orders": ORDERS_ID})
            assert await is_alive(port)
            assert after_mb - before_mb < MEMORY_GROWTH_LIMIT_MB

    logging.disable(logging.CRITICAL)
    try:
        with ThreadPoolExecutor(1) as executor:
            world = BrokerWorld(executor, auto__create__topics__enable="false")
            world.controller.is_active = False
            world.update({"orders": {0: metadata(1)}}, topic_ids={"orders": ORDERS_ID})
            asyncio.run(asyncio.wait_for(scenario(world), 100))
    finally:
        logging.disable(logging.NOTSET)
