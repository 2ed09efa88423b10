"""Runs a pure coordinator on the event loop: waiting requests, appends and timers.

The group coordinator and the transaction coordinator run in the same way.  A step of a coordinator
never waits.  Appends and other slow work run as tasks, whose results come back as events.  One
thread reads one log after the other (:mod:`.group_loading`).

Source: Kafka ``GroupCoordinatorAdapter``, ``TransactionCoordinator``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, Protocol, TypeVar

from kio.schema.errors import ErrorCode

from kafka_common.errors import ZkControllerError
from kafka_common.model import TopicPartition
from kafka_common.net.awaited_responses import AwaitedResponses
from kafka_common.net.presence import abandonable
from kafka_common.process.wall_clock import WallClock
from kafka_common.protocol.record_batch import MemoryRecords
from replica_manager.coordinators.group_loading import OffsetsLog, read_partition
from replica_manager.coordinators.groups.events import Load, Loaded, LoadFailed, LoadFinished, Tick
from replica_manager.log.producer_state_manager import AppendOrigin, VerificationGuard

_Out = TypeVar("_Out", covariant=True)
_O = TypeVar("_O")
_R = TypeVar("_R")


class AppendOutcome(Protocol):
    """The result of an append to one partition; ``base_offset`` is -1 after an error."""

    @property
    def error(self) -> ErrorCode: ...

    @property
    def base_offset(self) -> int: ...


class AppendBegun(Protocol):
    """An append that was begun."""

    async def acknowledged(self) -> Mapping[TopicPartition, AppendOutcome]:
        """One result per partition, after acknowledgement or timeout."""


class Appends(Protocol):
    """Appends to partitions that this broker leads."""

    async def append_records(
        self,
        batches: Mapping[TopicPartition, MemoryRecords],
        *,
        acks: int,
        timeout_ms: int,
        origin: AppendOrigin = ...,
        guards: Mapping[TopicPartition, VerificationGuard] | None = ...,
    ) -> AppendBegun:
        """Appends records."""


class Coordinator(Protocol[_Out]):
    """A pure coordinator: takes inputs, returns outputs, never waits."""

    @property
    def next_deadline_ms(self) -> int | None:
        """The time of the next Tick; None if none is needed."""

    def step(self, given: Any, now_ms: int) -> Sequence[_Out]:
        """Processes a request or an event; returns the outputs."""


class Asks(Protocol):
    """A request to a coordinator; its response has the same id."""

    @property
    def request_id(self) -> int: ...


class CoordinatorRun(Generic[_O]):
    """Runs one coordinator, with the requests that wait for its responses."""

    def __init__(
        self,
        coordinator: Coordinator[_O],
        perform: Callable[[_O], None],
        led_log: Callable[[TopicPartition], OffsetsLog | None],
        *,
        load_buffer_bytes: int,
        on_larger: Callable[[TopicPartition, int], None],
        thread_name: str,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        """``perform`` carries out one output of the coordinator.

        ``led_log`` returns a partition's log if this broker leads the partition, else None.
        ``on_larger`` gets the bytes of a batch that is larger than the buffer.
        """
        self._coordinator = coordinator
        self._perform = perform
        self._led_log = led_log
        self._load_buffer_bytes = load_buffer_bytes
        self._on_larger = on_larger
        self._now_ms = WallClock() if now_ms is None else now_ms
        self._responses: AwaitedResponses[Any] = AwaitedResponses()
        """The requests that wait for a response: few per connection."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._ticker: asyncio.TimerHandle | None = None
        self._loader = ThreadPoolExecutor(1, thread_name_prefix=thread_name)
        self._load_turn = asyncio.Lock()

    def new_request_id(self) -> int:
        """A new request id."""
        return self._responses.new_id()

    async def ask(self, request: Asks, result_type: type[_R]) -> _R:
        """The coordinator's response, which may take as long as a rebalance.

        CancelledError if the client disconnects meanwhile; the coordinator still handles the
        request.
        """
        with self._responses.expected(request.request_id) as response:
            self.step(request)
            with abandonable():
                result = await response
        assert isinstance(result, result_type), (request, result)
        return result

    def respond(self, request_id: int, result: object) -> None:
        """Passes a response to the request that waits for it; does nothing if that has ended."""
        self._responses.complete(request_id, result)

    def step(self, given: object) -> None:
        """Passes an input to the coordinator and performs the outputs.

        If an output fails, the others are still performed; then the first exception is raised.
        """
        try:
            outputs = self._coordinator.step(given, self._now_ms())
        finally:
            self._set_ticker()
        failures: list[Exception] = []
        for output in outputs:
            try:
                self._perform(output)
            except Exception as failure:  # noqa: BLE001 - the other outputs must be performed
                failures.append(failure)
        if failures:
            raise failures[0]

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Starts a task, which :meth:`stop` cancels."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Cancels all tasks and all waiting requests."""
        if self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._responses.cancel_all()
        self._loader.shutdown(wait=False, cancel_futures=True)

    def _set_ticker(self) -> None:
        deadline_ms = self._coordinator.next_deadline_ms
        if deadline_ms is None:
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + max(deadline_ms - self._now_ms(), 0) / 1000
        if self._ticker is not None:
            # A tick that is too early does no harm, and most deadlines move before they are due.
            if self._ticker.when() <= due:
                return
            self._ticker.cancel()
        self._ticker = loop.call_at(due, self._tick)

    def _tick(self) -> None:
        self._ticker = None
        self.step(Tick())

    async def load(self, topic: str, load: Load, log: logging.Logger) -> None:
        """Reads a partition and passes its records to the coordinator in pieces.

        Then passes the end of the load: LoadFinished or LoadFailed.
        """
        tp = TopicPartition(topic, load.partition)
        try:
            # One load at a time: each has a buffer, and there is one thread.
            async with self._load_turn:
                pieces = read_partition(
                    lambda: self._led_log(tp),
                    self._load_buffer_bytes,
                    self._loader,
                    lambda size: self._on_larger(tp, size),
                )
                async for batches in pieces:
                    self.step(Loaded(load.load_id, batches))
        except (ZkControllerError, OSError) as failure:
            self.step(LoadFailed(load.load_id, str(failure) or type(failure).__name__))
        except Exception as failure:
            log.exception("Loading %s failed", tp)
            self.step(LoadFailed(load.load_id, repr(failure)))
        else:
            self.step(LoadFinished(load.load_id))
