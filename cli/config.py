"""``zkctl config``: reads, changes and compares configurations."""

from __future__ import annotations

from typing import Any, Final

import click

from zkcontroller_cli.configurations.changes import (
    client_option,
    default_option,
    kind_argument,
    names_argument,
    set_,
    unset,
)
from zkcontroller_cli.configurations.differences import diff
from zkcontroller_cli.console.errors import Refused
from zkcontroller_cli.console.options import VerbGroup, reads, settings
from zkcontroller_cli.console.render import Layout
from zkcontroller_cli.values.config_entities import BROKER, ConfigEntity
from zkcontroller_cli.values.config_plan import unknown_key_text
from zkcontroller_cli.values.config_values import ConfigSetting

_KEYS: Final = (
    "kind",
    "entity",
    "client_id",
    "name",
    "value",
    "source",
    "type",
    "is_read_only",
    "is_sensitive",
    "synonyms",
    "documentation",
)


@click.group("config", cls=VerbGroup)
def command() -> None:
    """Read, change and compare configurations: of topics, brokers, loggers, users, clients, IPs."""


for _verb in (set_, unset, diff):
    command.add_command(_verb)


@command.command("get")
@kind_argument
@names_argument
@default_option
@client_option
@click.option("--all-topics", is_flag=True, help="Every topic.")
@click.option("--all-entities", is_flag=True, help="Every entity of that kind.")
@click.option("--all", "is_all", is_flag=True, help="Also what has its default value.")
@click.option("--key", "keys", multiple=True, metavar="KEY", help="Only this key.")
@reads
def get(
    kind: str,
    names: tuple[str, ...],
    is_default: bool,
    clients: tuple[str, ...],
    all_topics: bool,
    all_entities: bool,
    is_all: bool,
    keys: tuple[str, ...],
) -> None:
    """The configuration of every NAME of that KIND.

    logger NAME: the levels of the loggers of broker NAME. user, client and ip have quotas, a user
    also has credentials.

    synonyms are the places where a value stands, the one that counts first. A sensitive value is
    null. With ZooKeeper alone (-z) what is set there is shown; --all and --key ask brokers.

    Examples:
      zkctl config get topic orders
      zkctl config get broker 1 --key log.retention.ms
      zkctl config get broker --default
    """
    from zkcontroller_cli.configurations.reading import named_entities, read_entities

    entities = named_entities(
        kind,
        names,
        clients,
        is_default=is_default,
        all_topics=all_topics,
        all_entities=all_entities,
    )
    given = settings()
    is_full = is_all or bool(keys)
    found = read_entities(given, kind, entities, is_full=is_full, is_documented=True)
    for key in keys:
        _must_be_known(key, found)
    rows = [
        _row(entity, setting)
        for entity, settings_of in found.items()
        for setting in settings_of.values()
        if (setting.name in keys if keys else is_all or setting.source != "default")
    ]
    columns: tuple[str, ...] = ("name", "value", "source", "is_read_only")
    if any(row["client_id"] is not None for row in rows):
        columns = ("client_id", *columns)
    if len(found) > 1 or "client_id" in columns:
        columns = ("entity", *columns)
    given.renderer.rows(rows, Layout(lambda row: str(row["name"]), columns, _KEYS))


def _must_be_known(key: str, found: dict[ConfigEntity, dict[str, ConfigSetting]]) -> None:
    """Refused for a key that no entity has, if at least one entity lists all its possible keys."""
    listing = [settings_of for entity, settings_of in found.items() if _lists_all(entity)]
    if listing and not any(key in settings_of for settings_of in found.values()):
        entity = next(iter(found))
        raise Refused(f"{key}: {unknown_key_text(entity.kind, key, listing[0])}")


def _lists_all(entity: ConfigEntity) -> bool:
    is_of_all_brokers = entity.kind == BROKER and entity.is_default
    return entity.kind in ("topic", "broker", "logger") and not is_of_all_brokers


def _row(entity: ConfigEntity, setting: ConfigSetting) -> dict[str, Any]:
    return {
        "kind": entity.kind,
        "entity": entity.name,
        "client_id": entity.client_id,
        "name": setting.name,
        "value": setting.value,
        "source": setting.source,
        "type": setting.type,
        "is_read_only": setting.is_read_only,
        "is_sensitive": setting.is_sensitive,
        "synonyms": [each._asdict() for each in setting.synonyms],
        "documentation": setting.documentation,
    }
