"""``pytest --processor-time``: which folders and files of tests use the processors, and for what.

Times on the wall depend on what else the machine does; processor time hardly does.  What a server
uses counts for the test that runs meanwhile, whether it or an earlier one started the server.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Generator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

SHOWN: Final = 40
_COLLECTION: Final = "(imports and collection)"
_ENDS: Final = "(servers of a whole run)"
_OUTPUT_KEY: Final = "processor_time"


def processor_seconds() -> float:
    """Processor time of this process and of all that it started, in seconds.

    Of a child that runs, or has ended but was not waited for, its own and what its own children
    had used when they ended: a fork server's brokers are known at their end.
    """
    children = [child for task in Path("/proc/self/task").iterdir() for child in _children_of(task)]
    return sum(map(_processor_seconds_of, ("self", *children)))


def _children_of(task: Path) -> list[str]:
    with suppress(OSError):  # a thread that has ended meanwhile
        return (task / "children").read_text(encoding="ascii").split()
    return []


def _processor_seconds_of(pid: str) -> float:
    with suppress(OSError), open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
        fields = stat.read().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return 0.0


class ProcessorTime:
    """The plugin: sums up by file in each worker, and prints the sums at the end of the run."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.tests: Counter[str] = Counter()
        self._at_the_end = 0.0

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self) -> None:
        """What came before the first test."""
        self.seconds[_COLLECTION] += processor_seconds()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Measures a test with its fixtures."""
        file = item.nodeid.partition("::")[0]
        before = processor_seconds()
        try:
            return (yield)
        finally:
            self.seconds[file] += processor_seconds() - before - self._at_the_end
            self.tests[file] += 1

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, nextitem: pytest.Item | None) -> Generator[None]:
        """What servers that all tests share have used is known when they end, after the last."""
        if nextitem is not None:
            yield
            return
        before = processor_seconds()
        yield
        self._at_the_end = processor_seconds() - before
        self.seconds[_ENDS] += self._at_the_end

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Hands the sums of a worker to the process that shows them."""
        output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[_OUTPUT_KEY] = [dict(self.seconds), dict(self.tests)]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Adds the sums of a worker of pytest-xdist; one that crashed has none."""
        seconds, tests = getattr(node, "workeroutput", {}).get(_OUTPUT_KEY, ({}, {}))
        for file, used in seconds.items():
            self.seconds[file] += used
        self.tests.update(tests)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The sums of all and of the folders, and the files that used most."""
        terminalreporter.write_sep("=", "processor time")
        for line in self.table():
            terminalreporter.write_line(line)

    def table(self) -> list[str]:
        """A line for all tests, for each folder, and for the ``SHOWN`` most expensive files."""
        seconds: defaultdict[str, float] = defaultdict(float)
        tests: Counter[str] = Counter()
        for file, used in self.seconds.items():
            seconds[_folder_of(file)] += used
            tests[_folder_of(file)] += self.tests[file]
        return [
            f"{sum(seconds.values()):8.1f} s in all, {sum(tests.values())} tests",
            *_rows(seconds, tests),
            "",
            *_rows(self.seconds, self.tests)[:SHOWN],
        ]


def _folder_of(file: str) -> str:
    """``tests/unit``, also for what lies deeper."""
    return file if file in (_COLLECTION, _ENDS) else "/".join(file.split("/")[:-1][:2])


def _rows(seconds: Mapping[str, float], tests: Mapping[str, int]) -> list[str]:
    """One line for each of them, the most expensive one first."""
    dearest = sorted(seconds, key=lambda name: -seconds[name])
    return [f"{seconds[name]:8.1f} s {tests[name]:6d} tests  {name}" for name in dearest]
