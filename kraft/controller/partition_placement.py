"""The replicas of new partitions: assigned by the client or by the replica placer.

Source: Kafka ``ReplicationControlManager.validateManualPartitionAssignment``, ``createTopic``.
"""

from __future__ import annotations

from collections.abc import Sequence

from kio.schema.errors import ErrorCode

from kafka_common.api_error import ApiException
from kraft.controller.cluster_view import RegisteredBrokers
from kraft.controller.partition_changes import PartitionChanges
from kraft.controller.partition_registration import PartitionRegistration
from kraft.controller.replica_placer import ReplicaPlacer


class PartitionPlacement:
    """Makes new partitions; every active replica is in sync and the first one leads."""

    def __init__(
        self, cluster: RegisteredBrokers, changes: PartitionChanges, placer: ReplicaPlacer
    ) -> None:
        self._cluster = cluster
        self._changes = changes
        self._placer = placer

    def place(self, partition_count: int, replication_factor: int) -> list[tuple[int, ...]]:
        """The replicas of each new partition; raises INVALID_REPLICATION_FACTOR."""
        brokers = self._cluster.usable_brokers()
        return self._placer.place(partition_count, replication_factor, brokers)

    def placed(self, replicas: Sequence[int]) -> PartitionRegistration:
        """A partition with the placer's replicas; raises INVALID_REPLICATION_FACTOR."""
        return self._partition(
            replicas,
            ApiException(
                ErrorCode.invalid_replication_factor,
                f"Unable to replicate the partition {len(replicas)} time(s): "
                "All brokers are currently fenced or in controlled shutdown.",
            ),
        )

    def assigned(
        self, partition_id: int, replicas: Sequence[int], replication_factor: int | None
    ) -> PartitionRegistration:
        """A partition with a client's replicas; raises INVALID_REPLICA_ASSIGNMENT."""
        self.check_assignment(replicas, replication_factor)
        return self._partition(
            replicas,
            ApiException(
                ErrorCode.invalid_replica_assignment,
                "All brokers specified in the manual partition assignment for partition "
                f"{partition_id} are fenced or in controlled shutdown.",
            ),
        )

    def check_assignment(
        self, replicas: Sequence[int], replication_factor: int | None = None
    ) -> None:
        """Raises INVALID_REPLICA_ASSIGNMENT for invalid replicas.

        They must be registered brokers, none named twice, and ``replication_factor`` in number
        (None: any number).
        """
        if not replicas:
            raise _refusal("an empty replica list.")
        previous = None
        for broker_id in sorted(replicas):
            if self._cluster.registration(broker_id) is None:
                raise _refusal(f"broker {broker_id}, but no such broker is registered.")
            if broker_id == previous:
                raise _refusal(f"the broker {broker_id} more than once.")
            previous = broker_id
        if replication_factor is not None and len(replicas) != replication_factor:
            raise _refusal(
                f"a partition with {len(replicas)} replica(s), but this is not consistent with "
                f"previous partitions, which have {replication_factor} replica(s)."
            )

    def _partition(
        self, replicas: Sequence[int], none_active: ApiException
    ) -> PartitionRegistration:
        isr = tuple(broker for broker in replicas if self._cluster.is_active(broker))
        if not isr:
            raise none_active
        directories = [self._changes.default_dir(broker) for broker in replicas]
        return PartitionRegistration.new(replicas, directories, isr)


def _refusal(found: str) -> ApiException:
    return ApiException(
        ErrorCode.invalid_replica_assignment,
        f"The manual partition assignment includes {found}",
    )
