"""Serves the page on the loopback interface, and runs the simulator for it.

Every request is a GET that changes nothing: the query holds the seed and the interventions, which
determine the whole run.  So the server has no state except the files with which it was started.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import orjson
from typing_extensions import override

from kafka_common.errors import ZkControllerError
from kafka_common.net.bounded_threads import BoundedThreads
from zkcontroller_lab.experiment import LAST_SEED, run_seed
from zkcontroller_lab.interventions import MEANINGS, MOST_INTERVENTIONS, Intervention
from zkcontroller_lab.lessons import LESSONS, run_lesson
from zkcontroller_lab.page import POLICY, one_file, page_files
from zkcontroller_lab.recording import Recording
from zkcontroller_lab.saved_test import saved_test
from zkcontroller_lab.state_change_files import read_files

LOOPBACK: Final = "127.0.0.1"
MOST_CONNECTIONS: Final = 32
"""The limit of connections at one time; a further one is closed."""
IDLE_S: Final = 30.0
"""Seconds after which an idle connection is closed."""
RUN_WAIT_S: Final = 60.0
"""The most seconds that a run waits for the one before it."""
LONGEST_QUERY: Final = 8_192

JSON: Final = "application/json"


class BadQuery(ZkControllerError):
    """The query is malformed, or names a recording that does not exist."""


class Lab:
    """The recordings that the page may load: of ``files``, of seeds and of lessons."""

    def __init__(self, source: Mapping[str, Any], files: Sequence[Path]) -> None:
        self.source = source
        """The ``source`` of the recording that the page shows first."""
        self.files = tuple(files)
        self._turn = threading.Lock()

    def description(self) -> bytes:
        """JSON with the settings that the page needs from its server."""
        return orjson.dumps(
            {
                "source": dict(self.source),
                "files": [path.name for path in self.files],
                "lessons": [[name, lesson.title] for name, lesson in LESSONS.items()],
                "acts": {act.value: meaning for act, meaning in MEANINGS.items()},
            }
        )

    def recording(self, query: str) -> Recording:
        """The recording that a query asks for; runs are made one at a time.

        Raises BadQuery, InterventionRefused, CorruptStateChanges or OSError.
        """
        source, interventions = parse_query(query)
        if not self._turn.acquire(timeout=RUN_WAIT_S):
            raise BadQuery(f"another run has taken more than {RUN_WAIT_S:.0f} s")
        try:
            if source == "files":
                if not self.files:
                    raise BadQuery("zkctl lab was started without --state-changes")
                return read_files(self.files)
            if isinstance(source, int):
                return run_seed(source, interventions)
            return run_lesson(source, interventions)
        finally:
            self._turn.release()


def parse_query(query: str) -> tuple[int | str, tuple[Intervention, ...]]:
    """A seed, a lesson's name or ``files``, and the interventions.

    Raises BadQuery, or InterventionRefused for a malformed intervention.
    """
    if len(query) > LONGEST_QUERY:
        raise BadQuery(f"a query longer than {LONGEST_QUERY} characters")
    fields = parse_qs(query)
    acts = fields.get("act", [])
    if len(acts) > MOST_INTERVENTIONS:
        raise BadQuery(f"more than {MOST_INTERVENTIONS} interventions")
    interventions = tuple(map(Intervention.parse, acts))
    if "files" in fields:
        return "files", ()
    if "lesson" in fields:
        name = fields["lesson"][0]
        if name not in LESSONS:
            raise BadQuery(f"there is no lesson {name!r}, only {', '.join(LESSONS)}")
        return name, interventions
    seed = fields.get("seed", [""])[0]
    if not (seed.isascii() and seed.isdecimal() and int(seed) <= LAST_SEED):
        raise BadQuery(
            f"say which run: ?seed=N (a seed is a number from 0 to {LAST_SEED}), ?lesson=NAME or "
            "?files=1"
        )
    return int(seed), interventions


class LabServer(BoundedThreads, HTTPServer):
    """Listens on the loopback interface; ``port`` 0 takes a free port, then in ``server_port``."""

    most_connections = MOST_CONNECTIONS

    def __init__(self, lab: Lab, port: int) -> None:
        self.lab = lab
        self.page_files = page_files()
        super().__init__((LOOPBACK, port), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: LabServer
    timeout = IDLE_S

    def do_GET(self) -> None:
        # DNS rebinding: another site may let its host name resolve to this machine.
        port = self.server.server_port
        if self.headers.get("Host") not in (f"{LOOPBACK}:{port}", f"localhost:{port}"):
            self._refuse(HTTPStatus.FORBIDDEN, "this server answers on the loopback address only")
            return
        address = urlsplit(self.path)
        name = address.path.removeprefix("/") or "index.html"
        try:
            if name in self.server.page_files:
                self._answer(*self.server.page_files[name])
            elif name == "server.json":
                self._answer(JSON, self.server.lab.description())
            elif name in ("recording.json", "export", "saved-test"):
                self._answer_recording(name, self.server.lab.recording(address.query))
            else:
                self._refuse(HTTPStatus.NOT_FOUND, f"there is no {name[:100]!r}")
        except (ZkControllerError, OSError) as error:
            self._refuse(HTTPStatus.CONFLICT, str(error))

    def _answer_recording(self, name: str, recording: Recording) -> None:
        if name == "recording.json":
            self._answer(JSON, recording.to_json())
        elif name == "export":
            html = one_file(recording).encode()
            self._answer("text/html; charset=utf-8", html, "run.html")
        elif recording.source["kind"] == "state-changes":
            raise BadQuery("only a run of the simulator can become a test")
        else:
            file_name, text = saved_test(recording)
            self._answer("text/x-python; charset=utf-8", text.encode(), file_name)

    def _answer(self, content_type: str, body: bytes, file_name: str = "") -> None:
        self._send(HTTPStatus.OK, content_type, body, file_name)

    def _refuse(self, status: HTTPStatus, sentence: str) -> None:
        self._send(status, "text/plain; charset=utf-8", sentence.encode())

    def _send(
        self, status: HTTPStatus, content_type: str, body: bytes, file_name: str = ""
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cache-Control", "no-store")
        if file_name:
            self.send_header("Content-Disposition", f'attachment; filename="{file_name}"')
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, format: str, *arguments: object) -> None:
        """Logs nothing, because the page shows errors."""
