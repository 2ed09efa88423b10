"""Keys of one resource come and go without touching its others."""

from __future__ import annotations

from kafka_common.model import ConfigResourceType, OpType
from kraft.controller.config_schema import ConfigResource
from kraft.controller.configuration_control import ConfigOperation, ConfigurationControlManager
from kraft.controller.snapshot_registry import SnapshotRegistry
from kraft.metadata.records import ConfigRecord
from tests.support.kraft_world import Keys

FOO = ConfigResource(ConfigResourceType.TOPIC, "foo")


def manager() -> ConfigurationControlManager:
    return ConfigurationControlManager(
        SnapshotRegistry(), Keys(), Keys(), static_config={}, node_id=1
    )


def set_keys(configs: ConfigurationControlManager, **values: str | None) -> None:
    for key, value in values.items():
        configs.replay(ConfigRecord(ConfigResourceType.TOPIC, "foo", key.replace("_", "."), value))


def test_the_last_key_that_goes_takes_the_resource_along_and_none_before() -> None:
    configs = manager()
    set_keys(configs, retention_ms="5", cleanup_policy="compact")

    set_keys(configs, retention_ms=None)
    assert configs.configs(FOO) == {"cleanup.policy": "compact"}
    set_keys(configs, cleanup_policy=None)

    assert configs.configs(FOO) == {}
    set_keys(configs, cleanup_policy=None)  # of a resource that has none
    set_keys(configs, retention_ms="6")
    assert configs.configs(FOO) == {"retention.ms": "6"}


def test_lists_are_split_as_java_splits_them() -> None:
    configs = manager()
    seen = []

    for before, added in (("", "a"), ("a", ""), (",", "a"), ("a,", "b,"), ("a", ",")):
        set_keys(configs, cleanup_policy=before)
        result = configs.incremental_alter_configs(
            {FOO: {"cleanup.policy": ConfigOperation(OpType.APPEND, added)}}
        )
        records = [versioned.record for versioned in result.records]
        seen.append([r.value for r in records if isinstance(r, ConfigRecord)])

    assert seen == [["a"], ["a,"], ["a"], ["a,b"], []]


def test_unclean_elections_and_the_least_isr_are_read_as_their_types() -> None:
    configs = manager()

    for text, is_enabled in (("true", True), ("TRUE", True), ("false", False)):
        set_keys(configs, unclean_leader_election_enable=text, min_insync_replicas="3")
        assert configs.is_unclean_leader_election_enabled("foo") is is_enabled
    assert configs.min_in_sync_replicas("foo") == 3
    assert not configs.is_unclean_leader_election_enabled("another")
    assert configs.min_in_sync_replicas("another") == 1
