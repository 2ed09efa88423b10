"""Builds partition records with the cluster's brokers, features and configurations.

Every manager that changes a partition gets its :class:`PartitionChangeBuilder` here and sets only
the targets.

Source: Kafka ``ReplicationControlManager.generateLeaderAndIsrUpdates``, ``LeaderAcceptor``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import UUID

from kraft.controller.cluster_view import RegisteredBrokers
from kraft.controller.configuration_control import ConfigurationControlManager
from kraft.controller.directory_ids import MIGRATING
from kraft.controller.partition_change_builder import PartitionChangeBuilder
from kraft.controller.partition_election import PartitionElection
from kraft.controller.partition_registration import (
    PartitionId,
    PartitionRegistration,
)
from kraft.controller.replication_state import ReplicationState, TopicControlInfo
from kraft.controller.result import VersionedRecord
from kraft.metadata.metadata_version import MetadataVersion
from kraft.metadata.records import NO_LEADER, PartitionRecord


class PartitionChanges:
    """Makes builders and the records they build."""

    def __init__(
        self,
        state: ReplicationState,
        cluster: RegisteredBrokers,
        configs: ConfigurationControlManager,
        metadata_version: Callable[[], MetadataVersion],
        *,
        eligible_leader_replicas_enabled: bool = False,
    ) -> None:
        self._state = state
        self._cluster = cluster
        self._configs = configs
        self._metadata_version = metadata_version
        self._elr_enabled = eligible_leader_replicas_enabled

    @property
    def metadata_version(self) -> MetadataVersion:
        """The finalized metadata.version, as of the last replayed record."""
        return self._metadata_version()

    @property
    def is_elr_enabled(self) -> bool:
        """Whether eligible leader replicas are configured and supported by metadata.version."""
        return self._elr_enabled and self.metadata_version.is_elr_supported

    def default_dir(self, broker_id: int) -> UUID:
        """The directory of a new replica on that broker, at this metadata.version."""
        if not self.metadata_version.is_directory_assignment_supported:
            return MIGRATING
        return self._cluster.default_dir(broker_id)

    def created(
        self, topic_id: UUID, partition_id: int, partition: PartitionRegistration
    ) -> VersionedRecord:
        """The record of a new partition."""
        record: PartitionRecord = partition.to_record(topic_id, partition_id, self.metadata_version)
        return VersionedRecord(record, self.metadata_version.partition_record_version())

    def builder(
        self,
        topic: TopicControlInfo,
        partition_id: int,
        partition: PartitionRegistration,
        is_acceptable: Callable[[int], bool] | None = None,
    ) -> PartitionChangeBuilder:
        """A builder that elects only brokers whose directory of the replica is online.

        They must also satisfy ``is_acceptable``; without it, they must be active.
        """
        is_usable = is_acceptable or self._cluster.is_active

        def is_acceptable_leader(broker_id: int) -> bool:
            # A candidate from the ELR may be no replica, if a reassignment removed it before.
            return (
                broker_id in partition.replicas
                and is_usable(broker_id)
                and self._cluster.has_online_dir(broker_id, partition.directory(broker_id))
            )

        return PartitionChangeBuilder(
            partition,
            topic.topic_id,
            partition_id,
            is_acceptable_leader,
            self.metadata_version,
            self._min_isr(topic) if self.is_elr_enabled else 1,
            self.default_dir,
            is_elr_enabled=self.is_elr_enabled,
        )

    def election_of(self, topic: TopicControlInfo) -> PartitionElection:
        """The kind of election that the topic's configuration allows."""
        unclean = self._configs.is_unclean_leader_election_enabled(topic.name)
        return PartitionElection.UNCLEAN if unclean else PartitionElection.ONLINE

    def built(self, builder: PartitionChangeBuilder) -> list[VersionedRecord]:
        """The record of a change, in a list; empty if nothing changes."""
        record = builder.build()
        if record is None:
            return []
        version = builder.metadata_version.partition_change_record_version()
        return [VersionedRecord(record, version)]

    def leader_and_isr_updates(
        self,
        context: str,
        partitions: Iterable[PartitionId],
        *,
        broker_to_remove: int = NO_LEADER,
        broker_to_add: int = NO_LEADER,
        broker_with_unclean_shutdown: int = NO_LEADER,
    ) -> list[VersionedRecord]:
        """The records for these partitions when a broker fails, returns or shut down uncleanly.

        ``context``: what the log line says happened.

        The record that fences or unfences the broker is not replayed yet.  So a broker to remove,
        or with an unclean shutdown, leaves the ISR and cannot lead, and a broker to add counts as
        active.
        """
        removed = (broker_to_remove, broker_with_unclean_shutdown)

        def is_acceptable(broker_id: int) -> bool:
            return broker_id not in removed and (
                broker_id == broker_to_add or self._cluster.is_active(broker_id)
            )

        records: list[VersionedRecord] = []
        elections: dict[UUID, PartitionElection] = {}
        for key in partitions:
            topic, partition = self._state.located(key)
            builder = self.builder(topic, key.partition_id, partition, is_acceptable)
            election = elections.get(topic.topic_id)
            if election is None:
                election = elections[topic.topic_id] = self.election_of(topic)
            builder.election = election
            if broker_with_unclean_shutdown != NO_LEADER:
                builder.unclean_shutdown_replicas = (broker_with_unclean_shutdown,)
            builder.target_isr = tuple(broker for broker in partition.isr if broker not in removed)
            records += self.built(builder)
        if records:
            self._state.logger.info("%s: changing %d partition(s)", context, len(records))
        return records

    def _min_isr(self, topic: TopicControlInfo) -> int:
        return min(
            self._configs.min_in_sync_replicas(topic.name), len(topic.partitions[0].replicas)
        )
