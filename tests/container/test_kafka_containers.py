"""The kit's cluster of containers, as a user's test has it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kafka_common.errors import ContainerUnavailable
from tests.container.page import PAGE
from zkcontroller_testing import KafkaContainers

pytestmark = [pytest.mark.container, pytest.mark.timeout(300)]

client: Any = pytest.importorskip("confluent_kafka")


def test_what_can_happen_to_a_broker_is_seen_in_its_health_and_its_log() -> None:
    with KafkaContainers(brokers=2) as cluster:
        cluster.pause(2)
        assert cluster.health(2) == "paused"
        cluster.unpause(2)
        cluster.wait_healthy(2)

        cluster.stop(1)
        assert cluster.health(1) == "exited"
        assert "[KafkaServer id=1] shut down completed" in cluster.logs(1)
        producer = client.Producer({"bootstrap.servers": cluster.bootstrap_servers})
        producer.produce("orders", b"first")
        assert producer.flush(60) == 0
        cluster.start(1)
        assert cluster.health(1) == "healthy"
        assert len(cluster.bootstrap_servers.split(",")) == 2


def test_a_failure_shows_the_logs_and_a_broker_that_cannot_start_says_why() -> None:
    with (
        pytest.raises(ContainerUnavailable, match=r"KAFKA_NUM_PARTITIONS"),
        KafkaContainers(brokers=1, configs={"num.partitions": "many"}),
    ):
        pytest.fail("it has started")

    with pytest.raises(ZeroDivisionError) as failed:
        fail_in_a_cluster()

    [note] = failed.value.__notes__
    assert "[KafkaServer id=1] started" in note


def fail_in_a_cluster() -> None:
    with KafkaContainers(brokers=1) as cluster:
        assert cluster.health(1) == "healthy"
        raise ZeroDivisionError


def test_an_image_that_is_not_there_is_named() -> None:
    with (
        pytest.raises(ContainerUnavailable, match=r"no-such-image.*docker build"),
        KafkaContainers(brokers=1, image="localhost:1/no-such-image"),
    ):
        pytest.fail("it has started")


def test_the_test_of_the_page_passes(tmp_path: Path) -> None:
    [script] = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(script, str(tmp_path / "page.py"), "exec"), names)

    names["test_records_outlive_a_broker"]()

    assert "KafkaContainers" in names
