"""TxnOffsetCommit (28): commits offsets of a group as part of a transaction.

If this broker coordinates the group, it first verifies with the transaction coordinator that the
group's partition of ``__consumer_offsets`` belongs to the transaction.

Source: Kafka ``KafkaApis.handleTxnOffsetCommitRequest``,
``GroupCoordinator.handleTxnCommitOffsets`` (KIP-98, KIP-447, KIP-890).
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation
from kafka_common.model import TopicPartition
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.record_batch import NO_SEQUENCE
from replica_manager.coordinators.groups.group_metadata_manager import OFFSETS_TOPIC
from replica_manager.coordinators.groups.offsets import commit_error
from replica_manager.coordinators.groups.requests import TransactionalProducer
from replica_manager.server.authorization import check_group, check_transactional_id
from replica_manager.server.context import BrokerContext, EncodedBody, RequestContext
from replica_manager.server.group_partitions import (
    committed,
    named_count,
    partitions_in_slices,
    partitions_of,
    refused_partitions,
)
from replica_manager.server.group_requests import read_transactional_commit
from replica_manager.server.group_responses import write_transactional_commit
from replica_manager.server.large_responses import aside, composed
from replica_manager.server.slices import in_slices

API_KEY: Final = ApiKey.TXN_OFFSET_COMMIT
VERSIONS: Final = (0, 4)

_ABORTABLE_SINCE: Final = 4
"""The first version whose clients know TRANSACTION_ABORTABLE."""
_LOADING_SINCE: Final = 2
"""The first version whose producers can handle COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296)."""


async def handle(
    request: request_types.TxnOffsetCommitRequest, context: RequestContext, broker: BrokerContext
) -> ResponsePayload | EncodedBody:
    """The response with an error code for each partition.

    Refuses unknown and unauthorized partitions; the coordinator gets all others.
    """
    check_transactional_id(broker, context, AclOperation.WRITE, request.transactional_id)
    check_group(broker, context, AclOperation.READ, request.group_id)
    partitions = await partitions_in_slices(request.topics)
    refused = await refused_partitions(partitions, context, broker)
    known = {each async for each in in_slices(partitions) if each not in refused}
    results = refused | (await _commit(request, known, context, broker) if known else {})
    return await composed(len(results), lambda: _response(results, context))


def refuse(
    request: request_types.TxnOffsetCommitRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with ``error`` for every partition."""
    return _response(dict.fromkeys(partitions_of(request.topics), error), context)


async def _commit(
    request: request_types.TxnOffsetCommitRequest,
    known: Collection[TopicPartition],
    context: RequestContext,
    broker: BrokerContext,
) -> dict[TopicPartition, ErrorCode]:
    groups = broker.records.groups
    if (refusal := groups.error_of_group(request.group_id)) is not None:
        return dict.fromkeys(known, refusal)
    partition = TopicPartition(OFFSETS_TOPIC, groups.partition_for(request.group_id))
    verified = await broker.records.verification.verify(
        {partition: NO_SEQUENCE},
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        knows_abortable=context.api_version >= _ABORTABLE_SINCE,
    )
    error = verified.errors.get(partition, ErrorCode.none)
    if error is not ErrorCode.none:
        return dict.fromkeys(known, commit_error(error))
    producer = TransactionalProducer(
        request.producer_id, request.producer_epoch, verified.guards.get(partition)
    )
    asked = await aside(
        named_count(request.topics),
        partial(
            read_transactional_commit,
            request,
            groups.new_request_id(),
            known,
            producer,
        ),
    )
    return await committed(asked, broker)


def _response(errors: dict[TopicPartition, ErrorCode], context: RequestContext) -> ResponsePayload:
    if context.api_version < _LOADING_SINCE:
        loading = ErrorCode.coordinator_load_in_progress
        errors = {
            partition: ErrorCode.coordinator_not_available if error is loading else error
            for partition, error in errors.items()
        }
    return write_transactional_commit(errors, context.api_version)
