"""What a follower does with a leader's answer, where nothing else runs between two of its steps."""

from __future__ import annotations

from replica_manager.replication.fetch_requests import AskRecords, LeaderFetchResponse
from replica_manager.replication.replica_fetcher import Progress, ReplicaFetcher


def take_records(
    fetcher: ReplicaFetcher, request: AskRecords, responses: LeaderFetchResponse, now_ms: int
) -> Progress:
    """All steps of :meth:`ReplicaFetcher.records_steps` at one time, and their effects."""
    progress = Progress()
    for _, step in fetcher.records_steps(request, responses, lambda: now_ms):
        progress.high_watermark_moved += step.high_watermark_moved
        progress.bytes_in += step.bytes_in
    return progress
