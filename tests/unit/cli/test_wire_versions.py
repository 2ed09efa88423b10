"""Brokers of every version: asked in a version that they know, or refused with what they lack."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import fields
from importlib import import_module
from random import Random
from typing import Any, Final

import pytest
from kio.schema.api_versions.v0.response import ApiVersion, ApiVersionsResponse
from kio.schema.errors import ErrorCode
from kio.static.primitive import i16, i32
from kio.static.protocol import RequestPayload, ResponsePayload

from tests.support.messages import random_message
from zkcontroller.protocol.api_versions import APIS, ApiKey
from zkcontroller.protocol.messages import request_type, response_type, write

NEWEST: Final = {
    ApiKey.METADATA: 12,
    ApiKey.LIST_OFFSETS: 6,
    ApiKey.CREATE_TOPICS: 7,
    ApiKey.DELETE_TOPICS: 6,
    ApiKey.CREATE_PARTITIONS: 3,
    ApiKey.DESCRIBE_CONFIGS: 4,
    ApiKey.DESCRIBE_LOG_DIRS: 2,
    ApiKey.ELECT_LEADERS: 2,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 1,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: 0,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: 0,
}
"""The version in which zkctl builds each request."""
OLDEST: Final = {ApiKey.METADATA: 4, ApiKey.LIST_OFFSETS: 1}


class OldBroker:
    """Stands in for a connection to a broker that offers those versions; keeps what it was sent."""

    def __init__(
        self, offered: Mapping[int, int], answer: Callable[[RequestPayload], ResponsePayload]
    ) -> None:
        self.peer = "old:9092"
        self.last_correlation_id = -1
        self.asked: list[RequestPayload] = []
        self._offered = offered
        self._answer = answer

    async def request(self, payload: RequestPayload) -> ResponsePayload:
        write(payload)  # what cannot be encoded fails here
        if int(payload.__api_key__) == ApiKey.API_VERSIONS:
            return ApiVersionsResponse(
                error_code=ErrorCode.none,
                api_keys=tuple(
                    ApiVersion(api_key=i16(key), min_version=i16(0), max_version=i16(most))
                    for key, most in self._offered.items()
                ),
            )
        self.asked.append(payload)
        return self._answer(payload)


def asked(broker: OldBroker, request: RequestPayload) -> ResponsePayload:
    connection = import_module("zkcontroller_cli.wire_versions").BrokerConnection(broker)
    response: ResponsePayload = asyncio.run(connection.request(request))
    return response


def request_of(key: int, random: Random) -> Any:
    """A request as zkctl sends it: what it never says keeps its neutral value."""
    said: dict[ApiKey, dict[str, Any]] = {
        ApiKey.METADATA: {
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": False,
        },
        ApiKey.ELECT_LEADERS: {"election_type": 0},
        ApiKey.LIST_OFFSETS: {"isolation_level": 0},
        ApiKey.CREATE_TOPICS: {"validate_only": False},
    }
    neutral = {"name": "orders", "topic_id": None, "current_leader_epoch": i32(-1)}
    return random_message(
        random, request_type(key, NEWEST[ApiKey(key)]), {**neutral, **said.get(ApiKey(key), {})}
    )


@pytest.mark.parametrize(
    ("key", "version"),
    [
        (key, version)
        for key, newest in NEWEST.items()
        for version in range(OLDEST.get(key, 0), newest + 1)
    ],
    ids=lambda value: str(value),
)
def test_each_request_is_asked_in_the_brokers_version_and_read_in_ours(
    key: ApiKey, version: int
) -> None:
    random = Random(key * 100 + version)
    for _ in range(20):
        answers: list[Any] = []

        def answer(request: RequestPayload, answers: list[Any] = answers) -> ResponsePayload:
            kind = response_type(key, int(request.__version__))
            answers.append(random_message(random, kind, {}))
            made: ResponsePayload = answers[-1]
            return made

        broker = OldBroker({key: version}, answer)

        response = asked(broker, request_of(key, random))

        assert [int(request.__version__) for request in broker.asked] == [version]
        assert type(response) is response_type(key, NEWEST[key])
        assert_says_the_same(answers[0], response)


def assert_says_the_same(older: Any, newest: Any) -> None:
    """Every field that both have is equal, at any depth."""
    if isinstance(older, tuple):
        assert len(older) == len(newest)
        for one, other in zip(older, newest, strict=True):
            assert_says_the_same(one, other)
    elif hasattr(older, "__dataclass_fields__"):
        common = {field.name for each in (older, newest) for field in fields(each)}
        common = {name for name in common if hasattr(older, name) and hasattr(newest, name)}
        assert common, (older, newest)
        for name in common:
            assert_says_the_same(getattr(older, name), getattr(newest, name))
    else:
        assert older == newest


def never(request: RequestPayload) -> ResponsePayload:
    raise AssertionError(f"{request} should not have been sent")


@pytest.mark.parametrize("key", NEWEST, ids=lambda key: APIS[key].name)
def test_a_broker_without_the_api_is_named_with_the_kafka_that_has_it(key: ApiKey) -> None:
    with pytest.raises(Exception, match=f"does not know {APIS[key].name}: that needs Kafka") as it:
        asked(OldBroker({}, never), request_of(key, Random(1)))

    assert "old:9092" in str(it.value)
    assert it.value.exit_code == 5  # type: ignore[attr-defined]  # Refused, of the installed package


@pytest.mark.parametrize("key", OLDEST, ids=lambda key: APIS[key].name)
def test_a_version_that_would_do_something_else_is_not_used(key: ApiKey) -> None:
    with pytest.raises(Exception, match="does not know"):
        asked(OldBroker({key: OLDEST[key] - 1}, never), request_of(key, Random(1)))


@pytest.mark.parametrize(
    ("field", "option"),
    [("num_partitions", "--partitions"), ("replication_factor", "--replication-factor")],
)
def test_a_default_that_an_old_broker_does_not_have_must_be_said(field: str, option: str) -> None:
    request = random_message(
        Random(2),
        request_type(ApiKey.CREATE_TOPICS, 7),
        {"num_partitions": i32(1), "replication_factor": i16(1), "assignments": (), field: -1},
        lengths=(1,),
    )

    with pytest.raises(Exception, match=f"before Kafka 2.4 there is no default, say {option}"):
        asked(OldBroker({ApiKey.CREATE_TOPICS: 3}, never), request)


def test_an_unclean_election_is_refused_by_a_broker_that_knows_preferred_ones_only() -> None:
    request = random_message(Random(3), request_type(43, 2), {"election_type": 1})

    with pytest.raises(Exception, match="it does not know election_type"):
        asked(OldBroker({ApiKey.ELECT_LEADERS: 0}, never), request)
