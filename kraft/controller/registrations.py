"""Registrations of brokers and controllers in the metadata log.

Source: Kafka ``BrokerRegistration``, ``ControllerRegistration``, ``VersionRange``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple
from uuid import UUID

from typing_extensions import override

from kafka_common.errors import IllegalState
from kafka_common.model import SECURITY_PROTOCOLS
from kafka_common.observability.java_values import boolean
from kafka_common.protocol.uuid_text import uuid_text
from kraft.controller import directory_ids
from kraft.metadata.metadata_version import MetadataVersion
from kraft.metadata.records import (
    BrokerEndpoint,
    BrokerFeature,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)

# The ids of PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL.


class VersionRange(NamedTuple):
    """A range of levels of a feature, both ends included."""

    min: int
    max: int

    def contains(self, level: int) -> bool:
        """Whether the level is in the range."""
        return self.min <= level <= self.max

    @override
    def __str__(self) -> str:
        return str(self.min) if self.min == self.max else f"{self.min}-{self.max}"


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """One incarnation of a broker and its state."""

    id: int
    epoch: int
    """The broker epoch; a later registration of the broker has a higher one."""
    incarnation_id: UUID
    listeners: Mapping[str, BrokerEndpoint]
    supported_features: Mapping[str, VersionRange]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    is_migrating_zk_broker: bool
    directories: tuple[UUID, ...]

    @classmethod
    def from_record(cls, record: RegisterBrokerRecord) -> BrokerRegistration:
        """The registration in a record of the log."""
        return cls(
            id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            listeners=_by_name(record.end_points),
            supported_features=_ranges(record.features),
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            is_migrating_zk_broker=record.is_migrating_zk_broker,
            directories=record.log_dirs,
        )

    def to_record(self, version: MetadataVersion) -> RegisterBrokerRecord:
        """The registration as one record; UnsupportedVersion if a field would be lost."""
        if self.in_controlled_shutdown and not version.is_in_controlled_shutdown_state_supported:
            version.refuse_loss("a broker in controlled shutdown")
        if self.is_migrating_zk_broker and not version.is_migration_supported:
            version.refuse_loss("a broker in migration")
        if self.directories and not version.is_directory_assignment_supported:
            version.refuse_loss("the log directories of a broker")
        return RegisterBrokerRecord(
            broker_id=self.id,
            is_migrating_zk_broker=self.is_migrating_zk_broker,
            incarnation_id=self.incarnation_id,
            broker_epoch=self.epoch,
            end_points=tuple(self.listeners.values()),
            features=_features(self.supported_features),
            rack=self.rack,
            fenced=self.fenced,
            in_controlled_shutdown=self.in_controlled_shutdown,
            log_dirs=self.directories,
        )

    def changed(
        self,
        *,
        fenced: bool | None = None,
        in_controlled_shutdown: bool | None = None,
        directories: tuple[UUID, ...] | None = None,
    ) -> BrokerRegistration:
        """The registration after a change; an argument of None leaves the field unchanged."""
        shuts_down = in_controlled_shutdown
        return replace(
            self,
            fenced=self.fenced if fenced is None else fenced,
            in_controlled_shutdown=self.in_controlled_shutdown
            if shuts_down is None
            else shuts_down,
            directories=self.directories if directories is None else directories,
        )

    @property
    def is_active(self) -> bool:
        """Whether the broker may lead partitions."""
        return not self.fenced and not self.in_controlled_shutdown

    def has_online_dir(self, directory: UUID) -> bool:
        """Whether that log directory is online on this broker."""
        return directory_ids.is_online(directory, self.directories)


@dataclass(frozen=True, slots=True)
class ControllerRegistration:
    """A registered controller of the quorum."""

    id: int
    incarnation_id: UUID
    zk_migration_ready: bool
    listeners: Mapping[str, BrokerEndpoint]
    supported_features: Mapping[str, VersionRange]

    @override
    def __str__(self) -> str:
        listeners = ", ".join(
            f"Endpoint(listenerName='{name}', "
            f"securityProtocol={SECURITY_PROTOCOLS[each.security_protocol]}, "
            f"host='{each.host}', port={each.port})"
            for name, each in sorted(self.listeners.items())
        )
        features = ", ".join(
            f"{name}: {each.min}-{each.max}"
            for name, each in sorted(self.supported_features.items())
        )
        return (
            f"ControllerRegistration(id={self.id}, incarnationId={uuid_text(self.incarnation_id)}, "
            f"zkMigrationReady={boolean(self.zk_migration_ready)}, listeners=[{listeners}], "
            f"supportedFeatures={{{features}}})"
        )

    @classmethod
    def from_record(cls, record: RegisterControllerRecord) -> ControllerRegistration:
        """The registration in a record of the log."""
        return cls(
            id=record.controller_id,
            incarnation_id=record.incarnation_id,
            zk_migration_ready=record.zk_migration_ready,
            listeners=_by_name(record.end_points),
            supported_features=_ranges(record.features),
        )

    def to_record(self) -> RegisterControllerRecord:
        """The registration as one record."""
        return RegisterControllerRecord(
            controller_id=self.id,
            incarnation_id=self.incarnation_id,
            zk_migration_ready=self.zk_migration_ready,
            end_points=tuple(self.listeners.values()),
            features=_features(self.supported_features),
        )


def _features(ranges: Mapping[str, VersionRange]) -> tuple[BrokerFeature, ...]:
    return tuple(BrokerFeature(name, *levels) for name, levels in ranges.items())


def unknown_security_protocol(endpoints: Collection[BrokerEndpoint]) -> str | None:
    """The error if a listener has an unknown security protocol; None otherwise."""
    for endpoint in endpoints:
        if endpoint.security_protocol not in range(len(SECURITY_PROTOCOLS)):
            return f"listener {endpoint.name} has security protocol {endpoint.security_protocol}"
    return None


def _by_name(endpoints: Collection[BrokerEndpoint]) -> dict[str, BrokerEndpoint]:
    reason = unknown_security_protocol(endpoints)
    if reason is not None:
        raise IllegalState(reason)
    return {endpoint.name: endpoint for endpoint in endpoints}


def _ranges(features: Collection[BrokerFeature]) -> dict[str, VersionRange]:
    return {
        feature.name: VersionRange(feature.min_supported_version, feature.max_supported_version)
        for feature in features
    }
