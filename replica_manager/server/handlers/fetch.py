"""Fetch (1): records for followers and consumers; a follower may serve consumers (KIP-392).

Records are sent from the log's files as they are.  Only for clients of versions below 4 they are
converted to an older format, in memory.

Source: Kafka ``KafkaApis.handleFetchRequest``.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from time import perf_counter_ns
from typing import Final, TypeAlias
from uuid import UUID

from kio.schema.errors import ErrorCode

from kafka_common.acls import AclOperation, ResourceType
from kafka_common.errors import CorruptRecord, InvalidRecord, UnsupportedCompressionType
from kafka_common.model import TopicPartition
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.compression import Codec
from kafka_common.protocol.fetch import (
    LAST_VERSION,
    TOPIC_IDS_SINCE,
    FetchPartition,
    FetchRequestData,
    PartitionData,
    TopicName,
    fetch_response,
    read_fetch_request,
)
from kafka_common.protocol.legacy_messages import down_converted
from kafka_common.protocol.record_batch import MAGIC_0, MAGIC_1
from replica_manager.configuration.config import RACK_AWARE_SELECTOR
from replica_manager.log.files import FileSlice
from replica_manager.log.log_values import NO_CONVERSIONS, FetchIsolation, RecordConversions
from replica_manager.replication.fetch_sessions import FetchContext, SessionFetchResponse
from replica_manager.replication.fetch_values import (
    FetchMetadata,
    FetchPartitionData,
    TopicIdPartition,
)
from replica_manager.replication.partition import Partition
from replica_manager.replication.record_reads import FetchParams
from replica_manager.server.authorization import allowed_names, is_cluster_allowed
from replica_manager.server.context import BrokerContext, EncodedBody, RequestContext
from replica_manager.server.current_leaders import CurrentLeaders
from replica_manager.server.error_counts import ErrorCounts
from replica_manager.server.large_responses import aside
from replica_manager.server.replica_selector import follower_in_rack
from replica_manager.server.slices import in_slices, run_in_slices

API_KEY: Final = ApiKey.FETCH
VERSIONS: Final = (0, LAST_VERSION)
_SOFT_LIMIT_SINCE: Final = 3
_MAGIC_1_SINCE: Final = 2
_MAGIC_2_SINCE: Final = 4
_STORAGE_ERROR_SINCE: Final = 6
_ZSTD_SINCE: Final = 10
_FOLLOWERS_SINCE: Final = 11
_CURRENT_LEADER_SINCE: Final = 16
_SIZE_BYTES: Final = 4

_Topic: TypeAlias = tuple[TopicName, list[PartitionData[bytes | FileSlice]]]

read = read_fetch_request


async def handle(
    request: FetchRequestData, context: RequestContext, broker: BrokerContext
) -> EncodedBody:
    """The response with the partitions of the request or of its fetch session."""
    version = context.api_version
    is_from_follower = request.replica_id >= 0
    topic_names = broker.metadata_cache.snapshot.topic_names
    asked = ((topic, each) for topic, partitions in request.topics for each in partitions)
    fetch_infos = {
        _named(topic, partition, topic_names): fetch_info
        async for topic, (partition, fetch_info) in in_slices(asked)
    }
    left = ((topic, each) for topic, partitions in request.forgotten for each in partitions)
    forgotten = [_named(topic, each, topic_names) async for topic, each in in_slices(left)]
    session = await run_in_slices(
        broker.records.fetch_sessions.context(
            version,
            FetchMetadata(request.session_id, request.session_epoch),
            fetch_infos,
            forgotten,
            topic_names,
            is_from_follower=is_from_follower,
            now_ms=broker.records.replica_manager.now_ms(),
        )
    )
    interesting, erroneous = await _sorted_out(session, context, broker, is_from_follower)
    fetched: dict[TopicIdPartition, FetchPartitionData] = {}
    if interesting:
        fetched = await broker.records.reads.fetch_messages(
            _params(request, context, broker), interesting
        )
    found = {**fetched, **erroneous}
    if context.usage is not None:
        if is_from_follower:
            context.usage.exempt()
        else:
            answered = await run_in_slices(session.response_partitions(found))
            if context.usage.fetched(await _size(answered, context, broker)) > 0:
                return await _answered(session.throttled(), {}, request, context, broker)
    response = await run_in_slices(session.respond(found, broker.records.replica_manager.now_ms()))
    return await _answered(response, interesting, request, context, broker)


def refuse(request: FetchRequestData, context: RequestContext, error: ErrorCode) -> EncodedBody:
    """The response with ``error`` for every partition, and for the request from version 7 on."""
    topics = [
        (topic, [_failed(partition, error) for partition, _ in partitions])
        for topic, partitions in request.topics
    ]
    count = 1 + sum(len(partitions) for _, partitions in topics)
    return EncodedBody(
        fetch_response(context.api_version, error, 0, topics),
        errors=lambda: {error: count},
        throttled=lambda throttle_ms: fetch_response(
            context.api_version, error, 0, topics, throttle_ms=throttle_ms
        ),
    )


def _named(topic: TopicName, partition: int, names: Mapping[UUID, str]) -> TopicIdPartition:
    if isinstance(topic, str):
        return TopicIdPartition(None, topic, partition)
    return TopicIdPartition(topic, None if topic is None else names.get(topic), partition)


async def _sorted_out(
    session: FetchContext, context: RequestContext, broker: BrokerContext, is_from_follower: bool
) -> tuple[dict[TopicIdPartition, FetchPartition], dict[TopicIdPartition, FetchPartitionData]]:
    """The partitions that can be read, and the others with their errors."""
    interesting: dict[TopicIdPartition, FetchPartition] = {}
    erroneous: dict[TopicIdPartition, FetchPartitionData] = {}
    partitions = {each: info async for each, info in in_slices(session.partitions())}
    allowed: set[str | None]
    if is_from_follower:
        is_trusted = is_cluster_allowed(broker, context, AclOperation.CLUSTER_ACTION)
        allowed = {each.topic for each in partitions if is_trusted}
    else:
        is_trusted = True
        names = [each.topic for each in partitions if each.topic is not None]
        allowed = set(
            await allowed_names(broker, context, AclOperation.READ, ResourceType.TOPIC, names)
        )
    known = broker.metadata_cache.snapshot.partitions
    async for each, fetch_info in in_slices(partitions.items()):
        if each.topic is None and is_trusted:
            erroneous[each] = _refused(ErrorCode.unknown_topic_id)
        elif each.topic is None or each.topic not in allowed:
            erroneous[each] = _refused(ErrorCode.topic_authorization_failed)
        elif each.partition not in known.get(each.topic, ()):
            erroneous[each] = _refused(ErrorCode.unknown_topic_or_partition)
        else:
            interesting[each] = fetch_info
    return interesting, erroneous


def _params(
    request: FetchRequestData, context: RequestContext, broker: BrokerContext
) -> FetchParams:
    config = broker.config()
    is_from_follower = request.replica_id >= 0
    max_bytes = min(request.max_bytes, config.integer("fetch.max.bytes"))
    if context.usage is not None and not is_from_follower:
        # With a larger max_bytes every response would exceed the quota, and none have records.
        max_bytes = int(min(max_bytes, context.usage.most_fetched()))
    if is_from_follower:
        isolation = FetchIsolation.LOG_END
    elif request.is_read_committed:
        isolation = FetchIsolation.TXN_COMMITTED
    else:
        isolation = FetchIsolation.HIGH_WATERMARK
    selects = config.text("replica.selector.class") == RACK_AWARE_SELECTOR
    is_asked = selects and context.api_version >= _FOLLOWERS_SINCE and not is_from_follower

    def nearer(partition: Partition, fetch_offset: int) -> int | None:
        snapshot = broker.metadata_cache.snapshot
        return follower_in_rack(partition, fetch_offset, request.rack_id, snapshot)

    return FetchParams(
        request.max_wait_ms,
        min(request.min_bytes, max_bytes),
        max_bytes,
        isolation,
        request.replica_id,
        request.replica_epoch,
        has_hard_limit=context.api_version < _SOFT_LIMIT_SINCE,
        is_leader_only=is_from_follower or context.api_version < _FOLLOWERS_SINCE,
        **({"preferred_replica": nearer} if is_asked else {}),
    )


async def _answered(
    response: SessionFetchResponse,
    fetch_infos: Mapping[TopicIdPartition, FetchPartition],
    request: FetchRequestData,
    context: RequestContext,
    broker: BrokerContext,
) -> EncodedBody:
    version = context.api_version
    leaders = CurrentLeaders(broker, context.listener_name)
    topics: list[_Topic] = []
    conversions = NO_CONVERSIONS
    async for each, found in in_slices(response.partitions.items()):
        converted = found
        is_converted = True
        if each.topic is not None and each in fetch_infos:
            converted, cost = await _converted(
                broker,
                each.topic_partition,
                found,
                fetch_infos[each].fetch_offset,
                version,
                is_from_follower=request.replica_id >= 0,
            )
            is_converted = converted.error is found.error
            conversions = conversions.and_also(cost)
            _count(broker, each, converted, request.replica_id)
        data = _encodable(each, converted, leaders, version, is_converted=is_converted)
        _add(topics, each, version, data)
    throttle_ms = 0 if context.usage is None else context.usage.throttle_ms

    def encoded() -> EncodedBody:
        errors = _errors(response.error, topics)
        return EncodedBody(
            fetch_response(
                version,
                response.error,
                response.session_id,
                topics,
                leaders.endpoints,
                throttle_ms,
            ),
            errors=lambda: errors,
            conversions=conversions,
        )

    return await aside(len(response.partitions), encoded)


async def _size(
    answered: Mapping[TopicIdPartition, FetchPartitionData],
    context: RequestContext,
    broker: BrokerContext,
) -> int:
    """The response's size in bytes for the quota, before any down-conversion."""
    version = context.api_version
    leaders = CurrentLeaders(broker, context.listener_name)
    topics: list[_Topic] = []
    async for each, found in in_slices(answered.items()):
        _add(topics, each, version, _encodable(each, found, leaders, version))
    body = await aside(len(answered), lambda: fetch_response(version, ErrorCode.none, 0, topics))
    return _SIZE_BYTES + sum(map(len, body))


def _add(
    topics: list[_Topic],
    each: TopicIdPartition,
    version: int,
    data: PartitionData[bytes | FileSlice],
) -> None:
    """Adds to the last topic if it is this one, else to a new one: the partitions keep their order.

    Consumers read the partitions in the order in which they asked for them, and a topic's need not
    stand together.
    """
    name: TopicName = each.topic_id if version >= TOPIC_IDS_SINCE else each.topic
    if not topics or topics[-1][0] != name:
        topics.append((name, []))
    topics[-1][1].append(data)


def _errors(top: ErrorCode, topics: Iterable[_Topic]) -> ErrorCounts:
    counts = Counter(ErrorCode(each.error_code) for _, partitions in topics for each in partitions)
    counts[top] += 1
    return counts


def _encodable(
    each: TopicIdPartition,
    found: FetchPartitionData,
    leaders: CurrentLeaders,
    version: int,
    *,
    is_converted: bool = True,
) -> PartitionData[bytes | FileSlice]:
    error, records = found.error, found.records
    assert not isinstance(records, memoryview), "only a follower gets views"
    is_elsewhere = error in (ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch)
    current_leader = (
        leaders.of(each.topic_partition)
        if is_elsewhere and version >= _CURRENT_LEADER_SINCE
        else None
    )
    if error is ErrorCode.kafka_storage_error and version < _STORAGE_ERROR_SINCE:
        error = ErrorCode.not_leader_or_follower  # older clients do not retry a storage error
    aborted, diverging = found.aborted_transactions, found.diverging_epoch
    return PartitionData(
        each.partition,
        error,
        found.high_watermark,
        found.last_stable_offset,
        found.log_start_offset,
        records if is_converted else None,
        None if aborted is None else [(each.producer_id, each.first_offset) for each in aborted],
        found.preferred_read_replica,
        None if diverging is None else (diverging.epoch, diverging.end_offset),
        current_leader,
    )


def _refused(error: ErrorCode) -> FetchPartitionData:
    """A partition that is not read has an empty list of transactions, where a read one has none."""
    return FetchPartitionData(error, aborted_transactions=())


def _failed(partition: int, error: ErrorCode) -> PartitionData[bytes | FileSlice]:
    return PartitionData(partition, error, -1, -1, -1, None, aborted_transactions=())


def _count(
    broker: BrokerContext, each: TopicIdPartition, found: FetchPartitionData, replica_id: int
) -> None:
    size = len(found.records)
    if not size:
        return
    if replica_id < 0:
        broker.records.topic_stats.mark(each.topic_partition.topic, "bytes_out", size)
        return
    broker.records.topic_stats.mark_all("replication_bytes_out", size)
    partition = broker.records.replica_manager.get_partition_or_error(each.topic_partition)
    if not isinstance(partition, ErrorCode) and replica_id in partition.adding_replicas:
        broker.records.topic_stats.mark_all("reassignment_bytes_out", size)


async def _converted(
    broker: BrokerContext,
    tp: TopicPartition,
    found: FetchPartitionData,
    fetch_offset: int,
    version: int,
    *,
    is_from_follower: bool,
) -> tuple[FetchPartitionData, RecordConversions]:
    """The records in the format of an old version, and the cost of the conversion.

    Records of a version that needs no conversion are unchanged.
    """
    if version >= _ZSTD_SINCE:
        return found, NO_CONVERSIONS
    log = broker.logs.log(tp)
    if log is not None and log.config.codec is Codec.ZSTD:
        return _refused(ErrorCode.unsupported_compression_type), NO_CONVERSIONS
    if version >= _MAGIC_2_SINCE:
        return found, NO_CONVERSIONS
    if log is not None and not log.config.allows_down_conversion and not is_from_follower:
        return _refused(ErrorCode.unsupported_version), NO_CONVERSIONS
    records = found.records
    if not isinstance(records, FileSlice):
        return found, NO_CONVERSIONS
    magic = MAGIC_1 if version >= _MAGIC_1_SINCE else MAGIC_0
    try:
        converted, cost = await asyncio.to_thread(_convert, records, magic, fetch_offset)
    except UnsupportedCompressionType:
        return _refused(ErrorCode.unsupported_compression_type), NO_CONVERSIONS
    except (CorruptRecord, InvalidRecord):
        return _refused(ErrorCode.corrupt_message), NO_CONVERSIONS
    if cost.records:
        broker.records.topic_stats.mark(tp.topic, "fetch_message_conversions", cost.records)
    return found._replace(records=converted), cost


def _convert(records: FileSlice, magic: int, fetch_offset: int) -> tuple[bytes, RecordConversions]:
    began_ns = perf_counter_ns()
    data = records.read()
    converted = down_converted(data, magic, fetch_offset)
    memory_bytes = len(data) + len(converted.data)
    elapsed_ns = perf_counter_ns() - began_ns
    return converted.data, RecordConversions(converted.record_count, elapsed_ns, memory_bytes)
