"""Produce (0): appends clients' records to partitions that this broker leads.

With ``acks`` 0 no response is sent.  If an append failed, the connection is closed instead, so that
the client requests metadata again.

Source: Kafka ``KafkaApis.handleProduceRequest``, ``ProduceRequest.validateRecords``.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Final

from kio.schema.errors import ErrorCode

from kafka_common.acls import AclOperation, ResourceType
from kafka_common.errors import CorruptRecord
from kafka_common.model import TopicPartition
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.compression import Codec
from kafka_common.protocol.error_codes import error_name
from kafka_common.protocol.produce import (
    LAST_VERSION,
    PartitionProduceResponse,
    ProduceRequest,
    produce_response,
    read_produce_request,
)
from kafka_common.protocol.record_batch import MAGIC_2, MemoryRecords
from replica_manager.coordinators.transaction_verification import NOTHING_TO_VERIFY, Verified
from replica_manager.log.log_values import NO_CONVERSIONS, RecordConversions
from replica_manager.log.producer_state_manager import VerificationGuard
from replica_manager.replication.record_appends import Appended, PartitionResponse
from replica_manager.request_errors import RequestRefused
from replica_manager.server.authorization import allowed_names, is_allowed
from replica_manager.server.context import (
    BrokerContext,
    EncodedBody,
    Later,
    RequestContext,
    Unanswered,
)
from replica_manager.server.current_leaders import CurrentLeaders
from replica_manager.server.error_counts import ErrorCounts
from replica_manager.server.large_responses import aside
from replica_manager.server.slices import in_slices

API_KEY: Final = ApiKey.PRODUCE
VERSIONS: Final = (0, LAST_VERSION)
_ONE_BATCH_SINCE: Final = 3
_ZSTD_SINCE: Final = 7
_CURRENT_LEADER_SINCE: Final = 10
_ABORTABLE_SINCE: Final = 11
"""The first version whose clients know TRANSACTION_ABORTABLE."""
_RETRIABLE: Final = frozenset(
    {
        ErrorCode.concurrent_transactions,
        ErrorCode.network_exception,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    }
)
_ADMIN_CLIENT_ID: Final = "__admin_client"
_CODEC: Final = 0x07

_log = logging.getLogger("kafka.server.KafkaApis")

read = read_produce_request


async def handle(
    request: ProduceRequest, context: RequestContext, broker: BrokerContext
) -> EncodedBody | Unanswered | Later:
    """The response with the offsets of the appended records; no response if ``acks`` is 0.

    With ``acks`` -1 a later one, if replicas must have the records before.
    """
    if await _is_transactional(request) and not (
        request.transactional_id is not None
        and is_allowed(
            broker,
            context,
            AclOperation.WRITE,
            ResourceType.TRANSACTIONAL_ID,
            request.transactional_id,
        )
    ):
        return refuse(request, context, ErrorCode.transactional_id_authorization_failed)
    outcomes: dict[TopicPartition, PartitionResponse] = {}
    batches: dict[TopicPartition, MemoryRecords] = {}
    allowed = await allowed_names(
        broker,
        context,
        AclOperation.WRITE,
        ResourceType.TOPIC,
        [topic for topic, _ in request.topics],
    )
    known = broker.metadata_cache.snapshot.partitions
    named = ((topic, *each) for topic, partitions in request.topics for each in partitions)
    async for topic, partition, records in in_slices(named):
        error = ErrorCode.none
        if topic not in allowed:
            error = ErrorCode.topic_authorization_failed
        elif partition not in known.get(topic, ()):
            error = ErrorCode.unknown_topic_or_partition
        elif context.api_version >= _ONE_BATCH_SINCE:
            error = _check_records(records, context.api_version)
        if error is ErrorCode.none:
            batches[TopicPartition(topic, partition)] = records
        else:
            outcomes[TopicPartition(topic, partition)] = PartitionResponse(error)
    guards: Mapping[TopicPartition, VerificationGuard] = {}
    if batches and request.transactional_id is not None:
        verified = await _verified(batches, request.transactional_id, context, broker)
        outcomes |= {tp: _unverified(error) for tp, error in verified.errors.items()}
        batches = {tp: each for tp, each in batches.items() if tp not in verified.errors}
        guards = verified.guards
    if not batches:
        return await _acknowledged(Appended(outcomes, None), request, context, broker)
    appended = await broker.records.appends.append_records(
        batches,
        acks=request.acks,
        timeout_ms=request.timeout_ms,
        allows_internal_topics=context.client_id == _ADMIN_CLIENT_ID,
        guards=guards,
    )
    appended.outcomes.update(outcomes)
    then = partial(_acknowledged, appended, request, context, broker)
    return await then() if appended.wait is None else Later(then)


async def _acknowledged(
    appended: Appended, request: ProduceRequest, context: RequestContext, broker: BrokerContext
) -> EncodedBody | Unanswered:
    outcomes = await appended.acknowledged()
    throttle_ms = 0
    if context.usage is not None:
        throttle_ms = context.usage.produced(is_answered=request.acks != 0)
    if request.acks == 0:
        return _unanswered(outcomes, context)
    return await _answered(outcomes, context, broker, throttle_ms)


def refuse(
    request: ProduceRequest, context: RequestContext, error: ErrorCode
) -> EncodedBody | Unanswered:
    """The response with ``error`` for every partition; closes the connection if ``acks`` is 0."""
    count = sum(len(partitions) for _, partitions in request.topics)
    if request.acks == 0:
        return Unanswered(closes=True, errors=lambda: {error: count})
    topics = [
        (
            topic,
            [PartitionProduceResponse(each.partition, error, -1, -1, -1) for each in partitions],
        )
        for topic, partitions in request.topics
    ]
    return EncodedBody(
        [produce_response(context.api_version, topics)],
        errors=lambda: {error: count},
        throttled=lambda throttle_ms: [
            produce_response(context.api_version, topics, throttle_ms=throttle_ms)
        ],
    )


async def _verified(
    batches: Mapping[TopicPartition, MemoryRecords],
    transactional_id: str,
    context: RequestContext,
    broker: BrokerContext,
) -> Verified:
    """Verifies that the partitions belong to the producer's transaction (KIP-890).

    RequestRefused(INVALID_PRODUCER_ID_MAPPING) if the batches have more than one producer.
    """
    headers = {tp: records.first_header for tp, records in batches.items()}
    transactional = {
        tp: header
        for tp, header in headers.items()
        if header is not None and header.has_producer_id and header.is_transactional
    }
    producers = {(each.producer_id, each.producer_epoch) for each in transactional.values()}
    if len(producers) > 1:
        raise RequestRefused(ErrorCode.invalid_producer_id_mapping)
    if not producers:
        return NOTHING_TO_VERIFY
    [(producer_id, producer_epoch)] = producers
    return await broker.records.verification.verify(
        {tp: header.base_sequence for tp, header in transactional.items()},
        transactional_id,
        producer_id,
        producer_epoch,
        knows_abortable=context.api_version >= _ABORTABLE_SINCE,
    )


def _unverified(error: ErrorCode) -> PartitionResponse:
    """The result of a partition whose transaction could not be verified."""
    if error is ErrorCode.invalid_txn_state:
        return PartitionResponse(error, message="Partition was not added to the transaction")
    if error not in _RETRIABLE:
        return PartitionResponse(error)
    # Clients retry after NOT_ENOUGH_REPLICAS, without requesting metadata first.
    return PartitionResponse(
        ErrorCode.not_enough_replicas,
        message="Unable to verify the partition has been added to the transaction. Underlying"
        f" error: {error_name(error)}",
    )


def _check_records(records: MemoryRecords, version: int) -> ErrorCode:
    """The error if the records are not exactly one batch of magic 2; zstd needs version 7."""
    try:
        batches = records.batches()
        found = next(batches, None)
        if found is None or found[1].magic != MAGIC_2:
            return ErrorCode.invalid_record
        if version < _ZSTD_SINCE and found[1].attributes & _CODEC == Codec.ZSTD:
            return ErrorCode.unsupported_compression_type
        if next(batches, None) is not None:
            return ErrorCode.invalid_record
    except CorruptRecord:
        return ErrorCode.corrupt_message
    return ErrorCode.none


async def _is_transactional(request: ProduceRequest) -> bool:
    """Whether any partition's first batch belongs to a transaction.

    Source: Kafka ``RequestUtils.hasTransactionalRecords``.
    """
    async for _, partitions in in_slices(request.topics):
        async for _, records in in_slices(partitions):
            try:
                header = records.first_header
            except CorruptRecord:
                continue  # handle() refuses this partition later
            if header is not None and header.is_transactional:
                return True
    return False


def _unanswered(
    outcomes: Mapping[TopicPartition, PartitionResponse], context: RequestContext
) -> Unanswered:
    failed = {tp: found.error for tp, found in outcomes.items() if found.error != ErrorCode.none}
    if failed:
        _log.info(
            "Closing connection due to error during produce request with correlation id %d from "
            "client id %s with ack=0\nTopic and partition to exceptions: %s",
            context.correlation_id,
            context.client_id,
            ", ".join(f"{tp} -> {error_name(error)}" for tp, error in failed.items()),
        )
    return Unanswered(
        bool(failed), lambda: _errors(outcomes) if failed else {}, _conversions(outcomes)
    )


def _errors(outcomes: Mapping[TopicPartition, PartitionResponse]) -> ErrorCounts:
    return Counter(outcome.error for outcome in outcomes.values())


def _conversions(outcomes: Mapping[TopicPartition, PartitionResponse]) -> RecordConversions:
    total = NO_CONVERSIONS
    for outcome in outcomes.values():
        total = total.and_also(outcome.conversions)
    return total


async def _answered(
    outcomes: Mapping[TopicPartition, PartitionResponse],
    context: RequestContext,
    broker: BrokerContext,
    throttle_ms: int,
) -> EncodedBody:
    leaders = CurrentLeaders(broker, context.listener_name)
    topics: dict[str, list[PartitionProduceResponse]] = {}
    async for tp, outcome in in_slices(outcomes.items()):
        is_elsewhere = outcome.error is ErrorCode.not_leader_or_follower
        topics.setdefault(tp.topic, []).append(
            PartitionProduceResponse(
                tp.partition,
                outcome.error,
                outcome.base_offset,
                outcome.log_append_time_ms,
                outcome.log_start_offset,
                outcome.record_errors,
                outcome.message,
                current_leader=(
                    leaders.of(tp)
                    if is_elsewhere and context.api_version >= _CURRENT_LEADER_SINCE
                    else None
                ),
            )
        )

    def encoded() -> EncodedBody:
        errors = _errors(outcomes)
        body = produce_response(
            context.api_version, list(topics.items()), leaders.endpoints, throttle_ms
        )
        return EncodedBody([body], errors=lambda: errors, conversions=_conversions(outcomes))

    return await aside(len(outcomes), encoded)
