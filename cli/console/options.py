"""The options every verb shares, and what every verb and group has in common.

``-z``, ``-b``, ``-o``, ``--context``, ``--dir``, ``--timeout`` and the others may stand before the
verb or after it: ``zkctl -o json topic list`` is ``zkctl topic list -o json``.  If one is given
several times, the last one counts.  :mod:`.shared_settings` says where values come from otherwise.

Every command of a :class:`VerbGroup` becomes a verb.  It then has the shared options, and the
*Examples:* of its docstring stand at the end of its help.  If its name or :func:`reads` marks it as
only reading, it also has ``--watch``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from typing_extensions import override

from zkcontroller_cli.console.examples import split_examples
from zkcontroller_cli.console.shared_settings import (
    DEFAULT_DIRECTORY,
    DEFAULT_TIMEOUT_S,
    Address,
    Bootstrap,
    Origin,
    Settings,
    say,
)

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from zkcontroller_cli.machine.cluster_file import ClusterFile

__all__ = [
    "Address",
    "Bootstrap",
    "Origin",
    "OutputFormat",
    "Settings",
    "VerbGroup",
    "commands_first",
    "names_cluster",
    "reads",
    "say",
    "settings",
    "shared_group",
    "shared_options",
    "without_contexts",
]

CommandT = TypeVar("CommandT", bound=click.Command)
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

FORMATS: Final = ("table", "wide", "json", "jsonl", "yaml", "csv", "name")
GLOBAL_OPTIONS: Final = "Global options (addresses, -o, --timeout, …): zkctl --help"
_READING_NAMES: Final = frozenset({"describe", "list", "show", "status"})
"""A verb with one of these names only reads, unless it has an option such as ``--yes``."""
_READS: Final = "zkctl_reads"
_WITHOUT_CONTEXTS: Final = "zkctl_without_contexts"
_WATCH_S: Final = 2.0
_LEAST_WATCH_S: Final = 0.1
_MOST_WATCH_S: Final = 86_400.0


def _store(field: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def store(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
        if value == "":
            # An empty value is most likely that of an unset shell variable.  If it were ignored,
            # the command would silently use another cluster.
            raise click.BadParameter("is empty", ctx, parameter)
        if value is not None:
            setattr(ctx.ensure_object(Settings), field, value)

    return store


class SharedOption(click.Option):
    """An option that every verb has; only the help of ``zkctl`` itself shows it."""

    @override
    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        return super().get_help_record(ctx) if ctx.parent is None else None


class OutputFormat(click.types.StringParamType):
    """The type of a value of ``-o``: a word, or ``template=…``."""

    name = "format"

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        if text in FORMATS or not text:
            return text
        if not text.startswith("template="):
            self.fail(f"{text!r} is not one of {', '.join(FORMATS)}, template=…", param, ctx)
        from zkcontroller_cli.console.errors import BadUsage
        from zkcontroller_cli.console.templates import PREFIX, Template

        try:
            Template(text.removeprefix(PREFIX))
        except BadUsage as error:
            self.fail(str(error), param, ctx)
        return text

    @override
    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(each) for each in FORMATS if each.startswith(incomplete)]


class WatchSeconds(click.types.FloatParamType):
    """The type of the value of ``--watch``: seconds between two runs."""

    name = "seconds"

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            seconds = float(value)
        except ValueError:
            self.fail(
                f"{value!r} is no number of seconds: before another argument say "
                f"--watch={_WATCH_S:g} {value}",
                param,
                ctx,
            )
        if not _LEAST_WATCH_S <= seconds <= _MOST_WATCH_S:
            least, most = f"{_LEAST_WATCH_S:g}", f"{_MOST_WATCH_S:g}"
            self.fail(f"{value} is not between {least} and {most} seconds", param, ctx)
        return seconds


def _complete_contexts(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from zkcontroller_cli.console.completion_values import complete_contexts

    return complete_contexts(ctx, parameter, incomplete)


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
            ["--context"],
            metavar="NAME",
            expose_value=False,
            callback=_store("context_flag"),
            shell_complete=_complete_contexts,
            help="A cluster by name, see zkctl context  [env: ZKCTL_CONTEXT; default: the current "
            "context]",
        ),
        SharedOption(
            ["-o", "--output"],
            type=OutputFormat(),
            metavar="FORMAT",
            expose_value=False,
            callback=_store("output"),
            help=f"Format of the result on stdout: {', '.join(FORMATS)}, or "
            "template='{topic}-{partition}'  [default: table]",
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


def _watch_option() -> click.Option:
    return click.Option(
        ["--watch"],
        is_flag=False,
        flag_value=f"{_WATCH_S:g}",
        type=WatchSeconds(),
        metavar="[SECONDS]",
        expose_value=False,
        callback=_store("watch_s"),
        help=f"Repeat every SECONDS (default {_WATCH_S:g}), until Ctrl-C.",
    )


def reads(function: FunctionT) -> FunctionT:
    """Mark the function of a verb that only reads and ends by itself, so that it has --watch."""
    setattr(function, _READS, True)
    return function


def without_contexts(function: FunctionT) -> FunctionT:
    """Mark the function of a verb that never uses a context."""
    setattr(function, _WITHOUT_CONTEXTS, True)
    return function


def names_cluster(ctx: click.Context, _parameter: click.Parameter, value: str) -> str:
    """The callback of a verb's own option that names a cluster, so that no context is used."""
    ctx.ensure_object(Settings).other_address = value
    return value


class Verb(click.Command):
    """A command with the shared options, examples in its help, and perhaps ``--watch``."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.help, self.examples = split_examples(self.help)
        options = {option for parameter in self.params for option in parameter.opts}
        self.only_reads = getattr(self.callback, _READS, False) or (
            self.name in _READING_NAMES and not options & {"--yes", "--dry-run", "--detach"}
        )
        if self.only_reads and "--watch" not in options:
            self.params.append(_watch_option())
        self.params.extend(_shared())

    @classmethod
    def of(cls, command: click.Command) -> Verb:
        """Make a verb from a plain click command."""
        return cls(
            command.name,
            callback=command.callback,
            params=list(command.params),
            help=command.help,
            epilog=command.epilog,
            short_help=command.short_help,
            hidden=command.hidden,
            deprecated=command.deprecated,
            context_settings=command.context_settings,
            no_args_is_help=command.no_args_is_help,
        )

    @override
    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        if extra.get("resilient_parsing"):  # a shell completes a command line
            from zkcontroller_cli.console.completion_values import offer_values

            offer_values(self)
        return super().make_context(info_name, args, parent, **extra)

    @override
    def invoke(self, ctx: click.Context) -> Any:
        given = ctx.ensure_object(Settings)
        given.only_reads = self.only_reads
        group = None if ctx.parent is None else ctx.parent.command
        given.uses_contexts = getattr(group, "uses_contexts", True) and not getattr(
            self.callback, _WITHOUT_CONTEXTS, False
        )
        given.check_context()
        if given.watch_s is None:
            return super().invoke(ctx)
        from zkcontroller_cli.console.watching import watch

        run_once = super().invoke
        return watch(lambda: run_once(ctx), given, ctx.command_path, given.watch_s)

    @override
    def get_short_help_str(self, limit: int = 45) -> str:
        return first_sentence(self)

    @override
    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Examples"):
            for line in self.examples:
                indented = line.replace("\n", f"\n{'':>{formatter.current_indent}}")
                formatter.write(f"{'':>{formatter.current_indent}}{indented}\n")
        self.epilog = self.epilog or GLOBAL_OPTIONS
        super().format_epilog(ctx, formatter)


def shared_options(command: click.Command) -> Verb:
    """Make a plain command, such as ``zkctl top``, a verb."""
    return Verb.of(command)


def shared_group(group: CommandT) -> CommandT:
    """Give a group the options that every verb shares."""
    group.params.extend(_shared())
    group.epilog = group.epilog or GLOBAL_OPTIONS
    return group


def commands_first(group: click.Group, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """Write a group's verbs before its options; click would write the options first."""
    group.format_commands(ctx, formatter)
    click.Command.format_options(group, ctx, formatter)


def first_sentence(command: click.Command) -> str:
    """The first paragraph of a command's help, for a list of commands; click would shorten it."""
    return " ".join((command.help or "").split("\n\n")[0].split())


class VerbGroup(click.Group):
    """A group of verbs; it and its verbs take the shared options, -h and --help."""

    def __init__(self, *args: Any, uses_contexts: bool = True, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.uses_contexts = uses_contexts
        """False if no verb of the group uses a context."""
        shared_group(self)

    @override
    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands_first(self, ctx, formatter)

    @override
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each verb with the whole first paragraph of its help."""
        verbs = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [
            (name, first_sentence(verb))
            for name, verb in verbs
            if verb is not None and not verb.hidden
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    @override
    def get_short_help_str(self, limit: int = 45) -> str:
        return first_sentence(self)

    @override
    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        if type(cmd) is click.Command:
            cmd = Verb.of(cmd)
        elif not isinstance(cmd, Verb | VerbGroup):
            shared_group(cmd)
        super().add_command(cmd, name)


def settings() -> Settings:
    """The shared options of the command line being run."""
    found = click.get_current_context().find_object(Settings)
    assert found is not None, "main() passes one"
    return found


def parse_overrides(
    _ctx: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    """Options of the form ``k=v`` as a mapping; of equal keys the last one counts."""
    pairs = {}
    for value in values:
        key, equals, text = value.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{value!r} is not KEY=VALUE")
        pairs[key.strip()] = text.strip()
    return pairs


def require_metrics_port(port: int | None, given: Mapping[str, object]) -> None:
    """BadUsage if ``given`` has an option about metrics although ``port`` is None."""
    from zkcontroller_cli.console.errors import BadUsage

    for option, value in given.items():
        if port is None and value:
            raise BadUsage(f"{option} needs --metrics-port PORT: without it no metrics are served")


def existing_cluster(given: Settings) -> ClusterFile:
    """The cluster in ``--dir``; Refused if there is none."""
    from zkcontroller_cli.console.errors import Refused
    from zkcontroller_cli.machine.cluster_file import ClusterFile

    cluster = ClusterFile.load(given.directory)
    if cluster is None:
        raise Refused(f"there is no cluster in {given.directory}: zkctl cluster start makes one")
    return cluster
