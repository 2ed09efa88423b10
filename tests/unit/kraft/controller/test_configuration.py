"""Dynamic configurations in a KRaft cluster."""

from collections.abc import Mapping

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.api_error import NO_ERROR, ApiError, ApiException
from kafka_common.model import ConfigResourceType, ConfigSource, OpType
from kraft.controller.config_schema import ALL_BROKERS, ConfigResource
from kraft.controller.configuration_control import ConfigOperation, ConfigurationControlManager
from kraft.controller.snapshot_registry import SnapshotRegistry
from kraft.metadata.records import ConfigRecord
from tests.support.kraft_world import Keys

TOPIC = ConfigResource(ConfigResourceType.TOPIC, "foo")
BROKER = ConfigResource(ConfigResourceType.BROKER, "1")
LOGGER = ConfigResource(ConfigResourceType.BROKER_LOGGER, "1")


class NothingBelowASecond:
    """A policy; remembers what it was shown."""

    def __init__(self) -> None:
        self.shown: list[dict[str, str | None]] = []

    def validate(self, resource: ConfigResource, configs: Mapping[str, str | None]) -> None:
        del resource
        self.shown.append(dict(configs))
        if configs.get("retention.ms") == "1":
            raise ApiException(ErrorCode.policy_violation, "too short")


def only_foo_exists(resource: ConfigResource) -> None:
    if resource.resource_type == ConfigResourceType.TOPIC and resource.name != "foo":
        raise ApiException(ErrorCode.unknown_topic_or_partition, "no such topic")


class Configurations:
    """A manager whose records are replayed at once."""

    def __init__(self) -> None:
        self.registry = SnapshotRegistry()
        self.policy = NothingBelowASecond()
        self.manager = ConfigurationControlManager(
            self.registry,
            Keys(),
            Keys(),
            static_config={"log.retention.minutes": "3"},
            node_id=1,
            existence_checker=only_foo_exists,
            alter_config_policy=self.policy,
        )

    def alter(
        self, resource: ConfigResource, **operations: tuple[OpType, str | None]
    ) -> tuple[ApiError, list[ConfigRecord]]:
        named = {
            key.replace("_", "."): ConfigOperation(*operation)
            for key, operation in operations.items()
        }
        result = self.manager.incremental_alter_configs({resource: named})
        return result.response[resource], self._replay(result.records)

    def replace(
        self, resource: ConfigResource, configs: Mapping[str, str | None]
    ) -> tuple[ApiError, list[ConfigRecord]]:
        result = self.manager.legacy_alter_configs({resource: configs})
        return result.response[resource], self._replay(result.records)

    def _replay(self, records: tuple[object, ...]) -> list[ConfigRecord]:
        replayed = []
        for versioned in records:
            record = getattr(versioned, "record", None)
            assert isinstance(record, ConfigRecord)
            self.manager.replay(record)
            replayed.append(record)
        return replayed


@pytest.fixture
def configs() -> Configurations:
    return Configurations()


def test_an_equal_value_writes_nothing_for_a_topic_but_a_record_for_a_broker(
    configs: Configurations,
) -> None:
    for resource in (TOPIC, BROKER):
        configs.alter(resource, retention_ms=(OpType.SET, "5"))

    assert configs.alter(TOPIC, retention_ms=(OpType.SET, "5")) == (NO_ERROR, [])
    assert configs.alter(TOPIC, cleanup_policy=(OpType.DELETE, None)) == (NO_ERROR, [])
    assert configs.alter(BROKER, retention_ms=(OpType.SET, "5")) == (
        NO_ERROR,
        [ConfigRecord(4, "1", "retention.ms", "5")],
    )


def test_a_deleted_key_is_a_record_without_value(configs: Configurations) -> None:
    configs.alter(TOPIC, retention_ms=(OpType.SET, "5"))

    assert configs.alter(TOPIC, retention_ms=(OpType.DELETE, None)) == (
        NO_ERROR,
        [ConfigRecord(2, "foo", "retention.ms", None)],
    )
    assert configs.manager.configs(TOPIC) == {}


@pytest.mark.parametrize(
    ("before", "op_type", "value", "after"),
    [
        (None, OpType.APPEND, "compact", "delete,compact"),
        (None, OpType.SUBTRACT, "delete", ""),
        ("compact", OpType.APPEND, "compact,delete", "compact,delete"),
        ("compact,delete", OpType.SUBTRACT, "compact", "delete"),
        ("a,,b", OpType.APPEND, "c,,", "a,b,c"),
    ],
)
def test_lists_grow_from_their_default_and_hold_nothing_twice(
    configs: Configurations, before: str | None, op_type: OpType, value: str, after: str
) -> None:
    if before is not None:
        configs.alter(TOPIC, cleanup_policy=(OpType.SET, before))

    assert configs.alter(TOPIC, cleanup_policy=(op_type, value)) == (
        NO_ERROR,
        [ConfigRecord(2, "foo", "cleanup.policy", after)] if before != after else [],
    )


@pytest.mark.parametrize("op_type", [OpType.APPEND, OpType.SUBTRACT])
def test_append_and_subtract_are_for_lists_alone(configs: Configurations, op_type: OpType) -> None:
    assert configs.alter(TOPIC, retention_ms=(op_type, "1")) == (
        (
            ErrorCode.invalid_config,
            f"Can't {op_type.name} to key retention.ms because its type is not LIST.",
        ),
        [],
    )
    assert configs.alter(BROKER, unknown=(op_type, "1"))[0].error is ErrorCode.invalid_config
    assert (
        configs.alter(TOPIC, cleanup_policy=(op_type, None))[0].error is ErrorCode.invalid_request
    )


def test_a_resource_is_changed_as_a_whole_or_not_at_all(configs: Configurations) -> None:
    error, records = configs.alter(
        TOPIC, retention_ms=(OpType.SET, "5"), no_such_key=(OpType.SET, "1")
    )

    assert error.error is ErrorCode.invalid_config
    assert records == []


def test_a_resource_must_exist(configs: Configurations) -> None:
    bar = ConfigResource(ConfigResourceType.TOPIC, "bar")

    assert configs.alter(bar, retention_ms=(OpType.SET, "5"))[0] == (
        ErrorCode.unknown_topic_or_partition,
        "no such topic",
    )
    created = configs.manager.incremental_alter_configs(
        {bar: {"retention.ms": ConfigOperation(OpType.SET, "5")}}, is_newly_created=True
    )
    assert created.response[bar] == NO_ERROR


def test_the_policy_sees_only_the_keys_that_were_named(configs: Configurations) -> None:
    configs.alter(TOPIC, cleanup_policy=(OpType.SET, "compact"))
    configs.policy.shown.clear()

    refused = configs.alter(TOPIC, retention_ms=(OpType.SET, "1"))
    replaced = configs.replace(TOPIC, {"min.insync.replicas": "2"})

    assert refused == ((ErrorCode.policy_violation, "too short"), [])
    assert replaced == (
        NO_ERROR,
        [
            ConfigRecord(2, "foo", "min.insync.replicas", "2"),
            ConfigRecord(2, "foo", "cleanup.policy", None),
        ],
    )
    assert configs.policy.shown == [{"retention.ms": "1"}, {"min.insync.replicas": "2"}]


def test_configurations_are_described_as_of_an_epoch(configs: Configurations) -> None:
    configs.alter(TOPIC, retention_ms=(OpType.SET, "5"), cleanup_policy=(OpType.SET, "compact"))
    configs.registry.get_or_create_snapshot(10)
    configs.alter(TOPIC, retention_ms=(OpType.SET, "6"))

    described = configs.manager.describe_configs(
        10, {TOPIC: [], BROKER: ["retention.ms"], LOGGER: []}
    )
    now = configs.manager.describe_configs(None, {TOPIC: ["retention.ms", "nothing"]})

    assert described == {
        TOPIC: {"retention.ms": "5", "cleanup.policy": "compact"},
        BROKER: {},
        LOGGER: (ErrorCode.invalid_request, "Unknown resource type BROKER_LOGGER"),
    }
    assert now == {TOPIC: {"retention.ms": "6"}}


def test_a_topic_inherits_from_this_node_then_from_all_brokers_then_from_the_static_file(
    configs: Configurations,
) -> None:
    def effective() -> tuple[str | None, ConfigSource]:
        entry = configs.manager.topic_config("foo", "retention.ms")
        return entry.value, entry.source

    seen = [effective()]
    for resource, key, value in (
        (ALL_BROKERS, "log_retention_ms", "4"),
        (BROKER, "log_retention_minutes", "5"),
        (TOPIC, "retention_ms", "6"),
    ):
        configs.alter(resource, **{key: (OpType.SET, value)})
        seen.append(effective())

    assert seen == [
        ("180000", ConfigSource.STATIC_BROKER),
        ("4", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("300000", ConfigSource.DYNAMIC_BROKER),
        ("6", ConfigSource.TOPIC),
    ]
