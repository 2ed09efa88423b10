"""OffsetFetch (9): the offsets that groups have committed, in version 0 those in ZooKeeper.

Source: Kafka ``KafkaApis.handleOffsetFetchRequest``.
"""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from replica_manager.groups.requests import (
    INVALID_OFFSET,
    FetchedOffset,
    FetchOffsets,
    FetchResult,
    GroupOffsets,
    WantedOffsets,
)
from replica_manager.server.authorization import allowed_names, is_allowed
from replica_manager.server.context import BrokerContext, EncodedBody, RequestContext
from replica_manager.server.errors import RequestRefused
from replica_manager.server.group_answers import write_fetch
from replica_manager.server.group_requests import read_fetch
from replica_manager.server.large_answers import answer_of
from zkcontroller.errors import ZkControllerError
from zkcontroller.model import NO_EPOCH, TopicPartition
from zkcontroller.protocol.api_versions import ApiKey
from zkcontroller.protocol.error_codes import error_code_for
from zkcontroller.zookeeper.kafka_acl_znodes import AclOperation, ResourceType

API_KEY: Final = ApiKey.OFFSET_FETCH
VERSIONS: Final = (0, 9)
_FROM_ZOOKEEPER: Final = 0


async def handle(
    request: Any, context: RequestContext, broker: BrokerContext
) -> ResponsePayload | EncodedBody:
    """The offsets of each group, in the order of the request."""
    asked = read_fetch(request, broker.groups.new_request_id())
    visible = [_visible(wanted, context, broker) for wanted in asked.groups]
    allowed = [wanted for wanted in visible if wanted is not None]
    if context.api_version == _FROM_ZOOKEEPER:
        fetched = [await _from_zookeeper(wanted, broker) for wanted in allowed]
    else:
        narrowed = FetchOffsets(asked.request_id, tuple(allowed), asked.requires_stable)
        fetched = list((await broker.groups.ask(narrowed, FetchResult)).groups)
    answers = iter(fetched)
    groups = tuple(
        GroupOffsets(wanted.group_id, ErrorCode.group_authorization_failed, {})
        if seen is None
        else _shown(wanted, next(answers), context, broker)
        for wanted, seen in zip(asked.groups, visible, strict=True)
    )
    count = sum(len(group.partitions) for group in groups)
    return await answer_of(
        lambda: write_fetch(FetchResult(groups), asked, context.api_version), count
    )


def refuse(request: Any, context: RequestContext, error: ErrorCode) -> ResponsePayload:
    """The code for every group."""
    asked = read_fetch(request, 0)
    groups = tuple(GroupOffsets(wanted.group_id, error, {}) for wanted in asked.groups)
    return write_fetch(FetchResult(groups), asked, context.api_version)


def _visible(
    wanted: WantedOffsets, context: RequestContext, broker: BrokerContext
) -> WantedOffsets | None:
    """What of it the client may see; None if it may not see the group."""
    if not is_allowed(broker, context, AclOperation.DESCRIBE, ResourceType.GROUP, wanted.group_id):
        return None
    if wanted.partitions is None:
        return wanted
    described = _described(wanted.partitions, context, broker)
    return wanted._replace(
        partitions=tuple(each for each in wanted.partitions if each.topic in described)
    )


def _shown(
    wanted: WantedOffsets, found: GroupOffsets, context: RequestContext, broker: BrokerContext
) -> GroupOffsets:
    """Of all topics those that the client may see; of topics it named the others with an error."""
    if found.error is not ErrorCode.none:
        return found
    if wanted.partitions is None:
        described = _described(tuple(found.partitions), context, broker)
        return found._replace(
            partitions={
                partition: offset
                for partition, offset in found.partitions.items()
                if partition.topic in described
            }
        )
    hidden = _nothing(ErrorCode.topic_authorization_failed)
    missing = [each for each in wanted.partitions if each not in found.partitions]
    return found._replace(partitions={**found.partitions, **dict.fromkeys(missing, hidden)})


def _described(
    partitions: tuple[TopicPartition, ...], context: RequestContext, broker: BrokerContext
) -> dict[str, None]:
    names = dict.fromkeys(partition.topic for partition in partitions)
    return allowed_names(broker, context, AclOperation.DESCRIBE, ResourceType.TOPIC, names)


async def _from_zookeeper(wanted: WantedOffsets, broker: BrokerContext) -> GroupOffsets:
    if not wanted.group_id or "/" in wanted.group_id:
        raise RequestRefused(ErrorCode.invalid_group_id)
    snapshot = broker.metadata_cache.snapshot
    found: dict[TopicPartition, FetchedOffset] = {}
    for partition in wanted.partitions or ():
        found[partition] = _nothing(ErrorCode.unknown_topic_or_partition)
        if snapshot.partition(*partition) is None:
            continue
        try:
            offset = await broker.admin.old_offset_of(wanted.group_id, partition)
        except ZkControllerError as failure:
            found[partition] = _nothing(error_code_for(failure))
            continue
        if offset is not None:
            found[partition] = FetchedOffset(offset, NO_EPOCH, "", ErrorCode.none)
    return GroupOffsets(wanted.group_id, ErrorCode.none, found)


def _nothing(error: ErrorCode) -> FetchedOffset:
    return FetchedOffset(INVALID_OFFSET, NO_EPOCH, "", error)
