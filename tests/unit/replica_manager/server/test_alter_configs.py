"""AlterConfigs and IncrementalAlterConfigs: operations, checks, and what stands in ZooKeeper."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from cryptography.x509.oid import NameOID
from kio.schema.errors import ErrorCode

from replica_manager.security.acl_cache import AclCache
from replica_manager.security.authorizer import Authorizer
from tests.support.broker_world import BrokerWorld, metadata
from tests.support.certificates import Authority
from zkcontroller.zookeeper.requests import Create, Delete, SetData
from zkcontroller.zookeeper.znodes import (
    ConfigChangesZnode,
    ConfigChangeZnode,
    ConfigZnode,
    ControllerZnode,
    TopicZnode,
)

TOPIC, BROKER, LOGGER, CLIENT_METRICS = 2, 4, 8, 16
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


@pytest.fixture
def world(executor: ThreadPoolExecutor) -> BrokerWorld:
    world = BrokerWorld(executor, num__io__threads="8")
    world.update({"orders": {0: metadata(1)}})
    world.session.write(Create(TopicZnode.path("orders"), b"{}"))
    return world


def store(world: BrokerWorld, entity_path: str, **config: str) -> None:
    named = {name.replace("__", "."): value for name, value in config.items()}
    world.session.write(Create(ConfigZnode.path(entity_path), ConfigZnode(named).encode()))


def stored(world: BrokerWorld, entity_path: str) -> dict[str, str] | None:
    path = ConfigZnode.path(entity_path)
    znode = world.znode(path)
    return None if znode is None else dict(ConfigZnode.decode(path, znode.data).config)


def notified(world: BrokerWorld) -> list[str]:
    """The entities that the notes under /config/changes name, in their order."""
    names = world.session.children(ConfigChangesZnode.PATH)
    assert isinstance(names, list)
    paths = [ConfigChangeZnode.path(name) for name in sorted(names)]
    znodes = [world.znode(path) for path in paths]
    return [
        ConfigChangeZnode.decode(path, znode.data).entity_path
        for path, znode in zip(paths, znodes, strict=True)
        if znode is not None
    ]


def altered(
    world: BrokerWorld,
    *resources: tuple[int, str, dict[str, str | None]],
    version: int = 2,
    validate_only: bool = False,
) -> list[tuple[ErrorCode, str | None]]:
    """AlterConfigs: a resource is (type, name, its whole configuration)."""
    schema: Any = import_module(f"kio.schema.alter_configs.v{version}.request")
    request = schema.AlterConfigsRequest(
        resources=tuple(
            schema.AlterConfigsResource(
                resource_type=resource_type,
                resource_name=name,
                configs=tuple(
                    schema.AlterableConfig(name=key, value=value) for key, value in config.items()
                ),
            )
            for resource_type, name, config in resources
        ),
        validate_only=validate_only,
    )
    return told(world, request)


def changed(
    world: BrokerWorld,
    *resources: tuple[int, str, list[tuple[str, int, str | None]]],
    version: int = 1,
    validate_only: bool = False,
) -> list[tuple[ErrorCode, str | None]]:
    """IncrementalAlterConfigs: a resource is (type, name, [(key, operation, value)])."""
    schema: Any = import_module(f"kio.schema.incremental_alter_configs.v{version}.request")
    request = schema.IncrementalAlterConfigsRequest(
        resources=tuple(
            schema.AlterConfigsResource(
                resource_type=resource_type,
                resource_name=name,
                configs=tuple(
                    schema.AlterableConfig(name=key, config_operation=operation, value=value)
                    for key, operation, value in changes
                ),
            )
            for resource_type, name, changes in resources
        ),
        validate_only=validate_only,
    )
    return told(world, request)


def told(world: BrokerWorld, request: Any) -> list[tuple[ErrorCode, str | None]]:
    response = asyncio.run(world.ask(request))
    assert [(r.resource_type, r.resource_name) for r in response.responses] == [
        (r.resource_type, r.resource_name) for r in request.resources
    ]
    return [(r.error_code, r.error_message) for r in response.responses]


DONE = (ErrorCode.none, None)


@pytest.mark.parametrize("version", range(3))
def test_a_configuration_is_replaced_as_a_whole_and_every_broker_is_notified(
    world: BrokerWorld, version: int
) -> None:
    store(world, "topics/orders", retention__ms="5", segment__bytes="100")

    assert altered(world, (TOPIC, "orders", {"cleanup.policy": "compact"}), version=version) == [
        DONE
    ]

    assert stored(world, "topics/orders") == {"cleanup.policy": "compact"}
    assert notified(world) == ["topics/orders"]


@pytest.mark.parametrize("version", range(2))
def test_single_keys_are_set_and_deleted_and_others_stay(world: BrokerWorld, version: int) -> None:
    store(world, "topics/orders", retention__ms="5", segment__bytes="100")

    assert changed(
        world,
        (TOPIC, "orders", [("retention.ms", SET, "7"), ("segment.bytes", DELETE, None)]),
        version=version,
    ) == [DONE]

    assert stored(world, "topics/orders") == {"retention.ms": "7"}
    assert notified(world) == ["topics/orders"]


def test_a_topic_without_a_configuration_gets_one(world: BrokerWorld) -> None:
    assert changed(world, (TOPIC, "orders", [("retention.ms", SET, "7")])) == [DONE]

    assert stored(world, "topics/orders") == {"retention.ms": "7"}


@pytest.mark.parametrize(
    ("stored_value", "operation", "value", "expected"),
    [
        (None, APPEND, "compact", "delete,compact"),
        ("compact", APPEND, "delete,compact", "compact,delete"),
        ("compact,delete", SUBTRACT, "delete", "compact"),
        (None, SUBTRACT, "compact", "delete"),
    ],
)
def test_lists_grow_and_shrink_from_what_they_are_or_their_default(
    world: BrokerWorld, stored_value: str | None, operation: int, value: str, expected: str
) -> None:
    if stored_value is not None:
        store(world, "topics/orders", cleanup__policy=stored_value)

    assert changed(world, (TOPIC, "orders", [("cleanup.policy", operation, value)])) == [DONE]

    assert stored(world, "topics/orders") == {"cleanup.policy": expected}


def test_validate_only_writes_nothing_and_notifies_no_broker(world: BrokerWorld) -> None:
    assert changed(world, (TOPIC, "orders", [("retention.ms", SET, "7")]), validate_only=True) == [
        DONE
    ]
    assert altered(world, (BROKER, "1", {"max.connections": "5"}), validate_only=True) == [DONE]

    assert stored(world, "topics/orders") is None
    assert stored(world, "brokers/1") is None
    assert notified(world) == []


@pytest.mark.parametrize(
    ("resource", "error", "message"),
    [
        (
            (TOPIC, "", [("retention.ms", SET, "7")]),
            ErrorCode.invalid_request,
            "Default topic resources are not allowed.",
        ),
        (
            (TOPIC, "bills", [("retention.ms", SET, "7")]),
            ErrorCode.unknown_topic_or_partition,
            "The topic 'bills' does not exist.",
        ),
        (
            (TOPIC, "orders", [("no.key", SET, "7")]),
            ErrorCode.invalid_config,
            "Unknown topic config name: no.key",
        ),
        (
            (TOPIC, "orders", [("retention.ms", SET, "soon")]),
            ErrorCode.invalid_config,
            "Invalid config value for resource ConfigResource(type=TOPIC, name='orders'): "
            "Invalid value soon for configuration retention.ms: Not a number of type LONG",
        ),
        (
            (TOPIC, "orders", [("retention.ms", APPEND, "7")]),
            ErrorCode.invalid_config,
            "Config value append is not allowed for config key: retention.ms",
        ),
        (
            (TOPIC, "orders", [("no.key", SUBTRACT, "7")]),
            ErrorCode.invalid_config,
            "Unknown config name: no.key",
        ),
        (
            (TOPIC, "orders", [("retention.ms", 4, "7")]),
            ErrorCode.invalid_request,
            "Unknown operations type 4",
        ),
        (
            (TOPIC, "orders", [("retention.ms", SET, "7"), ("retention.ms", DELETE, None)]),
            ErrorCode.invalid_request,
            "Error due to duplicate config keys",
        ),
        (
            (TOPIC, "orders", [("retention.ms", SET, None), ("segment.ms", APPEND, None)]),
            ErrorCode.invalid_request,
            "Null value not supported for : retention.ms, segment.ms",
        ),
        ((3, "x", []), ErrorCode.invalid_request, "Unknown resource type 3"),
        (
            (CLIENT_METRICS, "x", []),
            ErrorCode.invalid_request,
            "AlterConfigs is only supported for topics and brokers, but resource type is "
            "CLIENT_METRICS",
        ),
        (
            (BROKER, "one", []),
            ErrorCode.invalid_request,
            "Node id must be an integer, but it is: one",
        ),
        *(
            (
                (BROKER, name, [("log.cleaner.threads", SET, "2")]),
                ErrorCode.invalid_request,
                f"Node id must be an integer, but it is: {name}",
            )
            for name in (" 1", "1\n", "0_1", "1" * 5000)
        ),
        (
            (BROKER, "2", []),
            ErrorCode.invalid_request,
            "Unexpected broker id, expected 1, but received 2",
        ),
        (
            (BROKER, "1", [("log.dirs", SET, "/x"), ("broker.id", SET, "2")]),
            ErrorCode.invalid_request,
            "Cannot update these configs dynamically: Set(log.dirs, broker.id)",
        ),
        (
            (BROKER, "1", [("ssl.keystore.location", SET, "/x")]),
            ErrorCode.invalid_request,
            "These security configs can be dynamically updated only per-listener using the "
            "listener prefix: HashSet(ssl.keystore.location)",
        ),
        (
            (BROKER, "", [("listeners", SET, "PLAINTEXT://:1")]),
            ErrorCode.invalid_request,
            "Cannot update these configs at default cluster level, broker id must be specified: "
            "Set(listeners)",
        ),
        (
            (BROKER, "", [("listener.name.tls.ssl.keystore.location", SET, "/x")]),
            ErrorCode.invalid_request,
            "Cannot update these configs at default cluster level, broker id must be specified: "
            "Set(listener.name.tls.ssl.keystore.location)",
        ),
        (
            (BROKER, "1", [("listener.name.plaintext.ssl.client.auth", SET, "none")]),
            ErrorCode.invalid_request,
            "Invalid value org.apache.kafka.common.config.ConfigException: Configs cannot be "
            "updated dynamically for existing listener PLAINTEXT, restart broker or create a new "
            "listener for update for configuration Invalid dynamic configuration",
        ),
        (
            (BROKER, "1", [("listener.name.plaintext.max.connections", SET, "0")]),
            ErrorCode.invalid_request,
            "Invalid value org.apache.kafka.common.config.ConfigException: Invalid "
            "max.connections 0 for configuration Invalid dynamic configuration",
        ),
        (
            (BROKER, "1", [("listener.name.plaintext.ssl.key.password", SET, "s3cret")]),
            ErrorCode.invalid_config,
            "Invalid config value for resource ConfigResource(type=BROKER, name='1'): Password "
            "encoder secret not configured",
        ),
        (
            (BROKER, "1", [("max.connections", SET, "-5")]),
            ErrorCode.invalid_request,
            "Invalid value -5 for configuration max.connections: Value must be at least 0",
        ),
        (
            (BROKER, "", [("leader.replication.throttled.rate", SET, "fast")]),
            ErrorCode.invalid_request,
            "Invalid value fast for configuration leader.replication.throttled.rate: "
            "Not a number of type LONG",
        ),
        (
            (BROKER, "1", [("num.io.threads", SET, "17")]),
            ErrorCode.invalid_request,
            "Invalid value org.apache.kafka.common.config.ConfigException: Dynamic thread count "
            "update validation failed for num.io.threads=17, value should not be greater than "
            "double the current value 8 for configuration Invalid dynamic configuration",
        ),
        (
            (BROKER, "1", [("listener.name.plaintext.num.network.threads", SET, "7")]),
            ErrorCode.invalid_request,
            "Invalid value org.apache.kafka.common.config.ConfigException: Dynamic thread count "
            "update validation failed for num.network.threads=7, value should not be greater than "
            "double the current value 3 for configuration Invalid dynamic configuration",
        ),
        (
            (BROKER, "1", [("num.replica.fetchers", SET, "0")]),
            ErrorCode.invalid_request,
            "Invalid value org.apache.kafka.common.config.ConfigException: Dynamic thread count "
            "update validation failed for num.replica.fetchers=0, value should be at least 1 for "
            "configuration Invalid dynamic configuration",
        ),
        (
            (BROKER, "1", [("log.cleaner.threads", SET, "3")]),
            ErrorCode.invalid_request,
            "Invalid value org.apache.kafka.common.config.ConfigException: Log cleaner threads "
            "cannot be increased to more than double the current value 1 for configuration Invalid "
            "dynamic configuration",
        ),
        (
            (BROKER, "", [("log.cleaner.dedupe.buffer.size", SET, "1048576")]),
            ErrorCode.invalid_request,
            "requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner "
            "thread.",
        ),
        (
            (BROKER, "1", [("log.local.retention.ms", SET, "604800001")]),
            ErrorCode.invalid_request,
            "Invalid value org.apache.kafka.common.config.ConfigException: Invalid value 604800001 "
            "for configuration log.local.retention.ms: Value must not be more than "
            "log.retention.ms property value: 604800000 for configuration Invalid dynamic "
            "configuration",
        ),
        (
            (BROKER, "1", [("log.retention.ms", SET, "0")]),
            ErrorCode.invalid_request,
            "requirement failed: log.retention.ms must be unlimited (-1) or, greater than or equal "
            "to 1",
        ),
        (
            (BROKER, "1", [("log.roll.ms", SET, "0")]),
            ErrorCode.invalid_request,
            "requirement failed: log.roll.ms must be greater than or equal to 1",
        ),
        (
            (BROKER, "1", [("log.roll.jitter.ms", SET, "-1")]),
            ErrorCode.invalid_request,
            "requirement failed: log.roll.jitter.ms must be greater than or equal to 0",
        ),
    ],
)
def test_a_change_that_cannot_be_is_refused_with_kafkas_code(
    world: BrokerWorld,
    resource: tuple[int, str, list[tuple[str, int, str | None]]],
    error: ErrorCode,
    message: str,
) -> None:
    assert changed(world, resource) == [(error, message)]

    assert notified(world) == []


def test_no_key_store_is_read_for_a_client_that_may_not_alter_configurations(
    executor: ThreadPoolExecutor, tmp_path: Path
) -> None:
    authority = Authority()
    location = authority.sign((NameOID.COMMON_NAME, "broker")).write(tmp_path, "store")
    change: list[tuple[str, int, str | None]] = [
        ("listener.name.tls.ssl.keystore.location", SET, str(tmp_path / "another"))
    ]
    world = BrokerWorld(
        executor,
        listeners="TLS://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        listener__security__protocol__map="TLS:SSL,PLAINTEXT:PLAINTEXT",
        listener__name__tls__ssl__keystore__type="PEM",
        listener__name__tls__ssl__keystore__location=str(location),
    )
    may_alter = changed(world, (BROKER, "1", change))
    world.context.authorizer = Authorizer(AclCache({}))
    may_not = changed(world, (BROKER, "1", change))

    [(error, message)] = may_alter
    assert error is ErrorCode.invalid_request
    assert "readable" in str(message)
    assert [code for code, _ in may_not] == [ErrorCode.cluster_authorization_failed]


def test_a_resource_named_twice_is_refused_and_others_are_not(world: BrokerWorld) -> None:
    outcomes = altered(
        world,
        (TOPIC, "orders", {"retention.ms": "1"}),
        (BROKER, "", {"max.connections": "9"}),
        (TOPIC, "orders", {"retention.ms": "2"}),
    )

    twice = (ErrorCode.invalid_request, "Each resource must appear at most once.")
    assert outcomes == [twice, DONE, twice]
    assert stored(world, "topics/orders") is None
    assert notified(world) == ["brokers/<default>"]


def test_a_topic_in_the_cache_that_left_zookeeper_is_unknown(world: BrokerWorld) -> None:
    world.session.write(Delete(TopicZnode.path("orders")))

    assert changed(world, (TOPIC, "orders", [("retention.ms", SET, "7")])) == [
        (ErrorCode.unknown_topic_or_partition, "Topic 'orders' does not exist.")
    ]


def test_a_brokers_own_configuration_and_the_default_are_written(world: BrokerWorld) -> None:
    assert changed(
        world,
        (BROKER, "1", [("log.cleanup.policy", APPEND, "compact"), ("plugin.key", SET, "x")]),
        (BROKER, "", [("follower.replication.throttled.rate", SET, "1000")]),
    ) == [DONE, DONE]

    assert stored(world, "brokers/1") == {"log.cleanup.policy": "delete,compact", "plugin.key": "x"}
    assert stored(world, "brokers/<default>") == {"follower.replication.throttled.rate": "1000"}
    assert notified(world) == ["brokers/1", "brokers/<default>"]


def test_what_may_not_stand_in_a_stored_configuration_is_dropped(world: BrokerWorld) -> None:
    store(world, "brokers/1", log__dirs="/x", max__connections="many", num__io__threads="9")

    assert changed(world, (BROKER, "1", [("message.max.bytes", SET, "5")])) == [DONE]

    assert stored(world, "brokers/1") == {"num.io.threads": "9", "message.max.bytes": "5"}


def test_rules_about_several_keys_hold_for_the_result(world: BrokerWorld) -> None:
    [(error, message)] = changed(world, (BROKER, "1", [("max.connections.per.ip", SET, "0")]))

    assert error is ErrorCode.invalid_request
    assert message is not None
    assert "max.connections.per.ip.overrides" in message
    assert changed(
        world,
        (
            BROKER,
            "1",
            [
                ("max.connections.per.ip", SET, "0"),
                ("max.connections.per.ip.overrides", SET, "192.0.2.1:5"),
            ],
        ),
    ) == [DONE]


def test_a_topics_compaction_lags_must_agree(world: BrokerWorld) -> None:
    store(world, "topics/orders", max__compaction__lag__ms="5")

    assert changed(world, (TOPIC, "orders", [("min.compaction.lag.ms", SET, "9")])) == [
        (
            ErrorCode.invalid_config,
            "conflict topic config setting min.compaction.lag.ms (9) > max.compaction.lag.ms (5)",
        )
    ]


def test_nothing_is_written_without_a_controller_in_zookeeper(world: BrokerWorld) -> None:
    world.session.write(Delete(ControllerZnode.PATH))

    [(error, _)] = changed(world, (TOPIC, "orders", [("retention.ms", SET, "7")]))

    assert error is ErrorCode.stale_controller_epoch
    assert stored(world, "topics/orders") is None
    assert notified(world) == []


def test_nothing_is_written_under_a_kraft_controller(world: BrokerWorld) -> None:
    data = ControllerZnode(3000, 0, kraft_controller_epoch=4).encode()
    world.session.write(SetData(ControllerZnode.PATH, data))

    [(error, _)] = changed(world, (TOPIC, "orders", [("retention.ms", SET, "7")]))

    assert error is ErrorCode.stale_controller_epoch
    assert stored(world, "topics/orders") is None


def test_a_corrupt_configuration_is_an_error_of_the_server(world: BrokerWorld) -> None:
    world.session.write(Create(ConfigZnode.topic_path("orders"), b"{"))

    assert changed(world, (TOPIC, "orders", [("retention.ms", SET, "7")])) == [
        (ErrorCode.unknown_server_error, None)
    ]
    assert altered(world, (TOPIC, "orders", {"retention.ms": "7"})) == [DONE]


# Loggers


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    """A logger below the one of the controller, given back as it was."""
    parent = logging.getLogger("kafka.controller")
    level = parent.level
    parent.setLevel(logging.INFO)
    yield logging.getLogger("kafka.controller.KafkaController")
    logging.getLogger("kafka.controller.KafkaController").setLevel(logging.NOTSET)
    parent.setLevel(level)


def levels(world: BrokerWorld) -> dict[str, str]:
    schema: Any = import_module("kio.schema.describe_configs.v4.request")
    resource = schema.DescribeConfigsResource(
        resource_type=LOGGER, resource_name="1", configuration_keys=None
    )
    request = schema.DescribeConfigsRequest(
        resources=(resource,), include_synonyms=True, include_documentation=True
    )
    [result] = asyncio.run(world.ask(request)).results
    assert {c.config_source for c in result.configs} == {6}
    return {c.name: c.value for c in result.configs}


def test_the_level_of_a_logger_is_set_and_unset(world: BrokerWorld, logger: logging.Logger) -> None:
    name = logger.name
    assert levels(world)[name] == "INFO"

    assert changed(world, (LOGGER, "1", [(name, SET, "ERROR")]), validate_only=True) == [DONE]
    assert levels(world)[name] == "INFO"

    assert changed(world, (LOGGER, "1", [(name, SET, "TRACE")])) == [DONE]
    assert levels(world)[name] == "TRACE"
    assert logger.isEnabledFor(5)

    assert changed(world, (LOGGER, "1", [(name, DELETE, None)])) == [DONE]
    assert levels(world)[name] == "INFO"


@pytest.mark.parametrize(
    ("name", "change", "error", "message"),
    [
        ("", ("root", SET, "INFO"), ErrorCode.invalid_request, "must be an integer"),
        (
            "2",
            ("root", SET, "INFO"),
            ErrorCode.invalid_request,
            "Unexpected node id. Expected 1, but received 2",
        ),
        ("1", ("no.such", SET, "INFO"), ErrorCode.invalid_config, "no.such does not exist!"),
        (
            "1",
            ("root", SET, "LOUD"),
            ErrorCode.invalid_config,
            "Cannot set the log level of root to LOUD as it is not a supported log level. Valid "
            "log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN",
        ),
        (
            "1",
            ("root", DELETE, None),
            ErrorCode.invalid_request,
            "Removing the log level of the root logger is not allowed",
        ),
        (
            "1",
            ("root", APPEND, "INFO"),
            ErrorCode.invalid_request,
            "APPEND operation is not allowed for the BROKER_LOGGER resource",
        ),
        (
            "1",
            ("root", 9, "INFO"),
            ErrorCode.invalid_request,
            "Unknown operation type 9 is not allowed for the BROKER_LOGGER resource",
        ),
        (
            "1",
            ("state.change.logger", SET, "TRACE"),
            ErrorCode.invalid_config,
            "--trace-state-changes",
        ),
    ],
)
def test_a_level_that_cannot_be_is_refused(
    world: BrokerWorld,
    name: str,
    change: tuple[str, int, str | None],
    error: ErrorCode,
    message: str,
) -> None:
    logging.getLogger("state.change.logger")

    [(code, text)] = changed(world, (LOGGER, name, [change]))

    assert code is error
    assert text is not None
    assert message in text


def test_loggers_cannot_be_replaced_as_a_whole(world: BrokerWorld) -> None:
    assert altered(world, (LOGGER, "1", {"root": "INFO"})) == [
        (ErrorCode.invalid_request, "Unknown resource type 8")
    ]
