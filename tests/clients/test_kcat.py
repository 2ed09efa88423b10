"""kcat: what librdkafka 2.0 makes of our brokers, on the command line."""

from __future__ import annotations

import shutil
import subprocess
import time

import pytest

from tests.clients.conftest import NewTopicName
from tests.integration.broker_processes import wait_for
from zkcontroller_testing import KafkaCluster

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not on the PATH"),
]


def kcat(cluster: KafkaCluster, *arguments: str, stdin: str = "") -> list[str]:
    """The lines that it prints; it must succeed."""
    done = subprocess.run(
        ["kcat", "-b", cluster.bootstrap_servers, *arguments],
        input=stdin, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_records_come_back_as_they_went(
    cluster: KafkaCluster, new_topic: NewTopicName, codec: str
) -> None:
    topic = new_topic()
    lines = [f"key-{number}:value {number} {'x' * 100}" for number in range(100)]

    kcat(
        cluster, "-P", "-t", topic, "-K:", "-z", codec, "-H", "source=test", "-X", "acks=all",
        stdin="".join(line + "\n" for line in lines),
    )  # fmt: skip

    read = kcat(cluster, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", "%k:%s|%h\n")
    assert sorted(read) == sorted(f"{line}|source=test" for line in lines)


def test_offsets_are_found_by_time(cluster: KafkaCluster, new_topic: NewTopicName) -> None:
    topic = new_topic(1)
    before_ms = time.time_ns() // 1_000_000
    kcat(cluster, "-P", "-t", topic, "-X", "acks=all", stdin="one\ntwo\nthree\n")

    def asked(timestamp: int) -> list[str]:
        return kcat(cluster, "-Q", "-t", f"{topic}:0:{timestamp}")

    assert asked(before_ms) == [f"{topic} [0] offset 0"]
    assert asked(-1) == [f"{topic} [0] offset 3"]
    assert asked(-2) == [f"{topic} [0] offset 0"]


def test_a_consumer_group_reads_on_where_it_has_stopped(
    cluster: KafkaCluster, new_topic: NewTopicName
) -> None:
    topic = new_topic(2)
    group = f"group-of-{topic}"

    def write(*values: str) -> None:
        kcat(
            cluster, "-P", "-t", topic, "-X", "acks=all",
            stdin="".join(value + "\n" for value in values),
        )  # fmt: skip

    def read(count: int) -> set[str]:
        return set(
            kcat(
                cluster, "-G", group, topic, "-c", str(count), "-q",
                "-X", "auto.offset.reset=earliest", "-X", "heartbeat.interval.ms=200",
            )
        )  # fmt: skip

    write("one", "two", "three")
    assert read(3) == {"one", "two", "three"}
    write("four", "five")
    assert wait_for(lambda: read(2), "what came since") == {"four", "five"}
