"""``zkctl history``: what happened, out of the logs of all brokers."""

from __future__ import annotations

from importlib import import_module
from typing import Final

import click
from typing_extensions import override

from .options import Group

_MODULE_OF: Final = {
    "ingest": "history_ingest",
    **dict.fromkeys(
        ("report", "tenures", "partition", "outages", "isr", "rules", "state", "diff", "audit"),
        "history_answers",
    ),
}


class _LazyVerbs(Group):
    """Verbs of several modules, imported when they are called."""

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_MODULE_OF)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _MODULE_OF:
            return None
        module = import_module(f".{_MODULE_OF[cmd_name]}", __package__)
        verb: click.Command = getattr(module, cmd_name)
        # Adds the shared options, as for verbs that are declared in their group.
        self.add_command(verb)
        return verb


@click.group("history", cls=_LazyVerbs)
def command() -> None:
    """What happened to a cluster, from the logs of its brokers."""
