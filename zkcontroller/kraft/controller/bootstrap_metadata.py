"""What the first active controller of a cluster writes into an empty log, and its source.

Source: Kafka ``BootstrapMetadata``, ``BootstrapDirectory`` (KIP-778).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from zkcontroller.errors import ConfigInvalid
from zkcontroller.kraft.metadata import bootstrap, metadata_version
from zkcontroller.kraft.metadata.metadata_version import MetadataVersion
from zkcontroller.kraft.metadata.records import VersionedRecord


@dataclass(frozen=True, slots=True)
class BootstrapMetadata:
    """Records, the metadata.version among them, and where they came from."""

    records: tuple[VersionedRecord, ...]
    metadata_version: MetadataVersion
    source: str

    @classmethod
    def from_versions(
        cls, version: MetadataVersion, levels: Mapping[str, int], source: str
    ) -> BootstrapMetadata:
        """That version and those levels; InvalidRecord below 3.3-IV0."""
        return cls._of(bootstrap.BootstrapMetadata.from_versions(version, levels), source)

    @classmethod
    def from_version(cls, version: MetadataVersion, source: str) -> BootstrapMetadata:
        """That version and nothing else; InvalidRecord below 3.3-IV0."""
        return cls.from_versions(version, {}, source)

    @classmethod
    def from_records(cls, records: Iterable[VersionedRecord], source: str) -> BootstrapMetadata:
        """What a ``bootstrap.checkpoint`` holds; InvalidRecord without a version."""
        return cls._of(bootstrap.BootstrapMetadata.from_records(tuple(records)), source)

    @classmethod
    def _of(cls, found: bootstrap.BootstrapMetadata, source: str) -> BootstrapMetadata:
        return cls(found.records, found.metadata_version, source)

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
