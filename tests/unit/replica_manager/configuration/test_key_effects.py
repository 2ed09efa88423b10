"""The table of keys against the code: what shall take effect does, and nothing else is read."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import cast

import pytest
from msgspec.structs import replace

import replica_manager
from kafka_common.errors import ConfigInvalid
from kafka_common.net.client_security import PLAINTEXT
from replica_manager.broker.broker_settings import (
    channel_settings,
    controller_settings,
    limits_of,
    zookeeper_settings,
)
from replica_manager.broker.dynamic_config import DynamicConfig
from replica_manager.broker.storage import Storage
from replica_manager.configuration.broker_keys import BROKER_EFFECTS, BROKER_KEYS
from replica_manager.configuration.config import BrokerConfig
from replica_manager.configuration.config_keys import ConfigKey, text_of
from replica_manager.configuration.dynamic_keys import DYNAMIC_IN_KAFKA
from replica_manager.configuration.key_effects import KeyEffectKind, texts_of
from replica_manager.configuration.topic_keys import (
    BROKER_SYNONYMS,
    TOPIC_EFFECTS,
    TOPIC_KEYS,
    TopicConfigRefused,
    validate_topic_config,
)
from replica_manager.coordinators.group_settings import group_settings
from replica_manager.coordinators.transaction_settings import transaction_settings
from replica_manager.log.log_config import LogConfig
from replica_manager.network.broker_links import link_keys
from replica_manager.resizable_executor import ResizableExecutor
from tests.support.broker_world import BrokersSession
from zkcontroller.zookeeper.requests import Create
from zkcontroller.zookeeper.session import ZooKeeperSession
from zkcontroller.zookeeper.znodes import ConfigZnode
from zkcontroller_simulation.zookeeper_server import SimulatedZooKeeper

ROOT = Path(replica_manager.__file__).parent
TABLES = (
    "configuration.broker_keys",
    "configuration.topic_keys",
    "configuration.dynamic_keys",
    "configuration.key_documentation",
    "configuration.key_effects",
)
"""They name keys, and read none."""
ONLY_CHECKED = ("configuration.config", "configuration.reconfiguration")
"""They also look at keys that have no effect: whether their values agree."""
EFFECTIVE = texts_of(BROKER_EFFECTS, KeyEffectKind.EFFECTIVE)
INHERITED = {key for synonyms in BROKER_SYNONYMS.values() for key, _ in synonyms}
ROLES = ("inter.broker.listener.name", "control.plane.listener.name")
"""Names of listeners, which have to be others at the same time."""


def config(**properties: str) -> BrokerConfig:
    dotted = {name.replace("__", "."): value for name, value in properties.items()}
    return BrokerConfig.parse({"zookeeper.connect": "z:1", **dotted})


@cache
def strings_of(module: str) -> frozenset[str]:
    """Every text that stands in the code of a module."""
    tree = ast.parse((ROOT / Path(*module.split("."))).with_suffix(".py").read_text())
    return frozenset(
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def modules() -> list[str]:
    """The modules of a broker."""
    names = (".".join(path.relative_to(ROOT).with_suffix("").parts) for path in ROOT.rglob("*.py"))
    return [name for name in names if not name.startswith("quorum.") and name not in TABLES]


def is_read_in(key: str, module: str) -> bool:
    # The module that asks ZooKeeper puts the first part of its keys before the rest.
    return not strings_of(module).isdisjoint((key, key.removeprefix("zookeeper.")))


@pytest.mark.parametrize("key", sorted(EFFECTIVE.keys() - INHERITED))
def test_an_effective_key_is_read_where_the_table_says(key: str) -> None:
    assert is_read_in(key, EFFECTIVE[key])


def test_a_key_without_effect_is_read_nowhere() -> None:
    read = {
        key: found
        for key in texts_of(BROKER_EFFECTS, KeyEffectKind.WARNED)
        if (
            found := [
                module
                for module in modules()
                if module not in ONLY_CHECKED and key in strings_of(module)
            ]
        )
    }

    # The one is a key of a node of the quorum, the other the end of a key for ZooKeeper's TLS.
    assert read == {
        "sasl.mechanism.controller.protocol": ["security.settings"],
        "ssl.protocol": ["security.zookeeper_tls"],
    }


READERS: Mapping[str, Callable[[BrokerConfig], object]] = {
    "broker.broker_settings": lambda c: (
        limits_of(c),
        controller_settings(c, 1, trace_state_changes=False),
        replace(channel_settings(c, 1, PLAINTEXT)),
        zookeeper_settings(c, (("digest", "a:b"),)),
    ),
    "coordinators.group_settings": lambda c: group_settings(c, 1),
    "coordinators.transaction_settings": lambda c: transaction_settings(c, 1),
    "network.broker_links": lambda c: link_keys(c, {}, "x"),
    "configuration.listeners": lambda c: c.listeners,
}
"""Modules that turn the configuration into the settings of a part, as one function."""

OTHER_VALUES: Mapping[str, str] = {
    "listeners": "PLAINTEXT://:9093",
    "advertised.listeners": "PLAINTEXT://elsewhere:9092",
    "listener.security.protocol.map": "PLAINTEXT:SSL",
    "inter.broker.listener.name": "OTHER",
    "max.connections.per.ip.overrides": "192.0.2.1:5",
    "offsets.topic.compression.codec": "1",
    "offsets.commit.required.acks": "1",
    "log.cleanup.policy": "compact",
    "log.message.timestamp.type": "LogAppendTime",
    "compression.type": "zstd",
    "queued.max.request.bytes": "200000000",
}


def other_value(key: ConfigKey) -> str:
    """A value that is allowed, and is not the default."""
    given = OTHER_VALUES.get(key.name)
    if given is not None:
        return given
    match key.default:
        case bool():
            return str(not key.default).lower()
        case float():
            return str(key.default / 2)
        case int() if key.default > 1_000_000:
            return str(key.default // 2)
        case int():
            return str(key.default + 1)
        case None if key.type_name in ("int", "long"):
            return "12345"
        case other:
            raise AssertionError(f"no other value than {other!r} is known of {key.name}")


@pytest.mark.parametrize(
    "key",
    [key for key, module in EFFECTIVE.items() if module in READERS and key not in ROLES],
)
def test_changing_an_effective_key_changes_what_is_read(key: str) -> None:
    read = READERS[EFFECTIVE[key]]

    changed = config(**{key: other_value(BROKER_KEYS[key])})

    assert read(changed) != read(config())


@pytest.mark.parametrize(
    "key", [key for key in BROKER_SYNONYMS if TOPIC_EFFECTS[key].kind is KeyEffectKind.EFFECTIVE]
)
def test_logs_follow_a_topics_key_and_every_key_of_the_broker_that_it_inherits(key: str) -> None:
    codec = key.split(".")[1] if key.startswith("compression.") and key.endswith("level") else None
    base = {} if codec is None else {"compression.type": codec}

    def log_config(topic: Mapping[str, str], **broker: str) -> LogConfig:
        values = {name: TOPIC_KEYS[name].parse(text) for name, text in topic.items()}
        return LogConfig.of(values, config(**base, **broker).values)

    default = log_config({})

    assert log_config({key: topic_value(key)}) != default
    for broker_key, _ in BROKER_SYNONYMS[key]:
        assert EFFECTIVE[broker_key] in ("log.log_config", "storage", "dynamic_config"), broker_key
        if broker_key == "log.flush.scheduler.interval.ms":
            continue  # inherited as well, but its own purpose is that of the storage
        assert log_config({}, **{broker_key: topic_value(broker_key)}) != default, broker_key


def topic_value(key: str) -> str:
    known = {
        "cleanup.policy": "compact",
        "message.timestamp.type": "LogAppendTime",
        "compression.gzip.level": "7",
        "compression.zstd.level": "7",
        "compression.lz4.level": "7",
        "compression.type": "zstd",
        "retention.bytes": "5000",
        "log.retention.bytes": "5000",
        "log.roll.jitter.hours": "3",
    }
    known |= OTHER_VALUES
    return known.get(key) or other_value(TOPIC_KEYS.get(key) or BROKER_KEYS[key])


@pytest.mark.parametrize("key", sorted(texts_of(BROKER_EFFECTS, KeyEffectKind.REFUSED)))
def test_a_refused_key_is_refused_with_what_is_allowed(key: str) -> None:
    definition = BROKER_KEYS[key]
    value = {"boolean": "true", "list": "broker"}.get(definition.type_name, "org.example.Mine")

    with pytest.raises(ConfigInvalid) as refused:
        config(**{key: value})

    assert refused.value.key == key
    assert BROKER_EFFECTS[key].text in str(refused.value)


@pytest.mark.parametrize("key", sorted(texts_of(TOPIC_EFFECTS, KeyEffectKind.REFUSED)))
def test_a_refused_key_of_a_topic_is_refused(key: str) -> None:
    with pytest.raises(TopicConfigRefused):
        validate_topic_config({key: "true"}, config().values)


def test_every_key_without_effect_is_warned_about_and_no_other_is() -> None:
    warned = texts_of(BROKER_EFFECTS, KeyEffectKind.WARNED)
    texts = {key: text_of(BROKER_KEYS[key].default) or "" for key in warned}
    with_values = {key: text for key, text in texts.items() if _parses(BROKER_KEYS[key], text)}

    [warning] = config(**with_values).warnings

    assert set(warning.partition(": ")[2].split(", ")) == set(with_values)
    assert config(num__io__threads="9", metrics__num__samples="3").warnings == ()


def _parses(key: ConfigKey, text: str) -> bool:
    try:
        key.parse(text)
    except ConfigInvalid:
        return False
    return True


# While the broker runs


READ_ONCE = ("server.group_settings", "server.transaction_settings", "broker_quotas")
"""What these modules read when the broker starts is not asked for again."""


@pytest.mark.parametrize("key", sorted(DYNAMIC_IN_KAFKA & EFFECTIVE.keys()))
def test_no_effective_key_that_can_be_changed_at_run_time_is_read_once(key: str) -> None:
    assert EFFECTIVE[key] not in READ_ONCE


def test_a_dynamic_key_without_effect_is_warned_about_when_it_is_set(
    caplog: pytest.LogCaptureFixture,
) -> None:
    session = BrokersSession(SimulatedZooKeeper())
    session.start()
    dynamic = DynamicConfig(
        cast(ZooKeeperSession, session),
        1,
        config(),
        prepare=lambda *_: None,
        on_broker_config=lambda *_: None,
        on_topic=lambda *_: None,
        on_unclean_topic=lambda _: None,
        on_client=lambda *_: None,
    )
    for entity_path, stored in (
        ("brokers/1", {"log.cleaner.threads": "2", "max.connections": "7"}),
        ("topics/orders", {"preallocate": "true", "retention.ms": "7"}),
    ):
        session.create_missing([ConfigZnode.path(entity_path).rpartition("/")[0]])
        session.write(Create(ConfigZnode.path(entity_path), ConfigZnode(stored).encode()))
        dynamic.entity_changed(entity_path)

    warnings = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert [each.partition(": ")[2] for each in warnings] == ["log.cleaner.threads", "preallocate"]


async def test_what_the_storage_is_configured_for_changes_while_it_runs(tmp_path: Path) -> None:
    current = config(log__dirs=str(tmp_path))
    storage = Storage(1, lambda: current, {}, lambda _: None)
    storage.load()
    storage.start()
    current = current.with_dynamic(
        default={},
        own={
            "background.threads": "12",
            "num.recovery.threads.per.data.dir": "2",
            "producer.id.expiration.ms": "777",
            "log.cleaner.backoff.ms": "5",
            "log.cleaner.dedupe.buffer.size": "4194304",
        },
    )
    storage.broker_changed()

    assert storage.threads == 12
    assert storage.logs.recovery_threads_per_dir == 2
    assert storage.logs.environment.producer_id_expiration_ms() == 777
    assert storage.cleaner_settings == (5, 4194304)
    await storage.stop()


def test_a_pool_takes_further_work_with_another_number_of_threads() -> None:
    pool = ResizableExecutor(1, "pool")
    before = pool.submit(lambda: "before")

    pool.resize(3)

    assert pool.threads == 3
    assert (before.result(), pool.submit(lambda: "after").result()) == ("before", "after")
    pool.shutdown()
    with pytest.raises(RuntimeError, match="shutdown"):
        pool.submit(lambda: "too late")


def test_work_that_was_given_before_a_resize_is_done_before_a_shutdown_ends() -> None:
    pool = ResizableExecutor(1, "pool")
    done: list[int] = []
    for number in range(50):
        pool.submit(done.append, number)
        pool.resize(1 + number % 4)

    pool.shutdown()

    assert sorted(done) == list(range(50))
