"""CreateTopics (19): writes topics to ZooKeeper and waits until their partitions have leaders.

Only the active controller handles it.  If a new topic has no leaders in time, its error is
REQUEST_TIMED_OUT; the topic is created nevertheless.

Source: Kafka ``KafkaApis.handleCreateTopicsRequest``, ``ZkAdminManager.createTopics``.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation, ResourceType
from kafka_common.errors import ZkControllerError
from kafka_common.model import NO_LEADER
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.error_codes import error_code_for
from kafka_common.protocol.request_types import field_or
from kafka_common.protocol.versioned_messages import ResponseSchema, response_schema
from replica_manager.request_errors import RequestRefused
from replica_manager.server.authorization import allowed_names, is_cluster_allowed
from replica_manager.server.configs.config_entries import topic_entries
from replica_manager.server.context import BrokerContext, RequestContext, Throttled
from replica_manager.server.slices import in_slices
from replica_manager.server.topics.topic_creation import (
    CLUSTER_METADATA_TOPIC,
    CreatedTopic,
    NewTopic,
)

API_KEY: Final = ApiKey.CREATE_TOPICS
VERSIONS: Final = (0, 7)
_STRICT_QUOTA_SINCE: Final = 6
_MILLISECOND: Final = timedelta(milliseconds=1)
_log = logging.getLogger("kafka.server.ZkAdminManager")


async def handle(
    request: request_types.CreateTopicsRequest, context: RequestContext, broker: BrokerContext
) -> ResponsePayload | Throttled:
    """The response with one result per topic, in the request's order."""
    if not broker.administration.controller.is_active:
        raise RequestRefused(ErrorCode.not_controller)
    creation = _Creation(request, context, broker)
    await creation.run()
    return await creation.response()


def refuse(
    request: request_types.CreateTopicsRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with ``error`` for every topic of the request."""
    schema = response_schema(API_KEY, context.api_version)
    return schema.response(
        topics=tuple(_refused(schema, topic.name, error, None) for topic in request.topics)
    )


class _Creation:
    """The handling of one CreateTopics request."""

    def __init__(
        self,
        request: request_types.CreateTopicsRequest,
        context: RequestContext,
        broker: BrokerContext,
    ) -> None:
        self._request = request
        self._context = context
        self._broker = broker
        self._quota = broker.quotas.controller_mutation.of(
            context.client_id,
            is_strict=context.api_version >= _STRICT_QUOTA_SINCE,
            user=context.principal.name,
        )
        self._schema = response_schema(API_KEY, context.api_version)
        self._validate_only = field_or(request, "validate_only", False)
        self._timeout_ms = request.timeout // _MILLISECOND
        self._refusals: dict[str, tuple[ErrorCode, str | None]] = {}
        self._created: dict[str, CreatedTopic] = {}
        self._hidden_configs: frozenset[str] = frozenset()
        """The topics whose configuration the client may not see."""
        self._tried: set[str] = set()

    async def run(self) -> None:
        creatable = await self._authorize()
        repeated = Counter([topic.name async for topic in in_slices(self._request.topics)])
        async for topic in in_slices(self._request.topics):
            if topic.name == CLUSTER_METADATA_TOPIC:
                self._refusals[topic.name] = (
                    ErrorCode.invalid_request,
                    f"Creation of internal topic {CLUSTER_METADATA_TOPIC} is prohibited.",
                )
            elif repeated[topic.name] > 1:
                self._refusals[topic.name] = (
                    ErrorCode.invalid_request,
                    "Found multiple entries for this topic.",
                )
            elif topic.name not in creatable:
                self._refusals[topic.name] = (
                    ErrorCode.topic_authorization_failed,
                    "Authorization failed.",
                )
            else:
                self._tried.add(topic.name)
                await self._create(await _new_topic(topic))
        if self._created and not self._validate_only:
            await self._await_leaders()

    async def _authorize(self) -> dict[str, None]:
        """The topics that the client may create; also sets ``_hidden_configs``."""
        topics = in_slices(self._request.topics)
        names = {t.name: None async for t in topics if t.name != CLUSTER_METADATA_TOPIC}
        may_create_any = is_cluster_allowed(
            self._broker, self._context, AclOperation.CREATE, log_if_denied=False
        )
        described = await allowed_names(
            self._broker,
            self._context,
            AclOperation.DESCRIBE_CONFIGS,
            ResourceType.TOPIC,
            names,
            log_if_denied=False,
        )
        self._hidden_configs = frozenset(
            [name async for name in in_slices(names) if name not in described]
        )
        if may_create_any:
            return names
        return await allowed_names(
            self._broker, self._context, AclOperation.CREATE, ResourceType.TOPIC, names
        )

    async def _create(self, topic: NewTopic) -> None:
        snapshot = self._broker.metadata_cache.snapshot
        try:
            self._created[topic.name] = await self._broker.administration.topics.create(
                topic,
                snapshot.live_brokers,
                is_cached=topic.name in snapshot.partitions,
                charge=None if self._validate_only else self._quota.charge,
            )
        except RequestRefused as refused:
            self._refusals[topic.name] = (refused.error, refused.message)
        except ZkControllerError as failure:
            _log.error(
                "[Admin Manager on Broker %d]: Error processing create topic request %s: %s",
                self._broker.broker_id,
                topic.name,
                failure,
            )
            self._refusals[topic.name] = (error_code_for(failure), None)

    async def _await_leaders(self) -> None:
        if self._timeout_ms > 0:
            await self._broker.administration.topics.waiters.wait(
                list(self._created),
                lambda: not any(map(self._lacks_leader, self._created.values())),
                self._timeout_ms,
            )
        for topic in self._created.values():
            # With a timeout of 0 the error is always REQUEST_TIMED_OUT, as in Kafka.
            if self._timeout_ms <= 0 or self._lacks_leader(topic):
                self._refusals[topic.name] = (ErrorCode.request_timed_out, None)

    def _lacks_leader(self, topic: CreatedTopic) -> bool:
        snapshot = self._broker.metadata_cache.snapshot
        states = (snapshot.partition(topic.name, partition) for partition in topic.assignment)
        return any(state is None or state.leader == NO_LEADER for state in states)

    async def response(self) -> Throttled:
        """The response, with one result for each time that the request names a topic."""
        throttle_ms = self._quota.throttle_ms
        results = [
            self._refusal(topic.name)
            if topic.name in self._refusals
            else self._success(self._created[topic.name])
            async for topic in in_slices(self._request.topics)
        ]
        response = self._schema.response(
            throttle_time=throttle_ms * _MILLISECOND, topics=tuple(results)
        )
        return Throttled(response, throttle_ms)

    def _refusal(self, name: str) -> Any:
        # As in Kafka: a refused topic has topic_config_error_code only if it was not attempted.
        is_hidden = name in self._hidden_configs and name not in self._tried
        created = self._created.get(name)  # without a leader in time
        topic_id = None if created is None or name in self._hidden_configs else created.topic_id
        return _refused(
            self._schema, name, *self._refusals[name], is_hidden=is_hidden, topic_id=topic_id
        )

    def _success(self, topic: CreatedTopic) -> Any:
        if topic.name in self._hidden_configs:
            return _refused(self._schema, topic.name, ErrorCode.none, None, is_hidden=True)
        return self._schema.part(
            "CreatableTopicResult",
            name=topic.name,
            topic_id=topic.topic_id,
            error_code=ErrorCode.none,
            error_message=None,
            topic_config_error_code=ErrorCode.none,
            num_partitions=len(topic.assignment),
            replication_factor=len(topic.assignment[0]),
            configs=self._configs(topic.config),
        )

    def _configs(self, config: Mapping[str, str]) -> tuple[Any, ...] | None:
        if not self._schema.has("CreatableTopicConfigs"):
            return None
        return tuple(
            self._schema.part(
                "CreatableTopicConfigs",
                name=entry.name,
                value=entry.value,
                read_only=entry.is_read_only,
                config_source=entry.source,
                is_sensitive=entry.is_sensitive,
            )
            for entry in topic_entries(config, self._broker.config())
        )


async def _new_topic(topic: request_types.CreatableTopic) -> NewTopic:
    assignments = [
        (entry.partition_index, entry.broker_ids) async for entry in in_slices(topic.assignments)
    ]
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        tuple(assignments),
        {entry.name: entry.value async for entry in in_slices(topic.configs)},
    )


def _refused(
    schema: ResponseSchema,
    name: str,
    error: ErrorCode,
    message: str | None,
    *,
    is_hidden: bool = False,
    topic_id: UUID | None = None,
) -> Any:
    return schema.part(
        "CreatableTopicResult",
        name=name,
        topic_id=topic_id,
        error_code=error,
        error_message=message,
        topic_config_error_code=(
            ErrorCode.topic_authorization_failed if is_hidden else ErrorCode.none
        ),
        num_partitions=-1,
        replication_factor=-1,
        configs=(),
    )
