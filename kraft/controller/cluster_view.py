"""The view of the brokers that the managers of topics and configurations get.

``ClusterControlManager`` implements these protocols.  With them the code for partitions does not
depend on how brokers are registered.

Source: Kafka ``ClusterControlManager``, ``ClusterDescriber``, ``UsableBroker``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol
from uuid import UUID


class UsableBroker(NamedTuple):
    """A registered broker that may get replicas, fenced or not."""

    broker_id: int
    rack: str | None
    fenced: bool


class RegisteredBroker(Protocol):
    """The registration of one broker, as replayed from the metadata log."""

    @property
    def epoch(self) -> int:
        """The broker epoch: the log offset of its registration."""

    @property
    def fenced(self) -> bool: ...

    @property
    def in_controlled_shutdown(self) -> bool: ...

    @property
    def directories(self) -> tuple[UUID, ...]:
        """The ids of its online log directories; empty if the broker reported none."""


class RegisteredBrokers(Protocol):
    """The registered brokers and their states, as of the last replayed record."""

    def registration(self, broker_id: int) -> RegisteredBroker | None:
        """The broker's registration; None if it is not registered."""

    def is_active(self, broker_id: int) -> bool:
        """Whether the broker is registered, unfenced and not in controlled shutdown."""

    def usable_brokers(self) -> Iterable[UsableBroker]:
        """The brokers that may get replicas, by ascending id; not those in controlled shutdown."""

    def default_dir(self, broker_id: int) -> UUID:
        """The log directory of a new replica: the broker's only directory, or UNASSIGNED."""

    def has_online_dir(self, broker_id: int, directory: UUID) -> bool:
        """Whether the broker's log directory is online; False for an unknown broker."""

    def check_broker_epoch(self, broker_id: int, broker_epoch: int) -> None:
        """ApiException(STALE_BROKER_EPOCH) unless the broker is registered with that epoch."""
