"""A log's environment: clock, randomness, deferred work, and failure reports.

A log decides on the event loop and does there what the page cache takes at once.  What waits for
the disk (fsync, deleting files) it leaves as a :class:`DeferredTask`, which its owner performs in a
thread.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NamedTuple


class DeferredTask(NamedTuple):
    """Something to do off the event loop, not before ``due_ms`` of the monotonic clock."""

    due_ms: int
    number: int
    """Work that is due at the same time is done in this order."""
    name: str
    partition: str
    action: Callable[[], None]
    """Blocks; may raise OSError."""
    directory: Path
    """The log directory that has failed if it does."""
    after: Callable[[], None] | None = None
    """What to do on the event loop once the action has succeeded."""


class DeferredTasks:
    """The work that logs deferred.

    Logs that are being loaded may add from their threads; the rest is for the event loop.  Bounded
    by what leaves them: a segment's roll leaves a flush, its deletion an unlink, a log's new epochs
    one write until that is taken.
    """

    def __init__(self) -> None:
        self._heap: list[DeferredTask] = []
        self._numbers = itertools.count()

    def add(
        self,
        name: str,
        partition: str,
        directory: Path,
        due_ms: int,
        action: Callable[[], None],
        after: Callable[[], None] | None = None,
    ) -> None:
        """Adds deferred work."""
        task = DeferredTask(due_ms, next(self._numbers), name, partition, action, directory, after)
        heapq.heappush(self._heap, task)

    def put_off(self, task: DeferredTask, due_ms: int) -> None:
        """Adds taken work again, for another time."""
        heapq.heappush(self._heap, task._replace(due_ms=due_ms))

    def take_due(self, now_ms: int) -> Iterator[DeferredTask]:
        """Removes and returns the due work, oldest first."""
        while self._heap and self._heap[0].due_ms <= now_ms:
            yield heapq.heappop(self._heap)

    def __len__(self) -> int:
        return len(self._heap)


def _ignore_failure(directory: Path, message: str, error: OSError) -> None:
    del directory, message, error


def _ignore_truncation(directory: Path) -> None:
    del directory


def _ignore_end(directory: Path, active_base_offset: int, is_below_recovery_point: bool) -> None:
    del directory, active_base_offset, is_below_recovery_point


def _ignore_flush(duration_ms: float) -> None:
    del duration_ms


def _one_day() -> int:
    return 86_400_000


def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class LogEnvironment:
    """Shared by the logs of a broker."""

    now_ms: Callable[[], int]
    """Milliseconds since 1970: for what is compared with timestamps of records or files."""
    monotonic_ms: Callable[[], int]
    """Milliseconds by which work is timed; setting the clock does not change them."""
    deferred_tasks: DeferredTasks = field(default_factory=DeferredTasks)
    random: Random = field(default_factory=Random)
    """Gives the jitter of rolls."""
    on_failure: Callable[[Path, str, OSError], None] = _ignore_failure
    """Called with the log directory that failed, before KafkaStorage is raised."""
    producer_id_expiration_ms: Callable[[], int] = _one_day
    """``producer.id.expiration.ms``, as it is now."""
    verifies_transactions: Callable[[], bool] = _always
    """``transaction.partition.verification.enable``, as it is now."""
    before_truncation: Callable[[Path], None] = _ignore_truncation
    """Called with a log's folder before records are cut off."""
    after_truncation: Callable[[Path, int, bool], None] = _ignore_end
    """Called with a log's folder and the base offset of its active segment once they are gone.

    The third value says whether the recovery point has fallen.  May write to disk; OSError if that
    fails.
    """
    on_flush: Callable[[float], None] = _ignore_flush
    """Called with the milliseconds that a flush took, in the thread that flushed."""
