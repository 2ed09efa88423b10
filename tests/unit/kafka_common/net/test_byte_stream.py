"""Files over sockets: all of a range arrives, in the clear and by TLS; a short file is an error."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_common.net.byte_stream import ByteStream, PlainStream, TlsStream, read_file
from tests.support.certificates import Authority

SIZE = 3_000_000


@pytest.fixture
def content() -> bytes:
    return (bytes(range(251)) * (SIZE // 251 + 1))[:SIZE]


@pytest.fixture
def descriptor(tmp_path: Path, content: bytes) -> Iterator[int]:
    path = tmp_path / "segment"
    path.write_bytes(content)
    opened = os.open(path, os.O_RDONLY)
    yield opened
    os.close(opened)


def pair() -> tuple[socket.socket, socket.socket]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    return ours, theirs


async def plain() -> tuple[ByteStream, ByteStream]:
    ours, theirs = pair()
    return PlainStream(ours), PlainStream(theirs)


async def tls(directory: Path) -> tuple[ByteStream, ByteStream]:
    authority = Authority()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(authority.sign(hosts=True).write(directory, "server"))
    client = ssl.create_default_context(cadata=authority.identity.certificate_pem)
    client.check_hostname = False
    ours, theirs = pair()
    accepted = TlsStream(ours, server)
    connected = TlsStream(theirs, client, server_hostname="localhost")
    await asyncio.gather(accepted.handshake(), connected.handshake())
    return accepted, connected


async def received(stream: ByteStream, size: int) -> bytes:
    found = b""
    while len(found) < size and (data := await stream.receive(1 << 20)):
        found += data
    return found


@pytest.mark.parametrize("is_secured", [False, True])
def test_a_range_of_a_file_arrives_between_bytes(
    is_secured: bool, tmp_path: Path, descriptor: int, content: bytes
) -> None:
    async def scenario() -> bytes:
        ours, theirs = await (tls(tmp_path) if is_secured else plain())

        async def send() -> None:
            await ours.send_all(b"head", has_more=True)
            await ours.send_file(descriptor, 1000, SIZE - 2000)
            await ours.send_all(b"tail")

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(send())
            found = tasks.create_task(received(theirs, SIZE - 2000 + 8))
        ours.close()
        theirs.close()
        return found.result()

    assert asyncio.run(scenario()) == b"head" + content[1000:-1000] + b"tail"


@pytest.mark.parametrize("is_secured", [False, True])
async def test_a_file_that_ends_before_is_an_error(
    is_secured: bool, tmp_path: Path, descriptor: int
) -> None:
    ours, theirs = await (tls(tmp_path) if is_secured else plain())
    reading = asyncio.create_task(received(theirs, SIZE))
    try:
        with pytest.raises(ConnectionAbortedError):
            await ours.send_file(descriptor, SIZE - 10, 20)
    finally:
        ours.close()
        await reading
        theirs.close()


async def test_a_file_is_read_whole_or_not_at_all(descriptor: int, content: bytes) -> None:
    assert await read_file(descriptor, 5, 100) == content[5:105]
    with pytest.raises(ConnectionAbortedError):
        await read_file(descriptor, SIZE - 10, 11)
