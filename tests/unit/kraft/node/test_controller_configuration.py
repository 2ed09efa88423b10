"""What topics inherit from a configuration of brokers, which may hold any text."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kafka_common.model import ConfigResourceType, OpType
from kraft.controller.cluster_requests import BrokerRegistrationRequest
from kraft.controller.config_schema import ConfigResource
from kraft.controller.configuration_control import ConfigOperation
from kraft.controller.heartbeats import BrokerHeartbeat
from kraft.controller.quorum_controller_requests import (
    CreateTopics,
    IncrementalAlterConfigs,
    ProcessBrokerHeartbeat,
    RegisterBroker,
)
from kraft.controller.topic_requests import CreatableTopic, CreateTopicsRequest
from kraft.metadata.metadata_version import FEATURE_NAME
from kraft.metadata.records import BrokerEndpoint, BrokerFeature
from kraft.node.controller_configuration import BrokerConfigSchema
from tests.support.quorum import CLUSTER_ID
from tests.support.quorum_controllers import Controllers

HOUR_MS = 3_600_000
CONVERTED = ("log.retention.hours", "log.roll.hours", "log.roll.jitter.hours")
NO_INTEGERS = ("abc", "1.5", "0x10", "9999999999", "2147483648", "1 2", "\U0001d7cf")


@pytest.mark.parametrize(
    ("text", "inherited"),
    [("2", 2 * HOUR_MS), (" +2 ", 2 * HOUR_MS), ("-1", -HOUR_MS), ("", 0), ("  ", 0)],
)
def test_hours_are_converted_to_milliseconds(text: str, inherited: int) -> None:
    key = BrokerConfigSchema().key(ConfigResourceType.TOPIC, "retention.ms")
    assert key is not None
    [hours] = [each for each in key.synonyms if each.name == "log.retention.hours"]

    assert hours.convert(text) == str(inherited)


@pytest.mark.parametrize("text", NO_INTEGERS)
def test_what_is_no_integer_counts_as_zero_wherever_a_topic_inherits_it(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    converted = [
        synonym
        for key in BrokerConfigSchema().topic_keys()
        for synonym in key.synonyms
        if synonym.convert is not str
    ]

    assert {synonym.name for synonym in converted} >= set(CONVERTED)
    for synonym in converted:
        assert synonym.convert(text) == "0"
        assert f"{synonym.name}: unable to parse" in caplog.text


async def test_a_broker_value_that_is_no_integer_deposes_no_controller(tmp_path: Path) -> None:
    quorum = Controllers(tmp_path)
    try:
        await quorum.start(1, 2, 3)
        active = await quorum.active()
        leader, ask = quorum.leaders(), quorum.nodes[active].controller.ask
        await register_a_broker(ask)
        brokers = ConfigResource(ConfigResourceType.BROKER, "")
        for key in CONVERTED:
            await ask(IncrementalAlterConfigs({brokers: {key: ConfigOperation(OpType.SET, "abc")}}))

        topics = (CreatableTopic("orders", 1, 1),)
        request = CreateTopicsRequest(topics, False, ("orders",))
        [created] = await ask(CreateTopics(request))

        assert not created.error.is_failure, created
        inherited = {config.name: config.value for config in created.configs}
        assert (inherited["retention.ms"], inherited["segment.ms"]) == ("0", "0")
        assert quorum.leaders() == leader
    finally:
        await quorum.close()


async def register_a_broker(ask: Callable[[Any], Awaitable[Any]]) -> None:
    """Broker 11, which is not fenced."""
    request = BrokerRegistrationRequest(
        11,
        CLUSTER_ID,
        UUID(int=11),
        (BrokerEndpoint("PLAINTEXT", "localhost", 9092, 0),),
        (BrokerFeature(FEATURE_NAME, 1, 21),),
        log_dirs=(UUID(int=(1 << 64) + 11),),
    )
    reply = await ask(RegisterBroker(request))
    assert not (
        await ask(ProcessBrokerHeartbeat(BrokerHeartbeat(11, reply.epoch, 10**6)))
    ).is_fenced
