"""Starts the server of ``zkctl serve``, waits for its end, and ends every cluster with it.

SIGTERM, SIGINT and SIGHUP end the server.  So does the end of stdin, if stdin is a pipe or a
socket: the program that started the server holds the other end, and the system closes it however
that program ends.  Another stdin (a terminal, /dev/null) is not read.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import stat
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from kafka_common.errors import ConfigInvalid
from kafka_common.process.stop_signals import stop_signals
from zkcontroller_testing.serving.http_server import KitHttpServer
from zkcontroller_testing.serving.routes import ROUTES
from zkcontroller_testing.serving.served_clusters import SHARED_FOLDER, ServedClusters

_READ_BYTES: Final = 4096


class ServeOptions(NamedTuple):
    """The options of ``zkctl serve``; ``artefacts`` None: a temporary folder."""

    host: str
    port: int
    token: str | None
    artefacts: Path | None
    most_clusters: int


def serve(options: ServeOptions, announce: Callable[[str, int], None]) -> None:
    """Serves until a signal or the end of stdin; calls ``announce`` with its URL and port.

    ConfigInvalid: the server cannot listen at the address, or make the folder for artefacts.
    """
    root = options.artefacts or Path(tempfile.mkdtemp(prefix="zkctl-serve-"))
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        allowed = f"a folder that can be made ({error.strerror})"
        raise ConfigInvalid("--artefacts", str(root), allowed) from error
    clusters = ServedClusters(root.absolute(), options.most_clusters)
    ending = threading.Event()
    before = {each: signal.signal(each, lambda *_: ending.set()) for each in stop_signals()}
    try:
        server = _listening(options, clusters)
        threading.Thread(
            target=server.serve_forever, name="zkctl-serve", daemon=True, args=(0.1,)
        ).start()
        announce(server.url, server.server_port)
        _watch_stdin(ending)
        ending.wait()
        server.shutdown()
        server.server_close()
    finally:
        clusters.end()
        shutil.rmtree(root / SHARED_FOLDER, ignore_errors=True)
        if options.artefacts is None:
            with contextlib.suppress(OSError):  # not empty: a cluster's files were kept
                root.rmdir()
        for number, handler in before.items():
            signal.signal(number, handler)


def _listening(options: ServeOptions, clusters: ServedClusters) -> KitHttpServer:
    try:
        return KitHttpServer((options.host, options.port), ROUTES, clusters, options.token)
    except OSError as error:
        where = f"{options.host}:{options.port}"
        raise ConfigInvalid("address", where, f"cannot listen: {error.strerror}") from error


def _watch_stdin(ending: threading.Event) -> None:
    """Sets the event at the end of stdin, if stdin is a pipe or a socket."""
    try:
        descriptor = sys.stdin.fileno()
        mode = os.fstat(descriptor).st_mode
    except (AttributeError, OSError, ValueError):  # closed, or replaced
        return
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return

    def watch() -> None:
        with contextlib.suppress(OSError):
            while os.read(descriptor, _READ_BYTES):
                pass
        ending.set()

    threading.Thread(target=watch, name="zkctl-serve-stdin", daemon=True).start()
