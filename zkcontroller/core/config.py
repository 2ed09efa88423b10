"""The part of a broker's configuration that its controller needs.

Source: Kafka ``KafkaConfig`` and ``MetadataVersion``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka_common.protocol.inter_broker_versions import (
    InterBrokerVersion,
    is_alter_partition_supported,
    is_leader_recovery_supported,
    is_topic_id_supported,
    leader_and_isr_version,
    stop_replica_version,
    update_metadata_version,
    version_of,
)


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """Settings of one controller candidate.

    ``listener_name`` is the listener by which the controller reaches brokers (the control-plane
    listener if there is one); ``inter_broker_listener_name`` is the one that LeaderAndIsr names
    leaders by.
    """

    broker_id: int
    inter_broker_protocol_version: str = "3.9-IV0"
    listener_name: str = "PLAINTEXT"
    inter_broker_listener_name: str = "PLAINTEXT"
    unclean_leader_election_enable: bool = False
    """The value at start; UncleanLeaderElectionEnable events change it later."""
    delete_topic_enable: bool = True
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_seconds: int = 300
    leader_imbalance_per_broker_percentage: int = 10
    """Leaders are rebalanced if this share of a broker's preferred leaders is elsewhere."""
    supported_features: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Features this broker supports, name to (min, max); a ZooKeeper-mode broker has none."""
    trace_state_changes: bool = False
    """Whether to make the records that Kafka logs at TRACE: one per partition of each request."""
    inter_broker_version: InterBrokerVersion = field(init=False)
    leader_and_isr_version: int = field(init=False)
    update_metadata_version: int = field(init=False)
    stop_replica_version: int = field(init=False)
    is_topic_id_supported: bool = field(init=False)
    is_alter_partition_supported: bool = field(init=False)
    is_leader_recovery_supported: bool = field(init=False)

    def __post_init__(self) -> None:
        version = version_of(self.inter_broker_protocol_version)
        object.__setattr__(self, "inter_broker_version", version)
        object.__setattr__(self, "leader_and_isr_version", leader_and_isr_version(version))
        object.__setattr__(self, "update_metadata_version", update_metadata_version(version))
        object.__setattr__(self, "stop_replica_version", stop_replica_version(version))
        object.__setattr__(self, "is_topic_id_supported", is_topic_id_supported(version))
        object.__setattr__(
            self, "is_alter_partition_supported", is_alter_partition_supported(version)
        )
        object.__setattr__(
            self, "is_leader_recovery_supported", is_leader_recovery_supported(version)
        )
