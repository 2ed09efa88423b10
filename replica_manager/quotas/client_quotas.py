"""Finds a client's quota by user, client id, or both; the most specific one applies.

Pure.  A quota belongs to an *entity*: a user, a client id, a pair of them, or the default of
either.  All clients that one quota limits together have the same *key*: the user, the client id, or
both.  The types of entities that were configured since the broker's start decide which, as in
Kafka.

Source: Kafka ``ClientQuotaManager``, ``DefaultQuotaCallback`` (KIP-55).
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum, auto
from typing import Final, Generic, NamedTuple, TypeVar

from typing_extensions import override

from kafka_common.errors import ConfigInvalid
from kafka_common.sanitizer import DEFAULT_ENTITY, desanitize, sanitize
from replica_manager.configuration.config_keys import text_of

MOST_CLIENTS: Final = 10_000
"""The most clients whose state is kept; above it, the least recently used one is removed."""
INACTIVE_MS: Final = 3_600_000
"""The milliseconds after which an unused client's state is removed."""
LONGEST_THROTTLE_MS: Final = 2**31 - 1
"""The longest throttle time that fits into a response."""
_NO_LIMIT: Final = "Infinity"
_WHOLE: Final = re.compile("[+-]?[0-9]{1,19}")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,9})?")

_MANAGERS: Final = {
    "producer_byte_rate": ("PRODUCE", "kafka.server.ClientQuotaManager"),
    "consumer_byte_rate": ("FETCH", "kafka.server.ClientQuotaManager"),
    "request_percentage": ("REQUEST", "kafka.server.ClientRequestQuotaManager"),
    "controller_mutation_rate": (
        "CONTROLLER_MUTATION",
        "kafka.server.ControllerMutationQuotaManager",
    ),
}
"""The names of each kind of quota in Kafka's logs: its type and its logger."""


class QuotaEntity(NamedTuple):
    """A quota entity: sanitized znode names, or ``<default>``; None if the part is not used."""

    user: str | None
    client_id: str | None

    @property
    def has_default(self) -> bool:
        """Whether it stands for more than one client or user."""
        return DEFAULT_ENTITY in self

    @override
    def __str__(self) -> str:
        """As ``KafkaQuotaEntity`` prints it: ``user a client-id b``, ``default client-id``."""
        parts = []
        if self.user is not None:
            is_default = self.user == DEFAULT_ENTITY
            parts.append("default user" if is_default else f"user {self.user}")
        if self.client_id is not None:
            is_default = self.client_id == DEFAULT_ENTITY
            parts.append(
                "default client-id" if is_default else f"client-id {desanitize(self.client_id)}"
            )
        return " ".join(parts)


class ClientKey(NamedTuple):
    """The key by which clients are counted: sanitized names, empty if the part is not used."""

    user: str
    client_id: str


class _Level(Enum):
    USER = auto()
    CLIENT_ID = auto()
    BOTH = auto()


def entity_of(path: str) -> QuotaEntity | None:
    """The entity of ``users/a``, ``users/a/clients/b`` or ``clients/b``; None for other paths."""
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
    """The canonical encoding of a name, because Kafka compares decoded names."""
    return client_id if client_id == DEFAULT_ENTITY else sanitize(desanitize(client_id))


class ClientQuotas:
    """The quotas of one kind, such as ``controller_mutation_rate``."""

    def __init__(self, quota_key: str, *, is_whole: bool = False) -> None:
        """``quota_key``: the key in configurations; ``is_whole``: the value is an integer."""
        self._quota_key = quota_key
        self._is_whole = is_whole
        self._type, logger = _MANAGERS[quota_key]
        self.log = logging.getLogger(logger)
        self._bounds: dict[QuotaEntity, float] = {}
        self._levels: set[_Level] = set()
        self._keys: dict[tuple[str, str], ClientKey] = {}

    @property
    def has_one_level(self) -> bool:
        """Whether only users, only client ids or only pairs were configured since the start."""
        return len(self._levels) == 1

    @property
    def is_enabled(self) -> bool:
        """Whether an entity was ever configured, even with other kinds of quotas only."""
        return bool(self._levels)

    def configure(self, entity_path: str, config: Mapping[str, str]) -> None:
        """Applies a changed configuration of ``users/a``, ``clients/b`` or ``users/a/clients/b``.

        An invalid quota is logged, and the entity keeps its old one.
        """
        entity = entity_of(entity_path)
        if entity is None:
            self.log.error("Invalid quota entity path: %s", entity_path)
            return
        try:
            bound = self._bound_in(config)
        except ConfigInvalid as refused:
            self.log.error("The quota of %s stays as it was: %s", entity_path, refused)
            return
        if (text := config.get(self._quota_key)) is None:
            self.log.info("Removing %s quota for %s", self._type, entity)
        else:
            value = text_of(float(text))
            self.log.info("Changing %s quota for %s to %s", self._type, entity, value)
        self.update(entity, bound)

    def _bound_in(self, config: Mapping[str, str]) -> float | None:
        text = config.get(self._quota_key)
        if text is None or text == _NO_LIMIT:
            return None
        form = _WHOLE if self._is_whole else _NUMBER
        bound = float(text) if form.fullmatch(text) else math.nan
        if not 0 <= bound < math.inf:
            kind = "a whole number, 0 or more" if self._is_whole else "a number, 0 or more"
            raise ConfigInvalid(self._quota_key, text, kind)
        return bound

    def copy(self, *, with_bounds: bool = True) -> ClientQuotas:
        """A copy with the same quotas, or with none; clients keep the same keys."""
        copied = ClientQuotas(self._quota_key, is_whole=self._is_whole)
        copied._bounds = dict(self._bounds) if with_bounds else {}
        copied._levels = set(self._levels)
        return copied

    def update(self, entity: QuotaEntity, bound: float | None) -> None:
        """Sets the quota of an entity; None removes it."""
        self._keys.clear()
        if entity.user is None:
            self._levels.add(_Level.CLIENT_ID)
        else:
            self._levels.add(_Level.USER if entity.client_id is None else _Level.BOTH)
        if bound is None:
            self._bounds.pop(entity, None)
        else:
            self._bounds[entity] = bound

    def key(self, user: str, client_id: str) -> ClientKey:
        """The key for a user and client id, which are not sanitized."""
        found = self._keys.get((user, client_id))
        if found is None:
            if len(self._keys) >= MOST_CLIENTS:
                self._keys.clear()
            found = self._keys[user, client_id] = self._key(sanitize(user), sanitize(client_id))
        return found

    def _key(self, user: str, client_id: str) -> ClientKey:
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
        """The most specific quota for the key; None if it has none."""
        users = (key.user, DEFAULT_ENTITY) if key.user else (None,)
        client_ids = (key.client_id, DEFAULT_ENTITY) if key.client_id else (None,)
        entities = (QuotaEntity(user, client_id) for user in users for client_id in client_ids)
        return next((self._bounds[entity] for entity in entities if entity in self._bounds), None)


def whole_throttle_ms(throttle_ms: float) -> int:
    """A throttle time rounded as in Java, at most LONGEST_THROTTLE_MS."""
    if throttle_ms >= LONGEST_THROTTLE_MS:
        return LONGEST_THROTTLE_MS
    return math.floor(throttle_ms + 0.5)


K = TypeVar("K")
T = TypeVar("T")


class RecentClients(Generic[K, T]):
    """The state of each client, which is removed after an hour without use.

    For the event loop.
    """

    def __init__(self, make: Callable[[K], T], forget: Callable[[K], None] | None = None) -> None:
        """``make`` makes the state of a new client; ``forget`` is called for a removed one."""
        self._make = make
        self._forget = forget
        self._known: dict[K, tuple[T, int]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, key: K) -> bool:
        return key in self._known

    def __iter__(self) -> Iterator[tuple[K, T]]:
        return ((key, value) for key, (value, _) in self._known.items())

    def use(self, key: K, now_ms: int) -> T:
        """The state of a client, whose last use is now; removes unused clients."""
        entry = self._known.pop(key, None)
        value = self._make(key) if entry is None else entry[0]
        self._known[key] = (value, now_ms)
        while True:
            oldest, (_, used_ms) = next(iter(self._known.items()))
            is_idle = now_ms - used_ms > INACTIVE_MS
            if oldest == key or not (is_idle or len(self._known) > MOST_CLIENTS):
                return value
            self.remove(oldest)

    def remove(self, key: K) -> None:
        """Removes a client, if it is known."""
        if self._known.pop(key, None) is not None and self._forget is not None:
            self._forget(key)
