"""The filter of DescribeClientQuotas: finds quota entities in ZooKeeper.

Each component of a filter is for one entity type, and matches one name, the default, or any name.
An entity must have all types of the components.  If the filter is strict, it must have no other
type.

Source: Kafka ``ZkAdminManager.describeClientQuotas``, ``DescribeClientQuotasRequest`` (KIP-546).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from kafka_common.protocol import request_types
from replica_manager.request_errors import RequestRefused
from replica_manager.server.configs.entity_configs import read_entity_config, read_entity_configs
from replica_manager.server.quota_entities import (
    CLIENT_ID,
    IP,
    IP_QUOTA_TYPES,
    QUOTA_TYPES,
    USER,
    Entity,
    entity_name,
    entity_path,
    quotas_in,
)
from zkcontroller.zookeeper.requests import ListChildren
from zkcontroller.zookeeper.results import optional
from zkcontroller.zookeeper.session import ZooKeeperSession
from zkcontroller.zookeeper.znodes import ConfigZnode


class MatchType(IntEnum):
    """How a component matches; the values are those in requests."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


class Component(NamedTuple):
    """The filter for one entity type: any name, or one name."""

    is_any: bool
    name: str | None = None
    """The name that matches; None is the default entity."""

    def matches(self, name: str | None) -> bool:
        return self.is_any or name == self.name


class Described(NamedTuple):
    """An entity, and its quotas by key."""

    entity: Entity
    quotas: Mapping[str, float]


class QuotaFilter:
    """A filter with all its components; RequestRefused if it is invalid."""

    def __init__(
        self, components: Iterable[request_types.ComponentData], *, is_strict: bool
    ) -> None:
        """``components`` are those of the request; ``is_strict`` allows no other entity types."""
        self._is_strict = is_strict
        wanted = [(each.entity_type, _component(each)) for each in components]
        self._components: dict[str, Component] = {}
        for entity_type, component in wanted:
            if entity_type in self._components:
                raise RequestRefused(
                    ErrorCode.invalid_request,
                    f"Duplicate {_TYPE_NAMES[entity_type]} filter component entity type",
                )
            if not entity_type:
                raise RequestRefused(
                    ErrorCode.invalid_request, "Unexpected empty filter component entity type"
                )
            if entity_type not in _TYPE_NAMES:
                raise RequestRefused(
                    ErrorCode.unsupported_version,
                    f"Custom entity type '{entity_type}' not supported",
                )
            self._components[entity_type] = component
        if IP in self._components and len(self._components) > 1:
            raise RequestRefused(
                ErrorCode.invalid_request,
                "Invalid entity filter component combination, IP filter component should not be "
                "used with user or clientId filter component.",
            )

    def find(self, session: ZooKeeperSession) -> list[Described]:
        """Every entity that matches and has quotas, in the order of type and path.  Blocks.

        RequestRefused(UNKNOWN_SERVER_ERROR) if a quota is no number.
        """
        found: list[Described] = []
        for types in ((USER,), (CLIENT_ID,), (USER, CLIENT_ID), (IP,)):
            if not self._may_match(types):
                continue
            kinds = IP_QUOTA_TYPES if types == (IP,) else QUOTA_TYPES
            for entity, config in self._configs(session, types):
                quotas = quotas_in(config, kinds)
                if quotas:
                    found.append(Described(entity, quotas))
        return found

    def _may_match(self, types: Sequence[str]) -> bool:
        """Whether an entity with exactly these entity types can match."""
        if any(entity_type not in types for entity_type in self._components):
            return False
        return not self._is_strict or all(each in self._components for each in types)

    def _configs(
        self, session: ZooKeeperSession, types: Sequence[str]
    ) -> Iterable[tuple[Entity, Mapping[str, str]]]:
        wanted = [self._components.get(each, _ANY) for each in types]
        if not any(component.is_any for component in wanted):
            entity = {each: component.name for each, component in zip(types, wanted, strict=True)}
            return [(entity, read_entity_config(session, entity_path(entity)))]
        return [
            (dict(zip(types, names, strict=True)), config)
            for names, config in _all(session, types)
            if all(each.matches(name) for each, name in zip(wanted, names, strict=True))
        ]


_TYPE_NAMES: Final = {USER: "user", CLIENT_ID: "client", IP: "ip"}
_ANY: Final = Component(is_any=True)
_ROOTS: Final[Mapping[tuple[str, ...], str]] = {
    (USER,): "users",
    (CLIENT_ID,): "clients",
    (IP,): "ips",
}


def _component(given: request_types.ComponentData) -> Component:
    # Kafka fails with UNKNOWN_SERVER_ERROR for match types that no client sends.
    match given.match_type:
        case MatchType.EXACT if given.match is not None:
            return Component(is_any=False, name=given.match)
        case MatchType.DEFAULT:
            return Component(is_any=False)
        case MatchType.SPECIFIED:
            return _ANY
        case _:
            raise RequestRefused(ErrorCode.unknown_server_error)


def _all(
    session: ZooKeeperSession, types: Sequence[str]
) -> Iterable[tuple[tuple[str | None, ...], Mapping[str, str]]]:
    """The names and configuration of every entity with exactly these entity types."""
    root = _ROOTS.get(tuple(types))
    if root is not None:
        configs = read_entity_configs(session, root)
        return [((entity_name(name),), configs[name]) for name in sorted(configs)]
    users_path = ConfigZnode.type_path("users")
    names = sorted(optional(users_path, session.children(users_path)) or ())
    paths = [ConfigZnode.path(f"users/{name}/clients") for name in names]
    below = session.perform(ListChildren(paths))
    with_clients = [
        user
        for user, path, clients in zip(names, paths, below, strict=True)
        if optional(path, clients) is not None
    ]
    return [
        ((entity_name(user), entity_name(client_id)), configs[client_id])
        for user in with_clients
        for configs in [read_entity_configs(session, f"users/{user}/clients")]
        for client_id in sorted(configs)
    ]
