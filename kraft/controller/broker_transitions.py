"""The records for a broker that is fenced, unfenced, stopped or loses a log directory.

:class:`~.broker_changes.BrokerChanges` implements this protocol.  Each method returns records and
changes nothing.

Source: Kafka ``ReplicationControlManager.handleBroker…``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from kraft.controller.result import VersionedRecord


class BrokerTransitions(Protocol):
    """Generates the records of one broker's change, with those of its partitions."""

    def has_leaderships(self, broker_id: int) -> bool:
        """Whether the broker leads a partition."""

    def handle_broker_fenced(self, broker_id: int) -> list[VersionedRecord]:
        """Partition changes first, then the record that fences the broker."""

    def handle_broker_unfenced(self, broker_id: int, broker_epoch: int) -> list[VersionedRecord]:
        """The record that unfences the broker first, then elections of leaderless partitions."""

    def handle_broker_in_controlled_shutdown(
        self, broker_id: int, broker_epoch: int
    ) -> list[VersionedRecord]:
        """The record of the shutdown (once, from 3.3-IV3 on), then partition changes."""

    def handle_broker_unregistered(
        self, broker_id: int, broker_epoch: int
    ) -> list[VersionedRecord]:
        """Partition changes first, then the UnregisterBrokerRecord."""

    def handle_broker_unclean_shutdown(self, broker_id: int) -> list[VersionedRecord]:
        """Partition changes that remove the broker from ISRs and ELRs; none below 4.0-IV0."""

    def handle_directories_offline(
        self, broker_id: int, broker_epoch: int, offline_dirs: Sequence[UUID]
    ) -> list[VersionedRecord]:
        """Changes of the partitions in these directories, then the broker's other directories."""
