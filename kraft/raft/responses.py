"""Handles the responses of other nodes.

A node that sent a useless response gets no further request until its backoff ends.

Source: Kafka ``KafkaRaftClient.handleResponse`` and its neighbours.
"""

from __future__ import annotations

from typing import Final, assert_never

from kio.schema.errors import ErrorCode

from kafka_common.errors import LimitReached, RaftFatal, RecordsRefused
from kafka_common.observability.java_values import java_list
from kraft.raft.config import RETRY_BACKOFF_BASE_MS
from kraft.raft.inputs import RaftRequestFailed, RaftResponseReceived
from kraft.raft.leader_state import LeaderState
from kraft.raft.log_lines import response_api
from kraft.raft.messages import (
    AnyRaftResponse,
    BeginQuorumEpochResponse,
    DescribeQuorumResponse,
    EndQuorumEpochResponse,
    FetchResponse,
    FetchSnapshotResponse,
    VoteResponse,
)
from kraft.raft.node import Node
from kraft.raft.outputs import FlushLog
from kraft.raft.raft_log import truncation_offset
from kraft.raft.states import (
    CandidateState,
    FollowerState,
    ResignedState,
    UnattachedState,
    Vote,
)
from kraft.raft.static_voters import VoterRecordsGuard
from kraft.raft.values import OffsetAndEpoch

_HEADER_BYTES_SHOWN: Final = 61


class RaftResponses:
    """Handles the responses to one node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._guard = VoterRecordsGuard("no snapshot")
        """Checks the snapshot that is being downloaded."""

    def handle(self, received: RaftResponseReceived, now_ms: int) -> None:
        """Handles a response, if it is still expected."""
        requests = self._node.requests
        source, correlation_id = received.source_id, received.correlation_id
        if not requests.is_response_expected(source, correlation_id, now_ms):
            return
        if self._process(source, received.response, now_ms):
            requests.succeeded(source, correlation_id, now_ms)
        else:
            requests.failed(source, correlation_id, now_ms)

    def handle_failure(self, failed: RaftRequestFailed, now_ms: int) -> None:
        """Handles a request that gets no response."""
        self._node.requests.failed(failed.destination_id, failed.correlation_id, now_ms)

    def _process(self, source: int, response: AnyRaftResponse, now_ms: int) -> bool:
        """Handles a response; False if it was useless, so that the backoff begins."""
        if response.top_level_error is not ErrorCode.none:
            return self._refused(source, response)
        verdict = self._common(source, response, now_ms)
        if verdict is not None:
            return verdict
        match response:
            case VoteResponse():
                return self._vote(source, response, now_ms)
            case BeginQuorumEpochResponse():
                return self._begin_quorum_epoch(source, response)
            case EndQuorumEpochResponse():
                return self._end_quorum_epoch(source, response)
            case FetchResponse():
                return self._fetch(source, response, now_ms)
            case FetchSnapshotResponse():
                return self._fetch_snapshot(source, response, now_ms)
            case DescribeQuorumResponse():
                raise AssertionError("no node asks another one to describe the quorum")
            case _:
                assert_never(response)

    def _refused(self, source: int, response: AnyRaftResponse) -> bool:
        state, error = self._node.quorum.state, response.top_level_error
        if error is ErrorCode.cluster_authorization_failed:
            raise RaftFatal(
                f"Node {source} does not let this node take part in the quorum: "
                "CLUSTER_AUTHORIZATION_FAILED"
            )
        if isinstance(state, FollowerState) and state.fetching_snapshot is not None:
            # Kafka's leader refuses a part of a snapshot with an error of the whole response.
            self._drop_download(state)
        if error is not ErrorCode.broker_not_available:
            self._unexpected(source, response, error)
        return False

    def _common(self, source: int, response: AnyRaftResponse, now_ms: int) -> bool | None:
        """Handles a response's leader and epoch; None if :meth:`_process` must handle the rest.

        Source: Kafka ``KafkaRaftClient.maybeHandleCommonResponse``.
        """
        quorum = self._node.quorum
        error, epoch, leader_id = response.error, response.leader_epoch, response.leader_id
        if epoch < quorum.epoch or error is ErrorCode.unknown_leader_epoch:
            return self._is_attached()
        if not quorum.is_credible(epoch):
            self._node.logger.error(
                "Ignored a response of node %d in epoch %d: epoch %d is the newest here",
                source, epoch, quorum.epoch,
            )  # fmt: skip
            return False
        if epoch > quorum.epoch or error in (
            ErrorCode.fenced_leader_epoch, ErrorCode.not_leader_or_follower,
        ):  # fmt: skip
            self._transition(source, response, now_ms)
            return self._is_attached()
        if leader_id is not None and quorum.leader_id is None:
            self._transition(source, response, now_ms)
            return None if error is ErrorCode.none else True
        if error is ErrorCode.broker_not_available:
            return False
        if error is ErrorCode.invalid_voter_key:
            self._node.logger.info(
                "Voter key for VOTE or BEGIN_QUORUM_EPOCH request didn't match the receiver's "
                "replica key: %d",
                source,
            )
            return True
        if error is ErrorCode.invalid_request:
            self._node.logger.error("Node %d finds a request of this node invalid", source)
            return False
        return None

    def _is_attached(self) -> bool:
        """Whether the state is not unattached; False delays the next request by the backoff."""
        return not isinstance(self._node.quorum.state, UnattachedState)

    def _transition(self, source: int, response: AnyRaftResponse, now_ms: int) -> None:
        node = self._node
        endpoints = {}
        if response.leader_id is not None:
            endpoints = dict(node.voter_endpoints(response.leader_id))
            if response.leader_endpoint is not None:
                endpoints[node.listener_name] = response.leader_endpoint
        if not node.transition(response.leader_id, response.leader_epoch, endpoints, now_ms):
            raise RaftFatal(
                f"Node {source} names node {response.leader_id} as the leader of epoch "
                f"{response.leader_epoch}, which contradicts the leader {node.quorum.leader_id} of "
                f"epoch {node.quorum.epoch}"
            )

    # Elections.

    def _vote(self, source: int, response: VoteResponse, now_ms: int) -> bool:
        node, state = self._node, self._node.quorum.state
        if response.error is not ErrorCode.none:
            return self._unexpected(source, response)
        if not isinstance(state, CandidateState):
            return True
        if response.vote_granted:
            state.record(source, Vote.GRANTED)
            if state.is_vote_granted:
                node.lead(now_ms)
        else:
            state.record(source, Vote.REJECTED)
            if state.is_vote_rejected and state.backoff_deadline_ms is None:
                # Otherwise the candidate would wait until its election times out.
                node.logger.info(
                    "Insufficient remaining votes to become leader (rejected by %s). We will "
                    "backoff before retrying election again",
                    java_list(state.rejecting_voters),
                )
                back_off(node, state, now_ms)
        return True

    def _begin_quorum_epoch(self, source: int, response: BeginQuorumEpochResponse) -> bool:
        if response.error is not ErrorCode.none:
            return self._unexpected(source, response)
        state = self._node.quorum.state
        if isinstance(state, LeaderState):
            state.acknowledged(source)
        return True

    def _end_quorum_epoch(self, source: int, response: EndQuorumEpochResponse) -> bool:
        if response.error is not ErrorCode.none:
            return self._unexpected(source, response)
        state = self._node.quorum.state
        if isinstance(state, ResignedState):
            state.acknowledge(source)
        return True

    # Records.

    def _fetch(self, source: int, response: FetchResponse, now_ms: int) -> bool:
        try:
            return self._process_fetch(source, response, now_ms)
        except LimitReached as reached:
            # This node lacks files or memory; the leader gets the next Fetch after the backoff.
            self._node.logger.error(
                "The log cannot take over what leader %d has sent: %s", source, reached
            )
            self._flush_before_the_next_fetch()
            state = self._node.quorum.state
            if isinstance(state, FollowerState):
                state.fetch_deadline_ms = self._node.quorum.fetch_deadline_ms(now_ms)
            return False

    def _process_fetch(self, source: int, response: FetchResponse, now_ms: int) -> bool:
        node, state = self._node, self._node.quorum.state
        if response.error is not ErrorCode.none or not isinstance(state, FollowerState):
            return self._unexpected(source, response)
        if response.diverging_epoch is not None:
            if min(response.diverging_epoch) < 0:
                return self._unexpected(source, response, ErrorCode.invalid_request)
            offset = truncation_offset(node.log, response.diverging_epoch)
            known = state.high_watermark
            if known is not None and min(offset, response.diverging_epoch.offset) < known:
                raise RaftFatal(
                    f"Leader {source} asks for a truncation to {response.diverging_epoch.offset}, "
                    f"below the high watermark {known}"
                )
            node.log.truncate_to(offset)
            self._node.logger.info(
                "Truncated to offset %d from Fetch response from leader %d", offset, source
            )
        elif response.snapshot_id is not None:
            snapshot_id = response.snapshot_id
            if snapshot_id.offset < 0 or not 0 <= snapshot_id.epoch <= state.epoch:
                return self._unexpected(source, response, ErrorCode.invalid_request)
            if snapshot_id == node.log_end and node.log.start_offset == snapshot_id.offset:
                # The log already ends there: the next Fetch would get the same response.
                return self._unexpected(source, response, ErrorCode.invalid_request)
            if node.log.snapshot_bytes(snapshot_id) is None:
                node.log.begin_download(snapshot_id)
                node.logger.info(
                    "Fetching snapshot %s from Fetch response from leader %d", snapshot_id, source
                )
                state.fetching_snapshot, state.fetched_bytes = snapshot_id, 0
                self._guard = VoterRecordsGuard(f"snapshot {snapshot_id} of leader {source}")
            else:
                # This node was killed after it downloaded the snapshot, before the log's restart.
                node.logger.info(
                    "Leader %d returned a snapshot %s in the FETCH response which is already "
                    "stored",
                    source, snapshot_id,
                )  # fmt: skip
                self._restart_log(state, snapshot_id)
        else:
            if response.records and not self._append(source, response.records, state):
                return False
            if response.high_watermark >= 0:
                node.follower_high_watermark(state, response.high_watermark)
        state.fetch_deadline_ms = node.quorum.fetch_deadline_ms(now_ms)
        return True

    def _append(self, source: int, records: bytes, state: FollowerState) -> bool:
        """Appends a leader's records; False if they are invalid and nothing is appended.

        Kafka repeats the Fetch without end if a leader's records are broken.  Here such a response
        does not extend the fetch timeout.
        """
        node = self._node
        # Check before the append: a log with voter records could never be opened again.
        VoterRecordsGuard(f"A Fetch response from leader {source}").feed(records)
        try:
            taken = node.log.append_as_follower(records, state.epoch)
        except RecordsRefused as error:
            self._node.logger.error(
                "Cannot append what leader %d sent after offset %d (%s); it begins %s",
                source, node.log.end_offset, error, records[:_HEADER_BYTES_SHOWN].hex(),
            )  # fmt: skip
            return False
        if not taken:
            self._node.logger.error(
                "Leader %d of epoch %d sends records of a later epoch", source, state.epoch
            )
            return False
        self._flush_before_the_next_fetch()
        return True

    def _flush_before_the_next_fetch(self) -> None:
        # The next Fetch acknowledges every record in the log.
        if self._node.quorum.is_voter:
            self._node.emit(FlushLog(self._node.log.end_offset))

    def _fetch_snapshot(self, source: int, response: FetchSnapshotResponse, now_ms: int) -> bool:
        node, state = self._node, self._node.quorum.state
        if not isinstance(state, FollowerState) or state.fetching_snapshot is None:
            return self._unexpected(source, response)
        error = response.error
        if error is ErrorCode.snapshot_not_found or (
            error is ErrorCode.none and min(response.snapshot_id) < 0
        ):
            node.logger.info(
                "Leader doesn't know about snapshot id %s, returned error %d and snapshot id %s",
                state.fetching_snapshot, error.value, response.snapshot_id,
            )  # fmt: skip
            self._drop_download(state)
            state.fetch_deadline_ms = node.quorum.fetch_deadline_ms(now_ms)
            return True
        if error is ErrorCode.none and not self._is_next_part(response, state):
            error = ErrorCode.position_out_of_range
        if error is not ErrorCode.none:
            self._drop_download(state)
            return self._unexpected(source, response, error)
        self._guard.feed(response.data)
        state.fetched_bytes = node.log.append_download(response.data)
        if state.fetched_bytes == response.size:
            self._check_restart(state, response.snapshot_id)
            node.log.finish_download()
            self._log_restart(state, response.snapshot_id)
            state.fetching_snapshot = None
            node.follower_high_watermark(state, node.log.high_watermark)
        state.fetch_deadline_ms = node.quorum.fetch_deadline_ms(now_ms)
        return True

    def _restart_log(self, state: FollowerState, snapshot_id: OffsetAndEpoch) -> None:
        """Restarts the log at a local snapshot, because the leader has deleted the records."""
        node = self._node
        self._check_restart(state, snapshot_id)
        node.log.restart_at(snapshot_id)
        self._log_restart(state, snapshot_id)
        node.follower_high_watermark(state, node.log.high_watermark)

    def _log_restart(self, state: FollowerState, snapshot_id: OffsetAndEpoch) -> None:
        log = self._node.log
        self._node.logger.info(
            "Fully truncated the log at (%d, %d) after downloading snapshot %s from leader %d",
            log.end_offset, log.last_epoch, snapshot_id, state.leader_id,
        )  # fmt: skip

    def _check_restart(self, state: FollowerState, snapshot_id: OffsetAndEpoch) -> None:
        known = self._node.log.high_watermark
        if snapshot_id.offset < known:
            raise RaftFatal(
                f"Leader {state.leader_id} asks for a restart at snapshot {snapshot_id}, below "
                f"the high watermark {known}"
            )

    @staticmethod
    def _is_next_part(response: FetchSnapshotResponse, state: FollowerState) -> bool:
        return (
            response.snapshot_id == state.fetching_snapshot
            and response.position == state.fetched_bytes
            and 0 < len(response.data) <= response.size - response.position
        )

    def _drop_download(self, state: FollowerState) -> None:
        if state.fetching_snapshot is not None:
            self._node.log.drop_download()
            state.fetching_snapshot = None

    def _unexpected(
        self, source: int, response: AnyRaftResponse, error: ErrorCode | None = None
    ) -> bool:
        """Logs that a response is useless: for its error, or for this one."""
        self._node.logger.error(
            "Unexpected error %s in %s response: node %d",
            (error or response.error).name.upper(), response_api(response), source,
        )  # fmt: skip
        return False


def back_off(node: Node, state: CandidateState, now_ms: int) -> int:
    """Sets a candidate's backoff after a lost election: random, and longer after each one.

    Returns it in milliseconds.

    Source: Kafka ``KafkaRaftClient.binaryExponentialElectionBackoffMs``.
    """
    choices = 2 << min(20, state.retries - 1)
    drawn_ms = RETRY_BACKOFF_BASE_MS * node.random.randrange(choices)
    wait_ms = min(drawn_ms, node.config.election_backoff_max_ms)
    state.backoff_deadline_ms = now_ms + wait_ms
    return wait_ms
