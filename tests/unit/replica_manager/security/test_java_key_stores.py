"""JKS files, as ``keytool -storetype JKS`` of a JDK wrote them."""

from __future__ import annotations

import contextlib
import random
import ssl
from pathlib import Path

import pytest
from cryptography import x509

from kafka_common.errors import ConfigInvalid
from replica_manager.security.java_key_store import InvalidKeyStore, load_jks, unlocked
from replica_manager.security.key_material import (
    KeyStoreSettings,
    TrustStoreSettings,
    leaf_names,
    load_key_store,
    load_trust_store,
    use_key,
)
from tests.support.paths import DATA

SERVER = DATA / "server.jks"
"""A private key with the password ``keypass``, and its certificate for 127.0.0.1 and localhost."""
TRUSTED = DATA / "trusted.jks"
"""That certificate, as a trusted one."""


def key_store(
    password: str = "storepass", key_password: str | None = "keypass"
) -> KeyStoreSettings:
    return KeyStoreSettings("p.", "JKS", str(SERVER), password, key_password)


def test_a_key_and_its_certificates_are_read() -> None:
    material = load_key_store(key_store())

    assert material is not None
    assert leaf_names(material) == ("cn=broker", ("IPAddress:127.0.0.1", "DNSName:localhost"))
    # OpenSSL refuses a key that does not fit its certificate.
    use_key(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), material)


@pytest.mark.parametrize("store_type", ["JKS", "PKCS12", "jks"])
@pytest.mark.parametrize("password", ["trustpass", None])
def test_trusted_certificates_are_read_also_without_the_password(
    store_type: str, password: str | None
) -> None:
    """As in Java, which does not compare the checksum then."""
    trusted = load_trust_store(TrustStoreSettings("", store_type, str(TRUSTED), password))

    assert trusted is not None
    [certificate] = x509.load_pem_x509_certificates(trusted.encode())
    assert certificate.subject.rfc4514_string() == "CN=broker"


def test_the_certificate_of_a_private_key_is_trusted_too() -> None:
    of_key = load_trust_store(TrustStoreSettings("", "JKS", str(SERVER), "storepass"))

    assert of_key == load_trust_store(TrustStoreSettings("", "JKS", str(TRUSTED), "trustpass"))


@pytest.mark.parametrize(
    ("settings", "key", "allowed"),
    [
        (
            key_store("wrong"),
            "p.ssl.keystore.location",
            "password does not belong to the key store",
        ),
        (key_store(key_password="wrong"), "p.ssl.key.password", "not belong to the private key"),
        # Without a password of its own, the key should have that of the store.
        (key_store(key_password=None), "p.ssl.key.password", "not belong to the private key"),
        (
            KeyStoreSettings("p.", "JKS", str(TRUSTED), "trustpass"),
            "p.ssl.keystore.location",
            "a key store that holds a private key",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_key(
    settings: KeyStoreSettings, key: str, allowed: str
) -> None:
    with pytest.raises(ConfigInvalid, match=allowed) as refused:
        load_key_store(settings)
    assert refused.value.key == key


def test_a_trust_store_of_another_password_is_refused() -> None:
    with pytest.raises(ConfigInvalid, match="password does not belong to the key store"):
        load_trust_store(TrustStoreSettings("", "JKS", str(TRUSTED), "wrong"))


def test_a_damaged_store_is_refused(tmp_path: Path) -> None:
    data = SERVER.read_bytes()
    seeded = random.Random(1)
    damaged = [data[:size] for size in range(len(data))]
    for _ in range(2_000):
        changed = bytearray(data)
        changed[seeded.randrange(len(data))] ^= 1 << seeded.randrange(8)
        damaged.append(bytes(changed))

    for each in damaged:
        with pytest.raises(InvalidKeyStore):
            load_jks(each, "storepass")
        # Without a password the checksum is not compared: the entries must bear it.
        with contextlib.suppress(InvalidKeyStore):
            for entry in load_jks(each, None).keys:
                unlocked(entry.protected, "keypass")
        file = tmp_path / "damaged.jks"
        file.write_bytes(each)
        with contextlib.suppress(ConfigInvalid):
            load_trust_store(TrustStoreSettings("", "JKS", str(file)))
