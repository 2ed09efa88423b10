"""The entry point of ``zkctl``: finds the verb, and turns its result or error into an exit code.

No slow module is imported before a verb runs, so that ``zkctl --help`` is fast.  Groups are
imported by name when they are called, and kazoo, rich, kio and asyncio inside the functions that
need them.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Final

import click
from typing_extensions import override

from zkcontroller_cli.console.command_lines import command_line
from zkcontroller_cli.console.errors import (
    ExitCode,
    OutputLost,
    ReaderGone,
    TimedOut,
    exit_code_of,
    sentence_of,
)
from zkcontroller_cli.console.options import Settings, commands_first, shared_group

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_COMPLETION: Final = "_ZKCTL_COMPLETE"
"""The environment variable that the scripts of :mod:`.console.completion_shells` set."""

_GROUPS: Final = {
    "acl": "Who may do what, and why; add and remove the rules.",
    "broker": "Start a broker; list, describe, drain and stop brokers.",
    "check": "How fast a cluster answers, against limits.",
    "cluster": "Run a whole cluster on this machine: ZooKeeper and brokers.",
    "completion": "The script that completes zkctl in bash, zsh and fish.",
    "config": "Read, change and compare configurations.",
    "context": "Clusters by name: their addresses and how to connect.",
    "controller": "Show, elect and watch the controller.",
    "deletion": "Deletions of topics that do not end: why, and the safe act.",
    "demo": "A cluster loses its controller, then a broker: watch it.",
    "doctor": "What is wrong, where it stands, and the next safe step.",
    "group": "What groups read and commit; reset and delete their offsets.",
    "history": "What happened, out of the logs of all brokers.",
    "lab": "Watch the controller decide, step by step, on a page.",
    "log-dirs": "What is in log directories; move replicas between them.",
    "metadata": "Whether every broker knows what ZooKeeper holds.",
    "migration": "Whether the cluster can move to KRaft, and what to do first.",
    "metrics": "What a broker measures of itself: numbers, and what they mean.",
    "partition": "Who leads, who is in sync; elect leaders.",
    "quorum": "Run a node of a raft quorum; describe one; read its log.",
    "quota": "Quotas of users, client ids and addresses; which one counts.",
    "reassign": "Move replicas between brokers: plan, start, watch, verify.",
    "serve": "Real clusters for tests in any language, by HTTP.",
    "snapshot": "The metadata in one file, and what changed between two.",
    "storage": "Format and describe the log directories of a KRaft node.",
    "token": "Delegation tokens: create, list, renew and expire them.",
    "top": "The cluster on one screen, and what happens in it.",
    "topic": "Create, describe, grow and delete topics; offsets, records.",
    "txn": "Transactions: list, describe, find those that hang, abort them.",
    "user": "SCRAM credentials of users.",
    "wait": "Wait until partitions, brokers, the controller are as wanted.",
    "znode": "Read what ZooKeeper holds, decoded.",
}


class LazyGroup(click.Group):
    """A group whose members are modules of this package, imported when they are called."""

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_GROUPS)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _GROUPS:
            return None
        module = cmd_name.replace("-", "_")
        command: click.Command = import_module(f".{module}", __package__).command
        return command

    @override
    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        # Do not call get_command, which would import every group for its help text.
        groups = [
            CompletionItem(name, help=text)
            for name, text in _GROUPS.items()
            if name.startswith(incomplete)
        ]
        return [*groups, *click.Command.shell_complete(self, ctx, incomplete)]

    @override
    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands_first(self, ctx, formatter)

    @override
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_GROUPS.items()))


def _show_version(ctx: click.Context, _parameter: click.Parameter, is_asked: bool) -> None:
    if is_asked and not ctx.resilient_parsing:
        click.echo(f"zkctl, version {_installed_version()}")
        ctx.exit()


def _installed_version() -> str:
    """The installed version, from the name of the ``.dist-info`` folder.

    ``importlib.metadata`` would find it too, but doubles the time of ``zkctl --version``.
    """
    for folder in filter(os.path.isdir, sys.path):
        for name in os.listdir(folder):
            if name.startswith("zkcontroller-") and name.endswith(".dist-info"):
                return name.removeprefix("zkcontroller-").removesuffix(".dist-info")
    from importlib.metadata import version

    return version("zkcontroller")


@shared_group
@click.group(
    "zkctl",
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 ok, 1 found something (--check), 2 usage, 3 cannot connect, 4 timed out, "
    "5 refused, 130 interrupted.",
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_version,
    help="Show the version and exit.",
)
def zkctl() -> None:
    """Operate ZooKeeper-mode Kafka clusters: ours, and Apache Kafka's up to 3.9.

    Data goes to stdout, talk to stderr. The options below stand before the verb or after it. zkctl
    GROUP --help shows the verbs of a group, zkctl GROUP VERB --help a verb with examples.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; the result is the process's exit code."""
    settings = Settings()
    if _COMPLETION in os.environ:
        return _complete(settings, is_process=arguments is None)
    if sys.stdout is None:  # "zkctl … >&-"
        click.echo("zkctl: stdout is closed, so no result could be written", err=True)
        return ExitCode.OUTPUT_LOST
    try:
        result = zkctl.main(
            args=None if arguments is None else list(arguments),
            prog_name="zkctl",
            standalone_mode=False,
            obj=settings,
        )
    except click.ClickException as error:
        error.show()
        _show_use_of_dashes(error)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo("zkctl: interrupted", err=True)
        return ExitCode.INTERRUPTED
    except ReaderGone:
        _discard_stdout_buffer()
        return ExitCode.OK
    except OutputLost as error:
        _discard_stdout_buffer()
        return _report(error, settings)
    except Exception as error:  # noqa: BLE001 the last resort: a sentence instead of a traceback
        return _report(error, settings)
    return result if isinstance(result, int) else ExitCode.OK


def _show_use_of_dashes(error: click.ClickException) -> None:
    """Say how a value that begins with a dash is given, where the verb takes values.

    Such are one in 64 of the token ids that Kafka makes.
    """
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return
    values = [each for each in error.ctx.command.params if isinstance(each, click.Argument)]
    if values and not error.option_name.startswith("--"):
        verb = error.ctx.command_path
        shown = values[0].make_metavar(error.ctx)
        click.echo(
            f"A value that begins with a dash is given behind --: {verb} -- {shown}", err=True
        )


def _complete(settings: Settings, *, is_process: bool) -> int:
    """Print the completions for a shell; errors are not shown."""
    from zkcontroller_cli.console.completion_shells import answer_shell

    with contextlib.suppress(OSError, ValueError):
        click.echo(answer_shell(zkctl, settings), nl=False)
        sys.stdout.flush()
    if is_process:
        # Exit without waiting for a thread that may still wait for a server.
        os._exit(ExitCode.OK)
    return ExitCode.OK


def _discard_stdout_buffer() -> None:
    """Discard the buffer of stdout, which cannot be written, so that exit does not try again."""
    with contextlib.suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def _report(error: Exception, settings: Settings) -> int:
    if settings.debug:
        import traceback

        traceback.print_exception(error)
    code = exit_code_of(error)
    sentence = sentence_of(error)
    sentence += _hint(error, code, settings, sentence)
    if code is ExitCode.INTERNAL:
        sentence = f"internal error: {type(error).__name__}: {sentence} (--debug shows where)"
    click.echo(f"zkctl: {sentence}", err=True)
    return code


def _hint(error: Exception, code: ExitCode, settings: Settings, sentence: str) -> str:
    """The next step for an error of that kind, for all verbs; empty if there is none."""
    if code is ExitCode.TIMED_OUT and "\n" not in sentence:  # else it ends with lines of a log
        option = error.option if isinstance(error, TimedOut) else "--timeout"
        return f"; {option} SECONDS waits longer"
    if code is not ExitCode.CANNOT_CONNECT:
        return ""
    # Use the context only if it is loaded already: loading it may be what has failed.
    context = settings.__dict__.get("context")
    if context is not None:
        return f"; this is context {context.name}: {command_line('context show', context.name)}"
    for variable in ("ZKCTL_ZOOKEEPER", "ZKCTL_BOOTSTRAP_SERVER"):
        addresses = os.environ.get(variable, "").partition("/")[0]
        if any(address in sentence for address in filter(None, addresses.split(","))):
            return f"; the address is from {variable}"
    return ""
