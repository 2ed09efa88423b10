"""Brokers of every version: asked in a version that they know, or refused with what they lack."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from importlib import import_module
from random import Random
from typing import Any, Final

import pytest
from kio.schema.api_versions.v0.response import ApiVersion, ApiVersionsResponse
from kio.schema.errors import ErrorCode
from kio.static.primitive import i8, i16, i32, i64
from kio.static.protocol import RequestPayload, ResponsePayload

from kafka_common.protocol.api_versions import APIS, ApiKey
from kafka_common.protocol.messages import read_request, request_type, response_type, write
from kafka_common.protocol.numeric_times import numeric_response_type
from tests.support.messages import random_message

NEWEST: Final = {
    ApiKey.METADATA: 12,
    ApiKey.LIST_OFFSETS: 9,
    ApiKey.CREATE_TOPICS: 7,
    ApiKey.DELETE_TOPICS: 6,
    ApiKey.DELETE_RECORDS: 2,
    ApiKey.CREATE_PARTITIONS: 3,
    ApiKey.DESCRIBE_CONFIGS: 4,
    ApiKey.DESCRIBE_LOG_DIRS: 2,
    ApiKey.ELECT_LEADERS: 2,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 1,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: 0,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: 0,
    ApiKey.FIND_COORDINATOR: 3,
    ApiKey.LIST_GROUPS: 4,
    ApiKey.DESCRIBE_GROUPS: 5,
    ApiKey.OFFSET_FETCH: 5,
    ApiKey.OFFSET_COMMIT: 8,
    ApiKey.DELETE_GROUPS: 2,
    ApiKey.OFFSET_DELETE: 0,
    ApiKey.WRITE_TXN_MARKERS: 1,
    ApiKey.DESCRIBE_PRODUCERS: 0,
    ApiKey.DESCRIBE_TRANSACTIONS: 0,
    ApiKey.LIST_TRANSACTIONS: 1,
    ApiKey.DESCRIBE_ACLS: 3,
    ApiKey.CREATE_ACLS: 3,
    ApiKey.DELETE_ACLS: 3,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: 3,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: 1,
    ApiKey.ALTER_CLIENT_QUOTAS: 1,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: 0,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: 0,
}
"""The version in which zkctl builds each request."""
OLDEST: Final = {
    ApiKey.METADATA: 4,
    ApiKey.LIST_OFFSETS: 1,
    ApiKey.OFFSET_COMMIT: 2,
    ApiKey.OFFSET_FETCH: 2,
}


class OldBroker:
    """Stands in for a connection to a broker that offers those versions; keeps what it was sent."""

    def __init__(
        self, offered: Mapping[int, int], result: Callable[[RequestPayload], ResponsePayload]
    ) -> None:
        self.peer = "old:9092"
        self.last_correlation_id = -1
        self.asked: list[RequestPayload] = []
        self._offered = offered
        self._answer = result

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

    async def call(self, api_key: int, api_version: int, body: Sequence[bytes]) -> bytes:
        """The encoded response to an encoded request."""
        request = read_request(api_key, api_version, b"".join(body), 0)
        self.asked.append(request)
        return write(self._answer(request))


def asked(broker: OldBroker, request: RequestPayload) -> ResponsePayload:
    connection = import_module("zkcontroller_cli.wire.versions").BrokerConnection(broker)
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
        ApiKey.LIST_TRANSACTIONS: {"duration_filter": i64(-1)},
        ApiKey.FIND_COORDINATOR: {"key_type": 0},
        ApiKey.LIST_GROUPS: {"states_filter": ()},
        ApiKey.DESCRIBE_GROUPS: {"include_authorized_operations": False},
        ApiKey.OFFSET_COMMIT: {"group_instance_id": None, "committed_leader_epoch": i32(-1)},
    }
    literal = {"operation": i8(3), "resource_type": i8(2), "resource_type_filter": i8(2)}
    literal |= {"pattern_type_filter": i8(3), "resource_pattern_type": i8(3)}
    for each in (ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS):
        said[each] = literal
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
        results: list[Any] = []

        def answer(request: RequestPayload, results: list[Any] = results) -> ResponsePayload:
            kind = response_type(key, int(request.__version__))
            results.append(random_message(random, kind, {}))
            made: ResponsePayload = results[-1]
            return made

        broker = OldBroker({key: version}, answer)

        response = asked(broker, request_of(key, random))

        assert [int(request.__version__) for request in broker.asked] == [version]
        assert type(response) is response_type(key, NEWEST[key])
        assert_says_the_same(results[0], response)


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


def test_a_state_of_groups_cannot_be_asked_for_before_kafka_2_6() -> None:
    request = random_message(Random(4), request_type(16, 4), {"states_filter": ("Stable",)})

    with pytest.raises(Exception, match="it does not know states_filter"):
        asked(OldBroker({ApiKey.LIST_GROUPS: 3}, never), request)


@pytest.mark.parametrize(
    ("timestamp", "version", "kafka"),
    [(-3, 7, "max-timestamp needs Kafka 3.0"), (-4, 8, "earliest-local needs Kafka 3.5"),
     (-5, 9, "latest-tiered needs Kafka 3.9")],
)  # fmt: skip
def test_an_older_broker_is_not_asked_for_a_special_offset(
    timestamp: int, version: int, kafka: str
) -> None:
    said = {"timestamp": i64(timestamp), "current_leader_epoch": i32(-1), "isolation_level": i8(0)}
    request = random_message(Random(5), request_type(2, 9), said, lengths=(1,))

    with pytest.raises(Exception, match=kafka):
        asked(OldBroker({ApiKey.LIST_OFFSETS: version - 1}, never), request)

    def answer(sent: RequestPayload) -> ResponsePayload:
        made: ResponsePayload = random_message(
            Random(6), response_type(2, int(sent.__version__)), {}
        )
        return made

    broker = OldBroker({ApiKey.LIST_OFFSETS: version}, answer)
    asked(broker, request)

    assert [int(sent.__version__) for sent in broker.asked] == [version]


def acls_filter(**fields: int) -> RequestPayload:
    said = {"resource_type_filter": 2, "operation": 3, "pattern_type_filter": 3, **fields}
    values = {name: i8(value) for name, value in said.items()}
    return random_message(Random(5), request_type(ApiKey.DESCRIBE_ACLS, 3), values)


def test_all_acls_of_a_kafka_before_patterns_are_the_literal_ones() -> None:
    broker = OldBroker(
        {ApiKey.DESCRIBE_ACLS: 0},
        lambda _: random_message(Random(6), response_type(ApiKey.DESCRIBE_ACLS, 0), {}),
    )

    response: Any = asked(broker, acls_filter(pattern_type_filter=1))

    assert {each.pattern_type for each in response.resources} <= {3}
    for other in (2, 4):
        with pytest.raises(Exception, match=r"before Kafka 2\.0 every ACL is literal"):
            asked(
                OldBroker({ApiKey.DESCRIBE_ACLS: 0}, never), acls_filter(pattern_type_filter=other)
            )


@pytest.mark.parametrize("field", [{"resource_type_filter": 7}, {"operation": 13}])
def test_acls_on_users_need_kafka_3_3(field: dict[str, int]) -> None:
    with pytest.raises(Exception, match=r"before Kafka 3\.3 there are no ACLs on users"):
        asked(OldBroker({ApiKey.DESCRIBE_ACLS: 2}, never), acls_filter(**field))


TOKEN_APIS: Final = {
    ApiKey.CREATE_DELEGATION_TOKEN: 3,
    ApiKey.RENEW_DELEGATION_TOKEN: 2,
    ApiKey.EXPIRE_DELEGATION_TOKEN: 2,
}


def asked_for_numbers(broker: OldBroker, request: RequestPayload) -> Any:
    connection = import_module("zkcontroller_cli.wire.versions").BrokerConnection(broker)
    return asyncio.run(connection.request_numeric(request))


@pytest.mark.parametrize(
    ("key", "version"),
    [(key, version) for key, newest in TOKEN_APIS.items() for version in range(newest + 1)],
    ids=str,
)
def test_tokens_are_asked_for_in_the_brokers_version_with_times_as_numbers(
    key: ApiKey, version: int
) -> None:
    random = Random(key * 100 + version)
    kind = numeric_response_type(key, version)
    no_times = dict.fromkeys(("issue_timestamp", "expiry_timestamp", "max_timestamp"), i64(-1))
    sent = random_message(random, kind, no_times)
    no_owner = {"owner_principal_type": None, "owner_principal_name": None}
    broker = OldBroker({key: version}, lambda _: sent)

    request = random_message(random, request_type(key, TOKEN_APIS[key]), no_owner)
    response = asked_for_numbers(broker, request)

    assert [int(each.__version__) for each in broker.asked] == [version]
    assert response.expiry_timestamp == -1
    assert_says_the_same(sent, response)


def test_a_token_of_another_user_needs_kafka_3_3() -> None:
    owner = {"owner_principal_type": "User", "owner_principal_name": "carol"}
    request = random_message(Random(7), request_type(ApiKey.CREATE_DELEGATION_TOKEN, 3), owner)

    with pytest.raises(Exception, match=r"before Kafka 3\.3 a token belongs to its requester"):
        asked_for_numbers(OldBroker({ApiKey.CREATE_DELEGATION_TOKEN: 2}, never), request)
