"""``zkctl lab`` writes what it is asked for, and says in a sentence what it cannot do."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import orjson
import pytest

ZKCTL = (sys.executable, "-m", "zkcontroller_cli", "lab")


def lab(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [*ZKCTL, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def steps(recording: Path) -> list[Any]:
    found: list[Any] = orjson.loads(recording.read_bytes())["steps"]
    return found


def test_a_run_is_written_as_a_page_a_test_and_a_recording(tmp_path: Path) -> None:
    page, test, recording = (tmp_path / name for name in ("run.html", "test_run.py", "run.json"))

    ended = lab(
        "--seed", 3, "--act", "kill 2@400",
        "--export", page, "--save-test", test, "--json", recording,
    )  # fmt: skip

    assert (ended.returncode, ended.stdout) == (0, "")
    written = orjson.loads(recording.read_bytes())
    assert (written["format"], written["version"]) == ("zkctl-lab", 1)
    assert written["source"]["interventions"] == [{"turn": 400, "act": "kill", "broker": 2}]
    assert f"wrote {page}: {len(written['steps'])} steps" in ended.stderr
    assert '"kill 2@400"' in test.read_text()
    assert page.read_text().startswith("<!doctype html>")


def test_simulated_brokers_log_nothing_to_the_terminal(tmp_path: Path) -> None:
    """In this run broker 1 and broker 2 wait for the sessions of their predecessors."""
    recording = tmp_path / "run.json"

    ended = lab("--seed", 7, "--json", recording)

    assert ended.stderr.splitlines() == [f"wrote {recording}: {len(steps(recording))} steps"]


def test_the_page_is_served_until_it_is_interrupted() -> None:
    with subprocess.Popen(
        ZKCTL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as serving:
        try:
            assert serving.stdout is not None
            address = serving.stdout.readline().strip()
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", address)
            with urllib.request.urlopen(f"{address}server.json", timeout=60) as response:
                assert orjson.loads(response.read())["source"]["lesson"] == "election"
        finally:
            serving.send_signal(signal.SIGINT)
        assert serving.wait(60) == 130


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--seed", 1, "--lesson", "failover"), "only one of --seed, --lesson"),
        (("--lesson", "magic"), "there is no lesson 'magic'"),
        (("--seed", 3, "--act", "kill"), "'kill' is not an intervention"),
        (("--seed", 3, "--act", "kill 9@400"), "there is no broker 9 then"),
        (("--seed", 3, "--export", "/nowhere/run.html"), "/nowhere/run.html: No such file"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(
    arguments: tuple[object, ...], sentence: str
) -> None:
    ended = lab(*arguments)

    assert ended.returncode == 2
    assert sentence in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_corrupt_file_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "state-changes.jsonl"
    path.write_text("{}\n")

    ended = lab("--state-changes", path)

    assert ended.returncode == 2
    assert f"{path}:1: schema_version is None" in ended.stderr
