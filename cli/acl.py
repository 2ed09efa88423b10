"""``zkctl acl``: who may do what, why, and how to change it.

:mod:`.acls.decisions` uses the authorizer of the brokers, so that zkctl and brokers always decide
the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from zkcontroller_cli.acls.changes import add, remove
from zkcontroller_cli.acls.options import (
    filter_options,
    filters_in,
    pattern_options,
    resource_options,
    resources_in,
    settings_options,
)
from zkcontroller_cli.console.errors import BadUsage, ExitCode
from zkcontroller_cli.console.options import VerbGroup, reads, say, settings
from zkcontroller_cli.console.render import Layout, Row, named
from zkcontroller_cli.console.tables import RowColour

if TYPE_CHECKING:
    from kafka_common.acls import ResourcePattern
    from zkcontroller_cli.acls.decisions import AclDecision, PrincipalRights, RuleBook

_DECISION_KEYS: Final = ("is_allowed", "because", "rule")
_WHO_KEYS: Final = (
    "resource_type",
    "resource",
    "pattern_type",
    "principal",
    "host",
    "operations",
    *_DECISION_KEYS,
)
_HOSTS_SHOWN: Final = 10
_API_KEYS: Final = (
    "api",
    "when",
    "operation",
    "resource_type",
    "resource",
    *_DECISION_KEYS,
    "alternatives",
    "commands",
)


@click.group("acl", cls=VerbGroup)
def command() -> None:
    """Who may do what, and why; add and remove the rules."""


for _verb in (add, remove):
    command.add_command(_verb)


@command.command("list")
@pattern_options
@filter_options
@click.option("--grouped", is_flag=True, help="One row for all operations of a principal.")
def list_(grouped: bool, **values: Any) -> None:
    """The ACLs of the resources named, or all: one row each.

    As brokers know them, or as they stand in ZooKeeper where only that is named.

    Examples:
      zkctl acl list
      zkctl acl list --topic orders --resource-pattern-type match
      zkctl acl list --principal User:alice --grouped
    """
    from zkcontroller_cli.acls.plan import filters_to_list
    from zkcontroller_cli.acls.reading import read_rules
    from zkcontroller_cli.values.acls import grouped_rows, rule_layout, rule_row

    wanted = filters_to_list(resources_in(values), filters_in(values))
    given = settings()
    bindings = read_rules(given, wanted)
    rows = grouped_rows(bindings) if grouped else list(map(rule_row, bindings))
    given.renderer.rows(rows, rule_layout(is_grouped=grouped))


@command.command("who")
@click.argument("resources", nargs=-1, metavar="[RESOURCE]…")
@resource_options
@click.option("--principal", metavar="TYPE:NAME", help="All that this principal may do.")
@click.option("--operation", "operations", multiple=True, metavar="OPERATION")
@settings_options
@reads
def who(
    resources: tuple[str, ...],
    principal: str | None,
    operations: tuple[str, ...],
    super_users: tuple[str, ...],
    allow_everyone: str | None,
    **values: Any,
) -> None:
    """Who may do what with RESOURCE, such as topic:orders; or what a --principal may do.

    Each row has the rule that decides. User:* stands for the principals that no rule names, and the
    host * for the hosts that no rule names. A principal without a row may do nothing.

    Examples:
      zkctl acl who topic:orders
      zkctl acl who --principal User:alice
    """
    from zkcontroller_cli.values.acls import check_operation, parse_operation, parse_user

    wanted = _resources(resources, values)
    if (principal is None) == (not wanted):
        raise BadUsage("say RESOURCE, such as topic:orders, or --principal TYPE:NAME")
    asked = tuple(map(parse_operation, operations))
    for resource in wanted:
        for operation in asked:
            check_operation(operation, resource.resource_type)
    user = None if principal is None else parse_user(principal, "--principal")
    given = settings()
    book = _book(super_users, allow_everyone)
    if user is not None:
        rights = book.rights_of(user, asked)
    else:
        rights = [each for one in wanted for each in book.who(one.resource_type, one.name, asked)]
    given.renderer.rows(
        [_who_row(each) for each in rights],
        Layout(_principal if user is None else _right_name, (), _WHO_KEYS, _colour),
    )


def _resources(texts: Sequence[str], values: dict[str, Any]) -> list[ResourcePattern]:
    """The resources that arguments and options name."""
    from zkcontroller_cli.values.acls import distinct_resources, parse_resource

    named_ones = [parse_resource(text) for text in texts]
    return distinct_resources([*named_ones, *resources_in(values).resources()])


def _book(super_users: tuple[str, ...], allow_everyone: str | None) -> RuleBook:
    """The ACLs of the cluster, with ``super.users`` and the setting for resources without ACLs."""
    from zkcontroller_cli.acls.decisions import RuleBook, cache_of
    from zkcontroller_cli.acls.reading import KnownSettings, read_rules, read_settings
    from zkcontroller_cli.values.acls import parse_user

    users = tuple(parse_user(each, "--super-user") for each in super_users)
    known = KnownSettings(
        users or None, None if allow_everyone is None else allow_everyone == "true"
    )
    given = settings()
    return RuleBook(cache_of(read_rules(given)), read_settings(given, known))


def _who_row(rights: PrincipalRights) -> dict[str, Any]:
    from zkcontroller_cli.values.acls import word

    resource = rights.resource
    return {
        "resource_type": None if resource is None else word(resource.resource_type),
        "resource": None if resource is None else resource.name,
        "pattern_type": None if resource is None else word(resource.pattern_type),
        "principal": str(rights.principal),
        "host": rights.host,
        "operations": [word(each) for each in rights.operations],
        **_decision_cells(rights.decision),
    }


def _decision_cells(decision: AclDecision) -> dict[str, Any]:
    from zkcontroller_cli.values.acls import rule_text

    return {
        "is_allowed": decision.is_allowed,
        "because": decision.because.value,
        "rule": None if decision.rule is None else rule_text(decision.rule),
    }


@command.command("explain")
@click.argument("resources", nargs=-1, metavar="[RESOURCE]")
@click.option("--principal", required=True, metavar="TYPE:NAME", help="Who wants to do it.")
@click.option(
    "--host", metavar="ADDRESS", help="The client's host.  [default: one that no rule names]"
)
@click.option("--operation", metavar="OPERATION", help="What it wants to do with RESOURCE.")
@click.option("--api", metavar="NAME", help="Every right that this request needs, such as Produce.")
@resource_options
@settings_options
@click.option("--check", is_flag=True, help="Exit with 1 unless it is allowed.")
@reads
def explain(
    resources: tuple[str, ...],
    principal: str,
    host: str | None,
    operation: str | None,
    api: str | None,
    super_users: tuple[str, ...],
    allow_everyone: str | None,
    check: bool,
    **values: Any,
) -> int:
    """Whether a principal may do something with RESOURCE, by which rule, and what would allow it.

    RESOURCE is such as topic:orders, group:billing or cluster. With --api it is a request: each row
    is a right that the broker checks.

    Examples:
      zkctl acl explain --principal User:alice --operation read topic:orders
      zkctl acl explain --principal User:alice --api Produce --topic orders
    """
    from zkcontroller_cli.acls.explanations import explain_api, explain_right, named_hosts
    from zkcontroller_cli.acls.needs import api_named, needs_of
    from zkcontroller_cli.values.acls import (
        check_operation,
        parse_host,
        parse_operation,
        parse_user,
    )

    if (operation is None) == (api is None):
        raise BadUsage("say --operation OPERATION, or --api NAME")
    user = parse_user(principal, "--principal")
    address = None if host is None else parse_host(host)
    wanted = _resources(resources, values)
    if api is not None:
        row = api_named(api)
        needs = needs_of(row, wanted)
        book = _book(super_users, allow_everyone)
        rows = explain_api(book, row.name, needs, user, address)
        settings().renderer.rows(rows, Layout(_need_name, _API_KEYS[1:-1], _API_KEYS, _colour))
        _say_outcome(row.name, rows)
        if address is None and (hosts := named_hosts(book, needs, user)):
            some = ", ".join(hosts[:_HOSTS_SHOWN])
            say(f"note: ACLs name hosts, from which it may be otherwise: say --host ({some})")
        return ExitCode.FINDING if check and _lacking(rows) else ExitCode.OK
    if len(wanted) != 1:
        raise BadUsage("say one RESOURCE, such as topic:orders")
    assert operation is not None, "checked above"
    asked = parse_operation(operation)
    check_operation(asked, wanted[0].resource_type)
    record = explain_right(_book(super_users, allow_everyone), user, address, asked, wanted[0])
    settings().renderer.record(record, named("resource"))
    return ExitCode.FINDING if check and not record["is_allowed"] else ExitCode.OK


def _colour(row: Row) -> RowColour:
    return RowColour.FINE if row["is_allowed"] else RowColour.WARNING


def _principal(row: Row) -> str:
    return str(row["principal"])


def _right_name(row: Row) -> str:
    """The resource of a right, or its principal if the right is one to everything."""
    from zkcontroller_cli.values.acls import resource_name

    return _principal(row) if row["resource"] is None else resource_name(row)


def _need_name(row: Row) -> str:
    return f"{row['operation']}:{row['resource_type']}:{row['resource']}"


def _lacking(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row["when"] is None and not row["is_allowed"]]


def _say_outcome(api: str, rows: Sequence[Row]) -> None:
    lacking = _lacking(rows)
    if not rows:
        say(f"{api} needs no right")
    elif not lacking:
        say(f"{api} is allowed")
    for row in lacking:
        what = f"{row['operation']} on {row['resource_type']} {row['resource']}"
        say(f"{api} lacks {what}; next: {' && '.join(row['commands'])}")
