"""CreatePartitions (37): adds partitions to topics and waits until they have leaders.

Only the active controller handles it.  If the new partitions have no leaders in time, the topic's
error is REQUEST_TIMED_OUT; the partitions are created nevertheless.

Source: Kafka ``KafkaApis.handleCreatePartitionsRequest``, ``ZkAdminManager.createPartitions``
(KIP-195).
"""

from __future__ import annotations

import logging
from collections import Counter
from datetime import timedelta
from typing import Final, TypeAlias

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation, ResourceType
from kafka_common.errors import ZkControllerError
from kafka_common.model import NO_LEADER, Broker
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.error_codes import error_code_for
from kafka_common.protocol.versioned_messages import response_schema
from replica_manager.request_errors import RequestRefused
from replica_manager.server.authorization import allowed_names
from replica_manager.server.context import BrokerContext, RequestContext, Throttled
from replica_manager.server.controller_requests import timeout_ms_of
from replica_manager.server.large_responses import composed
from replica_manager.server.slices import in_slices
from replica_manager.server.topics.partition_creation import NewPartitions

API_KEY: Final = ApiKey.CREATE_PARTITIONS
VERSIONS: Final = (0, 3)
_STRICT_QUOTA_SINCE: Final = 3
_log = logging.getLogger("kafka.server.ZkAdminManager")

_Outcome: TypeAlias = tuple[ErrorCode, str | None]
_DONE: Final[_Outcome] = (ErrorCode.none, None)
_UNAUTHORIZED: Final[_Outcome] = (
    ErrorCode.topic_authorization_failed,
    "The topic authorization is failed.",
)


async def handle(
    request: request_types.CreatePartitionsRequest, context: RequestContext, broker: BrokerContext
) -> ResponsePayload | Throttled:
    """The response with one result per topic."""
    if not broker.administration.controller.is_active:
        raise RequestRefused(ErrorCode.not_controller)
    repeated = Counter([topic.name async for topic in in_slices(request.topics)])
    outcomes: dict[str, _Outcome] = {
        name: (ErrorCode.invalid_request, "Duplicate topic in request.")
        async for name, count in in_slices(repeated.items())
        if count > 1
    }
    named = [topic async for topic in in_slices(request.topics) if topic.name not in outcomes]
    names = [topic.name async for topic in in_slices(named)]
    allowed = await allowed_names(broker, context, AclOperation.ALTER, ResourceType.TOPIC, names)
    valid = [_wanted(topic) async for topic in in_slices(named) if topic.name in allowed]
    outcomes |= {name: _UNAUTHORIZED async for name in in_slices(names) if name not in allowed}
    brokers = await broker.administration.admin.brokers()
    _check_racks(brokers)
    quota = broker.quotas.controller_mutation.of(
        context.client_id,
        is_strict=context.api_version >= _STRICT_QUOTA_SINCE,
        user=context.principal.name,
    )
    created: dict[str, tuple[int, ...]] = {}
    async for wanted in in_slices(valid):
        try:
            created[wanted.topic] = await broker.administration.admin.create_partitions(
                wanted, brokers, None if request.validate_only else quota.charge
            )
            outcomes[wanted.topic] = _DONE
        except ZkControllerError as failure:
            outcomes[wanted.topic] = _refusal(failure, wanted.topic, broker)
    if not request.validate_only:
        await _await_leaders(created, outcomes, timeout_ms_of(request), broker)
    throttle_ms = quota.throttle_ms
    response = await composed(len(outcomes), lambda: _response(context, outcomes, throttle_ms))
    return Throttled(response, throttle_ms)


def refuse(
    request: request_types.CreatePartitionsRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with ``error`` for every topic of the request."""
    return _response(context, {topic.name: (error, None) for topic in request.topics})


def _wanted(topic: request_types.CreatePartitionsTopic) -> NewPartitions:
    assignments = topic.assignments
    return NewPartitions(
        topic.name,
        topic.count,
        None if assignments is None else tuple(each.broker_ids for each in assignments),
    )


def _check_racks(brokers: dict[int, Broker]) -> None:
    """Refuses the request if only some brokers have a rack, as Kafka does."""
    if len({broker.rack is None for broker in brokers.values()}) > 1:
        raise RequestRefused(
            ErrorCode.unknown_server_error, "Not all brokers have rack information."
        )


def _refusal(failure: ZkControllerError, topic: str, broker: BrokerContext) -> _Outcome:
    if isinstance(failure, RequestRefused):
        if failure.error is ErrorCode.unknown_server_error:
            return failure.error, None
        return failure.error, failure.message
    _log.error(
        "[Admin Manager on Broker %d]: Error processing create partitions request for topic %s: %s",
        broker.broker_id,
        topic,
        failure,
    )
    return error_code_for(failure), None


async def _await_leaders(
    created: dict[str, tuple[int, ...]],
    outcomes: dict[str, _Outcome],
    timeout_ms: int,
    broker: BrokerContext,
) -> None:
    def lacks_leader(topic: str) -> bool:
        snapshot = broker.metadata_cache.snapshot
        states = (snapshot.partition(topic, partition) for partition in created[topic])
        return any(state is None or state.leader == NO_LEADER for state in states)

    if created and timeout_ms > 0:
        await broker.administration.topics.waiters.wait(
            list(created), lambda: not any(map(lacks_leader, created)), timeout_ms
        )
    for topic in created:
        # With a timeout of 0 the error is always REQUEST_TIMED_OUT, as in Kafka.
        if timeout_ms <= 0 or lacks_leader(topic):
            outcomes[topic] = (ErrorCode.request_timed_out, None)


def _response(
    context: RequestContext, outcomes: dict[str, _Outcome], throttle_ms: int = 0
) -> ResponsePayload:
    schema = response_schema(API_KEY, context.api_version)
    return schema.response(
        throttle_time=timedelta(milliseconds=throttle_ms),
        results=tuple(
            schema.part(
                "CreatePartitionsTopicResult",
                name=topic,
                error_code=error,
                error_message=message,
            )
            for topic, (error, message) in outcomes.items()
        ),
    )
