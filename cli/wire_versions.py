"""One request, whatever version a broker speaks: ApiVersions decides, once per connection.

Verbs build each request, and read each response, in the newest version they know.
:class:`BrokerConnection` writes the request in the newest version that the broker knows as well,
and gives the response the newest version's form: what an older broker does not say has the value
that means "not said".  A request that an older version cannot express is refused before it is sent.

Source: KIP-35; which version has which field: Kafka's message definitions, as kio holds them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from typing import Any, Final, get_args

from kio.schema.api_versions.v0.request import ApiVersionsRequest
from kio.schema.api_versions.v0.response import ApiVersionsResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId
from kio.static.primitive import i8, i16, i32, i32Timedelta
from kio.static.protocol import RequestPayload, ResponsePayload

from zkcontroller.net.connection import Connection
from zkcontroller.protocol.api_versions import ApiKey, api
from zkcontroller.protocol.messages import request_type, response_type

from .errors import ApiNotKnown, Refused

_OLDEST: Final[Mapping[int, int]] = {
    ApiKey.METADATA: 4,
    ApiKey.LIST_OFFSETS: 1,
}
"""An older Metadata may create the topic it asks for; ListOffsets 0 has another form."""

_DEFAULTS_OF_TOPICS: Final = 4
"""CreateTopics knows the broker's defaults since this version (KIP-464)."""

_KAFKA_WITH: Final[Mapping[int, str]] = {
    ApiKey.METADATA: "0.11.0",
    ApiKey.LIST_OFFSETS: "0.10.1",
    ApiKey.CREATE_TOPICS: "0.10.1",
    ApiKey.DELETE_TOPICS: "0.10.1",
    ApiKey.DESCRIBE_CONFIGS: "0.11.0",
    ApiKey.CREATE_PARTITIONS: "1.0",
    ApiKey.DESCRIBE_LOG_DIRS: "1.0",
    ApiKey.ELECT_LEADERS: "2.2",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "2.3",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "2.4",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "2.4",
}
"""The first Kafka whose brokers answer the request, in the oldest version used here."""

_NOT_SAID: Final[Mapping[str, Any]] = {
    "throttle_time": i32Timedelta.parse(timedelta(0)),
    "cluster_id": None,
    "controller_id": BrokerId(-1),
    "rack": None,
    "topic_id": None,
    "is_internal": False,
    "leader_epoch": i32(-1),
    "offline_replicas": (),
    "error_code": ErrorCode.none,
    "error_message": None,
    "num_partitions": i32(-1),
    "replication_factor": i16(-1),
    "configs": None,
    "config_source": i8(0),
    "synonyms": (),
    "config_type": i8(0),
    "documentation": None,
}
"""What a field of a response holds that the broker's version does not have."""

_MAY_BE_LEFT_OUT: Final = frozenset({"include_documentation", "include_synonyms"})
"""Fields that ask for more than an older broker can say: without them it says what it can."""


_ONLY_BEFORE: Final[Mapping[str, Any]] = {"include_cluster_authorized_operations": False}
"""Fields of requests that only older versions have."""


class BrokerConnection:
    """A connection to one broker that translates between our newest versions and the broker's."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._offered: Mapping[int, tuple[int, int]] | None = None

    @property
    def last_correlation_id(self) -> int:
        """Of the latest request; -1 before the first, 0 for the question for versions."""
        return self._connection.last_correlation_id

    async def request(self, newest: RequestPayload) -> ResponsePayload:
        """The response, in the version of the request.

        ApiNotKnown if the broker does not have the API, Refused if its version of it cannot say
        what the request says.

        Raises what :meth:`Connection.request` raises.
        """
        key = int(newest.__api_key__)
        version = self._version_for(key, int(newest.__version__), await self._versions())
        response = await self._connection.request(self._older(newest, version))
        like_newest: ResponsePayload = _like_newest(
            response, response_type(key, int(newest.__version__))
        )
        return like_newest

    async def _versions(self) -> Mapping[int, tuple[int, int]]:
        if self._offered is None:
            answer = await self._connection.request(ApiVersionsRequest())
            assert isinstance(answer, ApiVersionsResponse), "request() answers in kind"
            self._offered = {
                int(each.api_key): (int(each.min_version), int(each.max_version))
                for each in answer.api_keys
            }
        return self._offered

    def _version_for(self, key: int, newest: int, offered: Mapping[int, tuple[int, int]]) -> int:
        least, most = offered.get(key, (0, -1))
        version = min(newest, most)
        if version < max(least, _OLDEST.get(key, 0)):
            raise ApiNotKnown(
                f"broker {self._connection.peer} does not know {api(key).name}: "
                f"that needs Kafka {_KAFKA_WITH[key]} or later"
            )
        return version

    def _older(self, newest: RequestPayload, version: int) -> RequestPayload:
        key = int(newest.__api_key__)
        if version == int(newest.__version__):
            return newest
        target = request_type(key, version)
        try:
            if key == ApiKey.CREATE_TOPICS and version < _DEFAULTS_OF_TOPICS:
                _check_all_said(newest)
            if key == ApiKey.DELETE_TOPICS:
                return _deletion_by_name(newest, target)
            adapted: RequestPayload = _with_fields_of(newest, target)
        except _CannotExpress as error:
            raise Refused(f"broker {self._connection.peer} is too old for this: {error}") from None
        return adapted


class _CannotExpress(Exception):
    """An older version has no way to say what the request says."""


def _check_all_said(newest: Any) -> None:
    for topic in newest.topics:
        for field in ("num_partitions", "replication_factor"):
            if getattr(topic, field) == -1 and not topic.assignments:
                option = {"num_partitions": "--partitions"}.get(field, "--replication-factor")
                raise _CannotExpress(f"before Kafka 2.4 there is no default, say {option}")


def _deletion_by_name(newest: Any, target: type[Any]) -> RequestPayload:
    names = tuple(topic.name for topic in newest.topics)
    deletion: RequestPayload = target(topic_names=names, timeout=newest.timeout)
    return deletion


def _with_fields_of(source: Any, target: Any) -> Any:
    """``source`` as the class of another version; _CannotExpress if that lacks what it says."""
    names = {field.name for field in dataclasses.fields(target)}
    for field in dataclasses.fields(source):
        if field.name in names or field.name in _MAY_BE_LEFT_OUT:
            continue
        if getattr(source, field.name) not in (None, False, 0, (), field.default):
            raise _CannotExpress(f"it does not know {field.name}")
    return target(
        **{
            name: _converted(getattr(source, name), element)
            if hasattr(source, name)
            else _ONLY_BEFORE[name]
            for name, element in _elements(target).items()
        }
    )


def _converted(value: Any, element: type[Any] | None) -> Any:
    if element is None or value is None:
        return value
    return tuple(_with_fields_of(each, element) for each in value)


def _like_newest(response: Any, newest: Any) -> Any:
    """The response in the newest version's form; fields that it lacks have their "not said"."""
    if isinstance(response, newest):
        return response
    values = {}
    elements = _elements(newest)
    for field in dataclasses.fields(newest):
        element = elements[field.name]
        if hasattr(response, field.name):
            value = getattr(response, field.name)
            if element is not None and isinstance(value, tuple):
                value = tuple(_like_newest(each, element) for each in value)
            values[field.name] = value
        elif field.name == "config_source" and hasattr(response, "is_default"):
            # DescribeConfigs 0 (Kafka 0.11, 1.0) says no more than whether it is the default.
            values[field.name] = i8(5 if response.is_default else 0)
        elif field.default is dataclasses.MISSING:
            values[field.name] = _NOT_SAID[field.name]
    return newest(**values)


@cache
def _elements(message: Any) -> Mapping[str, type[Any] | None]:
    """Of each field: the class of its elements where it is an array of messages, else None."""
    return {field.name: _message_in(field.type) for field in dataclasses.fields(message)}


def _message_in(declared: Any) -> type[Any] | None:
    if hasattr(declared, "__dataclass_fields__"):
        found: type[Any] = declared
        return found
    return next(filter(None, map(_message_in, get_args(declared))), None)
