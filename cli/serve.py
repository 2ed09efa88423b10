"""``zkctl serve``: the test kit over HTTP; :mod:`zkcontroller_testing.serving` is the server."""

from __future__ import annotations

import ipaddress
import os
import sys
from pathlib import Path
from typing import Final

import click

from zkcontroller_cli.console.errors import BadUsage
from zkcontroller_cli.console.options import settings, shared_options, without_contexts

_TOKEN: Final = "ZKCTL_SERVE_TOKEN"
_MOST_CLUSTERS: Final = 50


@shared_options
@click.command("serve")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port to listen at  [default: a free port, which the output names]",
)
@click.option(
    "--host",
    default="127.0.0.1",
    metavar="ADDRESS",
    help="Address to listen at; one that is not loopback needs a token  [default: 127.0.0.1]",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help=f"Take only requests with Authorization: Bearer and the line in this file  [env: {_TOKEN}"
    " has the token itself]",
)
@click.option(
    "--artefacts",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Folder for the clusters' files  [default: a temporary one]",
)
@click.option(
    "--most-clusters",
    type=click.IntRange(1, _MOST_CLUSTERS),
    default=8,
    show_default=True,
    help="How many clusters may run at once.",
)
@without_contexts
def command(
    port: int, host: str, token_file: Path | None, artefacts: Path | None, most_clusters: int
) -> None:
    """Serves real clusters, and faults in them, to tests in any language by HTTP and JSON.

    Prints one line of JSON, {"url": …}, when it listens; GET /openapi.json describes the requests.
    SIGTERM, SIGHUP and Ctrl-C end it and all clusters.  So does the end of stdin, if stdin is a
    pipe: the program that started it is gone.

    Examples:
      zkctl serve
      zkctl serve --port 8765 --artefacts build/kafka
      zkctl serve --token-file token -o json
    """
    token = _token(token_file)
    if token is None and not _is_loopback(host):
        raise BadUsage(f"--host {host} is not a loopback address: say --token-file FILE as well")
    # The test kit imports zkctl; this import is the one exception in setup.cfg's contract.
    from zkcontroller_testing.serving.command import ServeOptions, serve

    given = settings()

    def announce(url: str, at_port: int) -> None:
        from zkcontroller_cli.console.render import Format, Renderer, named

        record = {"url": url, "port": at_port, "pid": os.getpid(), "has_token": token is not None}
        renderer = given.renderer
        if renderer.is_for_eyes:  # a program reads this output, so it is never a table
            renderer = Renderer(Format.JSONL, given.out or sys.stdout)
        renderer.record(record, named("url"))

    serve(ServeOptions(host, port, token, artefacts, most_clusters), announce)


def _token(file: Path | None) -> str | None:
    """The token in the file, else in the environment variable, else None; BadUsage if empty."""
    text = os.environ.get(_TOKEN) if file is None else file.read_text(encoding="utf-8")
    if text is None:
        return None
    if not text.strip() or not text.strip().isascii():
        source = _TOKEN if file is None else f"--token-file {file}"
        raise BadUsage(f"{source} has no token: it is one line of ASCII characters")
    return text.strip()


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
