"""``zkctl log-dirs``: the content of brokers' log directories, moves between them, stray logs."""

from __future__ import annotations

import click

from zkcontroller_cli.console.options import VerbGroup
from zkcontroller_cli.moving.log_dirs_move import move
from zkcontroller_cli.moving.log_dirs_read import moves, sizes, strays


@click.group("log-dirs", cls=VerbGroup)
def command() -> None:
    """What is in log directories; move replicas between them; find what belongs to no one."""


for _verb in (sizes, moves, move, strays):
    command.add_command(_verb)
