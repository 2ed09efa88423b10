"""Brokers whose disk is full, read-only, or has lost what was not synced."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from kafka_common.errors import ConfigInvalid
from tests.kit.conftest import NEEDS_ROOT, QUICK
from zkcontroller_testing import KafkaCluster
from zkcontroller_testing.disks import BrokerDisk
from zkcontroller_testing.waiting import until

pytestmark = [pytest.mark.kit, NEEDS_ROOT]


@pytest.fixture(scope="module")
def module_settings() -> dict[str, Any]:
    return {"configs": QUICK, "disks": {1: 64, 2: 64}}


def wait_said(cluster: KafkaCluster, broker: int, text: str) -> None:
    log = cluster.logs_directory(broker) / "server.log"
    until(lambda: text in log.read_text() or None, lambda: f"{log} says {text}")


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("disk_full", "No space left on device"),
        ("make_disk_read_only", "Read-only file system"),
    ],
)
def test_a_broker_that_cannot_write_its_only_disk_ends_and_nothing_is_lost(
    cluster: KafkaCluster, topic: str, fault: str, error: str
) -> None:
    ledger = cluster.ledger(topic)

    with ledger.producing():
        until(lambda: len(ledger.acknowledged) >= 50 or None, lambda: "50 records")
        getattr(cluster, fault)(1)
        cluster.wait_stopped(1)
        cluster.wait_isr(topic, 0, {2, 3})
        before = len(ledger.acknowledged)
        until(lambda: len(ledger.acknowledged) > before or None, lambda: "more records")
    wait_said(cluster, 1, error)
    cluster.mend_disk(1)
    cluster.start(1)

    cluster.wait_isr(topic)
    cluster.no_acknowledged_record_lost(ledger)


def test_a_disk_that_was_freed_in_time_serves_on(cluster: KafkaCluster, topic: str) -> None:
    cluster.kill(2)
    cluster.disk_full(2)
    cluster.free_disk(2)

    cluster.start(2)

    assert set(cluster.wait_isr(topic)) == {1, 2, 3}


def log_bytes(cluster: KafkaCluster, broker: int, topic: str) -> int:
    log = cluster.directory / f"broker-{broker}/data/{topic}-0/00000000000000000000.log"
    return log.stat().st_size if log.exists() else 0


def test_a_power_cut_takes_the_page_cache_of_one_replica_and_no_acknowledged_record(
    cluster: KafkaCluster, topic: str
) -> None:
    ledger = cluster.ledger(topic)
    ledger.produce(200)
    written = log_bytes(cluster, 1, topic)

    cluster.lose_page_cache(1)

    assert log_bytes(cluster, 1, topic) < written  # nothing has synced it
    cluster.wait_isr(topic, 0, {2, 3})
    cluster.start(1)
    cluster.wait_isr(topic)
    cluster.no_acknowledged_record_lost(ledger)
    assert log_bytes(cluster, 1, topic) == written


def test_what_was_synced_outlives_a_power_cut_of_every_replica(cluster: KafkaCluster) -> None:
    cluster.create_topic("synced", replicas=[[1, 2]], configs={"flush.messages": "1"})
    cluster.create_topic("in-memory", replicas=[[1, 2]])
    for topic in ("synced", "in-memory"):
        cluster.wait_isr(topic, 0, {1, 2})
    ledger, other = cluster.ledger("synced"), cluster.ledger("in-memory")
    ledger.produce(20)
    other.produce(20)

    for broker in (1, 2):
        cluster.kill(broker)
    for broker in (1, 2):  # before the kernel brings the rest to disk by itself, after 30 s
        cluster.lose_page_cache(broker)
    for broker in (1, 2):
        cluster.start(broker)

    cluster.no_acknowledged_record_lost(ledger)
    with pytest.raises(AssertionError, match="has lost 20 of 20"):
        cluster.no_acknowledged_record_lost(other)


def test_only_folders_of_the_kit_become_disks(cluster: KafkaCluster, tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="has no disk of its own"):
        cluster.make_disk_read_only(3)
    with pytest.raises(ConfigInvalid, match="its disk cannot be mended now"):
        cluster.mend_disk(1)
    with pytest.raises(ConfigInvalid, match="is not between 16 and 1024 MB"):
        KafkaCluster(1, disks={1: 1})
    decoy, root = tmp_path / "decoy", tmp_path / "cluster"
    decoy.mkdir()
    root.mkdir()
    (root / "broker-1").symlink_to(decoy)

    with pytest.raises(ConfigInvalid, match="leads out of"):
        BrokerDisk(root, 1, 16).make()

    (root / "broker-2/data").mkdir(parents=True)
    with pytest.raises(ConfigInvalid, match="is there already"):
        BrokerDisk(root, 2, 16).make()
    with pytest.raises(ConfigInvalid, match="is not mounted"):
        BrokerDisk(root, 2, 16).fill()
    assert list(decoy.iterdir()) == []
    assert not os.path.ismount(root / "broker-2/data")
