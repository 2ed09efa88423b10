"""The HTTP/1.1 server: checks each request, then calls the function of its route.

It is the standard library's server.  Requests are few, most of them wait for a cluster, and each
has a thread while it lasts; such a wait would block the event loop of a framework.  msgspec checks
bodies and query parameters.

A web page must not reach a server on the loopback interface.  So a request with an ``Origin``
header, or whose ``Sec-Fetch-Site`` is another site, is refused.  If the server has no token, it
also refuses a ``Host`` that is not this machine: an attacker's name may resolve to 127.0.0.1.
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
from zkcontroller_testing.serving.routes import ApiRoute
from zkcontroller_testing.serving.served_clusters import ServedClusters
from zkcontroller_testing.serving.served_request import ServedRequest

MOST_BODY_BYTES: Final = 1024 * 1024
MOST_REQUESTS: Final = 64
"""Limit of requests at one time, waits included."""
MOST_CONNECTIONS: Final = 128
_MOST_DISCARDED_BYTES: Final = 16 * MOST_BODY_BYTES
_MOST_PARAMETERS: Final = 20
_IDLE_S: Final = 120.0
"""A connection without data is closed after this time, also within a request."""
_AT: Final = re.compile(
    r"^(?P<reason>.*?)(?: - at (?P<key>`key` in )?`\$\.?(?P<field>.*)`)?$", re.DOTALL
)
"""A message of msgspec: the reason, and the path of the field."""
_UNKNOWN: Final = re.compile(r"unknown field `(.*)`|missing required field `(.*)`", re.DOTALL)
_MOST_SHOWN: Final = 500


class KitHttpServer(BoundedThreads, HTTPServer):
    """Serves the routes for ``clusters``; ``token`` None: requests need no token."""

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
        """``http://HOST:PORT``, with the address at which the server listens."""
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}"

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Prints the traceback, unless the connection is broken (OSError)."""
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

    def _respond(self) -> None:
        # The rest of a body that was not read must not be taken for the next request.
        self.close_connection, stays_open = True, not self.close_connection
        try:
            body = self._read_body()
            self.close_connection = not stays_open
            status, response = self._done(body)
        except ApiRefusal as refused:
            self._refuse(refused)
            return
        self._send(status, None if response is None else msgspec.json.encode(response))

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = _respond  # noqa: N815 - http.server calls them so

    def _done(self, body: bytes) -> tuple[int, object]:
        """The status and the response of the request; ApiRefusal if it is refused."""
        self._check_sender()
        parts = urlsplit(self.path)
        route, path = self._route(parts.path)
        fields = (
            self._fields(route, body) if route.has_body else _parameters(route, parts.query, body)
        )
        if not self._kit.turns.acquire(blocking=False):
            raise refusal("too_many", f"{MOST_REQUESTS} requests are running already")
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
            # The removal of a cluster makes its requests fail so.
            return refusal("removed", f"cluster {path['cluster']} was removed during the request")
        if refused.code == "internal":
            traceback.print_exception(error, file=sys.stderr)
        return refused

    def _check_sender(self) -> None:
        host = _host_of(self.headers.get("Host", ""))
        origin = self.headers.get("Origin")
        site = self.headers.get("Sec-Fetch-Site", "none")
        if origin is not None or site not in ("none", "same-origin"):
            raise refusal("cross_site", "requests of web pages are refused")
        if self._kit.token is None:
            if host is not None and not _is_ours(host, self._kit.host):
                raise refusal("cross_site", f"the Host {host[:100]!r} is not this machine")
            return
        scheme, _, given = self.headers.get("Authorization", "").partition(" ")
        is_right = hmac.compare_digest(given.strip().encode(), self._kit.token.encode())
        if scheme.lower() != "bearer" or not is_right:
            raise refusal("unauthorized", "Authorization: Bearer TOKEN is missing or wrong")

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
        refused = refusal("method_not_allowed", f"the path has only {allowed}")
        refused.allowed = allowed
        raise refused

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") is not None:
            raise refusal("length_required", "send Content-Length, without Transfer-Encoding")
        text = self.headers.get("Content-Length", "0").strip()
        if not (text.isascii() and text.isdecimal()):
            raise refusal("length_required", "Content-Length is not a number")
        if len(text) > 9 or int(text) > MOST_BODY_BYTES:
            # Closing with unread data would reset the connection before the response arrives.
            left = min(int(text[:9]), _MOST_DISCARDED_BYTES)
            while left > 0 and (data := self.rfile.read(min(left, MOST_BODY_BYTES))):
                left -= len(data)
            raise refusal("too_large", f"the body is larger than {MOST_BODY_BYTES} bytes")
        body = self.rfile.read(int(text))
        if len(body) < int(text):
            raise refusal("invalid", f"the body ended after {len(body)} of {text} bytes")
        return body

    def _fields(self, route: ApiRoute, body: bytes) -> Any:
        if body and self.headers.get_content_type() != "application/json":
            raise refusal("not_json", "the body must have Content-Type: application/json")
        try:
            return msgspec.json.decode(body or b"{}", type=route.body)
        except msgspec.ValidationError as error:
            raise _invalid(error) from None
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise refusal("invalid", f"the body is not JSON: {error}") from None

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
        """Sends an error of the library's parser as an error response: 405 for 501, else 400."""
        self.close_connection = True
        self.command = self.command or "GET"
        self.request_version = "HTTP/1.1"  # HTTP/0.9 would have no status line
        allowed = code == 501
        name = "method_not_allowed" if allowed else "invalid"
        refused = refusal(name, f"{message or explain or 'not an HTTP request'}"[:_MOST_SHOWN])
        if allowed:
            refused.allowed = "GET, POST, PUT, DELETE"
        with contextlib.suppress(OSError):
            self._refuse(refused)

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing: the journal of a cluster says what was done to it."""


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
        raise refusal("invalid", f"the query is not a list of NAME=VALUE: {error}") from None
    if len(dict(pairs)) < len(pairs):
        raise refusal("invalid", "the query has a parameter twice")
    try:
        return msgspec.convert(dict(pairs), route.body, strict=False)
    except msgspec.ValidationError as error:
        raise _invalid(error) from None


def _invalid(error: msgspec.ValidationError) -> ApiRefusal:
    """The refusal for msgspec's error, whose message has both the reason and the field."""
    match = _AT.match(str(error))
    reason, field = (match["reason"], match["field"]) if match else (str(error), None)
    if match and match["key"]:
        reason = f"invalid key: {reason}"
    if "matching regex" in reason:
        reason = "is not the path of a znode, such as /brokers/ids/1"
    inner = _UNKNOWN.search(reason)
    if inner is not None:
        field = ".".join(filter(None, (field, inner[1] or inner[2])))
    return refusal("invalid", reason[:_MOST_SHOWN], field and field[:_MOST_SHOWN])


def _host_of(header: str) -> str | None:
    """The name or address in a Host header, without the port; None if there is none."""
    return header.strip().rpartition("@")[2].removesuffix(_port(header)).strip("[]") or None


def _port(header: str) -> str:
    found = re.search(r":\d*$", header.strip())
    return found[0] if found else ""


def _is_ours(host: str, bound: str) -> bool:
    """Whether the host is ``localhost``, a loopback address, or the address listened at."""
    if host.lower() in ("localhost", bound.lower()):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
