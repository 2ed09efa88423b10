"""``zkctl history``: what happened in a cluster, from the logs of all brokers."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

import click
from typing_extensions import override

from zkcontroller_cli.console.errors import Refused
from zkcontroller_cli.console.options import VerbGroup

_MODULE_OF: Final = {
    "ingest": "ingest",
    "follow": "follow",
    **dict.fromkeys(
        ("report", "tenures", "partition", "outages", "isr", "rules", "state", "diff", "audit"),
        "answers",
    ),
}


_EXTRA: Final = frozenset({"pyspark", "py4j", "matplotlib", "pyarrow"})
"""The packages that the extra ``history`` installs."""


class _LazyVerbs(VerbGroup):
    """A group whose verbs are in several modules, each imported when its verb is called."""

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_MODULE_OF)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _MODULE_OF:
            return None
        if cmd_name in self.commands:
            return self.commands[cmd_name]
        module = import_module(f".histories.{_MODULE_OF[cmd_name]}", __package__)
        verb: click.Command = getattr(module, cmd_name)
        # Adds the shared options, as for verbs that are declared in their group.
        self.add_command(verb)
        return self.commands[cmd_name]

    @override
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ImportError as missing:
            if (missing.name or "").split(".")[0] not in _EXTRA:
                raise
            raise Refused(
                f"{missing.name} is not installed: pip install 'zkcontroller[history]'"
            ) from missing
        except Exception as error:
            # Exceptions of py4j and pyspark have no common base class, and importing them is slow.
            if type(error).__module__.split(".")[0] not in {"py4j", "pyspark"}:
                raise
            from kafka_history.readers.session import SparkFailed, first_line

            raise SparkFailed(first_line(error)) from error


@click.group("history", cls=_LazyVerbs)
def command() -> None:
    """What happened to a cluster, from the logs of its brokers."""
