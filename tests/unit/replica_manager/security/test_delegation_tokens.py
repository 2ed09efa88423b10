"""Delegation tokens with ZooKeeper: created, renewed, ended, described, and logged in with.

Source of the behaviours: Kafka ``DelegationTokenManagerZk``, ``KafkaApis``, ``ScramSaslServer``.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any, Final, cast
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i64Timedelta
from msgspec import structs

from kafka_common.acls import AclOperation, ResourcePattern, ResourceType
from kafka_common.errors import ZnodeCorrupt, ZooKeeperRefused
from kafka_common.model import Endpoint
from kafka_common.protocol import scram
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.delegation_tokens import DelegationTokenConfig
from kafka_common.protocol.messages import read, write
from kafka_common.protocol.numeric_times import numeric_response_type
from kafka_common.protocol.scram import ScramMechanism, salt_password
from kafka_common.protocol.versioned_messages import request_schema
from kafka_common.wall_time import wall_time_ms
from replica_manager.network.connection import Peer
from replica_manager.security import delegation_token_store
from replica_manager.security.delegation_token_store import DelegationTokenStore
from replica_manager.security.delegation_tokens import DelegationTokens
from replica_manager.security.principals import ANONYMOUS, Principal
from replica_manager.security.sasl_authenticator import SaslAuthenticator
from replica_manager.security.sasl_mechanisms import LoginFailed, SaslServer, ScramServer
from replica_manager.server import token_sweep
from replica_manager.server.administration import TokenAdmin
from replica_manager.server.handlers import envelope
from replica_manager.server.token_requests import are_token_requests_allowed
from replica_manager.server.token_sweep import TokenSweep
from replica_manager.server.zookeeper_admin import TokensInZooKeeper
from tests.support.frames import parse_response_header, request_header, response_frame
from tests.support.guarded_world import guarded_world, permit
from tests.support.quorum import eventually
from zkcontroller.zookeeper.delegation_token_znodes import DelegationTokenZnode, TokenChangeZnode
from zkcontroller.zookeeper.requests import Create, ReadZnodes, SetData, ZkCode
from zkcontroller.zookeeper.session import ZooKeeperSession

SECRET: Final = "opensesame"
ALICE, BOB, EVE = (Principal("User", name) for name in ("alice", "bob", "eve"))
DAY_MS: Final = 86_400_000
SASL: Final = "SASLED"
TOKEN: Final = DelegationTokenZnode(
    "dG9rZW4taWQtMDEyMzQ1Ng", "User:alice", "User:bob", ("User:eve", "User:CN=a,O=b"), 1, 3, 2
)


class Tokens:
    """One ZooKeeper, and brokers that keep tokens in it."""

    def __init__(self, executor: ThreadPoolExecutor) -> None:
        self.world = guarded_world(executor)
        listeners = self.world.config.listeners
        bound = (*listeners.bound, Endpoint("127.0.0.1", 9094, SASL, "SASL_PLAINTEXT"))
        self.world.config = structs.replace(
            self.world.config, listeners=structs.replace(listeners, bound=bound)
        )
        self.now_ms = 1_700_000_000_000
        self._ids = count(1)
        self.store, self.tokens = self.broker()
        self.world.context.tokens = self.tokens
        self.use(TokensInZooKeeper(self.store, executor))

    def use(self, admin: TokenAdmin | None) -> None:
        """Has that service change tokens."""
        context = self.world.context
        context.administration = structs.replace(context.administration, token_admin=admin)

    def broker(self, **config: int) -> tuple[DelegationTokenStore, DelegationTokens]:
        tokens = DelegationTokens(lambda: self.now_ms)
        store = DelegationTokenStore(
            cast(ZooKeeperSession, self.world.session),
            tokens,
            DelegationTokenConfig(SECRET, **config),
            now_ms=lambda: self.now_ms,
            new_uuid=lambda: UUID(int=next(self._ids)),
            broker_id=1,
        )
        store.load()
        return store, tokens

    def ask(
        self,
        api_key: ApiKey,
        version: int = 2,
        who: Principal = ALICE,
        listener: str = SASL,
        *,
        by_token: bool = False,
        **fields: object,
    ) -> Any:
        request = request_schema(api_key, version).request(**fields)
        data = request_header(int(api_key), version, 7, "test") + write(request)
        peer = Peer(listener, "192.0.2.1", who, is_token_authenticated=by_token)
        response = asyncio.run(response_frame(data, peer, self.world.context))
        if response.closes:
            return None
        _, start = parse_response_header(int(api_key), version, response.frame[4:])
        return read(numeric_response_type(int(api_key), version), response.frame[4:], start)

    def create(self, version: int = 3, who: Principal = ALICE, **fields: Any) -> Any:
        schema = request_schema(ApiKey.CREATE_DELEGATION_TOKEN, version)
        renewers = tuple(
            schema.part("CreatableRenewers", principal_type=each.principal_type,
                        principal_name=each.name)
            for each in fields.pop("renewers", ())
        )  # fmt: skip
        lifetime = lasting(fields.pop("max_lifetime_ms", -1))
        owner = fields.pop("owner", None)
        owned = {"owner_principal_type": owner and "User", "owner_principal_name": owner}
        return self.ask(
            ApiKey.CREATE_DELEGATION_TOKEN, version, who, renewers=renewers, max_lifetime=lifetime,
            **(owned if version >= 3 else {}), **fields,
        )  # fmt: skip

    def renew(self, token: bytes, who: Principal = ALICE, period_ms: int = -1, **more: Any) -> Any:
        period = lasting(period_ms)
        return self.ask(
            ApiKey.RENEW_DELEGATION_TOKEN, 2, who, hmac=token, renew_period=period, **more
        )

    def expire(self, token: bytes, who: Principal = ALICE, period_ms: int = -1, **more: Any) -> Any:
        period = lasting(period_ms)
        return self.ask(
            ApiKey.EXPIRE_DELEGATION_TOKEN, 2, who, hmac=token, expiry_time_period=period, **more
        )

    def describe(self, who: Principal = ALICE, *owners: Principal, **more: Any) -> Any:
        schema = request_schema(ApiKey.DESCRIBE_DELEGATION_TOKEN, 3)
        named = tuple(
            schema.part("DescribeDelegationTokenOwner", principal_type=each.principal_type,
                        principal_name=each.name)
            for each in owners
        )  # fmt: skip
        wanted = more.pop("owners", named or None)
        return self.ask(ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, who, owners=wanted, **more)

    def names(self, who: Principal = ALICE, *owners: Principal) -> list[str]:
        return [token.token_id for token in self.describe(who, *owners).tokens]

    def znode(self, token_id: str) -> DelegationTokenZnode | None:
        path = DelegationTokenZnode.path(token_id)
        (found,) = self.world.session.perform(ReadZnodes([path]))
        return None if isinstance(found, ZkCode) else DelegationTokenZnode.decode(path, found.data)


def lasting(ms: int) -> i64Timedelta:
    return i64Timedelta.parse(timedelta(milliseconds=ms))


@pytest.fixture
def tokens(executor: ThreadPoolExecutor) -> Tokens:
    return Tokens(executor)


# ---------------------------------------------------------------------- znodes


def test_a_token_is_read_as_it_was_written() -> None:
    path = DelegationTokenZnode.path(TOKEN.token_id)

    assert path == "/delegation_token/tokens/dG9rZW4taWQtMDEyMzQ1Ng"
    assert DelegationTokenZnode.decode(path, TOKEN.encode()) == TOKEN
    assert b'"User%3ACN%3Da%2CO%3Db"' in TOKEN.encode()


def test_a_token_of_version_2_was_requested_by_its_owner() -> None:
    data = TOKEN.encode().replace(b'"version":3', b'"version":2')

    assert DelegationTokenZnode.decode("/x", data).requester == "User:alice"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'"version":3', b'"version":4'),
        (b'"version":3', b'"version":0'),
        (b"User%3Aalice", b"alice"),
        (b'"issueTimestamp":1', b'"issueTimestamp":"x"'),
        (b"[", b"[1,"),
    ],
)
def test_what_is_no_token_is_corrupt(before: bytes, after: bytes) -> None:
    with pytest.raises(ZnodeCorrupt):
        DelegationTokenZnode.decode("/x", TOKEN.encode().replace(before, after))


@pytest.mark.parametrize("data", [b"", b"a/b", b"..", b"\xff", b"a\0"])
def test_a_note_that_names_no_token_is_corrupt(data: bytes) -> None:
    with pytest.raises(ZnodeCorrupt):
        TokenChangeZnode.decode("/x", data)


# ---------------------------------------------------------------------- the APIs


def test_a_token_expires_by_the_machines_clock_also_if_that_was_wrong_at_the_start(
    tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = tokens.create()
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    of_1970 = DelegationTokens(wall_time_ms)
    of_1970.known = tokens.tokens.known

    def lifetime_ms() -> int:
        login = of_1970.login("SCRAM-SHA-256", created.token_id)
        assert login is not None
        return login.lifetime_ms

    assert lifetime_ms() == created.expiry_timestamp
    monkeypatch.setattr(time, "time_ns", lambda: (tokens.now_ms + DAY_MS + 1) * 1_000_000)
    assert lifetime_ms() == -1


def test_the_longest_lifetime_ends_with_the_last_timestamp(tokens: Tokens) -> None:
    tokens.store._config = replace(tokens.store._config, max_lifetime_ms=2**63 - 1)

    created = tokens.create()

    assert ErrorCode(created.error_code) is ErrorCode.none
    assert created.max_timestamp == 2**63 - 1


@pytest.mark.parametrize("version", range(4))
def test_a_token_is_created_in_zookeeper_and_returned_with_its_proof(
    tokens: Tokens, version: int
) -> None:
    created = tokens.create(version, renewers=[BOB])

    assert ErrorCode(created.error_code) is ErrorCode.none
    assert (created.principal_type, created.principal_name) == ALICE
    assert created.hmac == hmac.digest(SECRET.encode(), created.token_id.encode(), "sha512")
    assert created.issue_timestamp == tokens.now_ms
    assert created.expiry_timestamp == tokens.now_ms + DAY_MS
    assert created.max_timestamp == tokens.now_ms + 7 * DAY_MS
    assert tokens.znode(created.token_id) == DelegationTokenZnode(
        created.token_id, "User:alice", "User:alice", ("User:bob",),
        created.issue_timestamp, created.max_timestamp, created.expiry_timestamp,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("asked_ms", "max_ms", "expires_ms"),
    [(0, 7 * DAY_MS, DAY_MS), (1000, 1000, 1000), (9 * DAY_MS, 7 * DAY_MS, DAY_MS)],
)
def test_a_token_lives_no_longer_than_is_configured(
    tokens: Tokens, asked_ms: int, max_ms: int, expires_ms: int
) -> None:
    created = tokens.create(max_lifetime_ms=asked_ms)

    assert created.max_timestamp - created.issue_timestamp == max_ms
    assert created.expiry_timestamp - created.issue_timestamp == expires_ms


def test_a_token_for_another_owner_needs_a_rule(tokens: Tokens) -> None:
    refused = tokens.create(owner="bob")
    assert ErrorCode(refused.error_code) is ErrorCode.delegation_token_authorization_failed
    assert (refused.principal_name, refused.token_requester_principal_name) == ("bob", "alice")
    assert (refused.issue_timestamp, refused.max_timestamp, refused.token_id) == (-1, -1, "")

    bobs = ResourcePattern(ResourceType.USER, "User:bob")
    permit(tokens.world, bobs, AclOperation.CREATE_TOKENS)
    created = tokens.create(owner="bob")

    assert ErrorCode(created.error_code) is ErrorCode.none
    assert tokens.names(BOB) == [created.token_id]
    assert tokens.names(ALICE) == []
    permit(tokens.world, bobs, AclOperation.DESCRIBE_TOKENS)
    assert tokens.names(ALICE) == [created.token_id]


def test_only_users_renew_tokens(tokens: Tokens) -> None:
    refused = tokens.create(renewers=[Principal("Group", "bobs")])

    assert ErrorCode(refused.error_code) is ErrorCode.invalid_principal_type


def test_owner_and_renewers_prolong_a_token_up_to_its_lifetime(tokens: Tokens) -> None:
    created = tokens.create(renewers=[BOB])
    tokens.now_ms += 1000

    by_bob = tokens.renew(created.hmac, BOB, 2 * DAY_MS)
    assert by_bob.expiry_timestamp == tokens.now_ms + 2 * DAY_MS
    assert tokens.renew(created.hmac, ALICE, 99 * DAY_MS).expiry_timestamp == created.max_timestamp
    assert tokens.renew(created.hmac).expiry_timestamp == tokens.now_ms + DAY_MS

    by_eve = tokens.renew(created.hmac, EVE)
    assert ErrorCode(by_eve.error_code) is ErrorCode.delegation_token_owner_mismatch
    assert by_eve.expiry_timestamp == -1
    unknown = tokens.renew(b"no proof")
    assert ErrorCode(unknown.error_code) is ErrorCode.delegation_token_not_found
    tokens.now_ms += DAY_MS + 1
    expired = tokens.renew(created.hmac)
    assert ErrorCode(expired.error_code) is ErrorCode.delegation_token_expired
    # A stranger does not learn that it has expired.
    assert tokens.renew(created.hmac, EVE).error_code == by_eve.error_code


def test_a_token_is_ended_at_once_or_later(tokens: Tokens) -> None:
    created = tokens.create(renewers=[BOB])

    later = tokens.expire(created.hmac, BOB, 5_000)
    assert later.expiry_timestamp == tokens.now_ms + 5_000
    by_eve = tokens.expire(created.hmac, EVE)
    assert ErrorCode(by_eve.error_code) is ErrorCode.delegation_token_owner_mismatch
    at_once = tokens.expire(created.hmac)

    assert (ErrorCode(at_once.error_code), at_once.expiry_timestamp) == (
        ErrorCode.none, tokens.now_ms,
    )  # fmt: skip
    assert tokens.znode(created.token_id) is None
    gone = tokens.expire(created.hmac)
    assert ErrorCode(gone.error_code) is ErrorCode.delegation_token_not_found


def test_a_client_sees_the_tokens_that_it_owns_renews_or_may_see(tokens: Tokens) -> None:
    alices = tokens.create(renewers=[BOB]).token_id
    bobs = tokens.create(who=BOB).token_id
    eves = tokens.create(who=EVE).token_id

    assert tokens.names(ALICE) == [alices]
    assert tokens.names(BOB) == [alices, bobs]
    assert tokens.names(BOB, ALICE) == [alices]
    assert tokens.names(ALICE, EVE) == []
    assert list(tokens.describe(ALICE, owners=()).tokens) == []
    eves_token = ResourcePattern(ResourceType.DELEGATION_TOKEN, eves)
    permit(tokens.world, eves_token, AclOperation.DESCRIBE)
    assert tokens.names(ALICE) == [alices, eves]
    (described,) = tokens.describe(ALICE, BOB).tokens
    assert described.hmac == tokens.tokens.known[alices].hmac
    assert [(each.principal_type, each.principal_name) for each in described.renewers] == [BOB]


def test_more_tokens_than_can_be_listed_are_refused(
    tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delegation_token_store, "MAX_TOKENS", 2)

    responses = [tokens.create() for _ in range(3)]

    assert [ErrorCode(response.error_code) for response in responses] == [
        ErrorCode.none, ErrorCode.none, ErrorCode.policy_violation,
    ]  # fmt: skip


@pytest.mark.parametrize(("listener", "by_token"), [("PLAINTEXT", False), (SASL, True)])
def test_a_client_that_may_be_anyone_gets_nothing(
    tokens: Tokens, listener: str, by_token: bool
) -> None:
    responses = [
        tokens.create(listener=listener, by_token=by_token),
        tokens.renew(b"a", listener=listener, by_token=by_token),
        tokens.expire(b"a", listener=listener, by_token=by_token),
        tokens.describe(listener=listener, by_token=by_token),
    ]

    assert {ErrorCode(response.error_code) for response in responses} == {
        ErrorCode.delegation_token_request_not_allowed
    }
    assert tokens.tokens.known == {}


@pytest.mark.parametrize(
    ("protocol", "who", "is_allowed"),
    [
        ("PLAINTEXT", ALICE, False), ("SSL", ANONYMOUS, False), ("SSL", ALICE, True),
        ("SASL_PLAINTEXT", ALICE, True), ("SASL_SSL", ALICE, True),
    ],
)  # fmt: skip
def test_a_certificate_is_a_login_too(protocol: str, who: Principal, is_allowed: bool) -> None:
    allowed = are_token_requests_allowed(protocol, who, is_token_authenticated=False)

    assert allowed is is_allowed
    assert not are_token_requests_allowed(protocol, who, is_token_authenticated=True)


def test_without_a_secret_there_are_no_tokens(tokens: Tokens) -> None:
    tokens.world.context.tokens = None
    tokens.use(None)

    responses = [
        tokens.create(), tokens.renew(b"a"), tokens.expire(b"a"), tokens.describe(),
    ]  # fmt: skip

    assert {ErrorCode(response.error_code) for response in responses} == {
        ErrorCode.delegation_token_auth_disabled
    }


def test_an_envelope_ends_the_connection(tokens: Tokens) -> None:
    assert envelope.VERSIONS == (0, 0)
    assert (
        tokens.ask(
            ApiKey.ENVELOPE, 0, request_data=b"", request_principal=b"", client_host_address=b""
        )
        is None
    )


# ---------------------------------------------------------------------- several brokers


def test_every_broker_follows_the_changes_of_the_others(tokens: Tokens) -> None:
    store, other = tokens.broker()
    created = tokens.create()
    assert other.known == {}

    store.process_changes()
    assert other.known.keys() == {created.token_id}
    tokens.renew(created.hmac, ALICE, 1_000)
    store.process_changes()
    assert other.known[created.token_id].znode.expiry_timestamp == tokens.now_ms + 1_000
    tokens.expire(created.hmac)
    store.process_changes()

    assert other.known == {}


def test_an_empty_znode_is_no_token_and_a_corrupt_one_leaves_what_was_known(tokens: Tokens) -> None:
    emptied, broken = tokens.create().token_id, tokens.create().token_id
    store, other = tokens.broker()
    assert other.known.keys() == {emptied, broken}
    for token_id, data in ((emptied, b""), (broken, b"{")):
        change = TokenChangeZnode(token_id)
        tokens.world.session.write(SetData(DelegationTokenZnode.path(token_id), data))
        tokens.world.session.write(Create(change.create_path, change.encode(), sequential=True))

    store.process_changes()

    assert other.known.keys() == {broken}


def test_a_broker_that_starts_later_knows_every_token_that_can_be_read(tokens: Tokens) -> None:
    created = tokens.create().token_id
    path = DelegationTokenZnode.path("broken")
    assert not isinstance(tokens.world.session.write(Create(path, b"{")), ZkCode)

    _, other = tokens.broker()

    assert other.known.keys() == {created}


def test_a_change_whose_token_cannot_be_read_is_read_again(
    tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other = tokens.broker()
    created = tokens.create().token_id
    perform = tokens.world.session.perform

    def refuse(asked: Any) -> Any:
        response = perform(asked)
        is_token = isinstance(asked, ReadZnodes) and "/tokens/" in "".join(asked.paths)
        return [ZkCode.SYSTEM_ERROR] if is_token else response

    with monkeypatch.context() as patch:
        patch.setattr(tokens.world.session, "perform", refuse)
        with pytest.raises(ZooKeeperRefused, match="SYSTEM_ERROR"):
            store.process_changes()
    store.process_changes()

    assert other.known.keys() == {created}


def test_the_controller_removes_what_has_expired(
    tokens: Tokens, executor: ThreadPoolExecutor
) -> None:
    short, long = tokens.create(max_lifetime_ms=1_000), tokens.create()
    tokens.now_ms += 1_001
    is_controller = False

    async def sweep() -> None:
        nonlocal is_controller
        sweeps = TokenSweep(tokens.store, 1, lambda: is_controller, executor)
        sweeps.start()
        await asyncio.sleep(0)
        assert len(tokens.tokens.known) == 2
        is_controller = True
        await eventually(lambda: len(tokens.tokens.known) == 1, "the expired one is gone")
        await sweeps.stop()

    asyncio.run(sweep())

    assert tokens.znode(short.token_id) is None
    assert tokens.znode(long.token_id) is not None


def test_a_new_controller_removes_at_once_what_has_expired(
    tokens: Tokens, executor: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_sweep, "LOOK_S", 0.001)
    is_controller = False

    async def sweep() -> None:
        nonlocal is_controller
        sweeps = TokenSweep(tokens.store, 3_600_000, lambda: is_controller, executor)
        sweeps.start()
        for _ in range(2):
            await asyncio.to_thread(tokens.create, max_lifetime_ms=1_000)
            tokens.now_ms += 1_001
            is_controller = True
            await eventually(lambda: not tokens.tokens.known, "the expired one is gone")
            is_controller = False
            await asyncio.sleep(0.05)  # it has looked
        await sweeps.stop()

    asyncio.run(sweep())


# ---------------------------------------------------------------------- logins


def scram_login(server: SaslServer, token_id: str, password: bytes, mechanism: ScramMechanism,
                extension: str = ",tokenauth=true") -> None:  # fmt: skip
    """What a client of Kafka's does with a token."""
    bare = f"n={token_id},r=nonce{extension}"
    first = scram.ServerFirst.decode(server.step(f"n,,{bare}".encode()))
    without_proof = f"c=biws,r={first.nonce}"
    text = base64.b64encode(password).decode()
    salted = salt_password(mechanism, text, first.salt, first.iterations)
    message = f"{bare},{first.encode()},{without_proof}"
    server.step(scram.client_final(without_proof, scram.client_proof(mechanism, salted, message)))


def scram_server(tokens: DelegationTokens, mechanism: ScramMechanism) -> ScramServer:
    name = mechanism.mechanism_name
    return ScramServer(
        mechanism, lambda _: None, "server", lambda token_id: tokens.login(name, token_id)
    )


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_client_logs_in_by_a_token_as_its_owner(
    tokens: Tokens, mechanism: ScramMechanism
) -> None:
    created = tokens.create(owner=None, renewers=[BOB])
    server = scram_server(tokens.tokens, mechanism)

    scram_login(server, created.token_id, created.hmac, mechanism)

    assert (server.username, server.is_token) == ("alice", True)
    assert server.lifetime_ms == DAY_MS


def test_another_proof_another_id_or_no_extension_do_not_log_in(tokens: Tokens) -> None:
    created = tokens.create()
    sha = ScramMechanism.SCRAM_SHA_512

    for token_id, proof, extension in (
        (created.token_id, b"x" * 64, ",tokenauth=true"),
        ("another", created.hmac, ",tokenauth=true"),
        (created.token_id, created.hmac, ""),
        (created.token_id, created.hmac, ",tokenauth=false"),
    ):
        server = scram_server(tokens.tokens, sha)
        with pytest.raises(LoginFailed):
            scram_login(server, token_id, proof, sha, extension)
        assert server.username is None
    tokens.expire(created.hmac)
    with pytest.raises(LoginFailed, match="Invalid tokenId"):
        scram_login(scram_server(tokens.tokens, sha), created.token_id, created.hmac, sha)


@pytest.mark.parametrize(
    ("max_reauth_ms", "expires_in_ms", "lifetime_ms"),
    [(0, None, None), (500, None, 500), (0, 700, 700), (500, 700, 500), (900, 700, 700),
     (0, -5, 0)],
)  # fmt: skip
def test_a_session_lasts_no_longer_than_its_token(
    max_reauth_ms: int, expires_in_ms: int | None, lifetime_ms: int | None
) -> None:
    server = ScramServer(ScramMechanism.SCRAM_SHA_512, lambda _: None, "server")
    server.username, server.lifetime_ms, server.is_token = "alice", expires_in_ms, True
    authenticator = SaslAuthenticator(
        {}, max_reauth_ms={"SCRAM-SHA-512": max_reauth_ms}, refusal=lambda *_: None
    )
    authenticator._server = server

    assert authenticator._take(1_000) == (lifetime_ms or 0)

    assert authenticator.login is not None
    expected = None if lifetime_ms is None else 1_000 + lifetime_ms
    assert authenticator.login.expires_at_ms == expected
    assert authenticator.login.is_token


def test_a_token_written_by_hand_into_zookeeper_shows_no_proof(tokens: Tokens) -> None:
    created = tokens.create()
    path = DelegationTokenZnode.path(created.token_id)
    (found,) = tokens.world.session.perform(ReadZnodes([path]))

    assert not isinstance(found, ZkCode)
    assert base64.b64encode(created.hmac) not in found.data
    assert repr(tokens.tokens.known[created.token_id]).find(created.hmac.hex()) == -1
    assert not isinstance(tokens.world.session.write(SetData(path, found.data, -1)), ZkCode)
