"""The shared options of a command line, and the addresses of the cluster that it is about.

An address comes from its flag, else from the cluster of ``--dir`` or ``--context``, else from its
environment variable.  If none of these names an address, both addresses come from one place: the
context of ``ZKCTL_CONTEXT``, the cluster file of ``ZKCTL_DIR``, the current context, or the cluster
file of the default directory, in this order.  The addresses of two clusters are never mixed: if a
flag replaces one address of a context, the context's other address is not used either.  If a
ZooKeeper is named and no broker, the brokers are those registered there.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

import click

from zkcontroller_cli.console.command_lines import command_line
from zkcontroller_cli.console.errors import BadUsage, Refused

if TYPE_CHECKING:
    from ssl import SSLContext

    from kafka_common.net.client_security import ClientSecurity
    from zkcontroller_cli.console.contexts import ClusterContext
    from zkcontroller_cli.console.render import Renderer
    from zkcontroller_cli.machine.cluster_file import ClusterFile

DEFAULT_DIRECTORY: Final = Path("zkctl-cluster")
DEFAULT_TIMEOUT_S: Final = 30.0
_ZOOKEEPER: Final = "ZKCTL_ZOOKEEPER"
_BOOTSTRAP: Final = "ZKCTL_BOOTSTRAP_SERVER"
_CONTEXT: Final = "ZKCTL_CONTEXT"
_DIRECTORY: Final = "ZKCTL_DIR"


class Origin(IntEnum):
    """Where an address was found; a smaller value is more explicit."""

    FLAG = 0
    ENVIRONMENT = 1
    CONTEXT = 2
    CLUSTER_FILE = 3


@dataclass(frozen=True, slots=True)
class Address:
    """A connect string or a list of bootstrap servers."""

    text: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class ContextChoice:
    """Which context is in use, and what selected it: ``--context``, a variable, or a file."""

    name: str
    source: str


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """The bootstrap servers, and the security of connections to brokers."""

    servers: str
    """The addresses, as ``host:port,host:port``."""
    security: ClientSecurity


@dataclass
class Settings:
    """The shared options of one command line; None for an option that is not given."""

    zookeeper_flag: str | None = None
    bootstrap_flag: str | None = None
    command_config_flag: Path | None = None
    zk_tls_config_flag: Path | None = None
    context_flag: str | None = None
    output: str | None = None
    directory_flag: Path | None = None
    timeout_s: float | None = None
    debug: bool = False
    watch_s: float | None = None
    """The seconds of ``--watch``, which only verbs that only read have."""
    other_address: str | None = None
    """An address in an option of the verb itself; then no context is used."""
    uses_contexts: bool = True
    """False for a verb that never uses a context."""
    only_reads: bool = False
    out: TextIO | None = None
    """Where results are written; None: stdout."""

    @property
    def directory(self) -> Path:
        """The directory of the local cluster, which may not exist yet."""
        return self.directory_flag or Path(os.environ.get(_DIRECTORY) or DEFAULT_DIRECTORY)

    @property
    def deadline_s(self) -> float:
        """Seconds that the verb may wait for responses and for the change that it makes."""
        if self.timeout_s is not None:
            return self.timeout_s
        from_context = None if self.context is None else self.context.timeout_s
        return DEFAULT_TIMEOUT_S if from_context is None else from_context

    @cached_property
    def cluster_file(self) -> ClusterFile | None:
        """The local cluster of :attr:`directory`; None if there is none."""
        from zkcontroller_cli.machine.cluster_file import ClusterFile

        return ClusterFile.load(self.directory)

    @cached_property
    def context(self) -> ClusterContext | None:
        """The context in use; None without one, Refused if it does not exist."""
        chosen = self.choose_context() if self.uses_contexts else None
        if chosen is None:
            return None
        from zkcontroller_cli.console.contexts import ContextFile, context_path

        return ContextFile.load(context_path()).named(chosen.name)

    def choose_context(self) -> ContextChoice | None:
        """The name of the context in use, None without one; BadUsage if two clusters are named."""
        if self.context_flag:
            if self.directory_flag:
                raise BadUsage(
                    f"--context {self.context_flag} and --dir {self.directory_flag} name two "
                    "clusters: say one of them"
                )
            return ContextChoice(self.context_flag, "--context")
        if self.directory_flag or self._is_address_flag_given:
            return None
        named = os.environ.get(_CONTEXT)
        variables = [each for each in (_ZOOKEEPER, _BOOTSTRAP) if os.environ.get(each)]
        if named and variables:
            raise BadUsage(
                f"{_CONTEXT}={named} and {variables[0]} name two clusters: unset one of them, or "
                "say --context NAME"
            )
        if variables:
            return None
        if named:
            return ContextChoice(named, _CONTEXT)
        if os.environ.get(_DIRECTORY) and self.cluster_file is not None:
            return None
        from zkcontroller_cli.console.contexts import ContextFile, context_path

        path = context_path()
        current = ContextFile.load(path).current
        return None if current is None else ContextChoice(current, str(path))

    def check_context(self) -> None:
        """BadUsage or Refused, before anything is done, if the context in use is not valid.

        BadUsage too if ``--context`` is given to a verb that never uses a context.
        """
        if not self.uses_contexts and self.context_flag:
            raise BadUsage(
                f"--context {self.context_flag}: this verb asks no cluster that a context names; "
                "leave it out, or say --dir DIR where it is about a local cluster"
            )
        if self.context is not None and self.context.output is not None:
            from zkcontroller_cli.console.render import parse_format

            parse_format(self.context.output)

    @property
    def context_hint(self) -> str:
        """``context NAME, `` for the line that names the target of a write; empty without one."""
        return "" if self.context is None else f"context {self.context.name}, "

    @property
    def format_text(self) -> str:
        """The value of ``-o``, else the format of the context, else ``table``."""
        from_context = None if self.context is None else self.context.output
        return self.output or from_context or "table"

    @cached_property
    def renderer(self) -> Renderer:
        """The renderer that writes the verb's result in the requested format."""
        from zkcontroller_cli.console.render import Renderer, parse_format

        chosen, template = parse_format(self.format_text)
        out = self.out or sys.stdout
        return Renderer(chosen, out, template, only_reads=self.only_reads)

    def find_zookeeper(self) -> Address | None:
        """The ZooKeeper connect string, with its chroot if it has one; None if none is named."""
        context, file = self.context, self._file_of_addresses()
        in_context = None if context is None else context.zookeeper
        in_file = None if file is None else file.zookeeper_connect
        return self._first(self.zookeeper_flag, _ZOOKEEPER, in_context, in_file)

    def find_bootstrap(self) -> Address | None:
        """Bootstrap servers as ``host:port,host:port``; None if none are named."""
        context, file = self.context, self._file_of_addresses()
        in_context = None if context is None else context.bootstrap_servers
        in_file = None if file is None else file.bootstrap_servers
        return self._first(self.bootstrap_flag, _BOOTSTRAP, in_context, in_file)

    def zookeeper(self) -> str:
        """The ZooKeeper connect string; BadUsage if none is named."""
        address = self.find_zookeeper()
        if address is None and (brokers := self.find_bootstrap()) is not None:
            raise BadUsage(
                f"this needs the ZooKeeper of the brokers at {brokers.text}, and brokers do not "
                "name it: say -z HOST:PORT[/CHROOT] or set ZKCTL_ZOOKEEPER; "
                "KRaft clusters have none"
            )
        if address is None:
            raise BadUsage(
                f"context {self.context.name} names no ZooKeeper: "
                f"{command_line('context set', self.context.name)} -z HOST:PORT[/CHROOT] adds it"
                if self.context is not None
                else "which ZooKeeper? Say -z HOST:PORT[/CHROOT], set ZKCTL_ZOOKEEPER, "
                "or --dir DIR of a local cluster, or --context NAME"
            )
        return address.text

    @cached_property
    def security(self) -> ClientSecurity:
        """The security of connections to brokers; ConfigInvalid if its file is invalid."""
        from kafka_common.net.client_security import PLAINTEXT

        in_context = None if self.context is None else self.context.command_config
        path = self._file_named(self.command_config_flag, "ZKCTL_COMMAND_CONFIG", in_context)
        if not path:
            return PLAINTEXT
        from replica_manager.configuration.config import read_properties
        from replica_manager.security.client_properties import client_security_of

        return client_security_of(read_properties(Path(path), "--command-config"))

    @cached_property
    def zookeeper_tls(self) -> SSLContext | None:
        """TLS to ZooKeeper, None without it; ConfigInvalid if its file is invalid."""
        path = self._zk_tls_config_file
        if not path:
            return None
        from replica_manager.configuration.config import read_properties
        from replica_manager.security.zookeeper_tls import tls_of_file

        option = "--zk-tls-config-file"
        return tls_of_file(read_properties(Path(path), option), option)

    @property
    def _zk_tls_config_file(self) -> Path | str | None:
        in_context = None if self.context is None else self.context.zk_tls_config
        return self._file_named(self.zk_tls_config_flag, "ZKCTL_ZK_TLS_CONFIG_FILE", in_context)

    @property
    def shows_zookeeper_certificate(self) -> bool:
        """Whether zkctl shows ZooKeeper a certificate, which then identifies it."""
        path = self._zk_tls_config_file
        if not path:
            return False
        from replica_manager.configuration.config import read_properties

        properties = read_properties(Path(path), "--zk-tls-config-file")
        return bool(properties.get("zookeeper.ssl.keystore.location"))

    @property
    def is_zookeeper_alone(self) -> bool:
        """Whether ZooKeeper is named, and brokers are not, or less explicitly (see Origin)."""
        zookeeper, brokers = self.find_zookeeper(), self.find_bootstrap()
        if zookeeper is None:
            return False
        return brokers is None or zookeeper.origin < brokers.origin

    def bootstrap(self) -> Bootstrap:
        """The named bootstrap servers, else the brokers registered in the named ZooKeeper.

        BadUsage if neither is named.
        """
        address = self.find_bootstrap()
        if address is None and self.find_zookeeper() is not None:
            from zkcontroller_cli.wire.target import registered_brokers

            return self.servers(registered_brokers(self))
        if address is None:
            raise BadUsage(
                f"context {self.context.name} names no brokers and no ZooKeeper: "
                f"{command_line('context set', self.context.name)} -b HOST:PORT adds them"
                if self.context is not None
                else "which brokers? Say -b HOST:PORT, set ZKCTL_BOOTSTRAP_SERVER, "
                "or --dir DIR of a local cluster, or --context NAME"
            )
        return self.servers(address.text)

    def servers(self, addresses: str) -> Bootstrap:
        """These addresses with the security of connections to brokers."""
        return Bootstrap(addresses, self.security)

    @property
    def _is_address_flag_given(self) -> bool:
        return bool(self.zookeeper_flag or self.bootstrap_flag or self.other_address)

    def _file_of_addresses(self) -> ClusterFile | None:
        """The cluster file, unless a cluster is named in another way."""
        if self.directory_flag is not None:
            return self.cluster_file
        is_named = (
            self._is_address_flag_given
            or os.environ.get(_ZOOKEEPER)
            or os.environ.get(_BOOTSTRAP)
            or self.context is not None
        )
        return None if is_named else self.cluster_file

    def _first(
        self, flag: str | None, variable: str, in_context: str | None, in_file: str | None
    ) -> Address | None:
        if flag:
            return Address(flag, Origin.FLAG)
        if self.context is not None:
            # If a flag names one address, the context's other address may be of another cluster.
            is_left_out = self._is_address_flag_given or not in_context
            return None if is_left_out else Address(in_context or "", Origin.CONTEXT)
        from_file = Address(in_file, Origin.CLUSTER_FILE) if in_file else None
        # --dir selects that cluster, also if an environment variable names another one.
        if from_file is not None and self.directory_flag is not None:
            return from_file
        if from_environment := os.environ.get(variable):
            return Address(from_environment, Origin.ENVIRONMENT)
        return from_file

    def _file_named(
        self, flag: Path | None, variable: str, in_context: str | None
    ) -> Path | str | None:
        """The path of the file that says how to connect; None without one.

        It comes from the flag, the context of ``--context``, the variable, or another context.
        """
        if flag or (self.context_flag and in_context):
            return flag or in_context
        return os.environ.get(variable) or in_context

    def can_be_asked(self, question: str, *, yes: bool) -> None:
        """Refused if the question cannot be asked: there is no ``--yes``, and no terminal."""
        if not yes and not sys.stdin.isatty():
            raise Refused(f"{question} Not a terminal, so no one can be asked: say --yes")

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask before a change; Refused if the user says no or cannot be asked."""
        if yes:
            return
        self.can_be_asked(question, yes=yes)
        if not click.confirm(question, err=True):
            raise Refused("nothing was done")


def say(text: str) -> None:
    """Write progress and explanations for the user to stderr, so that stdout has only results.

    They are lost if stderr cannot be written, as of a terminal that is closed: the verb goes on.
    """
    with suppress(OSError):
        click.echo(text, err=True)
