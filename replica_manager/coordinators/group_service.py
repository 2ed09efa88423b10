"""Runs the group coordinator on the broker's event loop.

Handlers pass requests and wait here for the responses.  The replica manager reports which
partitions this broker leads.  A timer sends a tick when a deadline is due.  The coordinator's
records are appended to ``__consumer_offsets`` like those of a client, and the result comes back as
an event.  Appends begin in the order of the coordinator's outputs.

One thread reads one log after the other (:mod:`.group_loading`).

Source: Kafka ``GroupCoordinatorAdapter``, ``GroupCoordinator`` (``startup``, ``onElection``,
``onResignation``, ``onPartitionsDeleted``), ``GroupMetadataManager`` (gauges).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar, assert_never
from uuid import uuid4

from kio.schema.errors import ErrorCode

from kafka_common.errors import ZkControllerError
from kafka_common.model import TopicPartition
from kafka_common.observability.metrics import Metrics
from kafka_common.observability.sensors import MeterSensor, Sensor, SpanSensor
from kafka_common.protocol.error_codes import error_code_for
from kafka_common.protocol.record_batch import MemoryRecords
from replica_manager.coordinators.coordinator_run import Appends, CoordinatorRun
from replica_manager.coordinators.group_loading import OffsetsLog
from replica_manager.coordinators.group_settings import GroupSettings
from replica_manager.coordinators.groups.batches import append_batch
from replica_manager.coordinators.groups.coordinator import GroupCoordinator
from replica_manager.coordinators.groups.events import (
    AppendGroupRecords,
    CoordinatorLogLine,
    CoordinatorStartup,
    Elected,
    GroupRecordsAppended,
    GroupResponse,
    Load,
    Measured,
    Output,
    PartitionsDeleted,
    Quantity,
    Resigned,
    Shutdown,
    TransactionCompleted,
)
from replica_manager.coordinators.groups.group import GroupState
from replica_manager.coordinators.groups.group_metadata_manager import OFFSETS_TOPIC
from replica_manager.coordinators.groups.requests import Request, Result
from replica_manager.coordinators.groups.timers import TimerKind
from replica_manager.log.producer_state_manager import AppendOrigin, VerificationGuard

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


class GroupService:
    """The group coordinator of one broker.  Runs on the event loop."""

    def __init__(
        self,
        settings: GroupSettings,
        appends: Appends,
        led_log: Callable[[TopicPartition], OffsetsLog | None],
        *,
        now_ms: Callable[[], int] | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        """``led_log`` returns a partition's log if this broker leads the partition, else None."""
        self._settings = settings
        self._appends = appends
        self._coordinator = GroupCoordinator(settings.config, uuid4)
        self._run = CoordinatorRun[Output](
            self._coordinator,
            self._perform,
            led_log,
            load_buffer_bytes=settings.load_buffer_bytes,
            on_larger=lambda tp, size: _log.warning(
                "Loaded offsets and group metadata from %s with buffer larger (%d bytes) than "
                "configured offsets.load.buffer.size (%d bytes)",
                tp,
                size,
                settings.load_buffer_bytes,
            ),
            thread_name="group-metadata-manager",
            now_ms=now_ms,
        )
        self._sensors = _sensors(Metrics() if metrics is None else metrics, settings)

    # ------------------------------------------------------------------ for handlers

    def new_request_id(self) -> int:
        """A new request id."""
        return self._run.new_request_id()

    async def ask(self, request: Request, result_type: type[_R]) -> _R:
        """The coordinator's response, which may take as long as a rebalance."""
        return await self._run.ask(request, result_type)

    def partition_for(self, group_id: str) -> int:
        """The partition of ``__consumer_offsets`` whose leader coordinates the group."""
        return self._coordinator.partition_for(group_id)

    def error_of_group(self, group_id: str) -> ErrorCode | None:
        """Why the group's requests are refused here; None if this broker coordinates it."""
        return self._coordinator.error_of_group(group_id)

    # ------------------------------------------------------------------ from the broker

    def start(self, partition_count: int | None) -> None:
        """Starts the coordinator.

        ``partition_count`` is the number of partitions of ``__consumer_offsets``; None if the topic
        does not exist yet.
        """
        if partition_count is None:
            partition_count = self._settings.default_partition_count
        self._say("Starting up.")
        self._run.step(CoordinatorStartup(partition_count))
        self._say("Startup complete.")

    async def stop(self) -> None:
        """Sends an error to members that wait in JoinGroup or SyncGroup, and cancels all tasks."""
        self._say("Shutting down.")
        self._run.step(Shutdown())
        await self._run.stop()
        self._say("Shutdown complete.")

    def on_led(self, partition: TopicPartition, leader_epoch: int) -> None:
        """Handles that this broker became leader of a partition of ``__consumer_offsets``.

        Ignores partitions of other topics.
        """
        if partition.topic == OFFSETS_TOPIC:
            self._run.step(Elected(partition.partition, leader_epoch))

    def on_resigned(self, partition: TopicPartition, leader_epoch: int | None) -> None:
        """Handles that this broker is no longer leader of a partition of ``__consumer_offsets``.

        Ignores partitions of other topics.  ``leader_epoch`` is None if it is unknown: the topic
        was deleted or the replica went offline.
        """
        if partition.topic == OFFSETS_TOPIC:
            self._run.step(Resigned(partition.partition, leader_epoch))

    def on_partitions_deleted(self, partitions: Iterable[TopicPartition]) -> None:
        """Deletes the committed offsets of partitions that the controller has deleted."""
        deleted = tuple(partitions)
        if deleted:
            self._run.step(PartitionsDeleted(deleted))

    def on_transaction_completed(
        self, producer_id: int, partitions: Iterable[int], *, is_commit: bool
    ) -> None:
        """Handles a transaction marker that was written to partitions of ``__consumer_offsets``."""
        self._run.step(TransactionCompleted(producer_id, frozenset(partitions), is_commit))

    def gauges(self) -> dict[str, int]:
        """Values of ``kafka.coordinator.group:type=GroupMetadataManager``, by name.

        For any thread.
        """
        groups = list(self._coordinator.groups.values())
        states = Counter(group.state for group in groups)
        return {
            "NumOffsets": sum(len(group.offsets) for group in groups),
            "NumGroups": len(groups),
            **{name: states[state] for state, name in _GAUGES.items()},
        }

    def timer_count(self, *kinds: TimerKind) -> int:
        """How many timers of these kinds are set.  For any thread."""
        return self._coordinator.timer_count(*kinds)

    def _say(self, text: str) -> None:
        _coordinator_log.info("[GroupCoordinator %d]: %s", self._settings.config.broker_id, text)

    # ------------------------------------------------------------------ outputs

    def _perform(self, output: Output) -> None:
        match output:
            case GroupResponse(request_id, result):
                self._run.respond(request_id, result)
            case AppendGroupRecords():
                self._run.begin(self._append(output))
            case Load():
                self._run.begin(self._run.load(OFFSETS_TOPIC, output, _log))
            case CoordinatorLogLine(level, logger, text):
                logging.getLogger(logger).log(level.value, "%s", text)
            case Measured(quantity, value):
                self._sensors[quantity].record(value)
            case _:
                assert_never(output)

    # ------------------------------------------------------------------ the log

    async def _append(self, append: AppendGroupRecords) -> None:
        partition = TopicPartition(OFFSETS_TOPIC, append.partition)
        error, base_offset = await self._appended(partition, append)
        if append.append_id is not None:
            self._run.step(GroupRecordsAppended(append.append_id, error, base_offset))

    async def _appended(
        self, partition: TopicPartition, append: AppendGroupRecords
    ) -> tuple[ErrorCode, int]:
        try:
            appended = await self._appends.append_records(
                {partition: MemoryRecords(append_batch(append, self._settings.codec))},
                acks=append.required_acks,
                timeout_ms=append.timeout_ms,
                origin=AppendOrigin.COORDINATOR,
                guards=_guards(partition, append),
            )
            outcomes = await appended.acknowledged()
        except ZkControllerError as failure:
            return error_code_for(failure), -1
        except Exception:  # noqa: BLE001 - the waiting request must get a response
            _log.exception("Appending to %s failed", partition)
            return ErrorCode.unknown_server_error, -1
        return outcomes[partition].error, outcomes[partition].base_offset


def _guards(
    partition: TopicPartition, append: AppendGroupRecords
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
