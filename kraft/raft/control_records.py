"""Control records of the metadata log, which the raft layer writes for itself.

The key is a version (0) and a type, the value a message whose first field is its version.  The
markers of transactions (types 0 and 1) do not occur in this log.

Source: Kafka 3.9 ``ControlRecordType``, ``ControlRecordUtils``, ``RecordsIterator`` (KIP-595,
KIP-630, KIP-853).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final, TypeAlias, assert_never
from uuid import UUID

from kio.schema.k_raft_version_record.v0.data import KRaftVersionRecord
from kio.schema.leader_change_message.v0 import data as leader_change_v0
from kio.schema.leader_change_message.v1 import data as leader_change_v1
from kio.schema.snapshot_footer_record.v0.data import SnapshotFooterRecord
from kio.schema.snapshot_header_record.v0.data import SnapshotHeaderRecord
from kio.schema.types import BrokerId
from kio.schema.voters_record.v0 import data as voters_v0
from kio.static.primitive import i16, i32, i64, u16

from kafka_common.errors import InvalidFrame, InvalidRecord
from kafka_common.protocol.messages import read, write

LEADER_CHANGE: Final = 2
SNAPSHOT_HEADER: Final = 3
SNAPSHOT_FOOTER: Final = 4
KRAFT_VERSION: Final = 5
KRAFT_VOTERS: Final = 6

_KEY: Final = Struct(">hh")
_VERSION: Final = Struct(">h")


@dataclass(frozen=True, slots=True)
class LeaderChange:
    """The first record of an epoch: its leader, all voters, and those that voted for the leader."""

    leader_id: int
    voters: tuple[int, ...]
    granting_voters: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SnapshotHeader:
    """The first record of a snapshot."""

    last_contained_log_timestamp: int
    """When the last record in the snapshot was appended to the log, in milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class SnapshotFooter:
    """The last record of a snapshot; it shows that the snapshot is complete."""


@dataclass(frozen=True, slots=True)
class KRaftVersion:
    """The finalized ``kraft.version``: 0 for static voters, 1 for voters that the log names."""

    kraft_version: int


@dataclass(frozen=True, slots=True)
class VoterEndpoint:
    """The address of a voter's listener ``name``."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Voter:
    """A member of the quorum, and the versions of the raft protocol that it supports."""

    voter_id: int
    voter_directory_id: UUID | None
    """None if the record has the id of all zeros."""
    endpoints: tuple[VoterEndpoint, ...]
    min_supported_version: int
    max_supported_version: int


@dataclass(frozen=True, slots=True)
class KRaftVoters:
    """The set of voters from this record on."""

    voters: tuple[Voter, ...]


ControlRecord: TypeAlias = (
    LeaderChange | SnapshotHeader | SnapshotFooter | KRaftVersion | KRaftVoters
)


def encode_control_record(record: ControlRecord) -> tuple[bytes, bytes]:
    """The key and value of a control record, both in version 0, as Kafka 3.9 writes them."""
    match record:
        case LeaderChange():
            return _KEY.pack(0, LEADER_CHANGE), write(_leader_change(record))
        case SnapshotHeader(timestamp):
            header = SnapshotHeaderRecord(
                version=i16(0), last_contained_log_timestamp=i64(timestamp)
            )
            return _KEY.pack(0, SNAPSHOT_HEADER), write(header)
        case SnapshotFooter():
            return _KEY.pack(0, SNAPSHOT_FOOTER), write(SnapshotFooterRecord(version=i16(0)))
        case KRaftVersion(version):
            kraft_version = KRaftVersionRecord(version=i16(0), k_raft_version=i16(version))
            return _KEY.pack(0, KRAFT_VERSION), write(kraft_version)
        case KRaftVoters(voters):
            message = voters_v0.VotersRecord(version=i16(0), voters=tuple(map(_to_kio, voters)))
            return _KEY.pack(0, KRAFT_VOTERS), write(message)
        case _:
            assert_never(record)


def decode_control_record(key: bytes | None, value: bytes | None) -> ControlRecord:
    """The control record of that key and value; InvalidRecord if this log has no such record.

    A value of a version that Kafka 3.9 does not know is refused too; Kafka reads it as version 0.
    The directory ids in a LeaderChange of version 1 are left out.
    """
    found = control_type(key)
    if found not in _READERS:
        raise InvalidRecord(f"Unknown control record type {found} in the metadata log")
    if value is None or len(value) < _VERSION.size:
        raise InvalidRecord(f"A control record of type {found} has no value with a version")
    (version,) = _VERSION.unpack_from(value)
    message_types, make = _READERS[found]
    if not 0 <= version < len(message_types):
        raise InvalidRecord(f"A control record of type {found} has version {version}")
    try:
        return make(read(message_types[version], value))
    except InvalidFrame as error:
        raise InvalidRecord(f"A control record of type {found}: {error}") from error


def control_type(key: bytes | None) -> int:
    """The type in a control record's key; InvalidRecord if the key is malformed."""
    if key is None or len(key) < _KEY.size:
        raise InvalidRecord(f"A control record has no key of at least {_KEY.size} bytes")
    version, found = _KEY.unpack_from(key)
    if version < 0:
        raise InvalidRecord(f"Invalid version found for control record: {version}")
    return int(found)


def _leader_change(record: LeaderChange) -> leader_change_v0.LeaderChangeMessage:
    return leader_change_v0.LeaderChangeMessage(
        version=i16(0),
        leader_id=BrokerId(record.leader_id),
        voters=tuple(leader_change_v0.Voter(voter_id=i32(voter)) for voter in record.voters),
        granting_voters=tuple(
            leader_change_v0.Voter(voter_id=i32(voter)) for voter in record.granting_voters
        ),
    )


def _to_kio(voter: Voter) -> voters_v0.Voter:
    return voters_v0.Voter(
        voter_id=BrokerId(voter.voter_id),
        voter_directory_id=voter.voter_directory_id,
        endpoints=tuple(
            voters_v0.Endpoint(name=endpoint.name, host=endpoint.host, port=u16(endpoint.port))
            for endpoint in voter.endpoints
        ),
        k_raft_version_feature=voters_v0.KRaftVersionFeature(
            min_supported_version=i16(voter.min_supported_version),
            max_supported_version=i16(voter.max_supported_version),
        ),
    )


def _from_kio(voter: voters_v0.Voter) -> Voter:
    return Voter(
        voter.voter_id,
        voter.voter_directory_id,
        tuple(VoterEndpoint(point.name, point.host, point.port) for point in voter.endpoints),
        voter.k_raft_version_feature.min_supported_version,
        voter.k_raft_version_feature.max_supported_version,
    )


_READERS: Final[dict[int, tuple[tuple[type[Any], ...], Callable[[Any], ControlRecord]]]] = {
    LEADER_CHANGE: (
        (leader_change_v0.LeaderChangeMessage, leader_change_v1.LeaderChangeMessage),
        lambda message: LeaderChange(
            message.leader_id,
            tuple(voter.voter_id for voter in message.voters),
            tuple(voter.voter_id for voter in message.granting_voters),
        ),
    ),
    SNAPSHOT_HEADER: (
        (SnapshotHeaderRecord,),
        lambda message: SnapshotHeader(message.last_contained_log_timestamp),
    ),
    SNAPSHOT_FOOTER: ((SnapshotFooterRecord,), lambda _: SnapshotFooter()),
    KRAFT_VERSION: ((KRaftVersionRecord,), lambda message: KRaftVersion(message.k_raft_version)),
    KRAFT_VOTERS: (
        (voters_v0.VotersRecord,),
        lambda message: KRaftVoters(tuple(map(_from_kio, message.voters))),
    ),
}
