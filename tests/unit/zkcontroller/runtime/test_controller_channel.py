"""The way to the controller: looked for again when it moves, refuses, or says nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.model import Broker, Endpoint
from kafka_common.protocol.messages import write
from replica_manager.replication import controller_channel, controller_connection
from replica_manager.replication.controller_channel import ChannelToController, ControllerChannel
from replica_manager.replication.zk_metadata_cache import MetadataUpdate, ZkMetadataCache
from tests.support.steps import completed

request: Any = import_module("kio.schema.allocate_producer_ids.v0.request")
response: Any = import_module("kio.schema.allocate_producer_ids.v0.response")

ASK = request.AllocateProducerIdsRequest(broker_id=1, broker_epoch=5)
NOT_HERE, SILENCE = ErrorCode.not_controller, None


class Controllers:
    """Brokers that answer AllocateProducerIds with those codes, each in its turn."""

    def __init__(self, *codes: Sequence[ErrorCode | None]) -> None:
        self.codes = [list(each) for each in codes]
        self.ports: list[int] = []
        self.cache = ZkMetadataCache(1)
        self.asked = asyncio.Event()

    async def __aenter__(self) -> Controllers:
        self._servers = [
            await asyncio.start_server(self._serving(codes), "127.0.0.1", 0) for codes in self.codes
        ]
        self.ports = [server.sockets[0].getsockname()[1] for server in self._servers]
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self._servers:
            server.close()

    def elect(self, index: int) -> None:
        endpoint = Endpoint("127.0.0.1", self.ports[index], "PLAINTEXT", "PLAINTEXT")
        update = MetadataUpdate(8, index, 1, -1, [], [Broker(index, (endpoint,))])
        completed(self.cache.update(update, 0, trace=False))

    def channel(self, timeout_ms: int = 30_000) -> ControllerChannel:
        settings = ChannelToController(1, "PLAINTEXT", request_timeout_ms=timeout_ms)
        return ControllerChannel(self.cache, settings)

    def _serving(
        self, codes: list[ErrorCode | None]
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while True:
                    size = int.from_bytes(await reader.readexactly(4), "big")
                    frame = await reader.readexactly(size)
                    self.asked.set()
                    code = codes.pop(0)
                    if code is None:
                        continue
                    body = response.AllocateProducerIdsResponse(
                        throttle_time=_NO_TIME, error_code=code, producer_id_start=7,
                        producer_id_len=3,
                    )  # fmt: skip
                    answer = frame[4:8] + b"\0" + write(body)
                    writer.write(len(answer).to_bytes(4, "big") + answer)
            except (asyncio.IncompleteReadError, ConnectionError):
                pass
            finally:
                writer.close()

        return serve


_NO_TIME = timedelta(0)


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller_channel, "RETRY_MS", 1)
    monkeypatch.setattr(controller_connection, "LOOK_AGAIN_S", 0.01)


async def test_one_connection_serves_several_requests() -> None:
    async with Controllers([ErrorCode.none, ErrorCode.stale_broker_epoch]) as controllers:
        controllers.elect(0)
        channel = controllers.channel()
        assert (await channel.ask(ASK)).producer_id_start == 7
        # What the controller answers for itself is the caller's affair.
        assert (await channel.ask(ASK)).error_code is ErrorCode.stale_broker_epoch
        await channel.close()


async def test_a_broker_that_is_not_the_controller_is_asked_again_or_left_for_the_new_one() -> None:
    async with Controllers([NOT_HERE, NOT_HERE, ErrorCode.none], [ErrorCode.none]) as found:
        found.elect(0)
        channel = found.channel()
        assert (await channel.ask(ASK)).error_code is ErrorCode.none
        found.elect(1)
        assert (await channel.ask(ASK)).error_code is ErrorCode.none
        assert found.codes == [[], []]
        await channel.close()


async def test_a_controller_that_is_silent_is_left_when_there_is_another() -> None:
    async with Controllers([SILENCE], [ErrorCode.none]) as controllers:
        controllers.elect(0)
        channel = controllers.channel()
        asking = asyncio.ensure_future(channel.ask(ASK))
        await controllers.asked.wait()
        controllers.elect(1)
        assert (await asking).error_code is ErrorCode.none
        await channel.close()


async def test_without_a_controller_the_time_runs_out() -> None:
    async with Controllers([]) as controllers:
        channel = controllers.channel(timeout_ms=20)
        with pytest.raises(TimeoutError):
            await channel.ask(ASK)
