"""A log's environment: clock, randomness, deferred work, and failure reports.

A log runs on the event loop and writes there to the page cache only.  Work that waits for the disk
(fsync, deleting files) is left as a :class:`DeferredTask`, which the log maintenance runs in a
thread.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

from msgspec import Struct, field


class DeferredTask(NamedTuple):
    """Work for a thread, not before ``due_ms`` (milliseconds of the monotonic clock)."""

    due_ms: int
    number: int
    """The order of tasks that are due at the same time."""
    name: str
    partition: str
    action: Callable[[], None]
    """Blocks; may raise OSError."""
    directory: Path
    """The log directory to take offline if ``action`` raises OSError."""
    after: Callable[[], None] | None = None
    """Called on the event loop after ``action`` has succeeded."""


class DeferredTasks:
    """The deferred tasks of all logs.

    Threads that load logs may call :meth:`add`; all other methods are for the event loop.  The
    number of tasks is bounded: one flush for each roll, one unlink for each deletion, and for each
    log at most one write of the leader epochs and one of the topic id.
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
        """Adds a deferred task, due at ``due_ms`` of the monotonic clock."""
        task = DeferredTask(due_ms, next(self._numbers), name, partition, action, directory, after)
        heapq.heappush(self._heap, task)

    def put_off(self, task: DeferredTask, due_ms: int) -> None:
        """Adds a taken task again, due at ``due_ms``."""
        heapq.heappush(self._heap, task._replace(due_ms=due_ms))

    def take_due(self, now_ms: int) -> Iterator[DeferredTask]:
        """Removes and returns the due tasks, earliest first."""
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


class LogEnvironment(Struct, frozen=True):
    """The environment that all logs of a broker share."""

    now_ms: Callable[[], int]
    """The time in milliseconds since 1970, to compare with timestamps of records and files."""
    monotonic_ms: Callable[[], int]
    """Milliseconds of a monotonic clock, to time work; setting the system clock has no effect."""
    deferred_tasks: DeferredTasks = field(default_factory=DeferredTasks)
    random: Random = field(default_factory=Random)
    """Chooses the ``segment.jitter.ms`` of each segment."""
    on_failure: Callable[[Path, str, OSError], None] = _ignore_failure
    """Called with the log directory that failed, before KafkaStorage is raised."""
    producer_id_expiration_ms: Callable[[], int] = _one_day
    """The current ``producer.id.expiration.ms``."""
    verifies_transactions: Callable[[], bool] = _always
    """The current ``transaction.partition.verification.enable``."""
    before_truncation: Callable[[Path], None] = _ignore_truncation
    """Called with a log's folder before the log is truncated."""
    after_truncation: Callable[[Path, int, bool], None] = _ignore_end
    """Called with a log's folder and the base offset of its active segment after a truncation.

    The third value says whether the truncation lowered the recovery point.  The function may write
    to disk, and raises OSError if that fails.
    """
    on_flush: Callable[[float], None] = _ignore_flush
    """Called with the milliseconds that a flush took, in the thread that flushed."""

    def jitter_ms(self, most: int) -> int:
        """A new segment's jitter, less than ``most``."""
        return self.random.randrange(most) if most else 0
