"""Leader elections by ElectLeaders, and periodic ones.

Source: Kafka ``ReplicationControlManager.electLeaders``, ``maybeBalancePartitionLeaders``,
``maybeElectUncleanLeaders`` (KIP-460, KIP-704).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from kafka_common.api_error import NO_ERROR, ApiError
from kafka_common.model import ElectionType
from kraft.controller.partition_changes import PartitionChanges
from kraft.controller.partition_election import PartitionElection
from kraft.controller.replication_state import ReplicationState
from kraft.controller.result import (
    BoundedRecords,
    ControllerResult,
    VersionedRecord,
)

MAX_ELECTIONS_PER_IMBALANCE: Final = 1_000

_ELECTIONS: Final = {
    ElectionType.PREFERRED: PartitionElection.PREFERRED,
    ElectionType.UNCLEAN: PartitionElection.UNCLEAN,
}

_NOT_NEEDED: Final = ApiError(
    ErrorCode.election_not_needed, "Leader election not needed for topic partition."
)
_NO_CANDIDATE: Final = {
    ElectionType.PREFERRED: ApiError(
        ErrorCode.preferred_leader_not_available, "The preferred leader was not available."
    ),
    ElectionType.UNCLEAN: ApiError(
        ErrorCode.eligible_leaders_not_available,
        "Eligible topic partition leaders are not available.",
    ),
}


class ElectedTopic(NamedTuple):
    """The result for each partition of one topic."""

    name: str
    partitions: tuple[tuple[int, ApiError], ...]


class LeaderElections:
    """Generates the leader changes that a client requests, and the periodic ones."""

    def __init__(
        self,
        state: ReplicationState,
        changes: PartitionChanges,
        max_elections_per_imbalance: int = MAX_ELECTIONS_PER_IMBALANCE,
    ) -> None:
        self._state = state
        self._changes = changes
        self._max_elections = max_elections_per_imbalance

    def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: Iterable[tuple[str, tuple[int, ...]]] | None,
    ) -> ControllerResult[tuple[ElectedTopic, ...]]:
        """Elects leaders, with one result per partition.

        ``partitions`` None means all partitions; the result then leaves out those that need no
        election.
        """
        wants_all = partitions is None
        if partitions is None:
            partitions = [
                (topic.name, tuple(topic.partitions)) for topic in self._state.topics.values()
            ]
        records = BoundedRecords()
        topic_results = []
        for name, partition_ids in partitions:
            partition_results = []
            for partition_id in partition_ids:
                error, elected = self._elect(name, partition_id, election_type)
                records.extend(elected)
                if not (wants_all and error is _NOT_NEEDED):
                    partition_results.append((partition_id, error))
            topic_results.append(ElectedTopic(name, tuple(partition_results)))
        return ControllerResult.of(records.to_tuple(), tuple(topic_results))

    def _elect(
        self, name: str, partition_id: int, election_type: ElectionType
    ) -> tuple[ApiError, list[VersionedRecord]]:
        topic = self._state.topic_named(name)
        if topic is None:
            return ApiError(ErrorCode.unknown_topic_or_partition, f"No such topic as {name}"), []
        partition = topic.partitions.get(partition_id)
        if partition is None:
            return ApiError(
                ErrorCode.unknown_topic_or_partition,
                f"No such partition as {name}-{partition_id}",
            ), []
        is_preferred = election_type is ElectionType.PREFERRED
        if partition.has_preferred_leader if is_preferred else partition.has_leader:
            return _NOT_NEEDED, []
        builder = self._changes.builder(topic, partition_id, partition)
        builder.election = _ELECTIONS[election_type]
        elected = self._changes.built(builder)
        return (NO_ERROR if elected else _NO_CANDIDATE[election_type]), elected

    def are_partition_leaders_imbalanced(self) -> bool:
        """Whether some partition is not led by its preferred replica."""
        return bool(self._state.imbalanced_partitions)

    def are_some_partitions_leaderless(self) -> bool:
        """Whether some partition has no leader."""
        return any(True for _ in self._state.brokers_to_isrs.partitions_with_no_leader())

    def maybe_balance_partition_leaders(self) -> ControllerResult[bool]:
        """Elects preferred replicas where possible; the response is True if more may be left."""
        records: list[VersionedRecord] = []
        for key in self._state.imbalanced_partitions:
            if len(records) >= self._max_elections:
                break
            topic, partition = self._state.located(key)
            builder = self._changes.builder(topic, key.partition_id, partition)
            builder.election = PartitionElection.PREFERRED
            records += self._changes.built(builder)
        return ControllerResult.of(records, len(records) >= self._max_elections)

    def maybe_elect_unclean_leaders(self) -> ControllerResult[bool]:
        """Elects leaders for leaderless partitions of topics that allow unclean elections.

        The response is True if there may be more to elect.
        """
        records: list[VersionedRecord] = []
        for key in self._state.brokers_to_isrs.partitions_with_no_leader():
            if len(records) >= self._max_elections:
                break
            topic, _ = self._state.located(key)
            if self._changes.election_of(topic) is PartitionElection.UNCLEAN:
                result, elected = self._elect(topic.name, key.partition_id, ElectionType.UNCLEAN)
                if result is NO_ERROR:
                    self._state.logger.error(
                        "Triggering unclean leader election for offline partition %s-%d.",
                        topic.name, key.partition_id,
                    )  # fmt: skip
                else:
                    self._state.logger.warning(
                        "Cannot trigger unclean leader election for offline partition %s-%d: %s",
                        topic.name, key.partition_id, result.error.name.upper(),
                    )  # fmt: skip
                records += elected
        return ControllerResult.of(records, len(records) >= self._max_elections)
