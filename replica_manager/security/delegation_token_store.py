"""Delegation tokens in ZooKeeper: loads, watches, creates, renews and expires them.

Any broker can change a token: it writes the token's znode and a notification for the other brokers.
The controller deletes expired tokens.

All methods block and are called outside of the event loop; a lock lets one thread at a time run.

Source: Kafka ``DelegationTokenManagerZk`` (KIP-48, KIP-373).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode
from msgspec.structs import replace

from kafka_common.errors import ZkControllerError, ZnodeCorrupt
from kafka_common.protocol.delegation_tokens import (
    LAST_TIMESTAMP,
    DelegationTokenConfig,
    is_expired,
    token_hmac,
)
from kafka_common.protocol.uuid_text import uuid_text
from kafka_common.wall_time import wall_time_ms
from replica_manager.security.delegation_tokens import DelegationTokens, KnownToken
from zkcontroller.zookeeper.change_notifications import ZkNodeChangeNotificationListener
from zkcontroller.zookeeper.delegation_token_znodes import DelegationTokenZnode, TokenChangeZnode
from zkcontroller.zookeeper.requests import (
    ANY_VERSION,
    Create,
    Delete,
    ListChildren,
    ReadZnodes,
    SetData,
    ZkCode,
    Znode,
)
from zkcontroller.zookeeper.results import optional, required
from zkcontroller.zookeeper.session import ZooKeeperSession

MAX_TOKENS: Final = 20_000
"""The most token ids that ZooKeeper can list with its default ``jute.maxbuffer``."""

_log = logging.getLogger("kafka.server.DelegationTokenManagerZk")


class DelegationTokenRefused(ZkControllerError):
    """A token request is refused, with the error code for the client."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(error.name)
        self.error = error


class DelegationTokenStore:
    """Keeps a broker's tokens up to date with ZooKeeper."""

    def __init__(
        self,
        session: ZooKeeperSession,
        tokens: DelegationTokens,
        config: DelegationTokenConfig,
        *,
        now_ms: Callable[[], int] = wall_time_ms,
        new_uuid: Callable[[], UUID],
        broker_id: int,
    ) -> None:
        """``config`` must have a secret key."""
        self._session = session
        self._tokens = tokens
        self._config = config
        self._now_ms = now_ms
        self._new_uuid = new_uuid
        self._prefix = f"[Token Manager on Node {broker_id}]: "
        self._turn = threading.Lock()
        self._notifications = ZkNodeChangeNotificationListener(
            session, TokenChangeZnode.ROOT, TokenChangeZnode.PREFIX
        )

    def load(self) -> None:
        """Creates missing znodes, sets a watch for changes, then reads every token."""
        with self._turn:
            self._session.create_missing([TokenChangeZnode.ROOT, DelegationTokenZnode.ROOT])
            self._notifications.skip()
            (result,) = self._session.perform(ListChildren([DelegationTokenZnode.ROOT]))
            names = required(DelegationTokenZnode.ROOT, result)
            _log.info("%sLoading the token cache. Total token count: %d", self._prefix, len(names))
            found = self._read(sorted(names))
            self._tokens.known = {token_id: token for token_id, token in found if token}

    def process_changes(self) -> None:
        """Handles every new notification, and sets a watch for the next."""
        with self._turn:
            changed: dict[str, None] = {}
            for path, data in self._notifications.unseen():
                try:
                    token_id = TokenChangeZnode.decode(path, data).token_id
                except ZnodeCorrupt as corrupt:
                    _log.error("%s%s", self._prefix, corrupt)
                    continue
                _log.info("%sProcessing Token Notification for tokenId: %s", self._prefix, token_id)
                changed[token_id] = None
            if changed:
                self._put(self._read(list(changed)))
            self._notifications.processed()

    def create(
        self, owner: str, requester: str, renewers: Sequence[str], max_lifetime_ms: int
    ) -> KnownToken:
        """Creates a token; a ``max_lifetime_ms`` of 0 or less means the configured maximum.

        Raises DelegationTokenRefused(POLICY_VIOLATION) if MAX_TOKENS exist already.
        """
        with self._turn:
            if len(self._tokens.known) >= MAX_TOKENS:
                raise DelegationTokenRefused(ErrorCode.policy_violation)
            issued = self._now_ms()
            lifetime = min(self._config.max_lifetime_ms, LAST_TIMESTAMP - issued)
            if max_lifetime_ms > 0:
                lifetime = min(lifetime, max_lifetime_ms)
            znode = DelegationTokenZnode(
                uuid_text(self._new_uuid()),
                owner,
                requester,
                tuple(renewers),
                issued,
                issued + lifetime,
                issued + min(lifetime, self._config.expiry_time_ms),
            )
            created = self._write(znode)
            _log.info(
                "%sCreated a delegation token: %s for owner: %s",
                self._prefix,
                znode.token_id,
                owner,
            )
            return created

    def renew(self, requester: str, hmac: bytes, period_ms: int) -> int:
        """Renews a token; returns its new expiry time in ms since 1970.

        A negative period is ``delegation.token.expiry.time.ms``.  Raises DelegationTokenRefused
        with DELEGATION_TOKEN_NOT_FOUND, _OWNER_MISMATCH or _EXPIRED.
        """
        with self._turn:
            token = self._token_of(requester, hmac)
            now_ms = self._now_ms()
            _check_alive(token, now_ms)
            period_ms = self._config.expiry_time_ms if period_ms < 0 else period_ms
            expires_ms = self._expire_at(token, now_ms + period_ms)
            _log.info(
                "%sDelegation token renewed for token: %s for owner: %s",
                self._prefix,
                token.token_id,
                token.owner,
            )
            return expires_ms

    def expire(self, requester: str, hmac: bytes, period_ms: int) -> int:
        """Sets a token's expiry time, ``period_ms`` from now; returns it in ms since 1970.

        A negative period deletes the token, and returns the current time.  Raises
        DelegationTokenRefused as :meth:`renew` does.
        """
        with self._turn:
            token = self._token_of(requester, hmac)
            now_ms = self._now_ms()
            if period_ms < 0:
                self._remove(token)
                _log.info(
                    "%sToken expired for token: %s for owner: %s",
                    self._prefix,
                    token.token_id,
                    token.owner,
                )
                return now_ms
            _check_alive(token, now_ms)
            expires_ms = self._expire_at(token, now_ms + period_ms)
            _log.info(
                "%sUpdated expiry time for token: %s for owner: %s",
                self._prefix,
                token.token_id,
                token.owner,
            )
            return expires_ms

    def sweep(self) -> None:
        """Deletes expired tokens; called on the controller."""
        with self._turn:
            now_ms = self._now_ms()
            for known in list(self._tokens.known.values()):
                token = known.znode
                if is_expired(token.max_timestamp, token.expiry_timestamp, now_ms):
                    _log.info(
                        "%sDelegation token expired for token: %s for owner: %s",
                        self._prefix,
                        token.token_id,
                        token.owner,
                    )
                    self._remove(token)

    # Helpers.

    def _token_of(self, requester: str, hmac: bytes) -> DelegationTokenZnode:
        known = self._tokens.by_hmac(hmac)
        if known is None:
            raise DelegationTokenRefused(ErrorCode.delegation_token_not_found)
        if not known.znode.is_owner_or_renewer(requester):
            raise DelegationTokenRefused(ErrorCode.delegation_token_owner_mismatch)
        return known.znode

    def _expire_at(self, token: DelegationTokenZnode, at_ms: int) -> int:
        expires_ms = min(token.max_timestamp, at_ms)
        self._write(replace(token, expiry_timestamp=expires_ms))
        return expires_ms

    def _write(self, token: DelegationTokenZnode) -> KnownToken:
        path, data = token.path(token.token_id), token.encode()
        written = self._session.write(SetData(path, data, ANY_VERSION))
        if written is ZkCode.NO_NODE:
            written = self._session.write(Create(path, data))
        required(path, written)
        known = self._known(token)
        self._put([(token.token_id, known)])
        self._notify(token.token_id)
        return known

    def _remove(self, token: DelegationTokenZnode) -> None:
        path = token.path(token.token_id)
        # No error if another broker has deleted it already.
        optional(path, self._session.write(Delete(path, ANY_VERSION)))
        self._put([(token.token_id, None)])
        self._notify(token.token_id)

    def _notify(self, token_id: str) -> None:
        change = TokenChangeZnode(token_id)
        self._notifications.create(change.create_path, change.encode())

    def _read(self, token_ids: Sequence[str]) -> list[tuple[str, KnownToken | None]]:
        """Reads tokens; None for a deleted one.  Corrupt ones are logged and left out."""
        paths = [DelegationTokenZnode.path(token_id) for token_id in token_ids]
        found: list[tuple[str, KnownToken | None]] = []
        for token_id, path, znode in zip(
            token_ids, paths, self._session.perform(ReadZnodes(paths)), strict=True
        ):
            try:
                found.append((token_id, self._decoded(path, znode)))
            except ZnodeCorrupt:
                _log.exception(
                    "%sError while getting Token for tokenId: %s", self._prefix, token_id
                )
        return found

    def _decoded(self, path: str, znode: Znode | ZkCode) -> KnownToken | None:
        found = optional(path, znode)
        if found is None or not found.data:
            return None
        return self._known(DelegationTokenZnode.decode(path, found.data))

    def _known(self, token: DelegationTokenZnode) -> KnownToken:
        assert self._config.secret_key is not None, "without a secret there is no store"
        return KnownToken(token, token_hmac(self._config.secret_key, token.token_id))

    def _put(self, found: Iterable[tuple[str, KnownToken | None]]) -> None:
        known = dict(self._tokens.known)
        for token_id, token in found:
            if token is None:
                known.pop(token_id, None)
            else:
                known[token_id] = token
        self._tokens.known = known


def _check_alive(token: DelegationTokenZnode, now_ms: int) -> None:
    if is_expired(token.max_timestamp, token.expiry_timestamp, now_ms):
        raise DelegationTokenRefused(ErrorCode.delegation_token_expired)
