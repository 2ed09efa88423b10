"""Partition reassignments by API or znode: validates, starts, cancels, resumes and lists them.

:mod:`.reassignment_phases` moves the replicas.

Source: Kafka ``KafkaController.processApiPartitionReassignment``,
``processZkPartitionReassignment``, ``maybeResumeReassignments`` (KIP-455).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from kio.schema.errors import ErrorCode

from kafka_common.model import ReplicaAssignment, TopicPartition
from kafka_common.protocol.error_codes import error_name
from zkcontroller.core.effects import (
    OngoingReassignments,
    PartitionResult,
    PartitionResults,
    Procedure,
    RequestResponse,
)
from zkcontroller.core.elections import OfflineElection
from zkcontroller.core.events import ApiPartitionReassignment, ListPartitionReassignments
from zkcontroller.core.journal import scala_map, scala_seq, scala_set
from zkcontroller.core.leader_epochs import bump_leader_epochs
from zkcontroller.core.partition_states import PartitionStateMachine
from zkcontroller.core.partition_table import NO_ROW
from zkcontroller.core.reassignment_phases import ReassignmentPhases
from zkcontroller.core.reassignment_znode import ReassignmentZnode
from zkcontroller.core.replica_states import ReplicaStateMachine
from zkcontroller.core.states import PartitionState
from zkcontroller.core.tools import ControllerTools

_NONE: Final = ErrorCode.none  # bound once: the enum's attribute costs 150 ns for each partition

NO_SUCH_PARTITION = "The partition does not exist."
NO_REPLICA_IN_SYNC = "None of the replicas that would be left is in sync."

_SEQ: Final = "ArrayBuffer"
"""The Scala class in which requested replicas are printed."""

_Target: TypeAlias = tuple[TopicPartition, tuple[int, ...] | None]


class Reassignments:
    """Accepts reassignments and moves them through :class:`ReassignmentPhases`."""

    def __init__(
        self,
        tools: ControllerTools,
        partitions: PartitionStateMachine,
        replicas: ReplicaStateMachine,
    ) -> None:
        self._tools = tools
        self._context = tools.context
        self._journal = tools.journal
        self._partitions = partitions
        self._znode = ReassignmentZnode(tools)
        self._phases = ReassignmentPhases(tools, partitions, replicas, self._znode)

    # ------------------------------------------------------------------ events

    def process_api(self, event: ApiPartitionReassignment) -> Procedure[None]:
        """AlterPartitionReassignments: the response is sent when the reassignment has begun."""
        results: dict[TopicPartition, PartitionResult] = {}
        wanted: list[_Target] = []
        for partition, target in event.targets:
            refusal = None if target is None else self._invalid(partition, target)
            if refusal is None:
                wanted.append((partition, target))
            else:
                results[partition] = PartitionResult(
                    partition, ErrorCode.invalid_replica_assignment, refusal
                )
        started = {p for p, target in wanted if self._build(p, target) is not None}
        # The latest request for a partition counts, whether by API or znode.
        yield from self._znode.remove(lambda partition, _: partition in started)
        for result in (yield from self._start(wanted)):
            results[result.partition] = result
        self._tools.outbox.append(
            RequestResponse(
                event.request_id,
                PartitionResults(
                    _NONE, tuple(results[partition] for partition, _ in event.targets)
                ),
            )
        )

    def process_znode(self) -> Procedure[list[TopicPartition]]:
        """``/admin/reassign_partitions`` was created; returns the partitions that it started.

        Invalid replica lists (empty, an id twice, a negative id) are refused; dead brokers are not.
        Kafka accepts an invalid list, and the topic's znode is malformed afterwards.
        """
        if not (yield from self._znode.is_there()):
            return []
        listed = yield from self._znode.read()
        refused = {p: reason for p, target in listed.items() if (reason := _malformed(target))}
        results = [
            PartitionResult(partition, ErrorCode.invalid_replica_assignment, reason)
            for partition, reason in refused.items()
        ]
        results += yield from self._start([(p, t) for p, t in listed.items() if p not in refused])
        failed = {result.partition: result for result in results if result.error_code is not _NONE}
        if failed:
            self._journal.warn(
                "Failed reassignment through zk with the following errors:"
                f" {scala_map((p, _api_error(result)) for p, result in failed.items())}"
            )
            yield from self._znode.remove(lambda partition, _: partition in failed)
        return [partition for partition in listed if partition not in failed]

    def watch_znode(self) -> Procedure[None]:
        """Sets a new watch after ``/admin/reassign_partitions`` was rewritten.

        Kafka does not.  If an operator removes the znode by hand, Kafka misses the next one
        (KAFKA-9478).
        """
        yield from self._znode.is_there()

    def list_ongoing(self, event: ListPartitionReassignments) -> None:
        """Responds with the current reassignments."""
        table = self._context.table
        if event.partitions is None:
            rows: Iterable[int] = sorted(table.reassigning)
        else:
            rows = (table.row(*partition) for partition in event.partitions)
        ongoing = tuple(
            (table.topic_partition(row), table.reassigning[row])
            for row in rows
            if row in table.reassigning
        )
        self._tools.outbox.append(
            RequestResponse(event.request_id, OngoingReassignments(_NONE, ongoing))
        )

    def resume_all(self) -> Procedure[None]:
        """At failover: starts the reassignments in the znode, then resumes unfinished ones."""
        listed = set((yield from self.process_znode()))
        table = self._context.table
        yield from self.resume(
            [row for row in table.reassigning if table.topic_partition(row) not in listed]
        )

    def resume(self, rows: Iterable[int]) -> Procedure[None]:
        """Resumes the reassignments of those among these partitions that are being moved."""
        moving = self._context.table.reassigning
        yield from self._phases.advance(
            {row: moving[row] for row in rows if row in moving and not self._is_doomed(row)}
        )

    def resume_for_brokers(self, broker_ids: Iterable[int]) -> Procedure[None]:
        """Resumes reassignments to brokers that started."""
        started = set(broker_ids)
        yield from self.resume(
            [
                row
                for row, assignment in self._context.table.reassigning.items()
                if started.intersection(assignment.target_replicas)
            ]
        )

    def complete_if_caught_up(self, rows: Iterable[int]) -> Procedure[None]:
        """Ends the reassignments of these partitions whose targets are all in the ISR."""
        table = self._context.table
        moving = {
            row: table.reassigning[row]
            for row in rows
            if row in table.reassigning and not self._is_doomed(row)
        }
        done = yield from self._phases.caught_up(moving)
        for row in done:
            targets = scala_seq(_SEQ, moving[row].target_replicas)
            self._journal.info(
                f"Target replicas {targets} have all caught up with the leader for"
                f" reassigning partition {table.text(row)}"
            )
        yield from self._phases.complete({row: moving[row] for row in done})

    def retry_refused(self) -> Procedure[None]:
        """Retries what ZooKeeper refused: states, elections, and the ends of reassignments."""
        table = self._context.table
        rows = self._partitions.refused.take()
        yield from self._write_again(rows.states)
        yield from self._partitions.handle_state_changes(
            rows.elections, PartitionState.ONLINE, OfflineElection()
        )
        yield from self._phases.write_final(
            {row: table.assignment(row) for row in rows.assignments}
        )

    def _write_again(self, rows: Sequence[int]) -> Procedure[None]:
        """Raises the leader epochs in ZooKeeper, and sends LeaderAndIsr to all replicas.

        A partition gets a new leader if its leader in ZooKeeper, unknown here until now, is dead.
        """
        table, context = self._context.table, self._context
        raised = yield from bump_leader_epochs(self._tools, rows)
        batch = self._tools.new_batch()
        for row in raised:
            batch.add_leader_and_isr(table.replicas[row], [row])
        batch.send()
        for row in rows:
            if row not in raised:
                context.refused_states[table.topic_partition(row)] = None
        leaders = table.leader
        leaderless = [row for row in raised if not context.is_replica_online(leaders[row], row)]
        yield from self._partitions.handle_state_changes(leaderless, PartitionState.OFFLINE)
        yield from self._partitions.handle_state_changes(
            leaderless, PartitionState.ONLINE, OfflineElection()
        )

    def _is_doomed(self, row: int) -> bool:
        """Whether the topic is queued for deletion, which a reassignment would only delay.

        Kafka does both at once, and after a failover lets the deletion wait for the move.
        """
        return self._context.is_queued_for_deletion(row)

    # ------------------------------------------------------------------ checking

    def _invalid(self, partition: TopicPartition, target: tuple[int, ...]) -> str | None:
        """Why the replicas cannot be assigned; None if they can."""
        malformed = _malformed(target)
        if malformed is not None:
            return malformed
        row = self._context.table.row(*partition)
        current = ReplicaAssignment(()) if row == NO_ROW else self._context.table.assignment(row)
        adding = current.reassign_to(target).adding_replicas
        # Only the brokers of added replicas must be live.
        if not all(self._context.is_live(broker) for broker in adding):
            return (
                "Replica assignment has brokers that are not alive. Replica list:"
                f" {scala_seq(_SEQ, adding)}, live broker list:"
                f" {scala_set(self._context.live_broker_ids)}"
            )
        return None

    def _build(
        self, partition: TopicPartition, target: tuple[int, ...] | None
    ) -> ReplicaAssignment | None:
        """The assignment with which the reassignment begins.

        None if ``target`` is None, which cancels, and the partition is not under reassignment.
        """
        table = self._context.table
        row = table.row(*partition)
        current = ReplicaAssignment(()) if row == NO_ROW else table.assignment(row)
        if target is None:
            if not current.is_being_reassigned:
                return None
            target = current.origin_replicas
        return current.reassign_to(target)

    # ------------------------------------------------------------------ beginning

    def _start(self, targets: Sequence[_Target]) -> Procedure[list[PartitionResult]]:
        table = self._context.table
        results = []
        starting: dict[int, ReplicaAssignment] = {}
        for partition, target in targets:
            assignment = self._build(partition, target)
            row = table.row(*partition)
            if assignment is None:
                results.append(PartitionResult(partition, ErrorCode.no_reassignment_in_progress))
            elif partition.topic in table.deleting:
                self._journal.info(
                    f"Skipping reassignment of {partition} since the topic is currently being"
                    " deleted"
                )
                results.append(
                    PartitionResult(
                        partition, ErrorCode.unknown_topic_or_partition, NO_SUCH_PARTITION
                    )
                )
            elif row == NO_ROW or not table.replicas[row]:
                results.append(
                    PartitionResult(
                        partition, ErrorCode.unknown_topic_or_partition, NO_SUCH_PARTITION
                    )
                )
            elif self._loses_everything(row, assignment):
                results.append(
                    PartitionResult(
                        partition, ErrorCode.invalid_replica_assignment, NO_REPLICA_IN_SYNC
                    )
                )
            else:
                starting[row] = assignment
        failed = yield from self._phases.advance(starting)
        results.extend(
            PartitionResult(
                table.topic_partition(row),
                ErrorCode.unknown_server_error if row in failed else _NONE,
            )
            for row in starting
        )
        return results

    def _loses_everything(self, row: int, assignment: ReplicaAssignment) -> bool:
        """Whether every in-sync replica would be dropped, and the records with them.

        This happens if only added replicas of a cancelled or replaced reassignment are in sync.
        Kafka's controller in ZooKeeper mode deletes them, and the partition waits for ever for an
        in-sync replica that is not in its assignment.  Kafka's KRaft controller refuses, as does
        ours.
        """
        table = self._context.table
        in_sync = table.in_sync_replicas[row]
        return bool(in_sync) and not set(in_sync).intersection(assignment.replicas)


def _api_error(result: PartitionResult) -> str:
    """The refusal of a request, in Kafka's words."""
    return f"ApiError(error={error_name(result.error_code)}, message={result.message or 'null'})"


def _malformed(target: tuple[int, ...]) -> str | None:
    """Why these replicas are invalid whichever brokers are live; None if they are valid."""
    text = scala_seq(_SEQ, target)
    if not target:
        return "Empty replica list specified in partition reassignment."
    if len(set(target)) != len(target):
        return f"Duplicate replica ids in partition reassignment replica list: {text}"
    if any(broker < 0 for broker in target):
        return f"Invalid broker id in replica list: {text}"
    return None
