"""Moving replicas: from the order, by API or znode, to the last replica removed.

For a partition with origin replicas (ORS) and target replicas (TRS), the assignment in between is
RS = TRS + ORS with adding (AR) and removing (RR) replicas:

* **U** write RS, AR, RR to the topic's znode; drop replicas that an earlier target was adding.
* **A** not caught up: raise the leader epoch, tell ORS and AR (as new); AR start to fetch.
* **B** TRS ⊆ ISR: AR go Online; the assignment becomes TRS; a leader outside TRS hands over; RR go
  Offline (out of the ISR) and are deleted; *then* the znode gets its final assignment.

Every step can be done again, and ZooKeeper gets the final assignment last: a new controller
resumes from wherever the old one stopped.  Kafka takes partition after partition; here all
partitions of one event go through each step together, which changes how they share requests and
nothing else.

Source: Kafka ``KafkaController.onPartitionReassignment`` (KIP-455).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import TypeAlias

from zkcontroller.core.desk import Desk
from zkcontroller.core.effects import (
    Answer,
    OngoingReassignments,
    PartitionResult,
    PartitionResults,
    Procedure,
    Put,
)
from zkcontroller.core.elections import ReassignElection
from zkcontroller.core.events import (
    ApiPartitionReassignment,
    ListPartitionReassignments,
    ZkPartitionReassignment,
)
from zkcontroller.core.journal import csv, scala_map, scala_set, with_leadership
from zkcontroller.core.leader_epochs import bump_leader_epochs
from zkcontroller.core.partition_states import PartitionStateMachine
from zkcontroller.core.partition_table import NO_ROW, PartitionState, ReplicaState
from zkcontroller.core.replica_states import ReplicaStateMachine
from zkcontroller.core.state_znodes import read_states
from zkcontroller.core.topics import assignment_text
from zkcontroller.errors import ZnodeCorrupt
from zkcontroller.model import LeaderAndIsr, ReplicaAssignment, TopicPartition
from zkcontroller.protocol.error_codes import error_name
from zkcontroller.state_changes.record import Kind, StateChange
from zkcontroller.zookeeper.requests import (
    ANY_VERSION,
    Create,
    Delete,
    SetData,
    WriteResult,
    Written,
    ZkCode,
    Znode,
)
from zkcontroller.zookeeper.znodes import (
    ReassignPartitionsZnode,
    TopicZnode,
)

NONE = 0
UNKNOWN_SERVER_ERROR = -1
UNKNOWN_TOPIC_OR_PARTITION = 3
INVALID_REPLICA_ASSIGNMENT = 39
NOT_CONTROLLER = 41
NO_REASSIGNMENT_IN_PROGRESS = 85

NO_SUCH_PARTITION = "The partition does not exist."
NOBODY_IN_SYNC = "None of the replicas that would be left is in sync."

_Target: TypeAlias = tuple[TopicPartition, tuple[int, ...] | None]
_IsDone: TypeAlias = Callable[[TopicPartition, tuple[int, ...]], bool]


class Reassignments:
    """Starts, resumes, completes and cancels reassignments."""

    def __init__(
        self,
        desk: Desk,
        partitions: PartitionStateMachine,
        replicas: ReplicaStateMachine,
    ) -> None:
        self._desk = desk
        self._context = desk.context
        self._journal = desk.journal
        self._partitions = partitions
        self._replicas = replicas

    # ------------------------------------------------------------------ events

    def process_api(self, event: ApiPartitionReassignment) -> Procedure[None]:
        """AlterPartitionReassignments: answered when the move has begun, not when it ends."""
        results: dict[TopicPartition, PartitionResult] = {}
        wanted: list[_Target] = []
        for partition, target in event.targets:
            refusal = None if target is None else self._invalid(partition, target)
            if refusal is None:
                wanted.append((partition, target))
            else:
                results[partition] = PartitionResult(partition, INVALID_REPLICA_ASSIGNMENT, refusal)
        started = {p for p, target in wanted if self._build(p, target) is not None}
        # The latest order counts, whichever way it came.
        yield from self._remove_from_znode(lambda partition, _: partition in started)
        for result in (yield from self._start(wanted)):
            results[result.partition] = result
        self._desk.outbox.append(
            Answer(
                event.request_id,
                PartitionResults(NONE, tuple(results[partition] for partition, _ in event.targets)),
            )
        )

    def process_znode(self) -> Procedure[list[TopicPartition]]:
        """``/admin/reassign_partitions`` was created; returns the partitions that it set moving.

        Replicas that cannot be (none, one twice, a negative id) are refused here too, dead ones are
        not.  Kafka carries such an order out, and the topic's znode is unreadable afterwards.
        """
        stat = (yield from self._desk.exists([ReassignPartitionsZnode.PATH], watch=True))[0]
        if isinstance(stat, ZkCode):
            return []
        listed = yield from self._read_znode()
        refused = {p: reason for p, target in listed.items() if (reason := _malformed(target))}
        results = [
            PartitionResult(partition, INVALID_REPLICA_ASSIGNMENT, reason)
            for partition, reason in refused.items()
        ]
        results += yield from self._start([(p, t) for p, t in listed.items() if p not in refused])
        failed = {result.partition: result for result in results if result.error_code != NONE}
        if failed:
            self._journal.warn(
                "Failed reassignment through zk with the following errors:"
                f" {scala_map((p, _api_error(result)) for p, result in failed.items())}"
            )
            yield from self._remove_from_znode(lambda partition, _: partition in failed)
        return [partition for partition in listed if partition not in failed]

    def watch_znode(self) -> Procedure[None]:
        """``/admin/reassign_partitions`` was rewritten, which used the watch up: leave another.

        Kafka does not, so that it misses the next order if an operator removes this one by hand
        (KAFKA-9478).
        """
        yield from self._desk.exists([ReassignPartitionsZnode.PATH], watch=True)

    def list_ongoing(self, event: ListPartitionReassignments) -> None:
        """Answer with what is being reassigned."""
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
        self._desk.outbox.append(Answer(event.request_id, OngoingReassignments(NONE, ongoing)))

    def resume_all(self) -> Procedure[None]:
        """At failover: what the znode asks for, then whatever was under way."""
        listed = set((yield from self.process_znode()))
        table = self._context.table
        yield from self._advance(
            {
                row: assignment
                for row, assignment in table.reassigning.items()
                if table.topic_partition(row) not in listed and not self._is_doomed(row)
            }
        )

    def resume_for_brokers(self, broker_ids: Iterable[int]) -> Procedure[None]:
        """Brokers started: moves to them go on."""
        started = set(broker_ids)
        yield from self._advance(
            {
                row: assignment
                for row, assignment in self._context.table.reassigning.items()
                if started.intersection(assignment.target_replicas) and not self._is_doomed(row)
            }
        )

    def complete_if_caught_up(self, rows: Iterable[int]) -> Procedure[None]:
        """The ISRs of these partitions changed: end the reassignments whose targets are in sync."""
        table = self._context.table
        moving = {
            row: table.reassigning[row]
            for row in rows
            if row in table.reassigning and not self._is_doomed(row)
        }
        done = yield from self._caught_up(moving)
        for row in done:
            targets = ", ".join(map(str, moving[row].target_replicas))
            self._journal.info(
                f"Target replicas List({targets}) have all caught up with the leader for"
                f" reassigning partition {table.text(row)}"
            )
        yield from self._complete({row: moving[row] for row in done})

    def _is_doomed(self, row: int) -> bool:
        """Deletion goes before a move, which would hold it up: a doomed topic gets no leader.

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
        # Replicas that stay or go need not be alive; new ones must.
        if not all(self._context.is_live(broker) for broker in adding):
            return (
                "Replica assignment has brokers that are not alive. Replica list:"
                f" List({', '.join(map(str, adding))}), live broker list:"
                f" {scala_set(self._context.live_broker_ids)}"
            )
        return None

    def _build(
        self, partition: TopicPartition, target: tuple[int, ...] | None
    ) -> ReplicaAssignment | None:
        """The assignment to begin with; None for a cancellation of nothing."""
        table = self._context.table
        row = table.row(*partition)
        current = ReplicaAssignment(()) if row == NO_ROW else table.assignment(row)
        if target is None:
            if not current.is_being_reassigned:
                return None
            target = current.origin_replicas
        return current.reassign_to(target)

    # ------------------------------------------------------------------ the work

    def _start(self, targets: Sequence[_Target]) -> Procedure[list[PartitionResult]]:
        table = self._context.table
        results = []
        starting: dict[int, ReplicaAssignment] = {}
        for partition, target in targets:
            assignment = self._build(partition, target)
            row = table.row(*partition)
            if assignment is None:
                results.append(PartitionResult(partition, NO_REASSIGNMENT_IN_PROGRESS))
            elif partition.topic in table.deleting:
                self._journal.info(
                    f"Skipping reassignment of {partition} since the topic is currently being"
                    " deleted"
                )
                results.append(
                    PartitionResult(partition, UNKNOWN_TOPIC_OR_PARTITION, NO_SUCH_PARTITION)
                )
            elif row == NO_ROW or not table.replicas[row]:
                results.append(
                    PartitionResult(partition, UNKNOWN_TOPIC_OR_PARTITION, NO_SUCH_PARTITION)
                )
            elif self._loses_everything(row, assignment):
                results.append(
                    PartitionResult(partition, INVALID_REPLICA_ASSIGNMENT, NOBODY_IN_SYNC)
                )
            else:
                starting[row] = assignment
        failed = yield from self._advance(starting)
        results.extend(
            PartitionResult(
                table.topic_partition(row), UNKNOWN_SERVER_ERROR if row in failed else NONE
            )
            for row in starting
        )
        return results

    def _loses_everything(self, row: int, assignment: ReplicaAssignment) -> bool:
        """Whether every replica in sync would be dropped: the records would go with them.

        It happens where a cancelled or replaced move has left only its new replicas in sync.  Kafka
        deletes them, and the partition waits for ever for an in-sync replica that has no place in
        its assignment; its KRaft controller refuses, as this one does.
        """
        table = self._context.table
        in_sync = table.in_sync_replicas[row]
        return bool(in_sync) and not set(in_sync).intersection(assignment.replicas)

    def _advance(self, moves: Mapping[int, ReplicaAssignment]) -> Procedure[set[int]]:
        """Take each partition (row to assignment) as far as it can go; returns what failed."""
        if not moves:
            return set()
        failed = yield from self._update(moves)
        going = {row: assignment for row, assignment in moves.items() if row not in failed}
        done = set((yield from self._caught_up(going)))
        yield from self._expand({row: a for row, a in going.items() if row not in done})
        failed |= yield from self._complete({row: a for row, a in going.items() if row in done})
        return failed

    def _update(self, moves: Mapping[int, ReplicaAssignment]) -> Procedure[set[int]]:
        """Step U: the new assignment to ZooKeeper, then to memory; unneeded replicas go."""
        table = self._context.table
        changed = {row: new for row, new in moves.items() if new != table.assignment(row)}
        for row, new in changed.items():
            self._journal.debug(
                f"Updating assignment of partition {table.text(row)} from"
                f" {assignment_text(table.assignment(row))} to {assignment_text(new)}"
            )
        failed = yield from self._write_assignments(changed)
        unneeded: dict[int, list[int]] = {}
        for row, new in changed.items():
            if row in failed:
                continue
            before = table.replicas[row]
            table.put_assignment(row, new)
            for broker in before:
                if broker not in new.replicas:
                    unneeded.setdefault(broker, []).append(row)
        yield from self._remove_replicas(unneeded)
        return failed

    def _write_assignments(self, changed: Mapping[int, ReplicaAssignment]) -> Procedure[set[int]]:
        """The znode of each topic, written once with all its changes; returns what failed."""
        table = self._context.table
        ordered = sorted(changed, key=lambda row: (table.topic_of[row], table.partition_of[row]))
        by_topic = {
            topic: list(rows) for topic, rows in groupby(ordered, key=lambda r: table.topic_of[r])
        }
        results = yield from self._write_topics(list(by_topic), changed)
        failed: set[int] = set()
        for topic, rows in by_topic.items():
            result = results[topic]
            if not isinstance(result, Written):
                self._journal.error(
                    f"Error completing reassignment of partitions of topic {topic}: its znode"
                    f" cannot be written ({result.name})"
                )
                failed.update(rows)
                continue
            for row in rows:
                self._journal.info(
                    f"Successfully updated assignment of partition {table.text(row)} to"
                    f" {assignment_text(changed[row])}"
                )
        return failed

    def _write_topics(
        self, topics: Sequence[str], changed: Mapping[int, ReplicaAssignment]
    ) -> Procedure[dict[str, WriteResult]]:
        """Write the topics' znodes, each by the version that was read; a lost race is run again.

        Kafka writes what it remembers, whatever the version: partitions that were added a moment
        before, of which it has not heard yet, are lost.
        """
        table = self._context.table
        results: dict[str, WriteResult] = {}
        remaining = list(topics)
        while remaining:
            paths = [TopicZnode.path(topic) for topic in remaining]
            writes = []
            for topic, znode in zip(remaining, (yield from self._desk.read(paths)), strict=True):
                known = table.topics[topic]
                partitions = self._unheard_of(topic, znode)
                for row in known.rows:
                    assignment = changed.get(row) or table.assignment(row)
                    partitions[table.partition_of[row]] = assignment
                data = TopicZnode(known.topic_id, partitions).encode()
                zk_version = ANY_VERSION if isinstance(znode, ZkCode) else znode.zk_version
                writes.append(SetData(TopicZnode.path(topic), data, zk_version))
            answers = yield from self._desk.write(writes)
            results.update(zip(remaining, answers, strict=True))
            remaining = [topic for topic in remaining if results[topic] is ZkCode.BAD_VERSION]
        return results

    def _unheard_of(self, topic: str, znode: Znode | ZkCode) -> dict[int, ReplicaAssignment]:
        """Partitions in the topic's znode that this controller does not know yet."""
        if isinstance(znode, ZkCode):
            return {}
        try:
            found = TopicZnode.decode(topic, znode.data).partitions
        except ZnodeCorrupt as corrupt:
            self._journal.error(f"{corrupt}; it is replaced by what is known of the topic")
            return {}
        known = self._context.table.topics[topic]
        return {p: assigned for p, assigned in found.items() if known.row(p) == NO_ROW}

    def _caught_up(self, moves: Mapping[int, ReplicaAssignment]) -> Procedure[list[int]]:
        """Rows that are not moving any more, or whose targets are all in the ISR in ZooKeeper."""
        moving = [row for row, assignment in moves.items() if assignment.is_being_reassigned]
        # Leaders that write their ISR themselves tell of it by this watch only.
        watch = not self._desk.config.is_alter_partition_supported
        states = yield from read_states(self._desk, moving, watch=watch)
        for reason in states.unreadable.values():
            if isinstance(reason, ZnodeCorrupt):
                self._journal.error(str(reason))
        done = [row for row, assignment in moves.items() if not assignment.is_being_reassigned]
        done.extend(
            row
            for row, state in states.found.items()
            if set(moves[row].target_replicas).issubset(state.in_sync_replicas)
        )
        return done

    def _expand(self, moves: Mapping[int, ReplicaAssignment]) -> Procedure[None]:
        """Phase A: old and new replicas hear of each other; the new ones start to fetch."""
        yield from self._tell_replicas(moves)
        adding: dict[int, list[int]] = {}
        for row, assignment in moves.items():
            for broker in assignment.adding_replicas:
                adding.setdefault(broker, []).append(row)
        yield from self._replicas.handle_state_changes(adding, ReplicaState.NEW)

    def _complete(self, moves: Mapping[int, ReplicaAssignment]) -> Procedure[set[int]]:
        """Phase B; returns the rows whose final assignment could not be written."""
        if not moves:
            return set()
        table = self._context.table
        adding: dict[int, list[int]] = {}
        removing: dict[int, list[int]] = {}
        for row, assignment in moves.items():
            for broker in assignment.adding_replicas:
                adding.setdefault(broker, []).append(row)
            for broker in assignment.removing_replicas:
                removing.setdefault(broker, []).append(row)
        yield from self._replicas.handle_state_changes(adding, ReplicaState.ONLINE)
        final = {row: ReplicaAssignment(a.target_replicas) for row, a in moves.items()}
        for row, assignment in final.items():
            table.put_assignment(row, assignment)
        yield from self._move_leaders(final)
        yield from self._remove_replicas(removing)
        failed = yield from self._write_assignments(final)
        targets = {table.topic_partition(row): a.replicas for row, a in final.items()}
        yield from self._remove_from_znode(
            lambda partition, listed: targets.get(partition) == listed
        )
        self._desk.send_update_metadata(None, list(final))
        return failed

    def _move_leaders(self, final: Mapping[int, ReplicaAssignment]) -> Procedure[None]:
        """A leader that stays and lives keeps its place; any other partition elects."""
        context, table = self._context, self._context.table
        electing = []
        staying = {}
        for row, assignment in final.items():
            leader = table.leader[row]
            text = f"Leader {leader} for partition {table.text(row)} being reassigned, is"
            if leader not in assignment.replicas:
                self._journal.info(
                    f"{text} not in the new list of replicas {csv(assignment.replicas)}."
                    " Re-electing leader"
                )
                electing.append(row)
            elif context.is_replica_online(leader, row):
                self._journal.info(
                    f"{text} already in the new list of replicas {csv(assignment.replicas)} and is"
                    " alive"
                )
                staying[row] = assignment
            else:
                self._journal.info(
                    f"{text} already in the new list of replicas {csv(assignment.replicas)} but is"
                    " dead"
                )
                electing.append(row)
        yield from self._tell_replicas(staying)
        yield from self._partitions.handle_state_changes(
            electing, PartitionState.ONLINE, ReassignElection()
        )

    def _remove_replicas(self, replicas: Mapping[int, Sequence[int]]) -> Procedure[None]:
        """Replicas (broker to rows) leave for good; nobody waits for their deletion."""
        for state in (
            ReplicaState.OFFLINE,
            ReplicaState.DELETION_STARTED,
            ReplicaState.DELETION_SUCCESSFUL,
            ReplicaState.NON_EXISTENT,
        ):
            yield from self._replicas.handle_state_changes(replicas, state)

    def _tell_replicas(self, moves: Mapping[int, ReplicaAssignment]) -> Procedure[None]:
        """Raise the leader epoch, so that the new assignment is obeyed, and tell all replicas."""
        if not moves:
            return
        raised = yield from bump_leader_epochs(self._desk, list(moves))
        batch = self._desk.new_batch()
        groups: dict[tuple[tuple[int, ...], bool], list[int]] = {}
        for row, assignment in moves.items():
            if row not in raised:
                continue
            groups.setdefault((assignment.origin_replicas, False), []).append(row)
            if assignment.adding_replicas:
                # As new: the broker may put the replica into any of its log directories that works.
                groups.setdefault((assignment.adding_replicas, True), []).append(row)
        for (brokers, is_new), rows in groups.items():
            batch.add_leader_and_isr(brokers, rows, is_new=is_new)
        batch.send()
        for row, assignment in moves.items():
            self._record_sent(row, assignment, raised.get(row))

    def _record_sent(
        self, row: int, assignment: ReplicaAssignment, state: LeaderAndIsr | None
    ) -> None:
        table = self._context.table
        record = StateChange(
            Kind.REASSIGNMENT_SENT if state is not None else Kind.REASSIGNMENT_SEND_FAILED,
            "controller",
            self._desk.config.broker_id,
            self._context.epoch,
            topic=table.topic_of[row],
            partition=table.partition_of[row],
            replicas=assignment.replicas,
            adding_replicas=assignment.adding_replicas,
            removing_replicas=assignment.removing_replicas,
        )
        if state is not None:
            record = with_leadership(record, state)
        self._journal.record(record)

    # ------------------------------------------------------------------ the znode

    def _read_znode(self) -> Procedure[dict[TopicPartition, tuple[int, ...]]]:
        znode = yield from self._desk.read_one(ReassignPartitionsZnode.PATH)
        if isinstance(znode, ZkCode):
            return {}
        try:
            return dict(ReassignPartitionsZnode.decode(znode.data).partitions)
        except ZnodeCorrupt as corrupt:
            self._journal.warn(f"{corrupt}; it names no reassignment")
            return {}

    def _remove_from_znode(self, is_done: _IsDone) -> Procedure[None]:
        """Take partitions off the list in ``/admin/reassign_partitions``, if there is one."""
        stat = (yield from self._desk.exists([ReassignPartitionsZnode.PATH], watch=True))[0]
        if isinstance(stat, ZkCode):
            return
        listed = yield from self._read_znode()
        removed = {p: replicas for p, replicas in listed.items() if is_done(p, replicas)}
        left = {p: replicas for p, replicas in listed.items() if p not in removed}
        removed_text = scala_map((p, f"List({csv(r)})") for p, r in removed.items())
        self._journal.info(
            f"Removing partitions {removed_text} from the list of reassigned partitions in"
            " zookeeper"
        )
        if not left:
            self._journal.info(
                "No more partitions need to be reassigned. Deleting zk path"
                f" {ReassignPartitionsZnode.PATH}"
            )
            yield from self._desk.write([Delete(ReassignPartitionsZnode.PATH)])
            # Leaves the watch for the next order, and takes one that came meanwhile.
            self._desk.outbox.append(Put(ZkPartitionReassignment()))
            return
        if not removed:
            return
        data = ReassignPartitionsZnode(left).encode()
        results = yield from self._desk.write([SetData(ReassignPartitionsZnode.PATH, data)])
        if results[0] is ZkCode.NO_NODE:
            yield from self._desk.write([Create(ReassignPartitionsZnode.PATH, data)])


def _api_error(result: PartitionResult) -> str:
    """A refusal as Kafka prints it."""
    return f"ApiError(error={error_name(result.error_code)}, message={result.message or 'null'})"


def _malformed(target: tuple[int, ...]) -> str | None:
    """Why no partition can have these replicas, whoever is alive; None if one can."""
    text = f"List({', '.join(map(str, target))})"
    if not target:
        return "Empty replica list specified in partition reassignment."
    if len(set(target)) != len(target):
        return f"Duplicate replica ids in partition reassignment replica list: {text}"
    if any(broker < 0 for broker in target):
        return f"Invalid broker id in replica list: {text}"
    return None
