"""What tests leave behind: descriptors, threads, clients, other settings; files in the project.

What one test leaves open is counted, collected or waited for in another one, which then fails by
chance.  So the test that leaves it fails itself, and names what it left.

A fixture that several tests share may open something at any time, as a cluster that connects again,
or a pool whose thread starts when it is first used.  So what comes while such fixtures live is
looked at when they have ended: then it is gone, or the last test fails and names where it came.
"""

from __future__ import annotations

import gc
import os
import sys
import sysconfig
import threading
import time
import warnings
from collections.abc import Callable, Generator, Hashable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from zkcontroller_testing import fork_server

GRACE_S: Final = 10.0
"""What was closed may take so long until it is gone: a thread ends, a client closes its sockets."""
_FIRST_PAUSE_S: Final = 0.005
_LONGEST_PAUSE_S: Final = 0.25
_NATIVE_CLIENT: Final = b"rdk:"
"""The threads of librdkafka are named so; Python knows nothing of them."""
UNWATCHED: Final = frozenset(
    ("attack", "browser", "clients", "container", "faults", "history", "kit", "peers", "planted")
)
"""Markers of the suites that ``make test`` leaves out, whose tests may still leave something."""
_LIBRARIES: Final = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
"""Some keep files of their own open for good, as matplotlib its fonts."""
_STANDARD: Final = frozenset("012")
"""pytest leads these to files while a test runs, and back."""


@dataclass(frozen=True)
class Belongings:
    """What this process holds at one moment, each with a description."""

    held: dict[Hashable, str]
    """Tasks are not among it: a loop that is closed has ended its own (``asyncio.run``)."""

    @staticmethod
    def now() -> Belongings:
        """What is held now."""
        return Belongings(_descriptors() | _threads() | _settings())

    def added(self, now: Belongings | None = None) -> dict[Hashable, str]:
        """What is held now and was not then."""
        held = (now or Belongings.now()).held
        return {key: held[key] for key in held.keys() - self.held.keys()}

    def left_behind(self) -> list[str]:
        """Descriptions of what is held now and was not then, and stays for GRACE_S.

        Garbage is collected meanwhile: what only a collection closes is left behind, too.
        """
        return _what_stays(self.added)


def _what_stays(look: Callable[[], dict[Hashable, str]]) -> list[str]:
    if not look():
        return []
    deadline, pause_s = time.monotonic() + GRACE_S, _FIRST_PAUSE_S
    with warnings.catch_warnings(record=True) as unclosed:
        warnings.simplefilter("always", ResourceWarning)
        # Not once: a thread that is about to end may still hold what is garbage afterwards.
        while True:
            gc.collect()
            if not (found := look()) or time.monotonic() >= deadline:
                break
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    return [*found.values(), *(str(warning.message) for warning in unclosed)]


def _descriptors() -> dict[Hashable, str]:
    found: dict[Hashable, str] = {}
    kept = _STANDARD | {str(each) for each in fork_server.servers}
    for name in set(os.listdir("/proc/self/fd")) - kept:
        with suppress(FileNotFoundError):  # the listing's own
            target = os.readlink(f"/proc/self/fd/{name}")
            if not target.startswith(_LIBRARIES):
                found["descriptor", name, target] = f"descriptor {name}: {target}"
    return found


def _threads() -> dict[Hashable, str]:
    of_python = threading.enumerate()
    found: dict[Hashable, str] = {thread: f"thread {thread.name}" for thread in of_python}
    for task in set(os.listdir("/proc/self/task")) - {str(each.native_id) for each in of_python}:
        # It may have ended meanwhile.
        with suppress(OSError), open(f"/proc/self/task/{task}/comm", "rb", 0) as comm:
            if (name := comm.read()).startswith(_NATIVE_CLIENT):
                client = name.decode().strip()
                found["native", task] = f"a client of librdkafka: thread {client}"
    return found


def _settings() -> dict[Hashable, str]:
    thresholds, interval_s = gc.get_threshold(), sys.getswitchinterval()
    return {
        ("garbage collection", thresholds): f"gc.set_threshold{thresholds}",
        ("switch of threads", interval_s): f"sys.setswitchinterval({interval_s})",
    }


class CleanTree:
    """A plugin of a run's main process, which fails a run that leaves a file in the project.

    A program that a test starts without a directory of its own writes there, and the next run, or
    a test that reads the project, takes that for the project's.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._before = self._names()
        self._added: list[str] = []

    def _names(self) -> set[str]:
        """At the top, without what tools keep for themselves."""
        return {each for each in os.listdir(self._root) if not each.startswith((".", "__"))}

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Compares when all tests have ended."""
        self._added = sorted(self._names() - self._before)
        if self._added and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Says why the run has failed."""
        if self._added:
            names = ", ".join(self._added)
            terminalreporter.write_line(f"ERROR new in {self._root} since the tests began: {names}")


class _Noted(NamedTuple):
    """What came while fixtures lived that tests share."""

    came: dict[Hashable, str]
    fixtures: frozenset[pytest.FixtureDef[Any]]


class Leftovers:
    """A plugin of pytest, which fails the test that leaves something behind."""

    def __init__(self) -> None:
        self._living: set[pytest.FixtureDef[Any]] = set()
        """The fixtures that tests share; those of pytest itself open nothing later."""
        self._noted: list[_Noted] = []
        self._before: Belongings | None = None
        """What was held when the last test had ended, if the next one begins with that."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> None:
        """A fixture begins."""
        if fixturedef.scope != "function" and not fixturedef.func.__module__.startswith("_pytest."):
            self._living.add(fixturedef)

    def pytest_fixture_post_finalizer(self, fixturedef: pytest.FixtureDef[Any]) -> None:
        """A fixture has ended."""
        self._living.discard(fixturedef)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Looks when the test's fixtures have ended, shared ones after their last test."""
        if not UNWATCHED.isdisjoint(marker.name for marker in item.iter_markers()):
            return (yield)
        before = self._before or Belongings.now()
        result = yield
        left = self._left_by_earlier_tests()
        self._before = Belongings.now()
        came = before.added(self._before)
        if came and self._living:
            named = {key: f"{what} (in {item.nodeid})" for key, what in came.items()}
            self._noted.append(_Noted(named, frozenset(self._living)))
        elif came:
            self._before = None
            left += before.left_behind()
            if not left:
                # What has survived the collection lives on: the next one need not look at it.
                gc.freeze()
        if left:
            text = "left behind: " + ", ".join(left)
            report = pytest.TestReport(
                item.nodeid, item.location, {}, "failed", text, when="teardown"
            )
            item.ihook.pytest_runtest_logreport(report=report)
        return result

    def _left_by_earlier_tests(self) -> list[str]:
        came: dict[Hashable, str] = {}
        for noted in self._noted:
            if not noted.fixtures & self._living:
                came |= noted.came
        self._noted = [noted for noted in self._noted if noted.fixtures & self._living]

        def still_held() -> dict[Hashable, str]:
            return {key: came[key] for key in came.keys() & Belongings.now().held.keys()}

        return _what_stays(still_held) if came else []
