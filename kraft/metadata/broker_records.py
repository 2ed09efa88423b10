"""Records about nodes: brokers register, are fenced and leave; controllers register.

Source: Kafka 3.9 ``RegisterBrokerRecord.json`` and its neighbours (KIP-631, KIP-841, KIP-866,
KIP-858, KIP-919).
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from kraft.metadata.record_values import ZERO_UUID, BrokerEndpoint, BrokerFeature


@dataclass(frozen=True, slots=True)
class RegisterBrokerRecord:
    """A broker, or a new incarnation of it, is registered."""

    broker_id: int = 0
    is_migrating_zk_broker: bool = False
    incarnation_id: UUID = ZERO_UUID
    broker_epoch: int = 0
    """The offset of this record."""
    end_points: tuple[BrokerEndpoint, ...] = ()
    features: tuple[BrokerFeature, ...] = ()
    rack: str | None = ""
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True)
class UnregisterBrokerRecord:
    """A broker is unregistered."""

    broker_id: int = 0
    broker_epoch: int = 0


@dataclass(frozen=True, slots=True)
class FenceBrokerRecord:
    """A broker may lead nothing; written up to metadata.version 5."""

    id: int = 0
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class UnfenceBrokerRecord:
    """A broker may lead again; written up to metadata.version 5."""

    id: int = 0
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class BrokerRegistrationChangeRecord:
    """What changed about a registered broker; a field at its default did not change."""

    broker_id: int = 0
    broker_epoch: int = 0
    fenced: int = 0
    """1 if it was fenced, -1 if it was unfenced."""
    in_controlled_shutdown: int = 0
    """1 if it began to stop."""
    log_dirs: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True)
class RegisterControllerRecord:
    """A controller registers its listeners and features."""

    controller_id: int = 0
    incarnation_id: UUID = ZERO_UUID
    zk_migration_ready: bool = False
    end_points: tuple[BrokerEndpoint, ...] = ()
    features: tuple[BrokerFeature, ...] = ()
