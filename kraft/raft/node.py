"""What all parts of a raft node share: log, quorum state, requests and outputs.

:mod:`.inbound` handles requests, :mod:`.responses` handles responses, :mod:`.polling` does timed
work.  Each changes the node by the methods here, and
:class:`~.kafka_raft_client.KafkaRaftClient` calls them in turn.

Source: Kafka ``KafkaRaftClient``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kio.schema.errors import ErrorCode

from kafka_common.errors import RaftFatal
from kafka_common.model import address_text
from kafka_common.observability.java_values import java_list, node
from kraft.raft.config import QuorumConfig
from kraft.raft.control_records import LeaderChange, encode_control_record
from kraft.raft.leader_state import LeaderState, VoterOrObserver
from kraft.raft.listeners import RaftListeners
from kraft.raft.log_lines import (
    offset_text,
    optional_offset,
    raft_logger,
    replica_state_text,
)
from kraft.raft.messages import (
    AnyRaftResponse,
    Endpoints,
    FetchRequest,
    FetchResponse,
    RaftRequest,
)
from kraft.raft.outputs import PersistElection, RaftOutput, SendRequest, SendResponse
from kraft.raft.quorum import Quorum
from kraft.raft.raft_log import RaftLog
from kraft.raft.request_manager import RandomSource, RequestManager
from kraft.raft.states import CandidateState, FollowerState
from kraft.raft.values import (
    NO_ID,
    ElectionState,
    NodeAddress,
    OffsetAndEpoch,
    ReplicaKey,
    VoterSet,
)

FIRST_BOOTSTRAP_ID: Final = -2
"""The id of the first bootstrap server; further ones count down, as their node ids are unknown."""


@dataclass(frozen=True, slots=True)
class ParkedFetch:
    """A Fetch that waits at the leader for records."""

    request_id: int
    request: FetchRequest
    listener_name: str
    deadline_ms: int


class Node:
    """One node's quorum state, its log, and the ``outputs`` of the current step."""

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
        self.local = local
        self.cluster_id = cluster_id
        self.voters = voters
        self.log = log
        self.config = config
        self.random = random
        self.listener_name = listener_name
        self.logger = raft_logger("KafkaRaftClient", local)
        self.leader_logger = raft_logger("LeaderState", local)
        self._follower_logger = raft_logger("FollowerState", local)
        self._committed_epoch: int | None = None
        """The last epoch in which this node knew a high watermark as the leader."""
        self.outputs: list[RaftOutput] = []
        self.parked: list[ParkedFetch] = []
        self.shutdown_deadline_ms: int | None = None
        self.quorum = Quorum(
            local=local,
            voters=voters,
            config=config,
            random=random,
            local_endpoints=local_endpoints,
            voter_endpoints=self.voter_endpoints,
            persist=lambda election: self.emit(PersistElection(election)),
        )
        self.listeners = RaftListeners(self.quorum, log, self.emit, self.logger)
        self.requests = RequestManager(
            self._bootstrap(bootstrap_servers),
            config.request_timeout_ms,
            config.retry_backoff_ms,
            random,
        )
        self._correlation_id = 0

    def _bootstrap(self, servers: Sequence[NodeAddress]) -> Mapping[int, NodeAddress]:
        """The nodes to ask for the leader: the bootstrap servers, else the other voters."""
        if servers:
            return {FIRST_BOOTSTRAP_ID - at: server for at, server in enumerate(servers)}
        local_id = None if self.local is None else self.local.id
        return {voter: self.voters.endpoints[voter] for voter in self.voters.others(local_id)}

    def log_request_manager(self) -> None:
        """Logs which nodes are asked for the leader at first."""
        if any(each < 0 for each in self.requests.bootstrap_servers):
            kind, nodes = "bootstrap servers", dict(self.requests.bootstrap_servers)
        else:
            kind, nodes = "static voters", dict(self.voters.endpoints)
        listed = (node(each, address_text(*address), None) for each, address in nodes.items())
        self.logger.info("Starting request manager with %s: %s", kind, java_list(listed))

    def voter_endpoints(self, voter_id: int) -> Endpoints:
        """The endpoints of a voter; empty for a node that is no voter."""
        endpoint = self.voters.endpoints.get(voter_id)
        return {} if endpoint is None else {self.listener_name: endpoint}

    @property
    def log_end(self) -> OffsetAndEpoch:
        """End offset and last epoch of the log."""
        return OffsetAndEpoch(self.log.end_offset, self.log.last_epoch)

    @property
    def is_shutting_down(self) -> bool:
        """Whether a graceful shutdown has begun."""
        return self.shutdown_deadline_ms is not None

    # Outputs.

    def emit(self, output: RaftOutput) -> None:
        """Appends an output; it is performed after all earlier ones."""
        last = self.outputs[-1] if self.outputs else None
        if isinstance(output, PersistElection) and isinstance(last, PersistElection):
            # Drop the election just before: no output in between depends on its being on disk.
            self.outputs.pop()
        self.outputs.append(output)

    def respond(self, request_id: int, response: AnyRaftResponse) -> None:
        """Sends the response to a request."""
        self.emit(SendResponse(request_id, response))

    def send(self, node_id: int, endpoint: NodeAddress, request: RaftRequest, now_ms: int) -> None:
        """Sends a request to a node that has no request in flight and is not in backoff."""
        self._correlation_id += 1
        self.requests.sent(node_id, self._correlation_id, now_ms)
        self.emit(SendRequest(node_id, endpoint, self._correlation_id, request))

    # Changes of state.

    def start_epoch(self, now_ms: int) -> None:
        """Completes the start after :meth:`~.quorum.Quorum.initialize`."""
        match self.quorum.state:
            case CandidateState():
                self._became_candidate()
            case _ if self.quorum.is_only_voter:
                self.stand(now_ms)
            case _:
                pass

    def stand(self, now_ms: int) -> None:
        """Becomes a candidate; the only voter becomes the leader once its vote is on disk.

        In the last epoch it only logs an error, repeatedly, until the operator acts.
        """
        if not self.quorum.has_next_epoch:
            self.logger.error(
                "Cannot become candidate: epoch %d is the last one. The quorum needs new "
                "quorum-state files and logs whose epochs are lower",
                self.quorum.epoch,
            )
            self.quorum.put_off_election(now_ms)
            return
        self._drop_download()
        self.quorum.become_candidate(now_ms)
        self._became_candidate()

    def _became_candidate(self) -> None:
        state = self.quorum.state
        if not isinstance(state, CandidateState):
            raise RaftFatal(f"in state {state}")
        self._left_leader_and_follower()

    def election_persisted(self, election: ElectionState, now_ms: int) -> None:
        """Handles that ``election`` is on disk: the only voter then becomes the leader.

        If there are other voters, the candidate's requests for votes leave after its own vote is on
        disk.  The only voter sends none, so it must wait for its disk.  Otherwise a crash could
        lose its vote after its epoch began.  With another list of voters, another node could then
        lead the same epoch.
        """
        state = self.quorum.state
        if (
            isinstance(state, CandidateState)
            and state.is_vote_granted
            and election == state.election
        ):
            self.lead(now_ms)

    def lead(self, now_ms: int) -> None:
        """Becomes the leader; appends a LeaderChange as the first record of its epoch."""
        state = self.quorum.become_leader(self.log.end_offset, now_ms)
        self.log.initialize_leader_epoch(state.epoch)
        first = LeaderChange(
            leader_id=state.local.id,
            voters=self.voters.ids,
            granting_voters=tuple(sorted(state.granting_voters)),
        )
        state.accumulator.append_control([encode_control_record(first)], now_ms)
        self.requests.reset_all()

    def resign(self, now_ms: int) -> None:
        """Resigns; EndQuorumEpoch then names the preferred successors."""
        state = self.quorum.state
        if not isinstance(state, LeaderState):
            raise RaftFatal(f"in state {state}")
        successors = state.non_leader_voters_by_descending_offset
        self.quorum.become_resigned(successors, now_ms)
        self._left_leader_and_follower()

    def unattach(self, epoch: int, now_ms: int) -> None:
        """Moves to a higher epoch whose leader is unknown."""
        self._drop_download()
        self.quorum.become_unattached(epoch, now_ms)
        self._left_leader_and_follower()

    def follow(self, epoch: int, leader_id: int, endpoints: Endpoints, now_ms: int) -> None:
        """Becomes a follower of that leader."""
        self._drop_download()
        self.quorum.become_follower(epoch, leader_id, endpoints, now_ms)
        self._left_leader_and_follower()

    def transition(
        self, leader_id: int | None, epoch: int, endpoints: Endpoints, now_ms: int
    ) -> bool:
        """Moves to the leader and epoch that another node reported; False if contradictory.

        Source: Kafka ``KafkaRaftClient.maybeTransition``.
        """
        if not self._is_consistent(leader_id, epoch):
            return False
        known = self.quorum
        if epoch > known.epoch:
            if leader_id is None or not endpoints:
                self.unattach(epoch, now_ms)
            else:
                self.follow(epoch, leader_id, endpoints, now_ms)
        elif leader_id is not None and not known.is_local(leader_id) and endpoints:
            knows_leader = isinstance(known.state, FollowerState)
            if not knows_leader or len(endpoints) > len(known.leader_endpoints):
                self.follow(epoch, leader_id, endpoints, now_ms)
        return True

    def _is_consistent(self, leader_id: int | None, epoch: int) -> bool:
        quorum = self.quorum
        if leader_id is not None and quorum.is_local(leader_id):
            return isinstance(quorum.state, LeaderState) and epoch == quorum.epoch
        if epoch < quorum.epoch:
            return False
        known = quorum.leader_id
        return epoch != quorum.epoch or leader_id is None or known is None or known == leader_id

    def _left_leader_and_follower(self) -> None:
        """Forgets requests in flight, and refuses Fetches that wait for records at this node."""
        self.requests.reset_all()
        parked, self.parked = self.parked, []
        for fetch in parked:
            self.logger.info(
                "Failed to handle fetch from %s at %d due to %s",
                fetch.request.replica or ReplicaKey(NO_ID), fetch.request.fetch_offset,
                ErrorCode.not_leader_or_follower.name.upper(),
            )  # fmt: skip
            self.respond(
                fetch.request_id,
                self.fetch_error(ErrorCode.not_leader_or_follower, fetch.listener_name),
            )

    def _drop_download(self) -> None:
        state = self.quorum.state
        if isinstance(state, FollowerState) and state.fetching_snapshot is not None:
            self.log.drop_download()
            state.fetching_snapshot = None

    # The leader in responses.

    def leader_endpoint(self, listener_name: str) -> NodeAddress | None:
        """The leader's endpoint on that listener; None if it is unknown."""
        return self.quorum.leader_endpoints.get(listener_name or self.listener_name)

    def fetch_error(self, error: ErrorCode, listener_name: str) -> FetchResponse:
        """A Fetch response without records."""
        return FetchResponse(
            error=error,
            leader_id=self.quorum.leader_id,
            leader_epoch=self.quorum.epoch,
            leader_endpoint=self.leader_endpoint(listener_name),
            log_start_offset=self.log.start_offset,
        )

    # The high watermark.

    def leader_high_watermark_moved(self, state: LeaderState) -> None:
        """Passes the leader's new high watermark to the log."""
        if state.high_watermark is None:
            raise RaftFatal("a high watermark moved that is not known")
        if self._committed_epoch != state.epoch:
            self._committed_epoch = state.epoch
            ends = sorted(state.voter_states.values(), key=_descending_offset)
            self.leader_logger.info(
                "High watermark set to %s for the first time for epoch %d based on indexOfHw %d "
                "and voters %s",
                offset_text(state.high_watermark), state.epoch, len(ends) // 2,
                java_list(map(replica_state_text, ends)),
            )  # fmt: skip
        self.log.update_high_watermark(state.high_watermark)

    def follower_high_watermark(self, state: FollowerState, offset: int) -> None:
        """Sets the leader's high watermark, limited to this log's end; RaftFatal if it falls."""
        offset = min(offset, self.log.end_offset)
        known = state.high_watermark
        if known is not None and offset < known:
            raise RaftFatal(
                f"Leader {state.leader_id} of epoch {state.epoch} takes the high watermark back "
                f"from {known} to {offset}"
            )
        if known is None:
            self._follower_logger.info(
                "High watermark set to %s for the first time for epoch %d",
                optional_offset(offset), state.epoch,
            )  # fmt: skip
        if state.update_high_watermark(offset):
            self.log.update_high_watermark(offset)


def _descending_offset(state: VoterOrObserver) -> int:
    return 1 if state.end_offset is None else -state.end_offset
