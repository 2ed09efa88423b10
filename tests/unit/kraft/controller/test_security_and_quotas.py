"""Producer ids, quotas, ACLs, SCRAM credentials and tokens of a KRaft controller."""

import hmac
from collections.abc import Iterable
from itertools import count
from typing import NamedTuple
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.acls import (
    AccessControlEntry,
    AclOperation,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
)
from kafka_common.api_error import NO_ERROR, ApiException
from kafka_common.errors import IllegalState
from kafka_common.protocol.delegation_tokens import DelegationTokenConfig
from kafka_common.protocol.scram import ScramMechanism, is_proof, salt_password
from kafka_common.protocol.scram import client_proof as proof_of
from kraft.controller.acl_control import AclControlManager, StandardAcl
from kraft.controller.client_quota_control import (
    ClientQuotaAlteration,
    ClientQuotaControlManager,
    QuotaEntity,
)
from kraft.controller.delegation_token_control import DelegationTokenControlManager
from kraft.controller.producer_id_control import ProducerIdControlManager, ProducerIdsBlock
from kraft.controller.result import VersionedRecord
from kraft.controller.scram_control import (
    ScramControlManager,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kraft.controller.snapshot_registry import SnapshotRegistry
from kraft.metadata.metadata_version import LATEST_PRODUCTION, MetadataVersion, from_name
from kraft.metadata.records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    EntityData,
    ProducerIdsRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from replica_manager.security.acl_cache import AclBindingFilter, AclBindingFilters
from tests.support.kraft_world import KraftWorld


def kinds(records: Iterable[VersionedRecord]) -> list[object]:
    return [versioned.record for versioned in records]


# ---------------------------------------------------------------------- producer ids


def test_producer_ids_come_in_blocks_that_never_overlap() -> None:
    world = KraftWorld(1)
    manager = ProducerIdControlManager(world.registry, world.cluster)

    first = manager.generate_next_producer_id(1, 101)
    for record in kinds(first.records):
        assert isinstance(record, ProducerIdsRecord)
        manager.replay(record)
    second = manager.generate_next_producer_id(1, 101)

    assert first.response == ProducerIdsBlock(1, 0, 1000)
    assert second.response == ProducerIdsBlock(1, 1000, 1000)
    assert kinds(second.records) == [ProducerIdsRecord(1, 101, 2000)]
    for again in (1000, 0):
        with pytest.raises(IllegalState):
            manager.replay(ProducerIdsRecord(1, 101, again))


def test_producer_ids_are_for_the_living() -> None:
    world = KraftWorld(1)
    manager = ProducerIdControlManager(world.registry, world.cluster)

    with pytest.raises(ApiException) as stale:
        manager.generate_next_producer_id(1, 7)

    assert stale.value.error is ErrorCode.stale_broker_epoch


# ---------------------------------------------------------------------- quotas

ALICE: QuotaEntity = (("user", "alice"),)
HOSTS = ("10.0.0.1", "localhost")


class Quotas:
    """Quotas whose records are replayed at once."""

    def __init__(self) -> None:
        self.manager = ClientQuotaControlManager(SnapshotRegistry(), HOSTS.__contains__)

    def alter(
        self, *alterations: tuple[QuotaEntity, tuple[tuple[str, float | None], ...]]
    ) -> tuple[list[ErrorCode], list[object]]:
        asked = [ClientQuotaAlteration(*alteration) for alteration in alterations]
        result = self.manager.alter_client_quotas(asked)
        for record in kinds(result.records):
            assert isinstance(record, ClientQuotaRecord)
            self.manager.replay(record)
        return [error.error for error in result.response.values()], kinds(result.records)


def test_quotas_are_set_changed_and_taken_away_and_an_equal_value_writes_nothing() -> None:
    quotas = Quotas()
    entity = (EntityData("user", "alice"),)

    assert quotas.alter((ALICE, (("producer_byte_rate", 5.0), ("request_percentage", 0.5)))) == (
        [ErrorCode.none],
        [
            ClientQuotaRecord(entity, "producer_byte_rate", 5.0),
            ClientQuotaRecord(entity, "request_percentage", 0.5),
        ],
    )
    assert quotas.alter((ALICE, (("producer_byte_rate", 5.0),))) == ([ErrorCode.none], [])
    assert quotas.alter((ALICE, (("consumer_byte_rate", None),))) == ([ErrorCode.none], [])
    assert quotas.alter((ALICE, (("producer_byte_rate", None), ("request_percentage", None)))) == (
        [ErrorCode.none],
        [
            ClientQuotaRecord(entity, "producer_byte_rate", remove=True),
            ClientQuotaRecord(entity, "request_percentage", remove=True),
        ],
    )
    assert quotas.manager.quotas(ALICE) == {}


@pytest.mark.parametrize(
    ("entity", "key", "value"),
    [
        ((), "producer_byte_rate", 1.0),
        ((("user", ""),), "producer_byte_rate", 1.0),
        ((("group", "a"),), "producer_byte_rate", 1.0),
        ((("user", "a"), ("user", "b")), "producer_byte_rate", 1.0),
        ((("ip", "10.0.0.1"), ("user", "a")), "connection_creation_rate", 1.0),
        ((("ip", "nowhere"),), "connection_creation_rate", 1.0),
        ((("ip", "10.0.0.1"),), "producer_byte_rate", 1.0),
        (ALICE, "connection_creation_rate", 1.0),
        (ALICE, "no_such_key", 1.0),
        (ALICE, "producer_byte_rate", 0.0),
        (ALICE, "producer_byte_rate", -1.0),
        (ALICE, "producer_byte_rate", float("nan")),
        (ALICE, "producer_byte_rate", 1.5),
        (ALICE, "producer_byte_rate", 1e30),
        ((("ip", None),), "connection_creation_rate", 2.0**31),
    ],
)
def test_an_impossible_quota_is_refused(entity: QuotaEntity, key: str, value: float) -> None:
    assert Quotas().alter((entity, ((key, value),))) == ([ErrorCode.invalid_request], [])


@pytest.mark.parametrize(
    ("entity", "key", "value"),
    [
        ((("user", None),), "producer_byte_rate", 1.0000001),
        ((("user", "a"), ("client-id", None)), "controller_mutation_rate", 0.1),
        ((("ip", None),), "connection_creation_rate", 5.0),
        ((("ip", "localhost"),), "connection_creation_rate", 5.0),
    ],
)
def test_what_may_have_a_quota(entity: QuotaEntity, key: str, value: float) -> None:
    assert Quotas().alter((entity, ((key, value),)))[0] == [ErrorCode.none]


def test_an_entity_or_a_key_that_is_named_twice_is_refused() -> None:
    quotas = Quotas()
    once = (ALICE, (("producer_byte_rate", 1.0),))
    twice = ((("user", "bob"),), (("producer_byte_rate", 1.0), ("producer_byte_rate", 2.0)))

    errors, records = quotas.alter(once, once, twice)

    assert errors == [ErrorCode.invalid_request] * 2
    assert len(records) == 1


# ---------------------------------------------------------------------- ACLs


def acl(
    name: str = "foo",
    principal: str = "User:alice",
    resource_type: ResourceType = ResourceType.TOPIC,
    pattern_type: PatternType = PatternType.LITERAL,
    operation: AclOperation = AclOperation.READ,
    permission_type: PermissionType = PermissionType.ALLOW,
) -> StandardAcl:
    return StandardAcl(
        ResourcePattern(resource_type, name, pattern_type),
        AccessControlEntry(principal, "*", operation, permission_type),
    )


def meaning(name: str | None = None, **fields: int) -> AclBindingFilter:
    return AclBindingFilter(
        ResourceType(fields.get("resource_type", 1)),
        name,
        PatternType(fields.get("pattern_type", 1)),
        None,
        None,
        AclOperation(fields.get("operation", 1)),
        PermissionType(fields.get("permission_type", 1)),
    )


class Acls:
    """Rules whose records are replayed at once."""

    def __init__(self) -> None:
        # Each id comes twice: the second must be refused.
        ids = (UUID(int=number // 2) for number in count())
        self.manager = AclControlManager(SnapshotRegistry(), lambda: next(ids))

    def create(self, *acls: StandardAcl) -> tuple[list[ErrorCode], int]:
        result = self.manager.create_acls(acls)
        for record in kinds(result.records):
            assert isinstance(record, AccessControlEntryRecord)
            self.manager.replay(record)
        return [error.error for error in result.response], len(result.records)


def test_a_rule_that_is_there_is_not_written_again_and_neither_is_one_named_twice() -> None:
    acls = Acls()

    assert acls.create(acl(), acl("bar"), acl()) == ([ErrorCode.none] * 3, 2)
    assert acls.create(acl(), acl("baz")) == ([ErrorCode.none] * 2, 1)
    assert len(acls.manager.acls()) == 3


def test_generating_a_rule_changes_nothing() -> None:
    acls = Acls()

    acls.manager.create_acls([acl()])

    assert acls.manager.acls() == {}
    assert acls.create(acl()) == ([ErrorCode.none], 1)


@pytest.mark.parametrize(
    "impossible",
    [
        acl(resource_type=ResourceType.ANY),
        acl(resource_type=ResourceType.UNKNOWN),
        acl(pattern_type=PatternType.MATCH),
        acl(operation=AclOperation.ANY),
        acl(permission_type=PermissionType.ANY),
        acl(name=""),
        acl(principal="alice"),
    ],
)
def test_an_impossible_rule_is_refused_beside_those_that_are_fine(impossible: StandardAcl) -> None:
    assert Acls().create(impossible, acl()) == ([ErrorCode.invalid_request, ErrorCode.none], 1)


def test_rules_are_deleted_once_whatever_filters_mean_them() -> None:
    acls = Acls()
    acls.create(acl("foo"), acl("bar"), acl("foo", principal="User:bob"))

    result = acls.manager.delete_acls(
        AclBindingFilters(
            (
                meaning("foo"),
                meaning(),
                meaning("foo", operation=0),
                meaning("foo", resource_type=0),
            )
        )
    )

    first, every, unknown_entry, unknown_pattern = result.response
    assert (len(first.deleted), len(every.deleted)) == (2, 3)
    assert unknown_entry.error.error is ErrorCode.invalid_request
    assert unknown_pattern.error.error is ErrorCode.invalid_request
    assert len(result.records) == 3
    assert len(acls.manager.acls()) == 3
    for record in kinds(result.records):
        assert isinstance(record, RemoveAccessControlEntryRecord)
        acls.manager.replay(record)
    assert acls.manager.acls() == {}
    with pytest.raises(IllegalState):
        acls.manager.replay(RemoveAccessControlEntryRecord(UUID(int=99)))
    assert acls.create(acl("foo"))[1] == 1


# ---------------------------------------------------------------------- SCRAM


def upsertion(name: str, mechanism: int = 1, iterations: int = 4096) -> ScramCredentialUpsertion:
    salted = salt_password(ScramMechanism.SCRAM_SHA_256, "secret", b"salt", iterations)
    return ScramCredentialUpsertion(name, mechanism, iterations, b"salt", salted)


def scram(level: MetadataVersion = LATEST_PRODUCTION) -> ScramControlManager:
    return ScramControlManager(SnapshotRegistry(), lambda: level)


def test_a_credential_recognises_the_password_and_holds_no_more_than_its_keys() -> None:
    manager = scram()

    result = manager.alter_credentials([], [upsertion("alice")])

    (record,) = kinds(result.records)
    assert isinstance(record, UserScramCredentialRecord)
    manager.replay(record)
    credential = manager.credential("alice", 1)
    assert credential is not None
    wanted = upsertion("alice")
    proof = proof_of(ScramMechanism.SCRAM_SHA_256, wanted.salted_password, "message")
    assert is_proof(ScramMechanism.SCRAM_SHA_256, credential, "message", proof)
    assert wanted.salted_password not in (record.stored_key, record.server_key)
    gone = manager.alter_credentials([ScramCredentialDeletion("alice", 1)], [])
    assert kinds(gone.records) == [RemoveUserScramCredentialRecord("alice", 1)]
    manager.replay(RemoveUserScramCredentialRecord("alice", 1))
    with pytest.raises(IllegalState):
        manager.replay(RemoveUserScramCredentialRecord("alice", 1))


@pytest.mark.parametrize(
    ("alteration", "error"),
    [
        (upsertion(""), ErrorCode.unacceptable_credential),
        (upsertion("a", iterations=4095), ErrorCode.unacceptable_credential),
        (upsertion("a", iterations=16385), ErrorCode.unacceptable_credential),
        (upsertion("a", mechanism=0), ErrorCode.unsupported_sasl_mechanism),
        (ScramCredentialDeletion("a", 9), ErrorCode.unsupported_sasl_mechanism),
        (ScramCredentialDeletion("a", 1), ErrorCode.resource_not_found),
    ],
)
def test_an_impossible_credential_is_refused_beside_those_that_are_fine(
    alteration: ScramCredentialDeletion | ScramCredentialUpsertion, error: ErrorCode
) -> None:
    if isinstance(alteration, ScramCredentialDeletion):
        result = scram().alter_credentials([alteration], [upsertion("fine")])
    else:
        result = scram().alter_credentials([], [alteration, upsertion("fine")])

    assert result.response[alteration.name].error is error
    assert result.response["fine"] == NO_ERROR
    assert len(result.records) == 1


def test_a_user_who_is_named_twice_gets_nothing_altered() -> None:
    result = scram().alter_credentials([], [upsertion("a"), upsertion("a", 2), upsertion("a")])

    assert result.response["a"].error is ErrorCode.duplicate_resource
    assert result.records == ()


def test_before_3_5_iv2_there_are_no_credentials() -> None:
    result = scram(from_name("3.5-IV1")).alter_credentials([], [upsertion("a")])

    assert result.response["a"].error is ErrorCode.unsupported_version


# ---------------------------------------------------------------------- tokens


class Made(NamedTuple):
    """A manager with one token of alice, which bob may renew."""

    manager: DelegationTokenControlManager
    hmac: bytes


def tokens(
    secret: str | None = "secret", level: MetadataVersion = LATEST_PRODUCTION
) -> DelegationTokenControlManager:
    config = DelegationTokenConfig(secret, max_lifetime_ms=1000, expiry_time_ms=100)
    return DelegationTokenControlManager(SnapshotRegistry(), lambda: level, lambda: "id", config)


@pytest.fixture
def made() -> Made:
    manager = tokens()
    result = manager.create_delegation_token("User:alice", None, [("User", "bob")], 0, now_ms=10)
    assert kinds(result.records) == [
        DelegationTokenRecord("User:alice", "User:alice", ("User:bob",), 10, 1010, 110, "id")
    ]
    manager.replay(result.response.record)
    return Made(manager, result.response.hmac)


def test_a_token_is_proved_by_the_hmac_of_its_id(made: Made) -> None:
    assert made.hmac == hmac.digest(b"secret", b"id", "sha512")


def test_a_token_may_live_shorter_but_not_longer_than_configured() -> None:
    create = tokens().create_delegation_token

    short = create("User:a", "User:b", [], 50, now_ms=0).response.record
    long = create("User:a", None, [], 10**9, now_ms=0).response.record

    assert (short.owner, short.max_timestamp, short.expiration_timestamp) == ("User:b", 50, 50)
    assert (long.max_timestamp, long.expiration_timestamp) == (1000, 100)


def test_owner_and_renewers_renew_a_token_up_to_the_end_of_its_life(made: Made) -> None:
    renew = made.manager.renew_delegation_token

    assert renew("User:bob", made.hmac, 30, now_ms=50).response == 80
    assert renew("User:alice", made.hmac, 0, now_ms=60).response == 160
    assert renew("User:alice", made.hmac, 10**9, now_ms=110).response == 210


def test_a_token_is_expired_later_or_at_once(made: Made) -> None:
    expire = made.manager.expire_delegation_token

    later = expire("User:alice", made.hmac, 10**9, now_ms=50)
    at_once = expire("User:alice", made.hmac, -1, now_ms=500)

    assert later.response == 1010
    assert at_once.response == 500
    assert kinds(at_once.records) == [RemoveDelegationTokenRecord("id")]


@pytest.mark.parametrize(
    ("requester", "forged", "now_ms", "error"),
    [
        ("User:eve", False, 50, ErrorCode.delegation_token_owner_mismatch),
        ("User:alice", True, 50, ErrorCode.delegation_token_not_found),
        ("User:alice", False, 111, ErrorCode.delegation_token_expired),
    ],
)
def test_a_token_is_not_for_all_nor_for_ever(
    made: Made, requester: str, forged: bool, now_ms: int, error: ErrorCode
) -> None:
    proof = b"forged" if forged else made.hmac

    for change in (made.manager.renew_delegation_token, made.manager.expire_delegation_token):
        with pytest.raises(ApiException) as refused:
            change(requester, proof, 10, now_ms)
        assert refused.value.error is error


def test_tokens_whose_time_is_over_are_swept_and_may_be_swept_twice(made: Made) -> None:
    assert made.manager.sweep_expired_delegation_tokens(110) == []

    swept = made.manager.sweep_expired_delegation_tokens(111)

    assert kinds(swept) == [RemoveDelegationTokenRecord("id")]
    for _ in range(2):
        made.manager.replay(RemoveDelegationTokenRecord("id"))
    assert made.manager.sweep_expired_delegation_tokens(111) == []


def test_without_a_secret_before_3_6_iv2_or_for_strange_principals_there_are_no_tokens() -> None:
    refusals = []
    for manager, renewers in (
        (tokens(secret=None), []),
        (tokens(level=from_name("3.6-IV1")), []),
        (tokens(), [("Group", "admins")]),
    ):
        with pytest.raises(ApiException) as refused:
            manager.create_delegation_token("User:a", None, renewers, 0, now_ms=0)
        refusals.append(refused.value.error)

    assert refusals == [
        ErrorCode.delegation_token_auth_disabled,
        ErrorCode.unsupported_version,
        ErrorCode.invalid_principal_type,
    ]
