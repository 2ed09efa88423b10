"""OffsetFetch (9): the committed offsets of groups; version 0 reads those in ZooKeeper.

Source: Kafka ``KafkaApis.handleOffsetFetchRequest``.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation, ResourceType
from kafka_common.errors import ZkControllerError
from kafka_common.model import NO_EPOCH, TopicPartition
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.error_codes import error_code_for
from replica_manager.coordinators.groups.requests import (
    INVALID_OFFSET,
    FetchedOffset,
    FetchOffsets,
    FetchResult,
    GroupOffsets,
    WantedOffsets,
)
from replica_manager.request_errors import RequestRefused
from replica_manager.server.authorization import allowed_names, is_allowed
from replica_manager.server.context import BrokerContext, EncodedBody, RequestContext
from replica_manager.server.group_requests import read_fetch, wanted_topics
from replica_manager.server.group_responses import write_fetch
from replica_manager.server.large_responses import aside, composed
from replica_manager.server.slices import in_pieces, in_slices

API_KEY: Final = ApiKey.OFFSET_FETCH
VERSIONS: Final = (0, 9)
_FROM_ZOOKEEPER: Final = 0


async def handle(
    request: request_types.OffsetFetchRequest, context: RequestContext, broker: BrokerContext
) -> ResponsePayload | EncodedBody:
    """The response with the offsets of each group, in the order of the request."""
    asked = await aside(_partition_count(request), partial(read_fetch, request, 0))
    found: dict[str, GroupOffsets] = {}
    # A group that is named several times has one result, for its last entry.
    async for wanted in in_slices({each.group_id: each for each in asked.groups}.values()):
        found[wanted.group_id] = await _found(
            wanted, context, broker, requires_stable=asked.requires_stable
        )
    groups = tuple(found.values())
    count = sum(1 + len(group.partitions) for group in groups)
    return await composed(
        count, lambda: write_fetch(FetchResult(groups), asked, context.api_version)
    )


def refuse(
    request: request_types.OffsetFetchRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with ``error`` for every group."""
    asked = read_fetch(request, 0)
    groups = tuple(GroupOffsets(wanted.group_id, error, {}) for wanted in asked.groups)
    return write_fetch(FetchResult(groups), asked, context.api_version)


def _partition_count(request: request_types.OffsetFetchRequest) -> int:
    return sum(
        1 + len(topic.partition_indexes)
        for _, topics in wanted_topics(request)
        for topic in topics or ()
    )


async def _found(
    wanted: WantedOffsets, context: RequestContext, broker: BrokerContext, *, requires_stable: bool
) -> GroupOffsets:
    """A group's offsets, without topics that the client may not describe.

    Partitions of such topics have an error if the request names them.
    """
    group_id = wanted.group_id
    if not is_allowed(broker, context, AclOperation.DESCRIBE, ResourceType.GROUP, group_id):
        return GroupOffsets(group_id, ErrorCode.group_authorization_failed, {})
    if wanted.partitions is None:
        found = await _fetched(wanted, broker, requires_stable=requires_stable)
        described = await _described(found.partitions, context, broker)
        return found._replace(
            partitions={
                partition: offset
                async for partition, offset in in_slices(found.partitions.items())
                if partition.topic in described
            }
        )
    described = await _described(wanted.partitions, context, broker)
    visible = [each async for each in in_slices(wanted.partitions) if each.topic in described]
    if context.api_version == _FROM_ZOOKEEPER:
        found = await _from_zookeeper(wanted._replace(partitions=tuple(visible)), broker)
    else:
        found = GroupOffsets(group_id, ErrorCode.none, {})
        async for piece in in_pieces(visible):
            part = wanted._replace(partitions=tuple(piece))
            fetched = await _fetched(part, broker, requires_stable=requires_stable)
            if fetched.error is not ErrorCode.none:
                return fetched
            found = found._replace(partitions={**found.partitions, **fetched.partitions})
    hidden = _nothing(ErrorCode.topic_authorization_failed)
    missing = [each async for each in in_slices(wanted.partitions) if each.topic not in described]
    return found._replace(partitions={**found.partitions, **dict.fromkeys(missing, hidden)})


async def _fetched(
    wanted: WantedOffsets, broker: BrokerContext, *, requires_stable: bool
) -> GroupOffsets:
    asked = FetchOffsets(broker.records.groups.new_request_id(), (wanted,), requires_stable)
    [group] = (await broker.records.groups.ask(asked, FetchResult)).groups
    return group


async def _described(
    partitions: Iterable[TopicPartition], context: RequestContext, broker: BrokerContext
) -> dict[str, None]:
    names = {partition.topic: None async for partition in in_slices(partitions)}
    return await allowed_names(broker, context, AclOperation.DESCRIBE, ResourceType.TOPIC, names)


async def _from_zookeeper(wanted: WantedOffsets, broker: BrokerContext) -> GroupOffsets:
    if not wanted.group_id or "/" in wanted.group_id:
        raise RequestRefused(ErrorCode.invalid_group_id)
    snapshot = broker.metadata_cache.snapshot
    found: dict[TopicPartition, FetchedOffset] = {}
    async for partition in in_slices(wanted.partitions or ()):
        found[partition] = _nothing(ErrorCode.unknown_topic_or_partition)
        if snapshot.partition(*partition) is None:
            continue
        try:
            offset = await broker.administration.admin.old_offset_of(wanted.group_id, partition)
        except ZkControllerError as failure:
            found[partition] = _nothing(error_code_for(failure))
            continue
        if offset is not None:
            found[partition] = FetchedOffset(offset, NO_EPOCH, "", ErrorCode.none)
    return GroupOffsets(wanted.group_id, ErrorCode.none, found)


def _nothing(error: ErrorCode) -> FetchedOffset:
    return FetchedOffset(INVALID_OFFSET, NO_EPOCH, "", error)
