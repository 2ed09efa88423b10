"""``zkctl quota``: quotas of users, client ids and addresses, and which one is effective."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from zkcontroller_cli.configurations.changes import change_entities
from zkcontroller_cli.console.errors import BadUsage
from zkcontroller_cli.console.options import VerbGroup, say, settings
from zkcontroller_cli.console.render import Layout
from zkcontroller_cli.values.config_entities import CLIENT, DEFAULT_NAME, IP, USER, ConfigEntity
from zkcontroller_cli.values.config_plan import SET, operations_of

if TYPE_CHECKING:
    from zkcontroller_cli.values.quotas import HeldQuotas, QuotaMatch

_F = TypeVar("_F", bound=Callable[..., Any])

_ENTITY_KEYS: Final = ("user", "client_id", "ip")
_KEYS: Final = (
    *_ENTITY_KEYS,
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)
_EFFECTIVE_COLUMNS: Final = ("quota", "value", *_ENTITY_KEYS, "reason", "shared_by")
_EFFECTIVE: Final = Layout(
    lambda row: str(row["quota"]), _EFFECTIVE_COLUMNS, (*_EFFECTIVE_COLUMNS, "places")
)


def _name(row: Any) -> str:
    return ",".join(str(row[key]) for key in _ENTITY_KEYS if row[key] is not None)


_LIST: Final = Layout(_name, _KEYS, _KEYS)


def _entity_options(command: _F) -> _F:
    for kind, what in ((IP, "address"), (CLIENT, "client id"), (USER, "user")):
        command = click.option(
            f"--{kind}-defaults",
            f"{kind}_defaults",
            is_flag=True,
            help=f"The default of every {what} without a quota of its own.",
        )(command)
        command = click.option(
            f"--{kind}", f"{kind}s", multiple=True, metavar="NAME", help=f"This {what}."
        )(command)
    return command


def _names(given: dict[str, Any], kind: str) -> list[str]:
    return [*given[f"{kind}s"], *((DEFAULT_NAME,) if given[f"{kind}_defaults"] else ())]


def _entities(given: dict[str, Any]) -> list[ConfigEntity]:
    from zkcontroller_cli.values.quotas import quota_entities

    return quota_entities(*(_names(given, kind) for kind in (USER, CLIENT, IP)))


@click.group("quota", cls=VerbGroup)
def command() -> None:
    """Quotas of users, client ids and addresses: list, explain, set and unset them."""


@command.command("list")
@_entity_options
@click.option(
    "--any",
    "any_",
    multiple=True,
    type=click.Choice((USER, CLIENT, IP)),
    help="Only entities with this part, whatever its name.",
)
@click.option("--exact", is_flag=True, help="Only entities without any other part.")
def list_(any_: tuple[str, ...], exact: bool, **names: Any) -> None:
    """Entities with quotas: all, or those with the parts that are named.

    --user alice lists alice and her client ids, with --exact alice alone.

    Examples:
      zkctl quota list
      zkctl quota list --any client --exact
    """
    given = settings()
    found = _read(_matches(names, any_), is_exact=exact)
    given.renderer.rows([each.row() for each in found], _LIST)


def _matches(names: dict[str, Any], any_: Sequence[str]) -> list[QuotaMatch]:
    from zkcontroller_cli.values.quotas import QuotaMatch

    wanted = []
    for kind in (USER, CLIENT, IP):
        named: list[str | None] = [*_names(names, kind), *((None,) if kind in any_ else ())]
        if len(named) > 1:
            raise BadUsage(f"name one {kind} to list, or say --any {kind}")
        wanted += [QuotaMatch(kind, name) for name in named]
    if any(each.kind == IP for each in wanted) and len(wanted) > 1:
        raise BadUsage("an address has quotas of its own: leave users and client ids out")
    return wanted


def _read(wanted: Sequence[QuotaMatch] = (), *, is_exact: bool = False) -> list[HeldQuotas]:
    from zkcontroller_cli.configurations.reading import read_quotas
    from zkcontroller_cli.values.quotas import matching

    return matching(read_quotas(settings(), wanted, is_exact=is_exact), wanted, is_exact=is_exact)


@command.command("describe")
@_entity_options
@click.option(
    "--effective",
    nargs=2,
    metavar="USER CLIENT",
    help="Which quotas count for that user's client id, and why.",
)
def describe(effective: tuple[str, str] | None, **names: Any) -> None:
    """The quotas of the entities that are named; or which ones count for a client.

    --user with --client means that user's client id. With --effective, --ip names the address that
    the client comes from.

    Examples:
      zkctl quota describe --user alice
      zkctl quota describe --effective alice billing
    """
    from zkcontroller_cli.values.quotas import HeldQuotas, effective_for_address, effective_quotas

    given = settings()
    if effective is not None:
        if any(names[f"{kind}{end}"] for kind in (USER, CLIENT) for end in ("s", "_defaults")):
            raise BadUsage("--effective USER CLIENT says whose: leave --user and --client out")
        if names["ip_defaults"] or len(names["ips"]) > 1 or not all(effective):
            raise BadUsage("--effective takes a user, a client id, and at most one --ip")
        held = _read()
        rows = [each.row() for each in effective_quotas(held, *effective)]
        for address in names["ips"]:
            rows += [each.row() for each in effective_for_address(held, address)]
        given.renderer.rows(rows, _EFFECTIVE)
        return
    entities = _entities(names)
    quotas = {each.entity: each.quotas for each in _read()}
    for entity in entities:
        if entity not in quotas:
            say(
                f"{entity.text} has no quota of its own; zkctl quota describe --effective USER "
                "CLIENT says which one counts"
            )
    found = [HeldQuotas(each, quotas.get(each, {})) for each in entities]
    given.renderer.descriptions([each.row() for each in found], _LIST)


@command.command("set")
@click.argument("quotas", nargs=-1, required=True, metavar="KEY=VALUE…")
@_entity_options
@click.option("--dry-run", is_flag=True, help="Have it checked, show it, change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def set_(quotas: tuple[str, ...], dry_run: bool, yes: bool, **names: Any) -> None:
    """Set quotas of every entity that is named.

    KEY is producer_byte_rate, consumer_byte_rate (bytes a second, for each broker by itself),
    request_percentage, controller_mutation_rate (partitions a second), or for an address
    connection_creation_rate. --user with --client means that user's client id.

    Examples:
      zkctl quota set --user alice producer_byte_rate=1048576
      zkctl quota set --user alice --client-defaults request_percentage=50
    """
    entities = _entities(names)
    operations = operations_of({SET: quotas}, (), {})
    change_entities(entities[0].kind, entities, operations, is_dry_run=dry_run, yes=yes)


@command.command("unset")
@click.argument("keys", nargs=-1, required=True, metavar="KEY…")
@_entity_options
@click.option("--dry-run", is_flag=True, help="Have it checked, show it, change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def unset(keys: tuple[str, ...], dry_run: bool, yes: bool, **names: Any) -> None:
    """Remove quotas from every entity that is named; a less specific quota then counts.

    A quota that is not set there is no error.

    Examples:
      zkctl quota unset --user alice producer_byte_rate
    """
    entities = _entities(names)
    operations = operations_of({}, keys, {})
    change_entities(entities[0].kind, entities, operations, is_dry_run=dry_run, yes=yes)
