"""Mutation quotas: the same clients are let pass, refused and told to wait as by a real Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from typing import Any, Final

import pytest

from tests.peers.cluster import Cluster
from zkcontroller.runtime.connection import Connection
from zkcontroller.zookeeper.requests import Create
from zkcontroller.zookeeper.znodes import ConfigChangeZnode, ConfigZnode

pytestmark = pytest.mark.peers

RATE: Final = {"controller_mutation_rate": "1"}
LIMITED: Final = ("clients/strict", "clients/permissive", "users/ANONYMOUS/clients/both")
TIMEOUT: Final = timedelta(seconds=10)


def create(version: int, name: str, count: int) -> Any:
    messages = import_module(f"kio.schema.create_topics.v{version}.request")
    topic = messages.CreatableTopic(
        name=name, num_partitions=count, replication_factor=1, assignments=(), configs=()
    )
    return messages.CreateTopicsRequest(topics=(topic,), timeout=TIMEOUT, validate_only=False)


def grow(version: int, topic: str, count: int) -> Any:
    messages = import_module(f"kio.schema.create_partitions.v{version}.request")
    wanted = messages.CreatePartitionsTopic(name=topic, count=count, assignments=None)
    return messages.CreatePartitionsRequest(topics=(wanted,), timeout=TIMEOUT, validate_only=False)


def delete(version: int, name: str) -> Any:
    messages = import_module(f"kio.schema.delete_topics.v{version}.request")
    if version < 6:
        return messages.DeleteTopicsRequest(topic_names=(name,), timeout=TIMEOUT)
    topic = messages.DeleteTopicState(name=name, topic_id=None)
    return messages.DeleteTopicsRequest(topics=(topic,), timeout=TIMEOUT)


STORY: Final = {
    "a burst passes": ("strict", create(7, "first", 31)),
    "then a topic is refused": ("strict", create(7, "second", 1)),
    "and a deletion": ("strict", delete(6, "first")),
    "and new partitions": ("strict", grow(3, "first", 32)),
    "an old client passes and waits": ("permissive", create(5, "third", 31)),
    "and goes on passing": ("permissive", grow(2, "third", 32)),
    "and deletes": ("permissive", delete(4, "third")),
    "a user's client has a quota too": ("both", create(7, "fourth", 31)),
    "that holds": ("both", create(6, "fifth", 1)),
    "others have none": ("free", create(7, "sixth", 31)),
}


def limit(cluster: Cluster) -> None:
    """Writes the quotas as the tools do, and waits until the broker has heard of each."""
    for entity_path in LIMITED:
        path = ConfigZnode.path(entity_path)
        cluster.session.create_missing([path.rpartition("/")[0]])
        cluster.session.write(Create(path, ConfigZnode(RATE).encode()))
        change = ConfigChangeZnode(entity_path).encode()
        cluster.session.write(Create(ConfigChangeZnode.CREATE_PATH, change, sequential=True))


def tell(cluster: Cluster, client_id: str, request: Any) -> tuple[list[Any], int]:
    """The outcomes, and for how many seconds the client is told to wait, rounded up to tens."""

    async def exchange() -> Any:
        host, _, port = cluster.bootstrap(1).rpartition(":")
        connection = await Connection.open(host, int(port), client_id=client_id)
        try:
            return await connection.request(request)
        finally:
            await connection.close()

    answer = asyncio.run(exchange())
    [result] = next(
        getattr(answer, name)
        for name in ("topics", "responses", "results")
        if hasattr(answer, name)
    )
    waits = -(-answer.throttle_time // timedelta(seconds=10)) * 10
    return [result.error_code.name, getattr(result, "error_message", None)], waits


def live(cluster: Cluster) -> dict[str, Any]:
    cluster.wait_until(lambda: cluster.controller_id() == 1, "a controller")
    return {name: tell(cluster, *question) for name, question in STORY.items()}


@pytest.mark.timeout(300)
def test_quotas_let_pass_refuse_and_delay_alike(new_cluster: Callable[[], Cluster]) -> None:
    ours, kafkas = new_cluster(), new_cluster()
    for cluster in (ours, kafkas):
        cluster.session.create_missing(["/config/changes"])
        limit(cluster)
    ours.start_ours(1)
    kafkas.start_kafka(1)

    our_answers, kafka_answers = live(ours), live(kafkas)

    assert our_answers == kafka_answers
    refused = ["throttling_quota_exceeded", None]
    assert kafka_answers["then a topic is refused"] == (refused, 20)
    assert kafka_answers["an old client passes and waits"] == (["none", None], 20)
    assert kafka_answers["others have none"] == (["none", None], 0)
