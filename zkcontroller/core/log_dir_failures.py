"""Log directory failures: asks the broker by LeaderAndIsr which replicas are offline.

The notification names only the broker.  The controller sends it a LeaderAndIsr with all its
replicas; :mod:`.responses` handles the response, in which offline ones have KAFKA_STORAGE_ERROR.

Source: Kafka ``KafkaController.processLogDirEventNotification`` (KIP-112).
"""

from __future__ import annotations

from kafka_common.errors import ZnodeCorrupt
from zkcontroller.core.effects import Procedure
from zkcontroller.core.journal import csv
from zkcontroller.core.replica_states import ReplicaStateMachine
from zkcontroller.core.states import ReplicaState
from zkcontroller.core.tools import ControllerTools
from zkcontroller.zookeeper.requests import Delete
from zkcontroller.zookeeper.znodes import (
    LogDirEventNotificationSequenceZnode,
    LogDirEventNotificationZnode,
)


class LogDirFailures:
    """Follows ``/log_dir_event_notification``."""

    def __init__(self, tools: ControllerTools, replicas: ReplicaStateMachine) -> None:
        self._tools = tools
        self._replicas = replicas

    def follow_notifications(self) -> Procedure[None]:
        """Handles a change of the children of ``/log_dir_event_notification``."""
        names = yield from self._tools.children(LogDirEventNotificationZnode.PATH, watch=True)
        paths = [LogDirEventNotificationSequenceZnode.path(name) for name in names]
        brokers: dict[int, None] = {}
        for path, znode in zip(paths, (yield from self._tools.read(paths)), strict=True):
            if znode is None:
                continue
            try:
                failure = LogDirEventNotificationSequenceZnode.decode(path, znode.data)
            except ZnodeCorrupt as corrupt:
                self._tools.journal.error(str(corrupt))
                continue
            brokers[failure.broker_id] = None
        # As in Kafka, the line is also logged without a broker, when the deletion of notifications
        # has fired the watch.
        self._tools.journal.info(f"Handling log directory failure for brokers {csv(brokers)}")
        table = self._tools.context.table
        rows = {broker: table.rows_on_broker(broker) for broker in brokers}
        # A replica that a reassignment added may lead already although its state is still New: a
        # LeaderAndIsr is sent for it, too.  Kafka sends none.
        added = {
            broker: [row for row in some if table.replica_state(row, broker) is ReplicaState.NEW]
            for broker, some in rows.items()
        }
        yield from self._replicas.handle_state_changes(rows, ReplicaState.ONLINE)
        yield from self._replicas.handle_state_changes(added, ReplicaState.ONLINE)
        yield from self._tools.write([Delete(path) for path in paths])
