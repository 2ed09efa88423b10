"""Brokers with records and consumer groups, and ``zkctl`` beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

import pytest

from tests.integration.broker_processes import wait_for
from tests.support.cli_world import CommandResult, zkctl_here

confluent = pytest.importorskip("confluent_kafka")


FIRST_MS: Final = 1_700_000_000_000


RECORDS: Final = 10
"""In each partition, a second apart."""


class Brokers(Protocol):
    """Brokers of any kind that clients reach."""

    @property
    def bootstrap_servers(self) -> str: ...


def run(cluster: Brokers, *arguments: str) -> CommandResult:
    at = ("-b", cluster.bootstrap_servers)
    return zkctl_here(*at, "-o", "json", "--timeout", "30", *arguments)


def zkctl(cluster: Brokers, *arguments: str) -> Any:
    """What ``zkctl`` says, as JSON."""
    done = run(cluster, *arguments)
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def refused(cluster: Brokers, *arguments: str, exit_code: int = 5) -> str:
    """Why ``zkctl`` does not do it."""
    done = run(cluster, *arguments)
    assert done.exit_code == exit_code, done.stderr
    return done.stderr


def create(cluster: Brokers, topic: str, partitions: int = 2) -> None:
    """A topic with records in every partition."""
    # The records are old: retention would delete them.
    more = ("--partitions", str(partitions), "--config", "retention.ms=-1")
    zkctl(cluster, "topic", "create", topic, *more)
    producer = confluent.Producer({"bootstrap.servers": cluster.bootstrap_servers})
    failures: list[object] = []
    for partition in range(partitions):
        for number in range(RECORDS):
            producer.produce(
                topic, b"value", partition=partition, timestamp=FIRST_MS + 1_000 * number,
                on_delivery=lambda error, _: None if error is None else failures.append(error),
            )  # fmt: skip
    assert producer.flush(30) == 0
    assert failures == []


def consumer_of(cluster: Brokers, group: str, **more: object) -> Any:
    return confluent.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "client.id": "reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **more,
        }
    )


def commit(cluster: Brokers, group: str, topic: str, *offsets: int) -> None:
    """Commits an offset for each partition, as a consumer that has left."""
    consumer = consumer_of(cluster, group)
    consumer.commit(
        offsets=[confluent.TopicPartition(topic, p, offset) for p, offset in enumerate(offsets)],
        asynchronous=False,
    )
    consumer.close()


@contextmanager
def member(cluster: Brokers, group: str, topic: str) -> Iterator[Any]:
    """A member that has its partitions, and leaves at the end."""
    consumer = consumer_of(cluster, group)
    consumer.subscribe([topic])
    try:
        wait_for(lambda: consumer.poll(0.1) and consumer.assignment(), "an assignment")
        yield consumer
    finally:
        consumer.close()


def offsets(cluster: Brokers, group: str, topic: str) -> dict[int, int]:
    """By partition what the group has committed, as another client sees it."""
    consumer = consumer_of(cluster, group)
    try:
        partitions = [confluent.TopicPartition(topic, partition) for partition in (0, 1)]
        found = consumer.committed(partitions, timeout=20)
    finally:
        consumer.close()
    return {each.partition: each.offset for each in found if each.offset >= 0}
