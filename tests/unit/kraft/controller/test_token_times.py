"""When a delegation token expires, to the millisecond; its proof is shown to no one."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.api_error import ApiException
from kafka_common.protocol.delegation_tokens import DelegationTokenConfig
from kraft.controller.delegation_token_control import (
    CreatedDelegationToken,
    DelegationTokenControlManager,
)
from kraft.controller.quorum_controller_requests import ExpireDelegationToken, RenewDelegationToken
from kraft.controller.snapshot_registry import SnapshotRegistry
from kraft.metadata.metadata_version import LATEST_PRODUCTION
from kraft.metadata.records import DelegationTokenRecord, RemoveDelegationTokenRecord

DAY_MS = 86_400_000


def made(**config: int) -> tuple[DelegationTokenControlManager, DelegationTokenRecord, bytes]:
    """A token of alice, made at 10."""
    manager = DelegationTokenControlManager(
        SnapshotRegistry(),
        lambda: LATEST_PRODUCTION,
        lambda: "id",
        DelegationTokenConfig("secret", **config),
    )
    created = manager.create_delegation_token("User:alice", None, [], -1, now_ms=10).response
    manager.replay(created.record)
    return manager, created.record, created.hmac


def test_a_token_lives_a_week_and_expires_after_a_day_if_nothing_is_said() -> None:
    _, record, _ = made()

    assert record.max_timestamp == 10 + 7 * DAY_MS
    assert record.expiration_timestamp == 10 + DAY_MS


@pytest.mark.parametrize(("period_ms", "expires_ms"), [(1, 51), (-1, 150), (0, 150), (99, 149)])
def test_a_token_is_renewed_for_a_time_of_ones_own_or_for_the_usual_one(
    period_ms: int, expires_ms: int
) -> None:
    manager, _, proof = made(max_lifetime_ms=1_000, expiry_time_ms=100)

    assert manager.renew_delegation_token("User:alice", proof, period_ms, 50).response == expires_ms


def test_to_expire_now_is_not_to_be_removed() -> None:
    manager, _, proof = made(max_lifetime_ms=1_000, expiry_time_ms=100)

    now = manager.expire_delegation_token("User:alice", proof, 0, now_ms=50)

    assert now.response == 50
    (versioned,) = now.records
    assert isinstance(versioned.record, DelegationTokenRecord)
    manager.replay(versioned.record)
    with pytest.raises(ApiException) as expired:
        manager.renew_delegation_token("User:alice", proof, 1, now_ms=51)
    assert expired.value.error is ErrorCode.delegation_token_expired
    removed = manager.expire_delegation_token("User:alice", proof, -1, now_ms=60)
    assert [each.record for each in removed.records] == [RemoveDelegationTokenRecord("id")]


@pytest.mark.parametrize("kind", [RenewDelegationToken, ExpireDelegationToken])
def test_what_proves_a_token_is_in_no_line_of_a_log(
    kind: type[RenewDelegationToken] | type[ExpireDelegationToken],
) -> None:
    _, record, proof = made()

    for value in (CreatedDelegationToken(record, proof), kind("User:alice", proof, 1)):
        assert "User:alice" in repr(value)
        assert repr(proof) not in repr(value)
