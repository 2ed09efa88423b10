"""The timed work of a node: one function for each state.

Each function does what is due and returns the time of its next call.

Source: Kafka ``KafkaRaftClient.pollCurrentState``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import assert_never

from kafka_common.errors import LimitReached, RaftFatal
from kafka_common.observability.java_values import java_list
from kraft.raft.config import (
    MAX_FETCH_BYTES,
    MAX_FETCH_WAIT_MS,
    NEVER_MS,
)
from kraft.raft.inbound import InboundRequests
from kraft.raft.leader_state import LeaderState
from kraft.raft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    RaftRequest,
    VoteRequest,
)
from kraft.raft.node import Node
from kraft.raft.outputs import FlushLog
from kraft.raft.responses import back_off
from kraft.raft.states import CandidateState, FollowerState, ResignedState, UnattachedState
from kraft.raft.values import ReplicaKey


class Polling:
    """The work that a node starts by itself."""

    def __init__(self, node: Node, inbound: InboundRequests) -> None:
        self._node = node
        self._inbound = inbound

    def poll(self, now_ms: int) -> int:
        """Does what is due; returns the time of the next call, ``now_ms`` for an immediate one."""
        match self._node.quorum.state:
            case UnattachedState() as state:
                return self._unattached(state, now_ms)
            case CandidateState() as state:
                return self._candidate(state, now_ms)
            case LeaderState() as state:
                return self._leader(state, now_ms)
            case FollowerState() as state:
                return self._follower(state, now_ms)
            case ResignedState() as state:
                return self._resigned(state, now_ms)
            case state:
                assert_never(state)

    def _unattached(self, state: UnattachedState, now_ms: int) -> int:
        node = self._node
        if not node.quorum.is_voter:
            return self._fetch_from_any(now_ms)
        if node.is_shutting_down:
            return NEVER_MS
        if now_ms >= state.election_deadline_ms:
            node.stand(now_ms)
            return now_ms
        return min(state.election_deadline_ms, self._fetch_from_any(now_ms))

    def _candidate(self, state: CandidateState, now_ms: int) -> int:
        node = self._node
        if state.is_vote_granted:
            # The only voter: it becomes the leader when its vote is on disk.
            return NEVER_MS
        if node.is_shutting_down:
            # A leaving candidate asks for votes, but begins no further election.
            return self._ask_for_votes(state, now_ms)
        if state.backoff_deadline_ms is not None:
            if now_ms < state.backoff_deadline_ms:
                return state.backoff_deadline_ms
            node.logger.info("Re-elect as candidate after election backoff has completed")
            node.stand(now_ms)
            return now_ms
        if now_ms >= state.election_deadline_ms:
            wait_ms = back_off(node, state, now_ms)
            node.logger.info(
                "Election has timed out, backing off for %dms before becoming a candidate again",
                wait_ms,
            )
            return now_ms
        return min(state.election_deadline_ms, self._ask_for_votes(state, now_ms))

    def _ask_for_votes(self, state: CandidateState, now_ms: int) -> int:
        if state.is_vote_rejected:
            return NEVER_MS
        return self._send_to_voters(state.unrecorded_voters, self._vote_request, now_ms)

    def _leader(self, state: LeaderState, now_ms: int) -> int:
        node = self._node
        if now_ms >= state.check_quorum_deadline_ms:
            node.leader_logger.info(
                "Did not receive fetch request from the majority of the voters within %dms. "
                "Current fetched voters are %s, and voters are %s",
                node.config.check_quorum_timeout_ms,
                java_list(state.fetched_voters),
                java_list(map(ReplicaKey, node.voters)),
            )
            state.is_resign_requested = True
        if node.is_shutting_down or state.is_resign_requested:
            node.resign(now_ms)
            return now_ms
        self._append(state, now_ms)
        if state.is_resign_requested:
            return now_ms
        if now_ms >= state.begin_quorum_epoch_deadline_ms:
            # Send it to voters that have acknowledged it, too.  A voter with a request in flight is
            # left out until the next period.
            others = node.voters.others(state.local.id)
            self._send_to_voters(others, self._begin_quorum_epoch_request, now_ms)
            period_ms = node.config.begin_quorum_epoch_period_ms
            state.begin_quorum_epoch_deadline_ms = now_ms + max(1, period_ms)
        return min(
            state.check_quorum_deadline_ms,
            state.begin_quorum_epoch_deadline_ms,
            max(now_ms, state.accumulator.deadline_ms()),
            min((fetch.deadline_ms for fetch in node.parked), default=NEVER_MS),
        )

    def _append(self, state: LeaderState, now_ms: int) -> None:
        """Appends the batches that are due; waiting Fetches get them before they are on disk.

        A leader that can open no file, or gets no memory, resigns.  The records that it could not
        append were never committed, and another node may have files and memory.
        """
        node, appended_before = self._node, self._node.log.end_offset
        try:
            for batch in state.accumulator.drain(now_ms):
                node.log.append_as_leader(batch.data, state.epoch)
        except LimitReached as reached:
            node.logger.error("Resign from the leadership of epoch %d: %s", state.epoch, reached)
            state.is_resign_requested = True
        if node.log.end_offset == appended_before:
            return
        flush = FlushLog(node.log.end_offset)
        if state.appended(node.log.end_offset):
            # A quorum of one: no other node has these records, so they are flushed before any
            # output that shows them as committed.
            node.emit(flush)
            node.leader_high_watermark_moved(state)
            self._respond_to_parked(now_ms)
        else:
            self._respond_to_parked(now_ms)
            node.emit(flush)

    def _respond_to_parked(self, now_ms: int) -> None:
        node = self._node
        parked, node.parked = node.parked, []
        for fetch in parked:
            response = self._inbound.try_fetch(fetch.request, fetch.listener_name, now_ms)
            node.respond(fetch.request_id, response)

    def _follower(self, state: FollowerState, now_ms: int) -> int:
        node = self._node
        if node.quorum.is_voter:
            if node.is_shutting_down:
                return NEVER_MS
            if now_ms >= state.fetch_deadline_ms:
                node.logger.info("Become candidate due to fetch timeout")
                node.stand(now_ms)
                return now_ms
            return min(state.fetch_deadline_ms, self._fetch_from_best(state, now_ms))
        if now_ms >= state.fetch_deadline_ms:
            return self._fetch_from_any(now_ms)
        return min(state.fetch_deadline_ms, self._fetch_from_best(state, now_ms))

    def _fetch_from_best(self, state: FollowerState, now_ms: int) -> int:
        """Fetches from the leader, or from a bootstrap server while the leader does not respond."""
        node, requests = self._node, self._node.requests
        leader = state.leader_id
        if requests.has_request_timed_out(leader, now_ms):
            requests.reset(leader)
            return self._fetch_from_any(now_ms)
        if requests.is_backing_off(leader, now_ms):
            return min(requests.ready_at_ms(leader, now_ms), self._fetch_from_any(now_ms))
        in_flight_until_ms = requests.in_flight_until_ms(now_ms)
        if in_flight_until_ms is not None:
            return in_flight_until_ms
        request: RaftRequest = self._fetch_request()
        if state.fetching_snapshot is not None:
            request = FetchSnapshotRequest(
                cluster_id=node.cluster_id,
                replica=node.local,
                leader_epoch=state.epoch,
                snapshot_id=state.fetching_snapshot,
                position=state.fetched_bytes,
                max_bytes=MAX_FETCH_BYTES,
            )
        node.send(leader, state.leader_endpoints[node.listener_name], request, now_ms)
        return requests.ready_at_ms(leader, now_ms)

    def _fetch_from_any(self, now_ms: int) -> int:
        """Sends a Fetch to a bootstrap server; every node's response names the leader."""
        node = self._node
        server = node.requests.ready_bootstrap_server(now_ms)
        if server is not None:
            endpoint = node.requests.bootstrap_servers[server]
            node.send(server, endpoint, self._fetch_request(), now_ms)
        return node.requests.bootstrap_ready_at_ms(now_ms)

    def _resigned(self, state: ResignedState, now_ms: int) -> int:
        node = self._node
        again_ms = self._send_to_voters(
            tuple(state.unacked_voters), self._end_quorum_epoch_request, now_ms
        )
        if node.is_shutting_down:
            return again_ms
        if now_ms >= state.election_deadline_ms:
            if node.quorum.is_voter or not node.quorum.has_next_epoch:
                node.stand(now_ms)
            else:
                # No node can lead the epoch from which this one resigned.
                node.unattach(state.epoch + 1, now_ms)
            return now_ms
        return min(state.election_deadline_ms, again_ms)

    # Requests.

    def _send_to_voters(
        self, voters: Iterable[int], build: Callable[[int], RaftRequest], now_ms: int
    ) -> int:
        """Sends to each voter that is ready; returns when the next voter will be ready."""
        node = self._node
        again_ms = NEVER_MS
        for voter in voters:
            if node.requests.ready_at_ms(voter, now_ms) == now_ms:
                node.send(voter, node.voters.endpoints[voter], build(voter), now_ms)
            again_ms = min(again_ms, node.requests.ready_at_ms(voter, now_ms))
        return again_ms

    def _vote_request(self, voter: int) -> VoteRequest:
        node = self._node
        if node.local is None:
            raise RaftFatal("this node has no id")
        return VoteRequest(
            cluster_id=node.cluster_id,
            voter=ReplicaKey(voter),
            candidate_epoch=node.quorum.epoch,
            candidate=node.local,
            log_end=node.log_end,
        )

    def _begin_quorum_epoch_request(self, voter: int) -> BeginQuorumEpochRequest:
        node = self._node
        if node.local is None:
            raise RaftFatal("this node has no id")
        return BeginQuorumEpochRequest(
            cluster_id=node.cluster_id,
            voter=ReplicaKey(voter),
            leader_id=node.local.id,
            leader_epoch=node.quorum.epoch,
            leader_endpoints=node.quorum.leader_endpoints,
        )

    def _end_quorum_epoch_request(self, _: int) -> EndQuorumEpochRequest:
        node, state = self._node, self._node.quorum.state
        if not isinstance(state, ResignedState):
            raise RaftFatal(f"in state {state}")
        return EndQuorumEpochRequest(
            cluster_id=node.cluster_id,
            leader_id=state.local_id,
            leader_epoch=state.epoch,
            preferred_candidates=state.preferred_successors,
            # As in Kafka 3.9 no endpoints are sent: the voters know each other's.
            leader_endpoints={},
        )

    def _fetch_request(self) -> FetchRequest:
        node = self._node
        end = node.log_end
        return FetchRequest(
            cluster_id=node.cluster_id,
            replica=node.local,
            leader_epoch=node.quorum.epoch,
            fetch_offset=end.offset,
            last_fetched_epoch=end.epoch,
            max_wait_ms=MAX_FETCH_WAIT_MS,
            max_bytes=MAX_FETCH_BYTES,
        )
