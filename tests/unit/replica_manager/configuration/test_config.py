"""The broker's configuration: what is known, what is refused, what is derived."""

from __future__ import annotations

import difflib
import gzip
from pathlib import Path
from typing import Any

import pytest

from kafka_common.errors import ConfigInvalid
from replica_manager.configuration.broker_keys import BROKER_KEYS
from replica_manager.configuration.config import (
    MOST_SUGGESTIONS,
    BrokerConfig,
    load_config,
    parse_overrides,
)
from replica_manager.configuration.config_keys import text_of
from replica_manager.configuration.topic_keys import (
    BROKER_SYNONYMS,
    TOPIC_KEYS,
    TopicConfigRefused,
    inherited_value,
    validate_topic_config,
)
from tests.support.paths import ROOT

KAFKAS_LOG = ROOT / "tests" / "history" / "data" / "incidents-a" / "broker-1" / "server.log.gz"


def config(**properties: str) -> BrokerConfig:
    """A configuration; ``__`` in a name stands for a dot."""
    given = {name.replace("__", "."): value for name, value in properties.items()}
    return BrokerConfig.parse({"zookeeper.connect": "localhost:2181", **given})


def with_key(key: str, value: str) -> BrokerConfig:
    return BrokerConfig.parse({"zookeeper.connect": "localhost:2181", key: value})


def test_every_key_of_kafka_is_known_and_has_its_default() -> None:
    values = config().values

    assert len(BROKER_KEYS) == 328
    assert values["num.partitions"] == 1
    assert values["socket.request.max.bytes"] == 104_857_600
    assert values["log.flush.interval.messages"] == 2**63 - 1
    assert values["zookeeper.connection.timeout.ms"] is None
    assert values["auto.create.topics.enable"] is True
    assert values["log.cleanup.policy"] == ("delete",)


def test_a_default_fits_its_own_rule() -> None:
    for key in [*BROKER_KEYS.values(), *TOPIC_KEYS.values()]:
        if key.default is not None and key.name not in ("listener.security.protocol.map",):
            text = ",".join(key.default) if isinstance(key.default, tuple) else str(key.default)
            assert key.parse(text) == key.default, key.name


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("num.partitions", "many", "Not a number of type INT"),
        ("num.partitions", "0", "Value must be at least 1"),
        ("num.partitions", "2147483648", "Not a number of type INT"),
        ("num.partitions", "1_000", "Not a number of type INT"),
        ("num.partitions", "9" * 5000, "Not a number of type INT"),
        ("auto.create.topics.enable", "yes", "Expected value to be either true or false"),
        ("log.cleaner.min.cleanable.ratio", "1.5", "Value must be no more than 1"),
        ("log.cleaner.min.cleanable.ratio", "NaN", "Value must be at least 0"),
        ("log.cleaner.min.cleanable.ratio", "0x1p-1", "Not a number of type DOUBLE"),
        ("log.cleanup.policy", "shred", "String must be one of: compact, delete"),
        ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
        ("compression.type", "bzip2", "String must be one of: uncompressed, zstd"),
        ("inter.broker.protocol.version", "9.9", "Version 9.9 is not a valid version"),
        ("inter.broker.protocol.version", "0.10.2", "0.11.0 or newer"),
        ("security.inter.broker.protocol", "TLS", "String must be one of: PLAINTEXT, SSL"),
        ("broker.id", "-2", "not greater than reserved.broker.max.id"),
        ("broker.id", "1001", "not greater than reserved.broker.max.id"),
        ("log.dirs", " , ", "at least one directory"),
        ("log.dirs", "/a,/a", "each directory once"),
        ("max.connections.per.ip", "0", "max.connections.per.ip.overrides"),
        ("max.connections.per.ip.overrides", "127.0.0.1", "host:count"),
        ("replica.selector.class", "org.example.Nearest", "Java selectors cannot be loaded"),
        ("queued.max.request.bytes", "10", "must be larger or equal to socket.request.max.bytes"),
        ("connections.max.idle.ms", "100", "connection.failed.authentication.delay.ms"),
        ("process.roles", "broker", "ZooKeeper-mode"),
        ("controller.listener.names", "CONTROLLER", "must be empty"),
        ("zookeeper.connect", "host:port", "port"),
    ],
)
def test_a_wrong_value_is_refused_with_key_value_and_what_is_allowed(
    key: str, value: str, allowed: str
) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        with_key(key, value)

    assert refused.value.key == key
    assert str(refused.value.value) == value.strip()
    assert allowed in refused.value.allowed


def test_zookeeper_connect_is_required() -> None:
    with pytest.raises(ConfigInvalid, match=r"zookeeper\.connect"):
        BrokerConfig.parse({"broker.id": "1"})


def test_an_unknown_key_costs_one_warning_with_a_guess() -> None:
    warnings = config(log__dir="/d", lisseners="PLAINTEXT://:1", **{"foo": "1"}).warnings

    assert len(warnings) == 2
    assert "'lisseners'" in warnings[0]
    assert "did you mean listeners?" in warnings[0]
    assert "'foo'" in warnings[1]


def test_a_similar_key_is_looked_for_where_few_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look compares with every key there is, and a client may send 100,000 of its own."""
    looks = 0
    get_close_matches = difflib.get_close_matches

    def counted(*arguments: Any, **named: Any) -> list[str]:
        nonlocal looks
        looks += 1
        return get_close_matches(*arguments, **named)

    monkeypatch.setattr(difflib, "get_close_matches", counted)
    unknown = [f"listenersz{number}" for number in range(1_000)]

    warnings = config(**dict.fromkeys(unknown, "1")).warnings

    assert looks == MOST_SUGGESTIONS
    assert [each.split("'")[1] for each in warnings] == unknown
    assert "did you mean listeners?" in warnings[0]
    assert warnings[MOST_SUGGESTIONS].endswith("isn't a known config.")


def test_keys_without_effect_share_one_warning() -> None:
    warnings = config(
        metric__reporters="x", num__io__threads="4", log__preallocate="true", broker__id="1"
    ).warnings

    assert len(warnings) == 1
    assert warnings[0].endswith(": metric.reporters, log.preallocate")


def test_of_the_keys_of_groups_those_of_the_new_protocols_have_no_effect() -> None:
    warnings = config(
        group__max__size="5",
        offsets__retention__minutes="1",
        offset__metadata__max__bytes="9",
        group__consumer__max__size="5",
        group__share__enable="true",
        group__coordinator__threads="2",
    ).warnings

    assert [warning.partition(": ")[2] for warning in warnings] == [
        "group.consumer.max.size, group.share.enable, group.coordinator.threads"
    ]


def test_keys_with_a_listener_prefix_are_known_by_what_follows() -> None:
    properties = {
        "listener.name.internal.ssl.keystore.location": "/k",
        "listener.name.internal.plain.sasl.jaas.config": "x",
        "listener.name.internal.nonsense": "1",
    }
    warnings = BrokerConfig.parse({"zookeeper.connect": "z:1", **properties}).warnings

    assert len(warnings) == 1
    assert "listener.name.internal.nonsense" in warnings[0]


def test_node_id_and_broker_id_are_two_names_for_one_value() -> None:
    assert config(node__id="7").broker_id == 7
    assert config(broker__id="7", node__id="7").values["node.id"] == 7
    with pytest.raises(ConfigInvalid, match=r"same value as broker\.id"):
        config(broker__id="7", node__id="8")


def test_without_generation_a_broker_id_is_needed() -> None:
    with pytest.raises(ConfigInvalid, match=r"broker\.id must be greater than or equal to 0"):
        config(broker__id__generation__enable="false")
    assert config(broker__id__generation__enable="false", broker__id="5000").broker_id == 5000


def test_log_dirs_wins_over_log_dir() -> None:
    assert config(log__dir="/one").log_dirs == (Path("/one"),)
    assert config(log__dir="/one", log__dirs="/two, /three").log_dirs == (
        Path("/two"),
        Path("/three"),
    )


def test_the_connection_timeout_follows_the_session_timeout() -> None:
    assert config(zookeeper__session__timeout__ms="7000").zookeeper_connection_timeout_ms == 7000
    assert config(zookeeper__connection__timeout__ms="9").zookeeper_connection_timeout_ms == 9


@pytest.mark.parametrize(
    ("written", "name"), [("3.9", "3.9-IV0"), ("3.9.1", "3.9-IV0"), ("2.7", "2.7-IV2")]
)
def test_a_release_means_its_newest_protocol(written: str, name: str) -> None:
    assert config(inter__broker__protocol__version=written).inter_broker_version.name == name


def test_overrides_win_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("broker.id=1\nzookeeper.connect=z:2181\nnum.partitions=3\n")

    loaded = load_config(file, parse_overrides(["num.partitions=4", "broker.rack=a=b"]))

    assert loaded.broker_id == 1
    assert loaded.integer("num.partitions") == 4
    assert loaded.text("broker.rack") == "a=b"


def test_an_override_without_a_value_is_refused() -> None:
    with pytest.raises(ConfigInvalid, match="key=value"):
        parse_overrides(["num.partitions"])


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="readable file"):
        load_config(tmp_path / "missing.properties")


def test_dynamic_values_win_over_the_file_and_own_ones_over_the_default() -> None:
    static = config(max__connections="10", num__partitions="2")

    dynamic = static.with_dynamic(
        default={"max.connections": "20", "unclean.leader.election.enable": "true"},
        own={"max.connections": "30", "num.partitions": "9"},
    )

    assert dynamic.integer("max.connections") == 30
    assert dynamic.is_enabled("unclean.leader.election.enable")
    assert dynamic.integer("num.partitions") == 2, "not dynamic"
    assert dynamic.with_dynamic(default={}, own={}).values == static.values


def test_a_wrong_dynamic_value_is_refused() -> None:
    with pytest.raises(ConfigInvalid, match="true or false"):
        config().with_dynamic(default={"unclean.leader.election.enable": "maybe"}, own={})


def test_a_topic_inherits_the_most_exact_synonym_of_the_broker() -> None:
    values = config(log__retention__minutes="2", log__retention__hours="1").values

    assert inherited_value("retention.ms", values) == 120_000
    assert inherited_value("segment.ms", values) == 604_800_000
    assert inherited_value("remote.storage.enable", values) is False
    assert inherited_value("flush.ms", values) == 2**63 - 1
    assert inherited_value("retention.ms", config(log__retention__hours="-1").values) == -1


def test_what_a_topic_inherits_is_the_default_of_topics() -> None:
    values = config().values

    for key in BROKER_SYNONYMS:
        assert inherited_value(key, values) == TOPIC_KEYS[key].default, key


@pytest.mark.parametrize(
    ("topic_config", "why"),
    [
        ({"no.such.key": "1"}, "Unknown topic config name: no.such.key"),
        ({"retention.ms": "-2"}, "at least -1"),
        ({"cleanup.policy": "burn"}, "String must be one of: compact, delete"),
        ({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}, "conflict"),
        ({"remote.storage.enable": "true"}, "Tiered Storage functionality is disabled"),
        ({"remote.log.copy.disable": "true"}, "under Zookeeper's mode"),
        ({"leader.replication.throttled.replicas": "1-2"}, r"\[partitionId\]:\[brokerId\]"),
    ],
)
def test_a_wrong_topic_config_is_refused(topic_config: dict[str, str], why: str) -> None:
    with pytest.raises(TopicConfigRefused, match=why):
        validate_topic_config(topic_config, config().values)


@pytest.mark.parametrize("message_format", ["0.10.2", "0.9.0"])
def test_a_record_format_that_is_not_written_is_refused_where_kafka_would_write_it(
    message_format: str,
) -> None:
    own = {"message.format.version": message_format}
    with pytest.raises(ConfigInvalid, match="older record formats are not written"):
        config(
            log__message__format__version=message_format, inter__broker__protocol__version="3.0-IV0"
        )
    with pytest.raises(TopicConfigRefused, match="older record formats are not written"):
        validate_topic_config(own, config(inter__broker__protocol__version="2.8").values)

    ignored = config(
        log__message__format__version=message_format, inter__broker__protocol__version="3.0"
    )

    assert validate_topic_config(own, ignored.values) == own


def test_a_right_topic_config_is_typed() -> None:
    values = validate_topic_config(
        {
            "cleanup.policy": "compact,delete",
            "retention.ms": "-1",
            "leader.replication.throttled.replicas": "*",
        },
        config().values,
    )

    assert values["cleanup.policy"] == ("compact", "delete")
    assert values["retention.ms"] == -1


def test_a_key_set_at_run_time_replaces_the_same_setting_in_other_units() -> None:
    static = config(log__retention__hours="24")

    dynamic = static.with_dynamic(default={"log.retention.ms": "5"}, own={})
    undone = dynamic.with_dynamic(default={}, own={})

    assert (dynamic.values["log.retention.ms"], dynamic.values["log.retention.hours"]) == (5, 168)
    assert (undone.values["log.retention.ms"], undone.values["log.retention.hours"]) == (None, 24)


def test_what_a_running_broker_cannot_take_over_is_left_out() -> None:
    dynamic = config().with_dynamic(
        default={},
        own={
            "listeners": "PLAINTEXT://:1",
            "listener.name.tls.ssl.keystore.type": "JKS",
            "log.dirs": "/x",
            "num.io.threads": "9",
            "a.plugins.key": "x",
        },
    )

    assert set(dynamic.dynamic_own) == {
        "listeners",
        "listener.name.tls.ssl.keystore.type",
        "num.io.threads",
        "a.plugins.key",
    }
    assert dynamic.values["num.io.threads"] == 9
    assert dynamic.values["log.dirs"] is None
    assert dynamic.listeners.bound[0].port == 1
    assert dynamic.with_dynamic(default={}, own={}).listeners == config().listeners


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (9_999_999.0, "9999999.0"),
        (12_500_000.0, "1.25E7"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (0.0, "0.0"),
        (-2e10, "-2.0E10"),
    ],
)
def test_numbers_are_reported_as_java_writes_them(value: float, text: str) -> None:
    assert text_of(value) == text


def test_the_values_are_printed_as_kafka_prints_them() -> None:
    log = gzip.decompress(KAFKAS_LOG.read_bytes()).decode()
    printed = log.partition("KafkaConfig values: ")[2].partition(" (kafka.server.")[0]

    parsed = BrokerConfig.parse(
        {
            "broker.id": "1",
            "zookeeper.connect": "127.0.0.1:2181/a",
            "listeners": "PLAINTEXT://127.0.0.1:9501",
            "log.dirs": "/var/lib/kafka/1",
            "controlled.shutdown.retry.backoff.ms": "1000",
            "leader.imbalance.check.interval.seconds": "45",
            "replica.lag.time.max.ms": "8000",
            "zookeeper.session.timeout.ms": "6000",
        }
    )

    assert parsed.values_text == f"KafkaConfig values: {printed}"


def test_printed_values_hide_passwords() -> None:
    text = config(ssl__key__password="hush", delegation__token__secret__key="whist").values_text

    assert "\tssl.key.password = [hidden]\n" in text
    assert "\tdelegation.token.secret.key = [hidden]\n" in text
    assert "hush" not in text
    assert "whist" not in text
