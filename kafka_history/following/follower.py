"""Follows logs: looks at files, stores what is new, and reports new findings."""

from __future__ import annotations

import fcntl
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from kafka_history.following.announcements import announce
from kafka_history.following.batches import BatchWriter
from kafka_history.following.recent_events import EVENTS_MAX, RecentEvents
from kafka_history.following.spool import Spool
from kafka_history.following.tailer import Problem, Tailer
from kafka_history.readers.ingest_plan import IngestOptions
from kafka_history.readers.manifest import FOLLOWING, read_manifest
from kafka_history.readers.problems import HistoryInvalid
from kafka_history.readers.sources import look_at
from kafka_history.report.assemble import watched

ANNOUNCED_FILE: Final = "told.json"
LOOKS_OF_ONCE: Final = 2
"""The second look sees that a file has stopped growing."""
REST: Final = 5
"""After a search for findings, wait this many times its duration, to use little of a core."""

Show = Callable[[list[dict[str, Any]]], None]
Complain = Callable[[Problem], None]


class FollowOptions(NamedTuple):
    """How logs are followed."""

    read: IngestOptions
    every_s: float = 1.0
    """Pause between two looks."""
    window_hours: int = 24
    """Findings are searched for in this many last hours of the logs."""
    is_once: bool = False
    """True: store what the files hold now, then return."""
    is_telling: bool = True
    """Whether to search for findings; False: only store rows, which is far less work."""
    timeout_s: float | None = None
    """When to stop; None: never."""


def follow(paths: Sequence[str], options: FollowOptions, show: Show, complain: Complain) -> None:
    """Follows the logs below the paths until ``timeout_s`` is over, or for ever.

    ``show`` gets rows with :data:`.announcements.KEYS`, ``complain`` each problem with a file.

    Raises:
        HistoryInvalid: a path or the directory is not usable, another process follows into it
        already, or a batch could not be stored.
    """
    for path in paths:
        if not Path(path).exists():
            raise HistoryInvalid(f"no such file or folder: {path}")
    out = Path(options.read.out)
    folder = out / FOLLOWING
    if not folder.exists() and read_manifest(out).ingests:
        raise HistoryInvalid(
            f"{out} holds an ingest, which following cannot go on from: give another directory"
        )
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        following = _Following(paths, options, show, complain)
        if options.is_once:
            following.once()
        else:
            following.for_ever()


class _Following:
    """One run of :func:`follow`, in the caller's thread."""

    def __init__(
        self, paths: Sequence[str], options: FollowOptions, show: Show, complain: Complain
    ) -> None:
        self._options = options
        self._show = show
        self._complain = complain
        self._out = Path(options.read.out)
        self._folder = self._out / FOLLOWING
        self._spool = Spool(self._folder)
        look = partial(look_at, cluster=options.read.cluster, broker_id=options.read.broker_id)
        self._tailer = Tailer(self._spool, paths, look)
        self._writer = BatchWriter(self._folder, options.read)
        self._recent: RecentEvents | None = None
        """None until the first search for findings."""
        self._rested_at = 0.0
        """Monotonic time from which findings may be searched for again."""
        self._telling: str | None = None
        """The last ingest whose findings were computed."""
        self._found: dict[str | None, dict[str, Any]] = {}
        """Findings by cluster of which some are not reported until no more records come."""

    def once(self) -> None:
        """Stores what the files hold now, and reports the findings."""
        for number in range(LOOKS_OF_ONCE):
            time.sleep(min(self._options.every_s, 1) if number else 0)
            self._look(is_last=number == LOOKS_OF_ONCE - 1)
        self._tell()
        self._settle()

    def for_ever(self) -> None:
        """Looks again and again until ``timeout_s`` is over or the caller is interrupted."""
        deadline = time.monotonic() + (self._options.timeout_s or float("inf"))
        while (left_s := deadline - time.monotonic()) > 0:
            is_new = self._look()
            if time.monotonic() >= self._rested_at and not self._tell() and not is_new:
                self._settle()
            time.sleep(min(self._options.every_s, left_s))

    def _look(self, *, is_last: bool = False) -> bool:
        """Stores new records, and batches of an earlier killed run; returns whether any were."""
        self._tailer.look(is_last=is_last)
        for problem in self._tailer.problems:
            self._complain(problem)
        is_new = False
        for look in self._spool.looks():
            if not self._writer.is_done(look):
                stored = self._writer.write(self._spool.batch(look))
                if self._recent is not None:
                    self._recent.rename(stored.renamed)
                    self._recent.add([stored.ingest])
                is_new = True
            self._spool.clean_up(look)
        return is_new

    def _tell(self) -> bool:
        """Reports the new findings of every cluster; False: no new rows, or no findings wanted."""
        ingests = read_manifest(self._out).ingests
        is_told = not ingests or ingests[-1] in (self._telling, self._announced()["ingest"])
        if not self._options.is_telling or is_told:
            return False
        begun = time.monotonic()
        if self._recent is None:
            self._recent = RecentEvents(self._out, self._options.window_hours)
            self._recent.add(ingests)
        if self._recent.is_cut:
            self._recent.is_cut = False
            said = f"findings are sought in the last {EVENTS_MAX} records of a cluster only"
            self._complain(Problem(str(self._out), said))
        self._found = {}
        for cluster, history in self._recent.histories():
            found = watched(history)
            if self._say(cluster, found, is_settled=False):
                self._found[cluster] = found
        self._telling = ingests[-1]
        if not self._found:
            self._remember({**self._announced(), "ingest": self._telling})
        ended = time.monotonic()
        self._rested_at = ended + REST * (ended - begun)
        return True

    def _settle(self) -> None:
        """Reports the findings that were held back, because no more rows have come."""
        if not self._found:
            return
        for cluster, found in self._found.items():
            self._say(cluster, found, is_settled=True)
        self._found = {}
        self._remember({**self._announced(), "ingest": self._telling})

    def _say(self, cluster: str | None, found: dict[str, Any], *, is_settled: bool) -> bool:
        """Shows the new findings of a cluster; returns whether some are held back."""
        kept = self._announced()
        new = announce(cluster, found, kept["told"], is_settled=is_settled)
        self._show(new.rows)
        # Remember them after showing them: a kill in between repeats them but loses none.
        self._remember({**kept, "told": new.announced})
        return new.is_held

    def _announced(self) -> dict[str, Any]:
        """The last ingest whose findings were reported, and the reported findings."""
        try:
            kept: dict[str, Any] = json.loads((self._folder / ANNOUNCED_FILE).read_text())
        except FileNotFoundError:
            return {"ingest": None, "told": {}}
        return kept

    def _remember(self, kept: dict[str, Any]) -> None:
        fresh = self._folder / f"{ANNOUNCED_FILE}.new"
        fresh.write_text(json.dumps(kept))
        fresh.replace(self._folder / ANNOUNCED_FILE)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Locks the directory against a second process; the lock ends with the process."""
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HistoryInvalid(f"another process follows into {folder.parent}") from None
        yield
