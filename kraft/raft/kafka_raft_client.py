"""A node of the raft quorum: inputs go in, outputs come out.

What the caller must do:

1. call :meth:`KafkaRaftClient.start` once, then :meth:`KafkaRaftClient.step` with every input
   and the time: with :class:`~.inputs.RaftTick` when :attr:`KafkaRaftClient.deadline_ms` has come,
   and with :class:`~.inputs.ElectionPersisted` after each :class:`~.outputs.PersistElection`;
2. perform the outputs strictly in order, and finish each before the next (:mod:`.outputs`);
3. pass times that never go back.

If the caller stops performing outputs, the other nodes see a node that has crashed, which a quorum
survives.

Source: Kafka ``KafkaRaftClient.poll``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, assert_never

from kafka_common.errors import NotLeader, RaftFatal, ZkControllerError
from kraft.raft.config import CLEANER_PERIOD_MS, NEVER_MS, QuorumConfig
from kraft.raft.guards import require
from kraft.raft.inbound import InboundRequests
from kraft.raft.inputs import (
    ElectionPersisted,
    ListenerAdvanced,
    RaftInput,
    RaftRequestFailed,
    RaftRequestReceived,
    RaftResponseReceived,
    RaftShutdown,
    RaftTick,
    Resign,
)
from kraft.raft.leader_state import LeaderState
from kraft.raft.log_lines import voters_text
from kraft.raft.messages import Endpoints
from kraft.raft.node import Node
from kraft.raft.outputs import FlushLog, RaftOutput, ShutdownDone
from kraft.raft.polling import Polling
from kraft.raft.raft_log import RaftLog
from kraft.raft.request_manager import RandomSource
from kraft.raft.responses import RaftResponses
from kraft.raft.states import StateName
from kraft.raft.static_voters import refuse_voter_records
from kraft.raft.values import (
    ElectionState,
    LeaderAndEpoch,
    NodeAddress,
    ReplicaKey,
    VoterSet,
)

_MAX_POLLS_PER_STEP: Final = 100
"""The most changes of state within one step: after each change the node is polled again."""


class KafkaRaftClient:
    """One node of the quorum: a voter, or an observer."""

    def __init__(
        self,
        *,
        local: ReplicaKey | None,
        cluster_id: str,
        voters: VoterSet,
        log: RaftLog,
        config: QuorumConfig,
        random: RandomSource,
        listener_name: str,
        local_endpoints: Endpoints,
        bootstrap_servers: Sequence[NodeAddress] = (),
    ) -> None:
        self._node = Node(
            local=local,
            cluster_id=cluster_id,
            voters=voters,
            log=log,
            config=config,
            random=random,
            listener_name=listener_name,
            local_endpoints=local_endpoints,
            bootstrap_servers=bootstrap_servers,
        )
        self._inbound = InboundRequests(self._node)
        self._responses = RaftResponses(self._node)
        self._polling = Polling(self._node, self._inbound)
        self._deadline_ms = NEVER_MS
        self._clean_at_ms = NEVER_MS
        self._has_left = False
        self._shutdown_timeout_ms = 0

    # State.

    @property
    def deadline_ms(self) -> int | None:
        """The time of the next :class:`~.inputs.RaftTick`; None if none is needed."""
        return None if self._has_left or self._deadline_ms == NEVER_MS else self._deadline_ms

    @property
    def state_name(self) -> StateName:
        """The node's state."""
        return self._node.quorum.state.name

    @property
    def epoch(self) -> int:
        """The highest epoch that the node knows."""
        return self._node.quorum.epoch

    @property
    def leader_and_epoch(self) -> LeaderAndEpoch:
        """The node's epoch and the leader that it knows, None if unknown."""
        return self._node.quorum.leader_and_epoch

    @property
    def is_leader(self) -> bool:
        """Whether the node is the leader."""
        return isinstance(self._node.quorum.state, LeaderState)

    @property
    def high_watermark(self) -> int | None:
        """The offset below which everything is committed; None while unknown."""
        return self._node.quorum.high_watermark

    @property
    def election(self) -> ElectionState:
        """The leader of the node's epoch, or the candidate that it voted for, or neither."""
        return self._node.quorum.state.election

    @property
    def local(self) -> ReplicaKey | None:
        """The node's id and directory; None for an observer without an id."""
        return self._node.local

    @property
    def log(self) -> RaftLog:
        """The node's log."""
        return self._node.log

    @property
    def voters(self) -> VoterSet:
        """The voters of the quorum."""
        return self._node.voters

    @property
    def next_append_offset(self) -> int:
        """The offset of the next record; at a leader, after the records that wait to be written."""
        state = self._node.quorum.state
        if isinstance(state, LeaderState):
            return state.accumulator.next_offset
        return self._node.log.end_offset

    # Inputs.

    def start(self, stored: ElectionState | None, now_ms: int) -> list[RaftOutput]:
        """Starts with the stored election, None if the node never ran.

        RaftFatal if a record in the log names voters: this node must not take part then.
        """
        node = self._node
        node.logger.info("Reading KRaft snapshot and log as part of the initialization")
        refuse_voter_records(node.log)
        node.logger.info("Starting voters are %s", voters_text(node.voters, node.listener_name))
        node.log_request_manager()
        self._node.quorum.initialize(stored, self._node.log_end, now_ms)
        if self._node.quorum.is_voter:
            # Records of an earlier run may be only in the page cache, and the first Fetch
            # acknowledges them.
            self._node.emit(FlushLog(self._node.log.end_offset))
        self._node.start_epoch(now_ms)
        self._clean_at_ms = now_ms + CLEANER_PERIOD_MS
        return self._poll(now_ms)

    def register(self, listener: str, now_ms: int) -> list[RaftOutput]:
        """Registers a listener that reads from the beginning; a known one begins again."""
        self._node.listeners.register(listener)
        self._node.logger.info("Registered the listener %s", listener)
        return self._poll(now_ms)

    def step(self, happened: RaftInput, now_ms: int) -> list[RaftOutput]:
        """Processes one input; returns the outputs in the order in which to perform them.

        RaftFatal if an input contradicts what this node knows: the process must end.
        """
        if self._has_left:
            return []
        match happened:
            case RaftTick():
                pass
            case ElectionPersisted(election):
                self._node.election_persisted(election, now_ms)
            case RaftRequestReceived():
                self._inbound.handle(happened, now_ms)
            case RaftResponseReceived():
                self._responses.handle(happened, now_ms)
            case RaftRequestFailed():
                self._responses.handle_failure(happened, now_ms)
            case ListenerAdvanced(listener, next_offset):
                self._node.listeners.advanced(listener, next_offset)
            case Resign(epoch):
                self._resign(epoch)
            case RaftShutdown(timeout_ms):
                self._node.logger.info("Beginning graceful shutdown")
                self._node.shutdown_deadline_ms = now_ms + timeout_ms
                self._shutdown_timeout_ms = timeout_ms
            case _:
                assert_never(happened)
        return self._poll(now_ms)

    def prepare_append(self, epoch: int, values: Sequence[bytes], now_ms: int) -> int:
        """Adds encoded records as one batch; returns the offset of the last one.

        Nothing is written before :meth:`schedule_prepared_append`.  NotLeader if this node no
        longer leads ``epoch``, RecordListTooLarge for more than a batch holds, BufferAllocation
        while too many batches wait.
        """
        state = self._node.quorum.state
        if not isinstance(state, LeaderState):
            raise NotLeader("Append failed because the replica is not the current leader")
        return state.accumulator.prepare(epoch, values, now_ms)

    def schedule_prepared_append(self) -> None:
        """Allows prepared records to be written; a tick writes them after the linger time."""
        state = self._node.quorum.state
        if isinstance(state, LeaderState):
            state.accumulator.allow_drain()
            self._deadline_ms = min(self._deadline_ms, state.accumulator.deadline_ms())

    def _resign(self, epoch: int) -> None:
        state = self._node.quorum.state
        require(epoch <= state.epoch, f"a resignation from epoch {epoch}, which has not begun")
        if isinstance(state, LeaderState) and state.epoch == epoch:
            self._node.logger.info(
                "Received user request to resign from the current epoch %d", epoch
            )
            state.is_resign_requested = True

    # Timed work.

    def _poll(self, now_ms: int) -> list[RaftOutput]:
        node = self._node
        if not self._leave(now_ms):
            self._expire_parked(now_ms)
            self._deadline_ms = self._poll_state(now_ms)
            self._leave(now_ms)
        if not self._has_left:
            self._clean(now_ms)
            if node.shutdown_deadline_ms is not None:
                self._deadline_ms = min(self._deadline_ms, node.shutdown_deadline_ms)
        node.listeners.inform()
        outputs, node.outputs = node.outputs, []
        return outputs

    def _poll_state(self, now_ms: int) -> int:
        for _ in range(_MAX_POLLS_PER_STEP):
            deadline_ms = self._polling.poll(now_ms)
            if deadline_ms > now_ms:
                return deadline_ms
        raise RaftFatal(f"Polling does not end in state {self.state_name} of epoch {self.epoch}")

    def _leave(self, now_ms: int) -> bool:
        """Ends a shutdown that need not wait any longer; True once the node has left.

        A voter that is not the only one waits until another node leads, or for the timeout.
        """
        node, quorum = self._node, self._node.quorum
        if node.shutdown_deadline_ms is None or self._has_left:
            return self._has_left
        can_go = not quorum.is_voter or quorum.is_only_voter or quorum.has_remote_leader
        if can_go or now_ms >= node.shutdown_deadline_ms:
            self._has_left = True
            if can_go:
                node.logger.info("Graceful shutdown completed")
            else:
                node.logger.warning(
                    "Graceful shutdown timed out after %dms", self._shutdown_timeout_ms
                )
            node.emit(ShutdownDone(is_graceful=can_go))
        return self._has_left

    def _expire_parked(self, now_ms: int) -> None:
        """Responds to Fetches whose wait is over, without records."""
        node, state = self._node, self._node.quorum.state
        waiting = []
        for fetch in node.parked:
            if now_ms < fetch.deadline_ms:
                waiting.append(fetch)
                continue
            if not isinstance(state, LeaderState):
                raise RaftFatal("a Fetch waits at a node that does not lead")
            node.respond(fetch.request_id, self._inbound.nothing_new(state, fetch.listener_name))
        node.parked = waiting

    def _clean(self, now_ms: int) -> None:
        if now_ms >= self._clean_at_ms:
            self._clean_at_ms = now_ms + CLEANER_PERIOD_MS
            try:
                self._node.log.clean(now_ms)
            except (OSError, ZkControllerError):
                # Records and snapshots that are kept too long do no harm.
                self._node.logger.exception("Had an error during log cleaning")
        self._deadline_ms = min(self._deadline_ms, self._clean_at_ms)
