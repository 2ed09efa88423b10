"""``/admin/reassign_partitions``: reads the list and removes finished or refused entries.

Source: Kafka ``KafkaController.maybeRemoveFromZkReassignment``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from kafka_common.errors import ZnodeCorrupt, ZooKeeperRefused
from kafka_common.model import TopicPartition
from zkcontroller.core.effects import Procedure, Put
from zkcontroller.core.events import ZkPartitionReassignment
from zkcontroller.core.journal import scala_seq, scala_small_map
from zkcontroller.core.tools import ControllerTools
from zkcontroller.zookeeper.requests import Create, SetData, ZkCode
from zkcontroller.zookeeper.znodes import ReassignPartitionsZnode

_IsDone: TypeAlias = Callable[[TopicPartition, tuple[int, ...]], bool]


class ReassignmentZnode:
    """Reads and shortens the list in the znode."""

    def __init__(self, tools: ControllerTools) -> None:
        self._tools = tools
        self._journal = tools.journal

    def is_there(self) -> Procedure[bool]:
        """Whether the znode exists; leaves a watch for the next one."""
        (is_there,) = yield from self._tools.exists([ReassignPartitionsZnode.PATH], watch=True)
        return is_there

    def read(self) -> Procedure[dict[TopicPartition, tuple[int, ...]]]:
        """Each partition listed with its target; nothing if the znode is missing or corrupt."""
        znode = yield from self._tools.read_one(ReassignPartitionsZnode.PATH)
        if znode is None:
            return {}
        try:
            return dict(ReassignPartitionsZnode.decode(znode.data).partitions)
        except ZnodeCorrupt as corrupt:
            self._journal.warn(f"{corrupt}; it names no reassignment")
            return {}

    def remove_topics(self, topics: Iterable[str]) -> Procedure[None]:
        """Removes the entries of these topics, which are queued for deletion.

        While an entry of a deleted topic remains, no later reassignment can be written here, and
        the next controller would apply it to a new topic of that name.  In Kafka the deletion waits
        for the reassignment.
        """
        table = self._tools.context.table
        moving = {
            topic
            for topic in topics
            if any(row in table.reassigning for row in table.rows_of(topic))
        }
        if moving:
            yield from self.remove(lambda partition, _: partition.topic in moving)

    def remove(self, is_done: _IsDone) -> Procedure[None]:
        """Removes partitions from the list, if it exists; deletes the znode with the last one."""
        if not (yield from self.is_there()):
            return
        listed = yield from self.read()
        removed = {p: replicas for p, replicas in listed.items() if is_done(p, replicas)}
        left = {p: replicas for p, replicas in listed.items() if p not in removed}
        removed_text = scala_small_map((p, scala_seq("Buffer", r)) for p, r in removed.items())
        self._journal.info(
            f"Removing partitions {removed_text} from the list of reassigned partitions in"
            " zookeeper"
        )
        if not left:
            self._journal.info(
                "No more partitions need to be reassigned. Deleting zk path"
                f" {ReassignPartitionsZnode.PATH}"
            )
            yield from self._tools.delete([ReassignPartitionsZnode.PATH])
            # The event sets the watch for the next znode, and handles one created meanwhile.
            self._tools.outbox.append(Put(ZkPartitionReassignment()))
            return
        if not removed:
            return
        data = ReassignPartitionsZnode(left).encode()
        (result,) = yield from self._tools.write([SetData(ReassignPartitionsZnode.PATH, data)])
        if result is ZkCode.NO_NODE:
            (result,) = yield from self._tools.write([Create(ReassignPartitionsZnode.PATH, data)])
        if isinstance(result, ZkCode):
            raise ZooKeeperRefused(ReassignPartitionsZnode.PATH, result.name)
