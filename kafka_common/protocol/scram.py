"""SCRAM: messages, formulas, and the credential that a server stores instead of a password.

Pure: random nonces are arguments.  A credential never shows its keys when it is printed.

Source: RFC 5802, RFC 7677; Kafka ``ScramMessages``, ``ScramFormatter``, ``ScramCredentialUtils``.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from kafka_common.errors import SaslRefused

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
"""The most iterations that AlterUserScramCredentials allows."""

MAX_CLIENT_ITERATIONS: Final = 1_000_000
"""A client refuses more: a server could make it compute for a second or longer."""


class ScramMechanism(Enum):
    """A SCRAM mechanism; ``value`` is (type id on the wire, name of the hash)."""

    SCRAM_SHA_256 = (1, "sha256")
    SCRAM_SHA_512 = (2, "sha512")

    @property
    def type_id(self) -> int:
        return self.value[0]

    @property
    def hash_name(self) -> str:
        return self.value[1]

    @property
    def mechanism_name(self) -> str:
        """The name that SASL uses, such as ``SCRAM-SHA-256``."""
        return self.name.replace("_", "-")


MECHANISMS: Final = {mechanism.mechanism_name: mechanism for mechanism in ScramMechanism}
MECHANISMS_BY_TYPE: Final = {mechanism.type_id: mechanism for mechanism in ScramMechanism}


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """A server's data about a user: verifies the password and does not reveal it."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    @classmethod
    def of_salted_password(
        cls, mechanism: ScramMechanism, salt: bytes, salted_password: bytes, iterations: int
    ) -> ScramCredential:
        """The credential of a password that was salted by :func:`salt_password`."""
        client_key = _hmac(mechanism, salted_password, b"Client Key")
        return cls(
            salt,
            _hash(mechanism, client_key),
            _hmac(mechanism, salted_password, b"Server Key"),
            iterations,
        )

    def encode(self) -> str:
        """``salt=…,stored_key=…,server_key=…,iterations=4096``, as ``/config/users`` holds it."""
        return (
            f"salt={_base64(self.salt)},stored_key={_base64(self.stored_key)},"
            f"server_key={_base64(self.server_key)},iterations={self.iterations}"
        )

    @classmethod
    def decode(cls, text: str) -> ScramCredential:
        """The credential in that text; raises ValueError, which does not quote the text."""
        pairs = dict(token.partition("=")[::2] for token in text.split(","))
        if set(pairs) != {"salt", "stored_key", "server_key", "iterations"}:
            raise ValueError("not a SCRAM credential")
        if not re.fullmatch(r"[0-9]{1,9}", pairs["iterations"]):
            raise ValueError("a SCRAM credential without a number of iterations")
        try:
            salt, stored_key, server_key = (
                base64.b64decode(pairs[key], validate=True)
                for key in ("salt", "stored_key", "server_key")
            )
        except binascii.Error:
            raise ValueError("a SCRAM credential that is not base64") from None
        return cls(salt, stored_key, server_key, int(pairs["iterations"]))


def salt_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """The salted password (PBKDF2); takes some milliseconds."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def client_proof(mechanism: ScramMechanism, salted_password: bytes, auth_message: str) -> bytes:
    """The proof that the client knows the password."""
    client_key = _hmac(mechanism, salted_password, b"Client Key")
    signature = _hmac(mechanism, _hash(mechanism, client_key), auth_message.encode())
    return _xor(client_key, signature)


def is_proof(
    mechanism: ScramMechanism, credential: ScramCredential, auth_message: str, proof: bytes
) -> bool:
    """Whether a client's proof matches that credential."""
    signature = _hmac(mechanism, credential.stored_key, auth_message.encode())
    if len(proof) != len(signature):
        return False
    computed = _hash(mechanism, _xor(signature, proof))
    return hmac.compare_digest(computed, credential.stored_key)


def server_signature(mechanism: ScramMechanism, server_key: bytes, auth_message: str) -> bytes:
    """The proof that the server knows the credential."""
    return _hmac(mechanism, server_key, auth_message.encode())


def server_key_of(mechanism: ScramMechanism, salted_password: bytes) -> bytes:
    return _hmac(mechanism, salted_password, b"Server Key")


def _hmac(mechanism: ScramMechanism, key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, mechanism.hash_name)


def _hash(mechanism: ScramMechanism, data: bytes) -> bytes:
    return hashlib.new(mechanism.hash_name, data).digest()


def _xor(first: bytes, second: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(first, second, strict=True))


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


# Messages

_ALPHA = r"[A-Za-z]+"
_VALUE = r"[\x01-\x2b\x2d-\x7f]+"
_PRINTABLE = r"[\x21-\x2b\x2d-\x7e]+"
_SASL_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_BASE64 = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_EXTENSIONS = rf"(?:,{_ALPHA}={_VALUE})*"
_CLIENT_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<authzid>{_SASL_NAME}))?,"
    rf"(?P<bare>n=(?P<name>{_SASL_NAME}),r=(?P<nonce>{_PRINTABLE})(?P<extensions>{_EXTENSIONS}))"
)
_SERVER_FIRST: Final = re.compile(
    rf"r=(?P<nonce>{_PRINTABLE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]{{1,9}}){_EXTENSIONS}"
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<without_proof>c={_BASE64},r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)
_SERVER_FINAL: Final = re.compile(rf"v=(?P<signature>{_BASE64}){_EXTENSIONS}")


class ClientFirst(NamedTuple):
    """``n,,n=alice,r=…``: the client's name and nonce."""

    username: str
    authorization_id: str
    nonce: str
    bare: str
    """The message after its header ``n,,``; both sides sign it."""
    is_token: bool
    """Whether the client logs in with a delegation token (``tokenauth=true``)."""

    @classmethod
    def decode(cls, message: bytes) -> ClientFirst:
        match = _CLIENT_FIRST.fullmatch(_text(message))
        if match is None:
            raise SaslRefused("not a SCRAM client first message")
        extensions = match["extensions"].lower().split(",")
        return cls(
            match["name"].replace("=2C", ",").replace("=3D", "="),
            match["authzid"] or "",
            match["nonce"],
            match["bare"],
            "tokenauth=true" in extensions,
        )


def client_first_bare(username: str, nonce: str, *, is_token: bool = False) -> str:
    """The client's first message after its header ``n,,``, without an authorization id.

    ``is_token``: the name is the id of a delegation token (KIP-48).
    """
    name = username.replace("=", "=3D").replace(",", "=2C")
    return f"n={name},r={nonce}{',tokenauth=true' if is_token else ''}"


class ServerFirst(NamedTuple):
    """``r=…,s=…,i=4096``: nonce, salt and iterations."""

    nonce: str
    salt: bytes
    iterations: int

    def encode(self) -> str:
        return f"r={self.nonce},s={_base64(self.salt)},i={self.iterations}"

    @classmethod
    def decode(cls, message: bytes) -> ServerFirst:
        match = _SERVER_FIRST.fullmatch(_text(message))
        if match is None:
            raise SaslRefused("not a SCRAM server first message")
        return cls(match["nonce"], base64.b64decode(match["salt"]), int(match["iterations"]))


class ClientFinal(NamedTuple):
    """``c=biws,r=…,p=…``: the client's proof."""

    nonce: str
    proof: bytes
    without_proof: str

    @classmethod
    def decode(cls, message: bytes) -> ClientFinal:
        match = _CLIENT_FINAL.fullmatch(_text(message))
        if match is None:
            raise SaslRefused("not a SCRAM client final message")
        return cls(match["nonce"], base64.b64decode(match["proof"]), match["without_proof"])


def client_final(without_proof: str, proof: bytes) -> bytes:
    return f"{without_proof},p={_base64(proof)}".encode()


def server_final(signature: bytes) -> bytes:
    """``v=…``: the server's signature."""
    return f"v={_base64(signature)}".encode()


def decode_server_final(message: bytes) -> bytes:
    """The server's signature; SaslRefused if the server sent an error instead."""
    match = _SERVER_FINAL.fullmatch(_text(message))
    if match is None:
        raise SaslRefused("not a SCRAM server final message")
    return base64.b64decode(match["signature"])


def _text(message: bytes) -> str:
    return message.decode("utf-8", "replace")
