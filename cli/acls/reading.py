"""Reads the ACLs of a cluster and the settings of its authorizer, from brokers or from ZooKeeper.

The source is the one that is named most explicitly, brokers if both are: ``zkctl -z …`` reads only
ZooKeeper.  ``super.users`` and ``allow.everyone.if.no.acl.found`` are only in brokers'
configuration.  Kafka's brokers hide the values of both, as they do not know their types.

Source: Kafka ``ConfigHelper`` (``describeConfigs``), ``KafkaConfig.maybeSensitive``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kafka_common.acls import PatternType, ResourcePattern, ResourceType, by_pascal_name
from kafka_common.errors import ConfigInvalid
from replica_manager.security.acl_cache import AclBinding, AclBindingFilter
from replica_manager.security.principals import Principal, parse_super_users
from zkcontroller.zookeeper.kafka_acl_znodes import AclZnode
from zkcontroller.zookeeper.results import optional
from zkcontroller_cli.acls.decisions import AclSettings
from zkcontroller_cli.console.errors import CommandFailed
from zkcontroller_cli.console.options import Bootstrap, Settings, say
from zkcontroller_cli.values.acls import every_rule, in_order

if TYPE_CHECKING:
    from zkcontroller_cli.wire.requests import Deadline

SUPER_USERS: Final = "super.users"
ALLOW_EVERYONE: Final = "allow.everyone.if.no.acl.found"
_AUTHORIZER: Final = "authorizer.class.name"


class KnownSettings(NamedTuple):
    """Settings given on the command line, as brokers may hide them; None: not given."""

    super_users: tuple[Principal, ...] | None
    allow_everyone: bool | None


def is_by_zookeeper(given: Settings) -> bool:
    """Whether to read ACLs from ZooKeeper: brokers are not named, or less explicitly (Origin)."""
    zookeeper, bootstrap = given.find_zookeeper(), given.find_bootstrap()
    return zookeeper is not None and (bootstrap is None or zookeeper.origin < bootstrap.origin)


def read_rules(given: Settings, filters: Sequence[AclBindingFilter] = ()) -> list[AclBinding]:
    """The ACLs that at least one of the filters matches, sorted; all ACLs without a filter."""
    wanted = list(filters) or [every_rule()]
    if is_by_zookeeper(given):
        return rules_in_zookeeper(given, wanted)
    from zkcontroller_cli.wire.acls import describe_acls
    from zkcontroller_cli.wire.requests import Deadline, run

    return in_order(run(describe_acls(given.bootstrap(), Deadline(given.deadline_s), wanted)))


def rules_in_zookeeper(given: Settings, filters: Sequence[AclBindingFilter]) -> list[AclBinding]:
    """The ACLs in ZooKeeper that at least one of the filters matches, sorted."""
    bindings = _from_zookeeper(given)
    return in_order(each for each in bindings if any(one.matches(each) for one in filters))


def _from_zookeeper(given: Settings) -> list[AclBinding]:
    """Every ACL in ZooKeeper; a corrupt znode is named on stderr and left out."""
    from zkcontroller_cli.znodes.session import decoded, open_zookeeper

    with open_zookeeper(given) as zookeeper:
        patterns: list[ResourcePattern] = []
        for pattern_type in (PatternType.LITERAL, PatternType.PREFIXED):
            root = AclZnode.root(pattern_type)
            names = optional(root, zookeeper.children([root])[0]) or []
            types = [(name, by_pascal_name(ResourceType, name)) for name in names]
            known = [(name, kind) for name, kind in types if kind is not ResourceType.UNKNOWN]
            for name, kind in types:
                if kind is ResourceType.UNKNOWN:
                    say(f"warning: {root}/{name} is of no known type of resource: left out")
            paths = [f"{root}/{name}" for name, _ in known]
            for (_, kind), path, response in zip(
                known, paths, zookeeper.children(paths), strict=True
            ):
                found = optional(path, response) or []
                patterns += [ResourcePattern(kind, each, pattern_type) for each in found]
        paths = [AclZnode.path(pattern) for pattern in patterns]
        bindings: list[AclBinding] = []
        for pattern, path, data in zip(patterns, paths, zookeeper.read(paths), strict=True):
            znode = optional(path, data)
            rules = None if znode is None else decoded(AclZnode.decode, path, znode.data)
            if rules is not None:
                bindings += [AclBinding(pattern, entry) for entry in rules.entries]
        return bindings


def read_settings(given: Settings, known: KnownSettings) -> AclSettings:
    """``super.users`` and ``allow.everyone.if.no.acl.found``, from the command line or brokers.

    A setting that is not known is None, and stderr says why.
    """
    if known.super_users is not None and known.allow_everyone is not None:
        return AclSettings(frozenset(known.super_users), known.allow_everyone)
    from zkcontroller_cli.wire.requests import Deadline, run

    try:
        shown, reasons = run(_shown_by_brokers(given.bootstrap(), Deadline(given.deadline_s)))
    except CommandFailed as error:
        shown, reasons = AclSettings(None, None), {}
        say(f"warning: {SUPER_USERS} and {ALLOW_EVERYONE} are not known: {error}")
    if known.super_users is not None:
        shown = shown._replace(super_users=frozenset(known.super_users))
    elif SUPER_USERS in reasons:
        why = reasons[SUPER_USERS]
        say(f"warning: {SUPER_USERS} is not known: {why}; --super-user names who may do everything")
    if known.allow_everyone is not None:
        shown = shown._replace(allow_everyone=known.allow_everyone)
    elif ALLOW_EVERYONE in reasons:
        why = reasons[ALLOW_EVERYONE]
        say(f"warning: {ALLOW_EVERYONE} is not known: {why}; --allow-everyone says it")
    return shown


async def read_allow_everyone(bootstrap: Bootstrap, deadline: Deadline) -> bool | None:
    """The brokers' ``allow.everyone.if.no.acl.found``; None if it is not known."""
    try:
        shown, _ = await _shown_by_brokers(bootstrap, deadline)
    except CommandFailed:
        return None
    return shown.allow_everyone


async def _shown_by_brokers(
    bootstrap: Bootstrap, deadline: Deadline
) -> tuple[AclSettings, dict[str, str]]:
    """The settings that all brokers agree on, and by key the reason why a setting is None."""
    from zkcontroller_cli.values.config_entities import BROKER, ConfigEntity
    from zkcontroller_cli.wire.configs import describe_configs
    from zkcontroller_cli.wire.requests import metadata

    known = await metadata(bootstrap, deadline, ())
    found: dict[str, Mapping[str, str | None]] = {}
    for broker in sorted(known.brokers, key=lambda each: each.node_id):
        name = str(int(broker.node_id))
        entity = ConfigEntity(BROKER, name)
        configs = (await describe_configs(bootstrap, deadline, [entity]))[entity]
        found[name] = {key: config.value for key, config in configs.items()}
    without = [name for name, values in found.items() if not values.get(_AUTHORIZER)]
    if without:
        say(f"warning: brokers {', '.join(without)} check no ACLs: {_AUTHORIZER} is not set")
    reasons: dict[str, str] = {}
    users = _one(found, SUPER_USERS, "", reasons)
    text = _one(found, ALLOW_EVERYONE, "false", reasons)
    return AclSettings(
        None if users is None else _super_users(users, reasons),
        None if text is None else text.strip().lower() == "true",
    ), reasons


def _one(
    found: Mapping[str, Mapping[str, str | None]], key: str, default: str, reasons: dict[str, str]
) -> str | None:
    """The one value of a key at all brokers, ``default`` where it is not set.

    None if a broker hides it or values differ; the reason is put into ``reasons``.
    """
    values = {name: configs.get(key, default) for name, configs in found.items()}
    hiding = [name for name, value in values.items() if value is None]
    if hiding:
        reasons[key] = f"its value is hidden by broker {' and broker '.join(hiding)}"
        return None
    if len(set(values.values())) != 1:
        reasons[key] = f"brokers {', '.join(values)} have different values"
        return None
    return next(iter(values.values()))


def _super_users(text: str, reasons: dict[str, str]) -> frozenset[Principal] | None:
    try:
        return parse_super_users(text)
    except ConfigInvalid as invalid:
        reasons[SUPER_USERS] = str(invalid)
        return None
