"""Translates requests and responses for brokers that know only an older version.

Verbs build each request, and read each response, in the newest version they know.
:class:`BrokerConnection` asks ApiVersions once, and writes each request in the newest version that
the broker knows too.  It converts the response to the newest version; a field that the older
version lacks gets a default value.  A request that an older version cannot express is refused
before it is sent.

Source: KIP-35; which version has which field: Kafka's message definitions, as kio holds them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from typing import Any, Final, TypeVar, get_args

from kio.schema.api_versions.v0.request import ApiVersionsRequest
from kio.schema.api_versions.v0.response import ApiVersionsResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId
from kio.static.primitive import i8, i16, i32, i32Timedelta, i64Timedelta
from kio.static.protocol import Entity, RequestPayload, ResponsePayload

from kafka_common.acls import AclOperation, PatternType, ResourceType
from kafka_common.net.connection import Connection
from kafka_common.protocol.api_versions import ApiKey, api
from kafka_common.protocol.messages import read, request_type, response_type, write
from kafka_common.protocol.numeric_times import numeric_response_type
from zkcontroller_cli.console.errors import ApiNotKnown, Refused

E = TypeVar("E", bound=Entity)

_OLDEST: Final[Mapping[int, int]] = {
    ApiKey.METADATA: 4,
    ApiKey.LIST_OFFSETS: 1,
    ApiKey.OFFSET_COMMIT: 2,
    ApiKey.OFFSET_FETCH: 2,
    ApiKey.PRODUCE: 3,
    ApiKey.FETCH: 4,
}
"""By API, the oldest version that is used, where that is not 0.

Metadata before 4 may create the topic it asks for.  ListOffsets 0 returns a list of offsets.
OffsetCommit 0 and OffsetFetch 0 are about offsets in ZooKeeper, OffsetCommit 1 has a time for each
partition, and OffsetFetch 1 cannot ask for all partitions.  Produce 2 and Fetch 3 know no batches
of magic 2.
"""

_KAFKA_WITH_TIMESTAMP: Final[Mapping[int, tuple[int, str, str]]] = {
    -3: (7, "max-timestamp", "3.0"),
    -4: (8, "earliest-local", "3.5"),
    -5: (9, "latest-tiered", "3.9"),
}
"""By special timestamp of ListOffsets: the first version with it, its name, the first Kafka.

An older broker would take it for a time, and return a wrong offset instead of an error.
"""

_ACLS_ON_USERS_SINCE: Final = 3
"""The first version with ACLs on users, and with tokens for another owner (KIP-373)."""

_PATTERNS_SINCE: Final = 1
"""The first version of the ACL requests with pattern types (KIP-290)."""

_ABOUT_ACLS: Final = (ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS)

_BROKER_DEFAULTS_SINCE: Final = 4
"""The first version of CreateTopics in which -1 means the broker's default (KIP-464)."""

_KAFKA_WITH: Final[Mapping[int, str]] = {
    ApiKey.METADATA: "0.11.0",
    ApiKey.LIST_OFFSETS: "0.10.1",
    ApiKey.OFFSET_COMMIT: "0.9",
    ApiKey.OFFSET_FETCH: "0.10.2",
    ApiKey.FIND_COORDINATOR: "0.9",
    ApiKey.DESCRIBE_GROUPS: "0.9",
    ApiKey.LIST_GROUPS: "0.9",
    ApiKey.WRITE_TXN_MARKERS: "0.11.0",
    ApiKey.DESCRIBE_PRODUCERS: "2.8",
    ApiKey.DESCRIBE_TRANSACTIONS: "3.0",
    ApiKey.LIST_TRANSACTIONS: "3.0",
    ApiKey.CREATE_TOPICS: "0.10.1",
    ApiKey.DELETE_TOPICS: "0.10.1",
    ApiKey.DELETE_RECORDS: "0.11.0",
    ApiKey.DESCRIBE_CONFIGS: "0.11.0",
    ApiKey.CREATE_PARTITIONS: "1.0",
    ApiKey.DESCRIBE_LOG_DIRS: "1.0",
    ApiKey.DESCRIBE_ACLS: "0.11.0",
    ApiKey.CREATE_ACLS: "0.11.0",
    ApiKey.DELETE_ACLS: "0.11.0",
    ApiKey.CREATE_DELEGATION_TOKEN: "1.1",
    ApiKey.RENEW_DELEGATION_TOKEN: "1.1",
    ApiKey.EXPIRE_DELEGATION_TOKEN: "1.1",
    ApiKey.DESCRIBE_DELEGATION_TOKEN: "1.1",
    ApiKey.ALTER_REPLICA_LOG_DIRS: "1.0",
    ApiKey.DELETE_GROUPS: "1.1",
    ApiKey.ELECT_LEADERS: "2.2",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "2.3",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "2.4",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "2.4",
    ApiKey.OFFSET_DELETE: "2.4",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "0.11.0",
    ApiKey.PRODUCE: "0.11.0",
    ApiKey.FETCH: "0.11.0",
    ApiKey.DESCRIBE_CLIENT_QUOTAS: "2.6",
    ApiKey.ALTER_CLIENT_QUOTAS: "2.6",
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: "2.7",
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: "2.7",
}
"""By API, the first version of Kafka that knows the oldest version of the request used here."""

_VALUES_OF_MISSING_FIELDS: Final[Mapping[str, Any]] = {
    "throttle_time": i32Timedelta.parse(timedelta(0)),
    "cluster_id": None,
    "controller_id": BrokerId(-1),
    "rack": None,
    "topic_id": None,
    "is_internal": False,
    "leader_epoch": i32(-1),
    "offline_replicas": (),
    "committed_leader_epoch": i32(-1),
    "group_state": "",
    "error_code": ErrorCode.none,
    "error_message": None,
    "num_partitions": i32(-1),
    "replication_factor": i16(-1),
    "configs": None,
    "config_source": i8(0),
    "synonyms": (),
    "config_type": i8(0),
    "documentation": None,
    "token_requester_principal_type": "",
    "token_requester_principal_name": "",
    "record_errors": (),
}
"""By field of a response, its value if the broker's version does not have the field."""

_DROPPABLE_FIELDS: Final = frozenset({"include_documentation", "include_synonyms"})
"""Fields of a request that may be dropped for an older broker, which then returns less."""


_VALUES_OF_OLD_FIELDS: Final[Mapping[str, Any]] = {
    "include_cluster_authorized_operations": False,
    "retention_time": i64Timedelta.parse(timedelta(milliseconds=-1)),
}
"""By field of a request that only older versions have, its value."""


class BrokerConnection:
    """A connection to one broker, which translates requests and responses between versions."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._offered: Mapping[int, tuple[int, int]] | None = None

    @property
    def raw(self) -> Connection:
        """The underlying connection, which does not translate versions."""
        return self._connection

    async def request(self, newest: RequestPayload) -> ResponsePayload:
        """Send a request in a version that the broker knows; the response in the newest version.

        ApiNotKnown if the broker does not have the API, Refused if the broker's version cannot
        express the request.

        Raises what :meth:`Connection.request` raises.
        """
        key = int(newest.__api_key__)
        version = self._version_for(key, int(newest.__version__), await self.ask_versions())
        response = await self._connection.request(self._in_version(newest, version))
        like_newest: ResponsePayload = _like_newest(
            response, response_type(key, int(newest.__version__))
        )
        return like_newest

    async def request_as(self, request: RequestPayload, kind: type[E]) -> E:
        """The response, decoded as ``kind``, for values that kio's own class cannot hold.

        ApiNotKnown if the broker does not have the API in the version of the request.
        """
        key, version = int(request.__api_key__), int(request.__version__)
        offered = await self.ask_versions()
        assert self._version_for(key, version, offered) == version, "of the API's only version"
        return read(kind, await self._connection.call(key, version, (write(request),)))

    async def request_numeric(self, newest: RequestPayload) -> Any:
        """As :meth:`request`, with times in the response in milliseconds, -1 for no time."""
        key = int(newest.__api_key__)
        version = self._version_for(key, int(newest.__version__), await self.ask_versions())
        request = self._in_version(newest, version)
        body = await self._connection.call(key, version, (write(request),))
        response = read(numeric_response_type(key, version), body)
        return _like_newest(response, numeric_response_type(key, int(newest.__version__)))

    async def ask_versions(self) -> Mapping[int, tuple[int, int]]:
        """By API key, the oldest and newest version that the broker supports; asked for once."""
        if self._offered is None:
            response = await self._connection.request(ApiVersionsRequest())
            assert isinstance(response, ApiVersionsResponse), "request() answers in kind"
            self._offered = {
                int(each.api_key): (int(each.min_version), int(each.max_version))
                for each in response.api_keys
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

    def _in_version(self, newest: RequestPayload, version: int) -> RequestPayload:
        key = int(newest.__api_key__)
        if version == int(newest.__version__):
            return newest
        target = request_type(key, version)
        try:
            if key == ApiKey.CREATE_TOPICS and version < _BROKER_DEFAULTS_SINCE:
                _check_all_said(newest)
            if key == ApiKey.LIST_OFFSETS:
                _check_timestamps(newest, version)
            if version < _ACLS_ON_USERS_SINCE:
                _check_before_users(key, newest)
            if key == ApiKey.DESCRIBE_ACLS and version < _PATTERNS_SINCE:
                newest = _of_literal_acls(newest)
            if key == ApiKey.DELETE_TOPICS:
                return _deletion_by_name(newest, target)
            adapted: RequestPayload = _with_fields_of(newest, target)
        except _CannotExpress as error:
            raise Refused(f"broker {self._connection.peer} is too old for this: {error}") from None
        return adapted


class _CannotExpress(Exception):
    """The request holds a value that an older version has no field for."""


def _check_all_said(newest: Any) -> None:
    for topic in newest.topics:
        for field in ("num_partitions", "replication_factor"):
            if getattr(topic, field) == -1 and not topic.assignments:
                option = {"num_partitions": "--partitions"}.get(field, "--replication-factor")
                raise _CannotExpress(f"before Kafka 2.4 there is no default, say {option}")


def _check_timestamps(newest: Any, version: int) -> None:
    for topic in newest.topics:
        for partition in topic.partitions:
            since, name, kafka = _KAFKA_WITH_TIMESTAMP.get(int(partition.timestamp), (0, "", ""))
            if version < since:
                raise _CannotExpress(f"{name} needs Kafka {kafka} or later")


def _check_before_users(key: int, newest: Any) -> None:
    if key == ApiKey.CREATE_DELEGATION_TOKEN and newest.owner_principal_name is not None:
        raise _CannotExpress("before Kafka 3.3 a token belongs to its requester, leave --owner out")
    if key not in _ABOUT_ACLS:
        return
    parts = getattr(newest, "creations", getattr(newest, "filters", (newest,)))
    for part in parts:
        resource_type = getattr(part, "resource_type", getattr(part, "resource_type_filter", None))
        if resource_type == ResourceType.USER or part.operation >= AclOperation.CREATE_TOKENS:
            raise _CannotExpress("before Kafka 3.3 there are no ACLs on users")


def _of_literal_acls(newest: Any) -> Any:
    """The filter with ANY replaced by LITERAL: before Kafka 2.0 every ACL is literal."""
    if newest.pattern_type_filter == PatternType.ANY:
        return dataclasses.replace(newest, pattern_type_filter=i8(PatternType.LITERAL))
    if newest.pattern_type_filter != PatternType.LITERAL:
        raise _CannotExpress("before Kafka 2.0 every ACL is literal, say another pattern type")
    return newest


def _deletion_by_name(newest: Any, target: type[Any]) -> RequestPayload:
    names = tuple(topic.name for topic in newest.topics)
    deletion: RequestPayload = target(topic_names=names, timeout=newest.timeout)
    return deletion


def _with_fields_of(source: Any, target: Any) -> Any:
    """``source`` converted to the class of another version.

    _CannotExpress if a field with a value other than its default is missing there.
    """
    names = {field.name for field in dataclasses.fields(target)}
    for field in dataclasses.fields(source):
        if field.name in names or field.name in _DROPPABLE_FIELDS:
            continue
        if getattr(source, field.name) not in (None, False, 0, (), field.default):
            raise _CannotExpress(f"it does not know {field.name}")
    return target(
        **{
            name: _converted(getattr(source, name), element)
            if hasattr(source, name)
            else _VALUES_OF_OLD_FIELDS[name]
            for name, element in _elements(target).items()
        }
    )


def _converted(value: Any, element: type[Any] | None) -> Any:
    if element is None or value is None:
        return value
    return tuple(_with_fields_of(each, element) for each in value)


def _like_newest(response: Any, newest: Any) -> Any:
    """The response converted to the newest version; missing fields have their default values."""
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
            # DescribeConfigs 0 (Kafka 0.11, 1.0) only says whether the value is the default.
            values[field.name] = i8(5 if response.is_default else 0)
        elif field.default is dataclasses.MISSING:
            values[field.name] = _VALUES_OF_MISSING_FIELDS[field.name]
    return newest(**values)


@cache
def _elements(message: Any) -> Mapping[str, type[Any] | None]:
    """By field name, the class of its elements if it is an array of messages, else None."""
    return {field.name: _message_in(field.type) for field in dataclasses.fields(message)}


def _message_in(declared: Any) -> type[Any] | None:
    if hasattr(declared, "__dataclass_fields__"):
        found: type[Any] = declared
        return found
    return next(filter(None, map(_message_in, get_args(declared))), None)
