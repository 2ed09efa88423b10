"""ISR changes by leaders: AlterPartition requests, or ZooKeeper notifications.

The controller decides on AlterPartition: it knows the live brokers, and it writes the state znode
by version.  A leader below inter.broker.protocol.version 2.7-IV2 writes the znode itself and leaves
a notification, so that the controller reads it again and updates every broker.

Source: Kafka ``KafkaController.processAlterPartition``, ``processIsrChangeNotification`` (KIP-497,
KIP-841).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from kafka_common.errors import ControllerMoved, ZnodeCorrupt, ZooKeeperRefused
from kafka_common.model import RECOVERED, RECOVERING, LeaderAndIsr
from kafka_common.topic_names import invalid_name_reason
from zkcontroller.core.effects import (
    AlterPartitionResult,
    IsrChangeResult,
    Procedure,
    RequestResponse,
)
from zkcontroller.core.events import AlterPartitionReceived, IsrChange
from zkcontroller.core.journal import keeper_exception, scala_seq, scala_set
from zkcontroller.core.partition_table import NO_ROW
from zkcontroller.core.reassignment import Reassignments
from zkcontroller.core.refused_partitions import RefusedPartitions
from zkcontroller.core.state_znodes import encode_state, read_states, state_path, write_states
from zkcontroller.core.tools import ControllerTools
from zkcontroller.state_changes.kafka_values import leader_and_isr_of
from zkcontroller.zookeeper.requests import Delete, ZkCode, Znode
from zkcontroller.zookeeper.znodes import (
    IsrChangeNotificationSequenceZnode,
    IsrChangeNotificationZnode,
)

_NONE: Final = ErrorCode.none  # bound once: the enum's attribute costs 150 ns for each partition

TOPIC_IDS_SINCE = 2
"""First version of AlterPartition that names topics by id and knows INELIGIBLE_REPLICA."""


class IsrChanges:
    """Handles AlterPartition requests and ISR change notifications."""

    def __init__(
        self, tools: ControllerTools, reassignments: Reassignments, refused: RefusedPartitions
    ) -> None:
        self._tools = tools
        self._refused = refused
        self._context = tools.context
        self._journal = tools.journal
        self._reassignments = reassignments

    # ------------------------------------------------------------------ AlterPartition

    def alter(self, event: AlterPartitionReceived) -> Procedure[None]:
        """Checks and writes each change.  The response comes before reassignments are completed."""
        try:
            results = yield from self._alter(event)
        except ControllerMoved as moved:
            # As in Kafka, the response lets the leader retry, and it finds the next controller.
            self._journal.error(
                f"Error when processing AlterPartition: {event}", exception=str(moved)
            )
            self._respond(event, AlterPartitionResult(ErrorCode.unknown_server_error))
            raise
        if isinstance(results, ErrorCode):
            self._respond(event, AlterPartitionResult(results))
            return
        self._respond(event, AlterPartitionResult(_NONE, tuple(results)))
        rows = [
            self._row(change)
            for change, result in zip(event.changes, results, strict=True)
            if result.error_code is _NONE
        ]
        yield from self._reassignments.complete_if_caught_up(rows)

    def _respond(self, event: AlterPartitionReceived, result: AlterPartitionResult) -> None:
        self._tools.outbox.append(RequestResponse(event.request_id, result))

    def _alter(self, event: AlterPartitionReceived) -> Procedure[ErrorCode | list[IsrChangeResult]]:
        """A top-level error, or one result per change in the order of the request."""
        known = self._context.live_broker_epochs.get(event.broker_id)
        if known is None:
            self._journal.info(f"Ignoring AlterPartition due to unknown broker {event.broker_id}")
            return ErrorCode.stale_broker_epoch
        if known != event.broker_epoch:
            self._journal.info(
                f"Ignoring AlterPartition due to stale broker epoch {event.broker_epoch} and local"
                f" broker epoch Some({known}) for broker {event.broker_id}"
            )
            return ErrorCode.stale_broker_epoch
        if any(c.leader_recovery_state not in (RECOVERED, RECOVERING) for c in event.changes):
            self._journal.error(
                f"Error when processing AlterPartition: {event}",
                exception="java.lang.IllegalArgumentException:"
                " Value for leader recovery state is not valid",
            )
            return ErrorCode.unknown_server_error
        results: list[IsrChangeResult | None] = []
        writing: list[tuple[int, int, LeaderAndIsr]] = []
        for at, change in enumerate(event.changes):
            verdict = self._judge(event, change)
            if isinstance(verdict, LeaderAndIsr):
                writing.append((at, self._row(change), verdict))
                results.append(None)
            else:
                results.append(verdict)
        written = yield from self._write(writing)
        for (at, row, _), code in zip(writing, written, strict=True):
            topic, partition = event.changes[at][:2]
            state = self._context.table.leader_and_isr(row) if code is _NONE else None
            results[at] = IsrChangeResult(topic, partition, code, state)
        # Every broker gets every partition of the request, refused ones too: a leader that sent
        # outdated state gets the current one.
        rows = [row for change in event.changes if (row := self._row(change)) != NO_ROW]
        self._tools.send_update_metadata(None, list(dict.fromkeys(rows)))
        assert None not in results
        return [result for result in results if result is not None]

    def _row(self, change: IsrChange) -> int:
        name = self._name(change.topic)
        return NO_ROW if name is None else self._context.table.row(name, change.partition)

    def _name(self, topic: UUID | str) -> str | None:
        return topic if isinstance(topic, str) else self._context.topic_names.get(topic)

    def _judge(
        self, event: AlterPartitionReceived, change: IsrChange
    ) -> IsrChangeResult | LeaderAndIsr:
        """The state to write, or the error if the change is refused."""

        def refused(code: ErrorCode) -> IsrChangeResult:
            return IsrChangeResult(change.topic, change.partition, code)

        table = self._context.table
        name, row = self._name(change.topic), self._row(change)
        unread = self._refused.topics
        if row == NO_ROW and (name in unread or (name is None and unread)):
            # With UNKNOWN_TOPIC_OR_PARTITION the leader would wait for a new leader epoch.  With
            # this code it retries, and by then the topic may have been read.
            return refused(ErrorCode.unknown_server_error)
        if name is None:
            return refused(ErrorCode.unknown_topic_id)
        if row == NO_ROW or not table.has_leader_and_isr(row):
            return refused(ErrorCode.unknown_topic_or_partition)
        current = table.leader_and_isr(row)
        if (
            change.partition_epoch > current.zk_version
            or change.leader_epoch > current.leader_epoch
        ):
            # The leader knows a controller newer than this one.
            return refused(ErrorCode.not_controller)
        if change.leader_epoch < current.leader_epoch:
            return refused(ErrorCode.fenced_leader_epoch)
        wanted = current._replace(
            leader=event.broker_id,
            in_sync_replicas=change.new_isr,
            leader_recovery_state=change.leader_recovery_state,
        )
        if wanted == current:
            return IsrChangeResult(change.topic, change.partition, _NONE, current)
        if change.partition_epoch < current.zk_version:
            return refused(ErrorCode.invalid_update_version)
        code = self._invalid(event, change, current, wanted)
        if code is not _NONE:
            return refused(code)
        return wanted._replace(controller_epoch=self._context.epoch)

    def _invalid(
        self,
        event: AlterPartitionReceived,
        change: IsrChange,
        current: LeaderAndIsr,
        wanted: LeaderAndIsr,
    ) -> ErrorCode:
        text = f"{self._name(change.topic)}-{change.partition}"
        if change.leader_recovery_state == RECOVERING and len(change.new_isr) > 1:
            self._journal.info(
                f"Rejecting AlterPartition from node {event.broker_id} for {text} because leader is"
                f" recovering and ISR is greater than 1: {leader_and_isr_of(wanted)}"
            )
            return ErrorCode.invalid_request
        if (
            current.leader_recovery_state == RECOVERED
            and change.leader_recovery_state == RECOVERING
        ):
            self._journal.info(
                f"Rejecting AlterPartition from node {event.broker_id} for {text} because the"
                " leader recovery state cannot change from RECOVERED to RECOVERING:"
                f" {leader_and_isr_of(wanted)}"
            )
            return ErrorCode.invalid_request
        # A replica that a reassignment dropped may stay in the ISR until it is removed there.  No
        # other broker without a replica may join: a leader with an old assignment may propose one.
        holding = {*self._context.table.replicas[self._row(change)], *current.in_sync_replicas}
        ineligible = [b for b in change.new_isr if b not in holding or not self._context.is_live(b)]
        if ineligible:
            self._journal.info(
                f"Rejecting AlterPartition request from node {event.broker_id} for {text} because"
                f" it specified ineligible replicas {scala_set(ineligible)} in the new ISR"
                f" {scala_seq('List', change.new_isr)}."
            )
            return (
                ErrorCode.ineligible_replica
                if event.api_version >= TOPIC_IDS_SINCE
                else ErrorCode.operation_not_attempted
            )
        return _NONE

    def _write(
        self, changes: Sequence[tuple[int, int, LeaderAndIsr]]
    ) -> Procedure[list[ErrorCode]]:
        """Writes the states to znodes of unchanged version; leader epochs do not change.

        Returns one error code per change.
        """
        table = self._context.table
        if changes:
            texts = scala_seq("Set", (table.text(row) for _, row, _ in changes))
            self._journal.debug(f"Updating ISRs for partitions: {texts}.")
        verdicts = yield from write_states(self._tools, {row: s for _, row, s in changes})
        table.put_leader_and_isr(verdicts.written)
        codes: list[ErrorCode] = []
        for _, row, state in changes:
            text = table.text(row)
            if row in verdicts.written:
                updated = leader_and_isr_of(verdicts.written[row])
                self._journal.debug(f"ISR for partition {text} updated to {updated}.")
                codes.append(_NONE)
            elif row in verdicts.refused:
                self._journal.error(
                    f"Failed to update ISR for partition {text}",
                    exception=keeper_exception(verdicts.refused[row], text),
                )
                codes.append(ErrorCode.unknown_server_error)
            else:
                codes.append((yield from self._settle_bad_version(row, state)))
        return codes

    def _settle_bad_version(self, row: int, state: LeaderAndIsr) -> Procedure[ErrorCode]:
        """The error code after BAD_VERSION; NONE if this write was done by an earlier sending.

        A write whose reply was lost is sent again and then finds its own state.  Kafka responds
        with INVALID_UPDATE_VERSION and keeps the old state in memory, and the leader waits for a
        newer LeaderAndIsr that is never sent.
        """
        table = self._context.table
        (znode,) = yield from self._tools.try_read([state_path(table, row)])
        if (
            isinstance(znode, Znode)
            and znode.zk_version == state.zk_version + 1
            and znode.data == encode_state(state)
        ):
            table.put_leader_and_isr({row: state._replace(zk_version=znode.zk_version)})
            return _NONE
        self._journal.info(
            f"Failed to update ISR to {leader_and_isr_of(state)} for partition {table.text(row)},"
            " bad ZK version."
        )
        return ErrorCode.invalid_update_version

    # ------------------------------------------------------------------ notifications

    def follow_notifications(self) -> Procedure[None]:
        """Handles a change of the children of ``/isr_change_notification``."""
        names = yield from self._tools.children(IsrChangeNotificationZnode.PATH, watch=True)
        paths = [IsrChangeNotificationSequenceZnode.path(name) for name in names]
        rows: dict[int, None] = {}
        for path, znode in zip(paths, (yield from self._tools.read(paths)), strict=True):
            if znode is None:
                continue
            try:
                named = IsrChangeNotificationSequenceZnode.decode(path, znode.data).partitions
            except ZnodeCorrupt as corrupt:
                self._journal.error(str(corrupt))
                continue
            for reason in filter(None, (invalid_name_reason(each.topic) for each in named)):
                self._journal.warn(f"Ignoring a partition in {path}: {reason}")
            known = (self._context.table.row(*partition) for partition in named)
            rows.update((row, None) for row in known if row != NO_ROW)
        if rows:
            yield from self.refresh(list(rows))
            self._tools.send_update_metadata(None, list(rows))
            yield from self._reassignments.complete_if_caught_up(rows)
        yield from self._tools.write([Delete(path) for path in paths])

    def refresh(self, rows: Sequence[int]) -> Procedure[None]:
        """Read the state znodes of these partitions again."""
        states = yield from read_states(self._tools, rows)
        for row, reason in states.unreadable.items():
            if isinstance(reason, ZnodeCorrupt):
                self._journal.error(str(reason))
            elif reason is not ZkCode.NO_NODE:
                # The leader has changed its ISR, and only this notification reports it.
                raise ZooKeeperRefused(state_path(self._context.table, row), reason.name)
        self._context.table.put_leader_and_isr(states.found)
