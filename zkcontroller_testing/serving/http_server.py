"""HTTP/1.1 around the table of routes: every request is checked here before a function has it.

The server is the standard library's: requests are few, most of them wait for a cluster, and each
has a thread for as long as it lasts.  A framework would bring an event loop that such waits may not
block.  What a body must look like is msgspec's part.

A web page of another site must not reach a server on the loopback interface.  A request that has an
``Origin``, or comes from another site by ``Sec-Fetch-Site``, is refused; so is one for a host name
that is not this machine's (a name of the attacker that leads to 127.0.0.1), unless it has the
token.
"""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import re
import sys
import threading
import traceback
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Final, cast
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec
import orjson
from typing_extensions import override

from kafka_common.net.bounded_threads import BoundedThreads
from zkcontroller_testing.serving.refusals import ApiRefusal, refusal, refusal_of
from zkcontroller_testing.serving.routes import ApiRoute, ServedRequest
from zkcontroller_testing.serving.served_clusters import ServedClusters

MOST_BODY_BYTES: Final = 1024 * 1024
MOST_REQUESTS: Final = 64
"""At work at once; waits are among them."""
MOST_CONNECTIONS: Final = 128
_MOST_DISCARDED_BYTES: Final = 16 * MOST_BODY_BYTES
_MOST_PARAMETERS: Final = 20
_IDLE_S: Final = 120.0
"""How long a connection may be silent, between requests or within one."""
_AT: Final = re.compile(
    r"^(?P<reason>.*?)(?: - at (?P<key>`key` in )?`\$\.?(?P<field>.*)`)?$", re.DOTALL
)
_UNKNOWN: Final = re.compile(r"unknown field `(.*)`|missing required field `(.*)`", re.DOTALL)
_MOST_SHOWN: Final = 500


class KitHttpServer(BoundedThreads, HTTPServer):
    """Serves a table of routes over some clusters; ``token`` None: no token is wanted."""

    most_connections = MOST_CONNECTIONS
    block_on_close = False
    request_queue_size = 64

    def __init__(
        self,
        address: tuple[str, int],
        routes: Sequence[ApiRoute],
        clusters: ServedClusters,
        token: str | None = None,
    ) -> None:
        self.routes = routes
        self.clusters = clusters
        self.token = token
        self.host = address[0]
        self.turns = threading.BoundedSemaphore(MOST_REQUESTS)
        super().__init__(address, _KitRequestHandler)

    @property
    def url(self) -> str:
        """Where it listens."""
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}"

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is gone is no error of ours."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _KitRequestHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "zkctl-serve"
    sys_version = ""
    timeout = _IDLE_S

    @property
    def _kit(self) -> KitHttpServer:
        return cast(KitHttpServer, self.server)

    def _answer(self) -> None:
        # Until the body is read, what follows on the connection is no request.
        self.close_connection, stays_open = True, not self.close_connection
        try:
            body = self._read_body()
            self.close_connection = not stays_open
            status, answer = self._done(body)
        except ApiRefusal as refused:
            self._refuse(refused)
            return
        self._send(status, None if answer is None else msgspec.json.encode(answer))

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = _answer  # noqa: N815 - http.server calls them so

    def _done(self, body: bytes) -> tuple[int, object]:
        """The status and the answer of the request; ApiRefusal."""
        self._check_sender()
        parts = urlsplit(self.path)
        route, path = self._route(parts.path)
        fields = (
            self._fields(route, body) if route.has_body else _parameters(route, parts.query, body)
        )
        if not self._kit.turns.acquire(blocking=False):
            raise refusal("too_many", f"{MOST_REQUESTS} requests are at work already")
        try:
            request = ServedRequest(self._kit.clusters, path, fields)
            return route.status, route.do(request)
        except Exception as error:
            raise self._refused(error, path) from error
        finally:
            self._kit.turns.release()

    def _refused(self, error: Exception, path: dict[str, str]) -> ApiRefusal:
        refused = refusal_of(error)
        if (
            refused.code in ("internal", "not_in_time")
            and "cluster" in path
            and not self._kit.clusters.is_running(int(path["cluster"]))
        ):
            # What a cluster answers that is taken down under a request means nothing.
            return refusal("removed", f"cluster {path['cluster']} was removed meanwhile")
        if refused.code == "internal":
            traceback.print_exception(error, file=sys.stderr)
        return refused

    def _check_sender(self) -> None:
        host = _host_of(self.headers.get("Host", ""))
        origin = self.headers.get("Origin")
        site = self.headers.get("Sec-Fetch-Site", "none")
        if origin is not None or site not in ("none", "same-origin"):
            raise refusal("cross_site", "requests of web pages are not taken")
        if self._kit.token is None:
            if host is not None and not _is_ours(host, self._kit.host):
                raise refusal("cross_site", f"the host {host[:100]!r} is not this server's")
            return
        given = self.headers.get("Authorization", "").removeprefix("Bearer ").strip()
        if not hmac.compare_digest(given.encode(), self._kit.token.encode()):
            raise refusal("unauthorized", "this server wants Authorization: Bearer TOKEN")

    def _route(self, path: str) -> tuple[ApiRoute, dict[str, str]]:
        found = [
            (route, match)
            for route in self._kit.routes
            if (match := route.pattern.fullmatch(path)) is not None
        ]
        for route, match in found:
            if route.method == self.command:
                return route, {name: unquote(text) for name, text in match.groupdict().items()}
        if not found:
            raise refusal("not_found", f"there is no path {path[:_MOST_SHOWN]}; see /openapi.json")
        allowed = ", ".join(route.method for route, _ in found)
        refused = refusal("method_not_allowed", f"{self.command[:20]} is not one of: {allowed}")
        refused.allowed = allowed
        raise refused

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") is not None:
            raise refusal("length_required", "a body has Content-Length here, and no other coding")
        text = self.headers.get("Content-Length", "0").strip()
        if not (text.isascii() and text.isdecimal()):
            raise refusal("length_required", "Content-Length is no number")
        if len(text) > 9 or int(text) > MOST_BODY_BYTES:
            # What is not read at all would reset the connection before the client has the answer.
            left = min(int(text[:9]), _MOST_DISCARDED_BYTES)
            while left > 0 and (data := self.rfile.read(min(left, MOST_BODY_BYTES))):
                left -= len(data)
            raise refusal("too_large", f"a body has {MOST_BODY_BYTES} bytes at most")
        body = self.rfile.read(int(text))
        if len(body) < int(text):
            raise refusal("invalid", f"the body ended after {len(body)} of {text} bytes")
        return body

    def _fields(self, route: ApiRoute, body: bytes) -> Any:
        if body and self.headers.get_content_type() != "application/json":
            raise refusal("not_json", "a body is JSON: say Content-Type: application/json")
        try:
            return msgspec.json.decode(body or b"{}", type=route.body)
        except msgspec.ValidationError as error:
            raise _invalid(error) from None
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise refusal("invalid", f"the body is no JSON: {error}") from None

    def _refuse(self, refused: ApiRefusal) -> None:
        headers = {"Allow": refused.allowed} if refused.allowed else {}
        if refused.code == "unauthorized":
            headers["WWW-Authenticate"] = "Bearer"
        if refused.code == "too_many":
            headers["Retry-After"] = "1"
        self._send(refused.status, orjson.dumps(refused.as_json()), headers)

    def _send(self, status: int, body: bytes | None, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        if body is not None:
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if body is not None and self.command != "HEAD":
            self.wfile.write(body)

    @override
    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the library finds wrong before there is a request: in our shape, never as 5xx."""
        self.close_connection = True
        self.command = self.command or "GET"
        self.request_version = "HTTP/1.1"  # HTTP/0.9 would have no status line
        allowed = code == 501
        name = "method_not_allowed" if allowed else "invalid"
        refused = refusal(name, f"{message or explain or 'no HTTP request'}"[:_MOST_SHOWN])
        if allowed:
            refused.allowed = "GET, POST, PUT, DELETE"
        with contextlib.suppress(OSError):
            self._refuse(refused)

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the journal of a cluster says what was done to it."""


def _parameters(route: ApiRoute, query: str, body: bytes) -> Any:
    if body:
        raise refusal("invalid", f"{route.method} {route.path} takes no body")
    try:
        pairs = parse_qsl(
            query,
            keep_blank_values=True,
            strict_parsing=bool(query),
            max_num_fields=_MOST_PARAMETERS,
        )
    except ValueError as error:
        raise refusal("invalid", f"behind the ? is no list of NAME=VALUE: {error}") from None
    if len(dict(pairs)) < len(pairs):
        raise refusal("invalid", "a parameter stands there twice")
    try:
        return msgspec.convert(dict(pairs), route.body, strict=False)
    except msgspec.ValidationError as error:
        raise _invalid(error) from None


def _invalid(error: msgspec.ValidationError) -> ApiRefusal:
    """Which field, and why: msgspec says both in one sentence."""
    match = _AT.match(str(error))
    reason, field = (match["reason"], match["field"]) if match else (str(error), None)
    if match and match["key"]:
        reason = f"a key of it: {reason}"
    if "matching regex" in reason:
        reason = "is no path of a znode: it begins with / and does not end with it, as in /a/b"
    inner = _UNKNOWN.search(reason)
    if inner is not None:
        field = ".".join(filter(None, (field, inner[1] or inner[2])))
    return refusal("invalid", reason[:_MOST_SHOWN], field and field[:_MOST_SHOWN])


def _host_of(header: str) -> str | None:
    """The name or address in a Host header; None if there is none."""
    return header.strip().rpartition("@")[2].removesuffix(_port(header)).strip("[]") or None


def _port(header: str) -> str:
    found = re.search(r":\d*$", header.strip())
    return found[0] if found else ""


def _is_ours(host: str, bound: str) -> bool:
    """Whether a name or address can only mean this machine: ``localhost``, loopback, or ours."""
    if host.lower() in ("localhost", bound.lower()):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
