"""``quorum-state``: byte for byte as Kafka writes it, and read without forgiveness."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.node.quorum_state_file import (
    QuorumStateCorrupt,
    decode_quorum_state,
    encode_quorum_state,
    read_quorum_state,
    write_quorum_state,
)
from kraft.raft.values import ElectionState, ReplicaKey

DIRECTORY = UUID("7a3adf01-39d1-70ad-860b-1a5fb27fbc5e")
V0 = (
    b'{"clusterId":"","leaderId":-1,"leaderEpoch":5,"votedId":2,"appliedOffset":0,'
    b'"currentVoters":[{"voterId":1},{"voterId":2}],"data_version":0}'
)
V1 = (
    b'{"leaderId":-1,"leaderEpoch":5,"votedId":2,"votedDirectoryId":"ejrfATnRcK2GCxpfsn-8Xg",'
    b'"data_version":1}'
)


def test_both_versions_are_written_as_kafka_writes_them() -> None:
    voted = ElectionState(5, None, ReplicaKey(2, DIRECTORY))

    assert encode_quorum_state(voted, (1, 2), version=0) == V0
    assert encode_quorum_state(voted, (1, 2), version=1) == V1
    assert encode_quorum_state(ElectionState(7, 3), (), version=1) == (
        b'{"leaderId":3,"leaderEpoch":7,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA",'
        b'"data_version":1}'
    )


def test_an_absent_file_is_nothing_and_a_written_one_is_read_again(tmp_path: Path) -> None:
    assert read_quorum_state(tmp_path) is None

    for election in (ElectionState(5, None, ReplicaKey(2)), ElectionState(6, 1), ElectionState(7)):
        write_quorum_state(tmp_path, election, (1, 2, 3))
        assert read_quorum_state(tmp_path) == election

    assert [path.name for path in tmp_path.iterdir()] == ["quorum-state"]


def test_what_a_crash_left_beside_the_file_does_not_count(tmp_path: Path) -> None:
    write_quorum_state(tmp_path, ElectionState(5, 1), (1,))
    (tmp_path / "quorum-state.tmp").write_bytes(b'{"leaderId":')

    assert read_quorum_state(tmp_path) == ElectionState(5, 1)
    write_quorum_state(tmp_path, ElectionState(6, 1), (1,))
    assert read_quorum_state(tmp_path) == ElectionState(6, 1)


def test_the_directory_of_a_vote_is_known_in_version_1_only() -> None:
    assert decode_quorum_state(V0).voted_key == ReplicaKey(2)
    assert decode_quorum_state(V1).voted_key == ReplicaKey(2, DIRECTORY)


@given(
    epoch=st.integers(0, 2**31 - 1),
    node=st.integers(0, 2**31 - 1),
    kind=st.sampled_from(("leader", "vote", "nobody")),
    version=st.integers(0, 1),
)
def test_every_election_is_read_as_it_was_written(
    epoch: int, node: int, kind: str, version: int
) -> None:
    election = ElectionState(
        epoch,
        node if kind == "leader" else None,
        ReplicaKey(node) if kind == "vote" else None,
    )

    assert decode_quorum_state(encode_quorum_state(election, (node,), version=version)) == election


@pytest.mark.parametrize("version", [V0, V1])
def test_every_field_is_mandatory(version: bytes) -> None:
    fields = json.loads(version)
    for name in fields:
        without = {key: value for key, value in fields.items() if key != name}
        with pytest.raises(ValueError, match=name):
            decode_quorum_state(json.dumps(without).encode())


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (b"", "ended prematurely"),
        (b"[]", "not an object"),
        (b"{", "Expecting property name"),
        (b"\xff", "codec can't decode"),
        (b"[" * 100_000, "deeply"),
        (V0.replace(b'_version":0', b'_version":2'), r"data_version \(2\) is not within the min"),
        (V0.replace(b'_version":0', b'_version":-1'), r"data_version \(-1\)"),
        (V0.replace(b'_version":0', b'_version":"0"'), "data_version is not a whole number"),
        (V0.replace(b'_version":0', b'_version":false'), "data_version is not a whole number"),
        (V0.replace(b'Epoch":5', b'Epoch":-5'), "cannot be"),
        (V0.replace(b'Epoch":5', b'Epoch":2147483648'), "more than 32 bits"),
        (V0.replace(b'Epoch":5', b'Epoch":5.0'), "not a whole number"),
        (V0.replace(b'leaderId":-1', b'leaderId":1'), "in one epoch"),
        (V0.replace(b'leaderId":-1', b'leaderId":-2'), "cannot be"),
        (V0.replace(b'clusterId":""', b'clusterId":7'), "clusterId"),
        (V0.replace(b'{"voterId":1}', b"1"), "currentVoters"),
        (V1.replace(b"ejrfATnRcK2GCxpfsn-8Xg", b"short"), "not an id"),
    ],
)
def test_nonsense_is_refused_with_the_name_of_the_file(
    tmp_path: Path, found: bytes, reason: str
) -> None:
    (tmp_path / "quorum-state").write_bytes(found)

    with pytest.raises(QuorumStateCorrupt, match=reason) as refused:
        read_quorum_state(tmp_path)
    assert str(tmp_path / "quorum-state") in str(refused.value)


def test_a_file_that_is_far_too_large_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "quorum-state").write_bytes(V0 + b" " * 1024 * 1024)

    with pytest.raises(QuorumStateCorrupt, match="more than"):
        read_quorum_state(tmp_path)
