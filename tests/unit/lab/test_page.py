"""The page, its server and its one file: complete, closed to others, no markup made of data."""

from __future__ import annotations

import base64
import hashlib
import http.client
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from zkcontroller_lab.experiment import run_seed
from zkcontroller_lab.interventions import Act, Intervention
from zkcontroller_lab.lessons import LESSONS, run_lesson
from zkcontroller_lab.page import MODULES, one_file, page_files
from zkcontroller_lab.recording import RecordedLine, RecordedStep, Recording
from zkcontroller_lab.saved_test import saved_test
from zkcontroller_lab.server import Lab, LabServer

PAGE = Path(__file__).parents[3] / "zkcontroller_lab" / "static"


@pytest.fixture(scope="module")
def server() -> Iterator[LabServer]:
    with LabServer(
        Lab({"kind": "lesson", "lesson": "election", "interventions": []}, ()), 0
    ) as lab:
        thread = threading.Thread(target=lab.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield lab
        lab.shutdown()
        thread.join()


def get(server: LabServer, path: str, host: str = "") -> tuple[int, bytes, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    headers = {"Host": host} if host else {}
    connection.request("GET", path, headers=headers)
    response = connection.getresponse()
    answer = (response.status, response.read(), response.headers)
    connection.close()
    return answer


def test_every_file_of_the_page_is_served(server: LabServer) -> None:
    assert {path.name for path in PAGE.iterdir()} == set(page_files())
    for name, (content_type, body) in page_files().items():
        status, served, headers = get(server, f"/{name}")
        assert (status, served, headers["Content-Type"]) == (200, body, content_type)
        assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert get(server, "/")[1] == page_files()["index.html"][1]


def test_the_page_learns_what_its_server_offers(server: LabServer) -> None:
    status, body, _ = get(server, "/server.json")

    offered = orjson.loads(body)
    assert status == 200
    assert [name for name, _ in offered["lessons"]] == list(LESSONS)
    assert set(offered["acts"]) == set(Act)
    assert offered["source"]["lesson"] == "election"


def test_the_server_answers_on_the_loopback_address_only(server: LabServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert get(server, "/", host="elsewhere.example")[0] == 403
    assert get(server, "/", host=f"localhost:{server.server_port}")[0] == 200


def test_a_run_with_an_intervention_is_what_the_simulator_gives(server: LabServer) -> None:
    status, body, _ = get(server, "/recording.json?seed=3&act=kill+2%40400")

    assert status == 200
    assert body == run_seed(3, [Intervention.parse("kill 2@400")]).to_json()


@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        ("/recording.json", 409, "a seed is a number"),
        ("/recording.json?seed=-1", 409, "a seed is a number"),
        ("/recording.json?seed=99999999999999999999", 409, "a seed is a number"),
        ("/recording.json?lesson=magic", 409, "there is no lesson 'magic'"),
        ("/recording.json?seed=3&act=kill+9%40400", 409, "there is no broker 9"),
        ("/recording.json?seed=3&act=dance+1%40400", 409, "is none of"),
        ("/recording.json?files=1", 409, "without --state-changes"),
        ("/recording.json?" + "a" * 9_000, 409, "longer than 8192"),
        ("/recording.json?" + "act=kill+2%409&" * 51 + "seed=1", 409, "more than 50"),
        ("/../setup.cfg", 404, "there is no"),
        ("/page/%2e%2e/server.py", 404, "there is no"),
    ],
)
def test_a_bad_request_is_refused_in_a_sentence(
    server: LabServer, path: str, status: int, reason: str
) -> None:
    answered, body, headers = get(server, path)

    assert (answered, headers["Content-Type"]) == (status, "text/plain; charset=utf-8")
    assert reason in body.decode()


def test_more_connections_than_the_bound_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LabServer, "most_connections", 1)
    with LabServer(Lab({}, ()), 0) as lab:
        thread = threading.Thread(target=lab.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        idle = http.client.HTTPConnection("127.0.0.1", lab.server_port, timeout=30)
        idle.connect()  # asks nothing, and keeps its place
        with pytest.raises((http.client.HTTPException, OSError)):
            get(lab, "/")
        idle.close()
        lab.shutdown()
        thread.join()


def test_the_page_makes_no_markup_of_data() -> None:
    code = "\n".join((PAGE / f"{module}.js").read_text() for module in MODULES)

    for forbidden in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert forbidden not in code


def test_the_modules_name_each_thing_once_and_import_only_earlier_ones() -> None:
    names: list[str] = []
    for at, module in enumerate(MODULES):
        text = (PAGE / f"{module}.js").read_text()
        imported = re.findall(r'^import \{[^}]*\} from "\./(\w+)\.js";$', text, re.MULTILINE)
        assert set(imported) <= set(MODULES[:at]), module
        assert text.count("import ") == len(imported), "an import of another form stays in one file"
        names += re.findall(
            r"^(?:export )?(?:async )?(?:function|const|let|class) (\w+)", text, re.MULTILINE
        )
    assert len(names) == len(set(names))


def test_one_file_needs_no_other_and_allows_no_other() -> None:
    html = one_file(run_lesson("election"))

    assert not re.search(r'(?:src|href)="(?!data:)', html)
    assert "http://" not in html.replace("http://www.w3.org/2000/svg", "")
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', html)
    (code,) = re.findall(r'<script type="module">(.*?)</script>', html, re.DOTALL)
    (styles,) = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    for text in (code, styles):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert "unsafe" not in policy


def test_the_recording_in_one_file_cannot_leave_its_element() -> None:
    hostile = "</script><script>alert(1)</script><!--"
    recording = Recording(hostile, {"kind": "seed", "seed": 1, "interventions": []})
    recording.steps.append(RecordedStep(0, 0, [RecordedLine("note", hostile)]))

    html = one_file(recording)

    (data,) = re.findall(
        r'<script type="application/json" id="recording">(.*?)</script>', html, re.DOTALL
    )
    assert orjson.loads(data)["steps"][0]["lines"][0]["text"] == hostile
    assert html.count("<script") == 2


@pytest.mark.parametrize("source", ["seed", "lesson"])
def test_a_saved_test_runs_and_fails_when_the_run_ends_otherwise(
    source: str, tmp_path: Path
) -> None:
    acts = [Intervention.parse("kill 2@400"), Intervention.parse("expire 3@900")]
    recording = run_seed(3, acts) if source == "seed" else run_lesson("failover", acts[:1])
    name, text = saved_test(recording)
    path = tmp_path / name
    path.write_text(text)

    assert pytest_of(path).returncode == 0
    path.write_text(re.sub(r'(\["leader"\] ==) -?\d+', r"\1 99", text, count=1))
    assert pytest_of(path).returncode == 1


def pytest_of(path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(path)]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=path.parent, env=environment
    )


def test_a_run_that_broke_becomes_a_test_that_fails_until_it_is_repaired() -> None:
    recording = run_seed(3)
    recording.ended = "broken: two leaders"

    _, text = saved_test(recording)

    assert 'assert not recording.ended.startswith("broken")' in text
