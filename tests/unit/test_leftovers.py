"""What a test leaves behind in its process is found, and nothing else is."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
from pathlib import Path
from textwrap import dedent

import pytest

from tests.support import leftovers
from tests.support.leftovers import Belongings
from tests.support.pytest_runs import run_of

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "GRACE_S", 0.05)


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


def printed(steps: str) -> list[str]:
    """The lines of a process of its own: in ours another test's client may connect meanwhile."""
    preface = "import os, socket, threading\nfrom tests.support import leftovers\n"
    run = subprocess.run(
        [sys.executable, "-c", preface + dedent(steps)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return run.stdout.splitlines()


def test_what_is_closed_again_or_will_be_is_not_left_behind_but_garbage_with_a_socket() -> None:
    closed, waited_for, unclosed, collected = printed("""
        class Cycle:
            def __init__(self, held):
                self.itself, self.held = self, held

        class ClosedCycle(Cycle):
            def __del__(self):
                os.close(self.held)

        leftovers.GRACE_S = 0.05
        before = leftovers.Belongings.now()
        with socket.socket(), open(os.devnull):
            pass
        print(before.left_behind())

        leftovers.GRACE_S = 60
        held = os.open(os.devnull, os.O_RDONLY)
        threading.Timer(0.05, lambda _: None, [ClosedCycle(held)]).start()
        print(before.left_behind())

        leftovers.GRACE_S = 0.05
        Cycle(socket.socket())
        print(before.left_behind())
        print(before.left_behind())
    """)

    assert closed == waited_for == collected == "[]"
    assert "unclosed <socket.socket" in unclosed


def test_a_client_of_librdkafka_is_named_until_it_is_gone() -> None:
    pytest.importorskip("confluent_kafka")

    with_client, without = printed("""
        from confluent_kafka import Producer

        before = leftovers.Belongings.now()
        leftovers.GRACE_S = 0.05
        client = Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
        print(before.left_behind())
        del client
        leftovers.GRACE_S = 60
        print(before.left_behind())
    """)

    assert "a client of librdkafka: thread rdk:" in with_client
    assert without == "[]"


IMPATIENT = """
    from tests.support import leftovers

    leftovers.GRACE_S = 0.05
"""
LEAVING = """
    import socket

    kept = []

    def test_that_leaves_a_socket():
        kept.append(socket.socket())

    def test_that_leaves_nothing():
        pass
"""
LITTERING = """
    import pytest

    @pytest.mark.parametrize("name", [".cache", "logs"])
    def test_that_writes_where_it_stands(name):
        open(name, "w").close()
"""
SHARING = """
    import socket
    import pytest

    opened = []

    @pytest.fixture(scope="module")
    def sockets():
        yield opened
        for each in opened[CLOSED_FROM:]:
            each.close()

    def test_before_the_fixture():
        pass

    def test_that_has_it_open_one(sockets):
        sockets.append(socket.socket())

    def test_during_which_it_opens_another(sockets):
        sockets.append(socket.socket())
"""


def test_a_test_that_leaves_a_socket_open_fails_itself_and_its_neighbour_does_not(
    tmp_path: Path,
) -> None:
    run = run_of(tmp_path, IMPATIENT + LEAVING)

    assert run.returncode == 1, run.stdout + run.stderr
    assert "ERROR test_it.py::test_that_leaves_a_socket - left behind" in run.stdout
    assert "test_that_leaves_nothing" not in run.stdout


def test_a_run_that_leaves_a_file_in_the_project_fails_and_names_it(tmp_path: Path) -> None:
    first, second = (run_of(tmp_path, LITTERING) for _ in range(2))

    assert first.returncode == 1, first.stdout + first.stderr
    assert f"ERROR new in {tmp_path} since the tests began: logs\n" in first.stdout
    assert second.returncode == 0, second.stdout + second.stderr


def test_what_a_shared_fixture_opens_while_tests_run_is_its_own(tmp_path: Path) -> None:
    run = run_of(tmp_path, IMPATIENT + SHARING.replace("CLOSED_FROM", "0"))

    assert run.returncode == 0, run.stdout + run.stderr


def test_what_outlives_the_shared_fixtures_fails_the_last_test_and_names_where_it_came(
    tmp_path: Path,
) -> None:
    run = run_of(tmp_path, IMPATIENT + SHARING.replace("CLOSED_FROM", "1"))

    assert run.returncode == 1, run.stdout + run.stderr
    assert "ERROR test_it.py::test_during_which_it_opens_another - left behind" in run.stdout
    assert "(in test_it.py::test_that_has_it_open_one)" in run.stdout
    assert len(set(re.findall(r"socket:\[\d+\]", run.stdout))) == 1
