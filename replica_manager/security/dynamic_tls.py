"""The security of every listener, whose key stores can be replaced while the broker runs.

A listener keeps the configuration with which it was made, but for the keys of its key store and its
trust store.  When those change, or when the files they name have changed, new TLS contexts take the
place of the old ones: for the listener, and for this broker's connections to the others.
Connections that exist stay as they are.

The stores of the listener between brokers must be able to shake hands with themselves: brokers
have the same authorities, and one that does not trust its own certificate would be cut off from
the others, which would be seen only when replication stops.

A new key store must be one that clients and brokers can take for the old one: the same subject,
and every alternative name of the old certificate, unless ``ssl.allow.dn.changes`` and
``ssl.allow.san.changes`` say otherwise.  On the listener between brokers, the new stores and the
old ones must also be able to shake hands, because the other brokers still have the old ones.

Source: Kafka ``SslFactory``, ``DynamicBrokerConfig.processListenerReconfigurable`` (KIP-226).
"""

from __future__ import annotations

import contextlib
import logging
import ssl
import threading
from collections.abc import Iterator, Mapping
from typing import Final

from kafka_common.errors import ConfigInvalid
from kafka_common.net.client_security import ClientSecurity
from replica_manager.configuration.config import BrokerConfig
from replica_manager.configuration.dynamic_keys import STORE_KEYS
from replica_manager.security.settings import (
    INTER_BROKER_MECHANISM,
    ListenerSecurity,
    SecuredListener,
)
from replica_manager.security.tls import Stores

MAX_HANDSHAKE_ROUNDS: Final = 16
"""A handshake of TLS 1.2 or 1.3 takes four at most."""
_log = logging.getLogger("org.apache.kafka.common.security.ssl.SslFactory")


class ListenerSecurities:
    """Every listener that is bound.  Its methods read files: they belong to an executor's threads.

    What :attr:`server` and :attr:`client` hold is replaced in place, in one assignment.
    """

    def __init__(self, config: BrokerConfig) -> None:
        """ConfigInvalid if a listener cannot be secured as the configuration says."""
        self.server: dict[str, ListenerSecurity] = {}
        """What a listener asks of those who connect to it, by its name."""
        self.client: dict[str, ClientSecurity] = {}
        """How this broker connects to those listeners of others that brokers use."""
        self._listeners: dict[str, SecuredListener] = {}
        # A client's request and a notification may come at the same time.
        self._replacing = threading.Lock()
        self.add_listeners(config)

    def add_listeners(self, config: BrokerConfig) -> None:
        """Secures the listeners of ``config`` that are not known yet.  ConfigInvalid as above."""
        inter_broker = config.listeners.inter_broker
        added = {
            endpoint.listener_name: SecuredListener(config, endpoint)
            for endpoint in config.listeners.bound
            if endpoint.listener_name not in self._listeners
        }
        server = {name: listener.server() for name, listener in added.items()}
        if inter_broker in added and server[inter_broker].tls is not None:
            _check_own_handshake(added[inter_broker])
        client = {
            name: added[name].client(INTER_BROKER_MECHANISM, must_be_enabled=True)
            for name in (inter_broker, config.listeners.controller_uses)
            if name in added
        }
        self._listeners.update(added)
        self.server.update(server)
        self.client.update(client)

    def remove_listeners(self, config: BrokerConfig) -> None:
        """Forgets the listeners that ``config`` has no more."""
        kept = {endpoint.listener_name for endpoint in config.listeners.bound}
        for name in [name for name in self._listeners if name not in kept]:
            del self._listeners[name], self.server[name]

    def check(self, after: BrokerConfig) -> None:
        """ConfigInvalid unless :meth:`apply` could take ``after`` over."""
        with self._replacing:
            for _, listener in self._changed(after):
                listener.server_tls()
        for endpoint in after.listeners.bound:
            if endpoint.listener_name not in self._listeners:
                SecuredListener(after, endpoint).server()

    def apply(self, after: BrokerConfig) -> None:
        """Replaces the contexts of listeners whose stores are others in ``after``."""
        with self._replacing:
            self._replace(dict(self._changed(after)))

    def reload(self, after: BrokerConfig) -> None:
        """Replaces the contexts of listeners whose keys stay the same, but whose files changed.

        Those whose keys change are left to :meth:`apply`.
        """
        with self._replacing:
            self._replace(dict(self._rewritten(after)))

    def _replace(self, listeners: Mapping[str, SecuredListener]) -> None:
        made = {name: (each.server_tls(), each.client_tls()) for name, each in listeners.items()}
        for name, (server, client) in made.items():
            self._listeners[name] = listeners[name]
            self.server[name].tls = server
            if name in self.client:
                self.client[name].tls = client
            _log.info("Created new TLS contexts of listener %s with its new stores", name)

    def _changed(self, after: BrokerConfig) -> Iterator[tuple[str, SecuredListener]]:
        texts = after.effective
        for name, listener in self._secured_by_tls():
            wanted = _with_stores_of(texts, listener)
            if wanted != listener.texts:
                yield name, self._successor(listener, wanted, after)

    def _rewritten(self, after: BrokerConfig) -> Iterator[tuple[str, SecuredListener]]:
        texts = after.effective
        for name, listener in self._secured_by_tls():
            is_same = _with_stores_of(texts, listener) == listener.texts
            if is_same and listener.stores.are_stale():
                yield name, self._successor(listener, listener.texts, after)

    def _secured_by_tls(self) -> list[tuple[str, SecuredListener]]:
        return [
            (name, listener)
            for name, listener in self._listeners.items()
            if self.server[name].tls is not None
        ]

    def _successor(
        self, listener: SecuredListener, texts: Mapping[str, str], after: BrokerConfig
    ) -> SecuredListener:
        """The listener with other stores; ConfigInvalid if they cannot replace those it has."""
        successor = listener.with_texts(texts)
        _check_successor(listener, successor)
        if listener.endpoint.listener_name == after.listeners.inter_broker:
            _check_handshakes(listener, successor)
        return successor


def _with_stores_of(texts: Mapping[str, str], listener: SecuredListener) -> dict[str, str]:
    """The listener's own configuration with the stores that ``texts`` gives it."""
    names = {listener.prefix + key for key in STORE_KEYS}
    own = {name: text for name, text in listener.texts.items() if name not in names}
    return own | {name: texts[name] for name in sorted(names) if name in texts}


def _check_successor(listener: SecuredListener, successor: SecuredListener) -> None:
    before, after = listener.stores, successor.stores
    if after.material is None:
        raise _refused(
            successor,
            "ssl.keystore.location",
            "a key store: that of an existing listener cannot be removed",
        )
    if before.trusted is None and after.trusted is not None:
        raise _refused(
            successor,
            "ssl.truststore.location",
            "no trust store: one cannot be added to an existing listener that has none",
        )
    _check_names(successor, before, after)


def _check_names(successor: SecuredListener, before: Stores, after: Stores) -> None:
    from replica_manager.security.key_material import LeafNames, leaf_names

    def names(stores: Stores) -> LeafNames:
        assert stores.material is not None
        return leaf_names(stores.material)

    old, new = names(before), names(after)
    if new.subject != old.subject and not successor.is_enabled("ssl.allow.dn.changes"):
        raise _refused(
            successor,
            "ssl.keystore.location",
            f"a certificate with the distinguished name of the old one, {old.subject!r}, and not "
            f"{new.subject!r}: ssl.allow.dn.changes allows another",
        )
    missing = [each for each in old.alternatives if each not in new.alternatives]
    if missing and not successor.is_enabled("ssl.allow.san.changes"):
        raise _refused(
            successor,
            "ssl.keystore.location",
            "a certificate with all subject alternative names of the old one, and without "
            f"{', '.join(missing)}: ssl.allow.san.changes allows fewer",
        )


def _check_own_handshake(listener: SecuredListener) -> None:
    """ConfigInvalid unless brokers that have the stores of this listener reach each other."""
    try:
        _shake_hands(listener, listener)
    except ssl.SSLError as failure:
        raise _refused(
            listener,
            "ssl.keystore.location",
            "on the listener between brokers, a certificate that the trust store of the same "
            f"listener trusts ({_reason(failure)})",
        ) from None


def _check_handshakes(listener: SecuredListener, successor: SecuredListener) -> None:
    """ConfigInvalid unless brokers with the old stores and with the new ones reach each other."""
    for server, client in ((listener, successor), (successor, listener)):
        try:
            _shake_hands(server, client)
        except ssl.SSLError as failure:
            raise _refused(
                successor,
                "ssl.keystore.location",
                "stores with which this broker and those that have the old ones trust each other "
                f"({_reason(failure)})",
            ) from None


def _reason(failure: ssl.SSLError) -> str:
    return getattr(failure, "verify_message", "") or failure.reason or str(failure)


def _shake_hands(server: SecuredListener, client: SecuredListener) -> None:
    """A handshake in memory, whatever the host's name; SSLError if it fails."""
    serving, connecting = server.server_tls(), client.client_tls()
    assert serving is not None
    assert connecting is not None
    connecting.check_hostname = False  # it is asked whether they trust each other
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        connecting.wrap_bio(to_client, to_server),
        serving.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(MAX_HANDSHAKE_ROUNDS):
        for side in tuple(sides):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
                sides.remove(side)
        if not sides:
            return
    raise ssl.SSLError("the handshake came to no end")


def _refused(listener: SecuredListener, key: str, allowed: str) -> ConfigInvalid:
    return ConfigInvalid(listener.prefix + key, "[hidden]", allowed)
