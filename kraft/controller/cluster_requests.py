"""The requests to ``ClusterControlManager``, as values.

Source: Kafka ``BrokerRegistrationRequest``, ``ControllerRegistrationRequest``.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from kraft.metadata.records import BrokerEndpoint, BrokerFeature


@dataclass(frozen=True, slots=True)
class BrokerRegistrationRequest:
    """A broker that started asks to be registered."""

    broker_id: int
    cluster_id: str
    incarnation_id: UUID
    """A new random id for each start of the broker."""
    listeners: tuple[BrokerEndpoint, ...] = ()
    features: tuple[BrokerFeature, ...] = ()
    rack: str | None = None
    is_migrating_zk_broker: bool = False
    log_dirs: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True)
class BrokerRegistrationReply:
    """The response: the broker epoch, which the broker sends with its later requests."""

    epoch: int


@dataclass(frozen=True, slots=True)
class ControllerRegistrationRequest:
    """A controller asks to be registered."""

    controller_id: int
    incarnation_id: UUID
    zk_migration_ready: bool = False
    listeners: tuple[BrokerEndpoint, ...] = ()
    features: tuple[BrokerFeature, ...] = ()
