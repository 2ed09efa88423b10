"""Plans what a change of configurations would do, key by key, before anything is sent.

Pure.  A plan compares the current settings, from the broker or ZooKeeper, with the wanted changes.
After the change :func:`is_done` compares the wanted changes with the new settings.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

from zkcontroller_cli.console.command_lines import command_line
from zkcontroller_cli.console.errors import BadUsage
from zkcontroller_cli.values.config_entities import BROKER, LOGGER, ConfigEntity
from zkcontroller_cli.values.config_values import (
    HIDDEN,
    ConfigSetting,
    PlaceOfValue,
    base_key,
    elements_of,
    inherited_place,
    is_same_value,
    own_place,
)

SET: Final = "set"
UNSET: Final = "unset"
APPEND: Final = "append"
SUBTRACT: Final = "subtract"

_FEW_KEYS: Final = 6
"""If a kind has at most this many keys, the error about an unknown key names all of them."""
_LONGEST_KEY: Final = 1_000
"""The longest part of an unknown key that is compared with known keys."""


class KeyOperation(NamedTuple):
    """A wanted change of one key.

    ``is_visible``: the value was an argument of the command, which other users may see.
    """

    name: str
    operation: str
    value: str | None
    is_visible: bool = True


class PlannedKey(NamedTuple):
    """A planned change of one key of one entity, with its old and new value."""

    entity: ConfigEntity
    name: str
    operation: str
    wanted: str | None
    """The value to send; for a list the elements to append or subtract; None to unset."""
    old_value: str | None
    old_source: str | None
    new_value: str | None
    is_sensitive: bool = False
    is_needed: bool = True
    reason: str | None = None
    """Why the change is impossible, or if ``is_needed`` is False why it is not needed."""

    @property
    def is_impossible(self) -> bool:
        """Whether the change cannot be made, so that the whole command is refused."""
        return self.is_needed and self.reason is not None

    def row(self) -> dict[str, Any]:
        """The change as a row; sensitive values are None."""
        return {
            "kind": self.entity.kind,
            "entity": self.entity.name,
            "client_id": self.entity.client_id,
            "name": self.name,
            "operation": self.operation,
            "old_value": None if self.is_sensitive else self.old_value,
            "old_source": self.old_source,
            "new_value": None if self.is_sensitive else self.new_value,
            "is_sensitive": self.is_sensitive,
            "reason": self.reason,
        }

    @property
    def text(self) -> str:
        """The change as text, such as ``topic orders: retention.ms 1000 (topic) -> 2000``."""
        old, new = (
            "none" if value is None else value for value in (self.old_value, self.new_value)
        )
        if self.is_sensitive:
            old = HIDDEN if self.old_source else "none"
            new = HIDDEN
        if self.operation == UNSET and (self.is_sensitive or self.new_value is None):
            new = "not set"
        where = f" ({self.old_source})" if self.old_source else ""
        change = f"{self.entity.text}: {self.name} {old}{where} -> {new}"
        if self.operation in (APPEND, SUBTRACT):
            change += f" ({self.operation} {self.wanted})"
        return change if self.reason is None else f"{change}: {self.reason}"


def plan_keys(
    entity: ConfigEntity,
    settings: Mapping[str, ConfigSetting],
    operations: Sequence[KeyOperation],
    known: Mapping[str, ConfigSetting],
    *,
    always: Collection[str] = (),
    is_unknown_allowed: bool = False,
) -> list[PlannedKey]:
    """Plan each change of the entity, with the reason if it is impossible or not needed.

    ``settings``: the entity's current settings.  ``known``: further keys that its kind may have.
    ``always``: keys that brokers accept although they do not list them.
    """
    planned = []
    known = {**settings, **known}
    for wanted in operations:
        setting = settings.get(wanted.name)
        definition = known.get(wanted.name) or known.get(base_key(entity, wanted.name))
        own = own_place(entity, setting)
        # A broker hides the value of a key that it does not know, as it may be a password.
        is_hidden = entity.kind == BROKER and wanted.name not in always
        is_sensitive = is_hidden if definition is None else definition.is_sensitive
        one = PlannedKey(
            entity,
            wanted.name,
            wanted.operation,
            wanted.value,
            None if setting is None else setting.value,
            None if setting is None else setting.source,
            _new_value(entity, wanted, setting, own),
            is_sensitive,
        )
        reason = None
        if own is None and wanted.name not in always and not is_unknown_allowed:
            reason = _why_not(entity, wanted.name, definition, known)
        if reason is None and wanted.is_visible and wanted.value and _is_secret(definition, known):
            reason = "it is secret, and arguments can be seen by others: give it in --from-file"
        if reason is None and definition is not None and wanted.operation in (APPEND, SUBTRACT):
            is_list = definition.type in ("list", "unknown")
            reason = None if is_list else f"it is no list but of type {definition.type}"
        if reason is not None:
            planned.append(one._replace(reason=reason))
        else:
            note = _why_not_needed(one, own, definition)
            planned.append(one._replace(reason=note, is_needed=note is None))
    return planned


def _is_secret(definition: ConfigSetting | None, known: Mapping[str, ConfigSetting]) -> bool:
    """Whether the key holds a secret: a password, or before Kafka 2.6 any sensitive key.

    Those older brokers do not show the types of keys.
    """
    if definition is None or not definition.is_sensitive:
        return False
    are_types_known = any(each.type != "unknown" for each in known.values())
    return definition.type == "password" or not are_types_known


def _reloads_key_store(one: PlannedKey) -> bool:
    """Whether setting the key, even to the same value, makes a broker reload a key store."""
    if one.entity.kind != BROKER:
        return False
    from replica_manager.configuration.dynamic_keys import STORE_KEYS

    return base_key(one.entity, one.name) in STORE_KEYS


def _why_not(
    entity: ConfigEntity,
    name: str,
    definition: ConfigSetting | None,
    known: Mapping[str, ConfigSetting],
) -> str | None:
    if definition is None:
        return unknown_key_text(entity.kind, name, known)
    # A broker shows the prefixed form as read-only, whatever the key itself is.
    if entity.kind == BROKER and definition.is_read_only and definition.name == name:
        return (
            "it is read-only while a broker runs: set it in server.properties and restart the "
            "broker"
        )
    return None


def unknown_key_text(kind: str, name: str, known: Collection[str]) -> str:
    """The error text for an unknown key, with the most similar known key."""
    near = get_close_matches(name[:_LONGEST_KEY], list(known), n=1, cutoff=0.6)
    hint = f"; {command_line(f'config get {kind}')} … --all shows all"
    if len(known) <= _FEW_KEYS:
        hint = f": it may have {', '.join(known)}"
    if near:
        hint = f": did you mean {near[0]}?"
    what = "logger" if kind == LOGGER else f"key for the kind {kind}"
    return f"there is no such {what}{hint}"


def _new_value(
    entity: ConfigEntity,
    wanted: KeyOperation,
    setting: ConfigSetting | None,
    own: PlaceOfValue | None,
) -> str | None:
    match wanted.operation:
        case "set":
            return wanted.value
        case "unset":
            inherited = None if setting is None else inherited_place(entity, setting)
            return None if inherited is None else inherited.value
        case _:
            pass
    base = own.value if own is not None else _default_of(setting)
    elements, given = elements_of(base), elements_of(wanted.value)
    if wanted.operation == APPEND:
        return ",".join([*elements, *(each for each in given if each not in elements)])
    return ",".join(each for each in elements if each not in given)


def _default_of(setting: ConfigSetting | None) -> str | None:
    """The default of a key, to which a broker appends if the entity has no own value."""
    if setting is None:
        return None
    defaults = [each.value for each in setting.synonyms if each.source == "default"]
    return defaults[-1] if defaults else setting.value


def _why_not_needed(
    one: PlannedKey, own: PlaceOfValue | None, definition: ConfigSetting | None
) -> str | None:
    if one.operation == UNSET:
        return "it is not set here" if own is None else None
    if one.is_sensitive or own is None or _reloads_key_store(one):
        return None
    type_name = "unknown" if definition is None else definition.type
    is_same = is_same_value(type_name, own.value, one.new_value)
    return "it has this value already" if is_same else None


def is_done(one: PlannedKey, setting: ConfigSetting | None) -> bool:
    """Whether the current setting shows that the change was made."""
    if one.entity.kind == LOGGER:
        if one.operation == UNSET:
            return True  # cannot be seen: a logger without an own level shows its parent's
        level = None if setting is None else setting.value
        return level is not None and level.upper() == (one.wanted or "").upper()
    own = own_place(one.entity, setting)
    match one.operation:
        case "unset":
            return own is None
        case "append" | "subtract":
            has = set(elements_of(None if own is None else own.value))
            given = set(elements_of(one.wanted))
            return given <= has if one.operation == APPEND else not given & has
        case _:
            pass
    if own is None:
        return False
    # A key that was unknown before the change may be sensitive too.
    is_hidden = one.is_sensitive or (setting is not None and setting.is_sensitive)
    type_name = "unknown" if setting is None else setting.type
    return is_hidden or is_same_value(type_name, own.value, one.wanted)


def operations_of(
    assignments: Mapping[str, Sequence[str]], keys: Sequence[str], file: Mapping[str, str]
) -> list[KeyOperation]:
    """The changes in a command line; BadUsage if one is not KEY=VALUE, or if a key occurs twice.

    ``assignments``: by operation, its ``KEY=VALUE`` arguments; ``keys``: the keys to unset;
    ``file``: keys and values to set.
    """
    operations = [KeyOperation(name, SET, value, is_visible=False) for name, value in file.items()]
    for operation, texts in assignments.items():
        for text in texts:
            key, equals, value = text.partition("=")
            if not equals or not key.strip():
                option = "--config" if operation == SET else f"--{operation}"
                raise BadUsage(f"{option} takes KEY=VALUE, not {text!r}")
            operations.append(KeyOperation(key.strip(), operation, value))
    for key in keys:
        if not key or "=" in key:
            raise BadUsage(f"a key to take away is a KEY, not {key!r}")
        operations.append(KeyOperation(key, UNSET, None))
    names = [each.name for each in operations]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise BadUsage(f"{twice} is changed twice in one command")
    return operations
