"""Collects LeaderAndIsr, UpdateMetadata and StopReplica for brokers and sends them together.

A batch collects three things: LeaderAndIsr per broker, UpdateMetadata for a set of brokers (one
set of partitions for all of them), StopReplica per broker.  :meth:`RequestBatch.send` turns them
into ``SendControlRequest`` effects in Kafka's order.  A partition's state is encoded once for all
of them.

A batch is used for one state change and then dropped.  Kafka keeps three batches for ever, and
fails if an earlier error left requests in one.

Source: Kafka ``AbstractControllerBrokerRequestBatch``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from operator import add
from typing import NamedTuple

from kafka_common.model import LEADER_DURING_DELETE, RECOVERED
from kafka_common.protocol import bulk
from kafka_common.protocol.control_responses import (
    read_leader_and_isr_response,
    read_stop_replica_response,
    read_update_metadata_response,
)
from zkcontroller.core.config import ControllerConfig
from zkcontroller.core.context import ControllerContext
from zkcontroller.core.effects import Outbox, SendControlRequest
from zkcontroller.core.events import (
    Event,
    LeaderAndIsrResponseReceived,
    TopicDeletionStopReplicaResponseReceived,
    UpdateMetadataResponseReceived,
)
from zkcontroller.core.journal import REQUEST_BATCH, Journal
from zkcontroller.core.partition_table import distinct, in_slices, is_ascending, pick
from zkcontroller.state_changes.kafka_values import (
    leader_and_isr_response,
    update_metadata_response,
)
from zkcontroller.state_changes.record import Kind, StateChange

LEADER_AND_ISR = 4
STOP_REPLICA = 5
UPDATE_METADATA = 6
REQUEST_NAMES = {
    LEADER_AND_ISR: "LeaderAndIsr",
    STOP_REPLICA: "StopReplica",
    UPDATE_METADATA: "UpdateMetadata",
}


class _Stop(NamedTuple):
    """The fields of one partition in a StopReplica request."""

    leader_epoch: int
    delete: bool


class RequestBatch:
    """The control requests that one state change sends to brokers."""

    def __init__(
        self, context: ControllerContext, config: ControllerConfig, journal: Journal, outbox: Outbox
    ) -> None:
        self._context = context
        self._config = config
        self._journal = journal
        self._outbox = outbox
        self._leader_and_isr: dict[int, list[Sequence[int]]] = {}
        self._is_new: set[tuple[int, int]] = set()
        self._stop_replica: dict[int, dict[int, _Stop]] = {}
        self._metadata_brokers: dict[int, None] = {}
        self._metadata_rows: list[Sequence[int]] = []
        self._encoded_states: dict[bulk.StateLayout, dict[int, bytes]] = {}

    # ------------------------------------------------------------------ gathering

    def add_leader_and_isr(
        self, broker_ids: Iterable[int], rows: Sequence[int], *, is_new: bool = False
    ) -> None:
        """Adds LeaderAndIsr for these brokers and UpdateMetadata for every broker.

        A (broker, partition) that was once added with ``is_new`` stays new in this batch.
        """
        for broker_id in self._reachable(broker_ids):
            self._leader_and_isr.setdefault(broker_id, []).append(rows)
            if is_new:
                self._is_new.update((broker_id, row) for row in rows)
        self.add_update_metadata(self._context.live_or_shutting_down_broker_ids, rows)

    def _reachable(self, broker_ids: Iterable[int]) -> list[int]:
        """The brokers that have a channel; a dead broker gets its requests when it returns."""
        return [broker for broker in broker_ids if broker in self._context.live_broker_epochs]

    def add_leader_and_isr_without_metadata(self, broker_id: int, rows: Sequence[int]) -> None:
        """As :meth:`add_leader_and_isr` for one broker, without the UpdateMetadata."""
        self._leader_and_isr.setdefault(broker_id, []).append(rows)

    def add_update_metadata(self, broker_ids: Iterable[int], rows: Sequence[int] = ()) -> None:
        """Adds UpdateMetadata: the live brokers and these partitions."""
        self._metadata_brokers.update(dict.fromkeys(b for b in broker_ids if b >= 0))
        table = self._context.table
        known = [row for row in rows if table.leader_epoch[row] >= 0]
        self._metadata_rows.append(known)
        if len(known) != len(rows):
            for row in rows:
                if not table.has_leader_and_isr(row):
                    self._journal.info(
                        f"Leader not yet assigned for partition {table.text(row)}."
                        " Skip sending UpdateMetadataRequest.",
                        REQUEST_BATCH,
                    )

    def add_stop_replica(
        self, broker_ids: Iterable[int], rows: Iterable[int], *, delete: bool
    ) -> None:
        """Adds StopReplica for these replicas; ``delete`` also removes their logs.

        A replica that was once added with ``delete`` in this batch stays so.  The request has the
        leader epoch from before the replica leaves the ISR, as Kafka's brokers expect.
        """
        context = self._context
        for broker_id in self._reachable(broker_ids):
            wanted = self._stop_replica.setdefault(broker_id, {})
            for row in rows:
                is_delete = delete or (row in wanted and wanted[row].delete)
                wanted[row] = _Stop(context.stop_replica_leader_epoch(row), is_delete)

    # ------------------------------------------------------------------ sending

    def send(self) -> None:
        """Fills the outbox with the requests: LeaderAndIsr, UpdateMetadata, then StopReplica."""
        self._send_leader_and_isr()
        self._send_update_metadata()
        self._send_stop_replica()

    def _send_leader_and_isr(self) -> None:
        context, table = self._context, self._context.table
        version = self._config.leader_and_isr_version
        layout = bulk.leader_and_isr_layout(version)
        for broker_id, added in self._leader_and_isr.items():
            rows = _distinct(added)
            states = self._states(layout, rows)
            entries = in_slices(map(add, states, self._ends(version, broker_id, rows)))
            leaders = pick(table.leader, rows)
            leading = leaders.count(broker_id)
            self._journal.record(
                StateChange(
                    Kind.LEADER_AND_ISR_SENDING,
                    "controller",
                    self._config.broker_id,
                    context.epoch,
                    peer=broker_id,
                    request="LeaderAndIsr",
                    count=leading,
                    other_count=len(rows) - leading,
                )
            )
            if self._journal.is_tracing:
                self._trace_leader_and_isr(broker_id, rows)
            body = bulk.leader_and_isr_body(
                version,
                controller_id=self._config.broker_id,
                controller_epoch=context.epoch,
                broker_epoch=context.live_broker_epochs[broker_id],
                topics=self._grouped(rows, entries),
                live_leaders=self._live_leaders(set(leaders)),
            )
            offline = context.offline_dir_rows.get(broker_id, ())
            probing = tuple(table.topic_partition(row) for row in rows if row in offline)
            self._outbox.append(
                SendControlRequest(
                    broker_id, LEADER_AND_ISR, version, body, context.epoch, probing=probing
                )
            )

    def _ends(self, version: int, broker_id: int, rows: Sequence[int]) -> Iterable[bytes]:
        """The bytes that follow each partition's state in a LeaderAndIsr to that broker."""
        table = self._context.table
        recovery = pick(table.leader_recovery_state, rows)
        if not (table.reassigning or self._is_new or any(recovery)):
            return repeat(bulk.leader_and_isr_end(version, (), (), False, RECOVERED))
        return (
            bulk.leader_and_isr_end(
                version,
                assignment.adding_replicas,
                assignment.removing_replicas,
                (broker_id, row) in self._is_new,
                state,
            )
            for row, assignment, state in zip(
                rows, map(table.assignment, rows), recovery, strict=True
            )
        )

    def _states(self, layout: bulk.StateLayout, rows: Sequence[int]) -> Sequence[bytes]:
        """The bytes of the partitions' states, encoded once for both kinds of request."""
        known = self._encoded_states.setdefault(layout, {})
        missing = [row for row in rows if row not in known]
        if missing:
            table = self._context.table
            encoded = map(
                bulk.state_encoder(layout),
                pick(table.topic_of, missing),
                pick(table.partition_of, missing),
                pick(table.state_controller_epoch, missing),
                pick(table.leader, missing),
                pick(table.leader_epoch, missing),
                pick(table.in_sync_replicas, missing),
                pick(table.zk_version, missing),
                pick(table.replicas, missing),
            )
            known.update(zip(missing, encoded, strict=True))
        return pick(known, rows)

    def _live_leaders(self, leaders: set[int]) -> list[tuple[int, str, int]]:
        found = []
        for broker_id, broker in self._context.live_brokers.items():
            if broker_id in leaders:
                endpoint = broker.endpoint(self._config.inter_broker_listener_name)
                if endpoint is not None:
                    found.append((broker_id, endpoint.host, endpoint.port))
        return found

    def _send_update_metadata(self) -> None:
        context = self._context
        rows = _distinct(self._metadata_rows)
        brokers = [b for b in self._metadata_brokers if b in context.live_broker_epochs]
        self._journal.record(
            StateChange(
                Kind.UPDATE_METADATA_SENDING,
                "controller",
                self._config.broker_id,
                context.epoch,
                peers=tuple(self._metadata_brokers),
                request="UpdateMetadata",
                count=len(rows),
            )
        )
        if not brokers:
            return
        version = self._config.update_metadata_version
        states = self._metadata_states(bulk.update_metadata_layout(version), rows)
        found = in_slices(map(add, states, self._metadata_ends(version, rows)))
        topics = bulk.update_metadata_topics(version, self._grouped(rows, found))
        live_brokers = bulk.update_metadata_live_brokers(
            version, list(context.live_brokers.values())
        )
        for broker_id in brokers:
            body = bulk.update_metadata_body(
                version,
                controller_id=self._config.broker_id,
                controller_epoch=context.epoch,
                broker_epoch=context.live_broker_epochs[broker_id],
                topics=topics,
                live_brokers=live_brokers,
            )
            self._outbox.append(
                SendControlRequest(broker_id, UPDATE_METADATA, version, body, context.epoch)
            )

    def _metadata_states(self, layout: bulk.StateLayout, rows: Sequence[int]) -> Sequence[bytes]:
        """The encoded states; a partition under deletion has the leader LEADER_DURING_DELETE."""
        table = self._context.table
        states = self._states(layout, rows)
        if not table.deleting:
            return states
        encode = bulk.state_encoder(layout)
        return [
            encode(
                table.topic_of[row],
                table.partition_of[row],
                table.state_controller_epoch[row],
                LEADER_DURING_DELETE,
                0,
                table.in_sync_replicas[row],
                0,
                table.replicas[row],
            )
            if table.topic_of[row] in table.deleting
            else state
            for row, state in zip(rows, states, strict=True)
        ]

    def _metadata_ends(self, version: int, rows: Sequence[int]) -> Iterable[bytes]:
        """The bytes that follow each state in an UpdateMetadata: the offline replicas."""
        context = self._context
        replicas = pick(context.table.replicas, rows)
        if any(context.offline_dir_rows.values()):
            return (
                bulk.update_metadata_end(
                    version, tuple(b for b in each if not context.is_replica_online(b, row))
                )
                for row, each in zip(rows, replicas, strict=True)
            )
        # No log directory has failed, so the replicas of dead brokers are the offline ones.  They
        # are encoded once for each distinct replica list, of which a cluster has few.
        ends = {
            each: bulk.update_metadata_end(
                version, tuple(b for b in each if not context.is_live(b))
            )
            for each in distinct(replicas)
        }
        return map(ends.__getitem__, replicas)

    def _send_stop_replica(self) -> None:
        context = self._context
        version = self._config.stop_replica_version
        for broker_id, wanted in self._stop_replica.items():
            broker_epoch = context.live_broker_epochs.get(broker_id)
            if broker_epoch is None or not wanted:
                continue
            if version >= 3:
                parts = [(dict(wanted), any(stop.delete for stop in wanted.values()))]
            else:
                # A request deletes either all of its replicas or none: send two, deletions first.
                parts = [
                    ({row: stop for row, stop in wanted.items() if stop.delete is delete}, delete)
                    for delete in (True, False)
                ]
            for rows, delete in parts:
                if rows:
                    self._send_one_stop_replica(broker_id, broker_epoch, version, rows, delete)

    def _send_one_stop_replica(
        self, broker_id: int, broker_epoch: int, version: int, rows: dict[int, _Stop], delete: bool
    ) -> None:
        context, table = self._context, self._context.table
        by_topic: dict[str, list[tuple[int, int, bool]]] = {}
        for row, stop in rows.items():
            by_topic.setdefault(table.topic_of[row], []).append((table.partition_of[row], *stop))
        self._journal.record(
            StateChange(
                Kind.STOP_REPLICA_SENDING,
                "controller",
                self._config.broker_id,
                context.epoch,
                peer=broker_id,
                request="StopReplica",
                count=len(rows),
                delete_partition=None if version >= 3 else delete,
            )
        )
        if self._journal.is_tracing:
            for row, stop in rows.items():
                self._journal.record(
                    StateChange(
                        Kind.STOP_REPLICA_SENDING_PARTITION,
                        "controller",
                        self._config.broker_id,
                        context.epoch,
                        topic=table.topic_of[row],
                        partition=table.partition_of[row],
                        leader_epoch=stop.leader_epoch,
                        delete_partition=stop.delete,
                        peer=broker_id,
                        request="StopReplica",
                    )
                )
        body = bulk.stop_replica_body(
            version,
            controller_id=self._config.broker_id,
            controller_epoch=context.epoch,
            broker_epoch=broker_epoch,
            topics=list(by_topic.items()),
            delete_partitions=delete,
        )
        # A reassignment deletes replicas too, but no event is needed for their responses.
        deleting = tuple(
            table.topic_partition(row)
            for row, stop in rows.items()
            if stop.delete and table.topic_of[row] in context.topics_with_deletion_started
        )
        self._outbox.append(
            SendControlRequest(broker_id, STOP_REPLICA, version, body, context.epoch, deleting)
        )

    def _grouped(self, rows: Sequence[int], entries: list[bytes]) -> list[bulk.TopicEntries]:
        """The entries by topic, with the topic id.

        If the rows of a topic are consecutive, its entries are one slice of the list.
        """
        table = self._context.table
        is_sorted = is_ascending(rows)
        found: dict[str, list[bytes]] = {}
        at = 0
        while at < len(rows):
            topic = table.topic_of[rows[at]]
            known = table.topics[topic]
            end = at + 1
            if is_sorted and known.is_one_run:
                end = bisect_right(rows, known.rows[-1], at)
            if topic in found:
                found[topic].extend(entries[at:end])
            else:
                found[topic] = entries[at:end]
            at = end
        return [(topic, table.topics[topic].topic_id, each) for topic, each in found.items()]

    def _trace_leader_and_isr(self, broker_id: int, rows: Sequence[int]) -> None:
        table = self._context.table
        for row in rows:
            assignment = table.assignment(row)
            state = table.leader_and_isr(row)
            self._journal.record(
                StateChange(
                    Kind.LEADER_AND_ISR_SENDING_PARTITION,
                    "controller",
                    self._config.broker_id,
                    self._context.epoch,
                    topic=table.topic_of[row],
                    partition=table.partition_of[row],
                    leader=state.leader,
                    leader_epoch=state.leader_epoch,
                    isr=state.in_sync_replicas,
                    zk_version=state.zk_version,
                    leader_recovery_state=state.leader_recovery_state,
                    state_controller_epoch=state.controller_epoch,
                    replicas=assignment.replicas,
                    adding_replicas=assignment.adding_replicas,
                    removing_replicas=assignment.removing_replicas,
                    is_new=(broker_id, row) in self._is_new,
                    peer=broker_id,
                    request="LeaderAndIsr",
                    role="leader" if state.leader == broker_id else "follower",
                )
            )


def _distinct(parts: Sequence[Sequence[int]]) -> Sequence[int]:
    """The rows of all parts, each row once.  Each part must have distinct rows."""
    return parts[0] if len(parts) == 1 else sorted(distinct(chain.from_iterable(parts)))


def event_for_response(send: SendControlRequest, body: bytes) -> Event | None:
    """The event for a broker's response; None if the controller does not need it.

    ``body`` is the response without its header.  Raises InvalidFrame if it cannot be read.
    """
    if send.api_key == LEADER_AND_ISR:
        is_probe = bool(send.probing)
        response = read_leader_and_isr_response(send.api_version, body, names_all=is_probe)
        code, errors = response
        text = leader_and_isr_response(code, errors) if code else ""
        return LeaderAndIsrResponseReceived(send.broker_id, code, errors, is_probe, text)
    if send.api_key == UPDATE_METADATA:
        response = read_update_metadata_response(send.api_version, body)
        text = update_metadata_response(response.error_code) if response.error_code else ""
        return UpdateMetadataResponseReceived(send.broker_id, response.error_code, text)
    assert send.api_key == STOP_REPLICA, send.api_key
    if not send.deleting:
        return None
    response = read_stop_replica_response(send.api_version, body, names_all=True)
    # A partition that the response does not name was neither deleted nor refused.
    codes = {(topic, partition): code for topic, partition, code in response.partition_errors}
    named = tuple((*each, codes[each]) for each in send.deleting if each in codes)
    if not named:
        return None
    return TopicDeletionStopReplicaResponseReceived(send.broker_id, response.error_code, named)
