"""Handles raft requests from other nodes: one method for each kind.

A response to a node, unless it has a top-level error, names the leader and the epoch that this node
knows *after* it has processed the request.  A request that contradicts what this node knows (two
leaders of one epoch, a candidate with this node's own id) is refused and changes nothing; Kafka's
node ends instead.

Source: Kafka ``KafkaRaftClient.handleVoteRequest`` and its neighbours.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, TypeVar, assert_never

from kio.schema.errors import ErrorCode

from kafka_common.errors import RaftFatal
from kafka_common.observability.java_values import optional
from kafka_common.protocol.uuid_text import uuid_text
from kraft.raft.config import (
    MAX_FETCH_BYTES,
    MAX_FETCH_RESPONSE_BYTES,
    MAX_PARKED_FETCHES,
    MAX_PARKED_MS,
)
from kraft.raft.inputs import RaftRequestReceived
from kraft.raft.leader_state import LeaderState
from kraft.raft.log_lines import vote_request_text
from kraft.raft.messages import (
    AnyRaftResponse,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Endpoints,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RaftRequest,
    VoteRequest,
    VoteResponse,
)
from kraft.raft.node import Node, ParkedFetch
from kraft.raft.raft_log import LogPosition, ValidatedPosition, validate_position
from kraft.raft.states import FollowerState, UnattachedState
from kraft.raft.values import NO_ID, OffsetAndEpoch, ReplicaKey

BOOTSTRAP_SNAPSHOT_ID: Final = OffsetAndEpoch(0, 0)
"""The snapshot that formatting a node writes; a leader sends it to no other node."""

R = TypeVar(
    "R",
    VoteResponse,
    BeginQuorumEpochResponse,
    EndQuorumEpochResponse,
    FetchResponse,
    FetchSnapshotResponse,
    DescribeQuorumResponse,
)


def response_type(request: RaftRequest) -> type[AnyRaftResponse]:
    """The response class of a request."""
    match request:
        case VoteRequest():
            return VoteResponse
        case BeginQuorumEpochRequest():
            return BeginQuorumEpochResponse
        case EndQuorumEpochRequest():
            return EndQuorumEpochResponse
        case FetchRequest():
            return FetchResponse
        case FetchSnapshotRequest():
            return FetchSnapshotResponse
        case DescribeQuorumRequest():
            return DescribeQuorumResponse
        case _:
            assert_never(request)


class InboundRequests:
    """Handles the requests to one node."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def handle(self, received: RaftRequestReceived, now_ms: int) -> None:
        """Responds to a request now, or lets a Fetch wait until there are records."""
        node, request, listener = self._node, received.request, received.listener_name
        response: AnyRaftResponse | None
        if not self._is_of_this_cluster(request):
            kind = response_type(request)
            response = kind(top_level_error=ErrorCode.inconsistent_cluster_id)
        else:
            match request:
                case VoteRequest():
                    response = self._vote(request, listener, now_ms)
                case BeginQuorumEpochRequest():
                    response = self._begin_quorum_epoch(request, listener, now_ms)
                case EndQuorumEpochRequest():
                    response = self._end_quorum_epoch(request, listener, now_ms)
                case FetchRequest():
                    response = self._fetch(received, request, now_ms)
                case FetchSnapshotRequest():
                    response = self._fetch_snapshot(request, listener, now_ms)
                case DescribeQuorumRequest():
                    response = self._describe_quorum(now_ms)
                case _:
                    assert_never(request)
        if response is not None:
            node.respond(received.request_id, response)

    def _is_of_this_cluster(self, request: RaftRequest) -> bool:
        if isinstance(request, DescribeQuorumRequest):
            return True
        return request.cluster_id is None or request.cluster_id == self._node.cluster_id

    # Elections.

    def _vote(self, request: VoteRequest, listener: str, now_ms: int) -> VoteResponse:
        node, quorum = self._node, self._node.quorum
        log_end = request.log_end
        if log_end.offset < 0 or not 0 <= log_end.epoch < request.candidate_epoch:
            return self._response_with(VoteResponse, ErrorCode.invalid_request, listener)
        error = self._voter_only_error(request.candidate.id, request.candidate_epoch)
        if error is not None:
            return self._response_with(VoteResponse, error, listener)
        if quorum.is_local(request.candidate.id):
            self._node.logger.error(
                "Another node has the id %d of this one: it asks for votes", request.candidate.id
            )
            return VoteResponse(top_level_error=ErrorCode.unknown_server_error)
        if request.candidate_epoch > quorum.epoch:
            node.unattach(request.candidate_epoch, now_ms)
        if not self._is_this_node(request.voter):
            self._log_wrong_key(
                "Candidate sent a voter key (%s) in the VOTE request that doesn't match the local "
                "key (%s, %s); rejecting the vote",
                request.voter,
            )
            return self._response_with(VoteResponse, ErrorCode.invalid_voter_key, listener)
        is_granted = self._grants(request.candidate, log_end, now_ms)
        node.logger.info(
            "Vote request %s with epoch %d is %s",
            vote_request_text(request),
            request.candidate_epoch,
            "granted" if is_granted else "rejected",
        )
        return VoteResponse(
            vote_granted=is_granted,
            leader_id=quorum.leader_id,
            leader_epoch=quorum.epoch,
            leader_endpoint=node.leader_endpoint(listener),
        )

    def _grants(self, candidate: ReplicaKey, log_end: OffsetAndEpoch, now_ms: int) -> bool:
        node, state = self._node, self._node.quorum.state
        if not isinstance(state, UnattachedState) or node.local is None:
            return False
        own = node.log_end
        is_up_to_date = (log_end.epoch, log_end.offset) >= (own.epoch, own.offset)
        if not state.can_grant_vote(candidate, is_log_up_to_date=is_up_to_date):
            return False
        if state.voted_key is None:
            node.quorum.vote_for(candidate, now_ms)
        return True

    def _begin_quorum_epoch(
        self, request: BeginQuorumEpochRequest, listener: str, now_ms: int
    ) -> BeginQuorumEpochResponse:
        error = self._voter_only_error(request.leader_id, request.leader_epoch)
        if error is not None:
            return self._response_with(BeginQuorumEpochResponse, error, listener)
        if not self._follow(
            request.leader_id, request.leader_epoch, request.leader_endpoints, now_ms
        ):
            return BeginQuorumEpochResponse(top_level_error=ErrorCode.unknown_server_error)
        # This node follows the leader even if the request names another voter.
        if not self._is_this_node(request.voter):
            self._log_wrong_key(
                "Leader sent a voter key (%s) in the BEGIN_QUORUM_EPOCH request that doesn't match "
                "the local key (%s, %s); returning INVALID_VOTER_KEY",
                request.voter,
            )
            return self._response_with(
                BeginQuorumEpochResponse, ErrorCode.invalid_voter_key, listener
            )
        return self._response_with(BeginQuorumEpochResponse, ErrorCode.none, listener)

    def _end_quorum_epoch(
        self, request: EndQuorumEpochRequest, listener: str, now_ms: int
    ) -> EndQuorumEpochResponse:
        node = self._node
        error = self._voter_only_error(request.leader_id, request.leader_epoch)
        if error is not None:
            return self._response_with(EndQuorumEpochResponse, error, listener)
        if not self._follow(
            request.leader_id, request.leader_epoch, request.leader_endpoints, now_ms
        ):
            return EndQuorumEpochResponse(top_level_error=ErrorCode.unknown_server_error)
        state = node.quorum.state
        if isinstance(state, FollowerState) and state.leader_id == request.leader_id:
            wait_ms = self._successor_backoff_ms(request.preferred_candidates)
            state.fetch_deadline_ms = now_ms + wait_ms
            node.logger.debug(
                "Overriding follower fetch timeout to %d after receiving EndQuorumEpoch request "
                "from leader %d in epoch %d",
                wait_ms, request.leader_id, state.epoch,
            )  # fmt: skip
        return self._response_with(EndQuorumEpochResponse, ErrorCode.none, listener)

    def _follow(self, leader_id: int, epoch: int, endpoints: Endpoints, now_ms: int) -> bool:
        node = self._node
        known = endpoints if node.listener_name in endpoints else node.voter_endpoints(leader_id)
        if node.transition(leader_id, epoch, known, now_ms):
            return True
        self._node.logger.error(
            "Node %d says that it leads epoch %d, which contradicts the leader %s of epoch %d",
            leader_id, epoch, node.quorum.leader_id, node.quorum.epoch,
        )  # fmt: skip
        return False

    def _successor_backoff_ms(self, candidates: tuple[ReplicaKey, ...]) -> int:
        """The time in ms before this node's candidacy, after the leader has resigned.

        Source: Kafka ``strictExponentialElectionBackoffMs``.
        """
        longest = self._node.config.election_backoff_max_ms
        if not candidates:
            # A restarted leader knows no replica's progress, so it prefers no successor.
            return 0
        position = next((at for at, key in enumerate(candidates) if self._is_this_node(key)), None)
        if position is None:
            return longest
        if position == 0:
            return 0
        return min(longest, (longest >> (len(candidates) - 1)) << (position - 1))

    # Records.

    def _fetch(
        self, received: RaftRequestReceived, request: FetchRequest, now_ms: int
    ) -> FetchResponse | None:
        if (
            request.max_wait_ms < 0
            or request.fetch_offset < 0
            or not 0 <= request.last_fetched_epoch <= request.leader_epoch
        ):
            return self._node.fetch_error(ErrorCode.invalid_request, received.listener_name)
        response = self.try_fetch(request, received.listener_name, now_ms)
        is_final = (
            response.error is not ErrorCode.none
            or response.records
            or response.diverging_epoch is not None
            or response.snapshot_id is not None
            or request.max_wait_ms == 0
            or len(self._node.parked) >= MAX_PARKED_FETCHES
        )
        if is_final:
            return response
        self._node.parked.append(
            ParkedFetch(
                received.request_id,
                request,
                received.listener_name,
                now_ms + min(request.max_wait_ms, MAX_PARKED_MS),
            )
        )
        return None

    def try_fetch(self, request: FetchRequest, listener: str, now_ms: int) -> FetchResponse:
        """The response to a replica's Fetch, whose offset acknowledges every record below it."""
        node, state = self._node, self._node.quorum.state
        error = self._leader_only_error(request.leader_epoch)
        if (
            error is None
            and request.replica is not None
            and node.quorum.is_local(request.replica.id)
        ):
            self._node.logger.error(
                "Another node has the id %d of this one: it fetches", request.replica.id
            )
            error = ErrorCode.unknown_server_error
        if error is not None or not isinstance(state, LeaderState):
            return node.fetch_error(error or ErrorCode.not_leader_or_follower, listener)
        verdict, position = self._position(request)
        if verdict is LogPosition.DIVERGING:
            return replace(self.nothing_new(state, listener), diverging_epoch=position)
        if verdict is LogPosition.SNAPSHOT:
            return replace(self.nothing_new(state, listener), snapshot_id=position)
        most = min(request.max_bytes, MAX_FETCH_RESPONSE_BYTES)
        records = node.log.read(request.fetch_offset, most)
        if state.replica_fetched(request.replica, request.fetch_offset, now_ms):
            node.leader_high_watermark_moved(state)
        return self._fetched(state, listener, records)

    def nothing_new(self, state: LeaderState, listener: str) -> FetchResponse:
        """A Fetch response without records, with the current high watermark."""
        return self._fetched(state, listener, b"")

    def _fetched(self, state: LeaderState, listener: str, records: bytes) -> FetchResponse:
        return FetchResponse(
            leader_id=state.leader_id,
            leader_epoch=state.epoch,
            leader_endpoint=self._node.leader_endpoint(listener),
            high_watermark=-1 if state.high_watermark is None else state.high_watermark,
            log_start_offset=self._node.log.start_offset,
            records=records,
        )

    def _position(self, request: FetchRequest) -> ValidatedPosition:
        log = self._node.log
        latest = log.latest_snapshot_id
        if request.fetch_offset == 0 and latest not in (None, BOOTSTRAP_SNAPSHOT_ID):
            if latest is None:
                raise RaftFatal("a log with an earliest snapshot and no latest one")
            return ValidatedPosition(LogPosition.SNAPSHOT, latest)
        return validate_position(log, request.fetch_offset, request.last_fetched_epoch)

    def _fetch_snapshot(
        self, request: FetchSnapshotRequest, listener: str, now_ms: int
    ) -> FetchSnapshotResponse:
        node, state = self._node, self._node.quorum.state
        error = self._leader_only_error(request.leader_epoch)
        size = None
        if error is None:
            size = node.log.snapshot_bytes(request.snapshot_id)
            if size is None or request.snapshot_id == BOOTSTRAP_SNAPSHOT_ID:
                error = ErrorCode.snapshot_not_found
            elif not 0 <= request.position < size:
                error = ErrorCode.position_out_of_range
        if (
            error is None
            and request.replica is not None
            and node.quorum.is_local(request.replica.id)
        ):
            self._node.logger.error(
                "Another node has the id %d of this one: it fetches", request.replica.id
            )
            error = ErrorCode.unknown_server_error
        if error is not None or size is None or not isinstance(state, LeaderState):
            return self._response_with(FetchSnapshotResponse, error or ErrorCode.none, listener)
        state.contacted_by(request.replica, now_ms)
        most = max(0, min(request.max_bytes, MAX_FETCH_BYTES))
        return FetchSnapshotResponse(
            leader_id=state.leader_id,
            leader_epoch=state.epoch,
            leader_endpoint=node.leader_endpoint(listener),
            snapshot_id=request.snapshot_id,
            size=size,
            position=request.position,
            data=node.log.read_snapshot(request.snapshot_id, request.position, most),
        )

    def _describe_quorum(self, now_ms: int) -> DescribeQuorumResponse:
        node, state = self._node, self._node.quorum.state
        if not isinstance(state, LeaderState):
            # As in Kafka, the response does not name the leader.
            return DescribeQuorumResponse(error=ErrorCode.not_leader_or_follower)
        voters, observers = state.progress(now_ms)
        return DescribeQuorumResponse(
            leader_id=state.leader_id,
            leader_epoch=state.epoch,
            high_watermark=-1 if state.high_watermark is None else state.high_watermark,
            voters=voters,
            observers=observers,
            nodes={voter: node.voter_endpoints(voter) for voter in node.voters},
        )

    # Shared by several requests.

    def _response_with(self, kind: type[R], error: ErrorCode, listener: str) -> R:
        return kind(
            error=error,
            leader_id=self._node.quorum.leader_id,
            leader_epoch=self._node.quorum.epoch,
            leader_endpoint=self._node.leader_endpoint(listener),
        )

    def _voter_only_error(self, remote_id: int, epoch: int) -> ErrorCode | None:
        if epoch < self._node.quorum.epoch:
            return ErrorCode.fenced_leader_epoch
        if not self._node.quorum.is_credible(epoch):
            self._node.logger.error(
                "Node %d claims epoch %d, and epoch %d is the newest here: refused",
                remote_id, epoch, self._node.quorum.epoch,
            )  # fmt: skip
            return ErrorCode.invalid_request
        is_stranger = remote_id not in self._node.voters
        if is_stranger and epoch > self._node.quorum.epoch and not self._node.quorum.is_voter:
            # If this observer moved to an epoch that no voter has, every leader would refuse its
            # Fetches, and an observer cannot start an election that raises their epoch.
            self._node.logger.error(
                "Node %d, which is no voter, claims epoch %d: refused", remote_id, epoch
            )
            return ErrorCode.invalid_request
        return ErrorCode.invalid_request if remote_id < 0 else None

    def _leader_only_error(self, epoch: int) -> ErrorCode | None:
        node = self._node
        if epoch < node.quorum.epoch:
            return ErrorCode.fenced_leader_epoch
        if epoch > node.quorum.epoch:
            return ErrorCode.unknown_leader_epoch
        if not isinstance(node.quorum.state, LeaderState):
            return ErrorCode.not_leader_or_follower
        return ErrorCode.broker_not_available if node.is_shutting_down else None

    def _log_wrong_key(self, line: str, key: ReplicaKey | None) -> None:
        local = self._node.local or ReplicaKey(NO_ID)
        directory = None if local.directory_id is None else uuid_text(local.directory_id)
        self._node.logger.info(line, optional(key), local.id, directory)

    def _is_this_node(self, key: ReplicaKey | None) -> bool:
        local = self._node.local
        if key is None:
            return True
        if local is None or key.id != local.id:
            return False
        return key.directory_id in (None, local.directory_id)
