"""Configurations and topics: our controller describes, alters and refuses them as Kafka's does."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import pytest
from kio.static.primitive import i8, i16, i32, i32Timedelta, i64, u16

from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.versioned_messages import request_schema
from tests.peers.controller_sides import Side, Sides
from tests.peers.quorum_cluster import CLUSTER_ID
from tests.support.config_messages import altered_resources

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

SOON: Final = timedelta(seconds=10)
TOPIC, BROKER, LOGGER, METRICS = 2, 4, 8, 16


# ---------------------------------------------------------------------- configurations


def described(
    sides: Sides, *resources: tuple[int, str], version: int = 4, keys: tuple[str, ...] | None = None
) -> tuple[Any, Any]:
    schema = request_schema(ApiKey.DESCRIBE_CONFIGS, version)
    wanted = tuple(
        schema.part(
            "DescribeConfigsResource",
            resource_type=i8(resource_type),
            resource_name=name,
            configuration_keys=keys,
        )
        for resource_type, name in resources
    )
    asked: dict[str, object] = {"resources": wanted}
    if version >= 1:
        asked["include_synonyms"] = True
    if version >= 3:
        asked["include_documentation"] = False
    return sides.ask(ApiKey.DESCRIBE_CONFIGS, version, **asked)


def altered(
    sides: Sides, *resources: tuple[int, str, str, int, str | None], validate_only: bool = True
) -> tuple[Any, Any]:
    wanted = altered_resources(*resources)
    return sides.ask(
        ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=wanted, validate_only=validate_only
    )


def entries_of(response: Any) -> list[Any]:
    [(_, result)] = response[1]["results"]
    return list(result["configs"])


def test_a_node_tells_the_same_of_every_key(sides: Sides) -> None:
    altered(
        sides,
        (BROKER, "1", "background.threads", 0, "13"),
        (BROKER, "", "log.cleaner.threads", 0, "2"),
        (METRICS, "java", "interval.ms", 0, "1000"),
        validate_only=False,
    )

    def has_been_read(side: Side) -> bool:
        schema = request_schema(ApiKey.DESCRIBE_CONFIGS, 4)
        resource = schema.part(
            "DescribeConfigsResource",
            resource_type=i8(METRICS),
            resource_name="java",
            configuration_keys=None,
        )
        response = side.ask(
            ApiKey.DESCRIBE_CONFIGS,
            4,
            resources=(resource,),
            include_synonyms=False,
            include_documentation=False,
        )
        return bool(response.results[0].configs)

    sides.wait_until(has_been_read)
    for version in range(5):
        kafkas, ours = described(sides, (BROKER, "1"), version=version)
        assert entries_of(ours) == entries_of(kafkas)
        assert len(entries_of(kafkas)) > 300
    for resource in ((BROKER, ""), (METRICS, "java")):
        kafkas, ours = described(sides, resource)
        assert ours == kafkas
        assert entries_of(kafkas)


def test_what_cannot_be_described_is_refused_alike(sides: Sides) -> None:
    kafkas, ours = described(
        sides, (BROKER, "7"), (BROKER, "x"), (TOPIC, "none"), (TOPIC, "a/b"), (TOPIC, ""),
        (LOGGER, ""), (LOGGER, "9"), (LOGGER, "z"), (METRICS, ""),
    )  # fmt: skip
    assert ours == kafkas
    for resources in (((32, "group"),), ((BROKER, "1"), (99, "what"))):
        kafkas, ours = described(sides, *resources)
        assert ours == kafkas


def test_a_logger_is_described_alike(sides: Sides) -> None:
    kafkas, ours = described(sides, (LOGGER, "1"), keys=("root",))

    assert ours == kafkas


def test_what_cannot_be_altered_is_refused_alike(sides: Sides) -> None:
    kafkas, ours = altered(
        sides,
        (BROKER, "55", "background.threads", 0, "13"),
        (BROKER, "x", "background.threads", 0, "13"),
        (BROKER, "-1", "background.threads", 0, "13"),
        (BROKER, "1", "background.threads", 0, "13"),
        (TOPIC, "none", "retention.ms", 0, "1"),
        (TOPIC, "", "retention.ms", 0, "1"),
        (TOPIC, "a/b", "retention.ms", 0, "1"),
        (TOPIC, "other", "no.such.key", 0, "1"),
        (TOPIC, "twice", "retention.ms", 0, "1"),
        (TOPIC, "twice", "retention.ms", 0, "2"),
        (METRICS, "", "interval.ms", 0, "1000"),
        (METRICS, "m", "interval.ms", 0, "1000"),
        (METRICS, "n", "no.such.key", 0, "1000"),
        (METRICS, "o", "interval.ms", 0, "1"),
        (METRICS, "p", "match", 0, "client_age=9"),
        (32, "group", "a", 0, "b"),
        (99, "what", "a", 0, "b"),
    )
    assert ours == kafkas

    kafkas, ours = altered(
        sides,
        (LOGGER, "1", "no.such.logger", 0, "DEBUG"),
        (LOGGER, "1", "root", 0, "LOUD"),
        (LOGGER, "1", "root", 1, None),
        (LOGGER, "1", "root", 2, "INFO"),
        (LOGGER, "x", "root", 0, "INFO"),
        (LOGGER, "1", "root", 0, "INFO"),
    )
    assert ours == kafkas


def test_whole_configurations_are_refused_alike(sides: Sides) -> None:
    schema = request_schema(ApiKey.ALTER_CONFIGS, 2)
    resources = tuple(
        schema.part(
            "AlterConfigsResource",
            resource_type=i8(resource_type),
            resource_name=name,
            configs=(schema.part("AlterableConfig", name="background.threads", value="13"),),
        )
        for resource_type, name in (
            (BROKER, "55"), (BROKER, "1"), (TOPIC, "none"), (LOGGER, "1"), (TOPIC, "twice"),
            (TOPIC, "twice"),
        )
    )  # fmt: skip

    kafkas, ours = sides.ask(ApiKey.ALTER_CONFIGS, 2, resources=resources, validate_only=True)

    assert ours == kafkas


# ---------------------------------------------------------------------- topics

BROKER_ID: Final = 11


def join(side: Side) -> None:
    """A broker registers and is unfenced."""
    schema = request_schema(ApiKey.BROKER_REGISTRATION, 4)
    listener = schema.part(
        "Listener", name="PLAINTEXT", host="localhost", port=u16(9092), security_protocol=i16(0)
    )
    feature = schema.part(
        "Feature",
        name="metadata.version",
        min_supported_version=i16(1),
        max_supported_version=i16(21),
    )
    registered = side.ask(
        ApiKey.BROKER_REGISTRATION,
        4,
        broker_id=i32(BROKER_ID),
        cluster_id=CLUSTER_ID,
        incarnation_id=UUID(int=77),
        listeners=(listener,),
        features=(feature,),
        rack=None,
        is_migrating_zk_broker=False,
        log_dirs=(UUID(int=500),),
        previous_broker_epoch=i64(-1),
    )
    heard = side.ask(
        ApiKey.BROKER_HEARTBEAT,
        1,
        broker_id=i32(BROKER_ID),
        broker_epoch=registered.broker_epoch,
        current_metadata_offset=i64(10**6),
        want_fence=False,
        want_shut_down=False,
        offline_log_dirs=(),
    )
    assert not heard.is_fenced


def created(side: Side, version: int, name: str) -> Any:
    schema = request_schema(ApiKey.CREATE_TOPICS, version)
    topic = schema.part(
        "CreatableTopic",
        name=name,
        num_partitions=i32(2),
        replication_factor=i16(1),
        assignments=(),
        configs=(schema.part("CreatableTopicConfig", name="retention.ms", value="5"),),
    )
    asked: dict[str, object] = {"topics": (topic,), "timeout": i32Timedelta.parse(SOON)}
    if version >= 1:
        asked["validate_only"] = False
    return side.ask(ApiKey.CREATE_TOPICS, version, **asked)


def without_ids(response: Any) -> Any:
    """What a topic is called by itself alone."""
    for _, topic in response[1]["topics"]:
        topic.pop("topic_id", None)
    return response


def test_topics_are_created_described_and_deleted_alike_in_every_version(sides: Sides) -> None:
    for side in (sides.real, sides.ours):
        join(side)
    for version in range(8):
        kafkas, ours = (
            without_ids(side.plain(created(side, version, f"topic-{version}")))
            for side in (sides.real, sides.ours)
        )
        assert ours == kafkas
        assert kafkas[1]["topics"][0][1]["error_code"] == "none"

    def has_been_read(side: Side) -> bool:
        schema = request_schema(ApiKey.DESCRIBE_CONFIGS, 4)
        resource = schema.part(
            "DescribeConfigsResource",
            resource_type=i8(TOPIC),
            resource_name="topic-7",
            configuration_keys=None,
        )
        options = {"include_synonyms": False, "include_documentation": False}
        response = side.ask(ApiKey.DESCRIBE_CONFIGS, 4, resources=(resource,), **options)
        return bool(response.results[0].configs)

    sides.wait_until(has_been_read)
    for version in range(5):
        kafkas, ours = described(sides, (TOPIC, "topic-7"), version=version)
        assert ours == kafkas
        assert len(entries_of(kafkas)) > 30
    for version in range(6):
        kafkas, ours = sides.ask(
            ApiKey.DELETE_TOPICS,
            version,
            topic_names=(f"topic-{version}", "none"),
            timeout=i32Timedelta.parse(SOON),
        )
        assert ours == kafkas
