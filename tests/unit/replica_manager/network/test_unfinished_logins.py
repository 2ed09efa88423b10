"""Clients that begin a TLS handshake or a login and never end it are closed, and leave nothing."""

from __future__ import annotations

import asyncio
import contextlib
import ssl

import pytest

from replica_manager.security.settings import ListenerSecurity
from tests.support.descriptors import leaked_descriptors, open_descriptors
from tests.unit.replica_manager.security.listeners import Broker, listener, sasl, tls_listener

CLIENTS = 30
MAX_IDLE_MS = 300


def secured(protocol: str) -> ListenerSecurity:
    has_tls, has_sasl = protocol.endswith("SSL"), protocol.startswith("SASL")
    return ListenerSecurity(
        protocol, tls_listener() if has_tls else None, None, sasl() if has_sasl else None
    )


def client_hello() -> bytes:
    """The first message of a handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing).do_handshake()
    return outgoing.read()


@pytest.mark.parametrize(
    ("protocol", "beginning"),
    [
        ("SSL", b""),
        ("SSL", client_hello()),
        ("SSL", client_hello()[:50]),
        ("SASL_PLAINTEXT", b""),
        ("SASL_PLAINTEXT", b"\0\0\0\x20\0\x11"),
        ("SASL_SSL", client_hello()),
    ],
    # A ClientHello is random, so its bytes cannot name the test.
    ids=["nothing", "hello", "half-a-hello", "nothing-sasl", "half-a-frame", "hello-sasl"],
)
async def test_who_never_comes_in_is_closed_and_leaves_no_descriptor(
    protocol: str, beginning: bytes
) -> None:
    async with listener(Broker(), secured(protocol), max_idle_ms=MAX_IDLE_MS) as port:
        before = open_descriptors()
        clients = [await asyncio.open_connection("127.0.0.1", port) for _ in range(CLIENTS)]
        for _, writer in clients:
            writer.write(beginning)
        for reader, writer in clients:
            await reader.read()
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

        assert await leaked_descriptors(before) == 0


@pytest.mark.parametrize(
    ("protocol", "beginning"),
    [("SSL", client_hello()), ("SASL_PLAINTEXT", b"\0\0\x08\0\0\x11\0\1" + bytes(3000))],
    ids=["hello", "frame"],
)
async def test_who_sends_a_byte_now_and_then_is_closed_all_the_same(
    protocol: str, beginning: bytes
) -> None:
    async with listener(Broker(), secured(protocol), max_idle_ms=MAX_IDLE_MS) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        closed = asyncio.create_task(reader.read())
        for byte in beginning:
            if closed.done() or writer.is_closing():
                break
            writer.write(bytes((byte,)))
            await asyncio.sleep(0.02)
        # Far more is left to send than there was time for.
        assert closed.done()
        await asyncio.gather(closed, return_exceptions=True)
        writer.close()
