"""``--add-scram``: SCRAM credentials in the first records of a cluster.

``SCRAM-SHA-256=[name=alice,password=alice-secret]``, or with ``iterations``, ``salt`` and
``saltedpassword`` (both in base64).

Source: Kafka ``ScramParser`` (KIP-900).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Final

from kafka_common.errors import ZkControllerError
from kafka_common.java import parse_int
from kafka_common.protocol.scram import (
    MAX_ITERATIONS,
    MECHANISMS,
    MIN_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    salt_password,
)
from kraft.metadata.records import UserScramCredentialRecord

SALT_BYTES: Final = 16
"""The size of a random salt."""


class FormatRefused(ZkControllerError):
    """Formatting is refused, with Kafka's message; nothing was written."""


def parse_scram(argument: str, random_bytes: Callable[[int], bytes]) -> UserScramCredentialRecord:
    """The credential in one argument; ``random_bytes`` makes a missing salt.

    FormatRefused if the argument is invalid.  Takes some milliseconds.
    """
    mechanism, text = _mechanism_of(argument.strip())
    parts = dict(_part(part) for part in text.rstrip(",").split(","))
    name = parts.pop("name", None)
    if name is None:
        raise FormatRefused("You must supply 'name' to add-scram")
    salt_text = parts.pop("salt", None)
    salt = None if salt_text is None else _decoded(salt_text, "Failed to decode given salt")
    iterations = _iterations_of(parts.pop("iterations", None))
    password = parts.pop("password", None)
    salted = parts.pop("saltedpassword", None)
    if password is None:
        if salted is None:
            raise FormatRefused(
                "You must supply one of 'password' or 'saltedpassword' to add-scram"
            )
        if salt is None:
            raise FormatRefused("You must supply 'salt' with 'saltedpassword' to add-scram")
        salted_password = _decoded(salted, "Failed to decode given saltedPassword")
    else:
        salted_password = b""
    if parts:
        raise FormatRefused(f"Unknown SCRAM configurations: {', '.join(sorted(parts))}")
    _check_iterations(iterations, mechanism)
    salt = random_bytes(SALT_BYTES) if salt is None else salt
    if password is not None:
        salted_password = salt_password(mechanism, password, salt, iterations)
    credential = ScramCredential.of_salted_password(mechanism, salt, salted_password, iterations)
    return _record(name, mechanism, credential)


def _mechanism_of(argument: str) -> tuple[ScramMechanism, str]:
    name, equals, text = argument.partition("=")
    if not equals:
        raise FormatRefused(f"Failed to find equals sign in SCRAM argument '{argument}'")
    mechanism = MECHANISMS.get(name)
    if mechanism is None:
        raise FormatRefused(f"The add-scram mechanism {name} is not supported.")
    if not text.startswith("["):
        raise FormatRefused("Expected configuration string to start with [")
    if not text.endswith("]"):
        raise FormatRefused("Expected configuration string to end with ]")
    return mechanism, text[1:-1]


def _part(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise FormatRefused(f"No equals sign found in SCRAM component: {text}")
    if len(value) >= 2 and value.startswith('"') and value.endswith('"'):
        value = value[1:-1]
    return key, value


def _decoded(text: str, refusal: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise FormatRefused(f"{refusal}: {text}") from None


def _iterations_of(text: str | None) -> int:
    if text is None:
        return MIN_ITERATIONS
    iterations = parse_int(text)
    if iterations is None:
        raise FormatRefused(f"Failed to parse iterations count: {text}")
    return iterations


def _check_iterations(iterations: int, mechanism: ScramMechanism) -> None:
    if iterations < MIN_ITERATIONS:
        raise FormatRefused(
            f"The 'iterations' value must be >= {MIN_ITERATIONS} for add-scram using "
            f"{mechanism.name}"
        )
    if iterations > MAX_ITERATIONS:
        raise FormatRefused(
            f"The 'iterations' value must be <= {MAX_ITERATIONS} for add-scram using "
            f"{mechanism.name}"
        )


def _record(
    name: str, mechanism: ScramMechanism, credential: ScramCredential
) -> UserScramCredentialRecord:
    return UserScramCredentialRecord(
        name,
        mechanism.type_id,
        credential.salt,
        credential.stored_key,
        credential.server_key,
        credential.iterations,
    )
