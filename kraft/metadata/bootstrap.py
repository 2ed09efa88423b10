"""The bootstrap records of a cluster, which the first active controller appends.

The file ``bootstrap.checkpoint`` holds them in the format of a snapshot: a header, the records, a
footer, all of epoch 0.  An active controller that finds the metadata log empty appends them.

Source: Kafka 3.9 ``BootstrapMetadata``, ``BootstrapDirectory``, ``BatchFileWriter``,
``BatchFileReader``, ``Formatter`` (KIP-778, KIP-900).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kafka_common.errors import ConfigInvalid, InvalidRecord, UnsupportedVersion
from kraft.metadata.metadata_batches import DataBatch, read_metadata_batch
from kraft.metadata.metadata_version import (
    FEATURE_NAME,
    LATEST_PRODUCTION,
    MINIMUM_BOOTSTRAP_VERSION,
    MetadataVersion,
    from_level,
    from_name,
)
from kraft.metadata.records import (
    FeatureLevelRecord,
    UserScramCredentialRecord,
    VersionedRecord,
)
from kraft.metadata.snapshot_batches import SnapshotBatches

BOOTSTRAP_FILE: Final = "bootstrap.checkpoint"
KRAFT_VERSION_FEATURE: Final = "kraft.version"
_EPOCH: Final = 0


@dataclass(frozen=True, slots=True)
class BootstrapMetadata:
    """The records, and the metadata.version that they name last."""

    records: tuple[VersionedRecord, ...]
    metadata_version: MetadataVersion
    source: str = field(default="the default bootstrap", compare=False)
    """Where they come from, for log lines."""

    @staticmethod
    def from_records(records: Sequence[VersionedRecord]) -> BootstrapMetadata:
        """InvalidRecord if they name no metadata.version, an unknown one, or one below 3.3-IV0."""
        levels = [
            record.feature_level
            for record, _ in records
            if isinstance(record, FeatureLevelRecord) and record.name == FEATURE_NAME
        ]
        if not levels:
            raise InvalidRecord(
                f"No FeatureLevelRecord for {FEATURE_NAME} in the bootstrap metadata"
            )
        try:
            version = from_level(levels[-1])
        except UnsupportedVersion as error:
            raise InvalidRecord(f"The bootstrap metadata: {error}") from error
        if version < MINIMUM_BOOTSTRAP_VERSION:
            raise InvalidRecord(
                f"Bootstrap {FEATURE_NAME} before {MINIMUM_BOOTSTRAP_VERSION} are not supported"
            )
        return BootstrapMetadata(tuple(records), version)

    @staticmethod
    def from_versions(
        metadata_version: MetadataVersion,
        features: Mapping[str, int] | None = None,
        scram_credentials: Sequence[UserScramCredentialRecord] = (),
    ) -> BootstrapMetadata:
        """The records that formatting writes: metadata.version, other features, credentials.

        A feature at level 0 is left out, and so is kraft.version, which a control record holds.
        UnsupportedVersion if the metadata.version does not know SCRAM but there are credentials;
        InvalidRecord as from :meth:`from_records`.
        """
        if scram_credentials and not metadata_version.is_scram_supported:
            raise UnsupportedVersion(
                f"SCRAM needs {FEATURE_NAME} 3.5-IV2 or later, this is {metadata_version}"
            )
        others = sorted((features or {}).items())
        levels = [(FEATURE_NAME, metadata_version.level)] + [
            (name, level)
            for name, level in others
            if level > 0 and name not in (FEATURE_NAME, KRAFT_VERSION_FEATURE)
        ]
        records = [VersionedRecord(FeatureLevelRecord(name, level), 0) for name, level in levels]
        records += [VersionedRecord(credential, 0) for credential in scram_credentials]
        return BootstrapMetadata.from_records(records)

    @staticmethod
    def from_configuration(inter_broker_protocol_version: str | None) -> BootstrapMetadata:
        """The records of a cluster without a ``bootstrap.checkpoint``.

        ``inter_broker_protocol_version`` is None if it is not configured.
        """
        if inter_broker_protocol_version is None:
            return BootstrapMetadata.from_versions(LATEST_PRODUCTION)
        version = MINIMUM_BOOTSTRAP_VERSION
        # A version from before KRaft raises ConfigInvalid here: the minimum is used.  The check of
        # the whole configuration has refused any other unknown name.
        with contextlib.suppress(ConfigInvalid):
            version = max(version, from_name(inter_broker_protocol_version))
        return BootstrapMetadata.from_versions(version)


def encode_bootstrap(metadata: BootstrapMetadata, now_ms: int) -> bytes:
    """The bytes of ``bootstrap.checkpoint``, whose batches were made at ``now_ms``."""
    batches = SnapshotBatches(_EPOCH)
    return b"".join(
        (batches.header(0, now_ms), batches.data(metadata.records, now_ms), batches.footer(now_ms))
    )


def decode_bootstrap(data: bytes) -> BootstrapMetadata:
    """The metadata in the bytes of a ``bootstrap.checkpoint``.

    CorruptRecord if they are not whole batches; InvalidRecord if a record breaks a rule, and as
    :meth:`BootstrapMetadata.from_records`.
    """
    records: list[VersionedRecord] = []
    position = 0
    while position < len(data):
        batch = read_metadata_batch(data, position)
        position += batch.place.size_in_bytes
        if isinstance(batch, DataBatch):
            records += batch.records
    return BootstrapMetadata.from_records(records)
