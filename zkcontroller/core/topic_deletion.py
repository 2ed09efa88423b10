"""Topic deletion: stops and deletes all replicas, then deletes the topic's znodes.

A topic is *queued* when its znode appears under ``/admin/delete_topics``.  Deletion starts once
no replica of it is offline.  Each replica is stopped, then deleted; when all brokers have answered,
the topic's znodes are deleted.  A topic with a dead replica (or a failed deletion) is *ineligible*:
it waits until the broker is back, and is then tried again.

Source: Kafka ``TopicDeletionManager``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kafka_common.errors import ZooKeeperRefused
from kafka_common.topic_names import invalid_name_reason
from zkcontroller.core.effects import Procedure
from zkcontroller.core.events import TopicDeletionStopReplicaResponseReceived
from zkcontroller.core.journal import TOPIC_DELETION_MANAGER, csv, scala_hash_set, scala_set
from zkcontroller.core.partition_states import PartitionStateMachine
from zkcontroller.core.partition_table import NO_ROW
from zkcontroller.core.reassignment_znode import ReassignmentZnode
from zkcontroller.core.replica_states import ReplicaStateMachine
from zkcontroller.core.states import PartitionState, ReplicaState
from zkcontroller.core.tools import ControllerTools
from zkcontroller.zookeeper.requests import Delete, ZkCode
from zkcontroller.zookeeper.znodes import (
    ConfigZnode,
    DeleteTopicsZnode,
    DeleteTopicZnode,
    TopicZnode,
)


class TopicDeletionManager:
    """Deletes the queued topics, step by step."""

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
        self._replicas = replicas
        self._orders = ReassignmentZnode(tools)

    # ------------------------------------------------------------------ events

    def initialize(self, queued: Sequence[str], ineligible: Sequence[str]) -> Procedure[None]:
        """At failover, queues the topics under ``/admin/delete_topics`` for deletion.

        The topics in ``ineligible`` cannot be deleted now.
        """
        self._info(
            f"Initializing manager with initial deletions: {scala_set(queued)},"
            f" initial ineligible deletions: {scala_hash_set(ineligible)}"
        )
        invalid = {name: reason for name in queued if (reason := invalid_name_reason(name))}
        for reason in invalid.values():
            self._journal.error(f"Ignoring a child of {DeleteTopicsZnode.PATH}: {reason}")
        yield from self._remove_requests(list(invalid))
        unread = self._partitions.refused.topics  # the request waits until the topic can be read
        queued = [name for name in queued if name not in invalid and name not in unread]
        if self._tools.config.delete_topic_enable:
            self._context.queue_for_deletion(queued)
            held = self._context.topics_to_be_deleted
            self._context.topics_ineligible_for_deletion.update(t for t in ineligible if t in held)
        else:
            self._info(f"Removing {scala_set(queued)} since delete topic is disabled")
            yield from self._remove_requests(queued)

    def process_requests(self) -> Procedure[None]:
        """Handles a change of the children of ``/admin/delete_topics``."""
        asked = yield from self._tools.children(DeleteTopicsZnode.PATH, watch=True)
        self._journal.debug(f"Delete topics listener fired for topics {csv(asked)} to be deleted")
        known = self._context.table.topics
        unread = self._partitions.refused.topics
        unknown = [topic for topic in asked if topic not in known and topic not in unread]
        if unknown:
            self._journal.warn(f"Ignoring request to delete non-existing topics {csv(unknown)}")
            yield from self._remove_requests(unknown)
        topics = [topic for topic in asked if topic in known]
        if not topics:
            return
        if not self._tools.config.delete_topic_enable:
            self._journal.info(f"Removing {scala_set(topics)} since delete topic is disabled")
            yield from self._remove_requests(topics)
            return
        self._journal.info(f"Starting topic deletion for topics {csv(topics)}")
        self._context.queue_for_deletion(topics)
        yield from self._orders.remove_topics(topics)
        # A topic under reassignment is deleted from its old and its new replicas.  Kafka intends to
        # let it wait, but marks it ineligible before it queues it, which has no effect.
        yield from self.resume()

    def _remove_requests(self, topics: Sequence[str]) -> Procedure[None]:
        results = yield from self._tools.write([Delete(DeleteTopicZnode.path(t)) for t in topics])
        for topic, result in zip(topics, results, strict=True):
            if isinstance(result, ZkCode) and result is not ZkCode.NO_NODE:
                path = DeleteTopicZnode.path(topic)
                self._journal.error(f"Cannot delete {path}: {result.name}")
                self._partitions.refused.topics[topic] = None

    def process_response(self, event: TopicDeletionStopReplicaResponseReceived) -> Procedure[None]:
        """Handles a broker's response to a StopReplica that deletes partitions.

        A broker of Kafka that refuses the whole request, for its broker epoch or for the
        controller's, names no partition: that is no failure, and there is no event.
        """
        table = self._context.table
        failed: list[int] = []
        deleted: list[int] = []
        for topic, partition, error in event.partition_errors:
            row = table.row(topic, partition)
            if row == NO_ROW or topic not in self._context.topics_with_deletion_started:
                continue
            (failed if event.request_error or error else deleted).append(row)
        yield from self._fail(event.broker_id, failed)
        if deleted:
            yield from self._replicas.handle_state_changes(
                {event.broker_id: deleted}, ReplicaState.DELETION_SUCCESSFUL
            )
            yield from self.resume()

    def fail_replicas(self, replicas: Mapping[int, Sequence[int]]) -> Procedure[None]:
        """Handles replicas (broker to rows) of queued topics that went offline: the topics wait."""
        for broker_id, rows in replicas.items():
            yield from self._fail(broker_id, rows)

    def _fail(self, broker_id: int, rows: Sequence[int]) -> Procedure[None]:
        failed = [row for row in rows if self._context.is_queued_for_deletion(row)]
        if not failed:
            return
        table = self._context.table
        topics = list(dict.fromkeys(table.topic_of[row] for row in failed))
        self._journal.debug(
            f"Deletion failed for replicas {csv(table.text(row) for row in failed)} on broker"
            f" {broker_id}. Halting deletion for topics {scala_set(topics)}",
            TOPIC_DELETION_MANAGER,
        )
        yield from self._replicas.handle_state_changes(
            {broker_id: failed}, ReplicaState.DELETION_INELIGIBLE
        )
        self.mark_ineligible(topics, "replica deletion failure")
        yield from self.resume()

    def resume_for(self, topics: Iterable[str]) -> Procedure[None]:
        """Resumes the deletion of these topics, for which a broker returned."""
        queued = [topic for topic in topics if topic in self._context.topics_to_be_deleted]
        if queued:
            self._context.topics_ineligible_for_deletion.difference_update(queued)
            yield from self.resume()

    def mark_ineligible(self, topics: Iterable[str], reason: str) -> None:
        """Marks the queued topics among these as ineligible."""
        if not self._tools.config.delete_topic_enable:
            return
        halted = [topic for topic in topics if topic in self._context.topics_to_be_deleted]
        self._context.topics_ineligible_for_deletion.update(halted)
        if halted:
            self._info(f"Halted deletion of topics {csv(halted)} due to {reason}")

    # ------------------------------------------------------------------ the work

    def resume(self) -> Procedure[None]:
        """Completes, starts or retries the deletion of every queued topic."""
        table, context = self._context.table, self._context
        queued = sorted(context.topics_to_be_deleted)
        if queued:
            self._info(f"Handling deletion for topics {csv(queued)}")
        to_retry: list[str] = []
        to_start: list[str] = []
        for topic in queued:
            if table.are_all_replicas_in(topic, ReplicaState.DELETION_SUCCESSFUL):
                try:
                    yield from self._complete(topic)
                except ZooKeeperRefused as refused:
                    # The znode with the request stays, so each later call of resume() tries again.
                    self._partitions.refused.topics[topic] = None
                    self._journal.error(f"Deletion of topic {topic} failed: {refused}")
                else:
                    self._info(f"Deletion of topic {topic} successfully completed")
                continue
            is_started = table.is_any_replica_in(topic, ReplicaState.DELETION_STARTED)
            if not is_started and table.is_any_replica_in(topic, ReplicaState.DELETION_INELIGIBLE):
                to_retry.append(topic)
            if not is_started and topic not in context.topics_ineligible_for_deletion:
                self._info(f"Deletion of topic {topic} (re)started")
                to_start.append(topic)
        if to_retry:
            yield from self._replicas.handle_state_changes(
                table.replicas_in(to_retry, ReplicaState.DELETION_INELIGIBLE), ReplicaState.OFFLINE
            )
        if to_start:
            yield from self._start(to_start)

    def _start(self, topics: Sequence[str]) -> Procedure[None]:
        context, table = self._context, self._context.table
        fresh = [topic for topic in topics if topic not in context.topics_with_deletion_started]
        rows = [row for topic in fresh for row in table.rows_of(topic)]
        # Offline and NonExistent *before* the deletion counts as started: the gauge of offline
        # partitions rises and falls again, and ignores the topic from then on.
        yield from self._partitions.handle_state_changes(rows, PartitionState.OFFLINE)
        yield from self._partitions.handle_state_changes(rows, PartitionState.NON_EXISTENT)
        context.topics_with_deletion_started.update(fresh)
        self._tools.send_update_metadata(
            None, [row for topic in topics for row in table.rows_of(topic)]
        )
        yield from self._start_replicas(topics)

    def _start_replicas(self, topics: Sequence[str]) -> Procedure[None]:
        context, table = self._context, self._context.table
        dead: dict[int, list[int]] = {}
        alive: dict[int, list[int]] = {}
        halted: dict[str, None] = {}
        for topic in topics:
            for row in table.rows_of(topic):
                for broker in table.replicas[row]:
                    if not context.is_replica_online(broker, row):
                        dead.setdefault(broker, []).append(row)
                        halted[topic] = None
                    elif table.replica_state(row, broker) is not ReplicaState.DELETION_SUCCESSFUL:
                        alive.setdefault(broker, []).append(row)
        yield from self._replicas.handle_state_changes(dead, ReplicaState.DELETION_INELIGIBLE)
        yield from self._replicas.handle_state_changes(alive, ReplicaState.OFFLINE)
        yield from self._replicas.handle_state_changes(alive, ReplicaState.DELETION_STARTED)
        if halted:
            self.mark_ineligible(list(halted), "offline replicas")

    def _complete(self, topic: str) -> Procedure[None]:
        """The last step: deletes the topic's znodes and removes the topic from memory.

        Raises ZooKeeperRefused for a znode that stays.  The configuration is deleted first: once
        the topic's znode is gone, a new topic of that name may be created, which would inherit the
        configuration.  The request under ``/admin/delete_topics`` is deleted last, so that it is
        still there after a failure.  Kafka deletes the topic's own znodes first, and checks only
        whether these were deleted.
        """
        yield from self._tools.delete([ConfigZnode.topic_path(topic)])
        yield from self._tools.delete_recursively(TopicZnode.path(topic))
        yield from self._tools.delete([DeleteTopicZnode.path(topic)])
        # Only after the znodes are deleted: this removes the replicas from the assignment.  If the
        # topic stayed, its znode could be written again, without replicas.
        successful = ReplicaState.DELETION_SUCCESSFUL
        yield from self._replicas.handle_state_changes(
            self._context.table.replicas_in([topic], successful), ReplicaState.NON_EXISTENT
        )
        self._context.remove_topic(topic)

    def _info(self, message: str) -> None:
        self._journal.info(message, TOPIC_DELETION_MANAGER)
