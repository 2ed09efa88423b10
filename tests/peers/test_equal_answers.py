"""The same questions to one of our brokers and to Kafka's: the same answers, to the sentence.

A value that breaks a rule is refused by both, with the same code but in words of our own.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from typing import Any, Final

import pytest

from tests.peers.answers import ask, differing, told
from tests.peers.cluster import Cluster

pytestmark = pytest.mark.peers

# Untyped, so that plain numbers do.
alter: Any = import_module("kio.schema.alter_configs.v2.request")
isr: Any = import_module("kio.schema.alter_partition.v3.request")
reassign: Any = import_module("kio.schema.alter_partition_reassignments.v0.request")
create: Any = import_module("kio.schema.create_partitions.v3.request")
describe: Any = import_module("kio.schema.describe_configs.v4.request")
elect: Any = import_module("kio.schema.elect_leaders.v2.request")
incremental: Any = import_module("kio.schema.incremental_alter_configs.v1.request")
listing: Any = import_module("kio.schema.list_partition_reassignments.v0.request")
features: Any = import_module("kio.schema.update_features.v1.request")

# A setting in several units, a key of a plugin, and keys that brokers describe only if set.
FURTHER_PROPERTIES: Final = {
    "log.retention.hours": "24",
    "log.roll.ms": "3600000",
    "a.plugins.own": "secret",
    "listener.name.plaintext.max.connections": "100",
    "listener.name.plaintext.ssl.key.password": "secret",
    "group.share.enable": "false",
}
DESCRIBED: Final = ((2, "orders"), (2, "audit"), (2, "brief"), (4, ""), (4, "1"))

TIMEOUT: Final = timedelta(seconds=15)
TOPIC, BROKER, LOGGER, CLIENT_METRICS = 2, 4, 8, 16
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def partitions(*topics: tuple[str, int, tuple[tuple[int, ...], ...] | None], only: bool) -> Any:
    return create.CreatePartitionsRequest(
        topics=tuple(
            create.CreatePartitionsTopic(
                name=name,
                count=count,
                assignments=given
                and tuple(create.CreatePartitionsAssignment(broker_ids=ids) for ids in given),
            )
            for name, count, given in topics
        ),
        timeout=TIMEOUT,
        validate_only=only,
    )


def changes(
    *resources: tuple[int, str, list[tuple[str, int, str | None]]], only: bool = False
) -> Any:
    return incremental.IncrementalAlterConfigsRequest(
        resources=tuple(
            incremental.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=tuple(
                    incremental.AlterableConfig(name=key, config_operation=how, value=value)
                    for key, how, value in configs
                ),
            )
            for kind, name, configs in resources
        ),
        validate_only=only,
    )


def replacement(*resources: tuple[int, str, dict[str, str | None]], only: bool = False) -> Any:
    return alter.AlterConfigsRequest(
        resources=tuple(
            alter.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=tuple(
                    alter.AlterableConfig(name=key, value=value) for key, value in configs.items()
                ),
            )
            for kind, name, configs in resources
        ),
        validate_only=only,
    )


def description(*resources: tuple[int, str]) -> Any:
    return describe.DescribeConfigsRequest(
        resources=tuple(
            describe.DescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=None
            )
            for kind, name in resources
        ),
        include_synonyms=True,
        include_documentation=False,
    )


def move(*targets: tuple[str, int, tuple[int, ...] | None]) -> Any:
    return reassign.AlterPartitionReassignmentsRequest(
        timeout=TIMEOUT,
        topics=tuple(
            reassign.ReassignableTopic(
                name=topic,
                partitions=(
                    reassign.ReassignablePartition(partition_index=partition, replicas=replicas),
                ),
            )
            for topic, partition, replicas in targets
        ),
    )


def election(kind: int, *topics: tuple[str, tuple[int, ...]]) -> Any:
    named = tuple(elect.TopicPartitions(topic=topic, partitions=those) for topic, those in topics)
    return elect.ElectLeadersRequest(
        election_type=kind, topic_partitions=named or None, timeout=TIMEOUT
    )


def feature(name: str, level: int, kind: int) -> Any:
    return features.UpdateFeaturesRequest(
        timeout=TIMEOUT,
        feature_updates=(
            features.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind),
        ),
        validate_only=False,
    )


QUESTIONS: Final[dict[str, Any]] = {
    "partitions refused": partitions(
        ("none", 2, None),
        ("orders", 1, None),
        ("orders-2", 2, None),
        ("orders-2", 3, None),
        ("audit", 0, None),
        ("brief", 2, ((7,),)),
        only=False,
    ),
    "partitions with wrong assignments": partitions(
        ("orders", 3, ((1,),)), ("audit", 2, ((),)), ("brief", 2, ((1, 1),)), only=True
    ),
    "partitions tried": partitions(("orders", 3, None), only=True),
    "partitions added": partitions(("orders", 3, None), ("audit", 2, ((1,),)), only=False),
    "moves refused": move(
        ("none", 0, (1,)),
        ("orders", 0, ()),
        ("audit", 0, (1, 1)),
        ("brief", 0, (-1,)),
        ("orders-2", 0, (7,)),
    ),
    "moves called off": move(("orders", 0, None), ("none", 0, None)),
    "a move to where it is": move(("orders", 0, (1,))),
    "all moves": listing.ListPartitionReassignmentsRequest(timeout=TIMEOUT, topics=None),
    "preferred elections": election(0, ("orders", (0, 9)), ("none", (0,))),
    "unclean elections": election(1, ("orders", (0, 9))),
    "all elections": election(0),
    "no such election": election(9, ("orders", (0,))),
    "an ISR from a stranger": isr.AlterPartitionRequest(broker_id=5, broker_epoch=1, topics=()),
    "a feature upgraded": feature("f", 2, 1),
    "a feature without a name": feature("", 2, 1),
    "a feature deleted": feature("f", 0, 2),
    "a feature at level 0": feature("f", 0, 1),
    "a feature changed somehow": feature("f", 1, 9),
    "configurations refused": changes(
        (TOPIC, "", [("retention.ms", SET, "1")]),
        (TOPIC, "none", [("retention.ms", SET, "1")]),
        (TOPIC, "orders", [("no.key", SET, "1")]),
        (TOPIC, "audit", [("retention.ms", APPEND, "1")]),
        (TOPIC, "brief", [("retention.ms", SET, None), ("segment.ms", APPEND, None)]),
        (TOPIC, "orders-2", [("segment.ms", SET, "1"), ("segment.ms", DELETE, None)]),
        (3, "x", []),
        (CLIENT_METRICS, "x", []),
        (BROKER, "one", []),
        (BROKER, "2", []),
        (BROKER, "1", [("log.dirs", SET, "/x")]),
        (BROKER, "", [("listeners", SET, "PLAINTEXT://:1")]),
    ),
    "security without a listener": changes(
        (BROKER, "1", [("ssl.keystore.location", SET, "/x")]),
        (BROKER, "", [("ssl.keystore.type", SET, "JKS")]),
    ),
    "a resource twice": changes((BROKER, "", []), (TOPIC, "orders", []), (BROKER, "", [])),
    "contradicting lags": changes(
        (
            TOPIC,
            "orders",
            [("min.compaction.lag.ms", SET, "9"), ("max.compaction.lag.ms", SET, "5")],
        )
    ),
    "an unknown operation on a broker": changes((BROKER, "1", [("max.connections", 7, "1")])),
    "a level of no logger": changes((LOGGER, "1", [("no.such", SET, "INFO")])),
    "no level": changes((LOGGER, "1", [("root", SET, "LOUD")])),
    "a root without a level": changes((LOGGER, "1", [("root", DELETE, None)])),
    "a level added": changes((LOGGER, "1", [("root", APPEND, "INFO")])),
    "levels of nobody": changes((LOGGER, "", [("root", SET, "INFO")])),
    "a level": changes((LOGGER, "1", [("root", SET, "WARN")])),
    "levels that cannot be described": description((LOGGER, ""), (LOGGER, "2"), (LOGGER, "x")),
    "replacements refused": replacement(
        (TOPIC, "none", {"retention.ms": "1"}),
        (TOPIC, "orders", {"no.key": "1"}),
        (TOPIC, "audit", {"retention.ms": None}),
        (BROKER, "1", {"log.dirs": "/x"}),
        (8, "1", {}),
    ),
    "replacements": replacement(
        (TOPIC, "audit", {"retention.ms": "1000", "cleanup.policy": "compact"}),
        (BROKER, "", {"log.retention.ms": "5000", "max.connections": "90"}),
    ),
    "changes": changes(
        (
            TOPIC,
            "orders",
            [
                ("cleanup.policy", APPEND, "compact"),
                ("segment.bytes", SET, "2000"),
                ("leader.replication.throttled.replicas", SET, "0:1"),
            ],
        ),
        (
            BROKER,
            "1",
            [
                ("log.cleanup.policy", APPEND, "compact"),
                ("message.max.bytes", SET, "2000000"),
                ("follower.replication.throttled.rate", SET, "1000"),
                ("a.plugins.key", SET, "x"),
            ],
        ),
    ),
    "changes again": changes((TOPIC, "audit", [("cleanup.policy", SUBTRACT, "compact")])),
    "descriptions refused": description(
        (TOPIC, "none"), (TOPIC, "a/b"), (BROKER, "2"), (BROKER, "x")
    ),
}

REFUSED_IN_OUR_WORDS: Final[dict[str, Any]] = {
    "a topic's value": changes((TOPIC, "orders", [("retention.ms", SET, "soon")])),
    "a topic's range": changes((TOPIC, "orders", [("retention.ms", SET, "-5")])),
    "a broker's value": changes((BROKER, "1", [("max.connections", SET, "many")])),
    "a rate": changes((BROKER, "", [("leader.replication.throttled.rate", SET, "fast")])),
    "too many threads": changes((BROKER, "1", [("num.io.threads", SET, "99")])),
    "no connections": changes((BROKER, "1", [("max.connections.per.ip", SET, "0")])),
}


NOT_ALIKE: Final = frozenset(
    {
        # Two brokers, two places.
        "zookeeper.connect",
        "log.dirs",
    }
)


def live(cluster: Cluster) -> dict[str, Any]:
    """Asks everything; the answers by the questions' names."""
    for topic in ("orders", "orders-2", "audit", "brief"):
        cluster.topic_command(1, "--create", "--topic", topic, "--replica-assignment", "1")
    cluster.wait_until_all_brokers_agree(4)
    responses = {name: told(ask(cluster, request)) for name, request in QUESTIONS.items()}
    for name, request in REFUSED_IN_OUR_WORDS.items():
        [response] = ask(cluster, request)["responses"]
        responses[name] = (response["error_code"], response["error_message"] is None)
    return responses


@pytest.mark.timeout(300)
def test_the_same_questions_get_the_same_answers(new_cluster: Callable[[], Cluster]) -> None:
    ours, kafkas = new_cluster(), new_cluster()
    ours.start_ours(1, FURTHER_PROPERTIES)
    kafkas.start_kafka(1, FURTHER_PROPERTIES)

    our_answers, kafka_answers = live(ours), live(kafkas)

    assert list(our_answers) == list(kafka_answers)
    assert differing(our_answers, kafka_answers) == {}
    for resource in DESCRIBED:
        # A broker applies a new configuration a moment after it is written.
        ours.wait_until(
            lambda resource=resource: (  # type: ignore[misc]
                differing(entries(ours, resource), entries(kafkas, resource)) == {}
            ),
            f"the configuration of {resource} as Kafka tells it",
            timeout_s=20,
        )


def entries(cluster: Cluster, resource: tuple[int, str]) -> dict[str, Any]:
    """The keys of a resource as they are described."""
    [result] = told(ask(cluster, description(resource)))["results"]
    return {entry["name"]: entry for entry in result["configs"] if entry["name"] not in NOT_ALIKE}
