"""Records of features, configurations, quotas, producer ids, migration, NoOp and transactions.

Source: Kafka 3.9 ``FeatureLevelRecord.json`` and its neighbours (KIP-584, KIP-730, KIP-835,
KIP-866, KIP-868).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FeatureLevelRecord:
    """The finalized level of a feature; 0 removes the feature."""

    name: str = ""
    feature_level: int = 0


@dataclass(frozen=True, slots=True)
class ConfigRecord:
    """One key of a resource's configuration."""

    resource_type: int = 0
    """Kafka's ``ConfigResource.Type``: 2 topic, 4 broker, 8 broker logger, 16 client metrics."""
    resource_name: str = ""
    """Empty for the default of all brokers."""
    name: str = ""
    value: str | None = ""
    """None takes the key away."""


@dataclass(frozen=True, slots=True)
class EntityData:
    """One part of a quota's entity: a ``user``, a ``client-id`` or an ``ip``."""

    entity_type: str = ""
    entity_name: str | None = ""
    """None for the default of this type."""


@dataclass(frozen=True, slots=True)
class ClientQuotaRecord:
    """One key of a quota."""

    entity: tuple[EntityData, ...] = ()
    key: str = ""
    value: float = 0.0
    remove: bool = False


@dataclass(frozen=True, slots=True)
class ProducerIdsRecord:
    """A block of producer ids was handed out; the next one begins at ``next_producer_id``."""

    broker_id: int = 0
    broker_epoch: int = -1
    next_producer_id: int = 0


@dataclass(frozen=True, slots=True)
class NoOpRecord:
    """Changes nothing; its commit shows that the quorum works."""


@dataclass(frozen=True, slots=True)
class ZkMigrationStateRecord:
    """How far the migration from ZooKeeper is."""

    zk_migration_state: int = 0
    """0 none, 1 migration, 2 before it, 3 after it (3.4 wrote 1 for what is 2 since 3.5)."""


@dataclass(frozen=True, slots=True)
class BeginTransactionRecord:
    """Starts a transaction: its records take effect together or not at all."""

    name: str | None = None


@dataclass(frozen=True, slots=True)
class EndTransactionRecord:
    """The transaction's records take effect."""


@dataclass(frozen=True, slots=True)
class AbortTransactionRecord:
    """The transaction's records have no effect."""

    reason: str | None = None
