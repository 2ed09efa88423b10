"""The phases of a reassignment: each call takes partitions as far as their ISRs allow.

For a partition with origin replicas (ORS) and target replicas (TRS), the assignment in between is
RS = TRS + ORS with adding (AR) and removing (RR) replicas:

* **U** write RS, AR, RR to the topic's znode; drop replicas that an earlier target was adding.
* **A** not caught up: raise the leader epoch, send LeaderAndIsr to ORS and AR (as new); AR
  start to fetch.
* **B** TRS ⊆ ISR: AR go Online; the assignment becomes TRS; a leader outside TRS hands over; RR go
  Offline (out of the ISR) and are deleted; *then* the znode gets its final assignment.

Every step can be done again, and ZooKeeper gets the final assignment last: a new controller
resumes from wherever the old one stopped.  Kafka takes partition after partition; here all
partitions of one event go through each step together, which changes how they share requests and
nothing else.

Source: Kafka ``KafkaController.onPartitionReassignment`` (KIP-455).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from uuid import UUID

from kafka_common.errors import ZnodeCorrupt
from kafka_common.model import NO_LEADER, LeaderAndIsr, ReplicaAssignment
from zkcontroller.core.effects import Procedure
from zkcontroller.core.elections import OfflineElection, ReassignElection
from zkcontroller.core.journal import csv
from zkcontroller.core.leader_epochs import bump_leader_epochs
from zkcontroller.core.partition_states import PartitionStateMachine
from zkcontroller.core.partition_table import NO_ROW
from zkcontroller.core.reassignment_znode import ReassignmentZnode
from zkcontroller.core.replica_states import ReplicaStateMachine
from zkcontroller.core.state_znodes import read_states, report_unreadable
from zkcontroller.core.states import PartitionState, ReplicaState
from zkcontroller.core.tools import ControllerTools
from zkcontroller.core.topics import assignment_text
from zkcontroller.state_changes.record import Kind, StateChange
from zkcontroller.zookeeper.requests import (
    SetData,
    WriteResult,
    Written,
    ZkCode,
    Znode,
)
from zkcontroller.zookeeper.znodes import TopicZnode


class ReassignmentPhases:
    """Takes partitions through the phases; ``moves`` maps rows to their new assignments."""

    def __init__(
        self,
        tools: ControllerTools,
        partitions: PartitionStateMachine,
        replicas: ReplicaStateMachine,
        znode: ReassignmentZnode,
    ) -> None:
        self._tools = tools
        self._context = tools.context
        self._journal = tools.journal
        self._partitions = partitions
        self._replicas = replicas
        self._znode = znode

    def advance(self, moves: Mapping[int, ReplicaAssignment]) -> Procedure[set[int]]:
        """Takes each partition as far as its ISR allows; returns the rows that failed."""
        if not moves:
            return set()
        failed = yield from self._update(moves)
        going = {row: assignment for row, assignment in moves.items() if row not in failed}
        done = set((yield from self.caught_up(going)))
        yield from self._expand({row: a for row, a in going.items() if row not in done})
        failed |= yield from self.complete({row: a for row, a in going.items() if row in done})
        return failed

    def caught_up(self, moves: Mapping[int, ReplicaAssignment]) -> Procedure[list[int]]:
        """Rows that no longer move, or whose targets are all in the ISR in ZooKeeper."""
        moving = [row for row, assignment in moves.items() if assignment.is_being_reassigned]
        # Leaders that write their ISR themselves report it by this watch only.
        watch = not self._tools.config.is_alter_partition_supported
        states = yield from read_states(self._tools, moving, watch=watch)
        report_unreadable(self._tools, states)
        done = [row for row, assignment in moves.items() if not assignment.is_being_reassigned]
        done.extend(
            row
            for row, state in states.found.items()
            if set(moves[row].target_replicas).issubset(state.in_sync_replicas)
        )
        return done

    def complete(self, moves: Mapping[int, ReplicaAssignment]) -> Procedure[set[int]]:
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
        failed = yield from self.write_final(final)
        targets = {table.topic_partition(row): a.replicas for row, a in final.items()}
        yield from self._znode.remove(lambda partition, listed: targets.get(partition) == listed)
        self._tools.send_update_metadata(None, list(final))
        return failed

    def write_final(self, final: Mapping[int, ReplicaAssignment]) -> Procedure[set[int]]:
        """Writes the assignments that are in memory already; what is refused is written later."""
        failed = yield from self._write_assignments(final)
        for row in failed:
            self._partitions.refused.add_assignment(row)
        return failed

    # ------------------------------------------------------------------ U: the new assignment

    def _update(self, moves: Mapping[int, ReplicaAssignment]) -> Procedure[set[int]]:
        """Step U: writes the new assignment to ZooKeeper and to memory; drops unneeded replicas."""
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
        written = [row for row in changed if row not in failed]
        yield from self._elect_where_there_is_no_leader(written)
        return failed

    def _elect_where_there_is_no_leader(self, rows: Sequence[int]) -> Procedure[None]:
        """Elects leaders for rows whose leader was dropped, or whose former replicas all were dead.

        A second reassignment drops an adding replica, which may be the leader by then.  Kafka
        leaves such a partition Online without a leader, so no later election considers it.
        """
        table = self._context.table
        leaderless = [row for row in rows if table.leader[row] == NO_LEADER]
        dropped = [row for row in leaderless if table.partition_state[row] == PartitionState.ONLINE]
        yield from self._partitions.handle_state_changes(dropped, PartitionState.OFFLINE)
        # A partition that never had a leader begins with the live ones among its replicas.
        adding: dict[int, list[int]] = {}
        for row in leaderless:
            if table.partition_state[row] == PartitionState.NEW:
                for broker in table.assignment(row).adding_replicas:
                    adding.setdefault(broker, []).append(row)
        yield from self._replicas.handle_state_changes(adding, ReplicaState.NEW)
        yield from self._partitions.handle_state_changes(
            leaderless, PartitionState.ONLINE, OfflineElection()
        )

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
        """Writes the topics' znodes, each by the version that was read; retries a lost race.

        Kafka writes what it remembers, whatever the version: partitions that were added a moment
        before, which it does not know yet, are lost.
        """
        table = self._context.table
        results: dict[str, WriteResult] = {}
        remaining = list(topics)
        while remaining:
            paths = [TopicZnode.path(topic) for topic in remaining]
            found = yield from self._tools.try_read(paths)
            read = list(zip(remaining, found, strict=True))
            # Do not overwrite a znode that cannot be read: it may hold partitions that are not in
            # memory.
            results.update((topic, code) for topic, code in read if isinstance(code, ZkCode))
            znodes = {topic: znode for topic, znode in read if isinstance(znode, Znode)}
            writes = []
            for topic, znode in znodes.items():
                known = table.topics[topic]
                topic_id, partitions = self._unheard_of(topic, znode)
                for row in known.rows:
                    assignment = changed.get(row) or table.assignment(row)
                    partitions[table.partition_of[row]] = assignment
                data = TopicZnode(known.topic_id or topic_id, partitions).encode()
                writes.append(SetData(TopicZnode.path(topic), data, znode.zk_version))
            results.update(zip(znodes, (yield from self._tools.write(writes)), strict=True))
            remaining = [topic for topic in znodes if results[topic] is ZkCode.BAD_VERSION]
        return results

    def _unheard_of(
        self, topic: str, znode: Znode
    ) -> tuple[UUID | None, dict[int, ReplicaAssignment]]:
        """The topic id and those partitions of a topic's znode that are not in memory yet."""
        try:
            found = TopicZnode.decode(topic, znode.data)
        except ZnodeCorrupt as corrupt:
            self._journal.error(f"{corrupt}; it is replaced by what is known of the topic")
            return None, {}
        known = self._context.table.topics[topic]
        partitions = {
            partition: assignment
            for partition, assignment in found.partitions.items()
            if known.row(partition) == NO_ROW
        }
        return found.topic_id, partitions

    # ------------------------------------------------------------------ A and B

    def _expand(self, moves: Mapping[int, ReplicaAssignment]) -> Procedure[None]:
        """Phase A: sends the new assignment to all replicas; the new ones start to fetch."""
        yield from self._tell_replicas(moves)
        adding: dict[int, list[int]] = {}
        for row, assignment in moves.items():
            for broker in assignment.adding_replicas:
                adding.setdefault(broker, []).append(row)
        yield from self._replicas.handle_state_changes(adding, ReplicaState.NEW)

    def _move_leaders(self, final: Mapping[int, ReplicaAssignment]) -> Procedure[None]:
        """Elects leaders for partitions whose leader is not a live target replica."""
        context, table = self._context, self._context.table
        electing = []
        staying = {}
        for row, assignment in final.items():
            leader = table.leader[row]
            subject = f"Leader {leader} for partition {table.text(row)} being reassigned, is"
            if leader not in assignment.replicas:
                self._journal.info(
                    f"{subject} not in the new list of replicas {csv(assignment.replicas)}."
                    " Re-electing leader"
                )
                electing.append(row)
            elif context.is_replica_online(leader, row):
                self._journal.info(
                    f"{subject} already in the new list of replicas {csv(assignment.replicas)}"
                    " and is alive"
                )
                staying[row] = assignment
            else:
                self._journal.info(
                    f"{subject} already in the new list of replicas {csv(assignment.replicas)}"
                    " but is dead"
                )
                electing.append(row)
        yield from self._tell_replicas(staying)
        yield from self._partitions.handle_state_changes(
            electing, PartitionState.ONLINE, ReassignElection()
        )

    def _remove_replicas(self, replicas: Mapping[int, Sequence[int]]) -> Procedure[None]:
        """Stops and deletes replicas (broker to rows), without waiting for the deletion."""
        for state in (
            ReplicaState.OFFLINE,
            ReplicaState.DELETION_STARTED,
            ReplicaState.DELETION_SUCCESSFUL,
            ReplicaState.NON_EXISTENT,
        ):
            yield from self._replicas.handle_state_changes(replicas, state)

    def _tell_replicas(self, moves: Mapping[int, ReplicaAssignment]) -> Procedure[None]:
        """Raises the leader epoch, so that brokers obey, and sends LeaderAndIsr to all replicas."""
        if not moves:
            return
        raised = yield from bump_leader_epochs(self._tools, list(moves))
        batch = self._tools.new_batch()
        groups: dict[tuple[tuple[int, ...], bool], list[int]] = {}
        for row, assignment in moves.items():
            if row not in raised:
                continue
            groups.setdefault((assignment.origin_replicas, False), []).append(row)
            if assignment.adding_replicas:
                # With ``is_new`` the broker may create the log in any online log directory.
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
            self._tools.config.broker_id,
            self._context.epoch,
            topic=table.topic_of[row],
            partition=table.partition_of[row],
            replicas=assignment.replicas,
            adding_replicas=assignment.adding_replicas,
            removing_replicas=assignment.removing_replicas,
        )
        if state is not None:
            record = record._replace(
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                isr=state.in_sync_replicas,
                zk_version=state.zk_version,
                leader_recovery_state=state.leader_recovery_state,
                state_controller_epoch=state.controller_epoch,
            )
        self._journal.record(record)
