"""One worker of pytest-xdist collects the tests before the others begin with it.

In a new clone that compiles a thousand files of tests, which pytest rewrites before; six workers
would each do all of it.  Meanwhile the linters have a processor.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

_FIRST: Final = "gw0"
_PAUSE_S: Final = 0.05
PATIENCE_S: Final = 300.0
"""A worker begins after so many seconds even if the first one has not ended its collection."""


class FirstCollection:
    """The plugin of a run's main process and of its workers; without workers it does nothing."""

    def __init__(self, config: pytest.Config) -> None:
        worker: dict[str, str] = getattr(config, "workerinput", {})
        self._worker_id = worker.get("workerid")
        self._is_done: Path | None = None
        if worker:
            self._is_done = _sign(worker["testrunuid"])

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Learns, in the main process, which file to remove at the end."""
        self._is_done = _sign(node.workerinput["testrunuid"])

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        """Waits for the first worker, or says to the others that this one has ended."""
        if self._worker_id is None:
            return (yield)
        assert self._is_done is not None
        if self._worker_id != _FIRST:
            deadline = time.monotonic() + PATIENCE_S
            while not self._is_done.exists() and time.monotonic() < deadline:
                time.sleep(_PAUSE_S)
            return (yield)
        try:
            return (yield)
        finally:
            self._is_done.touch()

    def pytest_unconfigure(self) -> None:
        """Removes the file."""
        if self._worker_id is None and self._is_done is not None:
            with suppress(OSError):
                self._is_done.unlink()


def _sign(run_id: str) -> Path:
    return Path(tempfile.gettempdir()) / f"pytest-collected-{run_id}"
