"""The options every verb shares, and where their values come from.

``-z``, ``-b``, ``-o``, ``--dir``, ``--timeout`` and the others may stand before the verb or after
it (``zkctl -o json topic list`` is ``zkctl topic list -o json``); the one nearest to the verb
wins.  An address comes from its flag, else from the cluster file in a directory that ``--dir``
names on the command line, else from its environment variable.  Only where none of these names any
address, both come from the cluster file that ``zkctl cluster start`` left in the default directory:
an address that is named is never mixed with another cluster's.  Where a ZooKeeper is named
and no broker, the brokers are those registered there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from typing_extensions import override

from .errors import BadUsage, Refused

if TYPE_CHECKING:
    from ssl import SSLContext

    from zkcontroller.net.client_security import ClientSecurity

    from .cluster_file import ClusterFile
    from .render import Renderer

CommandT = TypeVar("CommandT", bound=click.Command)

FORMATS: Final = ("table", "json", "jsonl", "yaml", "csv", "name")
DEFAULT_DIRECTORY: Final = Path("zkctl-cluster")
DEFAULT_TIMEOUT_S: Final = 30.0
_ZOOKEEPER: Final = "ZKCTL_ZOOKEEPER"
_BOOTSTRAP: Final = "ZKCTL_BOOTSTRAP_SERVER"


class Origin(IntEnum):
    """Where an address was found, the strongest first."""

    FLAG = 0
    ENVIRONMENT = 1
    CLUSTER_FILE = 2


@dataclass(frozen=True, slots=True)
class Address:
    """A connect string or a list of bootstrap servers."""

    text: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """The bootstrap servers, and the security of connections to brokers."""

    servers: str
    """``host:port,host:port``."""
    security: ClientSecurity


@dataclass
class Settings:
    """The shared options of one command line; None where nothing was said."""

    zookeeper_flag: str | None = None
    bootstrap_flag: str | None = None
    command_config_flag: Path | None = None
    zk_tls_config_flag: Path | None = None
    output: str | None = None
    directory_flag: Path | None = None
    timeout_s: float | None = None
    debug: bool = False

    @property
    def directory(self) -> Path:
        """Where the local cluster is, or would be."""
        return self.directory_flag or Path(os.environ.get("ZKCTL_DIR") or DEFAULT_DIRECTORY)

    @property
    def deadline_s(self) -> float:
        """How long the verb may wait for what it caused, in seconds."""
        return DEFAULT_TIMEOUT_S if self.timeout_s is None else self.timeout_s

    @cached_property
    def cluster_file(self) -> ClusterFile | None:
        """The local cluster of :attr:`directory`; None if there is none."""
        from .cluster_file import ClusterFile

        return ClusterFile.load(self.directory)

    @cached_property
    def renderer(self) -> Renderer:
        """Writes the verb's result to stdout in the format asked for."""
        from .render import Format, Renderer

        return Renderer(Format(self.output or "table"), sys.stdout)

    def find_zookeeper(self) -> Address | None:
        """The ZooKeeper connect string, with its chroot if it has one."""
        file = self._file_of_addresses()
        recorded = None if file is None else file.zookeeper_connect
        return self._first(self.zookeeper_flag, _ZOOKEEPER, recorded)

    def find_bootstrap(self) -> Address | None:
        """``host:port,host:port`` of some brokers."""
        file = self._file_of_addresses()
        recorded = None if file is None else file.bootstrap_servers
        return self._first(self.bootstrap_flag, _BOOTSTRAP, recorded)

    def zookeeper(self) -> str:
        """The ZooKeeper connect string; BadUsage if it was not given."""
        address = self.find_zookeeper()
        if address is None and (brokers := self.find_bootstrap()) is not None:
            raise BadUsage(
                f"this needs the ZooKeeper of the brokers at {brokers.text}, and brokers do not "
                "name it: say -z HOST:PORT[/CHROOT] or set ZKCTL_ZOOKEEPER"
            )
        if address is None:
            raise BadUsage(
                "which ZooKeeper? Say -z HOST:PORT[/CHROOT], set ZKCTL_ZOOKEEPER, "
                "or --dir DIR of a local cluster"
            )
        return address.text

    @cached_property
    def security(self) -> ClientSecurity:
        """The security of connections to brokers; ConfigInvalid if its file is invalid."""
        from zkcontroller.net.client_security import PLAINTEXT

        path = self.command_config_flag or os.environ.get("ZKCTL_COMMAND_CONFIG")
        if not path:
            return PLAINTEXT
        from replica_manager.configuration.config import read_properties
        from replica_manager.security.client_properties import client_security_of

        return client_security_of(read_properties(Path(path), "--command-config"))

    @cached_property
    def zookeeper_tls(self) -> SSLContext | None:
        """TLS to ZooKeeper, None without it; ConfigInvalid if its file is invalid."""
        path = self.zk_tls_config_flag or os.environ.get("ZKCTL_ZK_TLS_CONFIG_FILE")
        if not path:
            return None
        from replica_manager.configuration.config import read_properties
        from replica_manager.security.zookeeper_tls import tls_of_file

        option = "--zk-tls-config-file"
        return tls_of_file(read_properties(Path(path), option), option)

    def bootstrap(self) -> Bootstrap:
        """Some brokers: those named, else those registered in the ZooKeeper that is named.

        BadUsage if neither was given.
        """
        address = self.find_bootstrap()
        if address is None and self.find_zookeeper() is not None:
            from .target import registered_brokers

            return self.servers(registered_brokers(self))
        if address is None:
            raise BadUsage(
                "which brokers? Say -b HOST:PORT, set ZKCTL_BOOTSTRAP_SERVER, "
                "or --dir DIR of a local cluster"
            )
        return self.servers(address.text)

    def servers(self, addresses: str) -> Bootstrap:
        """Those servers, with the same security as brokers."""
        return Bootstrap(addresses, self.security)

    def _file_of_addresses(self) -> ClusterFile | None:
        """The cluster file, unless an address of another cluster is named."""
        is_named = (
            self.zookeeper_flag
            or self.bootstrap_flag
            or os.environ.get(_ZOOKEEPER)
            or os.environ.get(_BOOTSTRAP)
        )
        return None if is_named and self.directory_flag is None else self.cluster_file

    def _first(self, flag: str | None, variable: str, recorded: str | None) -> Address | None:
        if flag:
            return Address(flag, Origin.FLAG)
        from_file = Address(recorded, Origin.CLUSTER_FILE) if recorded else None
        # --dir selects that cluster, whatever an old shell still exports.
        if from_file is not None and self.directory_flag is not None:
            return from_file
        if from_environment := os.environ.get(variable):
            return Address(from_environment, Origin.ENVIRONMENT)
        return from_file

    def can_be_asked(self, question: str, *, yes: bool) -> None:
        """Refused, before anything is looked up, without ``--yes`` and a terminal."""
        if not yes and not sys.stdin.isatty():
            raise Refused(f"{question} Not a terminal, so no one can be asked: say --yes")

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask before what cannot be undone; Refused without ``--yes`` and a terminal."""
        if yes:
            return
        self.can_be_asked(question, yes=yes)
        if not click.confirm(question, err=True):
            raise Refused("nothing was done")


def say(text: str) -> None:
    """Talk to the user: progress and explanations go to stderr, never among the data."""
    click.echo(text, err=True)


def _store(field: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def store(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
        if value == "":
            # An unset variable of a shell, most likely: another cluster must not take its place.
            raise click.BadParameter("is empty", ctx, parameter)
        if value is not None:
            setattr(ctx.ensure_object(Settings), field, value)

    return store


class SharedOption(click.Option):
    """An option that every verb takes; the help of ``zkctl`` alone explains it."""

    @override
    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        return super().get_help_record(ctx) if ctx.parent is None else None


def _shared() -> list[SharedOption]:
    return [
        SharedOption(
            ["-z", "--zookeeper"],
            metavar="HOST:PORT[,…][/CHROOT]",
            expose_value=False,
            callback=_store("zookeeper_flag"),
            help="ZooKeeper of the cluster  [env: ZKCTL_ZOOKEEPER]",
        ),
        SharedOption(
            ["--zk-tls-config-file"],
            type=click.Path(path_type=Path),
            metavar="FILE",
            expose_value=False,
            callback=_store("zk_tls_config_flag"),
            help="How to connect to ZooKeeper under TLS: zookeeper.ssl.* as Kafka's tools read them"
            "  [env: ZKCTL_ZK_TLS_CONFIG_FILE]",
        ),
        SharedOption(
            ["-b", "--bootstrap-server"],
            metavar="HOST:PORT[,…]",
            expose_value=False,
            callback=_store("bootstrap_flag"),
            help="Brokers to ask first  [env: ZKCTL_BOOTSTRAP_SERVER]",
        ),
        SharedOption(
            ["--command-config"],
            type=click.Path(path_type=Path),
            metavar="FILE",
            expose_value=False,
            callback=_store("command_config_flag"),
            help="How to connect to brokers, in Kafka's client properties: security.protocol, "
            "ssl.*, sasl.*  [env: ZKCTL_COMMAND_CONFIG]",
        ),
        SharedOption(
            ["-o", "--output"],
            type=click.Choice(FORMATS),
            expose_value=False,
            callback=_store("output"),
            help="Format of the result on stdout  [default: table]",
        ),
        SharedOption(
            ["--dir"],
            type=click.Path(path_type=Path, file_okay=False),
            expose_value=False,
            callback=_store("directory_flag"),
            help=f"Directory of the local cluster  [env: ZKCTL_DIR; default: {DEFAULT_DIRECTORY}]",
        ),
        SharedOption(
            ["--timeout"],
            type=click.FloatRange(min=0, min_open=True),
            metavar="SECONDS",
            expose_value=False,
            callback=_store("timeout_s"),
            help=f"Longest wait for what the verb causes  [default: {DEFAULT_TIMEOUT_S:g}]",
        ),
        SharedOption(
            ["--debug"],
            is_flag=True,
            default=None,
            expose_value=False,
            callback=_store("debug"),
            help="Show the traceback of an error, and the libraries' logs",
        ),
    ]


def shared_options(command: CommandT) -> CommandT:
    """Give a command, or a group, the options that every verb shares."""
    command.params.extend(_shared())
    command.epilog = command.epilog or GLOBAL_OPTIONS
    return command


def commands_first(group: click.Group, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """The part of a group's help that click writes the other way round."""
    group.format_commands(ctx, formatter)
    click.Command.format_options(group, ctx, formatter)


GLOBAL_OPTIONS: Final = "Global options (addresses, -o, --timeout, …): zkctl --help"


class Group(click.Group):
    """A group of verbs; it and its verbs take the shared options, -h and --help."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        shared_options(self)

    @override
    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands_first(self, ctx, formatter)

    @override
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Each verb with its whole first sentence: click would cut it off."""
        verbs = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [
            (name, " ".join((verb.help or "").split("\n\n")[0].split()))
            for name, verb in verbs
            if verb is not None and not verb.hidden
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    @override
    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        super().add_command(shared_options(cmd), name)


def settings() -> Settings:
    """The shared options of the command line being run."""
    found = click.get_current_context().find_object(Settings)
    assert found is not None, "main() passes one"
    return found
