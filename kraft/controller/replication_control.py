"""Topics and partitions of a KRaft cluster: the managers that share their state.

Each manager has its own module; it generates records from the state and changes nothing.
This module creates the managers and replays records.

Source: Kafka ``ReplicationControlManager``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never
from uuid import UUID

from kraft.controller.alter_partition import AlterPartition
from kraft.controller.broker_changes import BrokerChanges
from kraft.controller.cluster_view import RegisteredBrokers
from kraft.controller.configuration_control import ConfigurationControlManager
from kraft.controller.leader_elections import (
    MAX_ELECTIONS_PER_IMBALANCE,
    LeaderElections,
)
from kraft.controller.partition_changes import PartitionChanges
from kraft.controller.partition_placement import PartitionPlacement
from kraft.controller.reassignment_control import ReassignmentControl
from kraft.controller.replica_placer import ReplicaPlacer
from kraft.controller.replication_state import ReplicationRecord, ReplicationState
from kraft.controller.snapshot_registry import SnapshotRegistry
from kraft.controller.topic_creation import TopicCreation
from kraft.controller.topic_requests import CreateTopicPolicy
from kraft.metadata.metadata_version import MetadataVersion
from kraft.metadata.records import (
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)


@dataclass(frozen=True, slots=True)
class ReplicationConfig:
    """The controller's configuration of topics."""

    default_num_partitions: int = 1
    default_replication_factor: int = 3
    eligible_leader_replicas_enabled: bool = False
    max_elections_per_imbalance: int = MAX_ELECTIONS_PER_IMBALANCE
    create_topic_policy: CreateTopicPolicy | None = None


class ReplicationControlManager:
    """The managers of topics and partitions, one attribute each."""

    def __init__(
        self,
        registry: SnapshotRegistry,
        cluster: RegisteredBrokers,
        configs: ConfigurationControlManager,
        metadata_version: Callable[[], MetadataVersion],
        placer: ReplicaPlacer,
        new_topic_id: Callable[[], UUID],
        config: ReplicationConfig | None = None,
    ) -> None:
        """``metadata_version`` returns the finalized level, as of the last replayed record."""
        config = config or ReplicationConfig()
        self._configs = configs
        self.state = ReplicationState(registry)
        changes = PartitionChanges(
            self.state,
            cluster,
            configs,
            metadata_version,
            eligible_leader_replicas_enabled=config.eligible_leader_replicas_enabled,
        )
        placement = PartitionPlacement(cluster, changes, placer)
        self.topics = TopicCreation(
            self.state,
            changes,
            placement,
            configs,
            new_topic_id=new_topic_id,
            default_num_partitions=config.default_num_partitions,
            default_replication_factor=config.default_replication_factor,
            policy=config.create_topic_policy,
        )
        self.isr = AlterPartition(self.state, cluster, changes)
        self.elections = LeaderElections(self.state, changes, config.max_elections_per_imbalance)
        self.reassignments = ReassignmentControl(self.state, changes, placement, configs)
        self.brokers = BrokerChanges(self.state, cluster, changes)

    def replay(self, record: ReplicationRecord) -> None:
        """Replays a record; IllegalState if it contradicts the state."""
        match record:
            case TopicRecord():
                self.state.replay_topic(record)
            case PartitionRecord():
                self.state.replay_partition(record)
            case PartitionChangeRecord():
                self.state.replay_partition_change(record)
            case RemoveTopicRecord():
                name = self.state.replay_remove_topic(record)
                self._configs.delete_topic_configs(name)
            case _:
                assert_never(record)
