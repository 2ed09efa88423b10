"""The server of the kit without a cluster: the table, its document, and who is refused."""

from __future__ import annotations

import http.client
import inspect
import json
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scripts import list_routes
from tests.support.cli_world import zkctl_here
from tests.support.json_bodies import bodies
from zkcontroller_testing.cluster import KafkaCluster
from zkcontroller_testing.holds import HoldPoint
from zkcontroller_testing.ledger import Ledger
from zkcontroller_testing.serving import http_server
from zkcontroller_testing.serving.http_server import MOST_BODY_BYTES, KitHttpServer
from zkcontroller_testing.serving.openapi import document
from zkcontroller_testing.serving.refusals import CODES
from zkcontroller_testing.serving.routes import ROUTES, ApiRoute
from zkcontroller_testing.serving.served_clusters import ServedClusters
from zkcontroller_testing.znode import ZnodeHandle, ZnodeWatch

JSON: Final = {"Content-Type": "application/json"}
DOCUMENT: Final = document(ROUTES)
NOT_SERVED: Final = {
    "Ledger.close": "the cluster's end closes its ledgers",
    "ZnodeHandle.corrupted": "corrupt_znode, and set_znode with what it answered",
    "metadata": "an admin client that knows this broker's address alone has it",
    "history": "it records clients of Python",
}
"""Members of the kit's classes that have no path, each with its reason."""


class Response(NamedTuple):
    status: int
    body: dict[str, Any]
    headers: http.client.HTTPMessage


def ask(
    server: KitHttpServer,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: dict[str, str] | None = None,
) -> Response:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    connection.request(method, path, body, headers or {})
    response = connection.getresponse()
    data = response.read()
    connection.close()
    return Response(response.status, json.loads(data) if data else {}, response.headers)


def serving(tmp_path: Path, token: str | None = None) -> Iterator[KitHttpServer]:
    server = KitHttpServer(("127.0.0.1", 0), ROUTES, ServedClusters(tmp_path, 1), token)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KitHttpServer]:
    yield from serving(tmp_path_factory.mktemp("clusters"))


def members(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


def test_everything_that_the_kit_can_do_has_a_path() -> None:
    kit = members(KafkaCluster) | {
        *("broker_ids", "directory", "journal"),
        *(
            f"{kind.__name__}.{name}"
            for kind in (HoldPoint, Ledger, ZnodeHandle, ZnodeWatch)
            for name in members(kind) - {"version"}
        ),
        "ZnodeHandle.version",
    }
    served = {name for route in ROUTES for name in route.kit}

    assert served | NOT_SERVED.keys() == kit


def test_no_two_rows_of_the_table_are_for_one_request() -> None:
    rows = [(route.method, re.sub(r"\{\w+\}", "{}", route.path)) for route in ROUTES]

    assert len(set(rows)) == len(rows)
    assert len({route.operation for route in ROUTES}) == len(ROUTES)


NOT_COMPARED: Final = ("configs", "broker_ids", "ledgers")
"""Empty here, None or ``*arguments`` there: the same."""


def test_a_function_takes_the_names_and_defaults_of_the_kit() -> None:
    """A body that says nothing does what the method does that is given nothing."""
    compared = 0
    for route in ROUTES:
        methods = [getattr(KafkaCluster, name, None) for name in route.kit]
        for method in filter(inspect.isfunction, methods):
            if method.__name__ in ("start", "ledger", "at"):  # a broker's, or of a class
                continue
            parameters = inspect.signature(method).parameters
            for name, default in zip(
                reversed(route.body.__struct_fields__),
                reversed(route.body.__struct_defaults__),
                strict=False,
            ):
                if name not in parameters or name in NOT_COMPARED:
                    continue
                if default is msgspec.NODEFAULT:
                    default = inspect.Parameter.empty
                compared += 1
                assert default == parameters[name].default, (route.operation, name)
    assert compared > 30


CLIENTS: Final = {
    "java": ("src/main/java/kafkacluster/*.java", r"%[ds]"),
    "go": ("*.go", r"%[ds]"),
    "javascript": ("index.js", r"\$\{(?:\w+(?:\.\w+)*|encodeURIComponent\(\w+\))\}"),
}
"""Where the requests of a client stand, and how it writes what is filled in."""


@pytest.mark.parametrize("language", CLIENTS)
def test_a_client_has_every_request_of_the_table_and_no_other(language: str) -> None:
    files, filled_in = CLIENTS[language]
    folder = Path(__file__).parents[3] / "clients" / language
    text = "\n".join(path.read_text() for path in sorted(folder.glob(files)))
    # A path stands beside its method, or is given a name in the line before.
    text = re.sub(
        r'String path = (".*?")(.*?;.*?)"(GET|POST)", path,', r'\2"\3", \1,', text, flags=re.DOTALL
    )
    found = re.findall(
        r"""["'](GET|POST|PUT|DELETE)["'], (?:fmt\.Sprintf\()?["'`](/?[^"'`]*)["'`]""", text
    )
    requests = {(method, re.sub(filled_in, "{}", path)) for method, path in found}

    assert requests == {
        (route.method, re.sub(r"\{\w+\}", "{}", route.path.removeprefix("/clusters/{cluster}")))
        for route in ROUTES
    }


def references(found: object) -> Iterator[str]:
    if isinstance(found, dict):
        if "$ref" in found:
            yield found["$ref"]
        for each in found.values():
            yield from references(each)
    elif isinstance(found, list):
        for each in found:
            yield from references(each)


def test_the_document_describes_every_row_and_refers_to_what_it_has() -> None:
    described = {
        (method.upper(), path)
        for path, operations in DOCUMENT["paths"].items()
        for method in operations
    }
    names = {each.removeprefix("#/components/schemas/") for each in references(DOCUMENT)}

    assert described == {(route.method, route.path) for route in ROUTES}
    assert names == set(DOCUMENT["components"]["schemas"])
    assert all(
        operation["summary"].endswith(".")
        for operations in DOCUMENT["paths"].values()
        for operation in operations.values()
    )


def test_the_tables_of_the_page_are_those_of_the_code() -> None:
    page = list_routes.DOCUMENT.read_text(encoding="utf-8")

    assert list_routes.relisted(page) == page, "run python -m scripts.list_routes"
    assert all(f"`{route.method} {route.path}`" in page for route in ROUTES)
    assert all(f"`{code}`" in page for code in CODES)


def test_the_server_answers_with_its_document(server: KitHttpServer) -> None:
    response = ask(server, "GET", "/openapi.json")

    assert response.status == 200
    assert response.body == json.loads(json.dumps(DOCUMENT))


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status", "error", "field"),
    [
        ("GET", "/nothing", None, {}, 404, "not_found", None),
        ("GET", "/clusters/7", None, {}, 404, "not_found", None),
        ("GET", "/clusters/x", None, {}, 400, "invalid", "cluster"),
        ("POST", "/clusters/7/brokers/1/kill", None, {}, 404, "not_found", None),
        ("PATCH", "/clusters", None, {}, 405, "method_not_allowed", None),
        ("BREW", "/clusters", None, {}, 405, "method_not_allowed", None),
        ("POST", "/clusters", b"{}", {}, 415, "not_json", None),
        ("POST", "/clusters", b"{", JSON, 400, "invalid", None),
        ("POST", "/clusters", b"\xff", JSON, 400, "invalid", None),
        ("POST", "/clusters", b"[" * 100_000, JSON, 400, "invalid", None),
        ("POST", "/clusters", b'{"brokers":0}', JSON, 400, "invalid", "brokers"),
        ("POST", "/clusters", b'{"brokers":"1"}', JSON, 400, "invalid", "brokers"),
        ("POST", "/clusters", b'{"brokrs":1}', JSON, 400, "invalid", "brokrs"),
        ("POST", "/clusters", b'{"listeners":"http"}', JSON, 400, "invalid", "listeners"),
        ("POST", "/clusters", b'{"disks":[64]}', JSON, 400, "invalid", "disks"),
        ("POST", "/clusters", b'{"disks":{"one":64}}', JSON, 400, "invalid", "disks"),
        ("POST", "/clusters", b'{"disks":{"-1":64}}', JSON, 400, "invalid", "disks"),
        ("POST", "/clusters", b'{"disks":{"1":15}}', JSON, 400, "invalid", "disks[...]"),
        ("POST", "/clusters", b'{"disks":{"1":1025}}', JSON, 400, "invalid", "disks[...]"),
        ("POST", "/clusters", b'{"disks":{"4":64}}', JSON, 400, "invalid", "disks"),
        (
            "POST",
            "/clusters",
            b'{"broker_configs":{"4":{}}}',
            JSON,
            400,
            "invalid",
            "broker_configs",
        ),
        (
            *("POST", "/clusters/7/brokers/1/set_clock", b'{"ahead_ms":630720000001}', JSON),
            *(400, "invalid", "ahead_ms"),
        ),
        ("POST", "/clusters/7/brokers/1/set_clock", b"{}", JSON, 400, "invalid", "ahead_ms"),
        ("POST", "/clusters/7/brokers/1/disk_full", None, {}, 404, "not_found", None),
        ("GET", "/clusters/7/versions_used", None, {}, 400, "invalid", "api"),
        ("POST", "/clusters", b'{"zookeeper":"h:port"}', JSON, 400, "invalid", "zookeeper.connect"),
        ("POST", "/clusters/7/topics", b"{}", JSON, 400, "invalid", "name"),
        (
            *("POST", "/clusters/7/topics", b'{"name":"a","replicas":[[1],["x"]]}', JSON),
            *(400, "invalid", "replicas[1][0]"),
        ),
        ("GET", "/clusters/7/znode", None, {}, 400, "invalid", "path"),
        ("GET", "/clusters/7/znode?path=a", None, {}, 400, "invalid", "path"),
        ("GET", "/clusters/7/znode?path=/a/../b", None, {}, 400, "invalid", "path"),
        ("GET", "/clusters/7/journal?last=many", None, {}, 400, "invalid", "last"),
        ("GET", "/clusters/7/journal?last=1&last=2", None, {}, 400, "invalid", None),
        ("GET", "/clusters?x", None, {}, 400, "invalid", None),
        ("GET", "/", None, {"Origin": "http://attacker.example"}, 403, "cross_site", None),
        ("GET", "/", None, {"Sec-Fetch-Site": "cross-site"}, 403, "cross_site", None),
        ("GET", "/", None, {"Host": "attacker.example:80"}, 403, "cross_site", None),
        ("POST", "/clusters", None, {"Transfer-Encoding": "chunked"}, 411, "length_required", None),
        ("POST", "/clusters", None, {"Content-Length": "x"}, 411, "length_required", None),
        (
            *("POST", "/clusters", b" " * (4 * MOST_BODY_BYTES), JSON),
            *(413, "too_large", None),
        ),
    ],
)
def test_a_request_that_is_not_taken_says_why(
    server: KitHttpServer,
    method: str,
    path: str,
    body: bytes | None,
    headers: dict[str, str],
    status: int,
    error: str,
    field: str | None,
) -> None:
    response = ask(server, method, path, body, headers)

    assert (response.status, response.body["error"], response.body["field"]) == (
        status,
        error,
        field,
    )
    assert response.body["message"]
    assert CODES[error][0] == status
    assert ask(server, "GET", "/clusters").body == {"clusters": []}


def test_a_method_that_a_path_does_not_have_is_answered_with_those_that_it_has(
    server: KitHttpServer,
) -> None:
    assert ask(server, "PUT", "/clusters").headers["Allow"] == "GET, POST"


@pytest.mark.parametrize("host", ["localhost", "localhost:1", "127.0.0.1", "[::1]:80", "127.1.2.3"])
def test_every_name_that_can_only_be_this_machine_is_taken(
    server: KitHttpServer, host: str
) -> None:
    assert ask(server, "GET", "/", headers={"Host": host}).status == 200


@pytest.mark.parametrize(
    "line", [b"nonsense\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET " + b"a" * 70_000 + b"\r\n\r\n"]
)
def test_what_is_no_request_is_answered_in_the_same_shape(
    server: KitHttpServer, line: bytes
) -> None:
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=20) as connection:
        connection.sendall(line)
        with connection.makefile("rb") as response:
            head, _, body = response.read().partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 400 ")
    assert json.loads(body)["error"] == "invalid"


def test_half_a_body_is_not_taken_for_a_whole_one(server: KitHttpServer) -> None:
    head = b"POST /clusters HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=20) as connection:
        connection.sendall(head + b"Content-Length: 100\r\n\r\n{}")
        connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as response:
            body = response.read().partition(b"\r\n\r\n")[2]

    assert json.loads(body)["message"] == "the body ended after 2 of 100 bytes"


def test_a_folder_that_cannot_be_made_is_a_matter_of_usage(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    result = zkctl_here("serve", "--artefacts", str(tmp_path / "file" / "kafka"))

    assert (result.exit_code, result.stdout) == (2, ""), result.stderr
    assert "for --artefacts: a folder that can be made (Not a directory)" in result.stderr


def test_one_connection_carries_many_requests(server: KitHttpServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    responses = []
    for path in ("/", "/clusters/9", "/clusters"):
        connection.request("GET", path)
        response = connection.getresponse()
        responses.append((response.status, json.loads(response.read())))
        assert response.headers["Connection"] is None
    connection.close()

    assert [status for status, _ in responses] == [200, 404, 200]


def test_a_token_is_wanted_once_there_is_one(tmp_path: Path) -> None:
    for server in serving(tmp_path, "secret"):
        for given_token in (
            "",
            "Bearer",
            "Bearer secre",
            "Bearer secret2",
            "Basic secret",
            "secret",
        ):
            headers = {"Authorization": given_token}
            response = ask(server, "GET", "/", headers=headers)
            assert (response.status, response.body["error"]) == (401, "unauthorized")
            assert response.headers["WWW-Authenticate"] == "Bearer"
        right = {"Authorization": "Bearer secret"}
        for headers in (right, {"Authorization": "bearer secret"}):
            assert ask(server, "GET", "/", headers=headers).status == 200
        # A page cannot have the token; one that had it would still be refused.
        assert ask(server, "GET", "/", headers={**right, "Origin": "http://a"}).status == 403


def test_more_requests_than_may_be_at_work_are_asked_to_come_again(
    server: KitHttpServer,
) -> None:
    for _ in range(http_server.MOST_REQUESTS):
        assert server.turns.acquire(blocking=False)
    try:
        response = ask(server, "GET", "/")
    finally:
        server.turns.release(http_server.MOST_REQUESTS)

    assert (response.status, response.body["error"]) == (429, "too_many")
    assert response.headers["Retry-After"] == "1"
    assert ask(server, "GET", "/").status == 200


def _schema(route: ApiRoute) -> dict[str, Any]:
    found: dict[str, Any] = DOCUMENT["components"]["schemas"][route.body.__name__]
    return found


@given(data=st.data())
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_no_body_makes_the_server_fail_without_a_cluster(
    server: KitHttpServer, data: st.DataObject
) -> None:
    routes = [route for route in ROUTES if route.has_body and route.path_parameters]
    route = data.draw(st.sampled_from(routes))
    body = data.draw(bodies(_schema(route), {}))
    path = re.sub(r"\{(\w+)\}", "1", route.path)

    response = ask(server, route.method, path, json.dumps(body).encode(), JSON)

    assert response.status in (400, 404), response
    assert response.body["message"]
