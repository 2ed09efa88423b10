"""Parts of the log lines of a node: its prefix, its states, its voters, a request for its vote.

The lines are Kafka's, so that what is written about Kafka's logs is true of these.

Two things differ.  Kafka prints a candidate's votes as ids of Java objects; here they are words.
Kafka's high watermark may have the place in the leader's segment; here that is always empty.

Source: the ``toString`` of Kafka ``UnattachedState``, ``CandidateState``, ``LeaderState``,
``FollowerState``, ``ResignedState``, ``VoterSet``, ``Endpoints``, and ``VoteRequestData``.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, TypeAlias, assert_never
from uuid import UUID

from kafka_common.observability.java_values import (
    boolean,
    java_list,
    optional,
    socket_address_text,
    upper_snake_case,
)
from kafka_common.observability.prefixed_log import PrefixedLog
from kafka_common.protocol.uuid_text import uuid_text
from kraft.raft.leader_state import LeaderState, VoterOrObserver
from kraft.raft.messages import AnyRaftResponse, Endpoints, VoteRequest
from kraft.raft.states import CandidateState, FollowerState, ResignedState, UnattachedState
from kraft.raft.values import METADATA_PARTITION, METADATA_TOPIC, NO_ID, ReplicaKey, VoterSet

RaftState: TypeAlias = (
    UnattachedState | CandidateState | LeaderState | FollowerState | ResignedState
)

_ZERO: Final = UUID(int=0)


def raft_logger(class_name: str, local: ReplicaKey | None) -> PrefixedLog:
    """The logger of a class of Kafka's ``raft``; its lines begin with ``[RaftManager id=1] ``."""
    node_id = NO_ID if local is None else local.id
    logger = logging.getLogger(f"org.apache.kafka.raft.{class_name}")
    return PrefixedLog(logger, f"[RaftManager id={node_id}] ")


def state_text(state: RaftState, voters: Sequence[int], timeout_ms: int) -> str:
    """The state; ``timeout_ms``: of its election, or of a follower's fetches."""
    watermark = optional_offset(state.high_watermark)
    listed = java_list(voters)
    match state:
        case UnattachedState():
            voted = "null" if state.voted_key is None else state.voted_key
            return (
                f"Unattached(epoch={state.epoch}, votedKey={voted}, voters={listed}, "
                f"electionTimeoutMs={timeout_ms}, highWatermark={watermark})"
            )
        case CandidateState():
            votes = ", ".join(f"{voter}={vote.name}" for voter, vote in state.votes.items())
            return (
                f"CandidateState(localId={state.local.id}, "
                f"localDirectoryId={uuid_text(state.local.directory_id or _ZERO)},"
                f"epoch={state.epoch}, retries={state.retries}, voteStates={{{votes}}}, "
                f"highWatermark={watermark}, electionTimeoutMs={timeout_ms})"
            )
        case LeaderState():
            states = ", ".join(
                f"{voter}={replica_state_text(each)}" for voter, each in state.voter_states.items()
            )
            return (
                f"Leader(localReplicaKey={state.local}, epoch={state.epoch}, "
                f"epochStartOffset={state.epoch_start_offset}, highWatermark={watermark}, "
                f"voterStates={{{states}}})"
            )
        case FollowerState():
            return (
                f"FollowerState(fetchTimeoutMs={timeout_ms}, epoch={state.epoch}, "
                f"leader={state.leader_id}, "
                f"leaderEndpoints={endpoints_text(state.leader_endpoints)}, voters={listed}, "
                f"highWatermark={watermark}, fetchingSnapshot={optional(state.fetching_snapshot)})"
            )
        case ResignedState():
            return (
                f"ResignedState(localId={state.local_id}, epoch={state.epoch}, voters={listed}, "
                f"electionTimeoutMs={timeout_ms}, unackedVoters={java_list(state.unacked_voters)}, "
                f"preferredSuccessors={java_list(state.preferred_successors)})"
            )
        case _:
            assert_never(state)


def replica_state_text(state: VoterOrObserver) -> str:
    """What a leader knows of a replica."""
    return (
        f"ReplicaState(replicaKey={state.replica}, endOffset={optional_offset(state.end_offset)}, "
        f"lastFetchTimestamp={state.last_fetch_ms}, "
        f"lastCaughtUpTimestamp={state.last_caught_up_ms}, "
        f"hasAcknowledgedLeader={boolean(state.has_acknowledged_leader)})"
    )


def optional_offset(offset: int | None) -> str:
    """A place in the log, or ``Optional.empty`` while it is unknown."""
    return optional(None if offset is None else offset_text(offset))


def offset_text(offset: int) -> str:
    """A place in the log."""
    return f"LogOffsetMetadata(offset={offset}, metadata=Optional.empty)"


def endpoints_text(endpoints: Endpoints) -> str:
    """The addresses of a node."""
    listed = ", ".join(
        f"ListenerName({name})={socket_address_text(*address)}"
        for name, address in endpoints.items()
    )
    return f"Endpoints(endpoints={{{listed}}})"


def voters_text(voters: VoterSet, listener_name: str) -> str:
    """The voters with their addresses; they are static, so they have no directory ids."""
    listed = ", ".join(
        f"{voter}=VoterNode(voterKey={ReplicaKey(voter)}, "
        f"listeners={endpoints_text({listener_name: voters.endpoints[voter]})}, "
        "supportedKRaftVersion=SupportedVersionRange[min_version:0, max_version:0])"
        for voter in voters
    )
    return f"VoterSet(voters={{{listed}}})"


def response_api(response: AnyRaftResponse) -> str:
    """The name of a response's API: ``BEGIN_QUORUM_EPOCH``."""
    return upper_snake_case(type(response).__name__.removesuffix("Response"))


def vote_request_text(request: VoteRequest) -> str:
    """A candidate's request."""
    voter = request.voter or ReplicaKey(NO_ID)
    cluster_id = "null" if request.cluster_id is None else f"'{request.cluster_id}'"
    return (
        f"VoteRequestData(clusterId={cluster_id}, voterId={voter.id}, "
        f"topics=[TopicData(topicName='{METADATA_TOPIC}', "
        f"partitions=[PartitionData(partitionIndex={METADATA_PARTITION}, "
        f"candidateEpoch={request.candidate_epoch}, candidateId={request.candidate.id}, "
        f"candidateDirectoryId={uuid_text(request.candidate.directory_id or _ZERO)}, "
        f"voterDirectoryId={uuid_text(voter.directory_id or _ZERO)}, "
        f"lastOffsetEpoch={request.log_end.epoch}, lastOffset={request.log_end.offset})])])"
    )
