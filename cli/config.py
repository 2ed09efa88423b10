"""``zkctl config``: configurations and log levels of topics and brokers, changed while they run."""

from __future__ import annotations

from typing import Any, Final

import click

from .errors import BadUsage
from .options import Group, settings
from .render import named

_SOURCES: Final = {
    0: "unknown",
    1: "topic",
    2: "dynamic_broker",
    3: "dynamic_default_broker",
    4: "static_broker",
    5: "default",
    6: "dynamic_broker_logger",
}
_TYPES: Final = (
    "unknown", "boolean", "string", "int", "short", "long", "double", "list", "class", "password",
)  # fmt: skip
_KEYS: Final = (
    "name",
    "value",
    "source",
    "type",
    "is_read_only",
    "is_sensitive",
    "synonyms",
    "documentation",
)
_LAYOUT: Final = named("name", "name", "value", "source", "is_read_only", keys=_KEYS)
_KINDS: Final = {"topic": 2, "broker": 4, "logger": 8}
_OPERATIONS: Final = ("set", "delete", "append", "subtract")

_kind = click.argument("kind", type=click.Choice(tuple(_KINDS)))
_name = click.argument("name", required=False, default="")


@click.group("config", cls=Group)
def command() -> None:
    """Read and change the configuration of topics and brokers."""


@command.command("describe")
@_kind
@_name
@click.option("--all", "is_all", is_flag=True, help="Also what has its default value.")
@click.option("--key", "keys", multiple=True, metavar="KEY", help="Only this key.")
def describe(kind: str, name: str, is_all: bool, keys: tuple[str, ...]) -> None:
    """The configuration of topic NAME, of broker NAME, or (broker without NAME) of all brokers.

    logger NAME: the levels of the loggers of broker NAME.

    synonyms are the places where a value stands, the one that counts first. A sensitive value is
    null.
    """
    from .wire import Deadline, run
    from .wire_admin import configs_of

    _check(kind, name)
    given = settings()
    configs = run(configs_of(given.bootstrap(), Deadline(given.deadline_s), _KINDS[kind], name))
    rows = sorted(map(_row, configs), key=lambda row: str(row["name"]))
    if keys:
        rows = [row for row in rows if row["name"] in keys]
    elif not is_all:
        rows = [row for row in rows if row["source"] != "default"]
    given.renderer.rows(rows, _LAYOUT)


@command.command("alter")
@_kind
@_name
@click.option("--set", "set_", multiple=True, metavar="KEY=VALUE", help="Give a key a value.")
@click.option("--delete", multiple=True, metavar="KEY", help="Back to what it is without it.")
@click.option("--append", multiple=True, metavar="KEY=VALUE,…", help="Add to a list.")
@click.option("--subtract", multiple=True, metavar="KEY=VALUE,…", help="Take out of a list.")
@click.option("--dry-run", is_flag=True, help="Have it checked, change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask before a change of all brokers.")
def alter(
    kind: str,
    name: str,
    set_: tuple[str, ...],
    delete: tuple[str, ...],
    append: tuple[str, ...],
    subtract: tuple[str, ...],
    dry_run: bool,
    yes: bool,
) -> None:
    """Change keys of topic NAME, of broker NAME, or (broker without NAME) of all brokers.

    logger NAME: levels of loggers of broker NAME, until it starts again.

    All changes of one command are made together, or none.
    """
    from .target import brokers_to_change
    from .wire import Deadline, run
    from .wire_admin import ConfigChange, change_configs

    _check(kind, name)
    given_for = dict(zip(_OPERATIONS, (set_, delete, append, subtract), strict=True))
    changes = [
        ConfigChange(*_key_and_value(operation, text))
        for operation, texts in given_for.items()
        for text in texts
    ]
    if not changes:
        raise BadUsage("change what? Say --set, --delete, --append or --subtract")
    given = settings()
    question = f"Change {', '.join(change.name for change in changes)} of all brokers?"
    asks = kind == "broker" and not name and not dry_run
    if asks:
        given.can_be_asked(question, yes=yes)
    bootstrap = brokers_to_change(given)
    if asks:
        given.confirm(question, yes=yes)
    run(
        change_configs(
            bootstrap,
            Deadline(given.deadline_s),
            _KINDS[kind],
            name,
            changes,
            is_dry_run=dry_run,
        )
    )
    given.renderer.rows(
        [
            {
                "name": change.name,
                "operation": _OPERATIONS[change.operation],
                "value": change.value,
                "is_dry_run": dry_run,
            }
            for change in changes
        ],
        named("name", keys=("name", "operation", "value", "is_dry_run")),
    )


def _check(kind: str, name: str) -> None:
    if kind == "topic" and not name:
        raise BadUsage("which topic? Say zkctl config … topic NAME")
    if kind == "logger" and not name:
        raise BadUsage("whose loggers? Say zkctl config … logger BROKER")
    if kind != "topic" and name and not name.isdecimal():
        raise BadUsage(f"{name!r} is not the id of a broker")


def _key_and_value(operation: str, text: str) -> tuple[str, int, str | None]:
    key, equals, value = text.partition("=")
    number = _OPERATIONS.index(operation)
    if operation == "delete":
        if equals or not key:
            raise BadUsage(f"--delete takes a KEY, not {text!r}")
        return key, number, None
    if not equals or not key:
        raise BadUsage(f"--{operation} takes KEY=VALUE, not {text!r}")
    return key, number, value


def _row(config: Any) -> dict[str, Any]:
    return {
        "name": config.name,
        "value": config.value,
        "source": _source(config.config_source),
        "type": _TYPES[config.config_type] if config.config_type < len(_TYPES) else "unknown",
        "is_read_only": config.read_only,
        "is_sensitive": config.is_sensitive,
        "synonyms": [
            {"name": each.name, "value": each.value, "source": _source(each.source)}
            for each in config.synonyms
        ],
        "documentation": config.documentation,
    }


def _source(number: int) -> str:
    return _SOURCES.get(int(number), "unknown")
