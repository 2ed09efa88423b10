"""What followers of a raft leader ask and get."""

from __future__ import annotations

from kraft.raft.messages import FetchRequest, FetchResponse
from kraft.raft.outputs import RaftOutput, SendRequest
from kraft.raft.values import OffsetAndEpoch


def fetches(outputs: list[RaftOutput]) -> list[tuple[int, int, int]]:
    """The Fetches among the outputs: whom they go to, from where, of which epoch the last is."""
    return [
        (output.destination_id, output.request.fetch_offset, output.request.last_fetched_epoch)
        for output in outputs
        if isinstance(output, SendRequest) and isinstance(output.request, FetchRequest)
    ]


def diverging(leader: int, epoch: int, offset: int, last_epoch: int) -> FetchResponse:
    return FetchResponse(
        leader_id=leader, leader_epoch=epoch, diverging_epoch=OffsetAndEpoch(offset, last_epoch)
    )
