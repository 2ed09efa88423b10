"""Runs the transaction coordinator on the broker's event loop.

Handlers pass requests and wait here for the responses.  The replica manager reports which
partitions this broker leads.  A timer sends a tick when a deadline is due.  The coordinator's
records are appended to ``__transaction_state`` with acks=all.  Markers are sent to the leaders on
the inter-broker listener, even those for partitions that this broker leads.

Source: Kafka ``TransactionCoordinator``, ``TransactionMarkerChannelManager``.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeVar, assert_never

from kio.schema.errors import ErrorCode

from kafka_common.errors import InvalidFrame, ZkControllerError
from kafka_common.model import TopicPartition
from kafka_common.observability.metrics import Metrics, mbean
from kafka_common.observability.sensors import SpanSensor
from kafka_common.protocol.error_codes import error_code_for
from kafka_common.protocol.record_batch import MemoryRecords, encode_batch
from kafka_common.protocol.records import Record
from replica_manager.coordinators.coordinator_run import Appends, CoordinatorRun
from replica_manager.coordinators.group_loading import OffsetsLog
from replica_manager.coordinators.groups.events import (
    CoordinatorLogLine,
    CoordinatorStartup,
    Elected,
    Load,
    Resigned,
    Shutdown,
)
from replica_manager.coordinators.transaction_messages import markers_request, read_marker_errors
from replica_manager.coordinators.transaction_settings import TransactionSettings
from replica_manager.coordinators.transactions.coordinator import TransactionCoordinator
from replica_manager.coordinators.transactions.events import (
    AppendTransactionRecords,
    MarkersResponse,
    NewProducerId,
    Output,
    PartitionLoaded,
    ProducerIdGiven,
    SendMarkers,
    TransactionRecordsAppended,
    TransactionResponse,
)
from replica_manager.coordinators.transactions.markers import NO_LEADER
from replica_manager.coordinators.transactions.requests import Request, Result
from replica_manager.coordinators.transactions.transaction import NO_PRODUCER_ID
from replica_manager.coordinators.transactions.transaction_state_manager import TRANSACTION_TOPIC
from replica_manager.log.producer_state_manager import AppendOrigin
from replica_manager.network.broker_links import BrokerLinks
from replica_manager.replication.zk_metadata_cache import ZkMetadataCache
from replica_manager.request_errors import RequestRefused

_log = logging.getLogger("kafka.coordinator.transaction.TransactionStateManager")
_marker_log = logging.getLogger("kafka.coordinator.transaction.TransactionMarkerChannelManager")
_scheduler_log = logging.getLogger("org.apache.kafka.server.util.KafkaScheduler")
_R = TypeVar("_R", bound=Result)

_ALL_REPLICAS: Final = -1
_MOST_DELETED: Final = 10_000
"""Limit of deleted topics in memory; beyond it all are forgotten and looked up again."""
_SENSORS_MBEAN: Final = "kafka.server:type=transaction-coordinator-metrics"


class TransactionService:
    """The transaction coordinator of one broker.  Runs on the event loop."""

    def __init__(
        self,
        settings: TransactionSettings,
        appends: Appends,
        led_log: Callable[[TopicPartition], OffsetsLog | None],
        new_producer_id: Callable[[], Awaitable[int]],
        is_topic_deleted: Callable[[str], Awaitable[bool]],
        partition_count: Callable[[str], Awaitable[int | None]],
        metadata_cache: ZkMetadataCache,
        links: BrokerLinks,
        *,
        now_ms: Callable[[], int] | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        """``led_log`` returns a partition's log if this broker leads the partition, else None.

        ``new_producer_id`` raises RequestRefused if no producer id is available now.
        ``is_topic_deleted`` and ``partition_count``, which returns None for a topic that does not
        exist, raise ZkControllerError if it cannot be determined.
        """
        self._settings = settings
        self._appends = appends
        self._new_producer_id = new_producer_id
        self._is_topic_deleted = is_topic_deleted
        self._partition_count = partition_count
        self._known_count = settings.default_partition_count
        self._unknown_topics: dict[str, None] = {}
        self._deleted_topics: set[str] = set()
        self._is_looking = False
        self._metadata_cache = metadata_cache
        self._links = links
        self._coordinator = TransactionCoordinator(settings.config, self._leader_of)
        self._run = CoordinatorRun[Output](
            self._coordinator,
            self._perform,
            led_log,
            load_buffer_bytes=settings.load_buffer_bytes,
            on_larger=lambda tp, size: _log.warning(
                "Loaded metadata from %s with buffer larger (%d bytes) than configured buffer size "
                "(%d bytes).",
                tp,
                size,
                settings.load_buffer_bytes,
            ),
            thread_name="transaction-log-manager",
            now_ms=now_ms,
        )
        self._load_time = (Metrics() if metrics is None else metrics).sensor(
            _SENSORS_MBEAN,
            SpanSensor(
                "partition-load-time",
                settings.metrics_num_samples,
                settings.metrics_sample_window_ms,
            ),
        )

    # ------------------------------------------------------------------ for handlers

    def new_request_id(self) -> int:
        """A new request id."""
        return self._run.new_request_id()

    async def ask(self, request: Request, result_type: type[_R]) -> _R:
        """The coordinator's response, which may take as long as replication."""
        return await self._run.ask(request, result_type)

    def partition_for(self, transactional_id: str) -> int:
        """The partition of ``__transaction_state`` whose leader coordinates the id."""
        return self._coordinator.partition_for(transactional_id)

    # ------------------------------------------------------------------ from the broker

    def start(self, partition_count: int | None) -> None:
        """Starts the coordinator.

        ``partition_count`` is the number of partitions of ``__transaction_state``; None if the
        topic does not exist yet.
        """
        self._known_count = partition_count or self._settings.default_partition_count
        self._run.step(CoordinatorStartup(self._known_count))

    async def stop(self) -> None:
        """Unloads all partitions, cancels all tasks, and closes the connections to brokers."""
        self._run.step(Shutdown())
        await self._run.stop()
        await self._links.close()

    def on_led(self, partition: TopicPartition, leader_epoch: int) -> None:
        """Handles that this broker became leader of a partition; other topics are ignored."""
        if partition.topic == TRANSACTION_TOPIC:
            self._run.step(Elected(partition.partition, leader_epoch))

    def on_resigned(self, partition: TopicPartition, leader_epoch: int | None) -> None:
        """Handles the loss of a partition's leadership; other topics are ignored.

        ``leader_epoch`` is None if it is unknown: the topic was deleted or the replica went
        offline.
        """
        if partition.topic == TRANSACTION_TOPIC:
            self._run.step(Resigned(partition.partition, leader_epoch))

    def register_gauges(self, metrics: Metrics) -> None:
        """Registers the gauges of Kafka's ``TransactionMarkerChannelManager``."""
        markers = self._coordinator.markers
        for name, read in {
            "UnknownDestinationQueueSize": lambda: markers.without_leader_count,
            "LogAppendRetryQueueSize": lambda: markers.unwritten_count,
        }.items():
            metrics.gauge(
                mbean("kafka.coordinator.transaction", "TransactionMarkerChannelManager", name),
                read,
            )

    def _leader_of(self, partition: TopicPartition) -> int | None:
        """The broker id of a partition's leader; NO_LEADER if unknown, None if it was deleted.

        A topic counts as deleted only if ZooKeeper confirms it.  After a restart of the whole
        cluster the metadata cache may still lack partitions, and a partition that gets no marker
        would keep its transaction open for ever.
        """
        topic = partition.topic
        state = self._metadata_cache.snapshot.partition(*partition)
        if state is None:
            if topic in self._deleted_topics:
                return None
            self._unknown_topics[topic] = None
            if not self._is_looking:
                self._is_looking = True
                self._run.begin(self._find_deleted_topics())
            return NO_LEADER
        self._deleted_topics.discard(topic)
        return state.leader if self._links.leads_to(state.leader) else NO_LEADER

    # ------------------------------------------------------------------ outputs

    def _perform(self, output: Output) -> None:
        match output:
            case TransactionResponse(request_id, result):
                self._run.respond(request_id, result)
            case AppendTransactionRecords():
                self._run.begin(self._append(output))
            case Load():
                self._run.begin(self._load(output))
            case NewProducerId(wish_id):
                self._run.begin(self._give_producer_id(wish_id))
            case SendMarkers():
                self._run.begin(self._send_markers(output))
            case CoordinatorLogLine(level, logger, text):
                logging.getLogger(logger).log(level.value, "%s", text)
            case PartitionLoaded(duration_ms):
                self._load_time.record(duration_ms)
            case _:
                assert_never(output)

    # ------------------------------------------------------------------ tasks

    async def _load(self, load: Load) -> None:
        """Loads a partition, unless the topic has another number of them than at the start.

        Then every transactional id would belong to another partition, and what is open would be
        lost: the partition stays as one that is being loaded.

        Source: Kafka ``TransactionStateManager.validateTransactionTopicPartitionCountIsStable``.
        """
        with suppress(ZkControllerError):  # ZooKeeper does not say; it is asked at the next load
            found = await self._partition_count(TRANSACTION_TOPIC)
            count = found or self._settings.default_partition_count
            if count != self._known_count:
                _scheduler_log.error(
                    "Uncaught exception in scheduled task 'load-txns-for-partition-%s-%d'",
                    TRANSACTION_TOPIC,
                    load.partition,
                    extra={
                        "cause": "org.apache.kafka.common.KafkaException: Transaction topic number "
                        f"of partitions has changed from {self._known_count} to {count}"
                    },
                )
                return
        await self._run.load(TRANSACTION_TOPIC, load, _log)

    async def _append(self, append: AppendTransactionRecords) -> None:
        self._run.step(TransactionRecordsAppended(append.append_id, await self._appended(append)))

    async def _appended(self, append: AppendTransactionRecords) -> ErrorCode:
        partition = TopicPartition(TRANSACTION_TOPIC, append.partition)
        batch = encode_batch(
            [
                Record(offset, append.timestamp_ms, record.key, record.value)
                for offset, record in enumerate(append.records)
            ]
        )
        try:
            appended = await self._appends.append_records(
                {partition: MemoryRecords(batch)},
                acks=_ALL_REPLICAS,
                timeout_ms=append.timeout_ms,
                origin=AppendOrigin.COORDINATOR,
            )
            outcomes = await appended.acknowledged()
        except ZkControllerError as failure:
            return error_code_for(failure)
        except Exception:  # noqa: BLE001 - the waiting request must get a response
            _log.exception("Appending to %s failed", partition)
            return ErrorCode.unknown_server_error
        return outcomes[partition].error

    async def _give_producer_id(self, wish_id: int) -> None:
        producer_id, error = NO_PRODUCER_ID, ErrorCode.none
        try:
            producer_id = await self._new_producer_id()
        except RequestRefused as refused:
            error = refused.error
        except ZkControllerError as failure:
            error = error_code_for(failure)
        except Exception:  # noqa: BLE001 - the waiting request must get a response
            _log.exception("Getting a producer id failed")
            error = ErrorCode.unknown_server_error
        self._run.step(ProducerIdGiven(wish_id, producer_id, error))

    async def _find_deleted_topics(self) -> None:
        try:
            while self._unknown_topics:
                topic = next(iter(self._unknown_topics))
                is_deleted = await self._is_topic_deleted(topic)
                del self._unknown_topics[topic]
                if is_deleted:
                    if len(self._deleted_topics) == _MOST_DELETED:
                        self._deleted_topics.clear()
                    self._deleted_topics.add(topic)
        except ZkControllerError as failure:  # looked up again when the markers are sent again
            _marker_log.info("It is not known whether topics are deleted: %s", failure)
        finally:
            self._is_looking = False

    async def _send_markers(self, sending: SendMarkers) -> None:
        errors = None
        try:
            request = markers_request(sending.markers, self._settings.markers_version)
            errors = read_marker_errors(await self._links.ask(sending.broker_id, request))
        except (OSError, InvalidFrame) as failure:
            _marker_log.info(
                "[Transaction Marker Channel Manager %d]: Sending markers to broker %d failed: %s",
                self._settings.config.broker_id, sending.broker_id, failure,
            )  # fmt: skip
        except Exception:  # noqa: BLE001 - the coordinator must get a result for these markers
            _marker_log.exception("Sending markers to broker %d failed", sending.broker_id)
        self._run.step(MarkersResponse(sending.send_id, errors))
