"""Channels to brokers that answer, hang up, stay silent, or are not there at all."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from typing_extensions import override

from kafka_common.errors import InvalidFrame
from kafka_common.model import Broker, Endpoint
from kafka_common.observability.metrics import Metrics
from tests.support.kafka_log_shapes import shape_of
from tests.support.stub_broker import TIMEOUT_S, StubBroker
from zkcontroller.core.effects import (
    AddChannel,
    RemoveAllChannels,
    RemoveChannel,
    SendControlRequest,
)
from zkcontroller.runtime.controller_channel_manager import (
    BrokerResponse,
    ChannelSettings,
    ControllerChannelManager,
)

UPDATE_METADATA = 6
CHANNELS = "kafka.controller:type=ControllerChannelManager"


class Fixture:
    def __init__(self, broker: StubBroker, request_timeout_ms: int = 10_000) -> None:
        self.broker = broker
        self.metrics = Metrics()
        self.responses: asyncio.Queue[BrokerResponse] = asyncio.Queue()
        self.channels = ControllerChannelManager(
            ChannelSettings(
                controller_id=1,
                listener_name="PLAINTEXT",
                connect_timeout_ms=5_000,
                request_timeout_ms=request_timeout_ms,
                retry_pause_s=0.01,
            ),
            asyncio.get_running_loop(),
            self.metrics,
            self.on_response,
        )

    def on_response(self, response: BrokerResponse) -> None:
        if response.send.controller_epoch == 666:
            raise InvalidFrame("garbled")
        self.responses.put_nowait(response)

    def as_value(self, listener_name: str = "PLAINTEXT") -> Broker:
        endpoint = Endpoint("127.0.0.1", self.broker.port, listener_name, "PLAINTEXT")
        return Broker(2, (endpoint,))

    async def response(self) -> BrokerResponse:
        async with asyncio.timeout(TIMEOUT_S):
            return await self.responses.get()


@asynccontextmanager
async def channels_to(
    broker: StubBroker, request_timeout_ms: int = 10_000
) -> AsyncIterator[Fixture]:
    await broker.listen()
    f = Fixture(broker, request_timeout_ms)
    f.channels.submit([AddChannel(f.as_value())])
    try:
        yield f
    finally:
        await f.channels.close()
        broker.close()


class Told(logging.Handler):
    """Waits until a channel has logged something with these words."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self._words = words
        self._heard = asyncio.Event()
        self._logger = logging.getLogger("kafka.controller.RequestSendThread")
        self._logger.addHandler(self)

    @override
    def emit(self, record: logging.LogRecord) -> None:
        if self._words in record.getMessage():
            self._heard.set()

    async def wait(self) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            await self._heard.wait()
        self._logger.removeHandler(self)


def update_metadata(body: bytes = b"body", controller_epoch: int = 3) -> SendControlRequest:
    return SendControlRequest(2, UPDATE_METADATA, 8, (body,), controller_epoch)


def run(scenario: Any) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(3 * TIMEOUT_S):
            await scenario()

    asyncio.run(bounded())


def messages(caplog: pytest.LogCaptureFixture, family: str) -> list[logging.LogRecord]:
    """What was logged in a shape of that family of Kafka's lines."""
    return [
        record
        for record in caplog.records
        if (found := shape_of(record.getMessage())) and found[0].family == family
    ]


async def test_requests_arrive_in_order_with_kafkas_header_and_their_answers_come_back() -> None:
    async with channels_to(StubBroker()) as f:
        f.channels.submit([update_metadata(b"one"), update_metadata(b"two")])

        first, second = await f.response(), await f.response()

        assert (first.send.body, first.correlation_id, first.body) == ((b"one",), 0, b"\0\0\0")
        assert (second.send.body, second.correlation_id) == ((b"two",), 1)
        assert first.address == f"127.0.0.1:{f.broker.port}"
        # API 6, version 8, correlation id, client id "1": no ApiVersions before it.
        assert f.broker.frames == [
            struct.pack(">hhih", 6, 8, 0, 1) + b"1\0one",
            struct.pack(">hhih", 6, 8, 1, 1) + b"1\0two",
        ]
        assert f.broker.connections == 1


async def test_only_one_request_is_in_flight() -> None:
    async with channels_to(StubBroker("silence"), request_timeout_ms=300) as f:
        f.channels.submit([update_metadata(b"one"), update_metadata(b"two")])
        await f.broker.has_received(1)

        name = f"{CHANNELS},name=QueueSize,broker-id=2"
        assert f.metrics.snapshot()[name] == {"Value": 1}
        assert f.metrics.snapshot()[f"{CHANNELS},name=TotalQueueSize"] == {"Value": 1}

        await f.response()
        await f.response()
        # The silent connection was given up, and "one" sent again before "two".
        assert [frame[-3:] for frame in f.broker.frames] == [b"one", b"one", b"two"]
        assert f.metrics.snapshot()[name] == {"Value": 0}


@pytest.mark.parametrize("fault", ["hang up", "silence", "other correlation id"])
def test_a_request_that_fails_is_sent_again_until_it_is_answered(
    fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with channels_to(StubBroker(fault, fault), request_timeout_ms=300) as f:
            f.channels.submit([update_metadata(b"one")])

            response = await f.response()

            assert response.correlation_id == 2, "each attempt counts"
            assert [frame[-3:] for frame in f.broker.frames] == [b"one"] * 3
            assert f.broker.connections == 3

    with caplog.at_level(logging.INFO):
        run(scenario)
    failed = messages(caplog, "chan-send-failed")
    assert len(failed) == 2
    assert failed[0].levelname == "WARNING"
    assert failed[0].name == "kafka.controller.RequestSendThread"
    assert "Controller 1 epoch 3 fails to send request (type: UpdateMetadataRequest=, " in (
        failed[0].getMessage()
    )
    assert failed[0].__dict__["cause"]
    assert len(messages(caplog, "chan-connected")) == 3


def test_a_broker_that_is_not_there_yet_gets_its_request_when_it_comes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        broker = StubBroker()
        await broker.listen()
        broker.close()
        f = Fixture(broker)
        refused = Told("was unsuccessful")
        f.channels.submit([AddChannel(f.as_value()), update_metadata(b"one")])
        await refused.wait()

        await broker.listen(broker.port)

        assert (await f.response()).send.body == (b"one",)
        await f.channels.close()
        broker.close()

    with caplog.at_level(logging.INFO):
        run(scenario)
    refusals = messages(caplog, "chan-connect-failed")
    assert refusals
    assert refusals[0].levelname == "WARNING"
    cause = refusals[0].__dict__["cause"]
    assert cause.startswith("java.io.IOException: Connection to 127.0.0.1:")
    assert " (id: 2 rack: null) failed.\nCaused by: java.io.IOException: cannot connect" in cause


def test_a_connection_that_died_while_idle_is_replaced_without_losing_a_request(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        async with channels_to(StubBroker("answer", "hang up")) as f:
            f.channels.submit([update_metadata(b"one")])
            await f.response()
            f.channels.submit([update_metadata(b"two"), update_metadata(b"three")])

            assert (await f.response()).send.body == (b"two",)
            assert (await f.response()).send.body == (b"three",)
            assert f.broker.connections == 2

    with caplog.at_level(logging.INFO):
        run(scenario)


def test_removal_ends_a_channel_and_loses_what_is_queued(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        async with channels_to(StubBroker("silence")) as f:
            f.channels.submit([update_metadata(b"one"), update_metadata(b"two")])
            await f.broker.has_received(1)

            f.channels.submit([RemoveChannel(2)])
            await f.channels.close()

            assert f.responses.empty()
            assert len(f.broker.frames) == 1
            assert list(f.metrics.snapshot()) == [f"{CHANNELS},name=TotalQueueSize"]

    with caplog.at_level(logging.INFO):
        run(scenario)
    words = [r.getMessage().removeprefix("[RequestSendThread controllerId=1] ")
             for r in messages(caplog, "chan-thread")]  # fmt: skip
    assert words == ["Starting", "Shutting down", "Stopped", "Shutdown completed"]


async def test_a_broker_that_bounced_gets_a_new_channel_in_the_same_batch() -> None:
    async with channels_to(StubBroker("silence")) as f:
        f.channels.submit([update_metadata(b"old")])
        await f.broker.has_received(1)

        f.channels.submit([RemoveChannel(2), AddChannel(f.as_value()), update_metadata(b"new")])

        response = await f.response()
        assert (response.send.body, response.correlation_id) == ((b"new",), 0)


async def test_adding_a_channel_that_is_there_changes_nothing() -> None:
    async with channels_to(StubBroker()) as f:
        f.channels.submit([update_metadata(b"one")])
        await f.response()

        f.channels.submit([AddChannel(f.as_value()), update_metadata(b"two")])

        assert (await f.response()).correlation_id == 1
        assert f.broker.connections == 1


def test_a_request_for_an_unknown_broker_is_dropped_with_kafkas_words(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        async with channels_to(StubBroker()) as f:
            f.channels.submit([RemoveAllChannels(), update_metadata()])
            applied = asyncio.Event()
            asyncio.get_running_loop().call_soon(applied.set)
            await applied.wait()

    with caplog.at_level(logging.INFO):
        run(scenario)
    (line,) = messages(caplog, "chan-not-sending")
    assert line.getMessage() == (
        "[Channel manager on controller 1]: Not sending request UpdateMetadata with "
        "controllerId=1, controllerEpoch=3 to broker 2, since it is offline."
    )


def test_removing_a_channel_twice_is_reported_and_harmless(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        async with channels_to(StubBroker()) as f:
            f.channels.submit([RemoveChannel(2), RemoveChannel(2), AddChannel(f.as_value())])
            f.channels.submit([update_metadata(b"one")])
            await f.response()

    with caplog.at_level(logging.INFO):
        run(scenario)
    assert len(messages(caplog, "chan-remove-error")) == 1


def test_an_answer_that_makes_no_sense_is_reported_and_the_next_request_goes_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        async with channels_to(StubBroker()) as f:
            f.channels.submit([update_metadata(controller_epoch=666), update_metadata(b"next")])

            assert (await f.response()).send.body == (b"next",)

    with caplog.at_level(logging.INFO):
        run(scenario)
    (line,) = messages(caplog, "chan-send-fatal")
    assert line.levelname == "ERROR"


def test_a_broker_without_the_listener_is_tried_until_it_is_removed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        f = Fixture(StubBroker())
        refused = Told("was unsuccessful")
        f.channels.submit([AddChannel(f.as_value("OTHER")), update_metadata()])
        await refused.wait()
        await f.channels.close()

    with caplog.at_level(logging.INFO):
        run(scenario)
    assert (
        "broker 2 has no listener PLAINTEXT"
        in (messages(caplog, "chan-connect-failed")[0].__dict__["cause"])
    )


async def test_the_time_in_the_queue_is_measured_per_broker() -> None:
    async with channels_to(StubBroker()) as f:
        f.channels.submit([update_metadata()])
        await f.response()

        timer = f.metrics.snapshot()[f"{CHANNELS},name=RequestRateAndQueueTimeMs,broker-id=2"]
        assert timer["Count"] == 1
        assert 0 <= float(timer["Max"]) < 1000 * TIMEOUT_S
