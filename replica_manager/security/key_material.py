"""Key stores and trust stores: PEM (files or text in the configuration), PKCS12 and JKS.

JKS is detected by the first bytes of the file, because Java reads PKCS12 if the configured type is
JKS, and the other way round.  Java's JCEKS is refused; the error shows the command to convert it.
A private key is never written to disk: OpenSSL reads it from a file in memory.

Source: Kafka ``DefaultSslEngineFactory`` (KIP-651).
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import ssl
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
    load_pem_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import (
    PKCS12KeyAndCertificates,
    load_pkcs12,
)

from kafka_common.errors import ConfigInvalid
from replica_manager.regular_files import read_configured
from replica_manager.security.certificate_names import distinguished_name
from replica_manager.security.java_key_store import (
    JKS_MAGIC,
    InvalidKeyStore,
    JavaKeyStore,
    load_jks,
    unlocked,
)

PEM: Final = "PEM"
MAX_STORE_BYTES: Final = 16 * 1024 * 1024
_PEM_MAGIC: Final = b"-----BEGIN "
_JCEKS_MAGIC: Final = b"\xce\xce\xce\xce"
_CERTIFICATE: Final = re.compile(
    r"-+BEGIN\s+CERTIFICATE[^-]*-+\s+[a-zA-Z0-9/+=\s]*-+END\s+CERTIFICATE[^-]*-+"
)
_PRIVATE_KEY: Final = re.compile(
    r"-+BEGIN\s[A-Z\s]*PRIVATE\s+KEY[^-]*-+\s+[^-]*-+END\s[A-Z\s]*PRIVATE\s+KEY[^-]*-+"
)
_TOO_WEAK: Final = ("CA_MD_TOO_WEAK", "EE_KEY_TOO_SMALL", "CA_KEY_TOO_SMALL")
_log = logging.getLogger("org.apache.kafka.common.security.ssl.DefaultSslEngineFactory")
# The exceptions of the library for invalid bytes or a wrong password.
_UNREADABLE: Final = (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion)


@dataclass(frozen=True, slots=True)
class KeyStoreSettings:
    """The keys ``ssl.keystore.*`` and ``ssl.key.password`` of a listener."""

    prefix: str = ""
    """The listener prefix of the keys, for error messages."""
    store_type: str = "JKS"
    location: str | None = None
    password: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    private_key: str | None = field(default=None, repr=False)
    certificate_chain: str | None = None


@dataclass(frozen=True, slots=True)
class TrustStoreSettings:
    """The keys ``ssl.truststore.*`` of a listener."""

    prefix: str = ""
    store_type: str = "JKS"
    location: str | None = None
    password: str | None = field(default=None, repr=False)
    certificates: str | None = None


@dataclass(frozen=True, slots=True)
class KeyMaterial:
    """A private key and its certificates, leaf first, both as PEM."""

    private_key: bytes = field(repr=False)
    chain: bytes
    key: str
    """The configuration key that it comes from, for error messages."""


def load_key_store(settings: KeyStoreSettings) -> KeyMaterial | None:
    """The configured private key and certificates, None if there are none.  Reads files.

    Raises ConfigInvalid if they cannot be used.
    """
    is_pem = settings.store_type.upper() == PEM

    def refuse(key: str, allowed: str) -> ConfigInvalid:
        return ConfigInvalid(settings.prefix + key, "[hidden]", allowed)

    if settings.private_key is not None:
        if not is_pem or settings.location or settings.password:
            raise refuse(
                "ssl.keystore.key",
                "only with ssl.keystore.type=PEM, and without a key store's location and password",
            )
        if settings.certificate_chain is None:
            raise refuse("ssl.keystore.key", "only together with ssl.keystore.certificate.chain")
        return _from_pem(settings, settings.private_key, settings.certificate_chain, is_file=False)
    if settings.certificate_chain is not None:
        raise refuse("ssl.keystore.certificate.chain", "only together with ssl.keystore.key")
    if settings.location is None:
        if settings.password is not None:
            raise refuse("ssl.keystore.password", "only together with ssl.keystore.location")
        return None
    key = f"{settings.prefix}ssl.keystore.location"
    if is_pem:
        if settings.password is not None:
            raise refuse("ssl.keystore.password", "nothing with PEM: its key has ssl.key.password")
        text = _read(key, settings.location).decode("utf-8", "replace")
        return _from_pem(settings, text, text, is_file=True)
    if settings.password is None:
        raise refuse("ssl.keystore.password", "a password: a key store of that type has one")
    data = _read(key, settings.location)
    if data.startswith(JKS_MAGIC):
        key_password = settings.key_password or settings.password
        return _from_jks(key, settings.location, data, settings.password, key_password)
    return _from_pkcs12(key, settings.location, data, settings.password)


def load_trust_store(settings: TrustStoreSettings) -> str | None:
    """The trusted certificates as PEM; None to trust those of the system.  Reads files."""
    is_pem = settings.store_type.upper() == PEM
    if settings.certificates is not None:
        key = f"{settings.prefix}ssl.truststore.certificates"
        if not is_pem or settings.location or settings.password:
            raise ConfigInvalid(
                key,
                "[hidden]",
                "only with ssl.truststore.type=PEM, and without a trust store's location and "
                "password",
            )
        return _certificates(key, settings.certificates)
    if settings.location is None:
        if settings.password is not None:
            raise ConfigInvalid(
                f"{settings.prefix}ssl.truststore.password",
                "[hidden]",
                "only together with ssl.truststore.location",
            )
        return None
    key = f"{settings.prefix}ssl.truststore.location"
    data = _read(key, settings.location)
    if is_pem:
        return _certificates(key, data.decode("utf-8", "replace"))
    if data.startswith(JKS_MAGIC):
        found = _trusted_by_jks(key, settings.location, data, settings.password)
    else:
        found = _trusted_by_pkcs12(key, settings.location, data, settings.password)
    if not found:
        raise ConfigInvalid(key, settings.location, "a trust store that holds certificates")
    return "".join(each.public_bytes(Encoding.PEM).decode() for each in found)


class LeafNames(NamedTuple):
    """The names in a server's certificate."""

    subject: str
    """The subject in lower case, with single blanks, for a comparison."""
    alternatives: tuple[str, ...]
    """The subject alternative names: ``DNSName:localhost``, ``IPAddress:127.0.0.1`` and so on."""


def leaf_names(material: KeyMaterial) -> LeafNames:
    """The names of the leaf certificate, which peers see."""
    leaf = x509.load_pem_x509_certificates(material.chain)[0]
    # Java compares the canonical form, which ignores case and repeated blanks.
    subject = " ".join(distinguished_name(leaf.public_bytes(Encoding.DER)).lower().split())
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return LeafNames(subject, ())
    return LeafNames(subject, tuple(f"{type(each).__name__}:{each.value}" for each in names))


def use_key(context: ssl.SSLContext, material: KeyMaterial) -> None:
    """Loads the private key and certificates into the context; ConfigInvalid if OpenSSL refuses.

    A chain with a SHA-1 signature is accepted, as in Kafka on Java 17.  The context then accepts
    SHA-1 signatures of the other side, too, which is logged.
    """
    try:
        _load(context, material)
    except ssl.SSLError as refused:
        if refused.reason not in _TOO_WEAK:
            allowed = f"a private key that fits its certificate ({refused.reason})"
            raise ConfigInvalid(material.key, "[hidden]", allowed) from None
        weak = _weakest_signature(material)
        if weak != "sha1":
            raise ConfigInvalid(
                material.key,
                "[hidden]",
                f"certificates and keys that are strong enough for OpenSSL ({refused.reason}; "
                f"weakest signature by {weak}): have them signed anew, with SHA-256 or better",
            ) from None
        _log.warning(
            "%s holds a certificate that is signed with SHA-1. It is served, and certificates "
            "signed with SHA-1 are accepted from the other side. Have it signed anew, with "
            "SHA-256 or better.",
            material.key,
        )
        # Keep the cipher suites: only the requirements for certificates are lowered.
        suites = [each["name"] for each in context.get_ciphers() if each["protocol"] != "TLSv1.3"]
        context.set_ciphers(":".join(("@SECLEVEL=0", *suites)))
        _load(context, material)


def _load(context: ssl.SSLContext, material: KeyMaterial) -> None:
    with _in_memory(material.private_key) as key_file, _in_memory(material.chain) as chain:
        context.load_cert_chain(chain, key_file)


def _weakest_signature(material: KeyMaterial) -> str:
    """The hash name of the chain's weakest signature, without those of self-signed roots."""
    found = [
        each.signature_hash_algorithm
        for each in x509.load_pem_x509_certificates(material.chain)
        if each.issuer != each.subject
    ]
    return min(
        (each for each in found if each is not None),
        key=lambda each: (each.name != "md5", each.digest_size),
        default=hashes.SHA256(),
    ).name


@contextlib.contextmanager
def _in_memory(data: bytes) -> Iterator[str]:
    """The path of a file in memory with the data."""
    descriptor = os.memfd_create("zkcontroller")
    try:
        os.write(descriptor, data)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _from_pem(
    settings: KeyStoreSettings, key_text: str, chain_text: str, *, is_file: bool
) -> KeyMaterial:
    name = "ssl.keystore.location" if is_file else "ssl.keystore.key"
    chain_name = name if is_file else "ssl.keystore.certificate.chain"
    key = settings.prefix + name
    found = _PRIVATE_KEY.findall(key_text)
    if len(found) != 1:
        raise ConfigInvalid(key, "[hidden]", f"exactly one private key, {len(found)} found")
    try:
        private_key = load_pem_private_key(found[0].encode(), _encoded(settings.key_password))
    except _UNREADABLE:
        raise ConfigInvalid(
            f"{settings.prefix}ssl.key.password",
            "[hidden]",
            "the password of the private key, and none for a key without",
        ) from None
    return KeyMaterial(
        private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        _certificates(settings.prefix + chain_name, chain_text).encode(),
        key,
    )


def _from_pkcs12(key: str, location: str, data: bytes, password: str) -> KeyMaterial:
    store = _pkcs12(key, location, data, password)
    if store.key is None or store.cert is None:
        raise _no_key(key, location)
    others = [each.certificate for each in store.additional_certs]
    return _material(store.key, _chain(store.cert.certificate, others), key)


def _trusted_by_pkcs12(
    key: str, location: str, data: bytes, password: str | None
) -> list[x509.Certificate]:
    store = _pkcs12(key, location, data, password)
    own = [] if store.cert is None else [store.cert]
    return [each.certificate for each in (*store.additional_certs, *own)]


def _pkcs12(key: str, location: str, data: bytes, password: str | None) -> PKCS12KeyAndCertificates:
    if data.startswith(_JCEKS_MAGIC):
        raise ConfigInvalid(
            key,
            location,
            "PEM, PKCS12 or JKS, not JCEKS: convert it with keytool -importkeystore -srckeystore "
            "FILE -destkeystore FILE.p12 -deststoretype PKCS12",
        )
    try:
        return load_pkcs12(data, _encoded(password))
    except _UNREADABLE:
        raise _not_pkcs12(key, location, data) from None


def _from_jks(
    key: str, location: str, data: bytes, password: str, key_password: str
) -> KeyMaterial:
    """The first private key of the file, if it has several; Java takes any that suits the peer."""
    store = _jks(key, location, data, password)
    if not store.keys:
        raise _no_key(key, location)
    entry = store.keys[0]
    try:
        private_key = load_der_private_key(unlocked(entry.protected, key_password), None)
        chain = list(map(x509.load_der_x509_certificate, entry.chain))
    except InvalidKeyStore as invalid:
        password_key = key.removesuffix("keystore.location") + "key.password"
        raise ConfigInvalid(password_key, "[hidden]", f"another password: {invalid}") from None
    except _UNREADABLE:
        raise ConfigInvalid(key, location, "a key and certificates that can be read") from None
    if not chain:
        raise _no_key(key, location)
    return _material(private_key, chain, key)


def _trusted_by_jks(
    key: str, location: str, data: bytes, password: str | None
) -> list[x509.Certificate]:
    store = _jks(key, location, data, password)
    # Java also trusts the certificates of private keys.
    found = [*store.certificates, *(each.chain[0] for each in store.keys if each.chain)]
    try:
        return list(map(x509.load_der_x509_certificate, found))
    except _UNREADABLE:
        raise ConfigInvalid(key, location, "certificates that can be read") from None


def _jks(key: str, location: str, data: bytes, password: str | None) -> JavaKeyStore:
    try:
        return load_jks(data, password)
    except InvalidKeyStore as invalid:
        raise ConfigInvalid(
            key, location, f"a JKS file, and the password that belongs to it ({invalid})"
        ) from None


def _no_key(key: str, location: str) -> ConfigInvalid:
    return ConfigInvalid(key, location, "a key store that holds a private key and its certificate")


def _material(
    private_key: PrivateKeyTypes, chain: Iterable[x509.Certificate], key: str
) -> KeyMaterial:
    return KeyMaterial(
        private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        b"".join(each.public_bytes(Encoding.PEM) for each in chain),
        key,
    )


def _chain(leaf: x509.Certificate, others: list[x509.Certificate]) -> list[x509.Certificate]:
    """The leaf certificate and its issuers, as far as ``others`` has them."""
    chain = [leaf]
    while chain[-1].issuer != chain[-1].subject:
        issuer = next((each for each in others if each.subject == chain[-1].issuer), None)
        if issuer is None or issuer in chain:
            break
        chain.append(issuer)
    return chain


def _certificates(key: str, text: str) -> str:
    found = _CERTIFICATE.findall(text)
    if not found:
        raise ConfigInvalid(key, "[hidden]", "PEM text with at least one certificate")
    try:
        for each in found:
            x509.load_pem_x509_certificate(each.encode())
    except _UNREADABLE:
        raise ConfigInvalid(key, "[hidden]", "certificates that can be read") from None
    return "\n".join(found) + "\n"


def _read(key: str, location: str) -> bytes:
    try:
        return read_configured(Path(location), MAX_STORE_BYTES)
    except OSError as failure:
        raise ConfigInvalid(key, location, f"a readable file ({failure.strerror})") from None


def _not_pkcs12(key: str, location: str, data: bytes) -> ConfigInvalid:
    if data.lstrip().startswith(_PEM_MAGIC):
        store_type = key.removesuffix("location") + "type"
        return ConfigInvalid(
            key, location, f"a PKCS12 or JKS file: this one needs {store_type}={PEM}"
        )
    return ConfigInvalid(key, location, "a PKCS12 or JKS file, and the password that belongs to it")


def _encoded(password: str | None) -> bytes | None:
    return None if password is None else password.encode()
