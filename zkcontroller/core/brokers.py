"""Brokers start, fail, restart and change their listeners: watches ``/brokers/ids``.

A *bounce* is a broker that stopped and started between two reads: same id, larger czxid.  It is
handled as a failure followed by a start, because it has lost all earlier control requests.

Source: Kafka ``KafkaController.processBrokerChange``, ``onBrokerStartup``, ``onBrokerFailure``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kafka_common.errors import ZnodeCorrupt
from kafka_common.model import Broker, Endpoint
from zkcontroller.core.effects import AddChannel, Procedure, RemoveChannel
from zkcontroller.core.journal import csv, scala_hash_set, scala_map, scala_set
from zkcontroller.core.partition_states import PartitionStateMachine
from zkcontroller.core.reassignment import Reassignments
from zkcontroller.core.replica_states import ReplicaStateMachine
from zkcontroller.core.states import PartitionState, ReplicaState
from zkcontroller.core.tools import ControllerTools
from zkcontroller.core.topic_deletion import TopicDeletionManager
from zkcontroller.zookeeper.requests import Znode
from zkcontroller.zookeeper.znodes import BrokerIdsZnode, BrokerIdZnode


class Brokers:
    """Keeps the context's live brokers equal to ``/brokers/ids`` and handles each change."""

    def __init__(
        self,
        tools: ControllerTools,
        partitions: PartitionStateMachine,
        replicas: ReplicaStateMachine,
        deletion: TopicDeletionManager,
        reassignments: Reassignments,
    ) -> None:
        self._tools = tools
        self._context = tools.context
        self._journal = tools.journal
        self._partitions = partitions
        self._replicas = replicas
        self._deletion = deletion
        self._reassignments = reassignments

    # ------------------------------------------------------------------ reading

    def read_all(self) -> Procedure[list[tuple[Broker, int]]]:
        """Every registered broker with its epoch, by id; leaves the child watch.

        A corrupt registration is logged with its path and watched.  A broker that is known with the
        same epoch keeps its earlier registration; any other is not live until its znode is valid.
        """
        names = yield from self._tools.children(BrokerIdsZnode.PATH, watch=True)
        ids = []
        for name in names:
            if name.isdecimal():
                ids.append(int(name))
            else:
                self._journal.error(f"{BrokerIdsZnode.PATH}/{name} is not a broker id; ignoring it")
        ids.sort()
        found = []
        results = yield from self._tools.read([BrokerIdZnode.path(b) for b in ids])
        for broker_id, znode in zip(ids, results, strict=True):
            if znode is None:
                continue  # gone again, and the child watch fires for it
            broker = self._decode(broker_id, znode)
            if broker is None:
                # Read the znode again, with a watch: it may be valid now, or become so later.
                znode = yield from self._tools.read_one(BrokerIdZnode.path(broker_id), watch=True)
                if znode is None:
                    continue
                broker = self._decode(broker_id, znode)
            if broker is None and self._context.live_broker_epochs.get(broker_id) == znode.czxid:
                broker = self._context.live_brokers[broker_id]
            if broker is None:
                self._journal.error(f"Broker {broker_id} counts as not live until that is mended")
            else:
                found.append((broker, znode.czxid))
        return found

    def _decode(self, broker_id: int, znode: Znode) -> Broker | None:
        try:
            return BrokerIdZnode.decode(broker_id, znode.data).broker
        except ZnodeCorrupt as corrupt:
            self._journal.error(str(corrupt))
            return None

    def compatible(
        self, brokers: Iterable[tuple[Broker, int]], kind: str = "new"
    ) -> list[tuple[Broker, int]]:
        """The brokers that support the finalized features; logs the others and leaves them out.

        ``kind`` is for the log line: ``new`` or ``bounced``.
        """
        found: list[tuple[Broker, int]] = []
        others: list[tuple[Broker, int]] = []
        for each in brokers:
            (found if self._context.is_compatible(each[0]) else others).append(each)
        if others:
            self._journal.warn(
                f"Ignoring registration of {kind} brokers due to incompatibilities with finalized"
                f" features: {csv(sorted(broker.broker_id for broker, _ in others))}"
            )
        return found

    def watch_modifications(self, broker_ids: Sequence[int], kind: str = "Set") -> Procedure[None]:
        """Sets a data watch on each broker's znode; ``kind`` is for the log line."""
        ids = ", ".join(map(str, broker_ids))
        self._journal.debug(f"Register BrokerModifications handler for {kind}({ids})")
        yield from self._tools.exists([BrokerIdZnode.path(b) for b in broker_ids], watch=True)

    # ------------------------------------------------------------------ events

    def process_broker_change(self) -> Procedure[None]:
        """Handles a change of the children of ``/brokers/ids``."""
        context = self._context
        current = {
            broker.broker_id: (broker, epoch) for broker, epoch in (yield from self.read_all())
        }
        known = context.live_broker_epochs
        new = [each for broker_id, each in current.items() if broker_id not in known]
        dead = sorted(broker_id for broker_id in known if broker_id not in current)
        bounced = [
            each
            for broker_id, each in current.items()
            if broker_id in known and each[1] > known[broker_id]
        ]
        new_ids = [broker.broker_id for broker, _ in new]
        bounced_ids = [broker.broker_id for broker, _ in bounced]
        self._journal.info(
            f"Newly added brokers: {csv(new_ids)}, deleted brokers: {csv(dead)}, bounced brokers:"
            f" {csv(bounced_ids)}, all live brokers: {csv(current)}"
        )
        for broker, _ in new:
            self._tools.outbox.append(AddChannel(broker))
        for broker, _ in bounced:
            self._tools.outbox.append(RemoveChannel(broker.broker_id))
        for broker, _ in bounced:
            self._tools.outbox.append(AddChannel(broker))
        for broker_id in dead:
            self._tools.outbox.append(RemoveChannel(broker_id))
        if new:
            context.add_live_brokers(self.compatible(new))
            yield from self.on_broker_startup(new_ids)
        if bounced:
            context.remove_live_brokers(bounced_ids)
            yield from self.on_broker_failure(bounced_ids)
            context.add_live_brokers(self.compatible(bounced, "bounced"))
            yield from self.on_broker_startup(bounced_ids)
        if dead:
            context.remove_live_brokers(dead)
            yield from self.on_broker_failure(dead)
        if new or bounced or dead:
            self._journal.info(
                f"Updated broker epochs cache: {scala_map(context.live_broker_epochs.items())}"
            )

    def process_broker_modification(self, broker_id: int) -> Procedure[None]:
        """Handles a change of a broker's znode: its listeners may have changed."""
        path = BrokerIdZnode.path(broker_id)
        znode = yield from self._tools.read_one(path, watch=True)
        cached = self._context.live_brokers.get(broker_id)
        if znode is None:
            return
        if cached is None:
            # The znode was corrupt when the brokers were read, so the broker is new.
            yield from self.process_broker_change()
            return
        broker = self._decode(broker_id, znode)
        if broker is None:
            return  # the earlier registration is kept
        if broker.endpoints == cached.endpoints and broker.features == cached.features:
            return
        self._journal.info(
            f"Updated broker metadata: {broker_text(cached)} -> {broker_text(broker)}"
        )
        self._context.live_brokers[broker_id] = broker
        self._journal.info(f"Broker info update callback for {broker_id}")
        self._tools.send_update_metadata()

    # ------------------------------------------------------------------ start

    def on_broker_startup(self, broker_ids: Sequence[int]) -> Procedure[None]:
        context, table = self._context, self._context.table
        self._journal.info(f"New broker startup callback for {csv(broker_ids)}")
        for broker_id in broker_ids:
            context.offline_dir_rows.pop(broker_id, None)
        started = set(broker_ids)
        # The other brokers must know the new ones before LeaderAndIsr makes them follow those.  The
        # new brokers must know all metadata before LeaderAndIsr makes them leaders.
        self._tools.send_update_metadata(
            [b for b in context.live_or_shutting_down_broker_ids if b not in started]
        )
        self._tools.send_update_metadata(
            broker_ids,
            [
                row
                for row in table.all_rows()
                if table.leader_epoch[row] >= 0 and table.topic_of[row] not in table.deleting
            ],
        )
        on_new = {broker_id: table.rows_on_broker(broker_id) for broker_id in broker_ids}
        yield from self._replicas.handle_state_changes(on_new, ReplicaState.ONLINE)
        yield from self._partitions.trigger_online_state_change()
        yield from self._reassignments.resume_for_brokers(broker_ids)
        waiting = [
            (row, broker_id)
            for broker_id, rows in on_new.items()
            for row in rows
            if table.topic_of[row] in table.deleting
        ]
        if waiting:
            replicas = csv(table.replica_text(row, broker_id) for row, broker_id in waiting)
            self._journal.info(
                f"Some replicas {replicas} for topics scheduled for deletion"
                f" {csv(context.topics_to_be_deleted)} are on the newly restarted brokers"
                f" {csv(broker_ids)}. Signaling restart of topic deletion for these topics"
            )
            yield from self._deletion.resume_for(
                dict.fromkeys(table.topic_of[row] for row, _ in waiting)
            )
        yield from self.watch_modifications(broker_ids, "List")

    # ------------------------------------------------------------------ failure

    def on_broker_failure(self, broker_ids: Sequence[int]) -> Procedure[None]:
        context, table = self._context, self._context.table
        self._journal.info(f"Broker failure callback for {csv(broker_ids)}")
        for broker_id in broker_ids:
            context.offline_dir_rows.pop(broker_id, None)
        was_shutting_down = [b for b in broker_ids if b in context.shutting_down]
        context.shutting_down.difference_update(was_shutting_down)
        if was_shutting_down:
            self._journal.info(
                f"Removed {csv(was_shutting_down)} from list of shutting down brokers."
            )
        yield from self.become_offline({b: table.rows_on_broker(b) for b in broker_ids})
        self._journal.debug(
            f"Unregister BrokerModifications handler for {scala_hash_set(broker_ids)}"
            if len(broker_ids) > 4
            else f"Unregister BrokerModifications handler for {scala_set(broker_ids)}"
        )

    def become_offline(self, replicas: Mapping[int, Sequence[int]]) -> Procedure[None]:
        """Handles replicas (broker to rows) that went offline: elects leaders, shrinks ISRs.

        Every partition whose leader is offline is looked at, not only those of these replicas.
        """
        context, table = self._context, self._context.table
        kept: dict[int, list[int]] = {}
        deleting: dict[int, list[int]] = {}
        for broker_id, rows in replicas.items():
            for row in rows:
                target = deleting if table.topic_of[row] in table.deleting else kept
                target.setdefault(broker_id, []).append(row)
        leaderless = context.rows_with_offline_leader()
        yield from self._partitions.handle_state_changes(leaderless, PartitionState.OFFLINE)
        outcome = yield from self._partitions.trigger_online_state_change()
        yield from self._replicas.handle_state_changes(kept, ReplicaState.OFFLINE)
        if deleting:
            yield from self._deletion.fail_replicas(deleting)
        if not kept and not outcome.elected:
            # No LeaderAndIsr was sent, and so no UpdateMetadata with it: brokers still need one.
            self._tools.send_update_metadata()


def broker_text(broker: Broker) -> str:
    """As Kafka logs it: ``1 : (EndPoint(h1,9092,ListenerName(CLIENT),SSL)) : r1 : …``."""
    endpoints = ",".join(map(endpoint_text, broker.endpoints))
    return f"{broker.broker_id} : ({endpoints}) : {broker.rack or 'null'} : Features{{}}"


def endpoint_text(endpoint: Endpoint) -> str:
    """As Kafka logs it: ``EndPoint(h1,9092,ListenerName(CLIENT),SSL)``."""
    return (
        f"EndPoint({endpoint.host},{endpoint.port},ListenerName({endpoint.listener_name}),"
        f"{endpoint.security_protocol})"
    )
