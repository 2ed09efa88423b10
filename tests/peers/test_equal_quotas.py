"""Mutation quotas: our broker accepts, refuses and throttles the same clients as a real Kafka."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from importlib import import_module
from typing import Any, Final

import pytest

from kafka_common.net.connection import Connection
from tests.peers.answers import answer_to
from tests.peers.cluster import Cluster
from tests.support.kafka_log_shapes import RECORD
from zkcontroller.zookeeper.requests import Create, Znode
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


SCENARIO: Final = {
    "a burst passes": ("strict", create(7, "first", 31)),
    "then a topic is refused": ("strict", create(7, "second", 1)),
    "and a deletion": ("strict", delete(6, "first")),
    "and new partitions": ("strict", grow(3, "first", 32)),
    "an old client passes and waits": ("permissive", create(5, "third", 31)),
    "and goes on passing": ("permissive", grow(2, "third", 35)),
    "and deletes": ("permissive", delete(4, "third")),
    "a user's client has a quota too": ("both", create(7, "fourth", 31)),
    "that holds": ("both", create(6, "fifth", 1)),
    "others have none": ("free", create(7, "sixth", 31)),
}


def limit(cluster: Cluster) -> None:
    """Writes the quotas as the tools do, each with its change notification."""
    for entity_path in LIMITED:
        path = ConfigZnode.path(entity_path)
        cluster.session.create_missing([path.rpartition("/")[0]])
        cluster.session.write(Create(path, ConfigZnode(RATE).encode()))
        change = ConfigChangeZnode(entity_path).encode()
        cluster.session.write(Create(ConfigChangeZnode.CREATE_PATH, change, sequential=True))


def tell(cluster: Cluster, client_id: str, request: Any) -> tuple[list[Any], int]:
    """The error of the response, and the throttle time in seconds, rounded up to tens."""

    async def exchange() -> Any:
        host, _, port = cluster.bootstrap(1).rpartition(":")
        connection = await Connection.open(host, int(port), client_id=client_id)
        try:
            return await connection.request(request)
        finally:
            await connection.close()

    response = asyncio.run(exchange())
    [result] = next(
        getattr(response, name)
        for name in ("topics", "responses", "results")
        if hasattr(response, name)
    )
    waits = -(-response.throttle_time // timedelta(seconds=10)) * 10
    return [result.error_code.name, getattr(result, "error_message", None)], waits


def live(cluster: Cluster) -> dict[str, Any]:
    cluster.wait_until(lambda: cluster.controller_id() == 1, "a controller")
    return {name: tell(cluster, *question) for name, question in SCENARIO.items()}


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


# ---------------------------------------------------------------------- described and altered

Entity = Mapping[str, str | None]
EXACT, DEFAULT, ANY = 0, 1, 2
SPEED: Final = {"producer_byte_rate": 1024.0}
OLD_CREDENTIAL: Final = {"SCRAM-SHA-256": "x"}


def alteration(*entries: tuple[Entity, Mapping[str, float | None]], only: bool = False) -> Any:
    """Quotas by key; None removes one."""
    messages: Any = import_module("kio.schema.alter_client_quotas.v1.request")
    return messages.AlterClientQuotasRequest(
        entries=tuple(
            messages.EntryData(
                entity=tuple(
                    messages.EntityData(entity_type=kind, entity_name=name)
                    for kind, name in entity.items()
                ),
                ops=tuple(
                    messages.OpData(key=key, value=value or 0.0, remove=value is None)
                    for key, value in quotas.items()
                ),
            )
            for entity, quotas in entries
        ),
        validate_only=only,
    )


def filtered(*components: tuple[str, int, str | None], strict: bool = False) -> Any:
    messages: Any = import_module("kio.schema.describe_client_quotas.v1.request")
    return messages.DescribeClientQuotasRequest(
        components=tuple(
            messages.ComponentData(entity_type=kind, match_type=how, match=name)
            for kind, how, name in components
        ),
        strict=strict,
    )


ALTERATIONS: Final = {
    "every kind of entity": alteration(
        ({"user": "alice"}, SPEED),
        ({"user": None}, {"request_percentage": 1e7}),
        ({"client-id": "a b*~"}, {"consumer_byte_rate": 0.9999999}),
        ({"client-id": None}, {"controller_mutation_rate": 0.25}),
    ),
    "of two parts": alteration(
        ({"user": "alice", "client-id": "c"}, SPEED),
        ({"user": "bob", "client-id": "c"}, SPEED),
        ({"user": "bob", "client-id": "d"}, SPEED),
        ({"user": None, "client-id": None}, SPEED),
    ),
    # This test connects from one of them: rates that it does not reach.
    "addresses": alteration(
        ({"ip": "127.0.0.1"}, {"connection_creation_rate": 3000.0}),
        ({"ip": None}, {"connection_creation_rate": 4000.0}),
        ({"ip": "::1"}, {"connection_creation_rate": 5.0}),
        ({"ip": "127.0.0.2"}, SPEED),
    ),
    "no entities": alteration(
        ({}, SPEED),
        ({"group": "g"}, SPEED),
        ({"user": ""}, SPEED),
        ({"ip": "127.0.0.1", "user": "alice"}, SPEED),
    ),
    "no quotas": alteration(
        ({"user": "a"}, {"speed": 1.0}),
        ({"user": "b"}, {"producer_byte_rate": 1.5}),
        ({"user": "c"}, {"SCRAM-SHA-256": 1.0}),
        ({"user": "d"}, {"producer_byte_rate": -1.0}),
    ),
    "odd numbers": alteration(
        ({"user": "large"}, {"producer_byte_rate": 2.0**63}),
        ({"user": "nan"}, {"producer_byte_rate": float("nan")}),
        ({"user": "negative"}, {"request_percentage": -0.5}),
    ),
    "validated only": alteration(({"user": "e"}, SPEED), ({"user": ""}, SPEED), only=True),
    "with a credential": alteration(({"user": "old"}, SPEED), ({"client-id": "old"}, SPEED)),
    "removed": alteration(
        ({"user": "alice"}, {"producer_byte_rate": None}),
        ({"user": "bob", "client-id": "c"}, {"producer_byte_rate": None}),
        ({"user": "nobody"}, {"producer_byte_rate": None, "request_percentage": None}),
    ),
    "removed with the parents": alteration(
        ({"user": "bob", "client-id": "d"}, {"producer_byte_rate": None}),
    ),
}
FULL_CHAPTER: Final = "addresses"
"""After it there is something for every filter."""
EVERYTHING: Final = "everything"
FILTERS: Final = {
    EVERYTHING: filtered(),
    "nothing": filtered(strict=True),
    "users": filtered(("user", ANY, None), strict=True),
    "users and their clients": filtered(("user", ANY, None)),
    "one user": filtered(("user", EXACT, "alice")),
    "the default user alone": filtered(("user", DEFAULT, None), strict=True),
    "both": filtered(("user", ANY, None), ("client-id", ANY, None), strict=True),
    "exactly both": filtered(("user", EXACT, "alice"), ("client-id", EXACT, "c")),
    "a client": filtered(("client-id", EXACT, "a b*~"), strict=True),
    "addresses": filtered(("ip", ANY, None)),
    "one address": filtered(("ip", EXACT, "127.0.0.1"), strict=True),
    "twice": filtered(("client-id", ANY, None), ("client-id", ANY, None)),
    "empty": filtered(("", ANY, None)),
    "unknown": filtered(("group", ANY, None)),
    "mixed": filtered(("ip", ANY, None), ("user", ANY, None)),
    "an odd way to match": filtered(("user", 3, None)),
    "no name": filtered(("user", EXACT, None)),
}


CLOSED: Final = "the connection is closed"


def answered(cluster: Cluster, request: Any) -> Any:
    """The answer; entries, and parts of an entity, in an order of their own."""
    try:
        response = answer_to(cluster, request)
    except OSError:
        return CLOSED
    whole = [getattr(response, name, None) for name in ("error_code", "error_message")]
    entries = None if response.entries is None else sorted(map(_entry, response.entries), key=repr)
    return [*whole, entries]


def _entry(entry: Any) -> Any:
    entity = sorted((each.entity_type, each.entity_name) for each in entry.entity if each)
    values = sorted((each.key, each.value) for each in getattr(entry, "values", ()))
    told = [getattr(entry, name, None) for name in ("error_code", "error_message")]
    return [[list(map(str, part)) for part in entity], values, told]


def standing(cluster: Cluster) -> dict[str, bytes | None]:
    """Every znode of users, client ids and addresses, and the notes of changes."""
    found: dict[str, bytes | None] = {}
    paths = [f"/config/{name}" for name in ("changes", "clients", "ips", "users")]
    while paths:
        path = paths.pop()
        znode = cluster.session.read(path)
        assert isinstance(znode, Znode), path
        found[path] = znode.data
        names = cluster.session.children(path)
        assert isinstance(names, list)
        paths += [f"{path}/{name}" for name in names]
    return found


def quota_lines(lines: list[str]) -> list[str]:
    """What the log says about quotas; a negative one is refused here, and counts there."""
    records = [record for line in lines if (record := RECORD.fullmatch(line)) is not None]
    return [
        "{level} {message} ({logger})".format(**record.groupdict())
        for record in records
        if re.fullmatch(r"kafka\.(server|network)\.\w*Quota\w*", record["logger"])
        and "negative" not in record["message"]
    ]


@pytest.mark.timeout(300)
def test_quotas_are_altered_and_described_alike(new_cluster: Callable[[], Cluster]) -> None:
    ours, kafkas = new_cluster(), new_cluster()
    brokers = (ours.start_ours(1), kafkas.start_kafka(1))
    told: dict[str, list[Any]] = {}
    for cluster in (ours, kafkas):
        cluster.wait_until(lambda: cluster.controller_id() == 1, "a controller")  # noqa: B023
        for path in ("users/old", "clients/old"):
            data = ConfigZnode(OLD_CREDENTIAL).encode()
            cluster.session.write(Create(ConfigZnode.path(path), data))

    for chapter, request in ALTERATIONS.items():
        told[chapter] = [answered(cluster, request) for cluster in (ours, kafkas)]
        for name, question in FILTERS.items():
            if chapter == FULL_CHAPTER or name == EVERYTHING:
                said = [answered(cluster, question) for cluster in (ours, kafkas)]
                if said[1] == CLOSED != said[0]:
                    # Kafka answers so now and then, to a question that it answers otherwise.
                    said[1] = answered(kafkas, question)
                told[f"{name} after {chapter}"] = said
        told[f"znodes after {chapter}"] = [standing(cluster) for cluster in (ours, kafkas)]

    for broker in brokers:
        broker.stop()
    told["lines"] = [quota_lines(broker.log_lines("server.log")) for broker in brokers]

    differences = {name: said for name, said in told.items() if said[0] != said[1]}
    assert differences == {}
    assert len(told["lines"][0]) > 50
    [everything, _] = told["everything after every kind of entity"]
    assert len(everything[2]) == 4
    [last, _] = told["znodes after removed with the parents"]
    assert "/config/users/bob" not in last
    assert "/config/users/alice/clients/c" in last
