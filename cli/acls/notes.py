"""Notes on stderr about side effects of a change of ACLs, before it is made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zkcontroller_cli.console.errors import Refused
from zkcontroller_cli.console.options import Bootstrap, say

if TYPE_CHECKING:
    from kafka_common.acls import ResourcePattern
    from replica_manager.security.acl_cache import AclBinding
    from zkcontroller_cli.wire.requests import Deadline


def warn_before_adding(
    bootstrap: Bootstrap, deadline: Deadline, missing: Sequence[AclBinding]
) -> None:
    """Say on stderr which access is lost, and which ACLs override the new ones.

    Also that a ``*`` within a resource name is no wildcard.  ``missing``: the ACLs to add.
    """
    first = []
    for pattern in dict.fromkeys(each.pattern for each in missing):
        rules = _applying(bootstrap, deadline, pattern)
        if not rules:
            first.append(pattern)
        _say_what_wins([each for each in missing if each.pattern == pattern], rules)
        _say_of_star(pattern)
    for text, condition in _where_everyone_is_allowed(bootstrap, deadline, first):
        say(f"note: these are the first ACLs of {text}: {condition}every other principal loses it")
    _say_of_own_rights([each for each in missing if _denies(each)])


def warn_before_removing(
    bootstrap: Bootstrap, deadline: Deadline, found: Sequence[AclBinding]
) -> None:
    """Say on stderr which resources every principal may use after the removal of these ACLs."""
    gone = set(found)
    last = [
        pattern
        for pattern in dict.fromkeys(each.pattern for each in found)
        if gone.issuperset(_applying(bootstrap, deadline, pattern))
    ]
    for text, condition in _where_everyone_is_allowed(bootstrap, deadline, last):
        say(f"note: these are the last ACLs of {text}: {condition}every principal may use it")
    _say_of_own_rights([each for each in found if not _denies(each)])


def _applying(
    bootstrap: Bootstrap, deadline: Deadline, pattern: ResourcePattern
) -> list[AclBinding]:
    """The ACLs that apply to a resource of that name."""
    from kafka_common.acls import PatternType
    from zkcontroller_cli.values.acls import filter_of_resource
    from zkcontroller_cli.wire.acls import describe_acls
    from zkcontroller_cli.wire.requests import run

    applying = filter_of_resource(pattern._replace(pattern_type=PatternType.MATCH))
    try:
        return run(describe_acls(bootstrap, deadline, [applying]))
    except Refused:  # a broker without pattern types has only literal ACLs
        return run(describe_acls(bootstrap, deadline, [filter_of_resource(pattern)]))


def _where_everyone_is_allowed(
    bootstrap: Bootstrap, deadline: Deadline, patterns: Sequence[ResourcePattern]
) -> list[tuple[str, str]]:
    """The resources as texts, each with the condition under which everyone may use them.

    Empty if brokers have ``allow.everyone.if.no.acl.found=false``.
    """
    from zkcontroller_cli.acls.reading import ALLOW_EVERYONE, read_allow_everyone
    from zkcontroller_cli.values.acls import resource_text
    from zkcontroller_cli.wire.requests import run

    if not patterns:
        return []
    is_allowed = run(read_allow_everyone(bootstrap, deadline))
    if is_allowed is False:
        return []
    condition = f"{ALLOW_EVERYONE} is true, so " if is_allowed else f"if {ALLOW_EVERYONE} is true, "
    return [(resource_text(pattern), condition) for pattern in patterns]


def _say_what_wins(missing: Sequence[AclBinding], rules: Sequence[AclBinding]) -> None:
    from zkcontroller_cli.values.acls import rule_text

    denied = {each.entry.principal: each for each in rules if _denies(each)}
    for binding in missing:
        wins = denied.get(binding.entry.principal) or denied.get("User:*")
        if wins is not None and not _denies(binding):
            say(f"note: {rule_text(wins)} wins over {rule_text(binding)} where both apply")


def _say_of_star(pattern: ResourcePattern) -> None:
    from kafka_common.acls import PatternType
    from zkcontroller_cli.values.acls import resource_text

    if pattern.pattern_type is PatternType.PREFIXED and "*" in pattern.name:
        say(f"note: a prefix has no wildcard, it means names that begin with {pattern.name!r}")
    elif len(pattern.name) > 1 and pattern.name.endswith("*"):
        prefix = pattern.name.rstrip("*")
        say(
            f"note: {resource_text(pattern)} is one resource with a * in its name; for every name "
            f"that begins with {prefix!r} say {prefix} with --resource-pattern-type prefixed"
        )


def _say_of_own_rights(bindings: Sequence[AclBinding]) -> None:
    """Say on stderr if ACLs are about Alter on the cluster, the right that changes ACLs."""
    from kafka_common.acls import AclOperation, ResourceType
    from zkcontroller_cli.values.acls import rule_text

    for each in bindings:
        if each.pattern.resource_type is ResourceType.CLUSTER and each.entry.operation in (
            AclOperation.ALTER,
            AclOperation.ALL,
        ):
            say(f"note: {rule_text(each)}: ACLs are changed by this right, or by super users")


def _denies(binding: AclBinding) -> bool:
    from kafka_common.acls import PermissionType

    return binding.entry.permission_type is PermissionType.DENY
