"""Quota entities and their keys in ``/config/users``, ``…/clients`` and ``…/ips``.

An entity is a user, a client id, both, or an address.  The name None is the default: it applies to
every client without a quota of its own.  A quota is a number, stored as text.

Source: Kafka ``ZkAdminManager.alterClientQuotas``, ``DynamicConfig``, ``QuotaConfigs`` (KIP-546).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from kio.schema.errors import ErrorCode

from kafka_common.errors import ConfigInvalid
from kafka_common.protocol.scram import MECHANISMS
from kafka_common.sanitizer import DEFAULT_ENTITY, desanitize, sanitize
from replica_manager.configuration.config_keys import parse_type, text_of
from replica_manager.request_errors import RequestRefused

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

Entity: TypeAlias = Mapping[str, str | None]
"""Entity type to name; None is the default entity of the type."""

QUOTA_TYPES: Final[Mapping[str, str]] = {
    "producer_byte_rate": "long",
    "consumer_byte_rate": "long",
    "request_percentage": "double",
    "controller_mutation_rate": "double",
}
"""The quota keys of users and client ids, with their types."""
IP_QUOTA_TYPES: Final[Mapping[str, str]] = {"connection_creation_rate": "int"}

_USER_TYPES: Final = {**dict.fromkeys(MECHANISMS, "string"), **QUOTA_TYPES}
"""The keys of a user's configuration, which also has SCRAM credentials."""
_LARGEST: Final = {"long": 2**63 - 1, "int": 2**31 - 1}
_EPSILON: Final = 1e-6


class QuotaChange(NamedTuple):
    """The new value of one quota; None removes it."""

    key: str
    value: float | None


def entity_path(entity: Entity) -> str:
    """The path of a quota entity below ``/config``, such as ``users/a/clients/b``.

    RequestRefused(INVALID_REQUEST) if the entity is invalid.
    """
    if not entity:
        raise _refused("Invalid empty client quota entity")
    names: dict[str, str] = {}
    for entity_type, name in entity.items():
        if entity_type not in (USER, CLIENT_ID, IP):
            raise _refused(f"Unhandled client quota entity type: {entity_type}")
        if name == "":
            raise _refused(f"Empty {entity_type} not supported")
        names[entity_type] = znode_name(name)
    match names:
        case {"ip": _} if len(names) > 1:
            raise _refused(
                "Invalid quota entity combination, IP entity should not be used with user/client "
                "ID entity."
            )
        case {"ip": ip}:
            return f"ips/{ip}"
        case {"user": user, "client-id": client_id}:
            return f"users/{user}/clients/{client_id}"
        case {"user": user}:
            return f"users/{user}"
        case _:
            return f"clients/{names[CLIENT_ID]}"


def znode_name(name: str | None) -> str:
    """The entity's name as a znode name; None is the default."""
    return DEFAULT_ENTITY if name is None else sanitize(name)


def entity_name(znode_name: str) -> str | None:
    """The entity's name from a znode name; None is the default."""
    return None if znode_name == DEFAULT_ENTITY else desanitize(znode_name)


def altered(path: str, config: Mapping[str, str], changes: Iterable[QuotaChange]) -> dict[str, str]:
    """The entity's configuration after the changes.

    Raises RequestRefused(INVALID_REQUEST) for a key that the entity cannot have, or a fraction for
    a key of whole numbers; UNKNOWN_SERVER_ERROR for a credential, as in Kafka.
    """
    kinds = _types(path, is_written=False)
    after = dict(config)
    for key, value in changes:
        if value is None:
            after.pop(key, None)
        elif key not in kinds:
            raise _refused(f"Invalid configuration key {key}")
        elif kinds[key] == "string":
            raise RequestRefused(ErrorCode.unknown_server_error)
        else:
            after[key] = _text(key, value, kinds[key])
    return after


def check_written(path: str, config: Mapping[str, str]) -> None:
    """Raises RequestRefused(UNKNOWN_SERVER_ERROR), as in Kafka, for an invalid key or value.

    Checks the whole configuration, including keys that the request does not name.
    """
    kinds = _types(path, is_written=True)
    for key, text in config.items():
        if key not in kinds:
            raise RequestRefused(ErrorCode.unknown_server_error)
        try:
            value = parse_type(key, text, kinds[key])
        except ConfigInvalid as invalid:
            raise RequestRefused(ErrorCode.unknown_server_error) from invalid
        if key in IP_QUOTA_TYPES and isinstance(value, int) and value < 0:
            raise RequestRefused(ErrorCode.unknown_server_error)


def quotas_in(config: Mapping[str, str], kinds: Mapping[str, str]) -> dict[str, float]:
    """The quotas of ``kinds`` in a configuration; UNKNOWN_SERVER_ERROR if one is no number."""
    quotas: dict[str, float] = {}
    for key, text in config.items():
        if key in kinds:
            try:
                quotas[key] = float(text)
            except ValueError:
                raise RequestRefused(ErrorCode.unknown_server_error) from None
    return quotas


def _types(path: str, *, is_written: bool) -> Mapping[str, str]:
    """The keys that an entity may have, with their types.

    A client id of a user and the default user have no credentials.  Kafka checks that only before
    the write (``is_written``).
    """
    match path.split("/"):
        case ["ips", _]:
            return IP_QUOTA_TYPES
        case ["users", name, *clients] if not is_written or not (clients or name == DEFAULT_ENTITY):
            return _USER_TYPES
        case _:
            return QUOTA_TYPES


def _text(key: str, value: float, kind: str) -> str:
    if kind == "double":
        if value != value:
            return "NaN"
        return (text_of(float(value)) or "").replace("inf", "Infinity")
    # As Java converts a double: NaN becomes 0, and a value too large the largest integer.
    largest = _LARGEST[kind]
    shifted = value + _EPSILON
    whole = 0 if shifted != shifted else int(max(min(shifted, largest), -largest - 1))
    if abs(float(whole) - value) > _EPSILON:
        raise _refused(f"Configuration {key} must be a {kind.upper()} value")
    return str(whole)


def _refused(message: str) -> RequestRefused:
    return RequestRefused(ErrorCode.invalid_request, message)
