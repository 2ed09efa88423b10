"""Describes messages of the quorum in a few words, for the history."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from kraft.raft.messages import (
    AnyRaftResponse,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
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
from kraft.raft.values import ElectionState, OffsetAndEpoch
from zkcontroller_simulation.raft_log_model import whole_batches


def request_in_words(request: RaftRequest) -> str:
    """A request in a few words."""
    match request:
        case VoteRequest():
            log_end = place(request.log_end)
            return f"Vote for {request.candidate.id} in {request.candidate_epoch}, log {log_end}"
        case BeginQuorumEpochRequest():
            return f"BeginQuorumEpoch: {request.leader_id} leads {request.leader_epoch}"
        case EndQuorumEpochRequest():
            heirs = ",".join(str(key.id) for key in request.preferred_candidates)
            return (
                f"EndQuorumEpoch: {request.leader_id} led {request.leader_epoch}, heirs [{heirs}]"
            )
        case FetchRequest():
            log_end = place(OffsetAndEpoch(request.fetch_offset, request.last_fetched_epoch))
            return f"Fetch in {request.leader_epoch} from {log_end}"
        case FetchSnapshotRequest():
            snapshot = place(request.snapshot_id)
            return (
                f"FetchSnapshot in {request.leader_epoch} of {snapshot} from byte"
                f" {request.position}"
            )
        case DescribeQuorumRequest():
            return "DescribeQuorum"


def response_in_words(response: AnyRaftResponse) -> str:
    """A response in a few words."""
    return f"{_content(response)}{_error(response)} ({leader_in_words(response)})"


def leader_in_words(response: AnyRaftResponse) -> str:
    """The epoch and leader in a response."""
    leader = response.leader_id
    nobody = leader is None or leader < 0
    return f"epoch {response.leader_epoch}" + ("" if nobody else f" led by {leader}")


def election_in_words(election: ElectionState) -> str:
    """A persisted election state in a few words."""
    if election.leader_id is not None:
        return f"epoch {election.epoch} led by {election.leader_id}"
    if election.voted_key is not None:
        return f"epoch {election.epoch} vote for {election.voted_key.id}"
    return f"epoch {election.epoch}"


def place(where: OffsetAndEpoch) -> str:
    """A log end as ``offset@epoch``: the offset, and the epoch of the record before it."""
    return f"{where.offset}@{where.epoch}"


def _error(response: AnyRaftResponse) -> str:
    for error in (response.top_level_error, response.error):
        if error is not ErrorCode.none:
            return f" {error.name}"
    return ""


def _content(response: AnyRaftResponse) -> str:
    match response:
        case VoteResponse():
            return "Vote granted" if response.vote_granted else "Vote refused"
        case BeginQuorumEpochResponse():
            return "BeginQuorumEpoch"
        case EndQuorumEpochResponse():
            return "EndQuorumEpoch"
        case FetchSnapshotResponse():
            part = f"{response.position}+{len(response.data)} of {response.size}"
            return f"FetchSnapshot {place(response.snapshot_id)} {part}"
        case DescribeQuorumResponse():
            return "DescribeQuorum"
        case FetchResponse():
            return _fetched(response)


def _fetched(response: FetchResponse) -> str:
    if response.diverging_epoch is not None:
        return f"Fetch diverges at {place(response.diverging_epoch)}"
    if response.snapshot_id is not None:
        return f"Fetch needs snapshot {place(response.snapshot_id)}"
    batches = whole_batches(response.records)
    records = f"{batches[0].base_offset}..{batches[-1].next_offset - 1}" if batches else "nothing"
    if response.error is not ErrorCode.none:
        return "Fetch"
    return f"Fetch gets {records}, high watermark {response.high_watermark}"
