"""WriteTxnMarkers and AddPartitionsToTxn between brokers: values to messages and back.

Source: Kafka ``WriteTxnMarkersRequest``, ``AddPartitionsToTxnRequest`` (KIP-98, KIP-890).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, cast

from kio.index import load_payload_module
from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType
from kio.static.protocol import RequestPayload

from kafka_common.model import TopicPartition
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.messages import request_type
from replica_manager.coordinators.transactions.events import Marker


class Verification(NamedTuple):
    """The partitions of a transaction to verify."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The partitions of each topic, in their order."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics


def markers_request(markers: Iterable[Marker], version: int) -> RequestPayload:
    """A WriteTxnMarkers request with ``markers``."""
    parts: Any = load_payload_module(ApiKey.WRITE_TXN_MARKERS, version, EntityType.request)
    make: Any = request_type(ApiKey.WRITE_TXN_MARKERS, version)
    return cast(
        RequestPayload,
        make(
            markers=tuple(
                parts.WritableTxnMarker(
                    producer_id=marker.producer_id,
                    producer_epoch=marker.producer_epoch,
                    transaction_result=marker.is_commit,
                    topics=tuple(
                        parts.WritableTxnMarkerTopic(name=name, partition_indexes=tuple(indexes))
                        for name, indexes in by_topic(marker.partitions).items()
                    ),
                    coordinator_epoch=marker.coordinator_epoch,
                )
                for marker in markers
            )
        ),
    )


def read_markers(request: request_types.WriteTxnMarkersRequest) -> Iterator[Marker]:
    """The markers in a WriteTxnMarkers request."""
    return (
        Marker(
            marker.producer_id,
            marker.producer_epoch,
            marker.coordinator_epoch,
            marker.transaction_result,
            tuple(
                TopicPartition(topic.name, index)
                for topic in marker.topics
                for index in topic.partition_indexes
            ),
        )
        for marker in request.markers
    )


def read_marker_errors(response: Any) -> dict[int, dict[TopicPartition, ErrorCode]]:
    """The errors in a WriteTxnMarkers response, by producer id and partition."""
    errors: dict[int, dict[TopicPartition, ErrorCode]] = {}
    for marker in response.markers:
        of_producer = errors.setdefault(marker.producer_id, {})
        for topic in marker.topics:
            for each in topic.partitions:
                of_producer[TopicPartition(topic.name, each.partition_index)] = each.error_code
    return errors


def verification_request(wanted: Iterable[Verification], version: int) -> RequestPayload:
    """An AddPartitionsToTxn request that only verifies partitions of transactions."""
    parts: Any = load_payload_module(ApiKey.ADD_PARTITIONS_TO_TXN, version, EntityType.request)
    make: Any = request_type(ApiKey.ADD_PARTITIONS_TO_TXN, version)
    return cast(
        RequestPayload,
        make(
            transactions=tuple(
                parts.AddPartitionsToTxnTransaction(
                    transactional_id=each.transactional_id,
                    producer_id=each.producer_id,
                    producer_epoch=each.producer_epoch,
                    verify_only=True,
                    topics=tuple(
                        parts.AddPartitionsToTxnTopic(name=name, partitions=tuple(indexes))
                        for name, indexes in by_topic(each.partitions).items()
                    ),
                )
                for each in wanted
            )
        ),
    )


def read_verification_errors(
    response: Any,
) -> Mapping[str, Mapping[TopicPartition, ErrorCode]]:
    """The errors of partitions that failed the verification, by transactional id.

    A transactional id whose partitions were all verified has no errors.
    """
    return {
        result.transactional_id: {
            TopicPartition(topic.name, each.partition_index): each.partition_error_code
            for topic in result.topic_results
            for each in topic.results_by_partition
            if each.partition_error_code is not ErrorCode.none
        }
        for result in response.results_by_transaction
    }
