"""``pytest --processor-time``: which files of tests use the processors, and for what.

Times on the wall depend on what else the machine does; processor time hardly does.  Each process
sums up its own and that of the processes that it started and that have ended, so a server that
outlives a test counts for the test during which it ends.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Generator
from contextlib import suppress
from typing import Any, Final

import pytest

from zkcontroller_testing import fork_server

SHOWN: Final = 40
_COLLECTION: Final = "(imports and collection)"
_OUTPUT_KEY: Final = "processor_time"


def processor_seconds() -> float:
    """Processor time of this process and of its children that have ended, in seconds.

    The children of fork servers are ours, too.
    """
    times = os.times()
    ours = times.user + times.system + times.children_user + times.children_system
    return ours + sum(map(_processor_seconds_of, fork_server.servers.values()))


def _processor_seconds_of(pid: int) -> float:
    with suppress(OSError), open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
        fields = stat.read().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return 0.0


class ProcessorTime:
    """The plugin: sums up by file in each worker, and prints the sums at the end of the run."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.tests: Counter[str] = Counter()

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
            self.seconds[file] += processor_seconds() - before
            self.tests[file] += 1

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
        """The files that used most, and the sum."""
        terminalreporter.write_sep("=", "processor time")
        for line in self.table():
            terminalreporter.write_line(line)

    def table(self) -> list[str]:
        """One line for each of the ``SHOWN`` most expensive files, after one for all of them."""
        total = sum(self.seconds.values())
        return [
            f"{total:8.1f} s in all, {sum(self.tests.values())} tests",
            *(
                f"{seconds:8.1f} s {self.tests[file]:6d} tests  {file}"
                for file, seconds in sorted(self.seconds.items(), key=lambda row: -row[1])[:SHOWN]
            ),
        ]
