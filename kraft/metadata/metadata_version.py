"""``metadata.version``: which records a KRaft cluster may write, and in which versions.

The finalized level of this feature is a record in the log itself, so that a controller never
writes a record that an older one in the quorum could not read.  Every level of Kafka 3.9 is a row
of one table, and everything that depends on the level is a comparison with a row.  Which requests
brokers send to each other at a level is in :mod:`kafka_common.protocol.inter_broker_versions`, by
the same names.

Source: Kafka 3.9 ``MetadataVersion`` (KIP-584, KIP-778).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import total_ordering
from typing import Final, NoReturn

from typing_extensions import override

from kafka_common.errors import ConfigInvalid, UnsupportedVersion

FEATURE_NAME: Final = "metadata.version"


@total_ordering
@dataclass(frozen=True, slots=True)
class MetadataVersion:
    """One level of the feature.  Ordered by age: a higher level is a later one."""

    level: int
    name: str = field(compare=False)
    """As Kafka prints it: ``3.9-IV0``."""
    did_metadata_change: bool = field(compare=False)
    """Whether the log's format is another than one level below: no way back across this."""

    def __lt__(self, other: MetadataVersion) -> bool:
        return self.level < other.level

    @override
    def __str__(self) -> str:
        return self.name

    @property
    def release(self) -> str:
        """The first release with this level: ``3.9``."""
        return self.name.partition("-")[0]

    @property
    def is_production(self) -> bool:
        """Whether its format is settled; later levels need ``unstable.feature.versions.enable``."""
        return self <= LATEST_PRODUCTION

    def is_at_least(self, name: str) -> bool:
        """Whether this is the level called ``name`` or a later one."""
        return self.level >= _BY_NAME[name].level

    @property
    def is_leader_recovery_supported(self) -> bool:
        """Whether an unclean leader is marked as recovering (KIP-704)."""
        return self.is_at_least("3.2-IV0")

    @property
    def is_feature_level_record_supported(self) -> bool:
        """Whether the log holds the level itself (KIP-778).

        Source: Kafka ``MetadataVersion.MINIMUM_BOOTSTRAP_VERSION``, ``FeaturesImage.write``.
        """
        return self >= MINIMUM_BOOTSTRAP_VERSION

    @property
    def is_no_op_record_supported(self) -> bool:
        """Whether an idle controller writes NoOpRecords (KIP-835)."""
        return self.is_at_least("3.3-IV1")

    @property
    def is_broker_registration_change_record_supported(self) -> bool:
        """Whether fencing is written as a BrokerRegistrationChangeRecord."""
        return self.is_at_least("3.3-IV2")

    @property
    def is_in_controlled_shutdown_state_supported(self) -> bool:
        """Whether the log says which brokers are about to stop (KIP-841)."""
        return self.is_at_least("3.3-IV3")

    @property
    def is_migration_supported(self) -> bool:
        """Whether a cluster may migrate from ZooKeeper (KIP-866); ZkMigrationStateRecord."""
        return self.is_at_least("3.4-IV0")

    @property
    def is_scram_supported(self) -> bool:
        """Whether the log holds SCRAM credentials (KIP-900)."""
        return self.is_at_least("3.5-IV2")

    @property
    def is_leader_epoch_bump_required_on_isr_shrink(self) -> bool:
        """Whether an ISR shrink raises the leader epoch (until KAFKA-15021)."""
        return not self.is_at_least("3.6-IV0")

    @property
    def is_metadata_transaction_supported(self) -> bool:
        """Whether records may be written in a transaction (KIP-868)."""
        return self.is_at_least("3.6-IV1")

    @property
    def is_delegation_token_supported(self) -> bool:
        """Whether the log holds delegation tokens."""
        return self.is_at_least("3.6-IV2")

    @property
    def is_controller_registration_supported(self) -> bool:
        """Whether controllers register themselves (KIP-919)."""
        return self.is_at_least("3.7-IV0")

    @property
    def is_directory_assignment_supported(self) -> bool:
        """Whether the log says in which directory a replica is (KIP-858)."""
        return self.is_at_least("3.7-IV2")

    @property
    def is_elr_supported(self) -> bool:
        """Whether partitions have eligible leader replicas (KIP-966)."""
        return self.is_at_least("4.0-IV0")

    def refuse_loss(self, what: str) -> NoReturn:
        """Raises UnsupportedVersion for a value that no record of this level can hold.

        Source: Kafka ``ImageWriterOptions.handleLoss``.
        """
        raise UnsupportedVersion(f"{FEATURE_NAME} {self} has no record for {what}")

    def register_broker_record_version(self) -> int:
        """Version in which a RegisterBrokerRecord is written."""
        if self.is_directory_assignment_supported:
            return 3
        if self.is_migration_supported:
            return 2
        return 1 if self.is_in_controlled_shutdown_state_supported else 0

    def register_controller_record_version(self) -> int:
        """Version in which a RegisterControllerRecord is written.

        UnsupportedVersion below 3.7-IV0, where there is none.
        """
        if not self.is_controller_registration_supported:
            raise UnsupportedVersion(
                f"Controller registration is not supported in {FEATURE_NAME} {self}"
            )
        return 0

    def partition_record_version(self) -> int:
        """Version in which a PartitionRecord is written."""
        if self.is_elr_supported:
            return 2
        return 1 if self.is_directory_assignment_supported else 0

    def partition_change_record_version(self) -> int:
        """Version in which a PartitionChangeRecord is written."""
        return self.partition_record_version()


VERSIONS: Final = tuple(
    MetadataVersion(level, name, did_metadata_change)
    for level, (name, did_metadata_change) in enumerate(
        (
            ("3.0-IV1", True),
            ("3.1-IV0", False),
            ("3.2-IV0", True),
            ("3.3-IV0", False),
            ("3.3-IV1", True),
            ("3.3-IV2", True),
            ("3.3-IV3", True),
            ("3.4-IV0", True),
            ("3.5-IV0", False),
            ("3.5-IV1", False),
            ("3.5-IV2", True),
            ("3.6-IV0", False),
            ("3.6-IV1", True),
            ("3.6-IV2", True),
            ("3.7-IV0", True),
            ("3.7-IV1", False),
            ("3.7-IV2", True),
            ("3.7-IV3", False),
            ("3.7-IV4", False),
            ("3.8-IV0", False),
            ("3.9-IV0", False),
            ("4.0-IV0", True),
            ("4.0-IV1", False),
        ),
        start=1,
    )
)
"""Every level that Kafka 3.9 knows, lowest first; their numbers begin at 1."""

_BY_NAME: Final = {version.name: version for version in VERSIONS}

MINIMUM_KRAFT_VERSION: Final = _BY_NAME["3.0-IV1"]
MINIMUM_BOOTSTRAP_VERSION: Final = _BY_NAME["3.3-IV0"]
"""The first whose level stands in the log; no cluster is formatted with less."""
LATEST_PRODUCTION: Final = _BY_NAME["3.9-IV0"]
"""What a format writes if nothing else is said, and the highest level of a supported range."""

# A release without internal version means the last production level of it.
_BY_SHORT_NAME: Final = _BY_NAME | {
    version.release: version for version in VERSIONS if version.is_production
}


def from_level(level: int) -> MetadataVersion:
    """The version with that feature level; UnsupportedVersion if Kafka 3.9 has none."""
    if not 1 <= level <= len(VERSIONS):
        raise UnsupportedVersion(f"No MetadataVersion with feature level {level}")
    return VERSIONS[level - 1]


def from_name(name: str) -> MetadataVersion:
    """The version with that name: ``3.9``, ``3.7-IV2``; ``3.9.1`` is ``3.9``.

    ConfigInvalid for an unknown name, for a release older than KRaft, and for ``4.0``, which has no
    level for production.  Source: Kafka ``MetadataVersion.fromVersionString``.
    """
    found = _BY_SHORT_NAME.get(".".join(name.split(".")[:2]))
    if found is None:
        allowed = f"one of {MINIMUM_KRAFT_VERSION} to {VERSIONS[-1]}"
        raise ConfigInvalid(FEATURE_NAME, name, allowed)
    return found


def did_metadata_change_between(one: MetadataVersion, other: MetadataVersion) -> bool:
    """Whether the log's format differs between the two, so that a downgrade is impossible.

    Source: Kafka ``MetadataVersion.checkIfMetadataChanged``.
    """
    low, high = min(one, other), max(one, other)
    return any(version.did_metadata_change for version in VERSIONS[low.level : high.level])
