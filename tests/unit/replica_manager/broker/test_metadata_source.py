"""A broker whose metadata comes from a second implementation of the seam."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from kio.schema.api_versions.v0.request import ApiVersionsRequest

from kafka_common.errors import ConfigInvalid
from kafka_common.net.connection import Connection
from kafka_common.observability.metrics import mbean
from kafka_common.wall_time import wall_time_ms
from replica_manager.broker.broker_server import BrokerServer, BrokerState
from replica_manager.configuration.config import BrokerConfig
from tests.support.memory_metadata import BROKER_EPOCH, CLUSTER_ID, MemorySource, Unreachable
from zkcontroller.state_changes.record import StateChange

START = [
    "connect",
    "metadata_of",
    "load_tokens",
    "load_broker_config",
    "load_client_configs",
    "load_topic_configs",
    "producer_ids",
    "isr_route",
    "partition_count __consumer_offsets",
    "partition_count __transaction_state",
    "join",
    "start",
]
"""What a broker calls while it starts, in this order."""


class NoStateChanges:
    """No controller asks for any."""

    def write(self, records: Sequence[StateChange]) -> None:
        assert not records


class Place:
    """A broker with its source, in a directory."""

    def __init__(
        self, directory: Path, executor: ThreadPoolExecutor, fails_at: str = "", **properties: str
    ) -> None:
        given = {name.replace("__", "."): value for name, value in properties.items()}
        self.log_dir = directory / "data"
        self.config = BrokerConfig.parse(
            {
                "zookeeper.connect": "nowhere:1",
                "broker.id": "1",
                "listeners": "PLAINTEXT://127.0.0.1:0",
                "log.dirs": str(self.log_dir),
                **given,
            }
        )
        self.source = MemorySource(self.config, executor, fails_at)
        self.broker = BrokerServer(self.config, self.source.open, state_changes=NoStateChanges())

    @asynccontextmanager
    async def started(self) -> AsyncIterator[None]:
        """The broker is started, and stopped in the end."""
        await self.broker.start()
        try:
            yield
        finally:
            await self.broker.stop()


async def test_a_broker_serves_clients_with_metadata_of_another_source(
    tmp_path: Path, executor: ThreadPoolExecutor
) -> None:
    place = Place(tmp_path, executor)
    broker, source = place.broker, place.source

    async with place.started():
        assert broker.state is BrokerState.RUNNING
        assert broker.broker_epoch == BROKER_EPOCH
        # Not the time since the machine's start: a follower that never caught up has done so at 0.
        now_ms = broker.running.records.services.replica_manager.now_ms()
        assert abs(now_ms - wall_time_ms()) < 60_000
        assert source.called == START
        [endpoint] = source.advertised
        status = json.loads((place.log_dir / "broker.json").read_text())
        assert status["broker_epoch"] == BROKER_EPOCH
        assert status["listeners"] == {"PLAINTEXT": f"PLAINTEXT://127.0.0.1:{endpoint.port}"}
        gauges = broker.metrics.snapshot()
        assert gauges[mbean("kafka.server", "KafkaServer", "ClusterId")] == {"Value": CLUSTER_ID}

        connection = await Connection.open(
            endpoint.host, endpoint.port, client_id="a test", connect_timeout_ms=20_000
        )
        response: Any = await connection.request(ApiVersionsRequest())
        await connection.close()

        assert response.api_keys

    assert place.broker.state is BrokerState.NOT_RUNNING
    assert source.called == [*START, "controlled_shutdown"]
    assert source.stopped == ["following", "producer ids", "controller", "metadata"]
    assert not (place.log_dir / "broker.json").exists()


async def test_an_id_is_asked_of_the_source_where_none_is_configured(
    tmp_path: Path, executor: ThreadPoolExecutor
) -> None:
    place = Place(tmp_path, executor, broker__id="-1", reserved__broker__max__id="1000")

    async with place.started():
        assert place.broker.broker_id == 1001

    assert place.source.called[:3] == ["connect", "new_broker_id", "metadata_of"]


@pytest.mark.parametrize("call", START)
async def test_a_start_that_fails_is_undone_wherever_it_fails(
    call: str, tmp_path: Path, executor: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    place = Place(tmp_path, executor, fails_at=call)

    with pytest.raises(Unreachable):
        await place.broker.start()

    assert place.broker.state is BrokerState.NOT_RUNNING
    assert place.source.called == START[: START.index(call) + 1]
    assert place.source.stopped[-1] == "metadata"
    assert [message for message in caplog.messages if "Error while shutting down" in message] == []

    # Its directories are unlocked, so the next broker can use them.
    next_place = Place(tmp_path, executor)
    async with next_place.started():
        assert next_place.broker.state is BrokerState.RUNNING


async def test_other_listeners_are_opened_and_advertised_and_refused_ones_are_not(
    tmp_path: Path, executor: ThreadPoolExecutor
) -> None:
    place = Place(tmp_path, executor)
    source, broker = place.source, place.broker
    protocols = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,MORE:PLAINTEXT"}

    def with_listeners(listeners: str) -> BrokerConfig:
        return BrokerConfig.parse({**place.config.originals, **protocols, "listeners": listeners})

    async with place.started():
        before = source.advertised

        with pytest.raises(ConfigInvalid):
            await asyncio.to_thread(
                source.change,
                with_listeners("PLAINTEXT://127.0.0.1:0,MORE://192.0.2.1:1"),
            )
        assert set(broker.running.listeners.server.ports) == {"PLAINTEXT"}
        assert source.advertised == before

        await asyncio.to_thread(
            source.change, with_listeners("PLAINTEXT://127.0.0.1:0,MORE://127.0.0.1:0")
        )
        ports = broker.running.listeners.server.ports
        assert {each.listener_name: each.port for each in source.advertised} == ports
        assert set(ports) == {"PLAINTEXT", "MORE"}
        status = json.loads((place.log_dir / "broker.json").read_text())
        assert set(status["listeners"]) == {"PLAINTEXT", "MORE"}


async def test_a_broker_must_halt_when_its_last_log_directory_fails_and_reports_nothing(
    tmp_path: Path, executor: ThreadPoolExecutor
) -> None:
    place = Place(tmp_path, executor)

    async with place.started():
        place.broker.running.storage.logs.fail(place.log_dir, "a test", OSError("a fault"))
        async with asyncio.timeout(20):
            await place.broker.has_failed.wait()
        assert place.broker.must_halt

    assert place.source.called == [*START, "controlled_shutdown"]


async def test_a_start_that_fails_leaves_the_status_file_of_the_broker_that_runs_there(
    tmp_path: Path, executor: ThreadPoolExecutor
) -> None:
    place, second = Place(tmp_path, executor), Place(tmp_path, executor, fails_at="connect")
    path = place.log_dir / "broker.json"

    async with place.started():
        before = path.read_bytes()

        with pytest.raises(Unreachable):
            await second.broker.start()

        assert path.read_bytes() == before

    assert not path.exists()
