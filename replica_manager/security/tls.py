"""TLS contexts by Kafka's ``ssl.*`` keys, for listeners, clients and ZooKeeper.

Source: Kafka ``DefaultSslEngineFactory``.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from msgspec import Struct

from kafka_common.errors import ConfigInvalid

if TYPE_CHECKING:
    from replica_manager.security.key_material import KeyMaterial

_TLS_VERSIONS: Final = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}


class TlsKeys(Protocol):
    """A source of the values of ``ssl.*`` keys."""

    @property
    def prefix(self) -> str:
        """The prefix of the keys, for error messages."""

    def text(self, key: str) -> str | None:
        """The value of a key or its default; None if there is neither."""

    def names(self, key: str) -> tuple[str, ...]:
        """The value of a key whose type is a list."""


class Stores(Struct, frozen=True):
    """The content of a trust store and a key store, and the state of their files."""

    trusted: str | None
    """The trusted certificates as PEM; None to trust those of the system."""
    material: KeyMaterial | None
    """The private key and its certificates; None if there is no key store."""
    files: Mapping[str, FileState]
    """The state of each file by path, from before it was read."""

    def are_stale(self) -> bool:
        """Whether a file has changed since it was read.  Reads the files' metadata."""
        return any(_file_state(path) != state for path, state in self.files.items())


class FileState(NamedTuple):
    """File metadata that changes when a file is written or replaced; -1 if unreadable."""

    modified_ns: int
    size: int
    inode: int


def load_stores(keys: TlsKeys) -> Stores:
    """Loads the stores; ConfigInvalid for invalid keys or stores.  Reads files."""
    # The import loads ten megabytes of cryptography, which only TLS needs.
    from replica_manager.security.key_material import (
        KeyStoreSettings,
        TrustStoreSettings,
        load_key_store,
        load_trust_store,
    )

    locations = [keys.text("ssl.truststore.location"), keys.text("ssl.keystore.location")]
    # Taken before the files are read: if one changes during the read, it is read again later.
    files = {path: _file_state(path) for path in locations if path}
    trusted = load_trust_store(
        TrustStoreSettings(
            keys.prefix,
            keys.text("ssl.truststore.type") or "",
            keys.text("ssl.truststore.location") or None,
            keys.text("ssl.truststore.password") or None,
            keys.text("ssl.truststore.certificates") or None,
        )
    )
    material = load_key_store(
        KeyStoreSettings(
            keys.prefix,
            keys.text("ssl.keystore.type") or "",
            keys.text("ssl.keystore.location") or None,
            keys.text("ssl.keystore.password") or None,
            keys.text("ssl.key.password") or None,
            keys.text("ssl.keystore.key") or None,
            keys.text("ssl.keystore.certificate.chain") or None,
        )
    )
    return Stores(trusted, material, files)


def _file_state(path: str) -> FileState:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return FileState(-1, -1, -1)  # reading the file will raise the error
    return FileState(found.st_mtime_ns, found.st_size, found.st_ino)


def client_context(keys: TlsKeys, stores: Stores | None = None) -> ssl.SSLContext:
    """A TLS context for connections to a server; ConfigInvalid for invalid keys.

    Reads the key stores if ``stores`` is None.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    algorithm = keys.text("ssl.endpoint.identification.algorithm") or ""
    if algorithm.lower() not in ("", "https"):
        raise ConfigInvalid(
            f"{keys.prefix}ssl.endpoint.identification.algorithm", algorithm, "https, or no value"
        )
    context.check_hostname = bool(algorithm)
    prepare(keys, context, load_stores(keys) if stores is None else stores)
    return context


def prepare(keys: TlsKeys, context: ssl.SSLContext, stores: Stores) -> bool:
    """Sets TLS versions, trusted certificates and private key; returns whether there is a key.

    Raises ConfigInvalid for invalid keys.
    """
    _limit_versions(keys, context)
    # As in Java, every certificate in a trust store is trusted, even if it is not an authority.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if stores.trusted is None:
        context.load_default_certs()
    else:
        context.load_verify_locations(cadata=stores.trusted)
    if stores.material is None:
        return False
    from replica_manager.security.key_material import use_key

    use_key(context, stores.material)
    return True


def _limit_versions(keys: TlsKeys, context: ssl.SSLContext) -> None:
    names = keys.names("ssl.enabled.protocols") or ("TLSv1.2", "TLSv1.3")
    unknown = [name for name in names if name not in _TLS_VERSIONS]
    if unknown:
        raise ConfigInvalid(
            f"{keys.prefix}ssl.enabled.protocols",
            ",".join(names),
            "out of " + ", ".join(_TLS_VERSIONS),
        )
    versions = list(_TLS_VERSIONS)
    places = sorted(versions.index(name) for name in set(names))
    if places != list(range(places[0], places[-1] + 1)):
        raise ConfigInvalid(
            f"{keys.prefix}ssl.enabled.protocols",
            ",".join(names),
            "versions without a gap between them",
        )
    context.minimum_version = _TLS_VERSIONS[versions[places[0]]]
    context.maximum_version = _TLS_VERSIONS[versions[places[-1]]]
