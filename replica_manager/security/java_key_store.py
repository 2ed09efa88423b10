"""Reads JKS, Java's own format of key stores: private keys with their chains, and certificates.

A private key is hidden by a keystream of SHA-1 over its password, and the whole by a SHA-1 of the
password and the bytes.  ``keytool`` has made PKCS12 instead since Java 9.

Source: the JDK's ``sun.security.provider.JavaKeyStore`` and ``KeyProtector``.
"""

from __future__ import annotations

import hashlib
import hmac
from struct import error as struct_error
from typing import Final, NamedTuple

from kafka_common.errors import InvalidFrame, ZkControllerError
from kafka_common.protocol.wire_reader import WireReader
from replica_manager.security.der import InvalidDer, elements, only

JKS_MAGIC: Final = b"\xfe\xed\xfe\xed"
_VERSIONS: Final = (1, 2)
_TYPED_SINCE: Final = 2
"""The first version in which a certificate names its type."""
_KEY, _CERTIFICATE = 1, 2
_DATE_BYTES: Final = 8
_SALT: Final = b"Mighty Aphrodite"
"""Part of what the checksum at the end of a store is made of."""
_DIGEST_BYTES: Final = 20
_PROTECTED: Final = bytes.fromhex("060a2b060104012a02110101")
"""The object id 1.3.6.1.4.1.42.2.17.1.1, by which Java names its way to hide a key, in DER."""


class InvalidKeyStore(ZkControllerError):
    """The bytes are no key store, or the password does not belong to it."""


class KeyEntry(NamedTuple):
    """A private key and its certificates."""

    protected: bytes
    """The private key, hidden by its password: an ``EncryptedPrivateKeyInfo``."""
    chain: list[bytes]
    """Its certificates in DER, leaf first."""


class JavaKeyStore(NamedTuple):
    """What a store holds, in the order of the file."""

    keys: list[KeyEntry]
    certificates: list[bytes]
    """Trusted certificates in DER."""


def load_jks(data: bytes, password: str | None) -> JavaKeyStore:
    """The entries of a store; without a password its checksum is not compared, as in Java.

    Raises InvalidKeyStore.
    """
    body = data[:-_DIGEST_BYTES]
    if password is not None:
        digest = _sha1(_encoded(password), _SALT, body)
        if not hmac.compare_digest(digest, data[-_DIGEST_BYTES:]):
            raise InvalidKeyStore("the password does not belong to the key store")
    try:
        return _Reader(body, 0, is_flexible=False).read()
    except (InvalidFrame, struct_error):
        raise InvalidKeyStore("the key store is cut off") from None


def unlocked(protected: bytes, password: str) -> bytes:
    """A private key (PKCS8 in DER) out of a :class:`KeyEntry`.  Raises InvalidKeyStore."""
    try:
        algorithm, hidden = elements(only(protected).content)
    except (InvalidDer, ValueError):
        raise InvalidKeyStore("the private key cannot be read") from None
    if not algorithm.content.startswith(_PROTECTED):
        raise InvalidKeyStore("the private key is not hidden in the way of JKS")
    salt, text = hidden.content[:_DIGEST_BYTES], hidden.content[_DIGEST_BYTES:-_DIGEST_BYTES]
    secret = _encoded(password)
    stream = bytearray()
    digest = salt
    while len(stream) < len(text):
        digest = _sha1(secret, digest)
        stream += digest
    key = bytes(a ^ b for a, b in zip(text, stream, strict=False))
    if not hmac.compare_digest(_sha1(secret, key), hidden.content[-_DIGEST_BYTES:]):
        raise InvalidKeyStore("the password does not belong to the private key")
    return key


def _sha1(*parts: bytes) -> bytes:
    return hashlib.sha1(b"".join(parts), usedforsecurity=False).digest()


def _encoded(password: str) -> bytes:
    return password.encode("utf-16-be")


class _Reader(WireReader[bytes]):
    """Java's ``DataInputStream`` writes numbers as the fixed encoding of the protocol does."""

    def read(self) -> JavaKeyStore:
        magic, version = self._bytes(len(JKS_MAGIC)), self._int32()
        if magic != JKS_MAGIC or version not in _VERSIONS:
            raise InvalidKeyStore("not a JKS file")
        is_typed = version >= _TYPED_SINCE
        store = JavaKeyStore([], [])
        for _ in range(self._int32()):
            tag = self._int32()
            self._sized(self._int16())  # the alias
            self._int64()  # the date
            if tag == _KEY:
                protected = self._sized(self._int32())
                chain = [self._certificate(is_typed) for _ in range(self._int32())]
                store.keys.append(KeyEntry(protected, chain))
            elif tag == _CERTIFICATE:
                store.certificates.append(self._certificate(is_typed))
            else:
                raise InvalidKeyStore(f"the key store has an entry of the unknown kind {tag}")
        return store

    def _certificate(self, is_typed: bool) -> bytes:
        if is_typed:
            self._sized(self._int16())
        return self._sized(self._int32())

    def _sized(self, size: int) -> bytes:
        if size < 0:
            raise InvalidFrame(f"{size} bytes announced")
        return self._bytes(size)
