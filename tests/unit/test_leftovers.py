"""What a test leaves behind in its process is found, and nothing else is."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.support import leftovers
from tests.support.leftovers import Belongings

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "GRACE_S", 0.05)


def test_what_is_closed_again_is_not_left_behind(tmp_path: Path) -> None:
    before = Belongings.now()

    with socket.socket(), (tmp_path / "file").open("w"):
        pass

    assert before.left_behind() == []


def test_an_open_socket_file_and_thread_are_named(tmp_path: Path) -> None:
    may_end = threading.Event()
    waiting = threading.Thread(target=may_end.wait, name="a-waiting-thread")
    path = tmp_path / "file"
    before = Belongings.now()

    with socket.socket(), path.open("w"):
        waiting.start()
        left = " ".join(before.left_behind())
        may_end.set()
        waiting.join()

    assert "socket:" in left
    assert str(path) in left
    assert "thread a-waiting-thread" in left


def test_a_thread_that_is_about_to_end_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "GRACE_S", 60)
    before = Belongings.now()

    threading.Timer(0.05, lambda: None).start()

    assert before.left_behind() == []


def test_garbage_that_holds_a_socket_is_left_behind_although_it_is_collected() -> None:
    class Cycle:
        pass

    before = Belongings.now()

    cycle = Cycle()
    cycle.__dict__.update(itself=cycle, socket=socket.socket())
    del cycle
    [unclosed] = before.left_behind()

    assert "unclosed <socket.socket" in unclosed
    assert before.left_behind() == []


def test_a_client_of_librdkafka_is_named_until_it_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    before = Belongings.now()

    client = confluent_kafka.Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    left = before.left_behind()
    del client
    monkeypatch.setattr(leftovers, "GRACE_S", 60)

    assert any("a client of librdkafka" in each for each in left)
    assert before.left_behind() == []


def test_a_test_that_leaves_a_socket_open_fails_itself_and_its_neighbour_does_not(
    tmp_path: Path,
) -> None:
    file = tmp_path / "test_leaving.py"
    file.write_text(
        "import socket\n"
        "kept = []\n"
        "def test_that_leaves_a_socket():\n"
        "    kept.append(socket.socket())\n"
        "def test_that_leaves_nothing():\n"
        "    pass\n"
    )

    options = ["-p", "tests.conftest", "-p", "no:cacheprovider", "--import-mode=importlib", "-q"]
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "--leftovers",
            *options,
            f"--rootdir={tmp_path}",
            file.name,
        ],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 1, run.stdout + run.stderr
    assert "ERROR test_leaving.py::test_that_leaves_a_socket - left behind" in run.stdout
    assert "test_that_leaves_nothing" not in run.stdout
