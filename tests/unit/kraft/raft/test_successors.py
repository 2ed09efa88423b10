"""Who stands how soon when a leader resigns and names its successors."""

from __future__ import annotations

from uuid import UUID

import pytest

from kraft.raft.messages import EndQuorumEpochRequest, EndQuorumEpochResponse
from kraft.raft.states import StateName
from kraft.raft.values import ReplicaKey
from tests.support.raft_harness import CLUSTER, CONFIG, following

HERE, ELSEWHERE = UUID(int=101), UUID(int=202)


@pytest.mark.parametrize(
    ("successors", "wait_ms"),
    [
        ((ReplicaKey(1), ReplicaKey(3)), 0),
        ((ReplicaKey(1, HERE), ReplicaKey(3)), 0),
        ((ReplicaKey(1, ELSEWHERE), ReplicaKey(3)), CONFIG.election_backoff_max_ms),
        ((ReplicaKey(1, ELSEWHERE), ReplicaKey(1, HERE)), CONFIG.election_backoff_max_ms // 2),
        ((ReplicaKey(3),), CONFIG.election_backoff_max_ms),
    ],
    ids=["id alone", "this directory", "another directory", "both", "others"],
)
def test_a_successor_in_another_directory_is_another_replica(
    successors: tuple[ReplicaKey, ...], wait_ms: int
) -> None:
    node, _ = following(2, epoch=7, local=ReplicaKey(1, HERE))

    node.asked(EndQuorumEpochResponse, EndQuorumEpochRequest(CLUSTER, 2, 7, successors, {}))
    if wait_ms:
        node.run_ms(wait_ms - 1)
        assert node.state() is StateName.FOLLOWER
        node.run_ms(1)

    assert node.state() is StateName.CANDIDATE
