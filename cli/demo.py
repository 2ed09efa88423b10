"""``zkctl demo``: the command that runs :mod:`.local.demo_steps`."""

from __future__ import annotations

import click

from zkcontroller_cli.console.options import settings, shared_options, without_contexts


@shared_options
@click.command("demo")
@without_contexts
def command() -> int:
    """Three brokers on an embedded ZooKeeper lose their controller, then a broker; all is shown.

    Everything is done by real zkctl commands and checked in what they answer; the exit code is 0
    only if all of it was true. With -o json (or another format) the text goes to stderr and the
    facts to stdout. The cluster lives in a temporary directory unless --dir names one, and is
    stopped at the end.

    Examples:
      zkctl demo
      zkctl demo -o json
    """
    from zkcontroller_cli.local.demo_steps import run

    return run(settings())
