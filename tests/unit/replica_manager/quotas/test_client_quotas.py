"""What clients over their quotas are answered: how long to wait; nothing is read meanwhile.

With a quota of 100 bytes a second and the ten seconds of a rate that has just begun, 1,000 bytes
are allowed, and each byte more costs 10 ms.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i32Timedelta

from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.messages import write
from kafka_common.protocol.versioned_messages import request_schema
from replica_manager.network.connection import Peer
from replica_manager.security.acl_cache import AclCache
from replica_manager.security.authorizer import Authorizer
from replica_manager.security.principals import USER, Principal
from replica_manager.server.request_metrics import RequestMetrics
from tests.support.broker_world import CORRELATION_ID, BrokerWorld
from tests.support.fetch_world import NEWEST, ORDERS_ID, ask, fill, log_of, made, offsets
from tests.support.fetch_world import request as fetch_request
from tests.support.frames import request_header, response_frame
from tests.support.log_world import batch

CLIENT = "clients/test"
"""What the client of a :class:`BrokerWorld` is called."""
HOME = "192.0.2.1"
SECOND = timedelta(seconds=1)
NOTHING = timedelta(0)


@pytest.fixture
def world(executor: ThreadPoolExecutor, tmp_path: Path) -> BrokerWorld:
    world = made(executor, tmp_path)
    world.lead("orders", topic_id=ORDERS_ID)
    return world


def waits(world: BrokerWorld) -> timedelta:
    """How long the client is not listened to after the last answer."""
    return timedelta(milliseconds=world.mute_ms)


# ---------------------------------------------------------------------- Produce


def produce_request(
    size: int, version: int = 11, acks: int = 1, transactional_id: str | None = None, **how: Any
) -> Any:
    schema = request_schema(ApiKey.PRODUCE, version)
    partition = schema.part("PartitionProduceData", index=0, records=batch(1, size=size, **how))
    return schema.request(
        transactional_id=transactional_id,
        acks=acks,
        timeout=i32Timedelta.parse(timedelta(seconds=1)),
        topic_data=(schema.part("TopicProduceData", name="orders", partition_data=(partition,)),),
    )


def frame_size(request: Any) -> int:
    api_key, version = int(request.__api_key__), int(request.__version__)
    return len(request_header(api_key, version, CORRELATION_ID, "test") + write(request))


@pytest.mark.parametrize("version", range(12))
def test_who_produces_too_much_is_throttled_and_not_listened_to(
    world: BrokerWorld, version: int
) -> None:
    world.quotas.configure(CLIENT, {"producer_byte_rate": "100"})
    small, large = produce_request(100, version), produce_request(1_000, version)

    first = ask(world, small)
    assert waits(world) == NOTHING
    second = ask(world, large)

    expected = (frame_size(small) + frame_size(large) - 1_000) * timedelta(milliseconds=10)
    assert expected > SECOND
    assert waits(world) == expected
    if version >= 1:
        assert (first.throttle_time, second.throttle_time) == (NOTHING, expected)
    # What it brought is taken: it is the next request that has to wait.
    assert log_of(world).log_end_offset == 2


def test_who_wants_no_answer_is_not_listened_to_either(world: BrokerWorld) -> None:
    world.quotas.configure(CLIENT, {"producer_byte_rate": "100"})
    request = produce_request(1_200, acks=0)
    api_key, version = int(request.__api_key__), int(request.__version__)
    frame = request_header(api_key, version, CORRELATION_ID, "test") + write(request)

    assert asyncio.run(world.ask_raw(frame)) == b""

    assert waits(world) == (len(frame) - 1_000) * timedelta(milliseconds=10)
    assert not world.is_closed


def test_the_bytes_of_a_refused_request_do_not_count(world: BrokerWorld) -> None:
    world.context.authorizer = Authorizer(AclCache({}))
    world.quotas.configure(CLIENT, {"producer_byte_rate": "100", "request_percentage": "1"})
    world.ns_per_look = 200_000_000
    transactional = {"is_transactional": True, "producer_id": 1, "producer_epoch": 0}

    request = produce_request(5_000, transactional_id="t", base_sequence=0, **transactional)
    response = ask(world, request)

    [partition] = response.responses[0].partition_responses
    assert partition.error_code is ErrorCode.transactional_id_authorization_failed
    assert response.throttle_time == SECOND == waits(world)


# ---------------------------------------------------------------------- Fetch


def response_size(response: bytes, version: int = NEWEST) -> int:
    """As quotas count it: the size's own four bytes, but no header of the response."""
    return 4 + len(response) - (5 if version >= 12 else 4)


def raw(world: BrokerWorld, request: Any) -> bytes:
    header = request_header(
        int(request.__api_key__), int(request.__version__), CORRELATION_ID, "test"
    )
    return asyncio.run(world.ask_raw(header + write(request)))


@pytest.mark.parametrize("version", [1, 4, 6, 7, 11, 12, 16, 17])
def test_who_fetches_too_much_gets_nothing_and_has_to_wait(
    world: BrokerWorld, version: int
) -> None:
    fill(world, 1, size=1_200)
    request = fetch_request((0, 0), version=version)
    unlimited = raw(world, fetch_request((0, 0), version=max(version, 4)))

    world.quotas.configure(CLIENT, {"consumer_byte_rate": "100"})
    response = ask(world, request)

    if version >= 4:  # before that the records are smaller than what they are measured by
        size = response_size(unlimited, version)
        assert response.throttle_time == (size - 1_000) * timedelta(milliseconds=10)
    assert response.throttle_time > NOTHING
    assert waits(world) == response.throttle_time
    assert response.responses == ()
    if version >= 7:
        assert (response.error_code, response.session_id) == (ErrorCode.none, 0)


def test_what_was_not_given_does_not_count(world: BrokerWorld) -> None:
    fill(world, 1, 1, size=1_200)
    fill(world, 1, size=10)
    world.quotas.configure(CLIENT, {"consumer_byte_rate": "100"})
    assert ask(world, fetch_request((0, 0))).throttle_time > NOTHING

    response = ask(world, fetch_request((0, 2)))

    assert response.throttle_time == NOTHING
    assert offsets(response.responses[0].partitions[0].records) == [2]


def test_no_client_is_given_more_at_once_than_its_quota_allows(world: BrokerWorld) -> None:
    fill(world, *[1] * 10, size=230)
    world.quotas.configure(CLIENT, {"consumer_byte_rate": "100"})

    # 1,000 bytes of records, and what is around them.
    around = ask(world, fetch_request((0, 0))).throttle_time
    assert timedelta(0) < around < SECOND

    world.now_ms += around // timedelta(milliseconds=1)
    response = ask(world, fetch_request((0, 0)))
    assert response.throttle_time == NOTHING
    [partition] = response.responses[0].partitions
    assert len(partition.records) == 1_000


def test_a_session_goes_on_after_a_throttle(world: BrokerWorld) -> None:
    opened = ask(world, fetch_request((0, 0), session=(0, 0)))
    assert opened.session_id > 0
    fill(world, 1, size=1_200)
    world.quotas.configure(CLIENT, {"consumer_byte_rate": "100"})

    held_up = ask(world, fetch_request(session=(opened.session_id, 1)))
    assert (held_up.error_code, held_up.session_id) == (ErrorCode.none, opened.session_id)
    assert held_up.throttle_time > NOTHING
    assert held_up.responses == ()

    world.quotas.configure(CLIENT, {})
    told = ask(world, fetch_request(session=(opened.session_id, 2)))
    assert offsets(told.responses[0].partitions[0].records) == [0]


def test_no_session_is_opened_by_an_empty_answer(world: BrokerWorld) -> None:
    fill(world, 1, size=1_200)
    world.quotas.configure(CLIENT, {"consumer_byte_rate": "100"})

    response = ask(world, fetch_request((0, 0), session=(0, 0)))

    assert (response.error_code, response.session_id) == (ErrorCode.none, 0)
    assert len(world.context.records.fetch_sessions) == 0


def test_a_wrong_session_is_reported_when_the_client_comes_again(world: BrokerWorld) -> None:
    world.quotas.configure(CLIENT, {"request_percentage": "1"})
    world.ns_per_look = 200_000_000

    held_up = ask(world, fetch_request(session=(99, 1)))
    assert (held_up.error_code, held_up.throttle_time) == (ErrorCode.none, SECOND)

    world.quotas.configure(CLIENT, {})
    told = ask(world, fetch_request(session=(99, 1)))
    assert told.error_code is ErrorCode.fetch_session_id_not_found


def test_followers_never_wait(world: BrokerWorld) -> None:
    fill(world, 1, size=1_200)
    quotas = {"consumer_byte_rate": "1", "request_percentage": "0.1"}
    world.quotas.configure("clients/<default>", quotas)
    world.lead("orders", leader_epoch=1, replicas=(1, 2), topic_id=ORDERS_ID)
    world.ns_per_look = 200_000_000

    response = ask(world, fetch_request((0, 0), replica_id=2))

    assert offsets(response.responses[0].partitions[0].records) == [0]
    assert response.throttle_time == NOTHING == waits(world)
    request = world.metrics.snapshot()["kafka.server:type=Request"]
    assert float(request["exempt-request-time"]) > 0


# ---------------------------------------------------------------------- the time of requests


def asked(api_key: ApiKey, version: int, **values: Any) -> Any:
    return request_schema(api_key, version).request(**values)


OTHER_REQUESTS = {
    "Metadata": asked(ApiKey.METADATA, 12, topics=(), allow_auto_topic_creation=False,
                      include_topic_authorized_operations=False),
    "Metadata 3": asked(ApiKey.METADATA, 3, topics=()),
    "ApiVersions": asked(ApiKey.API_VERSIONS, 3, client_software_name="t",
                         client_software_version="1"),
    "ApiVersions 1": asked(ApiKey.API_VERSIONS, 1),
    "ListGroups": asked(ApiKey.LIST_GROUPS, 4, states_filter=()),
    "DescribeGroups": asked(ApiKey.DESCRIBE_GROUPS, 5, groups=("g",),
                            include_authorized_operations=False),
    "ListOffsets": asked(ApiKey.LIST_OFFSETS, 7, replica_id=-1, isolation_level=0, topics=()),
    "DescribeCluster": asked(ApiKey.DESCRIBE_CLUSTER, 0,
                             include_cluster_authorized_operations=False),
    "an odd ApiVersions": asked(ApiKey.API_VERSIONS, 3, client_software_name="?",
                                client_software_version="1"),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHER_REQUESTS)
def test_who_takes_too_much_time_is_throttled_by_every_api(world: BrokerWorld, name: str) -> None:
    request = OTHER_REQUESTS[name]
    world.quotas.configure("users/ANONYMOUS", {"request_percentage": "1"})
    unhurried = ask(world, request)
    assert (unhurried.throttle_time, waits(world)) == (NOTHING, NOTHING)

    world.ns_per_look = 200_000_000
    hurried = ask(world, request)

    assert (hurried.throttle_time, waits(world)) == (SECOND, SECOND)


@pytest.mark.parametrize(
    "request_", [asked(ApiKey.METADATA, 2, topics=()), asked(ApiKey.LIST_GROUPS, 0)]
)
def test_an_old_client_that_cannot_be_informed_is_not_listened_to(
    world: BrokerWorld, request_: Any
) -> None:
    world.quotas.configure("users/ANONYMOUS", {"request_percentage": "1"})
    world.ns_per_look = 200_000_000

    response = ask(world, request_)

    assert not hasattr(response, "throttle_time")
    assert waits(world) == SECOND


def create_topics(version: int) -> Any:
    schema = request_schema(ApiKey.CREATE_TOPICS, version)
    topic = schema.part(
        "CreatableTopic", name="t", num_partitions=2, replication_factor=1, assignments=(),
        configs=(),
    )  # fmt: skip
    timeout = i32Timedelta.parse(timedelta(0))
    return schema.request(topics=(topic,), timeout=timeout, validate_only=False)


@pytest.mark.parametrize(("mutation_rate", "expected_s"), [("0.1", 9), ("10", 1)])
def test_of_a_mutation_quota_and_the_time_the_longer_wait_counts(
    world: BrokerWorld, mutation_rate: str, expected_s: int
) -> None:
    quotas = {"request_percentage": "1", "controller_mutation_rate": mutation_rate}
    world.quotas.configure(CLIENT, quotas)
    world.update(brokers=())
    world.ns_per_look = 200_000_000

    # 1.1 tokens, of which two are taken: 0.9 a tenth a second.
    response = ask(world, create_topics(5))

    assert response.throttle_time == waits(world) == expected_s * SECOND


def test_who_waits_for_the_time_of_requests_is_counted_there_whatever_else_is_over(
    world: BrokerWorld,
) -> None:
    world.quotas.configure(CLIENT, {"request_percentage": "1", "controller_mutation_rate": "10"})
    world.update(brokers=())
    world.ns_per_look = 200_000_000
    data = request_header(int(ApiKey.CREATE_TOPICS), 5, CORRELATION_ID, "test")

    response = asyncio.run(
        response_frame(data + write(create_topics(5)), Peer("PLAINTEXT", HOME), world.context)
    )

    def waiting() -> object:
        return world.metrics.snapshot()["kafka.server:type=Request"]["queue-size"]

    assert response.mute_ms == 1_000
    assert waiting() == 0
    with response.muted:
        assert waiting() == 1


def controlled_shutdown() -> Any:
    return asked(ApiKey.CONTROLLED_SHUTDOWN, 3, broker_id=2, broker_epoch=1)


def test_requests_of_brokers_are_not_counted(world: BrokerWorld) -> None:
    world.quotas.configure("clients/<default>", {"request_percentage": "0.1"})
    world.ns_per_look = 200_000_000

    ask(world, controlled_shutdown())

    assert waits(world) == NOTHING
    assert "kafka.server:type=Request,client-id=test" not in world.metrics.snapshot()


def test_who_only_pretends_to_be_a_broker_has_to_wait(world: BrokerWorld) -> None:
    world.context.authorizer = Authorizer(AclCache({}))
    world.quotas.configure("clients/<default>", {"request_percentage": "0.1"})
    world.ns_per_look = 200_000_000

    response = ask(world, controlled_shutdown())

    assert response.error_code is ErrorCode.cluster_authorization_failed
    assert waits(world) == SECOND


@pytest.mark.parametrize(
    "request_",
    [
        asked(ApiKey.ALTER_PARTITION, 2, broker_id=2, broker_epoch=1, topics=()),
        asked(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, topics=None,
              timeout=i32Timedelta.parse(SECOND)),
    ],
)  # fmt: skip
def test_who_may_not_ask_learns_how_long_to_wait(world: BrokerWorld, request_: Any) -> None:
    world.context.authorizer = Authorizer(AclCache({}))
    world.quotas.configure("clients/<default>", {"request_percentage": "0.1"})
    world.ns_per_look = 200_000_000

    response = ask(world, request_)

    assert response.error_code is ErrorCode.cluster_authorization_failed
    assert response.throttle_time == SECOND == waits(world)


def test_the_quota_is_that_of_who_has_logged_in(world: BrokerWorld) -> None:
    world.quotas.configure("users/CN%3Dalice", {"request_percentage": "1"})
    world.ns_per_look = 200_000_000
    metadata = OTHER_REQUESTS["Metadata"]

    assert ask(world, metadata).throttle_time == NOTHING
    world.principal = Principal(USER, "CN=alice")
    assert ask(world, metadata).throttle_time == SECOND


def test_who_has_not_logged_in_yet_has_no_quota_yet(world: BrokerWorld) -> None:
    world.quotas.configure("users/ANONYMOUS", {"request_percentage": "0.1"})
    world.ns_per_look = 200_000_000
    data = request_header(int(ApiKey.API_VERSIONS), 0, CORRELATION_ID, "test")

    response = asyncio.run(response_frame(data, Peer("SASL", HOME, is_in=False), world.context))

    assert response.frame
    assert response.mute_ms == 0
    assert "kafka.server:type=Request,user=ANONYMOUS" not in world.metrics.snapshot()


def test_metrics_of_requests_know_how_long_their_clients_wait(world: BrokerWorld) -> None:
    world.context.request_metrics = RequestMetrics(world.metrics, world.look_at_clock)
    world.quotas.configure(CLIENT, {"request_percentage": "1"})
    world.ns_per_look = 200_000_000

    ask(world, OTHER_REQUESTS["ListOffsets"])

    throttles = world.metrics.snapshot()[
        "kafka.network:type=RequestMetrics,name=ThrottleTimeMs,request=ListOffsets"
    ]
    assert throttles["Max"] == 1_000


def test_without_quotas_no_client_is_counted(world: BrokerWorld) -> None:
    world.ns_per_look = 200_000_000

    ask(world, produce_request(5_000))
    ask(world, fetch_request((0, 0)))

    assert waits(world) == NOTHING
    assert not any("client-id" in name for name in world.metrics.snapshot())
