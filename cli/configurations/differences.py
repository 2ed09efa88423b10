"""``zkctl config diff``: the keys that differ between entities, from defaults, or from a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from zkcontroller_cli.configurations.changes import (
    client_option,
    default_option,
    kind_argument,
    names_argument,
)
from zkcontroller_cli.console.errors import BadUsage, ExitCode, Refused
from zkcontroller_cli.console.options import say, settings
from zkcontroller_cli.console.render import Format, Layout
from zkcontroller_cli.values.config_entities import BROKER, QUOTA_KINDS, TOPIC, ConfigEntity
from zkcontroller_cli.values.config_values import (
    HIDDEN,
    ConfigSetting,
    base_key,
    inherited_place,
    is_same_value,
    own_place,
)

_KEYS: Final = ("name", "values", "sources", "is_sensitive")
_PER_BROKER_KEYS: Final = frozenset(
    (
        *("broker.id", "node.id", "broker.rack", "host.name", "port"),
        *("listeners", "advertised.listeners", "advertised.host.name", "advertised.port"),
        *("log.dir", "log.dirs", "metadata.log.dir", "controller.quorum.voters"),
    )
)
"""Keys that differ between brokers on purpose."""


class ComparedConfig(NamedTuple):
    """One side of a comparison: a title, and settings by name."""

    title: str
    settings: Mapping[str, ConfigSetting]


class ConfigDifference(NamedTuple):
    """A key with its value and source on each side; None where a side does not have the key."""

    name: str
    values: dict[str, str | None]
    sources: dict[str, str | None]
    is_sensitive: bool

    def row(self) -> dict[str, Any]:
        """The difference as a row of every format except a table."""
        return self._asdict()

    def cells(self) -> dict[str, Any]:
        """The difference as a row of a table, with a column for each side."""
        shown = {
            title: HIDDEN if self.is_sensitive and self.sources[title] else value
            for title, value in self.values.items()
        }
        return {"name": self.name, **shown}


@click.command("diff")
@kind_argument
@names_argument
@default_option
@client_option
@click.option("--all-entities", is_flag=True, help="Every entity of that kind, such as brokers.")
@click.option("--defaults", is_flag=True, help="Compare with NAME without its own values.")
@click.option(
    "--file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Compare with properties: the keys in FILE, and keys that are set and not in FILE.",
)
@click.option("--key", "keys", multiple=True, metavar="KEY", help="Compare only this key.")
@click.option("--all", "is_all", is_flag=True, help="Also keys that are a broker's own by nature.")
def diff(
    kind: str,
    names: tuple[str, ...],
    is_default: bool,
    clients: tuple[str, ...],
    all_entities: bool,
    defaults: bool,
    file: Path | None,
    keys: tuple[str, ...],
    is_all: bool,
) -> int:
    """Keys whose values differ: between every NAME, or from a file, or from the defaults.

    Exits with 1 if there is a difference. What is sensitive cannot be compared: only whether it is
    set counts.

    Examples:
      zkctl config diff topic orders payments
      zkctl config diff topic orders --defaults
      zkctl config diff broker --all-entities
    """
    from zkcontroller_cli.configurations.reading import named_entities, read_entities

    entities = named_entities(
        kind, names, clients, is_default=is_default, all_entities=all_entities
    )
    if defaults and file is not None:
        raise BadUsage("say one of --defaults and --file")
    is_single = defaults or file is not None
    if entities is not None and (len(entities) != 1 if is_single else len(entities) < 2):
        raise BadUsage(
            "name one entity to compare with that"
            if is_single
            else "name two entities or more, or one and --defaults or --file FILE"
        )
    if entities is None and is_single:
        raise BadUsage("name one entity to compare with that")
    if defaults and kind not in (TOPIC, BROKER):
        raise BadUsage(f"a {kind} has no defaults to compare with")
    given = settings()
    found = read_entities(given, kind, entities, is_full=True)
    if all_entities:
        found = {each: found[each] for each in found if not (kind == BROKER and each.is_default)}
    sides = _sides(found, file, are_defaults_wanted=defaults)
    ignored = frozenset() if is_all or keys or kind != BROKER else _PER_BROKER_KEYS
    differences = [
        each
        for each in compare(sides)
        if each.name not in ignored and (not keys or each.name in keys)
    ]
    if ignored and not is_single:
        say("left out: keys of each broker's own, such as broker.id and listeners; --all has them")
    if not differences:
        say("no difference")
    if given.renderer.format is Format.TABLE:
        given.renderer.rows([each.cells() for each in differences], Layout(str, (), ("name",)))
    else:
        layout = Layout(lambda row: str(row["name"]), (), _KEYS)
        given.renderer.rows([each.row() for each in differences], layout)
    return ExitCode.FINDING if differences else ExitCode.OK


def _sides(
    found: Mapping[ConfigEntity, Mapping[str, ConfigSetting]],
    file: Path | None,
    *,
    are_defaults_wanted: bool,
) -> list[ComparedConfig]:
    sides = [ComparedConfig(_title(entity), settings_of) for entity, settings_of in found.items()]
    if file is None and not are_defaults_wanted:
        if len(sides) < 2:
            raise Refused("there is only one entity, so there is nothing to compare")
        return sides
    [(entity, settings_of)] = found.items()
    if are_defaults_wanted:
        return [sides[0], ComparedConfig("defaults", defaults_of(entity, settings_of))]
    assert file is not None
    from replica_manager.configuration.config import read_properties

    properties = read_properties(file, "--file")
    return against_file(entity, settings_of, str(file), properties)


def _title(entity: ConfigEntity) -> str:
    return entity.name if entity.client_id is None else f"{entity.name}, {entity.client_id}"


def compare(sides: Sequence[ComparedConfig]) -> list[ConfigDifference]:
    """The keys whose values are not the same on every side, sorted by name."""
    names = sorted({name for side in sides for name in side.settings})
    found = []
    for name in names:
        held = [side.settings.get(name) for side in sides]
        if all(_is_same(held[0], other) for other in held[1:]):
            continue
        is_sensitive = any(each is not None and each.is_sensitive for each in held)
        found.append(
            ConfigDifference(
                name,
                {
                    side.title: None if each is None or is_sensitive else each.value
                    for side, each in zip(sides, held, strict=True)
                },
                {
                    side.title: None if each is None else each.source
                    for side, each in zip(sides, held, strict=True)
                },
                is_sensitive,
            )
        )
    return found


def _is_same(one: ConfigSetting | None, other: ConfigSetting | None) -> bool:
    if one is None or other is None:
        there = one or other
        # A key that is not listed is equal to a key without value.
        return there is None or (there.value is None and there.source == "default")
    if one.is_sensitive or other.is_sensitive:
        is_set = one.source != "default", other.source != "default"
        return is_set[0] == is_set[1] and one.value == other.value
    type_name = one.type if one.type != "unknown" else other.type
    return is_same_value(type_name, one.value, other.value)


def defaults_of(
    entity: ConfigEntity, settings_of: Mapping[str, ConfigSetting]
) -> dict[str, ConfigSetting]:
    """The settings that a topic would inherit without own values, or a broker's own defaults."""
    found = {}
    for name, setting in settings_of.items():
        if entity.kind == TOPIC:
            place = inherited_place(entity, setting)
        else:
            own = (each for each in setting.synonyms if each.name == name)
            place = next((each for each in own if each.source == "default"), None)
        value, source = (None, "default") if place is None else (place.value, place.source)
        found[name] = setting._replace(value=value, source=source)
    return found


def against_file(
    entity: ConfigEntity,
    settings_of: Mapping[str, ConfigSetting],
    title: str,
    properties: Mapping[str, str],
) -> list[ComparedConfig]:
    """The two sides of a comparison with a file.

    Of the entity, the keys that are set on it or are in the file; of the file, all keys.
    """
    set_here = {
        name
        for name, setting in settings_of.items()
        if _is_set_here(entity, setting) or name in properties
    }
    of_file = {}
    for name, text in properties.items():
        setting = settings_of.get(name) or settings_of.get(base_key(entity, name))
        # A key that a broker does not know may be a password.
        is_sensitive = entity.kind == BROKER if setting is None else setting.is_sensitive
        type_name = "unknown" if setting is None else setting.type
        value = None if is_sensitive else text
        of_file[name] = ConfigSetting(name, value, "file", type_name, is_sensitive=is_sensitive)
    here = {name: settings_of[name] for name in settings_of if name in set_here}
    return [ComparedConfig(_title(entity), here), ComparedConfig(title, of_file)]


def _is_set_here(entity: ConfigEntity, setting: ConfigSetting) -> bool:
    if entity.kind in QUOTA_KINDS:
        return True
    if entity.kind == BROKER and not entity.is_default:
        return setting.source != "default"
    return own_place(entity, setting) is not None
