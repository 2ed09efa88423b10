"""A broker whose wall clock jumps: what stamps records and expires them, and what does not care."""

from __future__ import annotations

import asyncio
import time
from importlib import import_module
from typing import Any, Final

import pytest
from kio.schema.list_transactions.v0.request import ListTransactionsRequest
from kio.schema.list_transactions.v0.response import ListTransactionsResponse

from kafka_common.errors import ConfigInvalid
from kafka_common.net.connection import Connection
from tests.kit.conftest import QUICK
from zkcontroller_testing import KafkaCluster
from zkcontroller_testing.ledger import Ledger
from zkcontroller_testing.waiting import until

pytestmark = pytest.mark.kit
confluent_kafka: Any = import_module("confluent_kafka")

DAY_MS: Final = 24 * 3_600_000
AN_HOUR_MS: Final = 3_600_000


@pytest.fixture(scope="module")
def module_settings() -> dict[str, Any]:
    return {
        "brokers": 1,
        "configs": {
            **QUICK,
            "log.retention.check.interval.ms": "500",
            "log.initial.task.delay.ms": "500",
            "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
        },
    }


@pytest.fixture(autouse=True)
def _right_clock(cluster: KafkaCluster) -> None:
    cluster.set_clock(1, 0)


def written_at(cluster: KafkaCluster, topic: str, timestamp_ms: int = 0) -> int:
    """The timestamp that a new record has in the log, in milliseconds; raises what is refused."""
    producer = confluent_kafka.Producer(cluster.client_config())
    found: list[Any] = []
    producer.produce(
        topic,
        b"x",
        timestamp=timestamp_ms,
        on_delivery=lambda error, message: found.append(error or message.timestamp()[1]),
    )
    producer.flush(20)
    if isinstance(found[0], confluent_kafka.KafkaError):
        raise confluent_kafka.KafkaException(found[0])
    return int(found[0])


@pytest.mark.parametrize("ahead_ms", [10 * DAY_MS, -10 * DAY_MS])
def test_a_log_append_time_is_that_of_the_brokers_clock(
    cluster: KafkaCluster, ahead_ms: int
) -> None:
    topic = f"appended-{ahead_ms}"
    cluster.create_topic(topic, configs={"message.timestamp.type": "LogAppendTime"})

    cluster.set_clock(1, ahead_ms)
    at_ms = written_at(cluster, topic)

    assert abs(at_ms - (time.time() * 1000 + ahead_ms)) < AN_HOUR_MS


def first_offset(cluster: KafkaCluster, topic: str) -> int:
    consumer = confluent_kafka.Consumer({**cluster.client_config(), "group.id": "looking"})
    low, _ = consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, 0), 20)
    consumer.close()
    return int(low)


def test_a_clock_that_jumps_makes_records_old(cluster: KafkaCluster) -> None:
    cluster.create_topic("kept", configs={"retention.ms": str(30 * DAY_MS)})
    cluster.create_topic("expired", configs={"retention.ms": str(7 * DAY_MS)})
    kept, expired = cluster.ledger("kept"), cluster.ledger("expired")
    kept.produce(5)
    expired.produce(5)

    cluster.set_clock(1, 8 * DAY_MS)

    until(
        lambda: first_offset(cluster, "expired") == 5 or None,
        lambda: f"retention deletes what is before {first_offset(cluster, 'expired')}",
    )
    assert len(kept.read()) == 5


def test_a_record_is_too_old_for_a_broker_whose_clock_is_ahead(cluster: KafkaCluster) -> None:
    cluster.create_topic("checked", configs={"message.timestamp.before.max.ms": str(DAY_MS)})
    now_ms = int(time.time() * 1000)
    written_at(cluster, "checked", now_ms)

    cluster.set_clock(1, 2 * DAY_MS)

    with pytest.raises(confluent_kafka.KafkaException, match="timestamp"):
        written_at(cluster, "checked", now_ms)


def transactional_ids(cluster: KafkaCluster) -> set[str]:
    """Those that the coordinator still knows."""

    async def ask() -> set[str]:
        host, _, port = cluster.bootstrap_servers.partition(":")
        connection = await Connection.open(host, int(port), client_id="test")
        try:
            response = await connection.request(
                ListTransactionsRequest(state_filters=(), producer_id_filters=())
            )
        finally:
            await connection.close()
        assert isinstance(response, ListTransactionsResponse)
        return {str(each.transactional_id) for each in response.transaction_states}

    return asyncio.run(ask())


def test_a_transactional_id_expires_by_the_clock_with_which_its_coordinator_starts(
    cluster: KafkaCluster,
) -> None:
    cluster.create_topic("paid")
    producer = confluent_kafka.Producer({**cluster.client_config(), "transactional.id": "payments"})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce("paid", b"x")
    producer.commit_transaction(20)
    assert transactional_ids(cluster) == {"payments"}

    cluster.set_clock(1, 8 * DAY_MS)  # transactional.id.expiration.ms is 7 days
    assert transactional_ids(cluster) == {"payments"}  # docs/deviations.md: an even clock
    cluster.bounce(1)

    until(lambda: transactional_ids(cluster) == set() or None, lambda: "the id expires")


def wait_more(ledger: Ledger, count: int) -> None:
    until(lambda: len(ledger.acknowledged) > count or None, lambda: "ten records")


def test_waits_go_on_while_the_clock_jumps(cluster: KafkaCluster) -> None:
    cluster.create_topic("busy")
    ledger = cluster.ledger("busy")
    epoch = cluster.broker_epoch(1)

    with ledger.producing():
        for ahead_ms in (DAY_MS, -DAY_MS, 0):
            cluster.set_clock(1, ahead_ms)
            before = len(ledger.acknowledged)
            wait_more(ledger, before + 10)

    assert cluster.broker_epoch(1) == epoch
    cluster.no_acknowledged_record_lost(ledger)


def test_a_clock_that_no_broker_has_is_refused(cluster: KafkaCluster) -> None:
    with pytest.raises(ConfigInvalid, match="is none of 1"):
        cluster.set_clock(2, 5)
    with pytest.raises(ConfigInvalid, match="ms away"):
        cluster.set_clock(1, 10**15)
