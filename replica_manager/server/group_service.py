"""Runs the group coordinator: the pure one decides, this one waits, on the broker's event loop.

Requests come from handlers and wait here for their answers; partitions come and go with the replica
manager's word; a timer ticks when something is due.  What the coordinator wants appended goes to
``__consumer_offsets`` as any leader's records do, and the outcome comes back as an event.  Appends
begin in the order in which they were asked for.

Logs are read one after the other by one thread (:mod:`.group_loading`).

Source: Kafka ``GroupCoordinatorAdapter``, ``GroupCoordinator`` (``startup``, ``onElection``,
``onResignation``, ``onPartitionsDeleted``), ``GroupMetadataManager`` (gauges).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any, Final, Protocol, TypeVar, assert_never
from uuid import uuid4

from kio.schema.errors import ErrorCode

from replica_manager.groups.batches import append_batch
from replica_manager.groups.coordinator import GroupCoordinator
from replica_manager.groups.desk import OFFSETS_TOPIC
from replica_manager.groups.events import (
    Answer,
    Append,
    Appended,
    Elected,
    Input,
    Load,
    Loaded,
    LoadFailed,
    LoadFinished,
    LogLine,
    Measured,
    Output,
    PartitionsDeleted,
    Quantity,
    Resigned,
    Shutdown,
    Startup,
    Tick,
    TransactionCompleted,
)
from replica_manager.groups.group import GroupState
from replica_manager.groups.requests import Request, Result
from replica_manager.log.producer_state import AppendOrigin, VerificationGuard
from replica_manager.server.group_loading import OffsetsLog, read_partition
from replica_manager.server.group_settings import GroupSettings
from zkcontroller.errors import ZkControllerError
from zkcontroller.model import TopicPartition
from zkcontroller.protocol.compression import Buffer
from zkcontroller.protocol.error_codes import error_code_for
from zkcontroller.runtime.metrics import Metrics
from zkcontroller.runtime.sensors import MeterSensor, Sensor, SpanSensor

_log = logging.getLogger("kafka.coordinator.group.GroupMetadataManager")
_coordinator_log = logging.getLogger("kafka.coordinator.group.GroupCoordinator")
_R = TypeVar("_R", bound=Result)

_GAUGES: Final = {
    GroupState.PREPARING_REBALANCE: "NumGroupsPreparingRebalance",
    GroupState.COMPLETING_REBALANCE: "NumGroupsCompletingRebalance",
    GroupState.STABLE: "NumGroupsStable",
    GroupState.DEAD: "NumGroupsDead",
    GroupState.EMPTY: "NumGroupsEmpty",
}


_SENSORS_MBEAN: Final = "kafka.server:type=group-coordinator-metrics"


class AppendOutcome(Protocol):
    """What became of one partition's records."""

    @property
    def error(self) -> ErrorCode: ...

    @property
    def base_offset(self) -> int: ...


class Appends(Protocol):
    """Appending to partitions that this broker leads."""

    async def append(
        self,
        batches: Mapping[TopicPartition, Buffer],
        *,
        acks: int,
        timeout_ms: int,
        origin: AppendOrigin = ...,
        guards: Mapping[TopicPartition, VerificationGuard] | None = ...,
    ) -> Mapping[TopicPartition, AppendOutcome]:
        """An outcome for each partition, when the records are acknowledged or the time is over."""


class WallClock:
    """Milliseconds since 1970 that never go back: the wall clock as it was, and what passed since.

    Whoever sets the clock ends no session by it.
    """

    def __init__(self) -> None:
        self._since_1970_ms = time.time_ns() // 1_000_000 - time.monotonic_ns() // 1_000_000

    def __call__(self) -> int:
        return self._since_1970_ms + time.monotonic_ns() // 1_000_000


class GroupService:
    """The group coordinator of one broker.  For the event loop."""

    def __init__(
        self,
        settings: GroupSettings,
        appends: Appends,
        led_log: Callable[[TopicPartition], OffsetsLog | None],
        *,
        now_ms: Callable[[], int] | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        """``led_log``: a partition's log while this broker leads it, else None."""
        self._settings = settings
        self._appends = appends
        self._led_log = led_log
        self._now_ms = WallClock() if now_ms is None else now_ms
        self._coordinator = GroupCoordinator(settings.config, uuid4)
        self._waiting: dict[int, asyncio.Future[Result]] = {}
        """By request id; one for each connection whose request is here at most."""
        self._request_ids = count(1)
        self._tasks: set[asyncio.Task[None]] = set()
        self._ticker: asyncio.TimerHandle | None = None
        self._loader = ThreadPoolExecutor(1, thread_name_prefix="group-metadata-manager")
        self._load_turn = asyncio.Lock()
        self._sensors = _sensors(Metrics() if metrics is None else metrics, settings)

    # ------------------------------------------------------------------ for handlers

    def new_request_id(self) -> int:
        """The id of a request that is about to be asked."""
        return next(self._request_ids)

    async def ask(self, request: Request, result_type: type[_R]) -> _R:
        """The coordinator's answer, which may take as long as a rebalance."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting[request.request_id] = future
        try:
            self._step(request)
        except BaseException:
            self._waiting.pop(request.request_id, None)
            raise
        result = await future
        assert isinstance(result, result_type), (request, result)
        return result

    def partition_for(self, group_id: str) -> int:
        """Whose leader coordinates that group."""
        return self._coordinator.partition_for(group_id)

    # ------------------------------------------------------------------ from the broker

    def start(self, partition_count: int | None) -> None:
        """``partition_count``: of ``__consumer_offsets``, None where there is no such topic yet."""
        if partition_count is None:
            partition_count = self._settings.default_partition_count
        self._say("Starting up.")
        self._step(Startup(partition_count))
        self._say("Startup complete.")

    async def stop(self) -> None:
        """Answers who is parked that there is no coordinator here; ends everything under way."""
        self._say("Shutting down.")
        self._step(Shutdown())
        if self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # Commits whose acknowledgement nobody waits for any more.
        for future in self._waiting.values():
            future.cancel()
        self._waiting.clear()
        self._loader.shutdown(wait=False, cancel_futures=True)
        self._say("Shutdown complete.")

    def on_led(self, partition: TopicPartition, leader_epoch: int) -> None:
        """This broker became leader of a partition, of any topic."""
        if partition.topic == OFFSETS_TOPIC:
            self._step(Elected(partition.partition, leader_epoch))

    def on_resigned(self, partition: TopicPartition, leader_epoch: int | None) -> None:
        """It leads it no more, or the replica is gone (no epoch)."""
        if partition.topic == OFFSETS_TOPIC:
            self._step(Resigned(partition.partition, leader_epoch))

    def on_partitions_deleted(self, partitions: Iterable[TopicPartition]) -> None:
        """Partitions of any topic that the controller has deleted: nobody needs their offsets."""
        deleted = tuple(partitions)
        if deleted:
            self._step(PartitionsDeleted(deleted))

    def on_transaction_completed(
        self, producer_id: int, partitions: Iterable[int], *, is_commit: bool
    ) -> None:
        """A producer's marker stands in these partitions of ``__consumer_offsets``."""
        self._step(TransactionCompleted(producer_id, frozenset(partitions), is_commit))

    def gauges(self) -> dict[str, int]:
        """Values of ``kafka.coordinator.group:type=GroupMetadataManager``, by name; any thread."""
        groups = list(self._coordinator.groups.values())
        states = Counter(group.state for group in groups)
        return {
            "NumOffsets": sum(len(group.offsets) for group in groups),
            "NumGroups": len(groups),
            **{name: states[state] for state, name in _GAUGES.items()},
        }

    def _say(self, text: str) -> None:
        _coordinator_log.info("[GroupCoordinator %d]: %s", self._settings.config.broker_id, text)

    # ------------------------------------------------------------------ driving

    def _step(self, given: Input) -> None:
        try:
            outputs = self._coordinator.step(given, self._now_ms())
        finally:
            self._set_ticker()
        for output in outputs:
            self._perform(output)

    def _perform(self, output: Output) -> None:
        match output:
            case Answer(request_id, result):
                future = self._waiting.pop(request_id, None)
                # Who asked may have gone away while it was parked.
                if future is not None and not future.done():
                    future.set_result(result)
            case Append():
                self._begin(self._append(output))
            case Load(partition, load_id):
                self._begin(self._load(partition, load_id))
            case LogLine(level, logger, text):
                logging.getLogger(logger).log(level.value, "%s", text)
            case Measured(quantity, value):
                self._sensors[quantity].record(value)
            case _:
                assert_never(output)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

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
        self._step(Tick())

    # ------------------------------------------------------------------ the log

    async def _append(self, append: Append) -> None:
        partition = TopicPartition(OFFSETS_TOPIC, append.partition)
        error, base_offset = await self._appended(partition, append)
        if append.append_id is not None:
            self._step(Appended(append.append_id, error, base_offset))

    async def _appended(self, partition: TopicPartition, append: Append) -> tuple[ErrorCode, int]:
        try:
            outcomes = await self._appends.append(
                {partition: append_batch(append, self._settings.codec)},
                acks=append.required_acks,
                timeout_ms=append.timeout_ms,
                origin=AppendOrigin.COORDINATOR,
                guards=_guards(partition, append),
            )
        except ZkControllerError as failure:
            return error_code_for(failure), -1
        except Exception:  # noqa: BLE001 - whatever it is, who waits for it must be answered
            _log.exception("Appending to %s failed", partition)
            return ErrorCode.unknown_server_error, -1
        return outcomes[partition].error, outcomes[partition].base_offset

    async def _load(self, partition: int, load_id: int) -> None:
        tp = TopicPartition(OFFSETS_TOPIC, partition)
        try:
            # One at a time: each holds offsets.load.buffer.size, and there is one thread.
            async with self._load_turn:
                pieces = read_partition(
                    lambda: self._led_log(tp), self._settings.load_buffer_bytes, self._loader
                )
                async for batches in pieces:
                    self._step(Loaded(load_id, batches))
        except (ZkControllerError, OSError) as failure:
            self._step(LoadFailed(load_id, str(failure) or type(failure).__name__))
        except Exception as failure:  # noqa: BLE001 - whatever it is, the load has not succeeded
            _log.exception("Loading %s failed", tp)
            self._step(LoadFailed(load_id, repr(failure)))
        else:
            self._step(LoadFinished(load_id))


def _guards(
    partition: TopicPartition, append: Append
) -> Mapping[TopicPartition, VerificationGuard]:
    if append.producer is None or append.producer.guard is None:
        return {}
    return {partition: append.producer.guard}


def _sensors(metrics: Metrics, settings: GroupSettings) -> dict[Quantity, Sensor]:
    samples, sample_ms = settings.metrics_num_samples, settings.metrics_sample_window_ms
    return {
        quantity: metrics.sensor(
            _SENSORS_MBEAN,
            SpanSensor(quantity.value, samples, sample_ms)
            if quantity is Quantity.PARTITION_LOAD_MS
            else MeterSensor(quantity.value, samples, sample_ms),
        )
        for quantity in Quantity
    }
