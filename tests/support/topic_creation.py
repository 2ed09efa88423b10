"""Creates a topic on a broker that is its only one, by a request of ours."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final, Protocol

from kio.schema.errors import ErrorCode

from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.messages import read_response, write
from kafka_common.protocol.versioned_messages import request_schema

_VERSION: Final = 4
_BROKER_ID: Final = 0
_TIMEOUT: Final = timedelta(seconds=20)


class Connection(Protocol):
    """A connection to the broker."""

    def call(self, api_key: int, version: int, body: bytes, /) -> bytes:
        """The body of the response to a request."""


def create_topic(connection: Connection, name: str, partitions: int = 1) -> ErrorCode:
    """Creates the topic, every replica on broker 0; the error that the broker answers."""
    schema = request_schema(ApiKey.CREATE_TOPICS, _VERSION)
    topic = schema.part(
        "CreatableTopic",
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=tuple(
            schema.part(
                "CreatableReplicaAssignment", partition_index=number, broker_ids=(_BROKER_ID,)
            )
            for number in range(partitions)
        ),
        configs=(),
    )
    request = schema.request(topics=(topic,), timeout=_TIMEOUT, validate_only=False)
    body = connection.call(ApiKey.CREATE_TOPICS, _VERSION, write(request))
    response: Any = read_response(ApiKey.CREATE_TOPICS, _VERSION, body)
    error: ErrorCode = response.topics[0].error_code
    return error
