"""DescribeLogDirs (35): this broker's log directories and the sizes of their replicas.

Source: Kafka ``KafkaApis.handleDescribeLogDirsRequest``, ``ReplicaManager.describeLogDirs``
(KIP-113, KIP-827).
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation
from kafka_common.model import TopicPartition
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.versioned_messages import ResponseSchema, response_schema
from replica_manager.log.unified_log import UnifiedLog
from replica_manager.server.authorization import is_cluster_allowed
from replica_manager.server.context import BrokerContext, EncodedBody, RequestContext
from replica_manager.server.large_responses import composed
from replica_manager.server.slices import in_slices

API_KEY: Final = ApiKey.DESCRIBE_LOG_DIRS
VERSIONS: Final = (0, 4)

_UNKNOWN_LAG: Final = -1
_UNKNOWN_BYTES: Final = -1
_log = logging.getLogger("kafka.server.ReplicaManager")


class _Log(NamedTuple):
    topic_partition: TopicPartition
    size: int
    offset_lag: int
    is_future: bool


class _LogDir(NamedTuple):
    path: Path
    is_live: bool
    space: tuple[int, int] | None
    """Total and usable bytes of the volume; None if they cannot be read."""
    logs: Sequence[_Log]

    @property
    def error(self) -> ErrorCode:
        if not self.is_live:
            return ErrorCode.kafka_storage_error
        return ErrorCode.unknown_server_error if self.space is None else ErrorCode.none


async def handle(
    request: request_types.DescribeLogDirsRequest, context: RequestContext, broker: BrokerContext
) -> ResponsePayload | EncodedBody:
    """The response with every log directory and the requested partitions in it."""
    if not is_cluster_allowed(broker, context, AclOperation.DESCRIBE):
        return refuse(request, context, ErrorCode.cluster_authorization_failed)
    asked: set[TopicPartition] | None = None
    if request.topics is not None:
        named = (
            TopicPartition(topic.topic, partition)
            for topic in request.topics
            for partition in topic.partitions
        )
        asked = {tp async for tp in in_slices(named)}
    found = _logs_by_dir(broker, asked)
    live, offline = broker.logs.live_log_dirs, broker.logs.offline_log_dirs
    spaces = await asyncio.get_running_loop().run_in_executor(
        broker.volumes, lambda: {log_dir: _space(log_dir) for log_dir in live}
    )
    described = [
        _LogDir(
            log_dir,
            is_live=broker.logs.is_live(log_dir),
            space=spaces.get(log_dir),
            logs=found[log_dir],
        )
        for log_dir in (*live, *offline)
    ]
    count = sum(map(len, found.values()))
    return await composed(count, lambda: _response(context, described))


def refuse(
    _request: request_types.DescribeLogDirsRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with ``error`` and no directories; before version 3 it has no error field."""
    return response_schema(API_KEY, context.api_version).response(error_code=error, results=())


def _response(context: RequestContext, log_dirs: Sequence[_LogDir]) -> ResponsePayload:
    schema = response_schema(API_KEY, context.api_version)
    results = []
    for each in log_dirs:
        is_online = each.error is ErrorCode.none
        total, usable = (is_online and each.space) or (_UNKNOWN_BYTES, _UNKNOWN_BYTES)
        results.append(
            schema.part(
                "DescribeLogDirsResult",
                error_code=each.error,
                log_dir=str(each.path.absolute()),
                topics=_topics(schema, each.logs if is_online else ()),
                total_bytes=total,
                usable_bytes=usable,
            )
        )
    return schema.response(error_code=ErrorCode.none, results=tuple(results))


def _logs_by_dir(
    broker: BrokerContext, asked: set[TopicPartition] | None
) -> dict[Path, list[_Log]]:
    found: defaultdict[Path, list[_Log]] = defaultdict(list)
    for is_future, logs in ((False, broker.logs.logs), (True, broker.logs.future_logs)):
        for tp, log in logs.items():
            if asked is None or tp in asked:
                lag = _offset_lag(broker, tp, log, is_future=is_future)
                found[log.log_dir].append(_Log(tp, log.size, lag, is_future))
    return found


def _offset_lag(
    broker: BrokerContext, tp: TopicPartition, log: UnifiedLog, *, is_future: bool
) -> int:
    """The lag of a log in records, -1 if unknown.

    A future log lags behind the current log's end, a current log behind the high watermark.
    """
    current = broker.logs.log(tp)
    if current is None or tp not in broker.records.replica_manager.partitions:
        return _UNKNOWN_LAG
    if is_future:
        return current.log_end_offset - log.log_end_offset
    return max(current.high_watermark - log.log_end_offset, 0)


def _space(log_dir: Path) -> tuple[int, int] | None:
    """Total and usable bytes of the volume; None if they cannot be read.  Blocks."""
    try:
        volume = os.statvfs(log_dir)
    except OSError as error:
        _log.error("Error while describing replica in dir %s: %s", log_dir, error)
        return None
    return volume.f_blocks * volume.f_frsize, volume.f_bavail * volume.f_frsize


def _topics(schema: ResponseSchema, logs: Sequence[_Log]) -> tuple[Any, ...]:
    topics: defaultdict[str, list[_Log]] = defaultdict(list)
    for log in logs:
        topics[log.topic_partition.topic].append(log)
    return tuple(
        schema.part(
            "DescribeLogDirsTopic",
            name=name,
            partitions=tuple(
                schema.part(
                    "DescribeLogDirsPartition",
                    partition_index=log.topic_partition.partition,
                    partition_size=log.size,
                    offset_lag=log.offset_lag,
                    is_future_key=log.is_future,
                )
                for log in partitions
            ),
        )
        for name, partitions in topics.items()
    )
