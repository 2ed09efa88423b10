"""DescribeClientQuotas and AlterClientQuotas: filters, checks, and what stands in ZooKeeper."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.versioned_messages import request_schema
from replica_manager.server.quota_entities import QuotaChange, altered
from tests.support.broker_world import BrokerWorld
from zkcontroller.zookeeper.requests import Create, Delete
from zkcontroller.zookeeper.znodes import (
    ConfigChangesZnode,
    ConfigChangeZnode,
    ConfigZnode,
    ControllerZnode,
)

DONE = (ErrorCode.none, None)
FAILED = (ErrorCode.unknown_server_error, None)
EXACT, DEFAULT, ANY = 0, 1, 2

Entity = Mapping[str, str | None]


@pytest.fixture
def world(executor: ThreadPoolExecutor) -> BrokerWorld:
    return BrokerWorld(executor)


def refused(message: str) -> tuple[ErrorCode, str]:
    return ErrorCode.invalid_request, message


def alter(
    world: BrokerWorld,
    *entries: tuple[Entity, Mapping[str, float | None]],
    version: int = 1,
    validate_only: bool = False,
) -> list[tuple[ErrorCode, str | None]]:
    """The outcomes; a quota of None is removed."""
    schema = request_schema(ApiKey.ALTER_CLIENT_QUOTAS, version)
    request = schema.request(
        entries=tuple(
            schema.part(
                "EntryData",
                entity=tuple(
                    schema.part("EntityData", entity_type=entity_type, entity_name=name)
                    for entity_type, name in entity.items()
                ),
                ops=tuple(
                    schema.part("OpData", key=key, value=value or 0.0, remove=value is None)
                    for key, value in quotas.items()
                ),
            )
            for entity, quotas in entries
        ),
        validate_only=validate_only,
    )
    response = asyncio.run(world.ask(request))
    return [(entry.error_code, entry.error_message) for entry in response.entries]


def describe(
    world: BrokerWorld,
    *components: tuple[str, int, str | None],
    strict: bool = False,
    version: int = 1,
) -> Any:
    """The whole answer; a component is (entity type, how it matches, name)."""
    schema = request_schema(ApiKey.DESCRIBE_CLIENT_QUOTAS, version)
    request = schema.request(
        components=tuple(
            schema.part("ComponentData", entity_type=entity_type, match_type=how, match=name)
            for entity_type, how, name in components
        ),
        strict=strict,
    )
    return asyncio.run(world.ask(request))


def found(world: BrokerWorld, *components: Any, strict: bool = False) -> set[str]:
    """The entities that are described, by their path."""
    response = describe(world, *components, strict=strict)
    assert response.error_code is ErrorCode.none
    return {
        "/".join(f"{each.entity_type}={each.entity_name}" for each in entry.entity)
        for entry in response.entries
    }


def stored(world: BrokerWorld, entity_path: str) -> dict[str, str] | None:
    path = ConfigZnode.path(entity_path)
    znode = world.znode(path)
    return None if znode is None else dict(ConfigZnode.decode(path, znode.data).config)


def notified(world: BrokerWorld) -> list[str]:
    names = world.session.children(ConfigChangesZnode.PATH)
    assert isinstance(names, list)
    paths = [ConfigChangeZnode.path(name) for name in sorted(names)]
    return [
        ConfigChangeZnode.decode(path, znode.data).entity_path
        for path in paths
        if (znode := world.znode(path)) is not None
    ]


@pytest.mark.parametrize("version", [0, 1])
def test_what_was_altered_is_described(world: BrokerWorld, version: int) -> None:
    quotas = {"producer_byte_rate": 1024.0, "request_percentage": 12.5}

    assert alter(world, ({"user": "alice"}, quotas), version=version) == [DONE]

    [entry] = describe(world, version=version).entries
    assert {value.key: value.value for value in entry.values} == quotas
    assert stored(world, "users/alice") == {
        "producer_byte_rate": "1024",
        "request_percentage": "12.5",
    }
    assert notified(world) == ["users/alice"]


@pytest.mark.parametrize(
    ("entity", "path"),
    [
        ({"user": None}, "users/<default>"),
        ({"client-id": "a b*"}, "clients/a%20b%2A"),
        ({"client-id": None}, "clients/<default>"),
        ({"client-id": "c", "user": "CN=x"}, "users/CN%3Dx/clients/c"),
        ({"user": None, "client-id": None}, "users/<default>/clients/<default>"),
    ],
)
def test_every_kind_of_entity_has_its_place(world: BrokerWorld, entity: Entity, path: str) -> None:
    assert alter(world, (entity, {"consumer_byte_rate": 1.0})) == [DONE]

    assert stored(world, path) == {"consumer_byte_rate": "1"}
    assert notified(world) == [path]
    [described] = describe(world).entries
    assert {each.entity_type: each.entity_name for each in described.entity} == entity


def test_an_address_has_a_quota_of_its_own_kind(world: BrokerWorld) -> None:
    rate = {"connection_creation_rate": 3.0}
    entries: list[tuple[Entity, Mapping[str, float | None]]] = [
        ({"ip": "127.0.0.1"}, rate),
        ({"ip": None}, rate),
        ({"ip": "127.0.0.1"}, {"producer_byte_rate": 3.0}),
        ({"ip": "no such host.invalid"}, rate),
        ({"ip": "127.0.0.1", "user": "alice"}, rate),
    ]

    assert [alter(world, entry) for entry in entries] == [
        [DONE],
        [DONE],
        [refused("Invalid configuration key producer_byte_rate")],
        [refused("no%20such%20host.invalid is not a valid IP or resolvable host.")],
        [
            refused(
                "Invalid quota entity combination, IP entity should not be used with user/client "
                "ID entity."
            )
        ],
    ]
    assert stored(world, "ips/127.0.0.1") == {"connection_creation_rate": "3"}
    assert found(world, ("ip", ANY, None)) == {"ip=127.0.0.1", "ip=None"}
    assert found(world, ("ip", DEFAULT, None), strict=True) == {"ip=None"}
    # One below zero is, for Kafka's rounding, no whole number.
    assert alter(world, ({"ip": "127.0.0.1"}, {"connection_creation_rate": -1.0})) == [
        refused("Configuration connection_creation_rate must be a INT value")
    ]


def test_what_is_no_entity_and_no_quota_is_refused(world: BrokerWorld) -> None:
    rate = {"producer_byte_rate": 1.0}

    assert alter(
        world,
        ({}, rate),
        ({"group": "g"}, rate),
        ({"user": ""}, rate),
        ({"user": "a"}, {"speed": 1.0}),
        ({"user": "b"}, {"producer_byte_rate": 1.5}),
        ({"user": "c"}, {"SCRAM-SHA-256": 1.0}),
        ({"client-id": "d"}, {"connection_creation_rate": 1.0}),
        ({"user": "e"}, {"speed": None, "producer_byte_rate": 2.0}),
    ) == [
        refused("Invalid empty client quota entity"),
        refused("Unhandled client quota entity type: group"),
        refused("Empty user not supported"),
        refused("Invalid configuration key speed"),
        refused("Configuration producer_byte_rate must be a LONG value"),
        FAILED,
        refused("Invalid configuration key connection_creation_rate"),
        DONE,
    ]
    assert notified(world) == ["users/e"]


def test_of_an_entity_that_is_named_twice_the_last_outcome_is_reported(world: BrokerWorld) -> None:
    outcomes = alter(
        world,
        ({"user": "a", "client-id": "b"}, {"speed": 1.0}),
        ({"client-id": "b", "user": "a"}, {"producer_byte_rate": 1.0}),
    )

    assert outcomes == [DONE]


def test_validation_alone_writes_nothing(world: BrokerWorld) -> None:
    outcomes = alter(
        world,
        ({"user": "a"}, {"producer_byte_rate": 1.0}),
        ({"user": "b"}, {"producer_byte_rate": 0.5}),
        validate_only=True,
    )

    assert [error for error, _ in outcomes] == [ErrorCode.none, ErrorCode.invalid_request]
    assert stored(world, "users/a") is None
    assert notified(world) == []


def test_without_a_controller_nothing_is_written(world: BrokerWorld) -> None:
    world.session.write(Delete(ControllerZnode.PATH))
    [(error, _)] = alter(world, ({"user": "a"}, {"producer_byte_rate": 1.0}))

    assert error is ErrorCode.stale_controller_epoch
    assert stored(world, "users/a") is None


def test_a_user_keeps_its_credentials_and_others_may_have_none(world: BrokerWorld) -> None:
    secret = {"SCRAM-SHA-256": "salt=x"}
    for path in ("users/alice", "clients/c"):
        world.session.write(Create(ConfigZnode.path(path), ConfigZnode(secret).encode()))

    rate = {"producer_byte_rate": 1.0}
    assert alter(world, ({"user": "alice"}, rate), ({"client-id": "c"}, rate)) == [DONE, FAILED]
    assert stored(world, "users/alice") == secret | {"producer_byte_rate": "1"}
    [entry] = describe(world).entries
    assert [value.key for value in entry.values] == ["producer_byte_rate"]


def test_who_has_nothing_configured_any_more_is_deleted(world: BrokerWorld) -> None:
    rate, gone = {"producer_byte_rate": 1.0}, {"producer_byte_rate": None}
    alter(world, ({"user": "a", "client-id": "b"}, rate), ({"user": "a"}, rate))
    alter(world, ({"user": "a", "client-id": "c"}, rate), ({"client-id": "d"}, rate))

    assert alter(world, ({"user": "a"}, gone)) == [DONE]
    assert stored(world, "users/a") == {}  # its clients have quotas
    alter(world, ({"user": "a", "client-id": "b"}, gone))
    assert stored(world, "users/a/clients/b") is None
    assert stored(world, "users/a/clients/c") is not None
    alter(world, ({"user": "a", "client-id": "c"}, gone), ({"client-id": "d"}, gone))
    assert world.znode("/config/users/a") is None
    assert stored(world, "clients/d") is None
    assert alter(world, ({"user": "nobody"}, gone)) == [DONE]
    assert notified(world)[-2:] == ["clients/d", "users/nobody"]


@pytest.fixture
def crowd(world: BrokerWorld) -> BrokerWorld:
    """One entity of each kind and name."""
    rate = {"producer_byte_rate": 1.0}
    entities: list[Entity] = [{"user": "u"}, {"user": None}]
    entities += [{"client-id": "c"}, {"client-id": None}]
    entities += [{"user": "u", "client-id": "c"}, {"user": "u", "client-id": None}]
    entities += [{"user": None, "client-id": "c"}]
    assert set(alter(world, *((entity, rate) for entity in entities))) == {DONE}
    alter(world, ({"ip": "127.0.0.1"}, {"connection_creation_rate": 1.0}))
    return world


USERS = {"user=u", "user=None"}
CLIENTS = {"client-id=c", "client-id=None"}
BOTH = {"user=u/client-id=c", "user=u/client-id=None", "user=None/client-id=c"}


@pytest.mark.parametrize(
    ("components", "strict", "expected"),
    [
        ((), False, USERS | CLIENTS | BOTH | {"ip=127.0.0.1"}),
        ((), True, set()),
        ((("user", ANY, None),), False, USERS | BOTH),
        ((("user", ANY, None),), True, USERS),
        ((("user", EXACT, "u"),), True, {"user=u"}),
        ((("user", EXACT, "u"),), False, {"user=u", "user=u/client-id=c", "user=u/client-id=None"}),
        ((("user", DEFAULT, None),), False, {"user=None", "user=None/client-id=c"}),
        ((("client-id", EXACT, "c"),), True, {"client-id=c"}),
        (
            (("client-id", EXACT, "c"),),
            False,
            {"client-id=c", "user=u/client-id=c", "user=None/client-id=c"},
        ),
        ((("user", ANY, None), ("client-id", ANY, None)), True, BOTH),
        ((("user", EXACT, "u"), ("client-id", DEFAULT, None)), False, {"user=u/client-id=None"}),
        ((("user", EXACT, "nobody"),), True, set()),
        ((("ip", EXACT, "127.0.0.1"),), False, {"ip=127.0.0.1"}),
    ],
)
def test_a_filter_lets_through_what_it_says(
    crowd: BrokerWorld, components: Any, strict: bool, expected: set[str]
) -> None:
    assert found(crowd, *components, strict=strict) == expected


@pytest.mark.parametrize(
    ("components", "error", "message"),
    [
        (
            [("user", ANY, None), ("user", ANY, None)],
            ErrorCode.invalid_request,
            "Duplicate user filter component entity type",
        ),
        (
            [("", ANY, None)],
            ErrorCode.invalid_request,
            "Unexpected empty filter component entity type",
        ),
        (
            [("group", ANY, None)],
            ErrorCode.unsupported_version,
            "Custom entity type 'group' not supported",
        ),
        (
            [("ip", ANY, None), ("user", ANY, None)],
            ErrorCode.invalid_request,
            "Invalid entity filter component combination, IP filter component should not be used "
            "with user or clientId filter component.",
        ),
        ([("user", 3, None)], ErrorCode.unknown_server_error, None),
        ([("user", EXACT, None)], ErrorCode.unknown_server_error, None),
    ],
)
def test_a_filter_that_cannot_be_is_refused(
    world: BrokerWorld, components: Any, error: ErrorCode, message: str | None
) -> None:
    response = describe(world, *components)

    assert (response.error_code, response.error_message) == (error, message)
    assert response.entries is None


def test_a_quota_that_is_no_number_fails_the_description(
    world: BrokerWorld, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = ConfigZnode({"producer_byte_rate": "fast"}).encode()
    world.session.write(Create(ConfigZnode.path("users/a"), wrong))

    with caplog.at_level(logging.CRITICAL):
        assert describe(world).error_code is ErrorCode.unknown_server_error
    assert found(world, ("client-id", ANY, None), strict=True) == set()


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("producer_byte_rate", 1e18, "1000000000000000000"),
        ("producer_byte_rate", 0.9999999, "1"),
        ("producer_byte_rate", float(2**63), "9223372036854775807"),
        ("producer_byte_rate", float("nan"), "0"),
        ("request_percentage", 1e7, "1.0E7"),
        ("request_percentage", 200.0, "200.0"),
        ("request_percentage", float("nan"), "NaN"),
        ("controller_mutation_rate", float("inf"), "Infinity"),
    ],
)
def test_numbers_are_written_as_java_writes_them(key: str, value: float, text: str) -> None:
    assert altered("users/a", {}, [QuotaChange(key, value)]) == {key: text}
