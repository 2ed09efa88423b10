"""``zkctl reassign``: plans, starts, follows, verifies and cancels moves of replicas."""

from __future__ import annotations

import click

from zkcontroller_cli.console.options import VerbGroup
from zkcontroller_cli.moving.reassign_cancel import cancel
from zkcontroller_cli.moving.reassign_plan import plan
from zkcontroller_cli.moving.reassign_start import start
from zkcontroller_cli.moving.reassign_status import status
from zkcontroller_cli.moving.reassign_verify import verify


@click.group("reassign", cls=VerbGroup)
def command() -> None:
    """Move replicas between brokers: plan, start, watch, cancel and verify."""


for _verb in (plan, start, status, cancel, verify):
    command.add_command(_verb)
