"""Feature levels: what may be finalized, and what the log makes of it.

Source of the behaviours: Kafka ``FeatureControlManagerTest``, ``QuorumFeaturesTest``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.errors import IllegalState
from kraft.controller.features import FeatureControlManager, FeatureLevelUpdate, UpgradeType
from kraft.controller.migration_state import ZkMigrationState
from kraft.controller.quorum_features import (
    DISABLED,
    KRAFT_VERSION,
    QuorumFeatures,
    default_feature_map,
    reason_not_supported,
)
from kraft.controller.registrations import VersionRange
from kraft.controller.snapshot_registry import SnapshotRegistry
from kraft.metadata.metadata_version import FEATURE_NAME, from_name
from kraft.metadata.records import FeatureLevelRecord, ZkMigrationStateRecord

FOO = "foo.version"
UPGRADE, SAFE, UNSAFE = (
    UpgradeType.UPGRADE,
    UpgradeType.SAFE_DOWNGRADE,
    UpgradeType.UNSAFE_DOWNGRADE,
)


@dataclass
class Supported:
    """What a cluster of these brokers and controllers supports."""

    brokers: dict[int, dict[str, VersionRange]] = field(default_factory=dict)
    controllers: dict[int, dict[str, VersionRange]] = field(default_factory=dict)

    def broker_supported_features(self) -> list[tuple[int, Mapping[str, VersionRange]]]:
        return list(self.brokers.items())

    def controller_supported_features(self) -> list[tuple[int, Mapping[str, VersionRange]]]:
        return list(self.controllers.items())


NOBODY = Supported()


@pytest.fixture
def registry() -> SnapshotRegistry:
    return SnapshotRegistry()


def features_at(
    registry: SnapshotRegistry,
    version: str,
    *,
    quorum: tuple[int, ...] = (0,),
    **supported: VersionRange,
) -> FeatureControlManager:
    ranges = default_feature_map() | {FOO: VersionRange(0, 3)} | supported
    return FeatureControlManager(
        registry, QuorumFeatures(0, ranges, quorum), version=from_name(version)
    )


def refusal(
    features: FeatureControlManager,
    name: str,
    level: int,
    upgrade_type: UpgradeType = UPGRADE,
    cluster: Supported = NOBODY,
) -> str | None:
    """Why one update is refused; the records of it are checked on the way."""
    result = features.update_features({name: FeatureLevelUpdate(level, upgrade_type)}, cluster)
    error = result.response[name]
    assert result.is_atomic
    if error.is_failure:
        assert error.error is ErrorCode.invalid_update_version
        assert result.records == ()
    else:
        assert result.records == ((FeatureLevelRecord(name, level), 0),)
    return error.message


# ---------------------------------------------------------------------- rules of any feature


def test_a_level_must_be_supported_here(registry: SnapshotRegistry) -> None:
    features = features_at(registry, "3.9")

    assert refusal(features, FOO, 3) is None
    assert "local controller 0 supports versions 0-3" in str(refusal(features, FOO, 4))
    assert "does not know this feature" in str(refusal(features, "bar.version", 1))
    assert "cannot be less than 0" in str(refusal(features, FOO, -1))
    assert "unknown" in str(refusal(features, FOO, 1, UpgradeType.from_code(9)))


def test_a_level_must_be_supported_by_every_broker(registry: SnapshotRegistry) -> None:
    features = features_at(registry, "3.9")
    cluster = Supported(brokers={5: {FOO: VersionRange(1, 3)}, 6: {FOO: VersionRange(1, 2)}})

    assert refusal(features, FOO, 2, cluster=cluster) is None
    assert "broker 6 supports versions 1-2" in str(refusal(features, FOO, 3, cluster=cluster))
    ignorant = Supported(brokers={5: {}})
    assert "broker 5 does not know" in str(refusal(features, FOO, 1, cluster=ignorant))


def test_a_controller_that_has_not_registered_blocks_from_3_7_on(
    registry: SnapshotRegistry,
) -> None:
    quorum = (0, 1)

    old = features_at(registry, "3.6", quorum=quorum)
    assert refusal(old, FOO, 1) is None

    features = features_at(registry, "3.7", quorum=quorum)
    assert "controller 1 has not registered" in str(refusal(features, FOO, 1))
    both = Supported(controllers={0: {}, 1: {FOO: VersionRange(0, 2)}})
    assert refusal(features, FOO, 2, cluster=both) is None
    assert "controller 1 supports versions 0-2" in str(refusal(features, FOO, 3, cluster=both))


def test_the_direction_must_be_named(registry: SnapshotRegistry) -> None:
    features = features_at(registry, "3.9")
    features.replay(FeatureLevelRecord(FOO, 2), 0)

    assert "needs the upgrade type" in str(refusal(features, FOO, 1))
    assert refusal(features, FOO, 1, SAFE) is None
    assert refusal(features, FOO, 1, UNSAFE) is None
    assert "cannot lead to a higher level" in str(refusal(features, FOO, 3, SAFE))
    assert refusal(features, FOO, 2) is None


def test_each_update_has_its_own_verdict_and_validation_writes_nothing(
    registry: SnapshotRegistry,
) -> None:
    features = features_at(registry, "3.9")
    updates = {FOO: FeatureLevelUpdate(1), "bar.version": FeatureLevelUpdate(1)}

    result = features.update_features(updates, NOBODY)
    assert list(result.response) == ["bar.version", FOO]
    assert [error.error for error in result.response.values()] == [
        ErrorCode.invalid_update_version,
        ErrorCode.none,
    ]
    assert [record.record for record in result.records] == [FeatureLevelRecord(FOO, 1)]

    validated = features.update_features(updates, NOBODY, validate_only=True)
    assert validated.response == result.response
    assert validated.records == ()


# ---------------------------------------------------------------------- metadata.version


def test_a_downgrade_that_changes_the_format_is_refused(registry: SnapshotRegistry) -> None:
    features = features_at(registry, "3.9-IV0")

    assert refusal(features, FEATURE_NAME, from_name("3.7-IV2").level, SAFE) is None
    below = from_name("3.7-IV1").level
    assert "could lose metadata" in str(refusal(features, FEATURE_NAME, below, SAFE))
    assert "no unsafe downgrade" in str(refusal(features, FEATURE_NAME, below, UNSAFE))
    assert "needs the upgrade type" in str(refusal(features, FEATURE_NAME, below))


def test_metadata_version_is_at_least_the_first_that_stands_in_the_log(
    registry: SnapshotRegistry,
) -> None:
    features = features_at(registry, "3.3-IV0")

    below = from_name("3.2-IV0").level
    assert "cannot be less than 3.3-IV0" in str(refusal(features, FEATURE_NAME, below, SAFE))


def test_metadata_version_goes_no_further_than_production(registry: SnapshotRegistry) -> None:
    features = features_at(registry, "3.9-IV0")

    assert "supports versions 1-21" in str(refusal(features, FEATURE_NAME, 22))
    unstable = features_at(registry, "3.9-IV0", **default_feature_map(is_unstable_enabled=True))
    assert refusal(unstable, FEATURE_NAME, 22) is None


@pytest.mark.parametrize("state", [ZkMigrationState.PRE_MIGRATION, ZkMigrationState.MIGRATION])
def test_metadata_version_does_not_change_in_a_migration(
    registry: SnapshotRegistry, state: ZkMigrationState
) -> None:
    features = features_at(registry, "3.8")
    features.replay(ZkMigrationStateRecord(state), 0)

    reason = refusal(features, FEATURE_NAME, from_name("3.9").level)
    assert "migration from ZooKeeper is in progress" in str(reason)

    features.replay(ZkMigrationStateRecord(ZkMigrationState.POST_MIGRATION), 0)
    assert refusal(features, FEATURE_NAME, from_name("3.9").level) is None


# ---------------------------------------------------------------------- replay


def test_level_zero_removes_a_feature(registry: SnapshotRegistry) -> None:
    features = features_at(registry, "3.9")
    features.replay(FeatureLevelRecord(FOO, 2), 0)
    registry.get_or_create_snapshot(5)

    features.replay(FeatureLevelRecord(FOO, 0), 0)

    assert features.finalized_features().levels == {FEATURE_NAME: 21}
    assert features.finalized_features(5) == ({FEATURE_NAME: 21, FOO: 2}, 5)


def test_an_unsupported_level_in_the_log_is_fatal(registry: SnapshotRegistry) -> None:
    features = features_at(registry, "3.9")

    with pytest.raises(IllegalState, match="supports versions 0-3"):
        features.replay(FeatureLevelRecord(FOO, 4), 0)
    with pytest.raises(IllegalState, match="supports versions 1-21"):
        features.replay(FeatureLevelRecord(FEATURE_NAME, 22), 0)
    with pytest.raises(IllegalState, match="no such state"):
        features.replay(ZkMigrationStateRecord(9), 0)


def test_a_log_without_version_is_of_the_first_one(registry: SnapshotRegistry) -> None:
    features = FeatureControlManager(registry, QuorumFeatures(0, default_feature_map(), (0,)))

    assert features.metadata_version == from_name("3.0-IV1")
    features.replay(FeatureLevelRecord(FEATURE_NAME, from_name("3.5").level), 0)
    assert features.metadata_version == from_name("3.5")


def test_pre_migration_mode_is_in_the_log(registry: SnapshotRegistry) -> None:
    features = features_at(registry, "3.9")
    assert not features.is_in_pre_migration_mode

    features.replay(ZkMigrationStateRecord(ZkMigrationState.PRE_MIGRATION), 0)

    assert features.is_in_pre_migration_mode
    assert ZkMigrationState.PRE_MIGRATION.to_record() == (ZkMigrationStateRecord(2), 0)


# ---------------------------------------------------------------------- the quorum


def test_a_controller_supports_metadata_versions_and_no_voters_in_the_log() -> None:
    assert default_feature_map() == {FEATURE_NAME: (1, 21)}
    unstable = default_feature_map(is_unstable_enabled=True)
    assert unstable[FEATURE_NAME] == (1, 23)
    assert KRAFT_VERSION not in unstable


def test_why_a_node_does_not_support_a_level() -> None:
    assert reason_not_supported(3, "broker 1", VersionRange(1, 3)) is None
    assert reason_not_supported(4, "broker 1", VersionRange(1, 3)) is not None
    assert "does not know" in str(reason_not_supported(1, "broker 1", DISABLED))
    assert "versions 2 of it" in str(reason_not_supported(1, "broker 1", VersionRange(2, 2)))
