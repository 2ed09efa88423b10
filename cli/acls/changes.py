"""``zkctl acl add`` and ``remove``: shows the change, asks, makes it, and proves it at each broker.

Only the ACLs that were shown are changed: ``remove`` sends an exact filter for each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from zkcontroller_cli.acls.options import (
    dry_run,
    filter_options,
    filters_in,
    pattern_options,
    resources_in,
    yes,
)
from zkcontroller_cli.console.errors import BadUsage, Refused, TimedOut
from zkcontroller_cli.console.options import Settings, say, settings

if TYPE_CHECKING:
    from replica_manager.security.acl_cache import AclBinding
    from zkcontroller_cli.acls.plan import RuleOptions
    from zkcontroller_cli.acls.targets import AclProof, AclTarget
    from zkcontroller_cli.wire.requests import BrokerRefusal

_SHOWN: Final = 20
"""The most ACLs that are shown before a question; --dry-run shows all."""

_allow = click.option(
    "--allow-principal",
    "allow_principals",
    multiple=True,
    metavar="TYPE:NAME",
    help="Allow this principal.",
)
_deny = click.option(
    "--deny-principal",
    "deny_principals",
    multiple=True,
    metavar="TYPE:NAME",
    help="Deny this principal.",
)
_allow_host = click.option(
    "--allow-host", "allow_hosts", multiple=True, metavar="ADDRESS", help="[default: *, every host]"
)
_deny_host = click.option(
    "--deny-host", "deny_hosts", multiple=True, metavar="ADDRESS", help="[default: *, every host]"
)
_producer = click.option(
    "--producer",
    "is_producer",
    is_flag=True,
    help="write, describe, create on topics; write, describe on transactional ids.",
)
_consumer = click.option(
    "--consumer", "is_consumer", is_flag=True, help="read, describe on topics; read on groups."
)
_in_zookeeper = click.option(
    "--in-zookeeper",
    is_flag=True,
    help="Write to ZooKeeper past the brokers: none runs yet, or no one may change ACLs.",
)
_set_acl = click.option(
    "--set-acl/--no-set-acl",
    default=None,
    help="With --in-zookeeper: protect new znodes, as brokers with zookeeper.set.acl=true do, or "
    "leave them open to everyone.  [default: protect them if ZKCTL_ZOOKEEPER_AUTH is set]",
)
_idempotent = click.option(
    "--idempotent",
    "is_idempotent",
    is_flag=True,
    help="With --producer: idempotent_write on the cluster.",
)


@click.command("add")
@pattern_options
@_allow
@_allow_host
@_deny
@_deny_host
@click.option(
    "--operation",
    "operations",
    multiple=True,
    metavar="OPERATION",
    help="What is allowed or denied.  [default: all]",
)
@_producer
@_consumer
@_idempotent
@_in_zookeeper
@_set_acl
@dry_run
@yes
def add(in_zookeeper: bool, set_acl: bool | None, dry_run: bool, yes: bool, **values: Any) -> None:
    r"""Add ACLs: each principal, host and operation on each resource.

    They are shown first, with what they change for others. Afterwards every broker is asked until
    it has them.

    Examples:
      zkctl acl add --allow-principal User:alice --producer --topic orders
      zkctl acl add --allow-principal User:bob --consumer --topic orders \
        --group billing
      zkctl acl add --deny-principal User:eve --operation write --topic orders
    """
    from zkcontroller_cli.acls.plan import rules_to_add
    from zkcontroller_cli.acls.targets import target_of
    from zkcontroller_cli.values.acls import filter_of_resource, parse_host

    rules = _rules_in(values)
    for host in (*rules.allow_hosts, *rules.deny_hosts):
        parse_host(host)
    planned = rules_to_add(resources_in(values), rules)
    given = settings()
    _check_place(is_in_zookeeper=in_zookeeper, set_acl=set_acl)
    question = f"Add {_count(planned)}?"
    if not dry_run:
        given.can_be_asked(question, yes=yes)
    target = target_of(given, is_in_zookeeper=in_zookeeper, set_acl=set_acl)
    patterns = dict.fromkeys(each.pattern for each in planned)
    there = set(target.found(list(map(filter_of_resource, patterns))))
    missing = [each for each in planned if each not in there]
    target.warn(missing, is_added=True)
    if dry_run:
        given.renderer.rows(
            [_row(each, is_there=each in there, refusal=None) for each in planned], _layout()
        )
        return
    _show("add", missing)
    if len(missing) < len(planned):
        say(f"{len(planned) - len(missing)} of {len(planned)} are there already")
    if missing:
        given.confirm(question, yes=yes)
    _change(given, target, planned, missing, is_added=True)


@click.command("remove")
@pattern_options
@filter_options
@_allow
@_allow_host
@_deny
@_deny_host
@_producer
@_consumer
@_idempotent
@_in_zookeeper
@_set_acl
@dry_run
@yes
def remove(
    in_zookeeper: bool, set_acl: bool | None, dry_run: bool, yes: bool, **values: Any
) -> None:
    """Remove ACLs: those that acl add makes of the same options, or those that filters find.

    With --allow-principal or --deny-principal they are exactly what add makes. Without, all ACLs of
    the resources are removed, or those that --principal, --host, --operation and --permission
    leave. They are shown first, and nothing else is removed.

    Examples:
      zkctl acl remove --allow-principal User:alice --producer --topic orders
      zkctl acl remove --topic orders --principal User:bob --dry-run
    """
    from zkcontroller_cli.acls.plan import filters_to_remove
    from zkcontroller_cli.acls.targets import target_of

    filters = filters_to_remove(resources_in(values), _rules_in(values), filters_in(values))
    given = settings()
    _check_place(is_in_zookeeper=in_zookeeper, set_acl=set_acl)
    question = "Remove these ACLs?"
    if not dry_run:
        given.can_be_asked(question, yes=yes)
    target = target_of(given, is_in_zookeeper=in_zookeeper, set_acl=set_acl)
    found = target.found(filters)
    if not found:
        raise Refused("no ACL matches, nothing was done; zkctl acl list shows all")
    target.warn(found, is_added=False)
    if dry_run:
        rows = [_row(each, is_there=True, refusal=None) for each in found]
        given.renderer.rows(rows, _layout())
        return
    _show("remove", found)
    given.confirm(f"Remove {_count(found)}?", yes=yes)
    _change(given, target, found, found, is_added=False)


def _check_place(*, is_in_zookeeper: bool, set_acl: bool | None) -> None:
    if set_acl is not None and not is_in_zookeeper:
        raise BadUsage("--set-acl goes with --in-zookeeper: else brokers write the znodes")


def _rules_in(values: dict[str, Any]) -> RuleOptions:
    from zkcontroller_cli.acls.plan import RuleOptions

    return RuleOptions(
        allow_principals=values["allow_principals"],
        deny_principals=values["deny_principals"],
        allow_hosts=values["allow_hosts"],
        deny_hosts=values["deny_hosts"],
        operations=values["operations"],
        is_producer=values["is_producer"],
        is_consumer=values["is_consumer"],
        is_idempotent=values["is_idempotent"],
    )


def _change(
    given: Settings,
    target: AclTarget,
    planned: Sequence[AclBinding],
    changed: Sequence[AclBinding],
    *,
    is_added: bool,
) -> None:
    """Make the change, read it back, and show the result for each ACL."""
    outcomes = target.change(changed, is_added=is_added) if changed else []
    refusals = dict(zip(changed, outcomes, strict=True))
    done = [each for each in planned if refusals.get(each) is None]
    proof = target.proof(done, is_added=is_added)
    rows = [
        _row(
            each,
            is_there=(each in done and each not in proof.without) is is_added,
            refusal=refusals.get(each),
        )
        for each in planned
    ]
    given.renderer.rows(rows, _layout())
    _end(planned, refusals, proof, is_added=is_added)


def _end(
    planned: Sequence[AclBinding],
    refusals: dict[AclBinding, BrokerRefusal | None],
    proof: AclProof,
    *,
    is_added: bool,
) -> None:
    """Raise Refused or TimedOut, with the next step, unless every change was made and proved."""
    from zkcontroller_cli.values.acls import rule_text

    verb = "added" if is_added else "removed"
    refused = [(each, refusal) for each in planned if (refusal := refusals.get(each)) is not None]
    if refused:
        first, refusal = refused[0]
        raise Refused(
            f"{rule_text(first)}: {refusal.reason} ({refusal.error}); "
            f"{len(refused)} of {len(planned)} ACLs are not {verb}"
        )
    if proof.without:
        first, where = next(iter(proof.without.items()))
        raise TimedOut(
            f"not {verb} at {where}: {rule_text(first)} "
            f"({len(proof.without)} of {len(planned)}): {proof.next_step}"
        )
    if proof.silent is not None:
        raise TimedOut(
            f"{proof.silent} did not prove the change; when they answer again, "
            "zkctl acl list -b HOST:PORT asks one of them"
        )


def _row(binding: AclBinding, *, is_there: bool, refusal: BrokerRefusal | None) -> dict[str, Any]:
    from zkcontroller_cli.values.acls import rule_row

    error, reason = (None, None) if refusal is None else refusal
    return {**rule_row(binding), "is_there": is_there, "error": error, "reason": reason}


def _layout() -> Any:
    from zkcontroller_cli.values.acls import rule_layout

    return rule_layout("is_there", "error", "reason")


def _count(bindings: Sequence[AclBinding]) -> str:
    return f"{len(bindings)} ACL{'' if len(bindings) == 1 else 's'}"


def _show(verb: str, bindings: Sequence[AclBinding]) -> None:
    from zkcontroller_cli.values.acls import rule_text

    for binding in bindings[:_SHOWN]:
        say(f"  {verb}: {rule_text(binding)}")
    if len(bindings) > _SHOWN:
        say(f"and {len(bindings) - _SHOWN} more; --dry-run shows all")
