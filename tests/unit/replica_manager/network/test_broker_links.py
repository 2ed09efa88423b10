"""Connections to other brokers: one for each, closed when it fails."""

from __future__ import annotations

import asyncio

import pytest
from kio.schema.api_versions.v0.request import ApiVersionsRequest
from msgspec.structs import replace

from kafka_common.errors import InvalidFrame
from kafka_common.model import Broker
from replica_manager.network.broker_links import BrokerLinks, LinkKeys
from replica_manager.network.connection import Peer, ResponseFrame
from replica_manager.replication.zk_metadata_cache import MetadataSnapshot, ZkMetadataCache
from tests.unit.replica_manager.network.echo_server import LOCAL, framed, server_with


async def garbled(request: bytes, _: Peer) -> ResponseFrame:
    """The right correlation id, and a body that is none."""
    return ResponseFrame(framed(request[4:8] + b"\x00"))


async def test_a_connection_with_an_invalid_response_is_closed() -> None:
    async with asyncio.timeout(20), server_with(garbled) as server:
        endpoint = replace(LOCAL, port=server.ports["PLAINTEXT"])
        cache = ZkMetadataCache(1)
        cache.snapshot = MetadataSnapshot(live_brokers={2: Broker(2, (endpoint,))})
        links = BrokerLinks(cache, LinkKeys("PLAINTEXT", "test"))

        with pytest.raises(InvalidFrame):
            await links.ask(2, ApiVersionsRequest())

        while server.connection_count:
            await asyncio.sleep(0.005)
