"""Configuration keys: name, type, default and allowed values.

The keys are in tables (:mod:`.broker_keys`, :mod:`.topic_keys`), one row for each key::

    name type default [allowed]

``allowed`` is a range (``1..`` or ``0..1``), choices (``in a|b|c``, for each element of a list), or
a named rule.

Source: Kafka ``ConfigDef`` (``parseType``, ``Range``, ``ValidString``, ``ValidList``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final, TypeAlias

from msgspec import Struct

from kafka_common.errors import ConfigException, ConfigInvalid
from kafka_common.java import parse_int
from kafka_common.protocol.inter_broker_versions import version_of

ConfigValue: TypeAlias = bool | int | float | str | tuple[str, ...] | None

_MAX_LONG: Final = 2**63 - 1
_INTEGER_BITS: Final = {"short": 16, "int": 32, "long": 64}
BLANKS: Final = "".join(map(chr, range(ord(" ") + 1)))
"""The characters that Java's ``String.trim`` removes: all up to the space, no other blanks."""
_DECIMAL = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?P<suffix>[fFdD])?)"
)
_RANGE = re.compile(r"(-?[0-9.]+?)\.\.(-?[0-9.]*)")


class ConfigKey(Struct, frozen=True):
    """The type, default and rule of one configuration key."""

    name: str
    type_name: str
    """boolean, short, int, long, double, string, list, class or password."""
    default: ConfigValue
    allowed: str

    def parse(self, text: str, name: str | None = None) -> ConfigValue:
        """The typed value of ``text``; ConfigException if its type or value is not allowed.

        ``name``: the key with a listener prefix, for error messages, if it was set with one.
        """
        name = name or self.name
        value = parse_type(name, text, self.type_name)
        refusal = _refusal(value, self.allowed)
        if refusal is not None:
            refused, words = refusal
            shown = f"[{', '.join(refused)}]" if isinstance(refused, tuple) else text_of(refused)
            # No str.format: the value is a client's.
            words = words.replace("{key}", name).replace("{value}", shown or "")
            raise ConfigException(name, shown, words)
        return value


def parse_type(key: str, text: str, type_name: str) -> ConfigValue:
    """The typed value of ``text`` without blanks at its ends, as Kafka's ``parseType``."""
    trimmed = text.strip(BLANKS)
    match type_name:
        case "boolean":
            if trimmed.lower() not in ("true", "false"):
                raise ConfigException(key, text, "Expected value to be either true or false")
            return trimmed.lower() == "true"
        case "short" | "int" | "long":
            number: float | None = parse_int(trimmed, _INTEGER_BITS[type_name])
        case "double":
            number = _parse_double(trimmed)
        case "list":
            return split_list(text)
        case _:
            return trimmed
    if number is None:
        raise ConfigException(key, text, f"Not a number of type {type_name.upper()}")
    return number


def split_list(text: str) -> tuple[str, ...]:
    """The elements between commas, without blanks at their ends; none if the text is blank.

    Without a regular expression, which would take an hour for a megabyte of blanks.
    """
    trimmed = text.strip(BLANKS)
    return tuple(part.strip(BLANKS) for part in trimmed.split(",")) if trimmed else ()


def _parse_double(text: str) -> float | None:
    """A number in the syntax of Java's ``Double.parseDouble``, with ``NaN`` and ``Infinity``."""
    number = _DECIMAL.fullmatch(text)
    if number is None:
        return None
    return float(text[:-1] if number["suffix"] else text)


def _refusal(value: ConfigValue, allowed: str) -> tuple[ConfigValue, str] | None:
    """What of ``value`` is not allowed, and Kafka's sentence about it; None if all of it is."""
    if not allowed:
        return None
    rule, _, argument = allowed.partition(" ")
    if rule in _NAMED_RULES:
        is_allowed, words = _NAMED_RULES[rule]
        return None if is_allowed(value) else (value, words)
    choices = argument.split("|")
    if rule == "in":
        elements = value if isinstance(value, tuple) else (value,)
        words = "String must be one of: " + ", ".join(choices)
        return next(((each, words) for each in elements if each not in choices), None)
    if rule == "ignore_case":
        words = "String must be one of (case insensitive): " + ", ".join(choices)
        return None if str(value).upper() in choices else (value, words)
    bounds = _RANGE.fullmatch(rule)
    assert bounds is not None, f"unknown rule {allowed!r}"
    assert isinstance(value, (int, float))
    low, high = bounds[1], bounds[2]
    # Written so that NaN, for which every comparison is false, is outside of every range.
    if not value >= float(low):
        return value, f"Value must be at least {low}"
    return (
        None if not high or value <= float(high) else (value, f"Value must be no more than {high}")
    )


def _is_throttled_replicas(value: ConfigValue) -> bool:
    assert isinstance(value, tuple)
    if value == ("*",):
        return True
    return all(re.fullmatch(r"[0-9]+:[0-9]+", element.strip()) for element in value)


def _is_version(name: str) -> bool:
    try:
        version_of(name)
    except ConfigInvalid:
        return False
    return True


_NAMED_RULES: Final[Mapping[str, tuple[Callable[[ConfigValue], bool], str]]] = {
    "version": (
        lambda value: _is_version(str(value)),
        "Version {value} is not a valid version",
    ),
    "non_empty": (lambda value: value != "", "String must be non-empty"),
    "gzip_level": (
        lambda value: value == -1 or value in range(1, 10),
        "Value must be between 1 and 9 or equal to -1",
    ),
    "-1_or_1..": (
        lambda value: value == -1 or (isinstance(value, int) and value >= 1),
        "at least 1, or -1 to follow remote.log.manager.thread.pool.size",
    ),
    "throttled_replicas": (
        _is_throttled_replicas,
        "{key} must be the literal '*' or a list of replicas in the following format: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
    ),
}


def read_table(table: str) -> dict[str, ConfigKey]:
    """The keys in the rows of a table, by name."""
    keys: dict[str, ConfigKey] = {}
    for line in table.strip().splitlines():
        name, type_name, default, *allowed = line.split(" ", 3)
        keys[name] = ConfigKey(
            name, type_name, _parse_default(name, default, type_name), "".join(allowed)
        )
    return keys


def _parse_default(name: str, default: str, type_name: str) -> ConfigValue:
    if default == "null":
        return None
    if default == '""':
        return () if type_name == "list" else ""
    return _MAX_LONG if default == "max" else parse_type(name, default, type_name)


def _java_double(value: float) -> str:
    """A double as ``Double.toString`` prints it, exponents included."""
    if not math.isfinite(value):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, _, exponent = f"{Decimal(repr(value)).normalize():E}".partition("E")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"


def text_of(value: ConfigValue) -> str | None:
    """``value`` as text in Kafka's responses: ``true``, ``a,b``, ``0.5``; None stays None."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case tuple():
            return ",".join(value)
        case float():
            return _java_double(value)
        case _:
            return str(value)
