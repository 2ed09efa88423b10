"""Passwords of dynamic configurations, encoded as Kafka encodes them.

``tests/support/data/encoded-passwords.txt`` holds what Kafka 3.9.1 made of one password,
by two ciphers.
"""

from __future__ import annotations

import pytest

from kafka_common.errors import ConfigInvalid
from replica_manager.configuration.config import BrokerConfig
from replica_manager.security.dynamic_passwords import DynamicPasswords, NoPasswordSecret
from replica_manager.security.password_encoder import PasswordEncoder, PasswordUnreadable
from tests.support.paths import DATA

PASSWORD = "störe,pass:😀"


def passwords(**properties: str) -> DynamicPasswords:
    dotted = {name.replace("__", "."): value for name, value in properties.items()}
    return DynamicPasswords(BrokerConfig.parse({"zookeeper.connect": "z:1", **dotted}).values)


def test_what_kafka_encoded_is_read() -> None:
    encoder = PasswordEncoder("a secret")

    lines = (DATA / "encoded-passwords.txt").read_text().splitlines()

    assert [encoder.decode(line) for line in lines] == [PASSWORD, PASSWORD]


@pytest.mark.parametrize(
    ("cipher", "bits"),
    [("AES/CBC/PKCS5Padding", 128), ("AES/CBC/PKCS5Padding", 256), ("AES/GCM/NoPadding", 192)],
)
def test_a_text_says_itself_how_it_was_encoded(cipher: str, bits: int) -> None:
    made = PasswordEncoder("a secret", "PBKDF2WithHmacSHA1", cipher, bits, 1024)

    encoded = made.encode(PASSWORD)

    assert PasswordEncoder("a secret").decode(encoded) == PASSWORD
    assert made.encode(PASSWORD) != encoded
    assert PASSWORD not in encoded


def test_another_secret_and_every_damage_are_refused_without_showing_anything() -> None:
    encoded = PasswordEncoder("a secret").encode("storepass")
    fields = encoded.split(",")
    damaged = [
        *(",".join(fields[:place] + fields[place + 1 :]) for place in range(len(fields))),
        encoded.replace("keyLength:128", "keyLength:1"),
        encoded.replace("iterations:4096", "iterations:99999999999"),
        encoded.replace("passwordLength:9", "passwordLength:8"),
        encoded.replace("AES/CBC", "DES/CBC"),
        encoded.replace("encryptedPassword:", "encryptedPassword:%%%"),
        "storepass",
        "",
        "x" * 2_000_000,
    ]

    for text in damaged:
        with pytest.raises(PasswordUnreadable) as refused:
            PasswordEncoder("a secret").decode(text)
        assert "storepass" not in str(refused.value)
    with pytest.raises(PasswordUnreadable, match="another secret"):
        PasswordEncoder("another").decode(encoded)


def test_only_passwords_are_encoded_and_only_with_a_secret() -> None:
    config = {"listener.name.tls.ssl.key.password": "p", "max.connections": "7"}

    encoded = passwords(password__encoder__secret="s").encoded(config)

    assert encoded["max.connections"] == "7"
    assert "encryptedPassword:" in encoded["listener.name.tls.ssl.key.password"]
    assert passwords(password__encoder__secret="s").decoded(encoded) == config
    with pytest.raises(NoPasswordSecret):
        passwords().encoded(config)


def test_a_password_that_cannot_be_read_is_left_out_and_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stored = {"listener.name.tls.ssl.key.password": "plain", "max.connections": "7"}

    assert passwords(password__encoder__secret="s").decoded(stored) == {"max.connections": "7"}
    assert "listener.name.tls.ssl.key.password could not be decoded" in caplog.text


def test_passwords_of_the_old_secret_are_encoded_anew() -> None:
    name = "listener.name.tls.ssl.key.password"
    old = passwords(password__encoder__secret="old").encoded({name: "p", "max.connections": "7"})
    both = passwords(password__encoder__secret="new", password__encoder__old__secret="old")

    changed = both.re_encoded(old)

    assert changed is not None
    assert passwords(password__encoder__secret="new").decoded(changed)[name] == "p"
    assert changed["max.connections"] == "7"
    assert both.re_encoded(changed) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("password.encoder.cipher.algorithm", "DES"),
        ("password.encoder.keyfactory.algorithm", "MD5"),
        ("password.encoder.key.length", "100"),
        ("password.encoder.iterations", "2000000000"),
    ],
)
def test_an_algorithm_that_is_not_known_is_refused(key: str, value: str) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        passwords(**{"password.encoder.secret": "s", key: value})

    assert refused.value.key == key
