"""OffsetCommit (8): commits a group's offsets; version 0 writes them to ZooKeeper.

Source: Kafka ``KafkaApis.handleOffsetCommitRequest``.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation
from kafka_common.errors import ZkControllerError
from kafka_common.model import TopicPartition
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.error_codes import error_code_for
from replica_manager.request_errors import RequestRefused
from replica_manager.server.authorization import check_group
from replica_manager.server.context import BrokerContext, EncodedBody, RequestContext
from replica_manager.server.group_partitions import (
    committed,
    named_count,
    partitions_in_slices,
    partitions_of,
    refused_partitions,
)
from replica_manager.server.group_requests import read_commit
from replica_manager.server.group_responses import write_commit
from replica_manager.server.large_responses import aside, composed
from replica_manager.server.slices import in_slices

API_KEY: Final = ApiKey.OFFSET_COMMIT
VERSIONS: Final = (0, 9)
_TO_ZOOKEEPER: Final = 0


async def handle(
    request: request_types.OffsetCommitRequest, context: RequestContext, broker: BrokerContext
) -> ResponsePayload | EncodedBody:
    """The response with an error code for each partition.

    Refuses unknown and unauthorized partitions; the coordinator or ZooKeeper gets all others.
    """
    check_group(broker, context, AclOperation.READ, request.group_id)
    partitions = await partitions_in_slices(request.topics)
    refused = await refused_partitions(partitions, context, broker)
    known = {each async for each in in_slices(partitions) if each not in refused}
    if not known:
        return await composed(len(refused), lambda: write_commit(refused, context.api_version))
    if context.api_version == _TO_ZOOKEEPER:
        errors = await _commit_to_zookeeper(request, known, broker)
    else:
        asked = await aside(
            named_count(request.topics),
            partial(read_commit, request, broker.records.groups.new_request_id(), known),
        )
        errors = await committed(asked, broker)
    results = refused | errors
    return await composed(len(results), lambda: write_commit(results, context.api_version))


def refuse(
    request: request_types.OffsetCommitRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with ``error`` for every partition."""
    errors = dict.fromkeys(partitions_of(request.topics), error)
    return write_commit(errors, context.api_version)


async def _commit_to_zookeeper(
    request: request_types.OffsetCommitRequest, known: set[TopicPartition], broker: BrokerContext
) -> dict[TopicPartition, ErrorCode]:
    if not request.group_id or "/" in request.group_id:
        raise RequestRefused(ErrorCode.invalid_group_id)
    longest = broker.config().integer("offset.metadata.max.bytes")
    errors: dict[TopicPartition, ErrorCode] = {}
    for topic in request.topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition_index)
            if partition not in known:
                continue
            errors[partition] = ErrorCode.none
            if len(each.committed_metadata or "") > longest:
                errors[partition] = ErrorCode.offset_metadata_too_large
                continue
            try:
                await broker.administration.admin.commit_old_offset(
                    request.group_id, partition, each.committed_offset
                )
            except ZkControllerError as failure:
                errors[partition] = error_code_for(failure)
    return errors
