"""The partition state machine: every partition is New, Online, Offline or NonExistent.

::

    NonExistent → New → Online ⇄ Offline → NonExistent

Only a move to Online touches ZooKeeper: a new partition gets its first state znode, any other
an election (elect, write the state znodes by version, send LeaderAndIsr to the replicas).  All
partitions of one call share one round of writes, and one round of reads if the states in memory do
not suffice.

Source: Kafka ``ZkPartitionStateMachine``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import assert_never

from kafka_common.errors import ControllerMoved, StateChangeFailed
from kafka_common.model import LeaderAndIsr
from zkcontroller.core.effects import Procedure
from zkcontroller.core.elections import (
    ControlledShutdownElection,
    OfflineElection,
    PreferredElection,
    ReassignElection,
    Strategy,
    elect_first_in_sync,
    elect_for_controlled_shutdown,
    elect_initial,
    elect_offline,
)
from zkcontroller.core.journal import (
    ILLEGAL_STATE,
    PARTITION_STATE_MACHINE,
    STATE_CHANGE_FAILED,
    csv,
    keeper_exception,
    state_change_failure,
)
from zkcontroller.core.partition_table import pick
from zkcontroller.core.refused_partitions import RefusedPartitions
from zkcontroller.core.state_znodes import (
    Verdicts,
    encode_state,
    held_states,
    read_states,
    report_unreadable,
    state_path,
    write_states,
)
from zkcontroller.core.states import PartitionState
from zkcontroller.core.tools import ControllerTools
from zkcontroller.core.topic_configs import read_unclean_election_flags
from zkcontroller.state_changes.record import AlikeStateChanges, Kind, StateChange
from zkcontroller.zookeeper.requests import Create, Written, ZkCode
from zkcontroller.zookeeper.znodes import (
    TopicPartitionsZnode,
    TopicPartitionZnode,
)

VALID_PREVIOUS: dict[PartitionState, frozenset[PartitionState]] = {
    PartitionState.NEW: frozenset({PartitionState.NON_EXISTENT}),
    PartitionState.ONLINE: frozenset(
        {PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE}
    ),
    PartitionState.OFFLINE: frozenset(
        {PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE}
    ),
    PartitionState.NON_EXISTENT: frozenset({PartitionState.OFFLINE}),
}
"""Legal transitions: target to the states it may be entered from."""

STATE_WRITTEN_BY_ANOTHER = (
    "the LeaderAndIsr path was already written by another controller."
    " This probably means that the current controller went through a soft failure and another"
    " controller was elected."
)


@dataclass(slots=True)
class ElectionOutcome:
    """Rows that have a new leader, and rows that have none, with the reason."""

    elected: list[int] = field(default_factory=list)
    failed: dict[int, StateChangeFailed | ZkCode] = field(default_factory=dict)
    """By row: no replica can lead, or the code with which ZooKeeper refused."""


class PartitionStateMachine:
    """Moves partitions between their states."""

    def __init__(self, tools: ControllerTools) -> None:
        self._tools = tools
        self._context = tools.context
        self._journal = tools.journal
        self.refused = RefusedPartitions(tools)
        self.unclean_default = tools.config.unclean_leader_election_enable
        """Broker default of ``unclean.leader.election.enable``; topics may override it."""

    # ------------------------------------------------------------------ life

    def startup(self) -> Procedure[None]:
        """Sets every partition's state from its leadership; elects leaders where none is online."""
        self._journal.info("Initializing partition state", PARTITION_STATE_MACHINE)
        table, context = self._context.table, self._context
        live = set(context.live_broker_ids)
        # No failed log directory is known yet, so a leader on a live broker counts as online.
        new, online, offline = PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE
        context.put_initial_partition_states(
            bytes(
                new if leader_epoch < 0 else online if leader in live else offline
                for leader, leader_epoch in zip(table.leader, table.leader_epoch, strict=True)
            )
        )
        self._journal.info("Triggering online partition state changes", PARTITION_STATE_MACHINE)
        yield from self.trigger_online_state_change()
        self._journal.debug(
            f"Started partition state machine with initial state -> {len(table)} partitions",
            PARTITION_STATE_MACHINE,
        )

    def shutdown(self) -> None:
        self.refused.forget()
        self._journal.info("Stopped partition state machine", PARTITION_STATE_MACHINE)

    def trigger_online_state_change(self, topic: str | None = None) -> Procedure[ElectionOutcome]:
        """Try to bring every New and Offline partition (of that topic) online."""
        table = self._context.table
        waiting = (PartitionState.NEW, PartitionState.OFFLINE)
        rows = [
            row
            for row in (table.all_rows() if topic is None else table.rows_of(topic))
            if table.partition_state[row] in waiting and table.topic_of[row] not in table.deleting
        ]
        outcome = yield from self.handle_state_changes(
            rows, PartitionState.ONLINE, OfflineElection()
        )
        return outcome

    # ------------------------------------------------------------------ transitions

    def handle_state_changes(
        self, rows: Sequence[int], target: PartitionState, strategy: Strategy | None = None
    ) -> Procedure[ElectionOutcome]:
        """Move partitions to a state.  Illegal moves are logged and left out.

        ``strategy`` is needed for ONLINE.  The outcome speaks only of elections, not of new
        partitions.
        """
        outcome = ElectionOutcome()
        if not rows:
            return outcome
        batch = self._tools.new_batch()
        try:
            valid = self._check_valid(rows, target)
            match target:
                case PartitionState.NEW | PartitionState.OFFLINE | PartitionState.NON_EXISTENT:
                    self._enter(valid, target)
                case PartitionState.ONLINE:
                    assert strategy is not None
                    state = self._context.table.partition_state
                    fresh = [row for row in valid if state[row] == PartitionState.NEW]
                    others = [row for row in valid if state[row] != PartitionState.NEW]
                    if fresh:
                        created, existing = yield from self._initialize(fresh)
                        others += existing
                        for replicas, group in self._by_isr(created).items():
                            batch.add_leader_and_isr(replicas, group, is_new=True)
                    if others:
                        outcome = yield from self._elect(others, strategy)
                        for recipients, group in self._recipients(
                            outcome.elected, strategy
                        ).items():
                            batch.add_leader_and_isr(recipients, group)
                case _:
                    assert_never(target)
        except ControllerMoved:
            self._journal.error(
                "Controller moved to another broker when moving some partitions to"
                f" {target.label} state",
                PARTITION_STATE_MACHINE,
            )
            raise
        batch.send()
        return outcome

    def _check_valid(self, rows: Iterable[int], target: PartitionState) -> list[int]:
        allowed = VALID_PREVIOUS[target]
        states = self._context.table.partition_state
        valid = []
        for row in rows:
            current = PartitionState(states[row])
            if current in allowed:
                valid.append(row)
            else:
                self._fail(
                    row,
                    current,
                    target,
                    f"{ILLEGAL_STATE}: Partition {self._context.table.text(row)} should be in one"
                    " of"
                    f" {csv(s.label for s in sorted(allowed))} states before moving to"
                    f" {target.label} state. Instead it is in {current.label} state",
                )
        return valid

    def _enter(
        self,
        rows: Sequence[int],
        target: PartitionState,
        leaderships: Sequence[LeaderAndIsr] = (),
    ) -> None:
        """Sets the state of the partitions; those that become online have a leadership."""
        # Kafka logs other changes at TRACE, but the export must have each loss of a leader.
        is_logged = target is not PartitionState.NON_EXISTENT or self._journal.is_tracing
        table = self._context.table
        at = 0
        for before, group in groupby([table.partition_state[row] for row in rows]):
            part = slice(at, at + len(list(group)))
            at = part.stop
            for row in rows[part]:
                self._context.put_partition_state(row, target)
            if not is_logged:
                continue
            if target is PartitionState.NEW:
                for row in rows[part]:
                    record = self._changed(row, PartitionState(before), target)
                    self._journal.record(record._replace(replicas=table.replicas[row]))
                continue
            self._journal.record_all(
                AlikeStateChanges(
                    self._change(PartitionState(before), target),
                    pick(table.topic_of, rows[part]),
                    pick(table.partition_of, rows[part]),
                    leaderships[part],
                )
            )

    def _fail(self, row: int, current: PartitionState, target: PartitionState, cause: str) -> None:
        record = self._changed(row, current, target)
        self._journal.record(record._replace(kind=Kind.PARTITION_STATE_FAILED, cause=cause))

    def _changed(self, row: int, current: PartitionState, target: PartitionState) -> StateChange:
        table = self._context.table
        change = self._change(current, target)
        return change._replace(topic=table.topic_of[row], partition=table.partition_of[row])

    def _change(self, current: PartitionState, target: PartitionState) -> StateChange:
        """Moves one partition to the target state."""
        return StateChange(
            Kind.PARTITION_STATE_CHANGED,
            "controller",
            self._tools.config.broker_id,
            self._context.epoch,
            from_state=current.label,
            to_state=target.label,
        )

    # ------------------------------------------------------------------ New → Online

    def _initialize(self, rows: Sequence[int]) -> Procedure[tuple[list[int], list[int]]]:
        """First leader and ISR of new partitions.

        Returns the rows whose znode was created, and those that had one already, which could not be
        read before and are Offline now.  Kafka leaves these New until the next failover.
        """
        context, table = self._context, self._context.table
        chosen: list[tuple[int, LeaderAndIsr]] = []
        for row in rows:
            first = elect_initial(
                table.replicas[row],
                lambda broker, row=row: context.is_replica_online(broker, row),  # type: ignore[misc]
                context.epoch,
            )
            if first is None:
                self._fail(
                    row,
                    PartitionState.NEW,
                    PartitionState.ONLINE,
                    f"{STATE_CHANGE_FAILED}: Controller {self._tools.config.broker_id} epoch"
                    f" {context.epoch} encountered error during state change of partition"
                    f" {table.text(row)} from New to Online, assigned replicas are"
                    f" [{csv(table.replicas[row])}], live brokers are"
                    f" [{csv(context.live_broker_ids)}]. No assigned replica is alive.",
                )
            else:
                chosen.append((row, first))
        topics = dict.fromkeys(table.topic_of[row] for row, _ in chosen)
        # A parent may exist already; only the result of the state znode counts.
        yield from self._tools.write([Create(TopicPartitionsZnode.path(t)) for t in topics])
        yield from self._tools.write(
            [Create(TopicPartitionZnode.path(*table.topic_partition(row))) for row, _ in chosen]
        )
        results = yield from self._tools.write(
            [Create(state_path(table, row), encode_state(first)) for row, first in chosen]
        )
        states = yield from read_states(
            self._tools,
            [
                row
                for (row, _), result in zip(chosen, results, strict=True)
                if result is ZkCode.NODE_EXISTS
            ],
        )
        report_unreadable(self._tools, states)
        created: dict[int, LeaderAndIsr] = {}
        existing: dict[int, LeaderAndIsr] = {}
        for (row, first), result in zip(chosen, results, strict=True):
            # A create whose reply was lost is sent again, and then its own znode exists already.
            if isinstance(result, Written) or states.found.get(row) == first:
                created[row] = first
            elif row in states.found:
                existing[row] = states.found[row]
            else:
                self._fail(
                    row,
                    PartitionState.NEW,
                    PartitionState.ONLINE,
                    keeper_exception(result, table.text(row)),
                )
                # Also after NO_NODE: ZooKeeper then refused to create the parent of this znode.
                self.refused.add_election(row)
        table.put_leader_and_isr(existing)
        self._enter(list(existing), PartitionState.OFFLINE)
        return self._bring_online(created), list(existing)

    def _bring_online(self, states: Mapping[int, LeaderAndIsr]) -> list[int]:
        """Takes over the states that were written to ZooKeeper; returns their rows."""
        rows = list(states)
        self._context.table.put_leader_and_isr(states)
        self._enter(rows, PartitionState.ONLINE, list(states.values()))
        return rows

    def _by_isr(self, rows: Iterable[int]) -> dict[tuple[int, ...], list[int]]:
        groups: dict[tuple[int, ...], list[int]] = {}
        for row in rows:
            groups.setdefault(self._context.table.in_sync_replicas[row], []).append(row)
        return groups

    # ------------------------------------------------------------------ Online, Offline → Online

    def _elect(self, rows: Sequence[int], strategy: Strategy) -> Procedure[ElectionOutcome]:
        """Elects until each partition has a leader, or a reason why it has none.

        Elects again at once if a znode has changed since it was read.

        The first try uses the states in memory.  States of partitions that it gives no leader are
        read from ZooKeeper.
        """
        outcome = ElectionOutcome()
        chosen: dict[int, LeaderAndIsr] = {}
        choose = self._chooser(strategy)
        for row, state in held_states(self._tools, rows).items():
            elected = choose(row, state, False)
            if elected is not None:
                chosen[row] = self._signed(elected)
        verdicts = yield from self._write(chosen, outcome)
        remaining = [row for row in rows if row not in verdicts.written]
        while remaining:
            lost = yield from self._elect_once(remaining, strategy, outcome)
            if lost:
                self._journal.info(
                    f"Retrying leader election with strategy {strategy} for partitions"
                    f" {csv(self._context.table.text(row) for row in lost)}",
                    PARTITION_STATE_MACHINE,
                )
            remaining = lost
        states = self._context.table.partition_state
        for row, reason in outcome.failed.items():
            cause = state_change_failure(reason, self._context.table.text(row))
            self._fail(row, PartitionState(states[row]), PartitionState.ONLINE, cause)
        return outcome

    def _elect_once(
        self, rows: Sequence[int], strategy: Strategy, outcome: ElectionOutcome
    ) -> Procedure[list[int]]:
        """One round of read, elect, write.  Returns the rows whose znode changed meanwhile."""
        table = self._context.table
        current = yield from self._read_states(rows, outcome)
        unclean = yield from self._may_be_unclean(current, strategy)
        chosen: dict[int, LeaderAndIsr] = {}
        unclean_elections = 0
        choose = self._chooser(strategy)
        for row, state in current.items():
            elected = choose(row, state, row in unclean)
            if elected is None:
                outcome.failed[row] = StateChangeFailed(
                    "Failed to elect leader for partition"
                    f" {table.text(row)} under strategy {strategy}"
                )
                continue
            unclean_elections += elected.leader not in state.in_sync_replicas
            chosen[row] = self._signed(elected)
        if unclean_elections:
            self._journal.mark("UncleanLeaderElectionsPerSec", unclean_elections)
        verdicts = yield from self._write(chosen, outcome)
        for row, code in verdicts.refused.items():
            outcome.failed[row] = code
            if code is not ZkCode.NO_NODE:
                self.refused.add_election(row)
        return verdicts.lost  # the ISR changed meanwhile: read again, elect again

    def _signed(self, state: LeaderAndIsr) -> LeaderAndIsr:
        """The state with this controller's epoch."""
        leader, leader_epoch, isr, zk_version, _, recovery = state
        return LeaderAndIsr(leader, leader_epoch, isr, zk_version, self._context.epoch, recovery)

    def _write(
        self, chosen: Mapping[int, LeaderAndIsr], outcome: ElectionOutcome
    ) -> Procedure[Verdicts]:
        """Writes the elected states; a partition whose write succeeds is online."""
        verdicts = yield from write_states(self._tools, chosen)
        outcome.elected += self._bring_online(verdicts.written)
        return verdicts

    def _read_states(
        self, rows: Sequence[int], outcome: ElectionOutcome
    ) -> Procedure[dict[int, LeaderAndIsr]]:
        """Reads the current states of the partitions; failures go into the outcome."""
        table = self._context.table
        states = yield from read_states(self._tools, rows)
        for row, reason in states.unreadable.items():
            if reason is ZkCode.NO_NODE:
                outcome.failed[row] = StateChangeFailed(
                    "LeaderAndIsr information doesn't exist for partition"
                    f" {table.text(row)} in"
                    f" {PartitionState(table.partition_state[row]).label} state"
                )
            else:
                outcome.failed[row] = (
                    reason if isinstance(reason, ZkCode) else StateChangeFailed(str(reason))
                )
                self.refused.add_election(row)
        current: dict[int, LeaderAndIsr] = {}
        for row, state in states.found.items():
            if state.controller_epoch > self._context.epoch:
                outcome.failed[row] = StateChangeFailed(
                    "Aborted leader election for partition"
                    f" {table.text(row)} since {STATE_WRITTEN_BY_ANOTHER}"
                )
            else:
                current[row] = state
        return current

    def _may_be_unclean(
        self, current: dict[int, LeaderAndIsr], strategy: Strategy
    ) -> Procedure[set[int]]:
        """Rows without an online ISR member for which an unclean election is allowed."""
        if not isinstance(strategy, OfflineElection):
            return set()
        context, table = self._context, self._context.table
        hopeless = [
            row
            for row, state in current.items()
            if not any(context.is_replica_online(b, row) for b in state.in_sync_replicas)
        ]
        if strategy.allow_unclean or not hopeless:
            return set(hopeless)
        flags = yield from read_unclean_election_flags(
            self._tools,
            dict.fromkeys(table.topic_of[row] for row in hopeless),
            self.unclean_default,
        )
        for row in hopeless:
            if flags[table.topic_of[row]] is None:
                self.refused.add_election(row)
        return {row for row in hopeless if flags[table.topic_of[row]]}

    def _chooser(
        self, strategy: Strategy
    ) -> Callable[[int, LeaderAndIsr, bool], LeaderAndIsr | None]:
        """A function that elects the leader of one row.

        It takes the row, its state and whether the election may be unclean; it returns the new
        state, or None if no replica can lead.
        """
        context, table = self._context, self._context.table
        is_recovery_tracked = self._tools.config.is_leader_recovery_supported
        online = context.online_replicas(
            include_shutting_down=isinstance(strategy, ControlledShutdownElection)
        )

        def choose(row: int, state: LeaderAndIsr, may_be_unclean: bool) -> LeaderAndIsr | None:
            replicas = table.replicas[row]
            match strategy:
                case OfflineElection():
                    return elect_offline(
                        state,
                        replicas,
                        online(row),
                        unclean=may_be_unclean,
                        is_recovery_tracked=is_recovery_tracked,
                    )
                case ControlledShutdownElection():
                    return elect_for_controlled_shutdown(
                        state, replicas, online(row), context.shutting_down.__contains__
                    )
                case ReassignElection():
                    candidates = table.assignment(row).target_replicas
                case PreferredElection():
                    candidates = replicas[:1]
                case _:
                    assert_never(strategy)
            return elect_first_in_sync(state, candidates, online(row))

        return choose

    def _recipients(
        self, rows: Iterable[int], strategy: Strategy
    ) -> dict[tuple[int, ...], list[int]]:
        """Brokers that get the LeaderAndIsr, grouped: tuple of brokers to rows."""
        table = self._context.table
        online = self._context.online_replicas(
            include_shutting_down=isinstance(strategy, ControlledShutdownElection)
        )

        def receivers(row: int) -> tuple[int, ...]:
            match strategy:
                case OfflineElection() | ControlledShutdownElection():
                    return tuple(filter(online(row), table.replicas[row]))
                case ReassignElection():
                    return table.assignment(row).target_replicas
                case PreferredElection():
                    return table.replicas[row]
                case _:
                    assert_never(strategy)

        groups: dict[tuple[int, ...], list[int]] = {}
        for row in rows:
            groups.setdefault(receivers(row), []).append(row)
        return groups
