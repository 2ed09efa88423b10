"""Reads configurations from brokers, or from ZooKeeper if only that is named."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from zkcontroller_cli.console.errors import ApiNotKnown, BadUsage
from zkcontroller_cli.console.options import Settings, say
from zkcontroller_cli.values.config_entities import (
    BROKER,
    DEFAULT_NAME,
    LOGGER,
    QUOTA_KINDS,
    TOPIC,
    USER,
    ConfigEntity,
    entities_of,
)
from zkcontroller_cli.values.config_values import ConfigSetting, PlaceOfValue

if TYPE_CHECKING:
    from zkcontroller_cli.values.quotas import HeldQuotas, QuotaMatch
    from zkcontroller_cli.values.users import HeldCredential

SettingsByName: TypeAlias = dict[str, ConfigSetting]


def named_entities(
    kind: str,
    names: Sequence[str],
    clients: Sequence[str],
    *,
    is_default: bool,
    all_topics: bool = False,
    all_entities: bool = False,
) -> list[ConfigEntity] | None:
    """The entities that a command line names, or None for all of the kind; BadUsage without any."""
    if all_topics and kind != TOPIC:
        raise BadUsage(f"--all-topics is for topics: say --all-entities for every {kind}")
    if all_topics or all_entities:
        if names or clients or is_default:
            raise BadUsage("say --all-… or names, not both")
        return None
    found = entities_of(kind, names, clients, is_default=is_default)
    if not found:
        default = "" if kind in (TOPIC, LOGGER) else ", --default"
        raise BadUsage(f"which {kind}? Name it, or say --all-entities{default}")
    return found


def read_entities(
    given: Settings,
    kind: str,
    entities: Sequence[ConfigEntity] | None,
    *,
    is_full: bool,
    is_documented: bool = False,
) -> dict[ConfigEntity, SettingsByName]:
    """The settings of each entity, by key; ``entities`` None: of all entities of the kind.

    ``is_full``: also keys that have their defaults, which only brokers know.
    """
    if kind in QUOTA_KINDS:
        return _quotas_and_credentials(given, kind, entities)
    if given.is_zookeeper_alone and not is_full and kind != LOGGER:
        say("read from ZooKeeper: what is set in the files of brokers is not shown")
        return _from_zookeeper(given, kind, entities)
    from zkcontroller_cli.wire.configs import describe_configs, known_entities
    from zkcontroller_cli.wire.requests import Deadline, run

    bootstrap, deadline = given.bootstrap(), Deadline(given.deadline_s)
    if entities is None:
        entities = run(known_entities(bootstrap, deadline, kind))
        if kind == BROKER:
            entities = [*entities, ConfigEntity(BROKER, DEFAULT_NAME)]
    return run(describe_configs(bootstrap, deadline, entities, is_documented=is_documented))


def _from_zookeeper(
    given: Settings, kind: str, entities: Sequence[ConfigEntity] | None
) -> dict[ConfigEntity, SettingsByName]:
    from zkcontroller_cli.configurations.stored_configs import stored_entities, stored_settings
    from zkcontroller_cli.znodes.partitions import live_broker_ids
    from zkcontroller_cli.znodes.session import open_zookeeper

    with open_zookeeper(given) as zookeeper:
        chosen = stored_entities(zookeeper, kind) if entities is None else entities
        found = stored_settings(zookeeper, chosen)
        unset = [each for each in found if kind == BROKER and not found[each]]
        live = {str(broker_id) for broker_id in live_broker_ids(zookeeper)} if unset else set()
    for entity in unset:
        if not entity.is_default and entity.name not in live:
            say(f"warning: {entity.text} is not registered, and ZooKeeper has no value for it")
    return found


def _quotas_and_credentials(
    given: Settings, kind: str, entities: Sequence[ConfigEntity] | None
) -> dict[ConfigEntity, SettingsByName]:
    from zkcontroller_cli.values.quotas import quota_settings

    found: dict[ConfigEntity, SettingsByName] = {each: {} for each in entities or ()}
    for held in read_quotas(given):
        if held.entity in found or (entities is None and held.entity.kind == kind):
            settings = quota_settings(held.entity, held.quotas)
            found.setdefault(held.entity, {}).update(settings)
    if kind == USER:
        for entity, setting in _credential_settings(given, entities):
            found.setdefault(entity, {})[setting.name] = setting
    return found


def read_quotas(
    given: Settings, wanted: Sequence[QuotaMatch] = (), *, is_exact: bool = False
) -> list[HeldQuotas]:
    """Read entities with quotas; from brokers only those that match, from ZooKeeper all."""
    if given.is_zookeeper_alone:
        from zkcontroller_cli.configurations.stored_configs import stored_quotas
        from zkcontroller_cli.znodes.session import open_zookeeper

        with open_zookeeper(given) as zookeeper:
            return stored_quotas(zookeeper)
    from zkcontroller_cli.wire.quotas import describe_quotas
    from zkcontroller_cli.wire.requests import Deadline, run

    bootstrap, deadline = given.bootstrap(), Deadline(given.deadline_s)
    return run(describe_quotas(bootstrap, deadline, wanted, is_exact=is_exact))


def read_credentials(given: Settings, users: Sequence[str] = ()) -> list[HeldCredential]:
    """Read the SCRAM credentials of those users (none named: of all)."""
    if given.is_zookeeper_alone:
        from zkcontroller_cli.configurations.stored_configs import stored_credentials
        from zkcontroller_cli.znodes.session import open_zookeeper

        with open_zookeeper(given) as zookeeper:
            return stored_credentials(zookeeper, users)
    from zkcontroller_cli.wire.requests import Deadline, run
    from zkcontroller_cli.wire.scram import describe_credentials

    return run(describe_credentials(given.bootstrap(), Deadline(given.deadline_s), users))


def _credential_settings(
    given: Settings, entities: Sequence[ConfigEntity] | None
) -> Iterable[tuple[ConfigEntity, ConfigSetting]]:
    users = [each.name for each in entities or () if each.client_id is None and not each.is_default]
    if entities is not None and not users:
        return []
    try:
        credentials = read_credentials(given, users)
    except ApiNotKnown as unknown:
        say(f"credentials are not shown: {unknown}")
        return []
    return [(ConfigEntity(USER, each.user), _credential_setting(each)) for each in credentials]


def _credential_setting(held: HeldCredential) -> ConfigSetting:
    text = f"iterations={held.iterations}"
    place = PlaceOfValue(held.mechanism, text, USER)
    return ConfigSetting(
        held.mechanism, text, USER, "password", is_sensitive=True, synonyms=(place,)
    )
