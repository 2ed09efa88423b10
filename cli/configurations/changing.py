"""Changes configurations: plans, checks, shows, asks, sends, and proves by reading again.

A :class:`ConfigStore` reads and changes the settings of one kind; :func:`carry_out` does the rest
for all kinds.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from zkcontroller_cli.console.errors import Refused, TimedOut
from zkcontroller_cli.console.options import Bootstrap, Settings, say
from zkcontroller_cli.console.render import Layout
from zkcontroller_cli.values.config_entities import BROKER, ConfigEntity
from zkcontroller_cli.values.config_plan import KeyOperation, PlannedKey, is_done, plan_keys
from zkcontroller_cli.values.config_values import ConfigSetting

if TYPE_CHECKING:
    from zkcontroller_cli.wire.requests import BrokerRefusal

_SHOWN: Final = 20
"""The most lines of a plan that are shown before a question; --dry-run shows all."""
_POLL_S: Final = 0.2
_KEYS: Final = (
    "kind",
    "entity",
    "client_id",
    "name",
    "operation",
    "old_value",
    "old_source",
    "new_value",
    "is_sensitive",
    "reason",
    "value",
    "is_done",
    "error",
    "is_dry_run",
)
_PLAN_COLUMNS: Final = ("entity", "name", "operation", "old_value", "new_value", "reason")
_DONE_COLUMNS: Final = ("entity", "name", "old_value", "value", "is_done", "reason")


class ConfigStore(ABC):
    """Reads, checks and changes the settings of one kind of entities."""

    always: Collection[str] = ()
    """Keys that are accepted although brokers do not list them while they are not set."""

    @abstractmethod
    def read(
        self, entities: Sequence[ConfigEntity]
    ) -> Mapping[ConfigEntity, Mapping[str, ConfigSetting]]:
        """Read the current settings of each entity."""

    @abstractmethod
    def known(self, entity: ConfigEntity) -> Mapping[str, ConfigSetting]:
        """By key, further settings that the entity may have, which :meth:`read` does not show."""

    @abstractmethod
    def send(
        self, changes: Mapping[ConfigEntity, Sequence[PlannedKey]], *, is_dry_run: bool
    ) -> Mapping[ConfigEntity, BrokerRefusal | None]:
        """Make the changes, or only check them; by entity the refusal, or None."""


class WireConfigStore(ConfigStore):
    """Reads and changes topics, brokers and loggers by brokers."""

    def __init__(self, bootstrap: Bootstrap, deadline_s: float, kind: str) -> None:
        self._bootstrap = bootstrap
        self._deadline_s = deadline_s
        self._of_any_broker: Mapping[str, ConfigSetting] | None = None
        if kind == BROKER:
            from replica_manager.configuration.dynamic_keys import QUOTA_KEYS

            self.always = frozenset(QUOTA_KEYS)

    @override
    def read(
        self, entities: Sequence[ConfigEntity]
    ) -> Mapping[ConfigEntity, Mapping[str, ConfigSetting]]:
        from zkcontroller_cli.wire.configs import describe_configs
        from zkcontroller_cli.wire.requests import Deadline, run

        return run(describe_configs(self._bootstrap, Deadline(self._deadline_s), entities))

    @override
    def known(self, entity: ConfigEntity) -> Mapping[str, ConfigSetting]:
        """For the default of all brokers the keys of the first live broker; else nothing."""
        if entity.kind != BROKER or not entity.is_default:
            return {}
        if self._of_any_broker is None:
            from zkcontroller_cli.wire.configs import known_entities
            from zkcontroller_cli.wire.requests import Deadline, run

            brokers = run(known_entities(self._bootstrap, Deadline(self._deadline_s), BROKER))
            self._of_any_broker = self.read(brokers[:1])[brokers[0]]
        return self._of_any_broker

    @override
    def send(
        self, changes: Mapping[ConfigEntity, Sequence[PlannedKey]], *, is_dry_run: bool
    ) -> Mapping[ConfigEntity, BrokerRefusal | None]:
        from zkcontroller_cli.wire.configs import alter_configs
        from zkcontroller_cli.wire.requests import Deadline, run

        deadline = Deadline(self._deadline_s)
        return run(alter_configs(self._bootstrap, deadline, changes, is_dry_run=is_dry_run))


class QuotaStore(ConfigStore):
    """Reads and changes quotas by brokers."""

    def __init__(self, bootstrap: Bootstrap, deadline_s: float) -> None:
        self._bootstrap = bootstrap
        self._deadline_s = deadline_s

    @override
    def read(
        self, entities: Sequence[ConfigEntity]
    ) -> Mapping[ConfigEntity, Mapping[str, ConfigSetting]]:
        from zkcontroller_cli.values.quotas import quota_settings
        from zkcontroller_cli.wire.quotas import describe_quotas
        from zkcontroller_cli.wire.requests import Deadline, run

        held = run(describe_quotas(self._bootstrap, Deadline(self._deadline_s)))
        quotas = {each.entity: each.quotas for each in held}
        return {each: quota_settings(each, quotas.get(each, {})) for each in entities}

    @override
    def known(self, entity: ConfigEntity) -> Mapping[str, ConfigSetting]:
        from zkcontroller_cli.values.quotas import known_quotas

        return known_quotas(entity)

    @override
    def send(
        self, changes: Mapping[ConfigEntity, Sequence[PlannedKey]], *, is_dry_run: bool
    ) -> Mapping[ConfigEntity, BrokerRefusal | None]:
        from zkcontroller_cli.wire.quotas import alter_quotas
        from zkcontroller_cli.wire.requests import Deadline, run

        deadline = Deadline(self._deadline_s)
        return run(alter_quotas(self._bootstrap, deadline, changes, is_dry_run=is_dry_run))


def question_for(entities: Sequence[ConfigEntity], operations: Sequence[KeyOperation]) -> str:
    """The question to the user before the change."""
    whose = entities[0].text if len(entities) == 1 else f"{len(entities)} {entities[0].kind}s"
    return f"Change {', '.join(each.name for each in operations)} of {whose}?"


def carry_out(
    given: Settings,
    store: ConfigStore,
    entities: Sequence[ConfigEntity],
    operations: Sequence[KeyOperation],
    *,
    is_dry_run: bool,
    yes: bool,
    is_unknown_allowed: bool = False,
) -> None:
    """Plan the changes, let the store check them, ask, make them, and show the result.

    Refused before anything is done if one of them is impossible; Refused or TimedOut at the end if
    one was refused or is not visible.
    """
    before = store.read(entities)
    plan = [
        planned
        for entity in entities
        for planned in plan_keys(
            entity,
            before[entity],
            operations,
            store.known(entity),
            always=store.always,
            is_unknown_allowed=is_unknown_allowed,
        )
    ]
    possible = not any(each.is_impossible for each in plan)
    needed = _by_entity([each for each in plan if each.is_needed])
    if possible and needed:
        checked = store.send(needed, is_dry_run=True)
        plan = [_with_refusal(each, checked) for each in plan]
    if is_dry_run:
        _show_rows(given, [_row(each, is_dry_run=True) for each in plan], _PLAN_COLUMNS)
    _refuse_what_cannot_be(plan)
    if is_dry_run:
        return
    _say([f"  {each.text}" for each in plan])
    if not needed:
        say("nothing to do")
        _show_rows(given, [_row(each, before, is_done=True) for each in plan], _DONE_COLUMNS)
        return
    given.confirm(question_for(entities, operations), yes=yes)
    refusals = store.send(needed, is_dry_run=False)
    accepted = [each for each in plan if each.is_needed and refusals.get(each.entity) is None]
    after = _wait_for(given, store, accepted) if accepted else store.read(entities)
    _prove(given, plan, refusals, {**before, **after})


def _wait_for(
    given: Settings, store: ConfigStore, wanted: Sequence[PlannedKey]
) -> Mapping[ConfigEntity, Mapping[str, ConfigSetting]]:
    """The settings, read again until they show every change or time is up."""
    entities = list(dict.fromkeys(each.entity for each in wanted))
    end = time.monotonic() + given.deadline_s
    while True:
        now = store.read(entities)
        if all(is_done(each, now[each.entity].get(each.name)) for each in wanted):
            return now
        left_s = end - time.monotonic()
        if left_s <= 0:
            return now
        time.sleep(min(_POLL_S, left_s))


def _prove(
    given: Settings,
    plan: Sequence[PlannedKey],
    refusals: Mapping[ConfigEntity, BrokerRefusal | None],
    after: Mapping[ConfigEntity, Mapping[str, ConfigSetting]],
) -> None:
    rows, refused, missed = [], [], []
    for each in plan:
        refusal = refusals.get(each.entity) if each.is_needed else None
        is_there = is_done(each, after[each.entity].get(each.name))
        if refusal is not None:
            refused.append(f"{each.entity.text}: {refusal.reason} ({refusal.error})")
            each = each._replace(reason=refusal.reason)
        elif not is_there:
            missed.append(each)
        error = None if refusal is None else refusal.error
        done = is_there and refusal is None
        rows.append(_row(each, after, is_done=done, error=error))
    _show_rows(given, rows, _DONE_COLUMNS)
    if refused:
        raise Refused(
            f"{refused[0]}; {len(refused)} of {len(plan)} changes were refused, the rows say what "
            "was done"
        )
    if missed:
        first = missed[0]
        raise TimedOut(
            f"{first.entity.text}: the change of {first.name} was accepted and is not seen yet; "
            f"{len(missed)} of {len(plan)} changes are not: look for an error about the "
            "configuration in the log of that broker, and read again with zkctl config get"
        )


def _refuse_what_cannot_be(plan: Sequence[PlannedKey]) -> None:
    impossible = [each for each in plan if each.is_impossible]
    if impossible:
        first = impossible[0]
        raise Refused(
            f"{first.entity.text}: {first.name}: {first.reason}; "
            f"{len(impossible)} of {len(plan)} changes cannot be made; nothing was done"
        )


def _with_refusal(
    each: PlannedKey, checked: Mapping[ConfigEntity, BrokerRefusal | None]
) -> PlannedKey:
    refusal = checked.get(each.entity)
    if refusal is None or not each.is_needed:
        return each
    return each._replace(reason=f"{refusal.reason} ({refusal.error})")


def _by_entity(plan: Sequence[PlannedKey]) -> dict[ConfigEntity, list[PlannedKey]]:
    found: dict[ConfigEntity, list[PlannedKey]] = {}
    for each in plan:
        found.setdefault(each.entity, []).append(each)
    return found


def _row(
    each: PlannedKey,
    after: Mapping[ConfigEntity, Mapping[str, ConfigSetting]] | None = None,
    *,
    is_done: bool = False,
    error: str | None = None,
    is_dry_run: bool = False,
) -> dict[str, Any]:
    setting = None if after is None else after[each.entity].get(each.name)
    return {
        **each.row(),
        "value": None if setting is None or each.is_sensitive else setting.value,
        "is_done": is_done,
        "error": error,
        "is_dry_run": is_dry_run,
    }


def _show_rows(given: Settings, rows: Sequence[dict[str, Any]], columns: tuple[str, ...]) -> None:
    if any(row["client_id"] is not None for row in rows):
        columns = (columns[0], "client_id", *columns[1:])
    given.renderer.rows(rows, Layout(lambda row: str(row["name"]), columns, _KEYS))


def _say(lines: Sequence[str]) -> None:
    for line in lines[:_SHOWN]:
        say(line)
    if len(lines) > _SHOWN:
        say(f"and {len(lines) - _SHOWN} more; --dry-run shows all")
