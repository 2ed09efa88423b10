"""The client connection, against sockets that behave and sockets that do not."""

from __future__ import annotations

import asyncio
import os
import re
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from kio.schema.api_versions.v3.request import ApiVersionsRequest

from kafka_common.errors import InvalidFrame
from kafka_common.net.connection import JOINED_BYTES, Connection

API_VERSIONS = 18
UPDATE_METADATA = 6
CONTROLLED_SHUTDOWN = 7

Peer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(peer: Peer) -> AsyncIterator[int]:
    """A server on a free port that treats each connection as ``peer`` does."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await peer(reader, writer)
        except asyncio.IncompleteReadError:
            pass  # the client has gone
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


async def opened(port: int, request_timeout_ms: int = 10_000) -> Connection:
    return await Connection.open(
        "127.0.0.1", port, client_id="zkctl", request_timeout_ms=request_timeout_ms
    )


def test_a_flexible_request_has_header_2_and_its_answer_header_1() -> None:
    frames: list[bytes] = []

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames.append(await read_frame(reader))
        writer.write(framed(struct.pack(">i", 0) + b"\0" + b"answer"))

    async def scenario() -> None:
        async with listening(peer) as port:
            connection = await opened(port)
            body = await connection.call(UPDATE_METADATA, 8, (b"one ", b"two"))
            assert body == b"answer"
            await connection.close()

    asyncio.run(scenario())
    assert frames == [struct.pack(">hhih", 6, 8, 0, 5) + b"zkctl" + b"\0" + b"one two"]


def test_an_old_request_has_header_1_and_its_answer_header_0() -> None:
    frames: list[bytes] = []

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames.append(await read_frame(reader))
        writer.write(framed(struct.pack(">i", 0) + b"answer"))

    async def scenario() -> None:
        async with listening(peer) as port:
            connection = await opened(port)
            assert await connection.call(UPDATE_METADATA, 5, (b"body",)) == b"answer"
            await connection.close()

    asyncio.run(scenario())
    assert frames == [struct.pack(">hhih", 6, 5, 0, 5) + b"zkctl" + b"body"]


def test_controlled_shutdown_0_names_no_client() -> None:
    frames: list[bytes] = []

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames.append(await read_frame(reader))
        writer.write(framed(struct.pack(">i", 0)))

    async def scenario() -> None:
        async with listening(peer) as port:
            connection = await opened(port)
            await connection.call(CONTROLLED_SHUTDOWN, 0, (b"body",))
            await connection.close()

    asyncio.run(scenario())
    assert frames == [struct.pack(">hhi", 7, 0, 0) + b"body"]


async def test_api_versions_is_answered_with_header_0_although_its_body_is_flexible() -> None:
    answer = bytes.fromhex("000002001200000004000000000000")

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_frame(reader)
        writer.write(framed(struct.pack(">i", 0) + answer))

    async with listening(peer) as port:
        connection = await opened(port)
        response: Any = await connection.request(
            ApiVersionsRequest(client_software_name="zkctl", client_software_version="1")
        )
        assert [key.api_key for key in response.api_keys] == [API_VERSIONS]
        await connection.close()


async def test_calls_from_several_tasks_are_answered_each_its_own() -> None:
    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            frame = await read_frame(reader)
            writer.write(framed(frame[4:8] + b"\0" + frame[-1:]))

    async with listening(peer) as port:
        connection = await opened(port)
        bodies = [bytes([n]) for n in range(20)]
        responses = await asyncio.gather(
            *(connection.call(UPDATE_METADATA, 8, (body,)) for body in bodies)
        )
        assert responses == bodies
        assert connection.last_correlation_id == 19
        await connection.close()


def test_a_body_of_many_megabytes_arrives_whole_in_chunks_of_all_sizes() -> None:
    sizes = [10, 0, JOINED_BYTES, 5_000_000, *range(0, 2_000, 7)]
    chunks = [os.urandom(size) for size in sizes]
    received: list[bytes] = []

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await read_frame(reader))
        writer.write(framed(struct.pack(">i", 0) + b"\0"))

    async def scenario() -> None:
        async with listening(peer) as port:
            connection = await opened(port)
            await connection.call(UPDATE_METADATA, 8, chunks)
            await connection.close()

    asyncio.run(scenario())
    assert received[0][16:] == b"".join(chunks)


def answering(frame: bytes) -> Peer:
    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_frame(reader)
        writer.write(frame)
        await writer.drain()
        await reader.read()

    return peer


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        (framed(struct.pack(">i", 9) + b"\0"), "correlation id 9, not 0"),
        (struct.pack(">i", 1 << 30), "1073741824 bytes"),
        (struct.pack(">i", -1), "-1 bytes"),
        (struct.pack(">i", 3) + b"abc", "3 bytes"),
        (framed(struct.pack(">i", 0)), "cut short"),
        (framed(struct.pack(">i", 0) + b"\xff\xff\xff\xff\x0f"), "tagged fields"),
        (framed(struct.pack(">i", 0) + b"\xff\xff\xff\xff\xff\xff"), "five bytes"),
    ],
)
async def test_a_peer_that_does_not_speak_the_protocol_is_left(
    frame: bytes, complaint: str
) -> None:
    async with listening(answering(frame)) as port:
        connection = await opened(port)
        with pytest.raises(InvalidFrame, match=complaint):
            await connection.call(UPDATE_METADATA, 8, (b"body",))
        assert not connection.is_usable()
        with pytest.raises(ConnectionError, match="is closed"):
            await connection.call(UPDATE_METADATA, 8, (b"body",))


async def test_a_silent_peer_is_left_after_the_request_timeout() -> None:
    async with listening(answering(b"")) as port:
        connection = await opened(port, request_timeout_ms=50)
        with pytest.raises(TimeoutError, match=rf"no answer from 127.0.0.1:{port} within 0.05"):
            await connection.call(UPDATE_METADATA, 8, (b"body",))
        assert not connection.is_usable()


async def test_a_peer_that_hangs_up_before_it_answers_is_a_connection_error() -> None:
    async def peer(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await read_frame(reader)

    async with listening(peer) as port:
        connection = await opened(port)
        with pytest.raises(ConnectionError):
            await connection.call(UPDATE_METADATA, 8, (b"body",))


async def test_a_connection_that_the_peer_has_closed_meanwhile_is_seen_before_it_is_used() -> None:
    hung_up = asyncio.Event()

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(framed((await read_frame(reader))[4:8] + b"\0"))
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        hung_up.set()

    async with listening(peer) as port:
        connection = await opened(port)
        await connection.call(UPDATE_METADATA, 8, (b"body",))
        await hung_up.wait()
        assert not connection.is_usable()
        await connection.close()


async def test_closing_ends_a_call_under_way() -> None:
    asked = asyncio.Event()

    async def peer(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await read_frame(reader)
        asked.set()
        await reader.read()

    async with listening(peer) as port:
        connection = await opened(port)
        call = asyncio.create_task(connection.call(UPDATE_METADATA, 8, (b"body",)))
        await asked.wait()
        await connection.close()
        with pytest.raises(ConnectionError):
            await call


async def test_a_cancelled_call_closes_because_its_answer_may_still_come() -> None:
    asked = asyncio.Event()

    async def peer(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await read_frame(reader)
        asked.set()
        await reader.read()

    async with listening(peer) as port:
        connection = await opened(port)
        call = asyncio.create_task(connection.call(UPDATE_METADATA, 8, (b"body",)))
        await asked.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert not connection.is_usable()


async def test_a_port_without_a_listener_is_named() -> None:
    async with listening(answering(b"")) as port:
        pass
    with pytest.raises(ConnectionError, match=rf"cannot connect to 127\.0\.0\.1:{port}"):
        await opened(port)


@pytest.mark.parametrize("host", ["no-such-host.invalid", "no-such..host", "x" * 64 + ".invalid"])
async def test_a_host_that_does_not_exist_is_named(host: str) -> None:
    with pytest.raises(ConnectionError, match=re.escape(f"{host}:9092")):
        await Connection.open(host, 9092, client_id="zkctl")
