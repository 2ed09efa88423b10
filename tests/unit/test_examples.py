"""Examples print what they promise: programs that need nothing, and the pages of the packages."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

from scripts import list_modules
from tests.support.paths import ROOT

RUNS = {
    "elect_in_memory.py": [
        "controller: 1",
        "a topic is created",
        "controller: 1",
        "orders-0: leader 1, in sync (1, 3)",
        "broker 1 dies, and its session with it",
        "controller: 2",
        "orders-0: leader 3, in sync (3,)",
    ],
    "raft_in_virtual_time.py": [
        "  1149 ms  node 1 leads epoch 1",
        "  1209 ms  ten records are committed everywhere",
        "  1209 ms  node 1 is killed",
        "  4297 ms  node 2 leads epoch 2",
        "  4355 ms  ten more are committed by the other two",
    ],
    "incident_report.py": [
        "# What happened?",
        "1 process was paused: broker 3 for about 14.6 s from 18:09:27.236 on.",
    ],
    "run_from_a_seed.py": [
        "   0.087 broker 1 is killed",
        "broker 1 led orders-0, and now broker 2 does",
        "controller 2 in epoch 2",
    ],
}
"""Lines of the output, in their order."""
ARGUMENTS = {"incident_report.py": [str(ROOT / "tests" / "history" / "data" / "incidents-a")]}


@pytest.mark.parametrize("program", RUNS)
def test_an_example_that_needs_nothing_runs(
    program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = str(ROOT / "tests" / "history" / "data" / "incidents-a")
    monkeypatch.setattr(
        sys, "argv", [program, *([logs] if program == "incident_report.py" else [])]
    )

    runpy.run_path(str(ROOT / "examples" / program), run_name="__main__")

    printed = capsys.readouterr().out.splitlines()
    assert [line for line in printed if line in RUNS[program]] == RUNS[program]


@pytest.mark.parametrize("package", list_modules.PRODUCTS)
def test_the_example_on_the_page_of_a_package_prints_what_stands_below_it(
    package: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / package / "README.md").read_text()
    ((code, output),) = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", page, re.DOTALL)
    program = tmp_path / "example.py"
    program.write_text(code)

    runpy.run_path(str(program))

    assert capsys.readouterr().out == output


def test_every_example_is_run_by_a_test() -> None:
    tests = [*(ROOT / "tests").glob("*/test_examples.py")]
    named = {path.name for path in (ROOT / "examples").glob("*.py")}

    assert named
    assert {name for name in named if any(name in test.read_text() for test in tests)} == named
