"""``zkctl serve`` as a process, with a real cluster behind it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.json_bodies import bodies
from zkcontroller_testing.serving.openapi import document
from zkcontroller_testing.serving.routes import ROUTES

pytestmark = pytest.mark.kit

ANSWER_S: Final = 90.0
END_S: Final = 40.0
PAGE: Final = Path(__file__).parents[2] / "docs" / "serve.md"
DOCUMENT: Final = document(ROUTES)
TOKEN: Final = "a token of the test"
TOO_SLOW: Final = {
    *("create_cluster", "stop", "kill", "pause", "bounce", "start"),
    *("expire_session", "start_producing", "stop_producing"),
}
"""They take seconds, or let what follows take seconds; other tests call them."""
FUZZED: Final = [route for route in ROUTES if route.has_body and route.operation not in TOO_SLOW]
NAMES: Final = {
    "path": ["/new", "/new/child", "/controller_epoch/child"],
    "api": ["Produce", "LeaderAndIsr", 3],
    "error": ["NOT_LEADER_OR_FOLLOWER", 6],
    "name": ["orders", "controller.before_write", "controller.on_expire"],
    "topic": ["orders"],
    "base64": ["AAAA", "////"],
    "count": [1, 2],
    "partitions": [1, 2],
    "delay_ms": [0, 5],
    "replicas": [[[1]], [[1], [1]]],
    "broker_configs": [{}, {"1": {"broker.rack": "a"}}],
    "disks": [{}, {"1": 16}],
}


@dataclass
class Served:
    """A process, and its address."""

    process: subprocess.Popen[str]
    url: str

    def ask(self, method: str, path: str, /, **fields: Any) -> tuple[int, Any]:
        """Status and answer."""
        is_query = method in ("GET", "DELETE")
        return self.send(
            method,
            path + (f"?{urllib.parse.urlencode(fields)}" if is_query and fields else ""),
            None if is_query else json.dumps(fields).encode(),
        )

    def send(self, method: str, path: str, body: bytes | None) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, body, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_S) as response:
                data = response.read()
                return response.status, json.loads(data) if data else None
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    def must(self, method: str, path: str, /, **fields: Any) -> Any:
        """The answer of a request that succeeds."""
        status, response = self.ask(method, path, **fields)
        assert status < 300, response
        return response


@contextmanager
def zkctl_serve(*options: str) -> Iterator[Served]:
    process = subprocess.Popen(
        [sys.executable, "-m", "zkcontroller_cli", "serve", *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "ZKCTL_SERVE_TOKEN": TOKEN},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout:
        try:
            yield Served(process, json.loads(process.stdout.readline())["url"])
        finally:
            if process.poll() is None:
                process.terminate()
            process.wait(END_S)


@pytest.fixture(scope="module")
def served(kafka_shared_zookeeper: Path) -> Iterator[Served]:
    """One server for the module, with cluster 1: two brokers."""
    zookeeper = (kafka_shared_zookeeper / "connect").read_text()
    with zkctl_serve("--most-clusters", "2") as served:
        status, cluster = served.ask("POST", "/clusters", brokers=2, zookeeper=zookeeper)
        assert status == 201, cluster
        assert cluster["cluster"] == 1
        yield served


def test_verbs_do_what_the_kit_does(served: Served) -> None:
    at = "/clusters/1"
    served.must("POST", f"{at}/topics", name="orders", replicas=[[2, 1]])
    assert served.must("POST", f"{at}/topics/orders/partitions/0/wait_isr") == {"isr": [2, 1]}
    ledger = served.must("POST", f"{at}/ledgers", topic="orders")["ledger"]
    assert served.must("POST", f"{at}/ledgers/{ledger}/produce", count=3) == {"offsets": [0, 1, 2]}

    before = served.must("GET", at)["controller_epoch"]
    elected = served.must("POST", f"{at}/elect_controller")
    epoch = served.must("GET", f"{at}/brokers/2")["broker_epoch"]
    watch = served.must("POST", f"{at}/watches", path="/brokers/ids/2")["watch"]
    served.must("POST", f"{at}/brokers/2/kill")
    served.must("POST", f"{at}/brokers/2/expire_session")
    gone = served.must("POST", f"{at}/watches/{watch}/wait_change")
    leader = served.must("POST", f"{at}/topics/orders/partitions/0/wait_leader", among=[1])
    served.must("POST", f"{at}/brokers/2/start")
    registered = served.must("POST", f"{at}/wait_registered", broker_ids=[2], after_epoch=epoch)

    assert elected["controller_epoch"] == before + 1
    assert gone == {"path": "/brokers/ids/2", "text": None, "base64": None, "version": None}
    assert leader == {"leader": 1}
    assert registered["broker_epoch"] > epoch
    assert served.must("GET", f"{at}/brokers/2")["is_alive"]
    served.must("POST", f"{at}/topics/orders/partitions/0/wait_isr")
    for check in ("no_acknowledged_record_lost", "epochs_monotonic"):
        found = served.must("POST", f"{at}/checks/{check}")
        assert found == {"holds": True, "reason": None}
    journal = [each["text"] for each in served.must("GET", f"{at}/journal")["journal"]]
    assert journal[-3:] == ["kill 2", "expire the session of 2", "start 2"]
    written = served.must("POST", f"{at}/artefacts")
    assert "kill 2" in (Path(written["directory"]) / "state-changes.txt").read_text()


def test_a_controller_is_held_while_other_requests_go_on(served: Served) -> None:
    at = "/clusters/1"
    hold = served.must("POST", f"{at}/holds", name="controller.before_write")["hold"]
    reached: list[Any] = []
    waiting = threading.Thread(
        target=lambda: reached.append(served.must("POST", f"{at}/holds/{hold}/wait_reached"))
    )
    waiting.start()
    created = threading.Thread(
        target=lambda: reached.append(served.must("POST", f"{at}/topics", name="held"))
    )
    created.start()
    waiting.join(ANSWER_S)

    assert [each["name"] for each in reached] == ["controller.before_write"]
    assert served.ask("GET", f"{at}/topics/held/partitions/0")[0] == 404

    served.must("DELETE", f"{at}/holds/{hold}")
    created.join(ANSWER_S)
    assert reached[1:] == [None]
    assert served.must("GET", f"{at}/topics/held/partitions/0")["leader"] in (1, 2)
    assert served.ask("POST", f"{at}/holds/{hold}/wait_reached")[1]["error"] == "not_found"


def test_faults_are_counted_and_removed(served: Served) -> None:
    at = "/clusters/1"
    served.must("POST", f"{at}/topics", name="refused")
    fault = served.must(
        "POST",
        f"{at}/fail",
        api="Produce",
        error="NOT_LEADER_OR_FOLLOWER",
        topic="refused",
        times=2,
    )
    ledger = served.must("POST", f"{at}/ledgers", topic="refused")["ledger"]
    served.must("POST", f"{at}/ledgers/{ledger}/produce")

    assert fault == {"fault": fault["fault"], "action": "error", "api": "Produce", "count": 0}
    assert served.must("GET", f"{at}/faults/{fault['fault']}")["count"] == 2
    assert served.must("DELETE", f"{at}/faults/{fault['fault']}")["count"] == 2
    assert served.ask("GET", f"{at}/faults/{fault['fault']}")[0] == 404


@pytest.mark.parametrize(
    ("method", "path", "fields", "status", "error"),
    [
        ("POST", "/brokers/9/kill", {}, 404, "not_found"),
        ("POST", "/brokers/1/start", {}, 409, "wrong_state"),
        ("POST", "/brokers/x/start", {}, 400, "invalid"),
        ("POST", "/topics", {"name": "a/b"}, 400, "invalid"),
        ("POST", "/topics", {"name": "many", "replication_factor": 3}, 409, "refused"),
        ("POST", "/cut", {"a": 1, "b": 1}, 400, "invalid"),
        ("POST", "/cut", {"a": 1, "b": 9}, 400, "invalid"),
        ("POST", "/holds", {"name": "controller.nowhere"}, 400, "invalid"),
        ("POST", "/delay", {"api": "Produc", "delay_ms": 1}, 400, "invalid"),
        ("POST", "/ledgers/99/produce", {}, 404, "not_found"),
        ("POST", "/wait_controller", {"after_epoch": 999, "timeout_s": 0.1}, 504, "not_in_time"),
        ("POST", "/brokers/1/wait_stopped", {"timeout_s": 0.1}, 504, "not_in_time"),
    ],
)
def test_what_cannot_be_is_refused(
    served: Served, method: str, path: str, fields: dict[str, Any], status: int, error: str
) -> None:
    found, response = served.ask(method, f"/clusters/1{path}", **fields)

    assert (found, response["error"]) == (status, error), response


def test_a_broker_that_cannot_start_leaves_nothing_and_says_why(served: Served) -> None:
    status, response = served.ask(
        "POST", "/clusters", brokers=1, configs={"log.segment.bytes": "nonsense"}
    )

    assert (status, response["error"]) == (409, "broker_ended")
    assert "log.segment.bytes" in response["message"]
    assert served.must("GET", "/clusters") == {"clusters": [1]}


def test_there_are_no_more_clusters_than_there_may_be_and_none_is_left(served: Served) -> None:
    cluster = served.must("POST", "/clusters", brokers=1)
    at = f"/clusters/{cluster['cluster']}"
    statuses = set()

    @given(body=bodies(DOCUMENT["components"]["schemas"]["NewClusterFields"], NAMES))
    @settings(max_examples=30, deadline=None, derandomize=True)
    def start_one_more(body: Any) -> None:
        statuses.add(served.send("POST", "/clusters", json.dumps(body).encode())[0])

    start_one_more()
    status, response = served.ask("POST", "/clusters", brokers=1)
    hanging: list[Any] = []
    wait = threading.Thread(
        target=lambda: hanging.append(
            served.ask("POST", f"{at}/wait_controller", after_epoch=9, timeout_s=60)
        )
    )
    wait.start()
    # The wait is at work once the server counts it; a cluster that is removed ends it.
    time.sleep(0.2)
    removed = served.must("DELETE", at)
    wait.join(END_S)

    assert (status, response["error"]) == (429, "too_many")
    assert statuses == {400, 429}
    assert removed == {"directory": None}
    assert not Path(cluster["directory"]).exists()
    [(waited, why)] = hanging
    assert waited in (404, 409)
    assert why["error"] in ("removed", "not_found")
    assert served.ask("GET", at)[0] == 404


def test_no_body_makes_the_server_fail(served: Served) -> None:
    # One of its own: it is cut, held and corrupted, and must be removed nevertheless.
    at = f"/clusters/{served.must('POST', '/clusters', brokers=1)['cluster']}"
    served.must("POST", f"{at}/topics", name="orders")
    served.must("POST", f"{at}/ledgers", topic="orders")
    done: set[str] = set()
    refused: set[str] = set()

    @given(data=st.data())
    @settings(
        max_examples=200, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    def fails_never(data: st.DataObject) -> None:
        route = data.draw(st.sampled_from(FUZZED))
        schema = DOCUMENT["components"]["schemas"][route.body.__name__]
        body = data.draw(bodies(schema, NAMES))
        path = route.path.replace("/clusters/{cluster}", at)
        path = re.sub(r"\{(broker|partition)\}", "1", path)
        path = re.sub(r"\{\w+\}", data.draw(st.sampled_from(["1", "99"])), path)
        path = path.replace("/topics/1/", "/topics/orders/")

        status, response = served.send(route.method, path, json.dumps(body).encode())

        assert status < 500 or (status, response["error"]) == (504, "not_in_time"), (
            route,
            response,
        )
        assert served.ask("GET", at)[0] == 200
        if route.operation in ("cut", "delay", "drop", "fail"):
            served.must("POST", f"{at}/heal")
        if route.operation == "hold" and status == 201:
            served.must("DELETE", f"{at}/holds/{response['hold']}")
        if status < 300:
            done.add(route.operation)
        elif status == 400:
            refused.add(route.operation)

    fails_never()
    served.must("DELETE", at)
    assert len(done) >= 10, done
    assert len(refused) >= 10, refused


def processes_below(directory: str) -> list[str]:
    """The command lines of all processes that name the folder."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = each.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if directory in line:
            found.append(line)
    return found


@pytest.mark.parametrize("end", ["stdin", "SIGTERM", "SIGKILL"])
def test_no_process_outlives_the_server(end: str, tmp_path: Path) -> None:
    with zkctl_serve("--artefacts", str(tmp_path)) as served:
        cluster = served.must("POST", "/clusters", brokers=1)
        served.must("POST", f"/clusters/{cluster['cluster']}/brokers/1/pause")
        running = processes_below(str(tmp_path))
        if end == "stdin":
            assert served.process.stdin is not None
            served.process.stdin.close()
        else:
            served.process.send_signal(getattr(signal, end))
        served.process.wait(END_S)
        deadline = time.monotonic() + END_S
        while processes_below(str(tmp_path)) and time.monotonic() < deadline:
            time.sleep(0.05)

    assert len(running) >= 3  # the server, the broker, ZooKeeper
    assert processes_below(str(tmp_path)) == []
    assert served.process.returncode == (-9 if end == "SIGKILL" else 0)
    if end != "SIGKILL":
        assert list(tmp_path.iterdir()) == []


def test_the_commands_of_the_page_do_what_they_say(tmp_path: Path) -> None:
    [commands] = re.findall(r"```bash\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    if shutil.which("curl") is None:
        pytest.skip("curl is not on the PATH")
    version = subprocess.run(["curl", "--version"], capture_output=True, text=True, check=True)
    if tuple(map(int, version.stdout.split()[1].split(".")[:2])) < (7, 82):
        pytest.skip("this curl is too old for --json")
    here = Path(sys.executable).parent

    done = subprocess.run(
        ["bash", "-euc", commands],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{here}:{os.environ['PATH']}"},
        capture_output=True, text=True, timeout=ANSWER_S, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert '"bootstrap_servers"' in done.stdout
    assert '{"isr":[1]}{"controller_id":1,"controller_epoch":2}{"holds":true' in done.stdout


def test_an_address_of_the_network_needs_a_token() -> None:
    without = {key: value for key, value in os.environ.items() if key != "ZKCTL_SERVE_TOKEN"}
    done = subprocess.run(
        [sys.executable, "-m", "zkcontroller_cli", "serve", "--host", "0.0.0.0"],
        capture_output=True, text=True, timeout=ANSWER_S, check=False, env=without,
    )  # fmt: skip

    assert done.returncode == 2
    assert "say --token-file FILE" in done.stderr
