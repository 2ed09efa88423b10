"""Produce requests that a client sends without a wait for the responses before."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.messages import read_response, write
from kafka_common.protocol.versioned_messages import request_schema
from replica_manager.network.connection import PRODUCES_AT_ONCE
from replica_manager.network.listener import SocketServer
from replica_manager.server.dispatch import respond
from tests.support import fetch_world
from tests.support.broker_world import BrokerWorld
from tests.support.frames import parse_response_header, request_header
from tests.support.log_world import batch
from tests.support.wire_peer import until
from tests.unit.replica_manager.network.echo_server import close_by_reset, framed, server_with
from tests.unit.replica_manager.server.produced import log_of
from tests.unit.replica_manager.server.produced import request as produced

FOREVER_MS = 2**31 - 1
VERSION = 11


@pytest.fixture
def world(executor: ThreadPoolExecutor, tmp_path: Path) -> BrokerWorld:
    """A leader whose follower, broker 2, has to have the records."""
    made = fetch_world.made(executor, tmp_path)
    made.lead("orders", topic_id=fetch_world.ORDERS_ID, isr=(1, 2), replicas=(1, 2))
    return made


@asynccontextmanager
async def client_of(
    world: BrokerWorld, **limits: Any
) -> AsyncIterator[tuple[SocketServer, asyncio.StreamReader, asyncio.StreamWriter]]:
    async with server_with(partial(respond, broker=world.context), **limits) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.ports["PLAINTEXT"])
        yield server, reader, writer
        writer.close()


def a_produce(number: int, records: bytes | None = None, **how: Any) -> bytes:
    how = {"acks": -1, "timeout_ms": FOREVER_MS} | how
    asked = produced(batch(2) if records is None else records, version=VERSION, **how)
    return framed(request_header(ApiKey.PRODUCE, VERSION, number, "client") + write(asked))


async def a_response(reader: asyncio.StreamReader) -> tuple[int, Any]:
    """The correlation id, and the result for the partition."""
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    data = await reader.readexactly(size)
    number, start = parse_response_header(ApiKey.PRODUCE, VERSION, data)
    response: Any = read_response(ApiKey.PRODUCE, VERSION, data, start)
    return number, response.responses[0].partition_responses[0]


async def fetched_by_follower(world: BrokerWorld, offset: int) -> None:
    """The follower asks for what is behind ``offset``, as it has all before."""
    await world.ask(fetch_world.request((0, offset), replica_id=2))


async def responses(reader: asyncio.StreamReader, count: int) -> Sequence[tuple[int, int, Any]]:
    found = [await a_response(reader) for _ in range(count)]
    return [(number, each.base_offset, each.error_code) for number, each in found]


async def test_one_round_of_replication_acknowledges_what_arrived_together(
    world: BrokerWorld,
) -> None:
    waiting = world.appends.waiting
    async with client_of(world) as (_, reader, writer):
        writer.write(b"".join(a_produce(number) for number in range(PRODUCES_AT_ONCE + 1)))
        await until(lambda: len(waiting) == PRODUCES_AT_ONCE)
        await asyncio.sleep(0.05)
        assert log_of(world).log_end_offset == 2 * PRODUCES_AT_ONCE  # one has to wait

        await fetched_by_follower(world, 2 * PRODUCES_AT_ONCE)

        assert await responses(reader, PRODUCES_AT_ONCE) == [
            (number, 2 * number, ErrorCode.none) for number in range(PRODUCES_AT_ONCE)
        ]
        await until(lambda: len(waiting) == 1)
        await fetched_by_follower(world, 2 * PRODUCES_AT_ONCE + 2)
        number, base_offset, _ = (await responses(reader, 1))[0]
        assert (number, base_offset) == (PRODUCES_AT_ONCE, 2 * PRODUCES_AT_ONCE)


async def test_responses_are_sent_in_order(world: BrokerWorld) -> None:
    """A request that waits for nothing does not overtake the one that does."""
    async with client_of(world) as (_, reader, writer):
        writer.write(a_produce(1) + a_produce(2) + a_produce(3, acks=1) + a_produce(4))
        await until(lambda: log_of(world).log_end_offset == 6)
        await fetched_by_follower(world, 2)
        assert await responses(reader, 1) == [(1, 0, ErrorCode.none)]
        await fetched_by_follower(world, 6)
        assert [each[:2] for each in await responses(reader, 2)] == [(2, 2), (3, 4)]
        await until(lambda: len(world.appends.waiting) == 1)
        await fetched_by_follower(world, 8)
        assert await responses(reader, 1) == [(4, 6, ErrorCode.none)]


async def test_an_idempotent_producers_batches_are_appended_in_their_order(
    world: BrokerWorld,
) -> None:
    async with client_of(world) as (_, reader, writer):
        for number in range(4):
            records = batch(2, producer_id=7, producer_epoch=0, base_sequence=2 * number)
            writer.write(a_produce(number, records))
        await until(lambda: len(world.appends.waiting) >= 1)
        await until(lambda: log_of(world).log_end_offset == 8)
        await fetched_by_follower(world, 8)
        assert [each[2] for each in await responses(reader, 4)] == [ErrorCode.none] * 4


async def test_any_other_request_is_handled_after_the_response_before(world: BrokerWorld) -> None:
    """Its result may depend on what the one before waits for, such as the high watermark."""
    schema = request_schema(ApiKey.LIST_OFFSETS, 7)
    asked = schema.request(
        replica_id=-1,
        isolation_level=0,
        topics=(
            schema.part(
                "ListOffsetsTopic",
                name="orders",
                partitions=(
                    schema.part(
                        "ListOffsetsPartition",
                        partition_index=0,
                        current_leader_epoch=-1,
                        timestamp=-1,
                    ),
                ),
            ),
        ),
    )
    header = request_header(ApiKey.LIST_OFFSETS, 7, 2, "client")
    async with client_of(world) as (_, reader, writer):
        writer.write(a_produce(1) + framed(header + write(asked)) + a_produce(3))
        await until(lambda: len(world.appends.waiting) == 1)
        await fetched_by_follower(world, 2)
        assert await responses(reader, 1) == [(1, 0, ErrorCode.none)]
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        data = await reader.readexactly(size)
        _, start = parse_response_header(ApiKey.LIST_OFFSETS, 7, data)
        listed: Any = read_response(ApiKey.LIST_OFFSETS, 7, data, start)
        assert listed.topics[0].partitions[0].offset == 2
        await until(lambda: len(world.appends.waiting) == 1)


async def test_an_invalid_one_closes_the_connection_after_the_responses_before(
    world: BrokerWorld,
) -> None:
    invalid = framed(request_header(ApiKey.PRODUCE, VERSION, 2, "client") + b"\xff\xff")
    async with client_of(world) as (server, reader, writer):
        writer.write(a_produce(1) + invalid + a_produce(3))
        await until(lambda: len(world.appends.waiting) == 1)
        assert server.connection_count == 1
        await fetched_by_follower(world, 2)
        assert await responses(reader, 1) == [(1, 0, ErrorCode.none)]
        assert await reader.read() == b""
    assert log_of(world).log_end_offset == 2


async def test_a_refused_one_without_response_closes_after_the_responses_before(
    world: BrokerWorld,
) -> None:
    async with client_of(world) as (_, reader, writer):
        writer.write(a_produce(1) + a_produce(2, topic="unknown", acks=0) + a_produce(3))
        await until(lambda: len(world.appends.waiting) == 1)
        await fetched_by_follower(world, 2)
        assert await responses(reader, 1) == [(1, 0, ErrorCode.none)]
        assert await reader.read() == b""
    assert log_of(world).log_end_offset == 2


async def test_none_waits_any_more_for_a_client_that_has_gone(world: BrokerWorld) -> None:
    waiting = world.appends.waiting
    async with client_of(world) as (server, _, writer):
        writer.write(b"".join(a_produce(number) for number in range(3)))
        await until(lambda: len(waiting) == 3)
        close_by_reset(writer.get_extra_info("socket"))
        writer.transport.abort()
        await until(lambda: server.connection_count == 0 and len(waiting) == 0)
        await until(lambda: server.unfinished_count == 0)
    assert log_of(world).log_end_offset == 6


async def test_a_throttled_client_is_muted_before_its_next_request(world: BrokerWorld) -> None:
    assert not world.quotas.is_enabled
    world.quotas.is_enabled = True
    async with client_of(world) as (_, reader, writer):
        writer.write(a_produce(1) + a_produce(2))
        await until(lambda: len(world.appends.waiting) == 1)
        await asyncio.sleep(0.05)
        assert log_of(world).log_end_offset == 2
        await fetched_by_follower(world, 2)
        assert await responses(reader, 1) == [(1, 0, ErrorCode.none)]
