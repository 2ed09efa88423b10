"""Options that several verbs of ``zkctl acl`` share; resources are named as in ``kafka-acls``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from zkcontroller_cli.acls.plan import FilterOptions, ResourceOptions

F = TypeVar("F", bound=Callable[..., Any])

_RESOURCES: Final = (
    click.option("--topic", "topics", multiple=True, metavar="NAME", help="A topic; * is every."),
    click.option("--group", "groups", multiple=True, metavar="NAME", help="A consumer group."),
    click.option("--cluster", "is_cluster", is_flag=True, help="The cluster."),
    click.option("--transactional-id", "transactional_ids", multiple=True, metavar="ID"),
    click.option("--delegation-token", "delegation_tokens", multiple=True, metavar="ID"),
    click.option(
        "--user-principal",
        "user_principals",
        multiple=True,
        metavar="TYPE:NAME",
        help="A user: who may describe or create that user's tokens.  [needs Kafka 3.3]",
    ),
)
_PATTERN_TYPE: Final = click.option(
    "--resource-pattern-type",
    type=click.Choice(("literal", "prefixed", "any", "match"), case_sensitive=False),
    help="any: both kinds with this very name. match: all that apply to a resource of this name.",
)
_FILTERS: Final = (
    click.option(
        "--principal",
        "principals",
        multiple=True,
        metavar="TYPE:NAME",
        help="Only ACLs of this principal.",
    ),
    click.option(
        "--host", "hosts", multiple=True, metavar="ADDRESS", help="Only ACLs for this host."
    ),
    click.option("--operation", "operations", multiple=True, metavar="OPERATION"),
    click.option(
        "--permission",
        type=click.Choice(("allow", "deny"), case_sensitive=False),
        help="Only those that allow, or deny.",
    ),
)
_SETTINGS: Final = (
    click.option(
        "--super-user",
        "super_users",
        multiple=True,
        metavar="TYPE:NAME",
        help="One of super.users, where brokers hide them.",
    ),
    click.option(
        "--allow-everyone",
        type=click.Choice(("true", "false")),
        help="allow.everyone.if.no.acl.found, where brokers hide it.",
    ),
)
dry_run: Final = click.option("--dry-run", is_flag=True, help="Show what would be done.")
yes: Final = click.option("--yes", is_flag=True, help="Do not ask.")


def _with(*options: Callable[[F], F]) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


resource_options: Final = _with(*_RESOURCES)
pattern_options: Final = _with(*_RESOURCES, _PATTERN_TYPE)
filter_options: Final = _with(*_FILTERS)
settings_options: Final = _with(*_SETTINGS)


def resources_in(values: Mapping[str, Any]) -> ResourceOptions:
    """The options that name resources, out of a verb's arguments."""
    from zkcontroller_cli.acls.plan import ResourceOptions

    return ResourceOptions(
        topics=values["topics"],
        groups=values["groups"],
        is_cluster=values["is_cluster"],
        transactional_ids=values["transactional_ids"],
        delegation_tokens=values["delegation_tokens"],
        user_principals=values["user_principals"],
        resource_pattern_type=values.get("resource_pattern_type"),
    )


def filters_in(values: Mapping[str, Any]) -> FilterOptions:
    """The options that filter ACLs, out of a verb's arguments."""
    from zkcontroller_cli.acls.plan import FilterOptions

    return FilterOptions(
        principals=values["principals"],
        hosts=values["hosts"],
        operations=values["operations"],
        permission=values["permission"],
    )
