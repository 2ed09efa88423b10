"""How long each file of tests took, kept for ``make affected``, which has little time to spend."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import pytest

CACHE_KEY: Final = "affected/seconds"
ENDED_BY_ITSELF: Final = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)


class FileSeconds:
    """The plugin: adds up the seconds of each file, and stores them in pytest's cache at the end.

    A run that names single tests, or selects some by ``-k``, stores nothing: it measures parts.
    """

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Counts one phase of one test; reports of workers arrive here, too."""
        self.seconds[report.nodeid.partition("::")[0]] += report.duration

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Stores the sums beside those of earlier runs."""
        config = session.config
        is_part = config.getoption("keyword") or any("::" in each for each in config.args)
        cache = getattr(config, "cache", None)  # none with -p no:cacheprovider
        if cache is None or is_part or exitstatus not in ENDED_BY_ITSELF:
            return
        measured = {file: round(seconds, 2) for file, seconds in self.seconds.items()}
        if measured:
            cache.set(CACHE_KEY, cache.get(CACHE_KEY, {}) | measured)
