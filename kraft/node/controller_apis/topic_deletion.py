"""DeleteTopics by name or id; a client that may not see a topic does not learn that it exists.

Source: Kafka ``ControllerApis.deleteTopics`` (KIP-516).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation, ResourceType
from kafka_common.api_error import ApiError, ApiException
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.milliseconds import milliseconds
from kafka_common.protocol.request_types import field_or
from kafka_common.protocol.versioned_messages import response_schema
from kraft.controller.quorum_controller_requests import (
    DeleteTopics,
    FindTopicIds,
    FindTopicNames,
)
from kraft.node.controller_apis.call import (
    ZERO_UUID,
    Call,
    uuid_or_zero,
)
from kraft.node.controller_apis.refusals import TOPIC_REFUSED

_BY_ID_SINCE: Final = 6
_DISABLED_SINCE: Final = 3
"""The first version that knows TOPIC_DELETION_DISABLED; before, INVALID_REQUEST is returned."""
_DUPLICATE_NAME: Final = ApiError(ErrorCode.invalid_request, "Duplicate topic name.")
_DUPLICATE_ID: Final = ApiError(ErrorCode.invalid_request, "Duplicate topic id.")
_NEITHER: Final = ApiError(ErrorCode.invalid_request, "Neither topic name nor id were specified.")
_BOTH: Final = ApiError(
    ErrorCode.invalid_request, "You may not specify both topic name and topic id."
)
_NAMED_TWICE: Final = ApiError(
    ErrorCode.invalid_request,
    "The provided topic name maps to an ID that was already supplied.",
)


class _Topic(NamedTuple):
    """A topic in the request, by name or by id."""

    name: str | None
    topic_id: UUID


class _Result(NamedTuple):
    """The result for a topic, with the name or id that the client may see."""

    name: str | None
    topic_id: UUID
    error: ApiError


async def delete_topics(request: request_types.DeleteTopicsRequest, call: Call) -> ResponsePayload:
    """Deletes the allowed topics; one result per topic, in random order."""
    schema = response_schema(ApiKey.DELETE_TOPICS, call.version)
    topics = _topics_of(request, call.version)
    try:
        _check_enabled(call)
        results = await _Deletion(topics, call).run(milliseconds(request.timeout))
        random.shuffle(results)
    except ApiException as refused:
        results = [_Result(name, topic_id, ApiError(refused.error)) for name, topic_id in topics]
    return schema.response(
        responses=tuple(
            schema.part(
                "DeletableTopicResult",
                name=name,
                topic_id=topic_id,
                error_code=error.error,
                error_message=error.message,
            )
            for name, topic_id, error in results
        )
    )


def _check_enabled(call: Call) -> None:
    if call.services.node.config.is_enabled("delete.topic.enable"):
        return
    disabled = ErrorCode.topic_deletion_disabled
    raise ApiException(disabled if call.version >= _DISABLED_SINCE else ErrorCode.invalid_request)


def _topics_of(request: request_types.DeleteTopicsRequest, version: int) -> list[_Topic]:
    if version < _BY_ID_SINCE:
        return [_Topic(name, ZERO_UUID) for name in field_or(request, "topic_names", ())]
    return [
        _Topic(topic.name, uuid_or_zero(topic.topic_id))
        for topic in field_or(request, "topics", ())
    ]


class _Deletion:
    """One request: its topics and their results."""

    def __init__(self, topics: Iterable[_Topic], call: Call) -> None:
        self._call = call
        self._results: list[_Result] = []
        names: Counter[str] = Counter()
        ids: Counter[UUID] = Counter()
        for name, topic_id in topics:
            if name is None and topic_id == ZERO_UUID:
                self._add_result(None, ZERO_UUID, _NEITHER)
            elif name is None:
                ids[topic_id] += 1
            elif topic_id == ZERO_UUID:
                names[name] += 1
            else:
                self._add_result(name, topic_id, _BOTH)
        for name, count in names.items():
            if count > 1:
                self._add_result(name, ZERO_UUID, _DUPLICATE_NAME)
        for topic_id, count in ids.items():
            if count > 1:
                self._add_result(None, topic_id, _DUPLICATE_ID)
        self._names = [name for name, count in names.items() if count == 1]
        self._ids = [topic_id for topic_id, count in ids.items() if count == 1]

    async def run(self, timeout_ms: int) -> list[_Result]:
        """The results; ApiException if the request is refused as a whole."""
        to_delete = await self._find()
        results = await self._call.ask(DeleteTopics(tuple(to_delete)), timeout_ms)
        for topic_id, error in results.items():
            self._add_result(to_delete[topic_id], topic_id, error)
        return self._results

    async def _find(self) -> dict[UUID, str]:
        """The topics to delete, names by id; adds a result for each other topic."""
        by_id = await self._named_ids()
        describable, deletable = self._allowed([*self._names, *by_id.values()])
        found: dict[UUID, str] = {}
        for topic_id, name in by_id.items():
            if name in deletable:
                found[topic_id] = name
            else:
                # Only a client that may describe the topic gets its name.
                self._add_result(name if name in describable else None, topic_id, TOPIC_REFUSED)
        asked = FindTopicIds(tuple(self._names))
        by_name: Mapping[str, UUID | ApiError] = await self._call.ask(asked)
        for name, topic in by_name.items():
            if name not in describable:
                self._add_result(name, ZERO_UUID, TOPIC_REFUSED)
            elif isinstance(topic, ApiError):
                self._add_result(name, ZERO_UUID, topic)
            elif name not in deletable:
                self._add_result(name, ZERO_UUID, TOPIC_REFUSED)
            elif topic in found:
                # The request names the topic once by name and once by id.
                del found[topic]
                self._add_result(name, topic, _NAMED_TWICE)
            else:
                found[topic] = name
        return found

    async def _named_ids(self) -> dict[UUID, str]:
        """The names of the topics that are requested by id; adds a result for each unknown id."""
        found: Mapping[UUID, str | ApiError] = await self._call.ask(
            FindTopicNames(tuple(self._ids))
        )
        named: dict[UUID, str] = {}
        for topic_id, name in found.items():
            if isinstance(name, ApiError):
                self._add_result(None, topic_id, name)
            else:
                named[topic_id] = name
        return named

    def _allowed(self, names: Iterable[str]) -> tuple[dict[str, None], dict[str, None]]:
        """The names that may be described, and those that may be deleted."""
        every = dict.fromkeys(names)
        permissions = self._call.permissions
        if permissions.allow_on_cluster(AclOperation.DELETE, log_if_denied=False):
            return every, every
        return (
            permissions.allowed_names(AclOperation.DESCRIBE, ResourceType.TOPIC, every),
            permissions.allowed_names(AclOperation.DELETE, ResourceType.TOPIC, every),
        )

    def _add_result(self, name: str | None, topic_id: UUID, error: ApiError) -> None:
        self._results.append(_Result(name, topic_id, error))
