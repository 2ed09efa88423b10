"""Every rule about listeners that a broker refuses to start for."""

from __future__ import annotations

import pytest

from kafka_common.errors import ConfigInvalid
from kafka_common.model import Endpoint
from replica_manager.configuration.listeners import (
    Listeners,
    connection_string,
    resolve_listeners,
    with_real_addresses,
)


def resolve(
    listeners: str = "PLAINTEXT://:9092",
    advertised: str | None = None,
    protocol_map: str = "",
    inter_broker: str | None = None,
    security: str | None = None,
    control_plane: str | None = None,
) -> Listeners:
    return resolve_listeners(
        listeners=listeners,
        advertised_listeners=advertised,
        protocol_map=protocol_map,
        inter_broker_listener_name=inter_broker,
        security_inter_broker_protocol=security,
        control_plane_listener_name=control_plane,
    )


TWO = "CLIENT://:9092,INTERNAL://:9093"
TWO_MAP = "CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT"


def test_what_is_bound_is_advertised_unless_something_else_is() -> None:
    assert resolve().advertised == (Endpoint("", 9092, "PLAINTEXT", "PLAINTEXT"),)
    assert resolve(advertised="plaintext://kafka.example:19092").advertised == (
        Endpoint("kafka.example", 19092, "PLAINTEXT", "PLAINTEXT"),
    )


def test_listener_names_are_upper_case_whatever_the_file_says() -> None:
    listeners = resolve(
        TWO.lower(), protocol_map=TWO_MAP.lower(), inter_broker="internal", control_plane="client"
    )

    assert [endpoint.listener_name for endpoint in listeners.bound] == ["CLIENT", "INTERNAL"]
    assert (listeners.inter_broker, listeners.control_plane) == ("INTERNAL", "CLIENT")
    assert listeners.controller_uses == "CLIENT"


def test_without_a_control_plane_the_controller_uses_the_brokers_listener() -> None:
    assert resolve(TWO, protocol_map=TWO_MAP, inter_broker="CLIENT").controller_uses == "CLIENT"


def test_an_ipv6_address_stands_in_brackets() -> None:
    endpoint = resolve("PLAINTEXT://[::1]:9092").bound[0]

    assert endpoint.host == "::1"
    assert connection_string(endpoint) == "PLAINTEXT://[::1]:9092"


def test_an_ipv4_and_an_ipv6_address_may_share_a_port() -> None:
    listeners = resolve(
        "CLIENT://127.0.0.1:9092,INTERNAL://[::1]:9092",
        protocol_map=TWO_MAP,
        inter_broker="INTERNAL",
    )

    assert len(listeners.bound) == 2


def test_several_listeners_may_ask_for_any_port() -> None:
    bound = resolve("CLIENT://:0,INTERNAL://:0", protocol_map=TWO_MAP, inter_broker="CLIENT").bound

    assert [endpoint.port for endpoint in bound] == [0, 0]


def test_advertised_listeners_may_share_a_port() -> None:
    assert resolve(
        TWO,
        advertised="CLIENT://a:1,INTERNAL://b:1",
        protocol_map=TWO_MAP,
        inter_broker="INTERNAL",
    ).advertised


@pytest.mark.parametrize(
    ("arguments", "key", "allowed"),
    [
        ({"listeners": ""}, "listeners", "at least one listener"),
        ({"listeners": "9092"}, "listeners", "NAME://host:port"),
        ({"listeners": "PLAINTEXT://:70000"}, "listeners", "between 0 and 65535"),
        ({"listeners": "PLAINTEXT://:-1"}, "listeners", "between 0 and 65535"),
        ({"listeners": "CLIENT://:9092"}, "listeners", "listener.security.protocol.map"),
        ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "listeners", "different names"),
        (
            {"listeners": "CLIENT://:1,INTERNAL://:1", "protocol_map": TWO_MAP},
            "listeners",
            "different ports",
        ),
        (
            {"listeners": "CLIENT://127.0.0.1:1,INTERNAL://:1", "protocol_map": TWO_MAP},
            "listeners",
            "different ports",
        ),
        ({"protocol_map": "PLAINTEXT"}, "listener.security.protocol.map", "LISTENER:PROTOCOL"),
        (
            {"protocol_map": "PLAINTEXT:TLS"},
            "listener.security.protocol.map",
            "LISTENER:PROTOCOL",
        ),
        ({"inter_broker": "X"}, "inter.broker.listener.name", "listener.security.protocol.map"),
        ({"inter_broker": "SSL"}, "inter.broker.listener.name", "that is advertised: PLAINTEXT"),
        (
            {"inter_broker": "PLAINTEXT", "security": "PLAINTEXT"},
            "inter.broker.listener.name",
            "only one of",
        ),
        ({"security": "SSL"}, "security.inter.broker.protocol", "that is advertised: PLAINTEXT"),
        ({"advertised": "PLAINTEXT://0.0.0.0:9092"}, "advertised.listeners", "route to"),
        (
            {"advertised": "PLAINTEXT://a:1,SSL://a:2"},
            "advertised.listeners",
            "only names that listeners defines",
        ),
        ({"control_plane": "SSL"}, "control.plane.listener.name", "that is advertised"),
        ({"control_plane": "PLAINTEXT"}, "control.plane.listener.name", "another listener"),
    ],
)
def test_a_listener_that_cannot_be_is_refused(
    arguments: dict[str, str], key: str, allowed: str
) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        resolve(**arguments)

    assert refused.value.key == key
    assert allowed in refused.value.allowed


def test_what_is_registered_has_real_ports_and_a_real_host() -> None:
    listeners = resolve("PLAINTEXT://:0")

    assert with_real_addresses(listeners, {"PLAINTEXT": 12345}, "kafka.example") == (
        Endpoint("kafka.example", 12345, "PLAINTEXT", "PLAINTEXT"),
    )
