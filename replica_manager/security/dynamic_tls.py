"""The security of every listener, whose key stores can be replaced while the broker runs.

A listener keeps the configuration of its start, except the keys of its key store and trust store.
When these keys or the files that they name change, new TLS contexts replace the old ones: for the
listener, and for this broker's connections to other brokers.  Existing connections do not change.

On the inter-broker listener, a TLS handshake between the key store and the trust store of the same
broker must succeed.  Brokers usually have the same authorities, so a broker that does not trust its
own certificate could not connect to the others; that would be noticed only when replication stops.

The certificate of a new key store must have the same subject as the old one, and every subject
alternative name of it, unless ``ssl.allow.dn.changes`` and ``ssl.allow.san.changes`` are true.  On
the inter-broker listener, handshakes between the new and the old stores must succeed, too, because
the other brokers still have the old ones.

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
"""The most rounds of a handshake in memory; TLS 1.2 and 1.3 take four at most."""
_log = logging.getLogger("org.apache.kafka.common.security.ssl.SslFactory")


class ListenerSecurities:
    """The security of all bound listeners.  The methods read files, so they run in an executor.

    The TLS contexts in :attr:`server` and :attr:`client` are replaced by one assignment each.
    """

    def __init__(self, config: BrokerConfig) -> None:
        """Raises ConfigInvalid if the security configuration of a listener is not valid."""
        self.server: dict[str, ListenerSecurity] = {}
        """The security of connections to a listener of this broker, by listener name."""
        self.client: dict[str, ClientSecurity] = {}
        """The security of this broker's connections to others' listeners, by listener name."""
        self._listeners: dict[str, SecuredListener] = {}
        # A client's request and a notification may replace contexts at the same time.
        self._replacing = threading.Lock()
        self.add_listeners(config)

    def add_listeners(self, config: BrokerConfig) -> None:
        """Adds the new listeners of ``config``; ConfigInvalid if one is not valid."""
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
        """Removes the listeners that ``config`` does not have."""
        kept = {endpoint.listener_name for endpoint in config.listeners.bound}
        for name in [name for name in self._listeners if name not in kept]:
            del self._listeners[name], self.server[name]

    def check(self, after: BrokerConfig) -> None:
        """Raises ConfigInvalid unless ``after`` can be applied."""
        with self._replacing:
            for _, listener in self._changed(after):
                listener.server_tls()
        for endpoint in after.listeners.bound:
            if endpoint.listener_name not in self._listeners:
                SecuredListener(after, endpoint).server()

    def apply(self, after: BrokerConfig) -> None:
        """Replaces the TLS contexts of listeners whose store keys differ in ``after``."""
        with self._replacing:
            self._replace(dict(self._changed(after)))

    def reload(self, after: BrokerConfig) -> None:
        """Replaces the TLS contexts of listeners whose store files changed, but not their keys.

        Listeners whose keys differ in ``after`` are left to :meth:`apply`.
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
        """The listener with new stores; ConfigInvalid if these cannot replace the old ones."""
        successor = listener.with_texts(texts)
        _check_successor(listener, successor)
        if listener.endpoint.listener_name == after.listeners.inter_broker:
            _check_handshakes(listener, successor)
        return successor


def _with_stores_of(texts: Mapping[str, str], listener: SecuredListener) -> dict[str, str]:
    """The listener's configuration with the store keys of ``texts``."""
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
    """ConfigInvalid unless two brokers with these stores can connect to each other."""
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
    """ConfigInvalid unless a broker with the old stores and one with the new can connect."""
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
    """Does a TLS handshake in memory without host name verification; SSLError if it fails."""
    serving, connecting = server.server_tls(), client.client_tls()
    assert serving is not None
    assert connecting is not None
    connecting.check_hostname = False  # only trust is checked
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
