"""Measures how long callbacks hold the event loop, and names those that hold it too long.

While a callback of an event loop runs, no other connection is served.  A :class:`LoopWatch`
measures every callback of every loop in the process, from ``installed`` until the block ends.  It
counts the processor time of the thread, not the time on the clock: a busy machine makes a callback
late, but only the callback's own work makes it long.

It also measures how long a loop is idle, waiting in ``select``.  One loop does the work of Kafka's
network processors and request handlers, so their idle metrics show the idle share of the loop.

A callback that takes ``bound_ms`` or more is *long*.  The watch counts long callbacks, keeps the
last ones with their names, and logs them.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from selectors import DefaultSelector
from threading import local
from time import monotonic, monotonic_ns, thread_time_ns
from types import CoroutineType, GeneratorType
from typing import Any, Final, NamedTuple

from kafka_common.errors import ConfigInvalid
from kafka_common.observability.instruments import Meter
from kafka_common.observability.metrics import Metrics, mbean
from kafka_common.observability.sensors import RateSensor

BOUND_MS: Final = 50.0
"""Milliseconds that no callback should exceed, because every other client waits for it."""
KEPT: Final = 1_000
"""The number of long callbacks that are kept, the newest ones."""
WINDOW_S: Final = 60.0
"""``recent_ms`` covers between one and two windows."""
LOG_INTERVAL_S: Final = 1.0
"""At most one line about long callbacks is logged in this time."""
VARIABLE: Final = "ZKCONTROLLER_LOOP_WATCH_MS"
"""Environment variable of brokers and quorum nodes: watch the loop, with this bound in ms."""

_MOST_NESTED: Final = 50
_ASYNCIO: Final = asyncio.__path__[0]
_log = logging.getLogger("zkcontroller.EventLoop")


class LongCallback(NamedTuple):
    """One callback that took too long."""

    name: str
    """The function's name; for a task its coroutine and the line at which it waits."""
    cpu_ms: float
    """Processor time of the callback, garbage collection included."""
    collecting_ms: float
    """The part of ``cpu_ms`` that was garbage collection."""


class _Collections(local):
    """The time of garbage collections in one thread, where they delay the running callback.

    Other threads may have loops of their own.
    """

    began_ns = 0
    took_ns = 0


class LoopWatch:
    """Measures the processor time of callbacks.  A process may have one installed at a time."""

    def __init__(self, bound_ms: float = BOUND_MS, now_s: Callable[[], float] = monotonic) -> None:
        self.bound_ms = bound_ms
        self.longest: LongCallback | None = None
        """The longest of the long callbacks; None if there was none."""
        self.long_count = 0
        self.long_callbacks: deque[LongCallback] = deque(maxlen=KEPT)
        self._now_s = now_s
        self._longest_ns = 0
        self._recent_ns = self._before_ns = 0
        self._window_began_s = self._logged_at_s = now_s()
        self._logged_count = 0
        self._unlogged: LongCallback | None = None
        self._collections = _Collections()
        self.idle = Meter("percent")
        """The nanoseconds in which the loop was idle."""
        self._idle_share = RateSensor("idle-ns")

    @property
    def idle_share(self) -> float:
        """The share of about the last minute in which the loop was idle, from 0 to 1.

        In the first half minute it rises from 0, because the time before the start counts as busy.

        Source: Kafka ``Selector`` (``io-wait-ratio``).
        """
        return min(1.0, self._idle_share.attributes()["idle-ns"] / 1e9)

    @property
    def longest_ms(self) -> float:
        """Milliseconds of the longest callback since the start, also if it was below the bound."""
        return self._longest_ns / 1e6

    @property
    def recent_ms(self) -> float:
        """Milliseconds of the longest callback in the last one to two minutes."""
        self._begin_window()
        return max(self._recent_ns, self._before_ns) / 1e6

    @contextmanager
    def installed(self) -> Iterator[LoopWatch]:
        """Measures until the end of the block."""
        handle: Any = asyncio.Handle
        run = handle._run
        bound_ns = int(self.bound_ms * 1e6)

        def measured(each: asyncio.Handle) -> None:
            self._collections.took_ns = 0
            began_ns = thread_time_ns()
            run(each)
            took_ns = thread_time_ns() - began_ns
            if took_ns > self._recent_ns:
                self._begin_window()
                self._recent_ns = max(self._recent_ns, took_ns)
                self._longest_ns = max(self._longest_ns, took_ns)
            if took_ns >= bound_ns:
                self._note(each, took_ns)

        selector: Any = DefaultSelector
        select = selector.select

        def idle(each: object, timeout: float | None = None) -> Any:
            if (timeout is not None and timeout <= 0) or asyncio._get_running_loop() is None:
                return select(each, timeout)
            began_ns = monotonic_ns()
            ready = select(each, timeout)
            took_ns = monotonic_ns() - began_ns
            self.idle.mark(took_ns)
            self._idle_share.record(took_ns)
            return ready

        handle._run = measured
        selector.select = idle
        gc.callbacks.append(self._collecting)
        try:
            yield self
        finally:
            handle._run = run
            selector.select = select
            gc.callbacks.remove(self._collecting)

    def register(self, metrics: Metrics) -> None:
        """Adds metrics: ``zkcontroller.server:type=EventLoop`` and Kafka's idle percentages.

        Source: Kafka ``KafkaRequestHandlerPool``, ``SocketServer``, ``Processor``.
        """

        def gauge(name: str, read: Callable[[], float]) -> None:
            metrics.gauge(mbean("zkcontroller.server", "EventLoop", name), read)

        metrics.show(
            mbean("kafka.server", "KafkaRequestHandlerPool", "RequestHandlerAvgIdlePercent"),
            self.idle,
        )
        for name in (
            mbean("kafka.network", "SocketServer", "NetworkProcessorAvgIdlePercent"),
            mbean("kafka.network", "Processor", "IdlePercent", {"networkProcessor": 0}),
        ):
            metrics.gauge(name, lambda: self.idle_share)
        gauge("LongestCallbackMs", lambda: self.longest_ms)
        gauge("RecentLongestCallbackMs", lambda: self.recent_ms)
        gauge("LongCallbacks", lambda: self.long_count)

    def _begin_window(self) -> None:
        now_s = self._now_s()
        windows = int((now_s - self._window_began_s) / WINDOW_S)
        if windows > 0:
            self._before_ns = self._recent_ns if windows == 1 else 0
            self._recent_ns = 0
            self._window_began_s += windows * WINDOW_S

    def _collecting(self, phase: str, _: dict[str, int]) -> None:
        collections = self._collections
        if phase == "start":
            collections.began_ns = thread_time_ns()
        else:
            collections.took_ns += thread_time_ns() - collections.began_ns

    def _note(self, handle: asyncio.Handle, took_ns: int) -> None:
        long = LongCallback(_name(handle), took_ns / 1e6, self._collections.took_ns / 1e6)
        self.long_count += 1
        self.long_callbacks.append(long)
        if self.longest is None or long.cpu_ms > self.longest.cpu_ms:
            self.longest = long
        if self._unlogged is None or long.cpu_ms > self._unlogged.cpu_ms:
            self._unlogged = long
        now_s = self._now_s()
        if self._logged_count == 0 or now_s - self._logged_at_s >= LOG_INTERVAL_S:
            _log.warning(
                "%s held the event loop for %.0f ms (garbage collection: %.0f ms); "
                "%d callbacks of at least %.0f ms since the last such line",
                *self._unlogged, self.long_count - self._logged_count, self.bound_ms,
            )  # fmt: skip
            self._unlogged = None
            self._logged_at_s, self._logged_count = now_s, self.long_count


def watching(metrics: Metrics, *, has_readers: bool) -> AbstractContextManager[object]:
    """A block that watches a server's loop if metrics have readers or the variable is set.

    Raises ConfigInvalid if the variable is not a positive number.
    """
    wanted = os.environ.get(VARIABLE, "")
    if not wanted and not has_readers:
        return nullcontext()
    try:
        bound_ms = float(wanted) if wanted else BOUND_MS
    except ValueError:
        bound_ms = 0.0
    if not 0 < bound_ms < float("inf"):
        raise ConfigInvalid(VARIABLE, wanted, "a positive number of milliseconds")
    watch = LoopWatch(bound_ms)
    watch.register(metrics)
    return watch.installed()


def _name(handle: asyncio.Handle) -> str:
    callback: Any = getattr(handle, "_callback", None)
    task = getattr(callback, "__self__", None)
    if not isinstance(task, asyncio.Task):
        return str(getattr(callback, "__qualname__", None) or repr(callback))
    names: list[str] = []
    where = "ended" if task.done() else ""
    at: Any = task.get_coro()
    for _ in range(_MOST_NESTED):
        if isinstance(at, CoroutineType):
            frame, inner = at.cr_frame, at.cr_await
        elif isinstance(at, GeneratorType):
            frame = at.gi_frame
            owner = None if frame is None else frame.f_locals.get("self")
            inner = getattr(owner, "coroutine", None)  # as server.loop_time.Timed has it
        else:
            break
        if frame is None or not frame.f_code.co_filename.startswith(_ASYNCIO):
            names.append(at.__qualname__)
            if frame is not None:
                where = f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"
        at = inner
    return f"{' > '.join(names)} ({where})"
