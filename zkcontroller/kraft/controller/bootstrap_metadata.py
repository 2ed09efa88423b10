"""What the first active controller of a cluster writes into the empty log.

Source: Kafka ``BootstrapMetadata``, ``BootstrapDirectory`` (KIP-778).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from zkcontroller.errors import ConfigInvalid, IllegalState
from zkcontroller.kraft.controller.quorum_features import KRAFT_VERSION
from zkcontroller.kraft.controller.result import VersionedRecord
from zkcontroller.kraft.metadata import metadata_version
from zkcontroller.kraft.metadata.metadata_version import FEATURE_NAME, MetadataVersion
from zkcontroller.kraft.metadata.records import FeatureLevelRecord


@dataclass(frozen=True, slots=True)
class BootstrapMetadata:
    """Records, the metadata.version among them, and where they came from."""

    records: tuple[VersionedRecord, ...]
    metadata_version: MetadataVersion
    source: str

    def __post_init__(self) -> None:
        lowest = metadata_version.MINIMUM_BOOTSTRAP_VERSION
        if self.metadata_version < lowest:
            found = f"metadata.version {self.metadata_version} of {self.source}"
            raise IllegalState(
                f"{found} is below {lowest}, the first one that a log can begin with"
            )

    @classmethod
    def from_versions(
        cls, version: MetadataVersion, levels: Mapping[str, int], source: str
    ) -> BootstrapMetadata:
        """That version and those levels; kraft.version is the quorum's own business."""
        names = sorted(name for name in levels if name not in (FEATURE_NAME, KRAFT_VERSION))
        others = [_level(name, levels[name]) for name in names if levels[name] > 0]
        return cls((_level(FEATURE_NAME, version.level), *others), version, source)

    @classmethod
    def from_version(cls, version: MetadataVersion, source: str) -> BootstrapMetadata:
        """That version and nothing else."""
        return cls.from_versions(version, {}, source)

    @classmethod
    def from_records(cls, records: Iterable[VersionedRecord], source: str) -> BootstrapMetadata:
        """What a ``bootstrap.checkpoint`` holds; :class:`IllegalState` without a version."""
        held = tuple(records)
        version = None
        for record, _ in held:
            if isinstance(record, FeatureLevelRecord) and record.name == FEATURE_NAME:
                version = metadata_version.from_level(record.feature_level)
        if version is None:
            raise IllegalState(f"{source} has no record of metadata.version")
        return cls(held, version, source)

    @classmethod
    def from_configuration(cls, inter_broker_protocol_version: str | None) -> BootstrapMetadata:
        """What is written without a ``bootstrap.checkpoint``; None if nothing is configured."""
        if inter_broker_protocol_version is None:
            return cls.from_version(metadata_version.LATEST_PRODUCTION, "the default")
        version = metadata_version.MINIMUM_BOOTSTRAP_VERSION
        # A name of before KRaft; whether the setting means anything was checked with the others.
        with contextlib.suppress(ConfigInvalid):
            version = max(version, metadata_version.from_name(inter_broker_protocol_version))
        return cls.from_version(version, f"inter.broker.protocol.version, as {version}")


def _level(name: str, level: int) -> VersionedRecord:
    return VersionedRecord(FeatureLevelRecord(name, level), 0)
