"""ISR changes below 2.7-IV2: the leader writes the ISR to ZooKeeper itself.

The write is conditional on the znode version that the leader knows, so it fails if the controller
has changed the znode meanwhile.  After successful writes the leader creates a znode under
``/isr_change_notification``, so that the controller reads the new ISRs.  One such notification,
created after a delay, lists many changes.

Source: Kafka ``ZkAlterPartitionManager``, ``ReplicationUtils``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final

from kio.schema.errors import ErrorCode

from kafka_common.errors import ZkControllerError, ZnodeCorrupt
from kafka_common.model import TopicPartition
from replica_manager.replication.alter_partition_manager import AlterPartitionResults
from replica_manager.replication.isr import AlteredIsr
from replica_manager.replication.isr_proposals import AlterPartitionCall
from zkcontroller.zookeeper.requests import (
    Create,
    ReadZnodes,
    SetData,
    UnfencedBatch,
    Written,
    ZkCode,
)
from zkcontroller.zookeeper.session import ZooKeeperSession
from zkcontroller.zookeeper.znodes import IsrChangeNotificationSequenceZnode, PartitionStateZnode

CHECK_INTERVAL_MS: Final = 2_500
LINGER_MS: Final = 5_000
"""A notification is written once no ISR has changed for longer than this."""
MAX_DELAY_MS: Final = 60_000
"""A notification is also written if the one before is older than this."""

_log = logging.getLogger("kafka.server.ZkAlterPartitionManager")


class IsrZnodes:
    """Writes ISRs to ZooKeeper.  Used on the event loop; ZooKeeper is called in an executor."""

    def __init__(
        self,
        session: ZooKeeperSession,
        executor: Executor,
        broker_id: int,
        controller_epoch: Callable[[TopicPartition], int | None],
        now_ms: Callable[[], int],
    ) -> None:
        """``controller_epoch`` returns the epoch of the controller that elected this leader.

        It returns None if this broker no longer has the partition.
        """
        self._session = session
        self._executor = executor
        self._broker_id = broker_id
        self._controller_epoch = controller_epoch
        self._now_ms = now_ms
        self._changed: dict[TopicPartition, None] = {}
        self._changed_ms = self._notified_ms = now_ms()
        self._task: asyncio.Task[None] | None = None

    async def propose(self, call: AlterPartitionCall) -> AlterPartitionResults | None:
        """The result of each write; None if ZooKeeper is unavailable or every write failed."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(
                self._tell_now_and_then(), name="isr-change-propagation"
            )
        results: dict[TopicPartition, AlteredIsr | ErrorCode] = {}
        states: dict[TopicPartition, tuple[PartitionStateZnode, int]] = {}
        for tp, proposed in call.partitions.items():
            controller_epoch = self._controller_epoch(tp)
            if controller_epoch is None:
                results[tp] = ErrorCode.unknown_topic_or_partition
                continue
            leader_epoch, new_isr, partition_epoch, recovery = proposed.pending.proposal
            state = PartitionStateZnode(
                self._broker_id, leader_epoch, new_isr, controller_epoch, recovery
            )
            states[tp] = (state, partition_epoch)
        try:
            written = await asyncio.get_running_loop().run_in_executor(
                self._executor, _write, self._session, states
            )
        except ZkControllerError as failure:
            _log.warning("Error while updating ISRs in ZooKeeper: %s", failure)
            return None
        if not written and states:
            return None
        for tp, zk_version in written.items():
            if zk_version is None:
                results[tp] = ErrorCode.invalid_update_version
                continue
            state, _ = states[tp]
            results[tp] = AlteredIsr(state.leader_epoch, state.in_sync_replicas, zk_version)
            self._changed[tp] = None
            self._changed_ms = self._now_ms()
        return results

    async def close(self) -> None:
        """Stops the task that writes notifications."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _tell_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(CHECK_INTERVAL_MS / 1000)
            if self._changed and self._is_time():
                try:
                    await self._notify()
                except Exception:  # noqa: BLE001 - the next changes must be propagated
                    _log.exception("Error while propagating ISR changes")

    def _is_time(self) -> bool:
        now_ms = self._now_ms()
        return self._changed_ms + LINGER_MS < now_ms or self._notified_ms + MAX_DELAY_MS < now_ms

    async def _notify(self) -> None:
        partitions = tuple(self._changed)
        data = IsrChangeNotificationSequenceZnode(partitions).encode()
        note = Create(IsrChangeNotificationSequenceZnode.CREATE_PATH, data, sequential=True)
        try:
            result = await asyncio.get_running_loop().run_in_executor(
                self._executor, self._session.write, note
            )
        except ZkControllerError as failure:
            _log.warning("Error while propagating ISR changes: %s", failure)
            return
        if isinstance(result, ZkCode):
            _log.warning("Error while propagating ISR changes: %s", result.name)
            return
        for tp in partitions:
            self._changed.pop(tp, None)
        self._notified_ms = self._now_ms()


def _write(
    session: ZooKeeperSession, states: dict[TopicPartition, tuple[PartitionStateZnode, int]]
) -> dict[TopicPartition, int | None]:
    """The new version of each znode; None if the znode had another version or is absent.

    A partition whose write failed for another reason is left out: it is proposed again.
    """
    paths = {tp: PartitionStateZnode.path(*tp) for tp in states}
    results = session.perform(
        UnfencedBatch(
            [SetData(paths[tp], state.encode(), version) for tp, (state, version) in states.items()]
        )
    )
    versions: dict[TopicPartition, int | None] = {}
    for tp, result in zip(states, results, strict=True):
        if isinstance(result, Written):
            versions[tp] = result.zk_version
        elif result in (ZkCode.BAD_VERSION, ZkCode.NO_NODE):
            versions[tp] = None
        else:
            _log.warning("Error while updating the ISR of %s in ZooKeeper: %s", tp, result.name)
    # If ZooKeeper's response was lost, the write was sent again and failed with BAD_VERSION,
    # although the first one succeeded.  So read the znode.
    doubtful = [
        tp for tp, result in zip(states, results, strict=True) if result is ZkCode.BAD_VERSION
    ]
    found = session.perform(ReadZnodes([paths[tp] for tp in doubtful])) if doubtful else []
    for tp, znode in zip(doubtful, found, strict=True):
        if isinstance(znode, ZkCode):
            if znode is not ZkCode.NO_NODE:
                del versions[tp]  # unknown whether the write succeeded: propose again
        elif _is_same(paths[tp], znode.data, states[tp][0]):
            versions[tp] = znode.zk_version
    return versions


def _is_same(path: str, data: bytes, state: PartitionStateZnode) -> bool:
    try:
        return PartitionStateZnode.decode(path, data) == state
    except ZnodeCorrupt:
        return False
