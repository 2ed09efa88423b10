"""The meters of topics: made when something is counted, gone with what they count.

Source of the behaviours: Kafka ``ReplicaManagerTest`` (KAFKA-8392).
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.model import TopicPartition
from kafka_common.observability.metrics import Metrics
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.record_batch import encode_batch
from kafka_common.protocol.records import Record
from kafka_common.protocol.versioned_messages import request_schema
from replica_manager.replication.topic_stats import BrokerTopicStats
from tests.support.broker_world import BROKER_EPOCH, BrokerWorld, metadata
from tests.support.fetch_world import ORDERS_ID, fetch, fill
from tests.support.log_world import batch
from tests.unit.replica_manager.server.produced import produce

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)
OF_LEADERS = {"BytesInPerSec", "MessagesInPerSec", "TotalProduceRequestsPerSec"}
OF_READERS = {"BytesOutPerSec", "TotalFetchRequestsPerSec"}


class MeteredWorld(BrokerWorld):
    """A broker with a topic of two partitions."""

    def __init__(self, executor: ThreadPoolExecutor, log_dir: Path) -> None:
        super().__init__(executor, log_dirs=[log_dir])
        self.now_ms = 1_000_000  # so that no one who has never fetched counts as caught up
        self.update({"orders": {0: metadata(1), 1: metadata(1)}}, topic_ids={"orders": ORDERS_ID})

    def counts(self, topic: str | None) -> dict[str, object]:
        """Name to count of a topic's meters, or of those over all topics."""
        tag = "" if topic is None else f",topic={topic}"
        start = "kafka.server:type=BrokerTopicMetrics,name="
        return {
            mbean.removeprefix(start).removesuffix(tag): attributes["Count"]
            for mbean, attributes in self.metrics.snapshot().items()
            if mbean.startswith(start) and mbean.endswith(tag) and (topic or ",topic" not in mbean)
        }

    def hear(self, leader_epoch: int, **leaders: int) -> None:
        """LeaderAndIsr for partitions of the topic, ``p0`` and ``p1``."""
        schema = request_schema(ApiKey.LEADER_AND_ISR, 7)
        states = tuple(
            schema.part(
                "LeaderAndIsrPartitionState",
                topic_name="orders",
                partition_index=int(name[1:]),
                controller_epoch=1,
                leader=leader,
                leader_epoch=leader_epoch,
                isr=(leader,),
                partition_epoch=leader_epoch,
                replicas=(1, 2),
                adding_replicas=(),
                removing_replicas=(),
                is_new=False,
                leader_recovery_state=0,
            )
            for name, leader in leaders.items()
        )
        request = schema.request(
            controller_id=1,
            is_k_raft_controller=False,
            controller_epoch=1,
            broker_epoch=BROKER_EPOCH,
            type_=0,
            topic_states=(
                schema.part(
                    "LeaderAndIsrTopicState",
                    topic_name="orders",
                    topic_id=ORDERS_ID,
                    partition_states=states,
                ),
            ),
            live_leaders=(),
        )
        response: Any = asyncio.run(self.ask(request))
        [topic] = response.topics
        assert {each.error_code for each in topic.partition_errors} == {ErrorCode.none}


@pytest.fixture
def world(executor: ThreadPoolExecutor, tmp_path: Path) -> MeteredWorld:
    return MeteredWorld(executor, tmp_path)


def use(world: BrokerWorld, tp: TopicPartition) -> None:
    fill(world, 2, tp=tp)
    [response] = fetch(world, (tp.partition, 0))
    assert response.error_code is ErrorCode.none


def refused(world: BrokerWorld, records: bytes) -> ErrorCode:
    """The error that refuses these records."""
    code: ErrorCode = produce(world, records).error_code
    assert code is not ErrorCode.none
    return code


def test_refused_records_are_counted_by_what_is_wrong_with_them(world: MeteredWorld) -> None:
    """Of all topics together only; Kafka's ``LogValidatorTest``."""
    world.hear(0, p0=1)
    damaged = bytearray(batch(2))
    damaged[-1] ^= 1
    refused(world, bytes(damaged))
    refused(world, batch(1, producer_id=7, producer_epoch=0, base_sequence=-1))
    refused(world, batch(2) + batch(1))

    found = {name: count for name, count in world.counts(None).items() if "Records" in name}
    assert found == {
        "NoKeyCompactedTopicRecordsPerSec": 0,
        "InvalidMagicNumberRecordsPerSec": 0,
        "InvalidMessageCrcRecordsPerSec": 1,
        "InvalidOffsetOrSequenceRecordsPerSec": 1,
    }
    assert not {name for name in world.counts("orders") if name.startswith("Invalid")}


def test_records_without_a_key_are_counted_where_records_are_compacted(
    world: MeteredWorld,
) -> None:
    world.hear(0, p0=1)
    log = world.logs.log(ZERO)
    assert log is not None
    log.update_config(replace(log.config, is_compacted=True))
    refused(world, encode_batch([Record(n, 0, None, b"x") for n in range(3)]))

    assert world.counts(None)["NoKeyCompactedTopicRecordsPerSec"] == 3


def test_a_topic_has_a_meter_for_what_has_happened_only(world: MeteredWorld) -> None:
    world.hear(0, p0=1)
    assert world.counts("orders") == {}

    use(world, ZERO)

    counts = world.counts("orders")
    assert set(counts) == OF_LEADERS | OF_READERS
    assert (counts["MessagesInPerSec"], counts["TotalProduceRequestsPerSec"]) == (2, 1)
    assert counts["BytesInPerSec"] == counts["BytesOutPerSec"] == len(batch(2))
    assert world.counts(None)["MessagesInPerSec"] == 2


def test_the_last_leadership_that_moves_away_takes_the_meters_of_leaders_along(
    world: MeteredWorld,
) -> None:
    world.hear(0, p0=1, p1=1)
    for tp in (ZERO, ONE):
        use(world, tp)

    world.hear(1, p0=2)
    assert set(world.counts("orders")) == OF_LEADERS | OF_READERS

    world.hear(1, p1=2)
    assert set(world.counts("orders")) == OF_READERS
    assert world.counts(None)["MessagesInPerSec"] == 4

    world.hear(2, p0=1)
    use(world, ZERO)
    assert world.counts("orders")["MessagesInPerSec"] == 2


def test_a_topic_that_is_gone_leaves_no_meter() -> None:
    metrics = Metrics()
    stats = BrokerTopicStats(metrics)
    for topic in ("orders", "bills"):
        stats.mark(topic, "bytes_in", 5)

    stats.remove("orders")

    named = [mbean for mbean in metrics.snapshot() if "topic=" in mbean]
    assert named == ["kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec,topic=bills"]
    stats.remove("orders")
    stats.remove_led("orders")
    assert not stats.has("orders")
