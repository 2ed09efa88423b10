"""Values of the raft quorum: replicas, voters, offsets with epochs, elections.

A directory id of all zeros on the wire is None here: static voters have no directory id.

Source: Kafka ``ReplicaKey``, ``VoterSet``, ``OffsetAndEpoch``, ``LeaderAndEpoch``,
``ElectionState``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from typing_extensions import override

from kafka_common.observability.java_values import optional
from kafka_common.protocol.uuid_text import uuid_text
from kraft.raft.guards import require

METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_TOPIC_ID: Final = UUID(int=1)
METADATA_PARTITION: Final = 0

NO_ID: Final = -1
"""The id of a node that has none."""
NO_LEADER: Final = -1
"""The leader id that means no leader, in messages and in the ``quorum-state`` file."""


class OffsetAndEpoch(NamedTuple):
    """The end of a log or snapshot: the next offset, and the epoch of the last record."""

    offset: int
    epoch: int

    @override
    def __str__(self) -> str:
        return f"OffsetAndEpoch(offset={self.offset}, epoch={self.epoch})"

    @property
    def file_stem(self) -> str:
        """The name of a snapshot's file without its suffix."""
        return f"{self.offset:020d}-{self.epoch:010d}"


class ReplicaKey(NamedTuple):
    """A replica of the metadata log: a node id and the id of its log directory."""

    id: int
    directory_id: UUID | None = None

    @override
    def __str__(self) -> str:
        directory = None if self.directory_id is None else uuid_text(self.directory_id)
        return f"ReplicaKey(id={self.id}, directoryId={optional(directory)})"


class NodeAddress(NamedTuple):
    """Host and port of a node's listener."""

    host: str
    port: int


class LeaderAndEpoch(NamedTuple):
    """An epoch and the id of its leader, None while unknown."""

    leader_id: int | None
    epoch: int


@dataclass(frozen=True, slots=True)
class VoterSet:
    """The voters of a quorum with the endpoint of each, in the order of their ids.

    These are static voters (``controller.quorum.voters``, kraft.version 0).  A voter is identified
    by its id alone; its directory id does not matter.
    """

    endpoints: Mapping[int, NodeAddress]
    ids: tuple[int, ...] = field(init=False)
    """The voters' ids, ascending."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", tuple(sorted(self.endpoints)))

    @property
    def majority(self) -> int:
        """The number of voters that form a majority."""
        return len(self.endpoints) // 2 + 1

    def __contains__(self, replica_id: object) -> bool:
        return replica_id in self.endpoints

    def __iter__(self) -> Iterator[int]:
        return iter(self.ids)

    def __len__(self) -> int:
        return len(self.endpoints)

    def others(self, local_id: int | None) -> tuple[int, ...]:
        """The ids of all voters except ``local_id``."""
        return tuple(voter for voter in self.ids if voter != local_id)

    def is_only_voter(self, local_id: int | None) -> bool:
        """Whether ``local_id`` is the only voter."""
        return self.ids == (local_id,)


@dataclass(frozen=True, slots=True)
class ElectionState:
    """The persisted election of an epoch: its leader, or the candidate voted for, or neither."""

    epoch: int
    leader_id: int | None = None
    voted_key: ReplicaKey | None = None

    def __post_init__(self) -> None:
        require(self.epoch >= 0, f"epoch {self.epoch}")
        require(
            self.leader_id is None or self.voted_key is None, "a leader and a vote in one epoch"
        )


def by_descending_offset(offsets: Mapping[int, int | None]) -> Sequence[int]:
    """The ids by offset, highest first, unknown offsets (None) last; by id at equal offsets."""
    return sorted(offsets, key=lambda voter: (-_or_minus_one(offsets[voter]), voter))


def _or_minus_one(offset: int | None) -> int:
    return -1 if offset is None else offset
