"""The values of configurations: where they are set, what is inherited, which are equal.

Pure.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from zkcontroller_cli.values.config_entities import BROKER, DEFAULT_NAME, TOPIC, ConfigEntity

HIDDEN: Final = "(hidden)"
"""The text that is shown in place of a secret."""
_BROKER_SOURCE: Final = "dynamic_broker"
_DEFAULT_SOURCE: Final = "dynamic_default_broker"


class PlaceOfValue(NamedTuple):
    """One of the places where a key is set; the value is None if it is sensitive."""

    name: str
    value: str | None
    source: str


class ConfigSetting(NamedTuple):
    """A key of an entity, with its effective value, and every place where it is set (synonyms)."""

    name: str
    value: str | None
    source: str
    type: str = "unknown"
    is_read_only: bool = False
    is_sensitive: bool = False
    synonyms: tuple[PlaceOfValue, ...] = ()
    documentation: str | None = None


def own_source(entity: ConfigEntity) -> str:
    """The config source, as in DescribeConfigs, to which a change of this entity is written."""
    match entity.kind:
        case "topic":
            return "topic"
        case "broker":
            return _DEFAULT_SOURCE if entity.name == DEFAULT_NAME else _BROKER_SOURCE
        case "logger":
            return "dynamic_broker_logger"
        case kind:
            return kind


def own_place(entity: ConfigEntity, setting: ConfigSetting | None) -> PlaceOfValue | None:
    """The value that is set on the entity itself; None if it is not set there."""
    if setting is None:
        return None
    source = own_source(entity)
    found = (
        each for each in setting.synonyms if (each.source, each.name) == (source, setting.name)
    )
    here = PlaceOfValue(setting.name, setting.value, setting.source)
    return next(found, here if setting.source == source else None)


def inherited_place(entity: ConfigEntity, setting: ConfigSetting) -> PlaceOfValue | None:
    """The value that would be effective without the entity's own one, in the key's unit.

    None if that is not known.
    """
    source = own_source(entity)
    for place in setting.synonyms:
        value = _in_unit_of(entity, setting.name, place)
        if place.source != source and value is not None:
            return place._replace(value=value)
    if setting.source == source:
        return None
    return PlaceOfValue(setting.name, setting.value, setting.source)


def _in_unit_of(entity: ConfigEntity, name: str, place: PlaceOfValue) -> str | None:
    """The value of a synonym in the key's unit: a broker's hours may be a topic's milliseconds."""
    if place.value is None or place.name == name:
        return place.value
    if entity.kind != TOPIC:
        return None
    from replica_manager.configuration.topic_keys import BROKER_SYNONYMS

    unit = dict(BROKER_SYNONYMS.get(name, ())).get(place.name)
    number = _number(place.value)
    if unit is None or unit == 1:
        return place.value
    return str(number * unit) if isinstance(number, int) and number > 0 else place.value


def elements_of(text: str | None) -> list[str]:
    """The elements of a configuration value that is a list."""
    return [each for part in (text or "").split(",") if (each := part.strip())]


def is_same_value(type_name: str, one: str | None, other: str | None) -> bool:
    """Whether two texts are the same value of that type, such as ``0.50`` and ``0.5``.

    A broker may show another text than the one that was set.
    """
    if one is None or other is None:
        return one is other
    one, other = one.strip(), other.strip()
    if one == other:
        return True
    match type_name:
        case "boolean":
            return one.lower() == other.lower()
        case "list":
            return elements_of(one) == elements_of(other)
        case "int" | "short" | "long" | "double":
            return _number(one) is not None and _number(one) == _number(other)
        case _:
            return False


def _number(text: str) -> float | int | None:
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return None


def base_key(entity: ConfigEntity, name: str) -> str:
    """A broker's key without the prefix of a listener; another key unchanged."""
    if entity.kind != BROKER:
        return name
    from replica_manager.configuration.dynamic_keys import base_name

    return base_name(name) or name
