"""Strangers send requests to a quorum that they do not belong to, by mistake or to do harm.

A stranger has an id that no node has.  Raft trusts its voters, so no rule can survive a stranger
that uses the id of a voter.  A request with the stranger's own id must change nothing.
"""

from __future__ import annotations

from typing import Final

from kraft.raft.config import LAST_EPOCH, MAX_EPOCH_LEAP
from kraft.raft.messages import (
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    RaftRequest,
    VoteRequest,
)
from kraft.raft.values import NodeAddress, OffsetAndEpoch, ReplicaKey
from zkcontroller_simulation.raft_world import RaftWorld
from zkcontroller_simulation.timeline import Bounds

STRANGER: Final = 77
HOME: Final = {"CONTROLLER": NodeAddress("node-77", 9093)}
MOST_MISCHIEF: Final = LAST_EPOCH // 2 + 8 * MAX_EPOCH_LEAP
"""So far a few messages can raise the epoch, and no farther."""
_WILD_OFFSETS: Final = (-(2**63), -1, 0, 1, 7, 1_000, 2**63 - 1)
_WILD_EPOCHS: Final = (-(2**31), -1, 0, 1, 2, 7, 2**30, LAST_EPOCH)


class Strangers:
    """Says something to some node now and then."""

    def __init__(self, world: RaftWorld) -> None:
        self._world = world
        self._random = world.random
        self.is_talking = False

    def talk_every(self, bounds: Bounds) -> None:
        """From now on, as long as ``is_talking``."""
        self.is_talking = True

        def talk() -> None:
            if self.is_talking:
                asked = self._random.choice(list(self._world.nodes))
                self._world.network.intrude(STRANGER, asked, self._request(asked))
                self._world.timeline.after(self._world.timeline.within(bounds), talk)

        talk()

    @property
    def newest_epoch(self) -> int:
        """Of all who run."""
        return max((process.core.epoch for process in self._world.running if process.core),
                   default=0)  # fmt: skip

    def _request(self, asked: int) -> RaftRequest:
        choice = self._random.choice
        epoch = choice((self.newest_epoch, choice(_WILD_EPOCHS)))
        make = choice((self._vote, self._begin, self._end, self._fetch, self._fetch_snapshot))
        return make(asked, epoch) if self._random.random() < 0.9 else DescribeQuorumRequest()

    def _vote(self, asked: int, epoch: int) -> VoteRequest:
        candidate_epoch = self._random.choice(
            (epoch + 1, self._random.randint(-(2**31), LAST_EPOCH), LAST_EPOCH)
        )
        voter = self._random.choice((None, ReplicaKey(asked), ReplicaKey(STRANGER)))
        return VoteRequest(
            None, voter, min(candidate_epoch, LAST_EPOCH), ReplicaKey(STRANGER), self._place()
        )

    def _begin(self, asked: int, _: int) -> BeginQuorumEpochRequest:
        return BeginQuorumEpochRequest(
            None, ReplicaKey(asked), STRANGER, self._incredible(), self._random.choice((HOME, {}))
        )

    def _end(self, asked: int, _: int) -> EndQuorumEpochRequest:
        return EndQuorumEpochRequest(
            None,
            STRANGER,
            self._incredible(),
            (ReplicaKey(asked),),
            self._random.choice((HOME, {})),
        )

    def _incredible(self) -> int:
        """A leader that is believed is one, so these are not to be."""
        newest = max(self.newest_epoch, LAST_EPOCH // 2)
        return self._random.randint(newest + 2 * MAX_EPOCH_LEAP, LAST_EPOCH)

    def _fetch(self, asked: int, epoch: int) -> FetchRequest:
        replica = self._random.choice((None, ReplicaKey(STRANGER), ReplicaKey(asked)))
        offset, last_epoch = self._place()
        wait_ms, size = self._random.choice((-1, 0, 300, 2**31 - 1)), self._place().offset
        return FetchRequest(None, replica, epoch, offset, last_epoch, wait_ms, size)

    def _fetch_snapshot(self, asked: int, epoch: int) -> FetchSnapshotRequest:
        replica = self._random.choice((None, ReplicaKey(STRANGER), ReplicaKey(asked)))
        known = list(self._world.nodes[asked].log.snapshots)
        snapshot_id = self._random.choice([*known, self._place()])
        position, size = self._place().offset, self._place().offset
        return FetchSnapshotRequest(None, replica, epoch, snapshot_id, position, size)

    def _place(self) -> OffsetAndEpoch:
        return OffsetAndEpoch(self._random.choice(_WILD_OFFSETS), self._random.choice(_WILD_EPOCHS))
