"""``zkctl demo``: the command around :mod:`.demo_story`."""

from __future__ import annotations

import click

from .options import settings, shared_options


@shared_options
@click.command("demo")
def command() -> int:
    """Three brokers on an embedded ZooKeeper lose their controller, then a broker; all is shown.

    Everything is done by real zkctl commands and checked in what they answer; the exit code is 0
    only if all of it was true. With -o json (or another format) the text goes to stderr and the
    facts to stdout. The cluster lives in a temporary directory unless --dir names one, and is
    stopped at the end.
    """
    from .demo_story import tell

    return tell(settings())
