"""Gauges of single partitions: there while these are, gone with them.

Source of the behaviours: Kafka ``PartitionTest.testAddAndRemoveMetrics``,
``AbstractFetcherThreadTest.testConsumerLagRemovedWithPartition``.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode
from prometheus_client.parser import text_string_to_metric_families

from replica_manager.broker.broker_gauges import PartitionGauges
from replica_manager.replication.control_requests import StopReplicaPartition, StopReplicaRequest
from replica_manager.replication.fetch_requests import (
    AskRecords,
    FetcherSettings,
    LeaderFetchResponse,
)
from replica_manager.replication.fetch_state import InitialFetchState
from replica_manager.replication.fetch_values import FetchPartitionData
from replica_manager.replication.replica_fetchers import FetcherKey, ReplicaFetchers
from tests.support.broker_world import CORRELATION_ID, BrokerWorld
from tests.support.exposition import exposition_of
from tests.support.fetch_world import ORDERS, ORDERS_ID, fill, log_of, made
from tests.support.followers import take_records
from tests.support.log_world import batch
from tests.support.steps import completed

PARTITION = {
    "underreplicated", "insyncreplicascount", "underminisr", "atminisr", "replicascount",
    "laststableoffsetlag",
}  # fmt: skip
LOG = {"numlogsegments", "logstartoffset", "logendoffset", "size"}


class Scraped:
    """A broker, and what it tells of its partitions."""

    def __init__(self, world: BrokerWorld) -> None:
        self.world = world
        self.fetchers = ReplicaFetchers(
            1,
            lambda tp: log_of(world, tp),
            FetcherSettings(),
            lambda *_: None,
            lambda _: None,
        )
        world.metrics.sources.append(
            PartitionGauges(world.replicas.partitions, world.logs, self.fetchers)
        )

    def gauges(self, start: str, **labels: str) -> dict[str, float]:
        """Those whose name begins so and that have these labels and no others."""
        wanted = {"topic": "orders", "partition": "0", **labels}
        return {
            sample.name.removeprefix(start): sample.value
            for family in text_string_to_metric_families(exposition_of(self.world.metrics).decode())
            for sample in family.samples
            if sample.name.startswith(start) and sample.labels == wanted
        }

    @property
    def partition(self) -> dict[str, float]:
        return self.gauges("kafka_cluster_partition_")

    @property
    def log(self) -> dict[str, float]:
        return self.gauges("kafka_log_log_")

    @property
    def lag(self) -> dict[str, float]:
        return self.gauges("kafka_server_fetcherlagmetrics_", clientId="ReplicaFetcherThread-0-2")


@pytest.fixture
def scraped(executor: ThreadPoolExecutor, tmp_path: Path) -> Scraped:
    return Scraped(made(executor, tmp_path))


def test_a_leaders_gauges_tell_of_its_isr_and_of_its_log(scraped: Scraped) -> None:
    scraped.world.disk_logs.topic_changed("orders", {"min.insync.replicas": "2"})
    scraped.world.lead("orders", topic_id=ORDERS_ID, isr=(1, 2), replicas=(1, 2, 3))
    fill(scraped.world, 3)

    assert scraped.partition == {
        "underreplicated": 1, "insyncreplicascount": 2, "underminisr": 0, "atminisr": 1,
        "replicascount": 3, "laststableoffsetlag": 0,
    }  # fmt: skip
    assert scraped.log == {
        "numlogsegments": 1, "logstartoffset": 0, "logendoffset": 3, "size": len(batch(3)),
    }  # fmt: skip


def test_an_open_transaction_shows_as_a_lag_of_the_last_stable_offset(scraped: Scraped) -> None:
    scraped.world.lead("orders", topic_id=ORDERS_ID)
    log = log_of(scraped.world)
    guard = log.start_verification(7, 0, 0)
    transaction = batch(2, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    log.append_as_leader(transaction, 0, verification_guard=guard)
    fill(scraped.world, 3)

    assert scraped.partition["laststableoffsetlag"] == 5


def test_a_follower_has_gauges_that_say_nothing(scraped: Scraped) -> None:
    scraped.world.lead("orders", leader=2, topic_id=ORDERS_ID, isr=(1, 2), replicas=(1, 2))

    assert scraped.partition == dict.fromkeys(PARTITION, 0)
    assert set(scraped.log) == LOG


def test_gauges_go_with_what_they_count(scraped: Scraped) -> None:
    assert (scraped.partition, scraped.log) == ({}, {})
    scraped.world.lead("orders", topic_id=ORDERS_ID)
    assert (set(scraped.partition), set(scraped.log)) == (PARTITION, LOG)

    order = StopReplicaPartition(0, delete_partition=True)
    completed(
        scraped.world.replicas.stop_replicas(
            StopReplicaRequest(1, 1, -1, {ORDERS: order}), CORRELATION_ID
        )
    )

    assert (scraped.partition, scraped.log) == ({}, {})


def test_a_log_that_moves_has_gauges_of_its_own(scraped: Scraped) -> None:
    scraped.world.lead("orders", topic_id=ORDERS_ID)
    log = log_of(scraped.world)
    scraped.world.logs.get_or_create(ORDERS, log.config, is_future=True)

    assert set(scraped.gauges("kafka_log_log_", is_future="true")) == LOG
    assert set(scraped.log) == LOG


def test_the_lag_of_a_follower_is_shown_while_it_is_fetched(scraped: Scraped) -> None:
    scraped.world.lead("orders", leader=2, topic_id=ORDERS_ID, isr=(1, 2), replicas=(1, 2))
    log_of(scraped.world).append_as_follower(batch(2))
    assert scraped.lag == {}

    scraped.fetchers.add([(ORDERS, InitialFetchState(ORDERS_ID, 2, 0, 2))])
    assert scraped.lag == {"consumerlag": -1}

    fetcher = scraped.fetchers.fetchers[FetcherKey(2, 0)]
    request = fetcher.next_request(0)
    assert isinstance(request, AskRecords)
    responses = {ORDERS: FetchPartitionData(ErrorCode.none, 9, 9, 0)}
    take_records(
        fetcher, request, LeaderFetchResponse(17, ErrorCode.none, 5, responses, [ORDERS_ID]), 0
    )
    assert scraped.lag == {"consumerlag": 7}

    scraped.fetchers.remove([ORDERS])
    assert scraped.lag == {}


async def test_they_are_read_while_partitions_come_and_go(scraped: Scraped) -> None:
    world = scraped.world

    loop = asyncio.get_running_loop()
    scraping = loop.run_in_executor(None, lambda: [scraped.partition for _ in range(20)])
    number = 0
    while not scraping.done():
        world.lead("orders", number % 50, topic_id=ORDERS_ID, leader_epoch=number)
        number += 1
        await asyncio.sleep(0)
    assert len(await scraping) == 20
