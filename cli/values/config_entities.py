"""Entities with configurations: topics, brokers, loggers, users, client ids, IP addresses.

An entity is named by its kind and its name.  The name ``<default>`` means the default entity, whose
values apply to all others of that kind.  A client id of a user is a user entity with a client id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from zkcontroller_cli.console.errors import BadUsage

TOPIC: Final = "topic"
BROKER: Final = "broker"
LOGGER: Final = "logger"
USER: Final = "user"
CLIENT: Final = "client"
IP: Final = "ip"
KINDS: Final = (TOPIC, BROKER, LOGGER, USER, CLIENT, IP)
QUOTA_KINDS: Final = (USER, CLIENT, IP)
"""The kinds whose configuration is quotas; users also have SCRAM credentials."""
DEFAULT_NAME: Final = "<default>"

_WITHOUT_DEFAULT: Final = {
    TOPIC: "a topic inherits from brokers: say broker --default, or --all-topics",
    LOGGER: "each broker has levels of its own: name the broker",
}


class ConfigEntity(NamedTuple):
    """One entity; ``client_id`` is None unless the entity is a client id of a user."""

    kind: str
    name: str
    client_id: str | None = None

    @property
    def text(self) -> str:
        """The entity as text, such as ``topic orders`` or ``user alice, client app``."""
        if self.client_id is not None:
            return f"{_named(USER, self.name)}, {_named(CLIENT, self.client_id)}"
        if self.kind == LOGGER:
            return f"the loggers of broker {self.name}"
        return _named(self.kind, self.name)

    @property
    def is_default(self) -> bool:
        """Whether this is the default entity of its kind."""
        return self.name == DEFAULT_NAME


def _named(kind: str, name: str) -> str:
    return f"the default of all {kind}s" if name == DEFAULT_NAME else f"{kind} {name}"


def entities_of(
    kind: str, names: Sequence[str], clients: Sequence[str] = (), *, is_default: bool = False
) -> list[ConfigEntity]:
    """The entities that a command line names, each once; BadUsage for an impossible one.

    With client ids, one entity for each user and each client id.
    """
    wanted = [*names, *((DEFAULT_NAME,) if is_default else ())]
    if clients and kind != USER:
        raise BadUsage(f"--client names the client ids of a user, not of a {kind}")
    for name in (*wanted, *clients):
        if not name:
            raise BadUsage(f"the name of a {kind} is empty")
    for name in wanted:
        if name == DEFAULT_NAME and kind in _WITHOUT_DEFAULT:
            raise BadUsage(f"a {kind} has no default entity: {_WITHOUT_DEFAULT[kind]}")
        if kind in (BROKER, LOGGER) and name != DEFAULT_NAME and not _is_broker_id(name):
            raise BadUsage(f"{name!r} is not the id of a broker; zkctl broker list shows them")
    return list(
        dict.fromkeys(
            ConfigEntity(kind, name, client) for name in wanted for client in clients or (None,)
        )
    )


def entity_znode(entity: ConfigEntity) -> str:
    """The entity's path below ``/config``, as ``topics/orders`` or ``users/alice/clients/app``."""
    from kafka_common.sanitizer import sanitize

    def part(name: str) -> str:
        return name if name == DEFAULT_NAME else sanitize(name)

    match entity.kind:
        case "user" if entity.client_id is not None:
            return f"users/{part(entity.name)}/clients/{part(entity.client_id)}"
        case "topic" | "broker":
            return f"{entity.kind}s/{entity.name}"
        case _:
            return f"{entity.kind}s/{part(entity.name)}"


def _is_broker_id(text: str) -> bool:
    return text.isascii() and text.isdecimal() and int(text) < 1 << 31
