"""The entry point of ``zkctl``: finds the verb, and turns every way it can end into an exit code.

Nothing heavy is imported before a verb runs: ``zkctl --help`` must answer at once, so the groups
are loaded by name when they are called, and kazoo, rich, kio and asyncio inside the functions that
need them.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

import click
from typing_extensions import override

from zkcontroller.errors import ZooKeeperRefused

from .errors import ExitCode, OutputLost, ReaderGone, exit_code_of
from .options import Settings, commands_first, shared_options

_GROUPS: Final = {
    "broker": "Start a broker; list, describe and stop brokers.",
    "cluster": "Run a whole cluster on this machine: ZooKeeper and brokers.",
    "config": "Read and change the configuration of topics and brokers.",
    "controller": "Show, elect and watch the controller.",
    "demo": "A cluster loses its controller, then a broker: watch it.",
    "doctor": "What is wrong, where it stands, and the next safe step.",
    "history": "What happened, out of the logs of all brokers.",
    "partition": "Who leads, who is in sync; move replicas, elect leaders.",
    "quorum": "Run a node of a raft quorum; describe one; read its log.",
    "storage": "Format and describe the log directories of a KRaft node.",
    "topic": "Create, list, describe, grow and delete topics.",
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
        command: click.Command = import_module(f".{cmd_name}", __package__).command
        return command

    @override
    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands_first(self, ctx, formatter)

    @override
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_GROUPS.items()))


@shared_options
@click.group(
    "zkctl",
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 ok, 1 found something (--check), 2 usage, 3 cannot connect, 4 timed out, "
    "5 refused, 130 interrupted.",
)
@click.version_option(package_name="zkcontroller", prog_name="zkctl")
def zkctl() -> None:
    """Operate ZooKeeper-mode Kafka clusters: ours, and Apache Kafka's up to 3.9.

    Data goes to stdout, talk to stderr. The options below stand before the verb or after it.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; the result is the process's exit code."""
    settings = Settings()
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
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo("zkctl: interrupted", err=True)
        return ExitCode.INTERRUPTED
    except ReaderGone:
        _forget_what_is_buffered()
        return ExitCode.OK
    except OutputLost as error:
        _forget_what_is_buffered()
        return _report(error, settings)
    except Exception as error:  # noqa: BLE001 the last resort: a sentence instead of a traceback
        return _report(error, settings)
    return result if isinstance(result, int) else ExitCode.OK


def _forget_what_is_buffered() -> None:
    """What is left for stdout has nowhere to go, and must not be tried again at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report(error: Exception, settings: Settings) -> int:
    if settings.debug:
        import traceback

        traceback.print_exception(error)
    code = exit_code_of(error)
    sentence = str(error) or type(error).__name__
    if isinstance(error, ZooKeeperRefused) and error.code_name in ("NO_AUTH", "AUTH_FAILED"):
        sentence += ": say who you are with ZKCTL_ZOOKEEPER_AUTH=digest:USER:PASSWORD"
    if code is ExitCode.INTERNAL:
        sentence = f"internal error: {type(error).__name__}: {sentence} (--debug shows where)"
    click.echo(f"zkctl: {sentence}", err=True)
    return code
