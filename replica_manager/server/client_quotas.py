"""Which quota holds for a client: by user, by client id, or by both, the most exact one first.

Pure.  A quota belongs to an *entity*: a user, a client id, a pair of them, or the default of
either.  Clients are counted together by the entity that limits them, so the kinds of entities that
were ever configured decide what a client is known by (its *key*): as in Kafka, until the broker
starts again.

Source: Kafka ``ClientQuotaManager``, ``DefaultQuotaCallback`` (KIP-55).
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

from zkcontroller.zookeeper.znodes import DEFAULT_ENTITY, desanitize, sanitize


class QuotaEntity(NamedTuple):
    """Names as znodes have them: sanitized, or ``<default>``; None where they do not matter."""

    user: str | None
    client_id: str | None


class ClientKey(NamedTuple):
    """What a client is counted by: sanitized names, empty where they do not matter."""

    user: str
    client_id: str


class _Level(Enum):
    USER = auto()
    CLIENT_ID = auto()
    BOTH = auto()


def entity_of(path: str) -> QuotaEntity | None:
    """The entity of ``users/a``, ``users/a/clients/b`` or ``clients/b``; None of another path."""
    match path.split("/"):
        case ["users", user] if user:
            return QuotaEntity(user, None)
        case ["users", user, "clients", client_id] if user and client_id:
            return QuotaEntity(user, _canonical(client_id))
        case ["clients", client_id] if client_id:
            return QuotaEntity(None, _canonical(client_id))
        case _:
            return None


def _canonical(client_id: str) -> str:
    """A name has several encodings, and Kafka compares what they stand for."""
    return client_id if client_id == DEFAULT_ENTITY else sanitize(desanitize(client_id))


class ClientQuotas:
    """The quotas of one kind, such as ``controller_mutation_rate``."""

    def __init__(self) -> None:
        self._bounds: dict[QuotaEntity, float] = {}
        self._levels: set[_Level] = set()

    @property
    def is_enabled(self) -> bool:
        """Whether any entity was ever configured, with this kind of quota or another."""
        return bool(self._levels)

    def update(self, entity: QuotaEntity, bound: float | None) -> None:
        """The entity's configuration changed; None: it has no quota of this kind."""
        if entity.user is None:
            self._levels.add(_Level.CLIENT_ID)
        else:
            self._levels.add(_Level.USER if entity.client_id is None else _Level.BOTH)
        if bound is None:
            self._bounds.pop(entity, None)
        else:
            self._bounds[entity] = bound

    def key(self, user: str, client_id: str) -> ClientKey:
        """What a client of that user and id, both plain text, is counted by."""
        user, client_id = sanitize(user), sanitize(client_id)
        if self._levels <= {_Level.CLIENT_ID}:
            return ClientKey("", client_id)
        if self._levels == {_Level.USER}:
            return ClientKey(user, "")
        if self._levels == {_Level.BOTH}:
            return ClientKey(user, client_id)
        for name in (user, DEFAULT_ENTITY):
            if any(QuotaEntity(name, c) in self._bounds for c in (client_id, DEFAULT_ENTITY)):
                return ClientKey(user, client_id)
            if QuotaEntity(name, None) in self._bounds:
                return ClientKey(user, "")
        return ClientKey("", client_id)

    def bound(self, key: ClientKey) -> float | None:
        """The most exact quota of those that may hold for the key; None: no limit."""
        users = (key.user, DEFAULT_ENTITY) if key.user else (None,)
        client_ids = (key.client_id, DEFAULT_ENTITY) if key.client_id else (None,)
        entities = (QuotaEntity(user, client_id) for user in users for client_id in client_ids)
        return next((self._bounds[entity] for entity in entities if entity in self._bounds), None)
