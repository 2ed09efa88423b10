"""WriteTxnMarkers (27): appends the commit and abort markers of a transaction coordinator.

A marker is a control batch in each partition of the transaction.  In ``__consumer_offsets`` it also
commits the pending offsets of the transaction, or drops them.

Source: Kafka ``KafkaApis.handleWriteTxnMarkersRequest`` (KIP-98).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.model import TopicPartition
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.record_batch import MemoryRecords, encode_batch
from kafka_common.protocol.records import EndTransactionMarker, Record
from kafka_common.protocol.versioned_messages import response_schema
from kafka_common.wall_time import wall_time_ms
from replica_manager.coordinators.groups.group_metadata_manager import OFFSETS_TOPIC
from replica_manager.coordinators.transaction_messages import by_topic, read_markers
from replica_manager.coordinators.transactions.events import Marker
from replica_manager.log.producer_state_manager import AppendOrigin
from replica_manager.server.context import BrokerContext, EncodedBody, RequestContext
from replica_manager.server.large_responses import composed
from replica_manager.server.slices import in_slices

API_KEY: Final = ApiKey.WRITE_TXN_MARKERS
VERSIONS: Final = (0, 1)

MARKERS_AT_ONCE: Final = 100
"""Markers that are appended and replicated at the same time."""
_ALL_REPLICAS: Final = -1


async def handle(
    request: request_types.WriteTxnMarkersRequest, context: RequestContext, broker: BrokerContext
) -> ResponsePayload | EncodedBody:
    """The response with an error code for each partition of each marker.

    It is sent when every in-sync replica has the markers.
    """
    markers = [marker async for marker in in_slices(read_markers(request))]
    results: list[tuple[Marker, Mapping[TopicPartition, ErrorCode]]] = []
    # Write a limited number of markers at a time: each is a task that waits for other replicas.
    for start in range(0, len(markers), MARKERS_AT_ONCE):
        piece = markers[start : start + MARKERS_AT_ONCE]
        errors = await asyncio.gather(*(_write(marker, broker) for marker in piece))
        results += zip(piece, errors, strict=True)
    count = sum(1 + len(errors) for _, errors in results)
    return await composed(count, lambda: _response(results, context))


def refuse(
    request: request_types.WriteTxnMarkersRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with ``error`` for every partition."""
    markers = list(read_markers(request))
    return _response([(each, dict.fromkeys(each.partitions, error)) for each in markers], context)


async def _write(marker: Marker, broker: BrokerContext) -> dict[TopicPartition, ErrorCode]:
    errors: dict[TopicPartition, ErrorCode] = {}
    here: list[TopicPartition] = []
    async for partition in in_slices(marker.partitions):
        if broker.logs.log(partition) is None:
            errors[partition] = ErrorCode.unknown_topic_or_partition
        else:
            here.append(partition)
    if not here:
        return errors
    appended = await broker.records.appends.append_records(
        dict.fromkeys(here, MemoryRecords(_batch(marker))),
        acks=_ALL_REPLICAS,
        timeout_ms=broker.config().integer("request.timeout.ms"),
        origin=AppendOrigin.COORDINATOR,
    )
    outcomes = await appended.acknowledged()
    written = {partition: outcome.error for partition, outcome in outcomes.items()}
    _notify_group_coordinator(marker, written, broker)
    return errors | written


def _batch(marker: Marker) -> bytes:
    key, value = EndTransactionMarker(marker.is_commit, marker.coordinator_epoch).encode()
    return encode_batch(
        [Record(0, wall_time_ms(), key, value)],
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def _notify_group_coordinator(
    marker: Marker, written: Mapping[TopicPartition, ErrorCode], broker: BrokerContext
) -> None:
    of_offsets = [
        partition.partition
        for partition, error in written.items()
        if partition.topic == OFFSETS_TOPIC and error is ErrorCode.none
    ]
    if of_offsets:
        broker.records.groups.on_transaction_completed(
            marker.producer_id, of_offsets, is_commit=marker.is_commit
        )


def _response(
    results: list[tuple[Marker, Mapping[TopicPartition, ErrorCode]]], context: RequestContext
) -> ResponsePayload:
    schema = response_schema(API_KEY, context.api_version)
    of_producers: dict[int, dict[TopicPartition, ErrorCode]] = {}
    for marker, errors in results:
        of_producers.setdefault(marker.producer_id, {}).update(errors)
    return schema.response(
        markers=tuple(
            schema.part(
                "WritableTxnMarkerResult",
                producer_id=producer_id,
                topics=tuple(
                    schema.part(
                        "WritableTxnMarkerTopicResult",
                        name=topic,
                        partitions=tuple(
                            schema.part(
                                "WritableTxnMarkerPartitionResult",
                                partition_index=index,
                                error_code=errors[TopicPartition(topic, index)],
                            )
                            for index in indexes
                        ),
                    )
                    for topic, indexes in by_topic(errors).items()
                ),
            )
            for producer_id, errors in of_producers.items()
        )
    )
