"""A pool of threads whose number can be changed while it works.

The standard library's pool cannot shrink.  So a resize makes a new pool, which takes all further
work.  The old pool finishes the work submitted to it; then its threads end.

Source: Kafka ``KafkaRequestHandlerPool.resizeThreadPool``, ``KafkaScheduler.resizeThreadPool``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from typing_extensions import override

_P = ParamSpec("_P")
_R = TypeVar("_R")


class ResizableExecutor(Executor):
    """A pool of threads that any thread may use and resize."""

    def __init__(self, threads: int, thread_name_prefix: str) -> None:
        self._prefix = thread_name_prefix
        self._lock = threading.Lock()
        self._threads = threads
        self._current = ThreadPoolExecutor(threads, thread_name_prefix)
        self._former: list[ThreadPoolExecutor] = []

    @property
    def threads(self) -> int:
        """The number of threads for work that is submitted from now on."""
        return self._threads

    def resize(self, threads: int) -> None:
        """Sets the number of threads for work that is submitted from now on."""
        with self._lock:
            if threads == self._threads:
                return
            self._threads = threads
            self._current.shutdown(wait=False)
            self._former = [each for each in self._former if _is_at_work(each)]
            self._former.append(self._current)
            self._current = ThreadPoolExecutor(threads, self._prefix)

    @override
    def submit(self, fn: Callable[_P, _R], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_R]:
        with self._lock:
            return self._current.submit(fn, *args, **kwargs)

    @override
    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        with self._lock:
            pools = (*self._former, self._current)
        for pool in pools:
            pool.shutdown(wait, cancel_futures=cancel_futures)


def _is_at_work(pool: ThreadPoolExecutor) -> bool:
    """Whether a pool that was shut down still has threads."""
    return any(thread.is_alive() for thread in pool._threads)
