"""Encrypts passwords of dynamic configurations with a secret, for storage in ZooKeeper.

The encoded text is a list of ``name:value`` pairs with the names of the algorithms.  So a broker
can decode passwords that were encoded with other algorithms, and Kafka's brokers can decode ours.

Source: Kafka ``EncryptingPasswordEncoder`` (KIP-226).
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC
from cryptography.hazmat.primitives.padding import PKCS7

from kafka_common.errors import ConfigInvalid, ZkControllerError
from replica_manager.configuration.config_keys import ConfigValue, text_of

_KEY_FACTORY: Final = "password.encoder.keyfactory.algorithm"
_CIPHER: Final = "password.encoder.cipher.algorithm"
_KEY_LENGTH: Final = "password.encoder.key.length"
_ITERATIONS: Final = "password.encoder.iterations"

_HASHES: Final[Mapping[str, hashes.HashAlgorithm]] = {
    "PBKDF2WithHmacSHA1": hashes.SHA1(),
    "PBKDF2WithHmacSHA224": hashes.SHA224(),
    "PBKDF2WithHmacSHA256": hashes.SHA256(),
    "PBKDF2WithHmacSHA384": hashes.SHA384(),
    "PBKDF2WithHmacSHA512": hashes.SHA512(),
}
_DEFAULT_KEY_FACTORY: Final = "PBKDF2WithHmacSHA512"
_GCM: Final = "AES/GCM/NoPadding"
_CIPHERS: Final = ("AES/CBC/PKCS5Padding", _GCM)
_KEY_LENGTHS: Final = (128, 192, 256)
_SALT_BYTES: Final = 256
_CBC_VECTOR_BYTES: Final = 16
_GCM_VECTOR_BYTES: Final = 12
_GCM_TAG_BITS: Final = 128
MAX_ITERATIONS: Final = 10_000_000
"""The most iterations that are accepted; more would keep a thread busy for minutes."""
MAX_ENCODED_CHARACTERS: Final = 1024 * 1024


class PasswordUnreadable(ZkControllerError):
    """A stored password is malformed or was encoded with another secret.  Shows no secret."""


@dataclass(frozen=True, slots=True)
class PasswordEncoder:
    """Encodes with its own settings; decodes with the settings named in the text."""

    secret: str = field(repr=False)
    key_factory: str = _DEFAULT_KEY_FACTORY
    cipher: str = _CIPHERS[0]
    key_length: int = _KEY_LENGTHS[0]
    iterations: int = 4096

    def encode(self, password: str) -> str:
        """The encoded password, to be stored; it differs each time because of a random salt."""
        salt = os.urandom(_SALT_BYTES)
        key = self._key(self.key_factory, self.key_length, salt, self.iterations)
        fields = {
            "encryptedPassword": "",
            "salt": _to_base64(salt),
            "cipherAlgorithm": self.cipher,
            "keyLength": str(self.key_length),
            "keyFactoryAlgorithm": self.key_factory,
            "iterations": str(self.iterations),
            # Java counts UTF-16 units.
            "passwordLength": str(_utf16_units(password)),
        }
        if self.cipher == _GCM:
            vector = os.urandom(_GCM_VECTOR_BYTES)
            encrypted = AESGCM(key).encrypt(vector, password.encode(), None)
            fields["authenticationTagLength"] = str(_GCM_TAG_BITS)
        else:
            vector = os.urandom(_CBC_VECTOR_BYTES)
            padder = PKCS7(AES.block_size).padder()
            padded = padder.update(password.encode()) + padder.finalize()
            encryptor = Cipher(AES(key), CBC(vector)).encryptor()
            encrypted = encryptor.update(padded) + encryptor.finalize()
        fields["encryptedPassword"] = _to_base64(encrypted)
        fields["initializationVector"] = _to_base64(vector)
        return ",".join(f"{name}:{value}" for name, value in fields.items())

    def decode(self, encoded: str) -> str:
        """The decoded password; PasswordUnreadable if it cannot be decoded."""
        if len(encoded) > MAX_ENCODED_CHARACTERS:
            raise PasswordUnreadable(f"more than {MAX_ENCODED_CHARACTERS} characters")
        fields = _fields(encoded)
        try:
            iterations = int(fields["iterations"])
            if not 1 <= iterations <= MAX_ITERATIONS:
                raise PasswordUnreadable(f"iterations are not between 1 and {MAX_ITERATIONS}")
            key_length = int(fields["keyLength"])
            if key_length not in _KEY_LENGTHS:
                raise PasswordUnreadable("its key length is not one of AES")
            salt = _from_base64(fields["salt"])
            key = self._key(fields["keyFactoryAlgorithm"], key_length, salt, iterations)
            password = _decrypted(fields, key).decode()
            length = int(fields["passwordLength"])
        except KeyError as missing:
            raise PasswordUnreadable(f"{missing} is missing or not known") from None
        except (ValueError, binascii.Error, InvalidTag):
            raise PasswordUnreadable("it was encoded with another secret, or damaged") from None
        if _utf16_units(password) != length:
            raise PasswordUnreadable("it was encoded with another secret, or damaged")
        return password

    def _key(self, key_factory: str, bits: int, salt: bytes, iterations: int) -> bytes:
        derivation = PBKDF2HMAC(_HASHES[key_factory], bits // 8, salt, iterations)
        return derivation.derive(self.secret.encode())


def password_encoder(values: Mapping[str, ConfigValue], secret_key: str) -> PasswordEncoder | None:
    """The encoder of the keys ``password.encoder.*``; None without a secret.

    ``secret_key`` is the name of the key with the secret.  Raises ConfigInvalid for invalid keys.
    """
    secret = text_of(values[secret_key])
    if not secret:
        return None
    key_factory = text_of(values[_KEY_FACTORY]) or _DEFAULT_KEY_FACTORY
    cipher = text_of(values[_CIPHER]) or _CIPHERS[0]
    key_length, iterations = values[_KEY_LENGTH], values[_ITERATIONS]
    assert isinstance(key_length, int)
    assert isinstance(iterations, int)
    if key_factory not in _HASHES:
        raise ConfigInvalid(_KEY_FACTORY, key_factory, "one of " + ", ".join(_HASHES))
    if cipher not in _CIPHERS:
        raise ConfigInvalid(_CIPHER, cipher, "one of " + ", ".join(_CIPHERS))
    if key_length not in _KEY_LENGTHS:
        raise ConfigInvalid(_KEY_LENGTH, key_length, "128, 192 or 256")
    if iterations > MAX_ITERATIONS:
        raise ConfigInvalid(_ITERATIONS, iterations, f"at most {MAX_ITERATIONS}")
    return PasswordEncoder(secret, key_factory, cipher, key_length, iterations)


def _decrypted(fields: Mapping[str, str], key: bytes) -> bytes:
    encrypted = _from_base64(fields["encryptedPassword"])
    vector = _from_base64(fields["initializationVector"])
    match fields["cipherAlgorithm"]:
        case "AES/GCM/NoPadding":
            if int(fields["authenticationTagLength"]) != _GCM_TAG_BITS:
                raise PasswordUnreadable(f"its tag has not {_GCM_TAG_BITS} bits")
            return AESGCM(key).decrypt(vector, encrypted, None)
        case "AES/CBC/PKCS5Padding":
            decryptor = Cipher(AES(key), CBC(vector)).decryptor()
            padded = decryptor.update(encrypted) + decryptor.finalize()
            unpadder = PKCS7(AES.block_size).unpadder()
            return unpadder.update(padded) + unpadder.finalize()
        case other:
            raise PasswordUnreadable(f"cipher {other[:100]} is not known")


def _fields(encoded: str) -> dict[str, str]:
    fields = {}
    for pair in encoded.split(","):
        # Split at the last colon: no value contains one.
        name, colon, value = pair.rpartition(":")
        if not colon:
            raise PasswordUnreadable("it is no list of name:value pairs")
        fields[name.strip()] = value.strip()
    return fields


def _utf16_units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _from_base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
