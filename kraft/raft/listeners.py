"""Listeners of the committed log: what each has received and what it gets next.

A listener gets one commit or snapshot at a time and reports when it has processed it.  It is
notified that this node is the leader only after it has processed all records of earlier epochs.

The next delivery is chosen at the end of a step, because a step may move the log's start offset.

Source: Kafka ``KafkaRaftClient.ListenerContext``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kafka_common.observability.prefixed_log import PrefixedLog
from kraft.raft.leader_state import LeaderState
from kraft.raft.outputs import DeliverCommit, DeliverLeader, DeliverSnapshot, RaftOutput
from kraft.raft.quorum import Quorum
from kraft.raft.raft_log import RaftLog
from kraft.raft.states import ResignedState
from kraft.raft.values import LeaderAndEpoch


@dataclass(slots=True)
class _Listener:
    next_offset: int | None = None
    """None before the first delivery, which is the latest snapshot if there is one."""
    is_busy: bool = False
    notified: LeaderAndEpoch = LeaderAndEpoch(None, 0)  # noqa: RUF009 - a value that never changes


class RaftListeners:
    """The listeners of one node, by name."""

    def __init__(
        self,
        quorum: Quorum,
        log: RaftLog,
        emit: Callable[[RaftOutput], None],
        logger: PrefixedLog,
    ) -> None:
        self._quorum = quorum
        self._logger = logger
        self._log = log
        self._emit = emit
        self._listeners: dict[str, _Listener] = {}

    def register(self, name: str) -> None:
        """Adds a listener, or resets the one of that name, so that it reads from the beginning."""
        self._listeners[name] = _Listener()

    def advanced(self, name: str, next_offset: int) -> None:
        """Records that the listener has processed everything below ``next_offset``."""
        listener = self._listeners[name]
        listener.is_busy = False
        listener.next_offset = next_offset

    def inform(self) -> None:
        """Sends every idle listener what it has not received yet."""
        for name, listener in self._listeners.items():
            self._advance(name, listener)
            self._tell_leader(name, listener)

    def _advance(self, name: str, listener: _Listener) -> None:
        high_watermark = self._quorum.high_watermark
        if listener.is_busy or high_watermark is None:
            return
        snapshot_id = self._log.latest_snapshot_id
        at = listener.next_offset
        if snapshot_id is not None and (at is None or at < self._log.start_offset):
            listener.is_busy = True
            self._emit(DeliverSnapshot(name, snapshot_id))
            return
        if at is None:
            self._logger.info(
                "Setting the next offset of %s to 0 since there are no snapshots", name
            )
            listener.next_offset = at = 0
        if at < high_watermark:
            listener.is_busy = True
            self._emit(DeliverCommit(name, at, high_watermark))

    def _tell_leader(self, name: str, listener: _Listener) -> None:
        state = self._quorum.state
        if isinstance(state, ResignedState):
            return
        if isinstance(state, LeaderState) and (
            listener.next_offset is None or listener.next_offset <= state.epoch_start_offset
        ):
            return
        notified = listener.notified
        is_new = state.epoch > notified.epoch or (
            state.epoch == notified.epoch
            and notified.leader_id is None
            and state.leader_id is not None
        )
        if is_new:
            leader = self._quorum.leader_and_epoch
            listener.notified = leader
            self._emit(DeliverLeader(name, leader))
