"""The replica state machine: moves replicas between Kafka's seven replica states.

::

    NonExistent → New → Online ⇄ Offline → DeletionStarted → DeletionSuccessful → NonExistent
                                    └──→ DeletionIneligible ──→ Offline, Online

Entering Offline shrinks the ISR in ZooKeeper; every other move only sends requests to brokers.
Replicas are handled broker by broker, one after another, in one batch of requests.

Source: Kafka ``ZkReplicaStateMachine``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import assert_never

from kafka_common.errors import ControllerMoved
from kafka_common.model import LeaderAndIsr
from zkcontroller.core.broker_requests import RequestBatch
from zkcontroller.core.effects import Procedure
from zkcontroller.core.elections import without_replica
from zkcontroller.core.journal import (
    ILLEGAL_STATE,
    REPLICA_STATE_MACHINE,
    STATE_CHANGE_FAILED,
    csv,
    keeper_exception,
)
from zkcontroller.core.partition_table import distinct, pick
from zkcontroller.core.state_znodes import held_states, read_states, write_states
from zkcontroller.core.states import ReplicaState
from zkcontroller.core.tools import ControllerTools
from zkcontroller.state_changes.record import AlikeStateChanges, Kind, StateChange
from zkcontroller.zookeeper.requests import ZkCode
from zkcontroller.zookeeper.scala_order import immutable_int_map_order

VALID_PREVIOUS: dict[ReplicaState, frozenset[ReplicaState]] = {
    ReplicaState.NEW: frozenset({ReplicaState.NON_EXISTENT}),
    ReplicaState.ONLINE: frozenset(
        {
            ReplicaState.NEW,
            ReplicaState.ONLINE,
            ReplicaState.OFFLINE,
            ReplicaState.DELETION_INELIGIBLE,
        }
    ),
    ReplicaState.OFFLINE: frozenset(
        {
            ReplicaState.NEW,
            ReplicaState.ONLINE,
            ReplicaState.OFFLINE,
            ReplicaState.DELETION_INELIGIBLE,
        }
    ),
    ReplicaState.DELETION_STARTED: frozenset({ReplicaState.OFFLINE}),
    ReplicaState.DELETION_SUCCESSFUL: frozenset({ReplicaState.DELETION_STARTED}),
    ReplicaState.DELETION_INELIGIBLE: frozenset(
        {ReplicaState.OFFLINE, ReplicaState.DELETION_STARTED}
    ),
    ReplicaState.NON_EXISTENT: frozenset({ReplicaState.DELETION_SUCCESSFUL}),
}
"""Legal transitions: target to the states it may be entered from."""


class ReplicaStateMachine:
    """Moves replicas between their states."""

    def __init__(self, tools: ControllerTools) -> None:
        self._tools = tools
        self._context = tools.context
        self._journal = tools.journal

    # ------------------------------------------------------------------ life

    def startup(self) -> Procedure[None]:
        """Moves replicas on live brokers to Online, all others to Offline.

        So each broker gets all its partitions, and replicas on dead brokers leave the ISRs.
        """
        context, table = self._context, self._context.table
        self._journal.info("Initializing replica state", REPLICA_STATE_MACHINE)
        live = set(context.live_broker_ids)
        # Nothing is known of failed log directories yet, so the states follow from the replica list
        # alone; a cluster has few distinct ones.
        initial = {
            replicas: table.interned_states(
                bytes(
                    ReplicaState.ONLINE if broker in live else ReplicaState.DELETION_INELIGIBLE
                    for broker in replicas
                )
            )
            for replicas in distinct(table.replicas)
        }
        table.replica_states[:] = [initial[replicas] for replicas in table.replicas]
        self._journal.info("Triggering online replica state changes", REPLICA_STATE_MACHINE)
        self._tell_online(context.live_broker_ids)
        self._journal.info("Triggering offline replica state changes", REPLICA_STATE_MACHINE)
        yield from self.handle_state_changes(self._replicas_not_on(live), ReplicaState.OFFLINE)
        self._journal.debug(
            f"Started replica state machine with initial state -> {len(table)} partitions",
            REPLICA_STATE_MACHINE,
        )

    def shutdown(self) -> None:
        self._journal.info("Stopped replica state machine", REPLICA_STATE_MACHINE)

    def _tell_online(self, live: Sequence[int]) -> None:
        """Sends LeaderAndIsr for every replica on a live broker; all of them are Online already."""
        table = self._context.table
        known = [row for row, epoch in enumerate(table.leader_epoch) if epoch >= 0]
        if not known:
            return
        by_replicas: dict[tuple[int, ...], list[int]] = {}
        for row, replicas in zip(known, pick(table.replicas, known), strict=True):
            by_replicas.setdefault(replicas, []).append(row)
        batch = self._tools.new_batch()
        has_sent = False
        for broker in live:
            groups = (rows for replicas, rows in by_replicas.items() if broker in replicas)
            rows = list(chain.from_iterable(groups))
            if rows:
                rows.sort()  # topic by topic again, which makes them quick to group
                batch.add_leader_and_isr_without_metadata(broker, rows)
                has_sent = True
        if not has_sent:
            return
        batch.add_update_metadata(self._context.live_or_shutting_down_broker_ids, known)
        batch.send()

    def _replicas_not_on(self, live: set[int]) -> dict[int, list[int]]:
        table = self._context.table
        if all(live.issuperset(replicas) for replicas in distinct(table.replicas)):
            return {}
        found: dict[int, list[int]] = {}
        for row in table.all_rows():
            for broker in table.replicas[row]:
                if broker not in live:
                    found.setdefault(broker, []).append(row)
        return found

    # ------------------------------------------------------------------ transitions

    def handle_state_changes(
        self, replicas: Mapping[int, Sequence[int]], target: ReplicaState
    ) -> Procedure[None]:
        """Move replicas (broker to rows) to a state.  Illegal moves are logged and left out."""
        if not any(replicas.values()):
            return
        batch = self._tools.new_batch()
        try:
            # The order shows in leader epochs: the last member of an ISR leaves it leaderless.
            for broker_id in immutable_int_map_order(replicas):
                valid = self._check_valid(broker_id, replicas[broker_id], target)
                if target is ReplicaState.OFFLINE:
                    yield from self._take_offline(broker_id, valid, batch)
                else:
                    self._move(broker_id, valid, target, batch)
        except ControllerMoved:
            self._journal.error(
                "Controller moved to another broker when moving some replicas to"
                f" {target.label} state",
                REPLICA_STATE_MACHINE,
            )
            raise
        batch.send()

    def _move(
        self, broker_id: int, rows: Sequence[int], target: ReplicaState, batch: RequestBatch
    ) -> None:
        """Makes a transition that needs no ZooKeeper."""
        table = self._context.table
        match target:
            case ReplicaState.NEW:
                leading = [row for row in rows if table.leader[row] == broker_id]
                for row in leading:
                    self._fail(
                        broker_id,
                        row,
                        ReplicaState.OFFLINE,
                        f"{STATE_CHANGE_FAILED}: Replica {broker_id} for partition"
                        f" {table.text(row)} cannot be moved to NewReplica state as it is being"
                        " requested to become leader",
                    )
                rows = [row for row in rows if table.leader[row] != broker_id]
                known = [row for row in rows if table.has_leader_and_isr(row)]
                if known:
                    batch.add_leader_and_isr([broker_id], known, is_new=True)
            case ReplicaState.ONLINE:
                led = [
                    row
                    for row in rows
                    if table.has_leader_and_isr(row)
                    and table.replica_state(row, broker_id) is not ReplicaState.NEW
                ]
                if led:
                    batch.add_leader_and_isr([broker_id], led)
            case ReplicaState.DELETION_STARTED:
                batch.add_stop_replica([broker_id], rows, delete=True)
            case ReplicaState.DELETION_SUCCESSFUL | ReplicaState.DELETION_INELIGIBLE:
                pass
            case ReplicaState.NON_EXISTENT:
                self._enter(broker_id, rows, target)
                for row in rows:
                    self._remove_from_assignment(broker_id, row)
                return
            case ReplicaState.OFFLINE:
                raise AssertionError("going offline needs ZooKeeper")
            case _:
                assert_never(target)
        self._enter(broker_id, rows, target)

    def _remove_from_assignment(self, broker_id: int, row: int) -> None:
        table = self._context.table
        assignment = table.assignment(row)
        if broker_id not in assignment.replicas:
            return
        table.put_assignment(
            row,
            type(assignment)(
                *(tuple(broker for broker in part if broker != broker_id) for part in assignment)
            ),
        )

    # ------------------------------------------------------------------ → Offline

    def _take_offline(
        self, broker_id: int, rows: Sequence[int], batch: RequestBatch
    ) -> Procedure[None]:
        """Stops the replicas, removes them from the ISR and updates the other replicas."""
        table = self._context.table
        batch.add_stop_replica([broker_id], rows, delete=False)
        known = [row for row in rows if table.has_leader_and_isr(row)]
        shrunk = yield from self._remove_from_isr(broker_id, known)
        by_replicas: dict[tuple[int, ...], list[int]] = {}
        for row in shrunk:
            if not self._context.is_queued_for_deletion(row):
                by_replicas.setdefault(table.replicas[row], []).append(row)
        self._enter(broker_id, shrunk, ReplicaState.OFFLINE)
        for replicas, group in by_replicas.items():
            others = [broker for broker in replicas if broker != broker_id]
            batch.add_leader_and_isr(others, group)
        unknown = [row for row in rows if not table.has_leader_and_isr(row)]
        if unknown:
            batch.add_update_metadata(self._context.live_or_shutting_down_broker_ids, unknown)
        self._enter(broker_id, unknown, ReplicaState.OFFLINE)

    def _remove_from_isr(self, broker_id: int, rows: Sequence[int]) -> Procedure[list[int]]:
        """Removes the broker from ISRs; returns the rows in whose ISR it no longer is."""
        replicas, epoch = self._context.table.replicas, self._context.epoch
        done: list[int] = []
        # If the state in memory is valid, it is changed without reading ZooKeeper.  If an election
        # of this controller has just removed the broker from the ISR, nothing must be written.
        held = {
            row: state
            for row, state in held_states(self._tools, rows).items()
            if broker_id in state.in_sync_replicas or state.controller_epoch == epoch
        }
        remaining = list(rows)
        while remaining:
            unknown = [row for row in remaining if row not in held]
            current = held | (yield from self._read_states(broker_id, unknown))
            shrinking: dict[int, LeaderAndIsr] = {}
            outside: dict[int, LeaderAndIsr] = {}
            for row, state in current.items():
                if broker_id in state.in_sync_replicas:
                    shrinking[row] = without_replica(state, broker_id, replicas[row], epoch)
                else:
                    # The broker is not in the ISR: write nothing, but change the epoch in memory.
                    outside[row] = state._replace(controller_epoch=epoch)
            done += self._removed(broker_id, outside)
            verdicts = yield from write_states(self._tools, shrinking)
            done += self._removed(broker_id, verdicts.written)
            remaining = list(verdicts.lost)  # their leaders changed the ISR meanwhile
            for row, code in verdicts.refused.items():
                if row in held and code is ZkCode.NO_NODE:
                    remaining.append(row)  # read the znode: its error is the one to report
                    continue
                cause = keeper_exception(code, self._context.table.text(row))
                self._fail(broker_id, row, ReplicaState.OFFLINE, cause)
            held = {}
        return done

    def _read_states(
        self, broker_id: int, rows: Sequence[int]
    ) -> Procedure[dict[int, LeaderAndIsr]]:
        table, context = self._context.table, self._context
        states = yield from read_states(self._tools, rows)
        failed: dict[int, str] = {}
        for row, reason in states.unreadable.items():
            if reason is ZkCode.NO_NODE:
                # A topic under deletion may have lost its znode already: nothing to say.
                if not context.is_queued_for_deletion(row):
                    failed[row] = (
                        f"{STATE_CHANGE_FAILED}: Failed to change state of replica {broker_id} for"
                        f" partition {table.text(row)} since the leader and isr path in zookeeper"
                        " is empty"
                    )
            elif isinstance(reason, ZkCode):
                failed[row] = keeper_exception(reason, table.text(row))
            else:
                failed[row] = f"{STATE_CHANGE_FAILED}: {reason}"
        current: dict[int, LeaderAndIsr] = {}
        for row, state in states.found.items():
            if state.controller_epoch > context.epoch:
                failed[row] = (
                    f"{STATE_CHANGE_FAILED}: Leader and isr path written by another"
                    f" controller. This probably means the current controller with epoch"
                    f" {context.epoch} went through a soft failure and another"
                    f" controller was elected with epoch {state.controller_epoch}."
                    " Aborting state change by this controller"
                )
            else:
                current[row] = state
        for row, cause in failed.items():
            self._fail(broker_id, row, ReplicaState.OFFLINE, cause)
        return current

    def _removed(self, broker_id: int, states: Mapping[int, LeaderAndIsr]) -> list[int]:
        """Takes over ISRs without the broker; returns their rows."""
        table = self._context.table
        rows = list(states)
        table.put_leader_and_isr(states)
        self._journal.record_all(
            AlikeStateChanges(
                StateChange(
                    Kind.REPLICA_REMOVED_FROM_ISR,
                    "controller",
                    self._tools.config.broker_id,
                    self._context.epoch,
                    replica=broker_id,
                ),
                pick(table.topic_of, rows),
                pick(table.partition_of, rows),
                list(states.values()),
            )
        )
        return rows

    # ------------------------------------------------------------------ bookkeeping

    def _check_valid(self, broker_id: int, rows: Iterable[int], target: ReplicaState) -> list[int]:
        allowed = VALID_PREVIOUS[target]
        table = self._context.table
        valid = []
        for row in rows:
            current = table.replica_state(row, broker_id)
            if current in allowed:
                valid.append(row)
                continue
            replica = table.replica_text(row, broker_id)
            self._fail(
                broker_id,
                row,
                target,
                f"{ILLEGAL_STATE}: Replica {replica} should be in the"
                f" {csv(s.label for s in sorted(allowed))} states before moving to {target.label}"
                f" state. Instead it is in {current.label} state",
            )
        return valid

    def _enter(self, broker_id: int, rows: Sequence[int], target: ReplicaState) -> None:
        if self._journal.is_tracing:
            for row in rows:
                self._record(Kind.REPLICA_STATE_CHANGED, broker_id, row, target)
        self._context.table.put_replica_states(rows, broker_id, target)

    def _fail(self, broker_id: int, row: int, target: ReplicaState, cause: str) -> None:
        self._record(Kind.REPLICA_STATE_FAILED, broker_id, row, target, cause)

    def _record(
        self,
        kind: Kind,
        broker_id: int,
        row: int,
        target: ReplicaState,
        cause: str | None = None,
    ) -> None:
        table = self._context.table
        self._journal.record(
            StateChange(
                kind,
                "controller",
                self._tools.config.broker_id,
                self._context.epoch,
                topic=table.topic_of[row],
                partition=table.partition_of[row],
                replica=broker_id,
                from_state=table.replica_state(row, broker_id).label,
                to_state=target.label,
                cause=cause,
            )
        )
