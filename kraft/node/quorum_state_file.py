"""``quorum-state``: the persisted election of a quorum node, one line of JSON.

Version 0 is for static voters and lists them; version 1 is for ``kraft.version`` 1 and has the
directory id of the candidate voted for.  A new file is written under another name, synced and
renamed, so a crash leaves either the old or the new one.  A malformed file is refused: a node with
a wrong vote could vote twice.

Source: Kafka ``FileQuorumStateStore``, ``QuorumStateData``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from uuid import UUID

from kafka_common.errors import ZkControllerError
from kafka_common.protocol.uuid_text import parse_uuid, uuid_text
from kraft.raft.values import NO_LEADER, ElectionState, ReplicaKey, VoterSet
from replica_manager.log.files import replace_file

FILE_NAME: Final = "quorum-state"
NEWEST_VERSION: Final = 1
_MAX_BYTES: Final = 1024 * 1024
_NOT_VOTED: Final = -1
_NO_DIRECTORY: Final = UUID(int=0)


class QuorumStateCorrupt(ZkControllerError):
    """The file is malformed, so this node's vote is unknown."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"Error while reading the Quorum status from the file {path}: {reason}")


class QuorumStateFile:
    """Stores the election of one node in ``quorum-state``."""

    def __init__(self, directory: Path, voters: VoterSet) -> None:
        """``directory`` is the metadata log's directory."""
        self._directory = directory
        self._voters = voters

    def read(self) -> ElectionState | None:
        """The stored election; see :func:`read_quorum_state`."""
        return read_quorum_state(self._directory)

    def write(self, election: ElectionState) -> None:
        """Stores the election; returns when it is on disk."""
        write_quorum_state(self._directory, election, self._voters.ids)


def write_quorum_state(
    directory: Path, election: ElectionState, voter_ids: Sequence[int], *, version: int = 0
) -> None:
    """Replaces the file in that folder.  Blocks until it is on disk; OSError if that fails.

    ``voter_ids`` are the static voters, for version 0.
    """
    replace_file(directory / FILE_NAME, encode_quorum_state(election, voter_ids, version=version))


def read_quorum_state(directory: Path) -> ElectionState | None:
    """The election in the file, None without a file; QuorumStateCorrupt if malformed."""
    path = directory / FILE_NAME
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    if len(content) > _MAX_BYTES:
        raise QuorumStateCorrupt(path, f"it has more than {_MAX_BYTES} bytes")
    try:
        return decode_quorum_state(content)
    except ValueError as wrong:
        raise QuorumStateCorrupt(path, str(wrong)) from None


def encode_quorum_state(
    election: ElectionState, voter_ids: Sequence[int], *, version: int
) -> bytes:
    """The file's only line, without a line end."""
    assert 0 <= version <= NEWEST_VERSION, f"data_version {version}"
    voted = election.voted_key
    leader_id = NO_LEADER if election.leader_id is None else election.leader_id
    fields: dict[str, object] = {
        "leaderId": leader_id,
        "leaderEpoch": election.epoch,
        "votedId": _NOT_VOTED if voted is None else voted.id,
    }
    if version == 0:
        voters = [{"voterId": voter_id} for voter_id in voter_ids]
        fields = {"clusterId": "", **fields, "appliedOffset": 0, "currentVoters": voters}
    else:
        voted_directory = None if voted is None else voted.directory_id
        fields["votedDirectoryId"] = uuid_text(voted_directory or _NO_DIRECTORY)
    fields["data_version"] = version
    return json.dumps(fields, separators=(",", ":")).encode()


def decode_quorum_state(content: bytes) -> ElectionState:
    """The election in the first line; ValueError if malformed."""
    fields = _first_object(content)
    if "data_version" not in fields:
        raise ValueError("it does not have data_version field")
    version = _integer(fields, "data_version", 16)
    if not 0 <= version <= NEWEST_VERSION:
        raise ValueError(
            f"data_version ({version}) is not within the min (0) and max ({NEWEST_VERSION}) "
            "supported version"
        )
    leader_id = _integer(fields, "leaderId", 32)
    epoch = _integer(fields, "leaderEpoch", 32)
    voted_id = _integer(fields, "votedId", 32)
    directory_id = None
    if version == 0:
        _check_what_only_version_0_has(fields)
    else:
        directory_id = _directory_id(fields)
    if epoch < 0 or leader_id < NO_LEADER or voted_id < _NOT_VOTED:
        raise ValueError(f"leader {leader_id} and vote {voted_id} in epoch {epoch} cannot be")
    if leader_id != NO_LEADER and voted_id != _NOT_VOTED:
        raise ValueError(f"leader {leader_id} and a vote for {voted_id} in one epoch cannot be")
    return ElectionState(
        epoch,
        None if leader_id == NO_LEADER else leader_id,
        None if voted_id == _NOT_VOTED else ReplicaKey(voted_id, directory_id),
    )


def _first_object(content: bytes) -> Mapping[str, object]:
    line = content.decode().partition("\n")[0]
    if not line:
        raise ValueError("File ended prematurely.")
    try:
        found = json.loads(line)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError(f"Deserialized node {line[:80]} is not an object node")
    return found


def _check_what_only_version_0_has(fields: Mapping[str, object]) -> None:
    """Checks fields that are mandatory in version 0 and not used."""
    if not isinstance(_mandatory(fields, "clusterId"), str):
        raise ValueError("clusterId is not a string")
    _integer(fields, "appliedOffset", 64)
    voters = _mandatory(fields, "currentVoters")
    if voters is None:
        return
    if not isinstance(voters, list):
        raise ValueError("currentVoters is not a list")
    for voter in voters:
        if not isinstance(voter, dict):
            raise ValueError("one of currentVoters is not an object")
        _integer(voter, "voterId", 32)


def _directory_id(fields: Mapping[str, object]) -> UUID | None:
    text = _mandatory(fields, "votedDirectoryId")
    if not isinstance(text, str):
        raise ValueError("votedDirectoryId is not a string")
    found = parse_uuid(text)
    return None if found == _NO_DIRECTORY else found


def _mandatory(fields: Mapping[str, object], name: str) -> object:
    if name not in fields:
        raise ValueError(f"unable to locate field {name!r}, which is mandatory")
    return fields[name]


def _integer(fields: Mapping[str, object], name: str, bits: int) -> int:
    value = _mandatory(fields, name)
    # True is an int in Python.
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{name} is not a whole number")
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise ValueError(f"{name} has more than {bits} bits")
    return value
