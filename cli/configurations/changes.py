"""``zkctl config set`` and ``unset``: keys of topics, brokers, loggers, users, client ids, IPs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from zkcontroller_cli.configurations.reading import named_entities
from zkcontroller_cli.console.errors import BadUsage, Refused
from zkcontroller_cli.console.options import Settings, say, settings
from zkcontroller_cli.values.config_entities import BROKER, IP, KINDS, QUOTA_KINDS, ConfigEntity
from zkcontroller_cli.values.config_plan import APPEND, SET, SUBTRACT, KeyOperation, operations_of

_F = TypeVar("_F", bound=Callable[..., Any])

kind_argument = click.argument("kind", type=click.Choice(KINDS))
names_argument = click.argument("names", nargs=-1, metavar="[NAME]…")
default_option = click.option(
    "--default", "is_default", is_flag=True, help="The entity for all others: <default>."
)
client_option = click.option(
    "--client", "clients", multiple=True, metavar="ID", help="This client id of each user NAME."
)
_SECRET_HINT: Final = "zkctl user set and zkctl user delete change credentials"


def _change_options(command: _F) -> _F:
    for option in (
        click.option("--yes", is_flag=True, help="Do not ask."),
        click.option("--dry-run", is_flag=True, help="Have it checked, show it, change nothing."),
        click.option(
            "--password-encoder-file",
            type=click.Path(path_type=Path, dir_okay=False),
            help="password.encoder.* of a stopped broker, to store its passwords.  [with -z alone]",
        ),
        client_option,
        default_option,
        names_argument,
        kind_argument,
    ):
        command = option(command)
    return command


@click.command("set")
@_change_options
@click.option("--config", "configs", multiple=True, metavar="KEY=VALUE", help="Give a key a value.")
@click.option("--append", multiple=True, metavar="KEY=VALUE,…", help="Add to a list.")
@click.option("--subtract", multiple=True, metavar="KEY=VALUE,…", help="Take out of a list.")
@click.option("--unset", "unset_", multiple=True, metavar="KEY", help="Remove a key.")
@click.option(
    "--from-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Keys and values in properties: the way for passwords.",
)
@click.option("--allow-unknown", is_flag=True, help="Also keys that no broker knows.  [broker]")
def set_(
    kind: str,
    names: tuple[str, ...],
    is_default: bool,
    clients: tuple[str, ...],
    configs: tuple[str, ...],
    append: tuple[str, ...],
    subtract: tuple[str, ...],
    unset_: tuple[str, ...],
    from_file: Path | None,
    allow_unknown: bool,
    password_encoder_file: Path | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Give keys of every NAME of that KIND a value.

    logger NAME: levels of loggers of broker NAME, until it starts again. user, client and ip have
    quotas.

    All changes of an entity are made together, or none. If one change of the command cannot be
    made, nothing is sent.

    Examples:
      zkctl config set topic orders --config retention.ms=86400000
      zkctl config set topic orders --append cleanup.policy=compact --dry-run
      zkctl config set logger 1 --config kafka.controller=DEBUG
    """
    file: dict[str, str] = {}
    if from_file is not None:
        from replica_manager.configuration.config import read_properties

        file = read_properties(from_file, "--from-file")
    operations = operations_of({SET: configs, APPEND: append, SUBTRACT: subtract}, unset_, file)
    if not operations:
        raise BadUsage("change what? Say --config, --append, --subtract, --unset or --from-file")
    if allow_unknown and kind != BROKER:
        raise BadUsage("--allow-unknown is for brokers: other kinds refuse unknown keys")
    change_entities(
        kind,
        named_entities(kind, names, clients, is_default=is_default) or [],
        operations,
        is_dry_run=dry_run,
        yes=yes,
        is_unknown_allowed=allow_unknown,
        encoder_file=password_encoder_file,
    )


@click.command("unset")
@_change_options
@click.option("--key", "keys", multiple=True, metavar="KEY", help="Remove this key.")
def unset(
    kind: str,
    names: tuple[str, ...],
    is_default: bool,
    clients: tuple[str, ...],
    keys: tuple[str, ...],
    password_encoder_file: Path | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Remove keys from every NAME of that KIND; the inherited values then apply.

    A key that is not set there is no error.

    Examples:
      zkctl config unset topic orders --key retention.ms
      zkctl config unset broker --default --key log.retention.ms --dry-run
    """
    operations = operations_of({}, keys, {})
    if not operations:
        raise BadUsage("take what away? Say --key KEY")
    change_entities(
        kind,
        named_entities(kind, names, clients, is_default=is_default) or [],
        operations,
        is_dry_run=dry_run,
        yes=yes,
        encoder_file=password_encoder_file,
    )


def change_entities(
    kind: str,
    entities: Sequence[ConfigEntity],
    operations: Sequence[KeyOperation],
    *,
    is_dry_run: bool,
    yes: bool,
    is_unknown_allowed: bool = False,
    encoder_file: Path | None = None,
) -> None:
    """Change keys of entities of one kind: by brokers, or in ZooKeeper for stopped brokers."""
    from zkcontroller_cli.configurations.changing import (
        QuotaStore,
        WireConfigStore,
        carry_out,
        question_for,
    )

    given = settings()
    if kind in QUOTA_KINDS:
        operations = _quotas(entities[0], operations)
        _say_host_names(entities)
    if not is_dry_run:
        given.can_be_asked(question_for(entities, operations), yes=yes)
    if kind == BROKER and _change_stopped(
        given,
        entities,
        operations,
        encoder_file,
        is_unknown_allowed,
        is_dry_run=is_dry_run,
        yes=yes,
    ):
        return
    if encoder_file is not None:
        raise BadUsage(
            "--password-encoder-file is for stopped brokers, with -z alone: a running broker "
            "encrypts passwords itself"
        )
    from zkcontroller_cli.wire.target import brokers_to_change

    bootstrap = brokers_to_change(given)
    store = (
        QuotaStore(bootstrap, given.deadline_s)
        if kind in QUOTA_KINDS
        else WireConfigStore(bootstrap, given.deadline_s, kind)
    )
    carry_out(
        given,
        store,
        entities,
        operations,
        is_dry_run=is_dry_run,
        yes=yes,
        is_unknown_allowed=is_unknown_allowed,
    )


def _say_host_names(entities: Sequence[ConfigEntity]) -> None:
    """Say which quotas of host names have no effect at our brokers; Kafka's look names up."""
    from kafka_common.sanitizer import is_ip_address

    for each in entities:
        if each.kind == IP and not each.is_default and not is_ip_address(each.name):
            say(
                f"note: {each.name} is no IP address: brokers of this project look no name up, so "
                "this quota has no effect at them; those of Kafka do"
            )


def _change_stopped(
    given: Settings,
    entities: Sequence[ConfigEntity],
    operations: Sequence[KeyOperation],
    encoder_file: Path | None,
    is_unknown_allowed: bool,
    *,
    is_dry_run: bool,
    yes: bool,
) -> bool:
    """Change stopped brokers in ZooKeeper, if only ZooKeeper is named; returns whether it did.

    False if brokers are named or running.
    """
    if not given.is_zookeeper_alone:
        return False
    from zkcontroller_cli.configurations.changing import carry_out
    from zkcontroller_cli.configurations.stopped_brokers import StoppedBrokerStore, are_stopped
    from zkcontroller_cli.wire.target import name_zookeeper_to_change
    from zkcontroller_cli.znodes.session import open_zookeeper

    with open_zookeeper(given) as zookeeper:
        if not are_stopped(zookeeper, entities):
            stopped = [each.text for each in entities if are_stopped(zookeeper, [each])]
            if stopped and not all(each.is_default for each in entities):
                raise Refused(
                    f"{', '.join(stopped)} is stopped and others run: change them in two commands"
                )
            return False
        name_zookeeper_to_change(given, zookeeper)
        carry_out(
            given,
            StoppedBrokerStore(given, zookeeper, encoder_file),
            entities,
            operations,
            is_dry_run=is_dry_run,
            yes=yes,
            is_unknown_allowed=is_unknown_allowed,
        )
    return True


def _quotas(entity: ConfigEntity, operations: Sequence[KeyOperation]) -> list[KeyOperation]:
    """The changes with parsed quota values; BadUsage if one is not a change of a quota."""
    from kafka_common.protocol.scram import MECHANISMS
    from zkcontroller_cli.values.quotas import quota_operations

    for each in operations:
        if each.name in MECHANISMS:
            raise BadUsage(f"{each.name} is a credential: {_SECRET_HINT}")
        if each.operation in (APPEND, SUBTRACT):
            raise BadUsage(f"{each.name} is no list: say --config")
    return quota_operations(entity, operations)
