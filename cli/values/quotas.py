"""Quotas of users, client ids and IP addresses, and which quota is effective for a client.

Pure.  An entity with quotas is a :class:`ConfigEntity` of the kind user, client or ip.

Source: Kafka ``ClientQuotaManager.DefaultQuotaCallback``, ``QuotaConfigs``, KIP-55, KIP-546.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from replica_manager.server.quota_entities import IP_QUOTA_TYPES, QUOTA_TYPES
from zkcontroller_cli.console.errors import BadUsage
from zkcontroller_cli.values.config_entities import (
    CLIENT,
    DEFAULT_NAME,
    IP,
    QUOTA_KINDS,
    USER,
    ConfigEntity,
)
from zkcontroller_cli.values.config_plan import SET, KeyOperation
from zkcontroller_cli.values.config_values import ConfigSetting, PlaceOfValue

QUOTA_NAMES: Final = (*QUOTA_TYPES, *IP_QUOTA_TYPES)
_LARGEST: Final = {"long": 2**63 - 1, "int": 2**31 - 1}


class HeldQuotas(NamedTuple):
    """An entity, and its quotas by key, as ``producer_byte_rate``."""

    entity: ConfigEntity
    quotas: Mapping[str, float]

    def row(self) -> dict[str, Any]:
        """The entity as a row; None for a quota that it does not have."""
        return {
            **quota_names(self.entity),
            **{name: _number(self.quotas.get(name)) for name in QUOTA_NAMES},
        }


class QuotaMatch(NamedTuple):
    """A filter: the entity has a user, client id or address of that name; None: of any name."""

    kind: str
    name: str | None

    def matches(self, entity: ConfigEntity) -> bool:
        """Whether the entity matches the filter."""
        name = quota_names(entity)[_PARTS[self.kind]]
        return name is not None and self.name in (None, name)


class EffectiveQuota(NamedTuple):
    """The effective quota of one key for a client; ``value`` is None if there is no limit."""

    quota: str
    value: float | int | None
    entity: ConfigEntity | None
    reason: str
    shared_by: str | None
    places: tuple[dict[str, str | float | None], ...]
    """Every entity whose quota may be effective, by precedence, with its value or None."""

    def row(self) -> dict[str, Any]:
        """The effective quota as a row."""
        held = dict.fromkeys(_PARTS.values()) if self.entity is None else quota_names(self.entity)
        return {
            "quota": self.quota,
            "value": self.value,
            **held,
            "reason": self.reason,
            "shared_by": self.shared_by,
            "places": self.places,
        }


_PARTS: Final = {USER: "user", CLIENT: "client_id", IP: "ip"}


def quota_names(entity: ConfigEntity) -> dict[str, str | None]:
    """The entity's parts by the keys ``user``, ``client_id`` and ``ip``; None without the part."""
    names: dict[str, str | None] = dict.fromkeys(_PARTS.values())
    names[_PARTS[entity.kind]] = entity.name
    if entity.client_id is not None:
        names["client_id"] = entity.client_id
    return names


def quota_entities(
    users: Sequence[str], clients: Sequence[str], addresses: Sequence[str]
) -> list[ConfigEntity]:
    """The entities that a command's options name; BadUsage if there is none, or one is invalid.

    With users and client ids, one entity for each pair.
    """
    if addresses and (users or clients):
        raise BadUsage("an address has quotas of its own: leave users and client ids out")
    if not (addresses or users or clients):
        raise BadUsage("whose quotas? Say --user, --client or --ip, or one of --…-defaults")
    if any(not name for name in (*users, *clients, *addresses)):
        raise BadUsage("the name of a user, client id or address is empty")
    if addresses:
        found = [ConfigEntity(IP, each) for each in addresses]
    elif users:
        found = [
            ConfigEntity(USER, user, client) for user in users for client in clients or (None,)
        ]
    else:
        found = [ConfigEntity(CLIENT, each) for each in clients]
    return list(dict.fromkeys(found))


def matching(
    held: Iterable[HeldQuotas], wanted: Sequence[QuotaMatch], *, is_exact: bool
) -> list[HeldQuotas]:
    """The entities that match all filters, sorted by kind and name.

    ``is_exact``: only entities without other parts.
    """
    kinds = {match.kind for match in wanted}
    found = [
        each
        for each in held
        if all(match.matches(each.entity) for match in wanted)
        and not (is_exact and _kinds_of(each.entity) - kinds)
    ]
    return sorted(found, key=lambda each: _order(each.entity))


def _kinds_of(entity: ConfigEntity) -> set[str]:
    return {entity.kind} | (set() if entity.client_id is None else {CLIENT})


def _order(entity: ConfigEntity) -> tuple[int, str, str]:
    return QUOTA_KINDS.index(entity.kind), entity.name, entity.client_id or ""


def quota_settings(entity: ConfigEntity, quotas: Mapping[str, float]) -> dict[str, ConfigSetting]:
    """The quotas of an entity as configuration settings, by key."""
    known = known_quotas(entity)
    return {
        name: ConfigSetting(
            name,
            text := quota_text(value),
            entity.kind,
            known[name].type if name in known else "unknown",
            synonyms=(PlaceOfValue(name, text, entity.kind),),
        )
        for name, value in sorted(quotas.items())
    }


def known_quotas(entity: ConfigEntity) -> dict[str, ConfigSetting]:
    """By key, every quota that the entity may have, with its type."""
    types = IP_QUOTA_TYPES if entity.kind == IP else QUOTA_TYPES
    return {name: ConfigSetting(name, None, "default", kind) for name, kind in types.items()}


def quota_operations(
    entity: ConfigEntity, operations: Sequence[KeyOperation]
) -> list[KeyOperation]:
    """The changes with numbers in the form of brokers; BadUsage if a value is no valid quota."""
    types = known_quotas(entity)
    return [
        each._replace(
            value=quota_text(parse_quota(each.name, each.value or "", types[each.name].type))
        )
        if each.operation == SET and each.name in types
        else each
        for each in operations
    ]


def parse_quota(name: str, text: str, type_name: str) -> float:
    """Parse the value of a quota; BadUsage if it is not valid for that type."""
    try:
        value = float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise BadUsage(f"{name} must be a number, 0 or more, not {text!r}")
    largest = _LARGEST.get(type_name)
    if largest is not None and (not value.is_integer() or value > largest):
        raise BadUsage(f"{name} must be a whole number up to {largest}, not {text!r}")
    return value


def quota_text(value: float) -> str:
    """A quota as text, whole numbers without a decimal point."""
    return str(_number(value))


def _number(value: float | None) -> float | int | None:
    return int(value) if value is not None and value.is_integer() else value


def precedence(user: str, client_id: str) -> list[ConfigEntity]:
    """The entities whose quota may be effective for a client; the first that has it is used."""
    return [
        ConfigEntity(USER, user, client_id),
        ConfigEntity(USER, user, DEFAULT_NAME),
        ConfigEntity(USER, user),
        ConfigEntity(USER, DEFAULT_NAME, client_id),
        ConfigEntity(USER, DEFAULT_NAME, DEFAULT_NAME),
        ConfigEntity(USER, DEFAULT_NAME),
        ConfigEntity(CLIENT, client_id),
        ConfigEntity(CLIENT, DEFAULT_NAME),
    ]


def effective_quotas(held: Iterable[HeldQuotas], user: str, client_id: str) -> list[EffectiveQuota]:
    """For each key, the effective quota of a client, and why."""
    by_entity = {each.entity: each.quotas for each in held}
    order = precedence(user, client_id)
    return [_effective(name, order, by_entity) for name in QUOTA_TYPES]


def effective_for_address(held: Iterable[HeldQuotas], address: str) -> list[EffectiveQuota]:
    """The effective quotas for connections from an IP address, and why."""
    by_entity = {each.entity: each.quotas for each in held}
    order = [ConfigEntity(IP, address), ConfigEntity(IP, DEFAULT_NAME)]
    return [_effective(name, order, by_entity) for name in IP_QUOTA_TYPES]


def _effective(
    name: str,
    order: Sequence[ConfigEntity],
    by_entity: Mapping[ConfigEntity, Mapping[str, float]],
) -> EffectiveQuota:
    found = [each for each in order if name in by_entity.get(each, {})]
    places = tuple(
        {**quota_names(each), "value": _number(by_entity.get(each, {}).get(name))} for each in order
    )
    if not found:
        reason = f"no limit: none of the {len(order)} places has it"
        return EffectiveQuota(name, None, None, reason, None, places)
    first = found[0]
    reason = (
        f"place {order.index(first) + 1} of {len(order)} in Kafka's order, the first that has it"
    )
    if len(found) > 1:
        others = [f"{each.text} ({quota_text(by_entity[each][name])})" for each in found[1:]]
        reason += f"; without effect: {'; '.join(others)}"
    value = _number(by_entity[first][name])
    return EffectiveQuota(name, value, first, reason, _shared_by(first), places)


def _shared_by(entity: ConfigEntity) -> str:
    if entity.kind == IP:
        return "all connections from this address"
    if entity.client_id is not None:
        return "all connections of this user with this client id"
    if entity.kind == USER:
        return "all clients of this user together"
    return "all clients with this client id together"
