"""Runs a pure coordinator on the event loop: waiting requests, appends and timers.

The group coordinator and the transaction coordinator are run alike.  Each step is done at once;
what takes its time is a task, whose outcome comes back as an event.  Logs are read one after the
other by one thread (:mod:`.group_loading`).

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
    """The result for one partition's records."""

    @property
    def error(self) -> ErrorCode: ...

    @property
    def base_offset(self) -> int: ...


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
    ) -> Mapping[TopicPartition, AppendOutcome]:
        """A result for each partition, once the records are acknowledged or time is over."""


class Coordinator(Protocol[_Out]):
    """Decides without waiting."""

    @property
    def next_deadline_ms(self) -> int | None:
        """The time of the next Tick."""

    def step(self, given: Any, now_ms: int) -> Sequence[_Out]:
        """Processes a request or an event; returns the outputs."""


class Asks(Protocol):
    """A request; its answer has the same id."""

    @property
    def request_id(self) -> int: ...


class CoordinatorRun(Generic[_O]):
    """One coordinator and the requests that wait for it."""

    def __init__(
        self,
        coordinator: Coordinator[_O],
        perform: Callable[[_O], None],
        led_log: Callable[[TopicPartition], OffsetsLog | None],
        *,
        load_buffer_bytes: int,
        thread_name: str,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        """``led_log`` returns a partition's log while this broker leads it, else None."""
        self._coordinator = coordinator
        self._perform = perform
        self._led_log = led_log
        self._load_buffer_bytes = load_buffer_bytes
        self._now_ms = WallClock() if now_ms is None else now_ms
        self._responses: AwaitedResponses[Any] = AwaitedResponses()
        """One or a few wait for each connection whose request is here."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._ticker: asyncio.TimerHandle | None = None
        self._loader = ThreadPoolExecutor(1, thread_name_prefix=thread_name)
        self._load_turn = asyncio.Lock()

    def new_request_id(self) -> int:
        """A new request id."""
        return self._responses.new_id()

    async def ask(self, request: Asks, result_type: type[_R]) -> _R:
        """The coordinator's answer, which may take as long as a rebalance.

        CancelledError if the client goes away meanwhile; the coordinator has the request.
        """
        with self._responses.expected(request.request_id) as answer:
            self.step(request)
            with abandonable():
                result = await answer
        assert isinstance(result, result_type), (request, result)
        return result

    def answer(self, request_id: int, result: object) -> None:
        """Completes the waiting request, unless it has ended."""
        self._responses.complete(request_id, result)

    def step(self, given: object) -> None:
        """Passes an input to the coordinator and performs the outputs.

        An output that fails does not keep the others from being performed; then its failure is
        raised.
        """
        try:
            outputs = self._coordinator.step(given, self._now_ms())
        finally:
            self._set_ticker()
        failures: list[Exception] = []
        for output in outputs:
            try:
                self._perform(output)
            except Exception as failure:  # noqa: BLE001 - others wait for the other outputs
                failures.append(failure)
        if failures:
            raise failures[0]

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Starts a task."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Cancels every task; waiting requests get no answer."""
        if self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # Commits whose requests have ended.
        self._responses.cancel_all()
        self._loader.shutdown(wait=False, cancel_futures=True)

    def _set_ticker(self) -> None:
        deadline_ms = self._coordinator.next_deadline_ms
        if deadline_ms is None:
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + max(deadline_ms - self._now_ms(), 0) / 1000
        if self._ticker is not None:
            # One that comes too early does no harm; most deadlines move on before they come.
            if self._ticker.when() <= due:
                return
            self._ticker.cancel()
        self._ticker = loop.call_at(due, self._tick)

    def _tick(self) -> None:
        self._ticker = None
        self.step(Tick())

    async def load(self, topic: str, load: Load, log: logging.Logger) -> None:
        """Reads a partition and passes its records to the coordinator in pieces."""
        tp = TopicPartition(topic, load.partition)
        try:
            # One at a time: each holds a buffer, and there is one thread.
            async with self._load_turn:
                pieces = read_partition(
                    lambda: self._led_log(tp), self._load_buffer_bytes, self._loader
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
