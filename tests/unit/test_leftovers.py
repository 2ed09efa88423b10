"""What a test leaves behind in its process is found, and nothing else is."""

from __future__ import annotations

import os
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


def test_a_thread_that_is_about_to_end_is_waited_for_and_what_it_held_is_collected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Cycle:
        def __init__(self) -> None:
            self.itself = self
            self.descriptor = os.open(os.devnull, os.O_RDONLY)

        def __del__(self) -> None:
            os.close(self.descriptor)

    monkeypatch.setattr(leftovers, "GRACE_S", 60)
    before = Belongings.now()

    threading.Timer(0.05, lambda _: None, [Cycle()]).start()

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


def test_a_client_of_librdkafka_is_named_until_it_is_gone() -> None:
    pytest.importorskip("confluent_kafka")
    # In a process of its own: another client in this one may connect meanwhile.
    steps = """
        from confluent_kafka import Producer
        from tests.support import leftovers

        before = leftovers.Belongings.now()
        leftovers.GRACE_S = 0.05
        client = Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
        print(before.left_behind())
        del client
        leftovers.GRACE_S = 60
        print(before.left_behind())
    """

    run = subprocess.run(
        [sys.executable, "-c", dedent(steps)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    with_client, without = run.stdout.splitlines()

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
