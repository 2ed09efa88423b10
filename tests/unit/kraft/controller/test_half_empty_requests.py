"""Requests that ask for one of two things: they are not empty, and are done."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from kraft.controller.quorum_controller_requests import AlterUserScramCredentials
from kraft.controller.scram_control import ScramCredentialDeletion, ScramCredentialUpsertion
from kraft.metadata.records import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from tests.support.quorum_controller_world import QuorumWorld


def test_credentials_are_set_without_a_deletion_and_deleted_without_another(
    world: QuorumWorld,
) -> None:
    upsertion = ScramCredentialUpsertion("alice", 1, 4096, b"salt", b"salted")
    deletion = ScramCredentialDeletion("alice", 1)

    first = world.ask(AlterUserScramCredentials((), (upsertion,)), dict)
    assert not first["alice"].is_failure
    assert isinstance(world.records[-1], UserScramCredentialRecord)
    second = world.ask(AlterUserScramCredentials((deletion,), ()), dict)
    assert not second["alice"].is_failure
    assert world.records[-1:] == [RemoveUserScramCredentialRecord("alice", 1)]
    third = world.ask(AlterUserScramCredentials((deletion,), ()), dict)

    assert third["alice"].error is ErrorCode.resource_not_found
