"""AlterPartition (56): a leader asks the controller to change the ISRs of its partitions.

Requests name topics up to version 1, and have topic ids from version 2 on.  A controller in
ZooKeeper mode ignores the broker epochs of in-sync replicas, which version 3 adds.

Source: Kafka ``KafkaApis.handleAlterPartitionRequest``, ``KafkaController.alterPartitions``
(KIP-497, KIP-704, KIP-841, KIP-903).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.model import RECOVERED
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.request_types import field_or
from kafka_common.protocol.versioned_messages import ResponseSchema, response_schema
from replica_manager.server.context import BrokerContext, EncodedBody, RequestContext
from replica_manager.server.controller_requests import ask
from replica_manager.server.large_responses import composed
from replica_manager.server.slices import in_slices
from zkcontroller.core.effects import AlterPartitionResult, IsrChangeResult
from zkcontroller.core.events import AlterPartitionReceived, IsrChange

API_KEY: Final = ApiKey.ALTER_PARTITION
VERSIONS: Final = (0, 3)
_TOPIC_IDS_SINCE: Final = 2
_NO_ID: Final = UUID(int=0)


async def handle(
    request: request_types.AlterPartitionRequest, context: RequestContext, broker: BrokerContext
) -> ResponsePayload | EncodedBody:
    """The response with one result per partition, or only an error code."""
    changes = tuple([each async for each in in_slices(_changes(request, context.api_version))])
    response = await ask(
        broker,
        lambda request_id: AlterPartitionReceived(
            request.broker_id, request.broker_epoch, context.api_version, changes, request_id
        ),
        AlterPartitionResult,
    )
    error = response.error_code
    return await composed(
        len(response.results), lambda: _response(context, error, response.results)
    )


def refuse(
    _request: request_types.AlterPartitionRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with only an error code."""
    return _response(context, error, ())


def _changes(request: request_types.AlterPartitionRequest, version: int) -> Iterator[IsrChange]:
    for topic in request.topics:
        name: UUID | str
        if version >= _TOPIC_IDS_SINCE:
            # kio decodes the zero UUID as None.
            name = field_or(topic, "topic_id", None) or _NO_ID
        else:
            name = field_or(topic, "topic_name", "")
        for partition in topic.partitions:
            yield IsrChange(
                name,
                partition.partition_index,
                partition.leader_epoch,
                _new_isr(partition),
                field_or(partition, "leader_recovery_state", RECOVERED),
                partition.partition_epoch,
            )


def _new_isr(partition: request_types.AlterPartitionPartitionData) -> tuple[int, ...]:
    isr = field_or(partition, "new_isr", None)
    if isr is not None:
        return isr
    return tuple(state.broker_id for state in field_or(partition, "new_isr_with_epochs", ()))


def _response(
    context: RequestContext, error: ErrorCode, results: Sequence[IsrChangeResult]
) -> ResponsePayload:
    schema = response_schema(API_KEY, context.api_version)
    by_topic: dict[UUID | str, list[IsrChangeResult]] = {}
    for result in results:
        by_topic.setdefault(result.topic, []).append(result)
    return schema.response(
        error_code=error,
        topics=tuple(
            schema.part(
                "TopicData",
                topic_name=topic,
                topic_id=topic,
                partitions=tuple(_partition(schema, result) for result in partitions),
            )
            for topic, partitions in by_topic.items()
        ),
    )


def _partition(schema: ResponseSchema, result: IsrChangeResult) -> Any:
    state = result.state
    return schema.part(
        "PartitionData",
        partition_index=result.partition,
        error_code=result.error_code,
        leader_id=0 if state is None else state.leader,
        leader_epoch=0 if state is None else state.leader_epoch,
        isr=() if state is None else state.in_sync_replicas,
        leader_recovery_state=RECOVERED if state is None else state.leader_recovery_state,
        partition_epoch=0 if state is None else state.zk_version,
    )
