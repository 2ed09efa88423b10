"""The kit's cluster of containers, as a user's test has it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kafka_common.errors import ContainerUnavailable
from tests.container.page import PAGE
from zkcontroller_testing import KafkaClusterContainer

pytestmark = [pytest.mark.container, pytest.mark.timeout(300)]

client: Any = pytest.importorskip("confluent_kafka")


def test_what_can_happen_to_a_broker_is_seen_in_its_health_and_its_log() -> None:
    with KafkaClusterContainer(brokers=2) as cluster:
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
        KafkaClusterContainer(brokers=1, configs={"num.partitions": "many"}),
    ):
        pytest.fail("it has started")

    with pytest.raises(ZeroDivisionError) as failed:
        fail_in_a_cluster()

    [note] = failed.value.__notes__
    assert "[KafkaServer id=1] started" in note


def fail_in_a_cluster() -> None:
    with KafkaClusterContainer(brokers=1) as cluster:
        assert cluster.health(1) == "healthy"
        raise ZeroDivisionError


def test_an_image_that_is_not_there_is_named() -> None:
    with (
        pytest.raises(ContainerUnavailable, match=r"no-such-image.*docker build"),
        KafkaClusterContainer(brokers=1, image="localhost:1/no-such-image"),
    ):
        pytest.fail("it has started")


SCRIPTS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda text: re.findall(r"def (test_\w+)", text)[0])
def test_the_tests_of_the_page_pass(script: str, tmp_path: Path) -> None:
    file = tmp_path / "test_it.py"
    file.write_text(script)

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        env={
            **{k: v for k, v in os.environ.items() if not k.startswith("PYTEST")},
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        },
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_page_has_two_tests() -> None:
    assert len(SCRIPTS) == 2
