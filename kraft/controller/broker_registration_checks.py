"""The checks of a broker registration, in Kafka's order.

The first failed check decides the error that the broker gets, so the order is part of the
behaviour.

Source: Kafka ``ClusterControlManager.registerBroker``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from uuid import UUID

from kio.schema.errors import ErrorCode

from kafka_common.api_error import ApiException
from kraft.controller import directory_ids
from kraft.controller.cluster_requests import BrokerRegistrationRequest
from kraft.controller.registrations import (
    BrokerRegistration,
    VersionRange,
    unknown_security_protocol,
)
from kraft.metadata.metadata_version import (
    FEATURE_NAME,
    MINIMUM_KRAFT_VERSION,
    MetadataVersion,
)
from kraft.metadata.records import BrokerFeature


@dataclass(frozen=True, slots=True)
class RegistrationChecks:
    """One registration request and the state that it is checked against."""

    request: BrokerRegistrationRequest
    cluster_id: str
    existing: BrokerRegistration | None
    has_valid_session: bool
    """Whether the session of the existing registration has not ended."""
    is_in_pre_migration_mode: bool
    version: MetadataVersion
    directory_owner: Callable[[UUID], int | None]

    def run(self, finalized_levels: Mapping[str, int]) -> tuple[BrokerFeature, ...]:
        """The features to register; :class:`ApiException` for the first check that fails."""
        self._check_identity()
        self._check_migration()
        if self.version.is_directory_assignment_supported:
            self._check_directories()
        reason = unknown_security_protocol(self.request.listeners)
        if reason is not None:
            raise ApiException(ErrorCode.invalid_registration, reason)
        return self._check_features(finalized_levels)

    def _check_identity(self) -> None:
        theirs, ours = self.request.cluster_id, self.cluster_id
        if theirs != ours:
            message = f"this is cluster {ours}, and not {theirs}"
            raise ApiException(ErrorCode.inconsistent_cluster_id, message)
        existing = self.existing
        is_other = existing is not None and existing.incarnation_id != self.request.incarnation_id
        if is_other and self.has_valid_session:
            message = f"another broker is alive under the id {self.request.broker_id}"
            raise ApiException(ErrorCode.duplicate_broker_registration, message)

    def _check_migration(self) -> None:
        if self.request.is_migrating_zk_broker:
            message = "brokers of a ZooKeeper cluster cannot register here"
            raise ApiException(ErrorCode.broker_id_not_registered, message)
        if self.is_in_pre_migration_mode:
            message = "brokers of KRaft can register once the migration from ZooKeeper is done"
            raise ApiException(ErrorCode.broker_id_not_registered, message)

    def _check_directories(self) -> None:
        directories = self.request.log_dirs
        if not directories:
            raise ApiException(ErrorCode.invalid_registration, "no log directory is named")
        if any(directory_ids.is_reserved(directory) for directory in directories):
            raise ApiException(ErrorCode.invalid_registration, "a directory has a reserved id")
        if len(set(directories)) != len(directories):
            raise ApiException(ErrorCode.invalid_registration, "a directory is named twice")
        for directory in directories:
            owner = self.directory_owner(directory)
            if owner is not None and owner != self.request.broker_id:
                message = f"directory {directory} belongs to broker {owner}"
                raise ApiException(ErrorCode.invalid_registration, message)

    def _check_features(self, finalized: Mapping[str, int]) -> tuple[BrokerFeature, ...]:
        features = self.request.features
        if all(feature.name != FEATURE_NAME for feature in features):
            # A broker that does not name metadata.version is older than that feature.
            only = MINIMUM_KRAFT_VERSION.level
            features = (*features, BrokerFeature(FEATURE_NAME, only, only))
        for feature in features:
            _check_feature(feature, finalized)
        named = {feature.name for feature in features}
        for name, level in finalized.items():
            if level != 0 and name not in named:
                _check_feature(BrokerFeature(name, 0, 0), finalized)
        return features


def _check_feature(feature: BrokerFeature, finalized: Mapping[str, int]) -> None:
    default = MINIMUM_KRAFT_VERSION.level if feature.name == FEATURE_NAME else 0
    level = finalized.get(feature.name, default)
    supported = VersionRange(feature.min_supported_version, feature.max_supported_version)
    if not supported.contains(level):
        raise ApiException(
            ErrorCode.unsupported_version,
            f"{feature.name} is at level {level}, and the broker supports {supported}",
        )
