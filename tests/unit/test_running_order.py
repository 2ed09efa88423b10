"""Which files of tests run, in what order, and what processor time they use."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdist.remote import Producer

from tests.conftest import (
    FOLDERS_NAMED_LIKE_THEIR_MARKER,
    LONGEST,
    left_out_as_a_whole,
    running_order,
)
from tests.lanes import Lanes
from tests.processor_time import ProcessorTime, processor_seconds

TESTS = Path(__file__).parent.parent
FILES = [TESTS / f"scenarios/test_{number}.py" for number in range(8)]


@pytest.mark.parametrize("name", LONGEST)
def test_the_longest_files_exist(name: str) -> None:
    file_name = name.partition("/")[2]

    assert ["/".join(path.parts[-2:]) for path in TESTS.rglob(file_name)].count(name) == 1


def test_the_longest_files_run_first_in_their_order() -> None:
    longest = [TESTS / name for name in LONGEST]

    assert running_order([*FILES, *reversed(longest)]) == [*longest, *FILES]


class Worker:
    """What the scheduler hands files to, as xdist's own workers are."""

    shutting_down = False
    gateway = SimpleNamespace(id="gw0")

    def __init__(self, tests: Sequence[str]) -> None:
        self._tests = tests
        self.files: list[str] = []

    def send_runtest_some(self, indexes: Sequence[int]) -> None:
        self.files += dict.fromkeys(self._tests[index].partition("::")[0] for index in indexes)

    def shutdown(self) -> None:
        self.shutting_down = True


@pytest.fixture
def files_of_workers(
    pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> Callable[[int, Sequence[str]], list[str]]:
    """The files that each of so many workers runs, a letter each; all tests take equally long."""

    def files_of(workers: int, files: Sequence[str]) -> list[str]:
        monkeypatch.setattr(pytestconfig.option, "tx", [f"{workers}*popen"])
        tests = [f"{file}::test_{number}" for file in files for number in range(4)]
        lanes = Lanes(pytestconfig, Producer("test"))
        nodes = [Worker(tests) for _ in range(workers)]
        for node in nodes:
            lanes.add_node(node)
            lanes.add_node_collection(node, tests)
        lanes.schedule()
        while lanes.has_pending:
            for node in nodes:
                units = list(lanes.assigned_work[node].values())
                for test in [test for unit in units for test, done in unit.items() if not done][:1]:
                    lanes.mark_test_complete(node, tests.index(test))
        return ["".join(Path(file).stem[-1] for file in node.files) for node in nodes]

    return files_of


def test_a_third_of_the_workers_computes_while_the_others_wait(
    files_of_workers: Callable[[int, Sequence[str]], list[str]],
) -> None:
    waiting = [f"tests/integration/test_{letter}.py" for letter in "abcdef"]
    computing = [f"tests/unit/test_{letter}.py" for letter in "uvwxyz"]

    assert files_of_workers(1, [*waiting, *computing]) == ["uvwxyzabcdef"]
    assert files_of_workers(3, [*waiting, *computing]) == ["uvwx", "acey", "bdfz"]
    assert files_of_workers(6, [*waiting, *computing]) == [
        *("uw", "vx"),
        *("ae", "bf", "cy", "dz"),
    ]


def test_files_run_in_reverse_or_shuffled_by_a_seed() -> None:
    assert running_order(FILES, "reverse") == FILES[::-1]
    assert running_order(FILES, "7") == running_order(FILES, "7") != FILES
    assert sorted(running_order(FILES, "7")) == FILES
    with pytest.raises(ValueError, match="invalid literal"):
        running_order(FILES, "sideways")


ALL_LEFT_OUT = "not container and not peers and not history and not faults and not attack"


def test_files_of_which_all_tests_are_deselected_are_not_imported(tmp_path: Path) -> None:
    marked = tmp_path / "test_marked.py"
    marked.write_text("pytestmark = [pytest.mark.faults, pytest.mark.timeout(400)]\n")
    partly = tmp_path / "test_partly.py"
    partly.write_text("@pytest.mark.faults\ndef test_one() -> None: ...\n")

    assert left_out_as_a_whole(marked, ALL_LEFT_OUT) == "faults"
    assert left_out_as_a_whole(marked, "not peers") is None
    assert left_out_as_a_whole(marked, "faults") is None
    assert left_out_as_a_whole(marked, "not faults or integration") is None
    assert left_out_as_a_whole(partly, ALL_LEFT_OUT) is None
    assert left_out_as_a_whole(TESTS / "peers", ALL_LEFT_OUT) == "peers"
    assert left_out_as_a_whole(TESTS / "unit", ALL_LEFT_OUT) is None


@pytest.mark.parametrize("folder", sorted(FOLDERS_NAMED_LIKE_THEIR_MARKER))
def test_every_test_of_such_a_folder_has_its_marker(folder: str) -> None:
    conftest = (TESTS / folder / "conftest.py").read_text()
    files = [path.read_text() for path in (TESTS / folder).glob("test_*.py")]

    assert f"item.add_marker(pytest.mark.{folder})" in conftest or all(
        re.search(rf"^pytestmark = \[?\s*pytest\.mark\.{folder}\b", text, re.MULTILINE)
        for text in files
    )
    assert files


def test_processor_time_counts_the_processes_that_a_test_started() -> None:
    before = processor_seconds()

    def seconds() -> float:
        return round(processor_seconds() - before, 2)  # of hundredths

    used = "import time\nwhile time.process_time() < 0.1: pass\nprint(flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-S", "-c", used], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        of_a_running_process = seconds()
        process.stdin.close()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        of_an_ended_process = seconds()

    assert 0.05 < of_a_running_process <= of_an_ended_process <= seconds()


def test_the_most_expensive_comes_first_in_the_tables_of_all_workers() -> None:
    class Node:
        workeroutput: ClassVar = {
            "processor_time": [
                {"tests/unit/cli/a.py": 1.5, "tests/unit/b.py": 2.0, "tests/wire/c.py": 2.5},
                {"tests/unit/cli/a.py": 1, "tests/unit/b.py": 3, "tests/wire/c.py": 2},
            ]
        }

    times = ProcessorTime()
    for node in (Node(), Node(), object()):
        times.pytest_testnodedown(node)

    total, *rows = (line.split() for line in times.table())
    assert total == ["12.0", "s", "in", "all,", "12", "tests"]
    assert [row[0:5:2] for row in rows] == [
        ["7.0", "8", "tests/unit"],
        ["5.0", "4", "tests/wire"],
        [],
        ["5.0", "4", "tests/wire/c.py"],
        ["4.0", "6", "tests/unit/b.py"],
        ["3.0", "2", "tests/unit/cli/a.py"],
    ]


def drawn() -> list[int]:
    seen: list[int] = []

    @given(st.integers())
    def draw(number: int) -> None:
        seen.append(number)

    draw()
    return seen


def test_examples_do_not_depend_on_the_modules_that_are_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if request.config.getoption("--hypothesis-profile"):
        pytest.skip("only the examples of every run are the same in every run")
    numbers = ", ".join(str(7_000_003 * number) for number in range(1, 200))
    (tmp_path / "many_constants.py").write_text(f"NUMBERS = ({numbers})\n")
    monkeypatch.syspath_prepend(tmp_path)

    before = drawn()
    import_module("many_constants")

    assert drawn() == before
