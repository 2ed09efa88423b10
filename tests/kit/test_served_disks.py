"""Disks, clocks and versions by HTTP: what ``zkctl serve`` answers, and what the disk is then."""

from __future__ import annotations

import http.client
import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest
from confluent_kafka.admin import AdminClient

from tests.kit.conftest import NEEDS_ROOT
from zkcontroller_testing.serving.http_server import KitHttpServer
from zkcontroller_testing.serving.routes import ROUTES
from zkcontroller_testing.serving.served_clusters import ServedClusters

pytestmark = [pytest.mark.kit, NEEDS_ROOT]

DAY_MS: Final = 24 * 3_600_000
ANSWER_S: Final = 90
Ask: TypeAlias = Callable[..., tuple[int, Any]]


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedClusters]:
    clusters = ServedClusters(tmp_path_factory.mktemp("clusters"), 2)
    yield clusters
    clusters.end()


@pytest.fixture(scope="module")
def ask(clusters: ServedClusters, kafka_shared_zookeeper: Path) -> Iterator[Ask]:
    """One request; its status and its answer.  Cluster 1 has a broker with a disk of its own."""
    server = KitHttpServer(("127.0.0.1", 0), ROUTES, clusters)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()

    def ask(method: str, path: str, **fields: Any) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=ANSWER_S)
        body = None if method == "GET" else json.dumps(fields)
        connection.request(method, path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        data = response.read()
        connection.close()
        return response.status, json.loads(data) if data else None

    zookeeper = (kafka_shared_zookeeper / "connect").read_text()
    try:
        status, answer = ask("POST", "/clusters", brokers=2, zookeeper=zookeeper, disks={"1": 32})
        assert status == 201, answer
        yield ask
    finally:
        clusters.end()
        server.shutdown()
        thread.join()
        server.server_close()


def test_each_verb_does_to_the_disk_what_it_says(ask: Ask) -> None:
    at = "/clusters/1/brokers/1"
    data = Path(ask("GET", "/clusters/1")[1]["directory"]) / "broker-1" / "data"
    assert os.path.ismount(data)
    assert ask("POST", f"{at}/mend_disk")[1]["error"] == "wrong_state"  # the broker runs
    assert ask("POST", f"{at}/kill") == (204, None)

    assert ask("POST", f"{at}/disk_full") == (204, None)
    assert os.statvfs(data).f_bavail == 0
    assert ask("POST", f"{at}/free_disk") == (204, None)
    assert os.statvfs(data).f_bavail > 0
    assert ask("POST", f"{at}/make_disk_read_only") == (204, None)
    with pytest.raises(OSError, match="Read-only file system"):
        (data / "new").write_text("text")
    assert ask("POST", f"{at}/mend_disk") == (204, None)
    (data / "unsynced").write_text("text")
    assert ask("POST", f"{at}/lose_page_cache") == (204, None)

    assert os.path.ismount(data)
    assert not (data / "unsynced").exists()
    assert ask("GET", at)[1]["pid"] is None
    assert ask("POST", f"{at}/start") == (204, None)
    assert Path(f"/proc/{ask('GET', at)[1]['pid']}").exists()


def test_only_one_request_at_a_time_is_at_a_disk_or_starts_its_broker(
    ask: Ask, clusters: ServedClusters
) -> None:
    at = "/clusters/1/brokers/1"
    served = clusters.running(1)

    def refused(*verbs: str) -> set[str]:
        responses = [ask("POST", f"{at}/{verb}") for verb in verbs]
        assert {status for status, _ in responses} == {409}, responses
        return {response["message"] for _, response in responses}

    with served.using_disk(1):
        assert refused(
            *("disk_full", "free_disk", "make_disk_read_only", "lose_page_cache", "mend_disk")
        ) == {"another request is changing the disk of broker 1"}
    with served.starting(1):
        assert refused("start", "bounce", "lose_page_cache", "mend_disk") == {
            "another request is starting broker 1"
        }
        assert ask("POST", f"{at}/free_disk") == (204, None)


def test_a_broker_without_a_disk_of_its_own_has_none_to_make_read_only(ask: Ask) -> None:
    status, response = ask("POST", "/clusters/1/brokers/2/make_disk_read_only")

    assert (status, response["error"]) == (409, "wrong_state")
    assert "has no disk of its own" in response["message"]


def test_a_clock_jumps_and_the_journal_says_so(ask: Ask) -> None:
    at = "/clusters/1/brokers/2"

    assert ask("POST", f"{at}/set_clock", ahead_ms=DAY_MS) == (204, None)
    assert ask("POST", f"{at}/set_clock", ahead_ms=0) == (204, None)

    journal = [each["text"] for each in ask("GET", "/clusters/1/journal")[1]["journal"]]
    assert journal[-2:] == [
        f"set the clock of 2 {DAY_MS} ms ahead",
        "set the clock of 2 0 ms ahead",
    ]


def test_an_api_is_named_by_name_or_by_number_for_the_versions_used(ask: Ask) -> None:
    at = "/clusters/1"
    ask("POST", f"{at}/heal")
    assert ask("GET", f"{at}/versions_used?api=Metadata") == (200, {"versions": []})
    client = AdminClient(ask("GET", at)[1]["client_config"])
    assert set(client.list_topics(timeout=ANSWER_S).brokers) == {1, 2}

    used = ask("GET", f"{at}/versions_used?api=Metadata")

    assert used[1]["versions"]
    assert used[1]["versions"] == sorted(used[1]["versions"])
    assert used == ask("GET", f"{at}/versions_used?api=3")
    assert ask("GET", f"{at}/versions_used?api=999")[1]["error"] == "invalid"
    assert ask("GET", f"{at}/versions_used?api=Nothing")[1]["field"] == "api"
