"""How many partitions a client may create and delete: quotas, buckets, and the three APIs."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from importlib import import_module
from typing import Any, cast

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.sanitizer import DEFAULT_ENTITY
from replica_manager.broker.dynamic_config import DynamicConfig
from replica_manager.configuration.config import BrokerConfig
from replica_manager.quotas import client_quotas
from replica_manager.quotas.client_quotas import (
    INACTIVE_MS,
    LONGEST_THROTTLE_MS,
    ClientKey,
    ClientQuotas,
    QuotaEntity,
    entity_of,
)
from replica_manager.quotas.mutation_quotas import MutationQuotas
from replica_manager.request_errors import RequestRefused
from replica_manager.security.principals import ANONYMOUS, USER, Principal
from tests.support.broker_world import BrokersSession, BrokerWorld, broker, metadata
from zkcontroller.zookeeper.requests import Create, SetData
from zkcontroller.zookeeper.session import ZooKeeperSession
from zkcontroller.zookeeper.znodes import BrokerIdZnode, ConfigChangeZnode, ConfigZnode, TopicZnode
from zkcontroller_simulation.zookeeper_server import SimulatedZooKeeper

DEFAULT = DEFAULT_ENTITY
CLIENT = "test"
"""What a :class:`BrokerWorld`'s client is called."""

# ---------------------------------------------------------------------- which quota holds


@pytest.mark.parametrize(
    ("path", "entity"),
    [
        ("users/alice", QuotaEntity("alice", None)),
        ("users/<default>", QuotaEntity(DEFAULT, None)),
        ("users/alice/clients/a%20b", QuotaEntity("alice", "a%20b")),
        ("clients/a%2db", QuotaEntity(None, "a-b")),
        ("clients/<default>", QuotaEntity(None, DEFAULT)),
        ("users", None),
        ("users/alice/clients", None),
        ("users/alice/groups/g", None),
        ("ips/127.0.0.1", None),
    ],
)
def test_a_path_below_config_names_the_entity_that_a_quota_belongs_to(
    path: str, entity: QuotaEntity | None
) -> None:
    assert entity_of(path) == entity


MOST_EXACT_FIRST = [
    QuotaEntity("alice", "app"),
    QuotaEntity("alice", DEFAULT),
    QuotaEntity("alice", None),
    QuotaEntity(DEFAULT, "app"),
    QuotaEntity(DEFAULT, DEFAULT),
    QuotaEntity(DEFAULT, None),
    QuotaEntity(None, "app"),
    QuotaEntity(None, DEFAULT),
]


def test_of_all_quotas_the_most_exact_one_holds() -> None:
    quotas = ClientQuotas("controller_mutation_rate")
    for rate, entity in enumerate(MOST_EXACT_FIRST):
        quotas.update(entity, float(rate))

    for rate, entity in enumerate(MOST_EXACT_FIRST):
        assert quotas.bound(quotas.key("alice", "app")) == rate
        quotas.update(entity, None)
    assert quotas.bound(quotas.key("alice", "app")) is None


@pytest.mark.parametrize(
    ("configured", "key"),
    [
        ([], ClientKey("", "app")),
        ([QuotaEntity(None, "other")], ClientKey("", "app")),
        ([QuotaEntity("bob", None)], ClientKey("alice", "")),
        ([QuotaEntity("bob", "other")], ClientKey("alice", "app")),
        ([QuotaEntity("alice", None), QuotaEntity(None, "app")], ClientKey("alice", "")),
        ([QuotaEntity("bob", None), QuotaEntity(None, "app")], ClientKey("", "app")),
        ([QuotaEntity("alice", DEFAULT), QuotaEntity("alice", None)], ClientKey("alice", "app")),
    ],
)
def test_clients_are_counted_together_by_what_limits_them(
    configured: list[QuotaEntity], key: ClientKey
) -> None:
    quotas = ClientQuotas("controller_mutation_rate")
    for entity in configured:
        quotas.update(entity, 1.0)

    assert quotas.key("alice", "app") == key


def test_names_are_compared_as_znodes_have_them() -> None:
    quotas = ClientQuotas("controller_mutation_rate")
    quotas.update(QuotaEntity(None, DEFAULT), 1.0)
    quotas.update(QuotaEntity(None, "my%20app"), 2.0)

    assert quotas.bound(quotas.key("alice", "my app")) == 2.0
    # A client that calls itself so is no default.
    assert quotas.key("alice", DEFAULT) == ClientKey("", "%3Cdefault%3E")


# ---------------------------------------------------------------------- the bucket


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_000_000


@pytest.fixture
def clock() -> Clock:
    return Clock()


def limited(clock: Clock, rate: float, window_s: int = 11) -> MutationQuotas:
    quotas = MutationQuotas(window_s, lambda: clock.now_ms)
    quotas.configure(f"clients/{CLIENT}", {"controller_mutation_rate": str(rate)})
    return quotas


def test_a_burst_beyond_the_bucket_passes_and_has_to_be_waited_for(clock: Clock) -> None:
    """The numbers are those of KIP-599."""
    quotas = limited(clock, rate=5, window_s=100)

    quotas.of(CLIENT, is_strict=True).charge(560)

    refused = quotas.of(CLIENT, is_strict=True)
    with pytest.raises(RequestRefused) as refusal:
        refused.charge(1)
    assert refusal.value.error is ErrorCode.throttling_quota_exceeded
    assert refused.throttle_ms == 12_000
    clock.now_ms += 11_999
    with pytest.raises(RequestRefused):
        quotas.of(CLIENT, is_strict=True).charge(1)
    clock.now_ms += 1
    quotas.of(CLIENT, is_strict=True).charge(1)


def test_a_strict_quota_that_refuses_takes_nothing(clock: Clock) -> None:
    quotas = limited(clock, rate=1)
    quotas.of(CLIENT, is_strict=True).charge(21)

    for _ in range(3):
        quota = quotas.of(CLIENT, is_strict=True)
        with pytest.raises(RequestRefused):
            quota.charge(1000)
        assert quota.throttle_ms == 10_000


def test_a_permissive_quota_lets_pass_and_makes_wait(clock: Clock) -> None:
    quotas = limited(clock, rate=1)
    within, beyond = (quotas.of(CLIENT, is_strict=False) for _ in range(2))

    within.charge(11)
    beyond.charge(4)
    beyond.charge(1)

    assert within.throttle_ms == 0
    assert beyond.throttle_ms == 5_000


def test_what_the_request_itself_took_is_waited_for_already(clock: Clock) -> None:
    quotas = limited(clock, rate=1)
    quota = quotas.of(CLIENT, is_strict=False)
    quota.charge(21)

    clock.now_ms += 4_000
    assert quota.throttle_ms == 6_000
    clock.now_ms += 60_000
    assert quota.throttle_ms == 0


def test_a_bucket_holds_no_more_than_its_window(clock: Clock) -> None:
    quotas = limited(clock, rate=2)
    quotas.of(CLIENT, is_strict=False).charge(22)

    clock.now_ms += 1_000_000
    quota = quotas.of(CLIENT, is_strict=False)
    quota.charge(24)

    assert quota.throttle_ms == 1_000


def test_a_new_rate_holds_at_once(clock: Clock) -> None:
    quotas = limited(clock, rate=1)
    quotas.of(CLIENT, is_strict=False).charge(21)

    quotas.configure(f"clients/{CLIENT}", {"controller_mutation_rate": "10"})
    quota = quotas.of(CLIENT, is_strict=False)
    quota.charge(0)
    assert quota.throttle_ms == 1_000

    quotas.configure(f"clients/{CLIENT}", {"producer_byte_rate": "10"})
    quotas.of(CLIENT, is_strict=True).charge(1_000_000)
    assert len(quotas) == 0


def test_without_a_quota_no_client_is_counted(clock: Clock) -> None:
    quotas = MutationQuotas(11, lambda: clock.now_ms)
    quota = quotas.of(CLIENT, is_strict=True)

    quota.charge(1_000_000)

    assert quota.throttle_ms == 0
    assert (quotas.quotas.is_enabled, len(quotas)) == (False, 0)


def test_a_rate_of_zero_lets_one_request_pass_and_then_none(clock: Clock) -> None:
    quotas = limited(clock, rate=0)
    quotas.of(CLIENT, is_strict=True).charge(1)

    clock.now_ms += 1_000_000_000
    quota = quotas.of(CLIENT, is_strict=True)
    with pytest.raises(RequestRefused):
        quota.charge(1)
    assert quota.throttle_ms == LONGEST_THROTTLE_MS


@pytest.mark.parametrize("text", ["", "much", "-1", "nan", "inf"])
def test_a_rate_that_is_none_changes_nothing(
    clock: Clock, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    quotas = limited(clock, rate=3)

    with caplog.at_level(logging.ERROR):
        quotas.configure(f"clients/{CLIENT}", {"controller_mutation_rate": text})
        quotas.configure("users/a/b", {"controller_mutation_rate": "1"})

    assert quotas.quotas.bound(quotas.quotas.key(ANONYMOUS.name, CLIENT)) == 3
    assert len(caplog.records) == 2


def test_clients_that_are_gone_are_forgotten(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_quotas, "MOST_CLIENTS", 3)
    quotas = MutationQuotas(11, lambda: clock.now_ms)
    quotas.configure("clients/<default>", {"controller_mutation_rate": "1"})

    def charge(client_id: str, count: int) -> int:
        quota = quotas.of(client_id, is_strict=False)
        quota.charge(count)
        return quota.throttle_ms

    for client_id in ("a", "b", "c"):
        charge(client_id, 12)
    assert charge("a", 0) == 1_000
    charge("d", 0)
    assert len(quotas) == 3
    assert charge("a", 0) == 1_000, "b was seen longest ago"
    assert charge("b", 0) == 0

    clock.now_ms += INACTIVE_MS + 1
    charge("a", 0)
    assert len(quotas) == 1


# ---------------------------------------------------------------------- the APIs


@pytest.fixture
def world(executor: ThreadPoolExecutor) -> BrokerWorld:
    world = BrokerWorld(executor)
    world.update({"orders": {p: metadata(1) for p in range(20)}, "bills": {0: metadata(1)}})
    for topic in ("orders", "bills"):
        assignment = b'{"partitions":{"0":[1]},"version":1}'
        world.session.write(Create(TopicZnode.path(topic), assignment))
    registered = BrokerIdZnode(broker(1), timestamp_ms=0).encode()
    world.session.write(Create(BrokerIdZnode.path(1), registered))
    path = f"users/{ANONYMOUS.name}"
    world.mutation_quotas.configure(path, {"controller_mutation_rate": "1"})
    return world


def ask(world: BrokerWorld, request: Any) -> Any:
    return asyncio.run(world.ask(request))


def schema(api: str, version: int) -> Any:
    return import_module(f"kio.schema.{api}.v{version}.request")


def create(version: int, *topics: tuple[str, int], validate_only: bool = False) -> Any:
    messages = schema("create_topics", version)
    return messages.CreateTopicsRequest(
        topics=tuple(
            messages.CreatableTopic(
                name=name, num_partitions=count, replication_factor=1, assignments=(), configs=()
            )
            for name, count in topics
        ),
        timeout=timedelta(0),
        validate_only=validate_only,
    )


def delete(version: int, *names: str) -> Any:
    messages = schema("delete_topics", version)
    if version < 6:
        return messages.DeleteTopicsRequest(topic_names=names, timeout=timedelta(0))
    topics = tuple(messages.DeleteTopicState(name=name, topic_id=None) for name in names)
    return messages.DeleteTopicsRequest(topics=topics, timeout=timedelta(0))


def grow(version: int, topic: str, count: int) -> Any:
    messages = schema("create_partitions", version)
    wanted = messages.CreatePartitionsTopic(name=topic, count=count, assignments=None)
    return messages.CreatePartitionsRequest(
        topics=(wanted,), timeout=timedelta(0), validate_only=False
    )


# Without a time to wait, what is done is reported as timed out.
DONE = (ErrorCode.request_timed_out, None)
REFUSED = (ErrorCode.throttling_quota_exceeded, None)


@pytest.mark.parametrize("version", [2, 5, 6, 7])
def test_topics_beyond_the_quota_are_refused_from_version_6_on(
    world: BrokerWorld, version: int
) -> None:
    response = ask(world, create(version, ("a", 15), ("b", 2), ("c", 1)))

    told = {topic.name: (topic.error_code, topic.error_message) for topic in response.topics}
    if version >= 6:
        assert told == {"a": DONE, "b": REFUSED, "c": REFUSED}
        assert world.mute_ms == 4_000
    else:
        assert told == {"a": DONE, "b": DONE, "c": DONE}
        assert world.mute_ms == 7_000
    assert response.throttle_time == timedelta(milliseconds=world.mute_ms)
    assert (world.znode(TopicZnode.path("b")) is None) == (version >= 6)


def test_what_is_only_validated_or_refused_costs_nothing(world: BrokerWorld) -> None:
    ask(world, create(7, ("a", 1000), validate_only=True))
    ask(world, create(7, ("orders", 1000)))

    [created] = ask(world, create(7, ("a", 11))).topics

    assert (created.error_code, created.error_message) == DONE
    assert world.mute_ms == 0


@pytest.mark.parametrize("version", [1, 4, 5, 6])
def test_deletions_beyond_the_quota_are_refused_from_version_5_on(
    world: BrokerWorld, version: int
) -> None:
    answer = ask(world, delete(version, "orders", "bills"))

    codes = [response.error_code for response in answer.responses]
    if version >= 5:
        assert codes == [ErrorCode.request_timed_out, ErrorCode.throttling_quota_exceeded]
    else:
        assert codes == [ErrorCode.request_timed_out] * 2
    assert world.mute_ms == (9_000 if version >= 5 else 10_000)
    assert answer.throttle_time == timedelta(milliseconds=world.mute_ms)


@pytest.mark.parametrize("version", [0, 2, 3])
def test_partitions_beyond_the_quota_are_refused_from_version_3_on(
    world: BrokerWorld, version: int
) -> None:
    first = ask(world, grow(version, "bills", 15)).results[0]
    assert (first.error_code, first.error_message) == DONE
    assert world.mute_ms == (0 if version >= 3 else 3_000)

    response = ask(world, grow(version, "bills", 16))

    second = response.results[0]
    assert (second.error_code, second.error_message) == (REFUSED if version >= 3 else DONE)
    assert world.mute_ms == (3_000 if version >= 3 else 4_000)
    assert response.throttle_time == timedelta(milliseconds=world.mute_ms)


def test_version_0_of_an_api_makes_wait_without_saying_so(world: BrokerWorld) -> None:
    ask(world, delete(0, "orders"))

    assert world.mute_ms == 9_000


def test_who_creates_topics_by_the_way_is_charged_but_does_not_wait(world: BrokerWorld) -> None:
    messages = schema("metadata", 4)
    topics = tuple(messages.MetadataRequestTopic(name=f"t{n}") for n in range(12))

    response = ask(world, messages.MetadataRequest(topics=topics, allow_auto_topic_creation=True))

    assert {topic.error_code for topic in response.topics} == {ErrorCode.leader_not_available}
    assert world.mute_ms == 0
    [refused] = ask(world, create(7, ("a", 1))).topics
    assert refused.error_code is ErrorCode.throttling_quota_exceeded


def test_who_has_logged_in_has_a_quota_of_its_own(world: BrokerWorld) -> None:
    world.mutation_quotas.configure("users/alice", {"controller_mutation_rate": "100"})
    topics = world.mutation_quotas.of(CLIENT, is_strict=True)
    topics.charge(12)
    with pytest.raises(RequestRefused):
        topics.charge(1)

    world.principal = Principal(USER, "alice")
    [created] = ask(world, create(7, ("a", 1000))).topics

    assert (created.error_code, created.error_message) == DONE


# ---------------------------------------------------------------------- configuration


def test_quotas_in_zookeeper_are_taken_over_at_start_and_when_they_change() -> None:
    session = BrokersSession(SimulatedZooKeeper())
    session.start()
    told: list[tuple[str, dict[str, str]]] = []
    dynamic = DynamicConfig(
        cast(ZooKeeperSession, session),
        1,
        BrokerConfig.parse({"zookeeper.connect": "memory:1"}),
        prepare=lambda *_: None,
        on_broker_config=lambda *_: None,
        on_topic=lambda *_: None,
        on_unclean_topic=lambda _: None,
        on_client=lambda path, config: told.append((path, dict(config))),
    )

    def write(entity_path: str, rate: str) -> None:
        path, data = ConfigZnode.path(entity_path), ConfigZnode({"rate": rate}).encode()
        session.create_missing([path])
        session.write(SetData(path, data))

    dynamic.load_clients()
    assert told == []

    session.create_missing(["/config/changes"])
    write("clients/app", "1")
    write("users/alice", "2")
    write("users/bob/clients/<default>", "3")
    write("ips/192.0.2.1", "5")
    dynamic.load_clients()
    assert told == [
        ("clients/app", {"rate": "1"}),
        ("users/alice", {"rate": "2"}),
        ("users/bob", {}),
        ("users/bob/clients/<default>", {"rate": "3"}),
        ("ips/192.0.2.1", {"rate": "5"}),
    ]

    told.clear()
    write("users/bob/clients/<default>", "4")
    change = ConfigChangeZnode("users/bob/clients/<default>")
    session.write(Create(ConfigChangeZnode.CREATE_PATH, change.encode(), sequential=True))
    dynamic.process_changes()
    assert told == [("users/bob/clients/<default>", {"rate": "4"})]

    told.clear()
    change = ConfigChangeZnode("ips/192.0.2.1")
    session.write(Create(ConfigChangeZnode.CREATE_PATH, change.encode(), sequential=True))
    dynamic.process_changes()
    assert told == [("ips/192.0.2.1", {"rate": "5"})]
