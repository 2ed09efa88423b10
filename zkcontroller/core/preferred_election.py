"""ElectLeaders requests, ``/admin/preferred_replica_election`` and automatic balancing.

Source: Kafka ``KafkaController.processReplicaLeaderElection``,
``checkAndTriggerAutoLeaderRebalance`` (KIP-460).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kio.schema.errors import ErrorCode

from kafka_common.errors import StateChangeFailed, ZnodeCorrupt
from kafka_common.model import NO_LEADER, ElectionType, TopicPartition
from zkcontroller.core.effects import (
    PartitionResult,
    PartitionResults,
    Procedure,
    Put,
    RequestResponse,
)
from zkcontroller.core.elections import (
    OfflineElection,
    PreferredElection,
    Strategy,
    elect_first_in_sync,
)
from zkcontroller.core.events import (
    AutoPreferredReplicaLeaderElection,
    ElectionTrigger,
    ReplicaLeaderElection,
)
from zkcontroller.core.journal import (
    csv,
    keeper_exception,
    scala_map,
    scala_seq,
    scala_set,
    state_change_failure,
)
from zkcontroller.core.partition_states import ElectionOutcome, PartitionStateMachine
from zkcontroller.core.partition_table import NO_ROW
from zkcontroller.core.states import PartitionState
from zkcontroller.core.tools import ControllerTools
from zkcontroller.zookeeper.znodes import PreferredReplicaElectionZnode

# Most partitions have one of these results, and reading an attribute of the enum takes 150 ns.
_NONE: Final = ErrorCode.none
_ELECTION_NOT_NEEDED: Final = ErrorCode.election_not_needed

FIRST_CHECK_MS = 5_000
"""``auto.leader.rebalance``: the time from failover to the first check."""


class ReplicaLeaderElections:
    """Elections on request, and those that keep leaders on their preferred replicas."""

    def __init__(self, tools: ControllerTools, partitions: PartitionStateMachine) -> None:
        self._tools = tools
        self._context = tools.context
        self._journal = tools.journal
        self._partitions = partitions

    # ------------------------------------------------------------------ on request

    def run(self, event: ReplicaLeaderElection) -> Procedure[None]:
        """Handles ElectLeaders or the znode; the response holds an outcome per partition."""
        table = self._context.table
        asked = event.partitions
        if event.trigger is ElectionTrigger.ZOOKEEPER:
            path = PreferredReplicaElectionZnode.PATH
            (is_there,) = yield from self._tools.exists([path], watch=True)
            if not is_there:
                return
        if asked is None:
            asked = yield from self._read_znode()
        results: dict[TopicPartition, PartitionResult] = {}
        electing: list[int] = []
        for partition in dict.fromkeys(asked):
            row = table.row(*partition)
            refusal = self._refusal(partition, row, event)
            if refusal is None:
                electing.append(row)
            else:
                results[partition] = refusal
        deleting = [p for p in results if table.row(*p) != NO_ROW and p.topic in table.deleting]
        if deleting:
            self._journal.warn(
                f"Skipping replica leader election ({event.election_type.name}) for partitions"
                f" {scala_set(deleting)} by {event.trigger} since the respective topics are being"
                " deleted"
            )
        outcome = yield from self._elect(electing, event.election_type, event.trigger)
        not_available = (
            ErrorCode.preferred_leader_not_available
            if event.election_type is ElectionType.PREFERRED
            else ErrorCode.eligible_leaders_not_available
        )
        for row in electing:
            partition = table.topic_partition(row)
            reason = outcome.failed.get(row)
            if reason is None and not table.has_leader_and_isr(row):
                # A new partition, none of whose replicas was ever online.
                results[partition] = PartitionResult(partition, not_available)
            elif reason is None:
                results[partition] = PartitionResult(partition, _NONE)
            elif isinstance(reason, StateChangeFailed):
                results[partition] = PartitionResult(partition, not_available, str(reason))
            else:
                cause = keeper_exception(reason, table.text(row))
                results[partition] = PartitionResult(
                    partition, ErrorCode.unknown_server_error, cause
                )
        if event.request_id is not None:
            self._tools.outbox.append(
                RequestResponse(event.request_id, PartitionResults(_NONE, tuple(results.values())))
            )

    def _refusal(
        self, partition: TopicPartition, row: int, event: ReplicaLeaderElection
    ) -> PartitionResult | None:
        table = self._context.table
        if row == NO_ROW:
            self._journal.info(
                f"Skipping replica leader election ({event.election_type.name}) for partition"
                f" {partition} by {event.trigger} since it doesn't exist."
            )
            return PartitionResult(
                partition, ErrorCode.unknown_topic_or_partition, "The partition does not exist."
            )
        if partition.topic in table.deleting:
            return PartitionResult(
                partition, ErrorCode.invalid_topic_exception, "The topic is being deleted"
            )
        leader = table.leader[row]
        if event.election_type is ElectionType.PREFERRED:
            is_needed = leader != table.replicas[row][0]
        else:
            is_needed = leader == NO_LEADER or not self._context.is_live(leader)
        return None if is_needed else PartitionResult(partition, _ELECTION_NOT_NEEDED)

    def resume(self) -> Procedure[None]:
        """At failover, holds the elections in ``/admin/preferred_replica_election``.

        It also deletes the znode if there is nothing to elect, because that sets the watch.
        """
        table = self._context.table
        yield from self._tools.exists([PreferredReplicaElectionZnode.PATH], watch=True)
        pending = yield from self._read_znode()
        finished, deleting, going = [], [], []
        for partition in pending:
            row = table.row(*partition)
            if row == NO_ROW or table.leader[row] == table.replicas[row][0]:
                finished.append(partition)
            elif partition.topic in table.deleting:
                deleting.append(partition)
            elif table.has_leader_and_isr(row):
                going.append(row)
        self._journal.info(f"Partitions undergoing preferred replica election: {csv(pending)}")
        self._journal.info(f"Partitions that completed preferred replica election: {csv(finished)}")
        self._journal.info(
            "Skipping preferred replica election for partitions due to topic deletion:"
            f" {csv(deleting)}"
        )
        self._journal.info(
            f"Resuming preferred replica election for partitions: {csv(map(table.text, going))}"
        )
        yield from self._elect(going, ElectionType.PREFERRED, ElectionTrigger.ZOOKEEPER)

    # ------------------------------------------------------------------ by itself

    def schedule_rebalance(self, delay_ms: int) -> None:
        """Schedules the next balance check, if automatic balancing is on."""
        if self._tools.config.auto_leader_rebalance_enable:
            event = AutoPreferredReplicaLeaderElection(self._context.epoch)
            self._tools.outbox.append(Put(event, delay_ms))

    def rebalance(self) -> Procedure[None]:
        """Moves leaderships back to preferred leaders on imbalanced brokers."""
        self._journal.info("Processing automatic preferred replica leader election")
        try:
            yield from self._rebalance()
        finally:
            self.schedule_rebalance(
                self._tools.config.leader_imbalance_check_interval_seconds * 1000
            )

    def _rebalance(self) -> Procedure[None]:
        context, table = self._context, self._context.table
        self._journal.log("TRACE", "Checking need to trigger auto leader balancing")
        totals: dict[int, int] = {}
        imbalanced: dict[int, list[int]] = {}
        for row in table.all_rows():
            replicas = table.replicas[row]
            if not replicas or table.topic_of[row] in table.deleting:
                continue
            preferred = replicas[0]
            totals[preferred] = totals.get(preferred, 0) + 1
            if table.has_leader_and_isr(row) and table.leader[row] != preferred:
                imbalanced.setdefault(preferred, []).append(row)
        allowed = self._tools.config.leader_imbalance_per_broker_percentage / 100
        for broker_id, total in totals.items():
            rows = imbalanced.get(broker_id, [])
            elsewhere = ((table.text(row), scala_seq("List", table.replicas[row])) for row in rows)
            self._journal.debug(
                f"Topics not in preferred replica for broker {broker_id} {scala_map(elsewhere)}"
            )
            ratio = len(rows) / total
            self._journal.log("TRACE", f"Leader imbalance ratio for broker {broker_id} is {ratio}")
            if ratio > allowed:
                able = [
                    row
                    for row in rows
                    if elect_first_in_sync(
                        table.leader_and_isr(row),
                        (broker_id,),
                        lambda broker, row=row: context.is_replica_online(broker, row),  # type: ignore[misc]
                    )
                ]
                yield from self._elect(able, ElectionType.PREFERRED, ElectionTrigger.AUTO)

    # ------------------------------------------------------------------ the work

    def _elect(
        self, rows: Sequence[int], election_type: ElectionType, trigger: ElectionTrigger
    ) -> Procedure[ElectionOutcome]:
        table = self._context.table
        self._journal.info(
            f"Starting replica leader election ({election_type.name}) for partitions"
            f" {csv(table.text(row) for row in rows)} triggered by {trigger.value}"
        )
        strategy: Strategy = (
            PreferredElection()
            if election_type is ElectionType.PREFERRED
            else OfflineElection(allow_unclean=trigger is ElectionTrigger.ADMIN_CLIENT)
        )
        try:
            outcome = yield from self._partitions.handle_state_changes(
                rows, PartitionState.ONLINE, strategy
            )
            if trigger is not ElectionTrigger.ADMIN_CLIENT:
                for row, reason in outcome.failed.items():
                    self._journal.error(
                        f"Error completing replica leader election ({election_type.name}) for"
                        f" partition {table.text(row)}",
                        exception=state_change_failure(reason, table.text(row)),
                    )
        finally:
            if trigger is not ElectionTrigger.ADMIN_CLIENT:
                self._report(rows)
        if trigger is ElectionTrigger.ZOOKEEPER:
            yield from self._tools.delete([PreferredReplicaElectionZnode.PATH])
            # The event sets the watch for the next znode, and handles one created meanwhile.
            again = ReplicaLeaderElection(None, ElectionType.PREFERRED, ElectionTrigger.ZOOKEEPER)
            self._tools.outbox.append(Put(again))
        return outcome

    def _report(self, rows: Sequence[int]) -> None:
        table = self._context.table
        for row in rows:
            leader, preferred = table.leader[row], table.replicas[row][0]
            if leader == preferred:
                self._journal.info(
                    f"Partition {table.text(row)} completed preferred replica leader election. New"
                    f" leader is {preferred}"
                )
            else:
                self._journal.warn(
                    f"Partition {table.text(row)} failed to complete preferred replica leader"
                    f" election to {preferred}. Leader is still {leader}"
                )

    def _read_znode(self) -> Procedure[tuple[TopicPartition, ...]]:
        znode = yield from self._tools.read_one(PreferredReplicaElectionZnode.PATH)
        if znode is None:
            return ()
        try:
            return PreferredReplicaElectionZnode.decode(znode.data).partitions
        except ZnodeCorrupt as corrupt:
            self._journal.error(f"{corrupt}; it names no partition")
            return ()
