"""Values of configurations that are refused: by our broker and by Kafka's, in the same words."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.peers.kafka_kit_cluster import KafkaKitCluster
from zkcontroller_testing import KafkaCluster

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

_admin: Any = import_module("confluent_kafka.admin")
ConfigEntry: Final = _admin.ConfigEntry
ConfigResource: Final = _admin.ConfigResource
Kind: Final = _admin.ResourceType

VALUES: Final = (
    *("x", "", "true", "1.5", "1,2", "compact,x", " 7 "),
    *("-99", "-1", "0", "2147483648", "99999999999999999999"),
)
OWN_WORDS: Final = {
    # Kafka's are those of Java's exceptions, or of classes that only Java can load.
    *("listener.security.protocol.map", "max.connections.per.ip.overrides", "metric.reporters"),
    *("principal.builder.class", "ssl.engine.factory.class"),
    # What an endpoint looks like is said, too.
    *("advertised.listeners", "listeners"),
}
BY_ZERO: Final = ("log.cleaner.threads", "0")
"""Kafka divides by it: its refusal says no more than that."""

Refusals = dict[tuple[str, str, str], str]


def test_what_is_refused_is_refused_in_kafkas_words(
    start_kit: Callable[..., KafkaCluster],
) -> None:
    ours, kafkas = (refusals(start_kit(kind, 1)) for kind in (KafkaCluster, KafkaKitCluster))

    different = {
        asked: (ours[asked], refusal)
        for asked, refusal in kafkas.items()
        if ours[asked] != refusal and asked[1] not in OWN_WORDS and asked[1:] != BY_ZERO
    }
    assert different == {}
    assert len([refusal for refusal in kafkas.values() if refusal]) > 800
    assert ours["BROKER", *BY_ZERO]


def refusals(cluster: KafkaCluster) -> Refusals:
    """What is said of each value of each key of a topic and of a broker; nothing if it is taken."""
    cluster.create_topic("orders")
    admin = AdminClient({**cluster.client_config()})
    return {
        (kind_of.name, key, value): refusal(admin, ConfigResource(kind_of, name), key, value)
        for kind_of, name in ((Kind.TOPIC, "orders"), (Kind.BROKER, "1"))
        for key in sorted(described(admin, ConfigResource(kind_of, name)))
        for value in VALUES
    }


def described(admin: AdminClient, resource: Any) -> dict[str, Any]:
    found: dict[str, Any] = admin.describe_configs([resource])[resource].result(30)
    return found


def refusal(admin: AdminClient, resource: Any, key: str, value: str) -> str:
    entry = ConfigEntry(key, value, incremental_operation=_admin.AlterConfigOpType.SET)
    asked = ConfigResource(resource.restype, resource.name, incremental_configs=[entry])
    try:
        admin.incremental_alter_configs([asked], validate_only=True)[asked].result(30)
    except KafkaException as refused:
        error = refused.args[0]
        return f"{error.name()} {error.str()}"
    return ""
