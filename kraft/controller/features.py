"""Finalized feature levels of a KRaft cluster, and the rules for updates.

A level is *finalized* when it is in the log.  For clients metadata.version is a feature like the
others.  But it determines which records may be written, so it has additional rules.

Source: Kafka ``FeatureControlManager`` (KIP-584, KIP-778).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Final, NamedTuple, Protocol, assert_never

from kio.schema.errors import ErrorCode

from kafka_common.api_error import NO_ERROR, ApiError
from kafka_common.errors import IllegalState, UnsupportedVersion
from kraft.controller.migration_state import ZkMigrationState
from kraft.controller.quorum_features import (
    DISABLED,
    QuorumFeatures,
    reason_not_supported,
)
from kraft.controller.registrations import VersionRange
from kraft.controller.result import BoundedRecords, ControllerResult, VersionedRecord
from kraft.controller.snapshot_registry import SnapshotRegistry
from kraft.controller.timeline import TimelineDict, TimelineValue
from kraft.metadata import metadata_version
from kraft.metadata.metadata_version import FEATURE_NAME, MetadataVersion
from kraft.metadata.records import FeatureLevelRecord, ZkMigrationStateRecord


class UpgradeType(IntEnum):
    """The direction that an update allows, with the numbers of UpdateFeatures."""

    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3

    @classmethod
    def from_code(cls, code: int) -> UpgradeType:
        """The upgrade type with that number in the request; UNKNOWN for any other number."""
        return cls(code) if code in cls._value2member_map_ else cls.UNKNOWN


class FeatureLevelUpdate(NamedTuple):
    """A requested feature level; level 0 removes the feature."""

    level: int
    upgrade_type: UpgradeType = UpgradeType.UPGRADE


class ClusterFeatureSupport(Protocol):
    """The feature ranges that registered nodes support; see ``ClusterControlManager``.

    Source: Kafka ``ClusterFeatureSupportDescriber``.
    """

    def broker_supported_features(self) -> Iterable[tuple[int, Mapping[str, VersionRange]]]:
        """Each registered broker's id and supported ranges, by feature."""

    def controller_supported_features(self) -> Iterable[tuple[int, Mapping[str, VersionRange]]]:
        """Each registered controller's id and supported ranges; only from 3.7-IV0 on."""


NEVER_CHANGED: Final = -1


class FinalizedControllerFeatures(NamedTuple):
    """Finalized feature levels, and the epoch (offset) at which they were read.

    If ``epoch`` is None, the levels include uncommitted records.  In a response ``epoch`` is the
    offset of the last change.
    """

    levels: Mapping[str, int]
    epoch: int | None


class FeatureControlManager:
    """The finalized features and the state of a migration from ZooKeeper."""

    def __init__(
        self,
        registry: SnapshotRegistry,
        quorum_features: QuorumFeatures,
        *,
        version: MetadataVersion = metadata_version.MINIMUM_KRAFT_VERSION,
        minimum_bootstrap_version: MetadataVersion = metadata_version.MINIMUM_BOOTSTRAP_VERSION,
    ) -> None:
        self.quorum_features = quorum_features
        self._logger = registry.logger("FeatureControlManager")
        self._minimum_bootstrap_version = minimum_bootstrap_version
        self._finalized: TimelineDict[str, int] = TimelineDict(registry)
        # A log from before Kafka 3.3 has no record of its metadata.version.
        self._version: TimelineValue[MetadataVersion] = TimelineValue(registry, version)
        self._changed_at = TimelineValue(registry, NEVER_CHANGED)
        self._migration_state: TimelineValue[ZkMigrationState] = TimelineValue(
            registry, ZkMigrationState.NONE
        )

    @property
    def metadata_version(self) -> MetadataVersion:
        """The version at which records are written now."""
        return self._version.get()

    @property
    def zk_migration_state(self) -> ZkMigrationState:
        """The current state of the migration from ZooKeeper."""
        return self._migration_state.get()

    @property
    def is_in_pre_migration_mode(self) -> bool:
        """Whether a migration is prepared but has not begun; most writes are refused until then."""
        return self.zk_migration_state is ZkMigrationState.PRE_MIGRATION

    def is_controller_id(self, node_id: int) -> bool:
        """Whether the node is a member of the quorum."""
        return self.quorum_features.is_controller_id(node_id)

    def finalized_features(self, epoch: int | None = None) -> FinalizedControllerFeatures:
        """Every finalized level, with metadata.version, at offset ``epoch`` or now (None)."""
        levels = {FEATURE_NAME: self._version.get(epoch=epoch).level}
        levels.update(self._finalized.items(epoch=epoch))
        return FinalizedControllerFeatures(levels, epoch)

    def changed_at(self, epoch: int) -> int:
        """The offset of the last level change up to ``epoch``; ``NEVER_CHANGED`` without one.

        It is the offset of the record, or of the end of its transaction or snapshot.  Kafka reports
        the offset that it had read when it published the change; after a restart that is a higher
        one (``FeaturesPublisher``).
        """
        return self._changed_at.get(epoch=epoch)

    def state_records(self, epoch: int) -> Iterator[VersionedRecord]:
        """A record for every level at offset ``epoch``; that of metadata.version comes first."""
        version = self.metadata_version_at(epoch)
        if version.is_feature_level_record_supported:
            yield VersionedRecord(FeatureLevelRecord(FEATURE_NAME, version.level), 0)
        for name, level in self._finalized.items(epoch=epoch):
            if not version.is_feature_level_record_supported:
                version.refuse_loss(f"the level of {name}")
            yield VersionedRecord(FeatureLevelRecord(name, level), 0)
        state = self._migration_state.get(epoch=epoch)
        if version.is_migration_supported:
            yield state.to_record()
        elif state is not ZkMigrationState.NONE:
            version.refuse_loss("the state of the migration")

    def metadata_version_at(self, epoch: int) -> MetadataVersion:
        """The metadata.version at offset ``epoch``."""
        return self._version.get(epoch=epoch)

    # ------------------------------------------------------------------ generate

    def update_features(
        self,
        updates: Mapping[str, FeatureLevelUpdate],
        cluster: ClusterFeatureSupport,
        *,
        validate_only: bool = False,
    ) -> ControllerResult[dict[str, ApiError]]:
        """The records of the accepted updates, and one result for each feature."""
        records = BoundedRecords()
        results = {}
        for name in sorted(updates):
            update = updates[name]
            reason = self._reason_against(name, update, cluster)
            if reason is not None:
                results[name] = _invalid_update(name, update.level, reason)
                self._logger.warning("%s", results[name].message)
            else:
                records.append(VersionedRecord(FeatureLevelRecord(name, update.level), 0))
                results[name] = NO_ERROR
                current = self.metadata_version
                if name == FEATURE_NAME and update.level != current.level:
                    self._logger.warning(
                        "%s metadata.version from %s to %s.",
                        "Upgrading" if update.level > current.level else "Downgrading",
                        current, metadata_version.from_level(update.level),
                    )  # fmt: skip
        return ControllerResult.atomic_of(() if validate_only else records.to_tuple(), results)

    def _reason_against(
        self, name: str, update: FeatureLevelUpdate, cluster: ClusterFeatureSupport
    ) -> str | None:
        if update.upgrade_type is UpgradeType.UNKNOWN:
            return "the upgrade type is unknown"
        if update.level < 0:
            return "a level cannot be less than 0"
        is_version = name == FEATURE_NAME
        current = self.metadata_version.level if is_version else self._finalized.get(name, 0)
        is_upgrade = update.upgrade_type is UpgradeType.UPGRADE
        reason = self._reason_not_supported(name, update.level, cluster)
        if reason is not None:
            return reason
        if update.level < current and is_upgrade:
            return "a lower level needs the upgrade type of a safe or an unsafe downgrade"
        if update.level > current and not is_upgrade:
            return "a downgrade cannot lead to a higher level"
        return self._reason_against_version(update) if is_version else None

    def _reason_not_supported(
        self, name: str, level: int, cluster: ClusterFeatureSupport
    ) -> str | None:
        features = self.quorum_features
        reason = features.reason_not_locally_supported(name, level)
        if reason is not None:
            return reason
        for broker_id, ranges in cluster.broker_supported_features():
            reason = reason_not_supported(level, f"broker {broker_id}", ranges.get(name, DISABLED))
            if reason is not None:
                return reason
        if not self.metadata_version.is_controller_registration_supported:
            return None
        registered = {features.node_id}
        for controller_id, ranges in cluster.controller_supported_features():
            if controller_id != features.node_id:
                registered.add(controller_id)
                who, supported = f"controller {controller_id}", ranges.get(name, DISABLED)
                reason = reason_not_supported(level, who, supported)
                if reason is not None:
                    return reason
        for node_id in features.quorum_node_ids:
            if node_id not in registered:
                return f"controller {node_id} has not registered, and may not support this feature"
        return None

    def _reason_against_version(self, update: FeatureLevelUpdate) -> str | None:
        try:
            version = metadata_version.from_level(update.level)
        except UnsupportedVersion as unknown:
            return str(unknown)
        if self.zk_migration_state.is_in_progress:
            return "metadata.version cannot change while a migration from ZooKeeper is in progress"
        if version < self._minimum_bootstrap_version:
            return f"it cannot be less than {self._minimum_bootstrap_version}"
        current = self.metadata_version
        if version < current and metadata_version.did_metadata_change_between(version, current):
            if update.upgrade_type is UpgradeType.UNSAFE_DOWNGRADE:
                return "no unsafe downgrade of metadata.version is supported"
            return "the downgrade could lose metadata"
        return None

    # ------------------------------------------------------------------ replay

    def replay(self, record: FeatureLevelRecord | ZkMigrationStateRecord, offset: int) -> None:
        """Replays a record; :class:`IllegalState` for a level this controller does not support."""
        match record:
            case FeatureLevelRecord():
                self._replay_feature_level(record)
                self._changed_at.set(offset)
            case ZkMigrationStateRecord():
                self._replay_zk_migration_state(record)
            case _:
                assert_never(record)

    def transaction_ended(self, begun_at: int, offset: int) -> None:
        """Moves the offset of a level change inside the transaction to the transaction's end."""
        if self._changed_at.get() >= begun_at:
            self._changed_at.set(offset)

    def _replay_feature_level(self, record: FeatureLevelRecord) -> None:
        supported = self.quorum_features.local_supported_feature(record.name)
        if not supported.contains(record.feature_level):
            raise IllegalState(f"{record}: this controller supports versions {supported} of it")
        if record.name == FEATURE_NAME:
            version = metadata_version.from_level(record.feature_level)
            self._version.set(version)
            self._logger.info(
                "Replayed a FeatureLevelRecord setting metadata.version to %s", version
            )
        elif record.feature_level == 0:
            self._finalized.pop(record.name)
            self._logger.info("Replayed a FeatureLevelRecord removing feature %s", record.name)
        else:
            self._finalized[record.name] = record.feature_level
            self._logger.info(
                "Replayed a FeatureLevelRecord setting feature %s to %d",
                record.name, record.feature_level,
            )  # fmt: skip

    def _replay_zk_migration_state(self, record: ZkMigrationStateRecord) -> None:
        try:
            state = ZkMigrationState(record.zk_migration_state)
        except ValueError as unknown:
            raise IllegalState(f"{record}: no such state of a migration") from unknown
        before = self._migration_state.get()
        self._migration_state.set(state)
        if state is not before:
            self._logger.info(
                "Replayed a ZkMigrationStateRecord changing the migration state from %s to %s.",
                before.name, state.name,
            )  # fmt: skip


def _invalid_update(name: str, level: int, reason: str) -> ApiError:
    message = f"invalid update version {level} for feature {name}: {reason}"
    return ApiError(ErrorCode.invalid_update_version, message)
