"""The other handlers, version by version, and what the dispatcher does around them."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.errors import InvalidFrame, ZooKeeperRefused
from kafka_common.model import LeaderAndIsr, TopicPartition
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.bulk import (
    leader_and_isr_body,
    stop_replica_body,
    update_metadata_body,
    update_metadata_live_brokers,
    update_metadata_topics,
)
from kafka_common.protocol.error_codes import MALFORMED
from kafka_common.protocol.messages import read, read_request, read_response, write
from kafka_common.protocol.numeric_times import numeric_response_type
from replica_manager.replication.partition import Role
from replica_manager.request_errors import RequestRefused
from replica_manager.server.context import EncodedBody, RequestContext, Unanswered
from replica_manager.server.dispatch import READERS
from replica_manager.server.zookeeper_handlers import HANDLERS
from tests.support.broker_world import BROKER_EPOCH, ORDERS_ID, BrokerWorld, broker, metadata
from tests.support.control_entries import leader_and_isr_entry, update_metadata_entry
from tests.support.frames import parse_response_header, request_header
from tests.support.kafka_versions import all_versions
from tests.support.request_shapes import OFFERED
from tests.unit.replica_manager.network.bodies import empty_body
from zkcontroller.core.effects import ControlledShutdownResult
from zkcontroller.zookeeper.requests import Create
from zkcontroller.zookeeper.znodes import ConfigZnode

ORDERS_0 = TopicPartition("orders", 0)


@pytest.fixture
def world(executor: ThreadPoolExecutor) -> BrokerWorld:
    world = BrokerWorld(executor, broker__id="1", num__partitions="4")
    world.update({"orders": {0: metadata(1)}}, topic_ids={"orders": ORDERS_ID})
    return world


def schema(name: str, version: int) -> Any:
    return import_module(f"kio.schema.{name}.v{version}.request")


def ask(world: BrokerWorld, request: Any, **options: Any) -> Any:
    return asyncio.run(world.ask(request, **options))


def ask_body(world: BrokerWorld, api_key: int, version: int, body: tuple[bytes, ...]) -> Any:
    """The answer to a body as our own controller writes it."""
    data = request_header(api_key, version, 3, None) + b"".join(body)
    response = asyncio.run(world.ask_raw(data))
    _, start = parse_response_header(api_key, version, response)
    return read_response(api_key, version, response, start)


# ApiVersions


@pytest.mark.parametrize("version", [0, 1, 2])
def test_what_has_a_handler_is_offered_and_nothing_else(world: BrokerWorld, version: int) -> None:
    response = ask(world, schema("api_versions", version).ApiVersionsRequest())

    offered = {k.api_key: (k.min_version, k.max_version) for k in response.api_keys}
    assert offered == OFFERED == {k: h.VERSIONS for k, h in HANDLERS.items()}
    assert [k.api_key for k in response.api_keys] == sorted(offered)


def test_what_kafka_offers_is_offered_in_kafkas_versions() -> None:
    assert all_versions() == OFFERED


def test_the_new_group_protocol_is_offered_and_refused(world: BrokerWorld) -> None:
    """As by Kafka's brokers, which have it in KRaft mode only."""
    heartbeat = ask(
        world,
        schema("consumer_group_heartbeat", 0).ConsumerGroupHeartbeatRequest(
            group_id="shop", member_id="", member_epoch=0, topic_partitions=None
        ),
    )
    description = ask(
        world,
        schema("consumer_group_describe", 0).ConsumerGroupDescribeRequest(
            group_ids=("shop", "stock"), include_authorized_operations=False
        ),
    )

    assert heartbeat.error_code is ErrorCode.unsupported_version
    assert (heartbeat.member_id, heartbeat.assignment) == (None, None)
    assert [(each.group_id, each.error_code) for each in description.groups] == [
        ("shop", ErrorCode.unsupported_version),
        ("stock", ErrorCode.unsupported_version),
    ]


@pytest.mark.parametrize("version", [3, 4])
def test_the_features_epoch_is_reported(world: BrokerWorld, version: int) -> None:
    request = schema("api_versions", version).ApiVersionsRequest(
        client_software_name="librdkafka", client_software_version="2.0.2"
    )

    while world.write_features() < 5:
        pass
    world.features.look()

    response = ask(world, request)

    assert response.error_code is ErrorCode.none
    assert response.finalized_features_epoch == 5
    assert response.supported_features == response.finalized_features == ()


@pytest.mark.parametrize("name", ["", "-x", "a b", "ä"])
def test_a_client_with_an_odd_name_is_an_invalid_request(world: BrokerWorld, name: str) -> None:
    request = schema("api_versions", 3).ApiVersionsRequest(
        client_software_name=name, client_software_version="1"
    )

    response = ask(world, request)

    assert (response.error_code, response.api_keys) == (ErrorCode.invalid_request, ())


@pytest.mark.parametrize("version", [5, 99, -1, 32_767])
def test_an_unknown_version_of_api_versions_is_answered_in_version_0(
    world: BrokerWorld, version: int
) -> None:
    data = request_header(18, version, 3, "client") + b"\xff whatever a body of 2030 may be"

    answer = asyncio.run(world.ask_raw(data))
    response: Any = read_response(18, 0, answer, 4)

    assert answer[:4] == (3).to_bytes(4, "big")
    assert response.error_code is ErrorCode.unsupported_version
    assert [(k.api_key, k.min_version, k.max_version) for k in response.api_keys] == [(18, 0, 4)]


# LeaderAndIsr, UpdateMetadata, StopReplica, as our own controller writes them


def leader_and_isr(version: int, *, broker_epoch: int = -1, leader_epoch: int = 0) -> Any:
    state = LeaderAndIsr(1, leader_epoch, (1, 2), 0, 1)
    entry = leader_and_isr_entry(version, "orders", 0, state, (1, 2, 3), (), (), True)
    return leader_and_isr_body(
        version,
        controller_id=1,
        controller_epoch=1,
        broker_epoch=broker_epoch,
        topics=[("orders", ORDERS_ID, [entry])],
        live_leaders=[(1, "host1", 9092)],
    )


@pytest.mark.parametrize("version", range(8))
def test_every_version_of_leader_and_isr_makes_a_leader(world: BrokerWorld, version: int) -> None:
    response = ask_body(world, 4, version, leader_and_isr(version))

    assert response.error_code is ErrorCode.none
    partition = world.replicas.partitions[ORDERS_0]
    assert (partition.role, partition.in_sync_replicas) == (Role.LEADER, (1, 2))
    if version >= 5:
        assert partition.topic_id == ORDERS_ID
        [topic] = response.topics
        assert topic.topic_id == ORDERS_ID
        [error] = topic.partition_errors
    else:
        assert partition.topic_id is None
        [error] = response.partition_errors
        assert error.topic_name == "orders"
    assert (error.partition_index, error.error_code) == (0, ErrorCode.none)


@pytest.mark.parametrize("version", [2, 4, 5, 7])
def test_a_smaller_broker_epoch_refuses_leader_and_isr_for_every_partition(
    world: BrokerWorld, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "kafka.server.KafkaApis"):
        response = ask_body(
            world, 4, version, leader_and_isr(version, broker_epoch=BROKER_EPOCH - 1)
        )

    assert response.error_code is ErrorCode.stale_broker_epoch
    errors = response.topics[0].partition_errors if version >= 5 else response.partition_errors
    assert [e.error_code for e in errors] == [ErrorCode.stale_broker_epoch]
    assert world.replicas.partitions == {}
    assert caplog.messages == [
        "[KafkaApi-1] Received LeaderAndIsr request with broker epoch 999 smaller than the current "
        "broker epoch 1000 from controller 1 with epoch 1."
    ]


@pytest.mark.parametrize("broker_epoch", [-1, BROKER_EPOCH, BROKER_EPOCH + 1])
def test_an_unknown_equal_or_larger_broker_epoch_is_accepted(
    world: BrokerWorld, broker_epoch: int
) -> None:
    response = ask_body(world, 4, 7, leader_and_isr(7, broker_epoch=broker_epoch))

    assert response.error_code is ErrorCode.none


def update_metadata(version: int, *, broker_epoch: int = -1, epoch: int = 1) -> Any:
    entry = update_metadata_entry(
        version, "bills", 2, LeaderAndIsr(2, 7, (2, 3), 5, 1), (2, 3), (3,)
    )
    brokers = [broker(1, "PLAINTEXT", rack="r"), broker(2, "PLAINTEXT", rack=None)]
    return update_metadata_body(
        version,
        controller_id=2,
        controller_epoch=epoch,
        broker_epoch=broker_epoch,
        topics=update_metadata_topics(version, [("bills", ORDERS_ID, [entry])]),
        live_brokers=update_metadata_live_brokers(version, brokers),
    )


@pytest.mark.parametrize("version", range(9))
def test_every_version_of_update_metadata_fills_the_cache(world: BrokerWorld, version: int) -> None:
    response = ask_body(world, 6, version, update_metadata(version))

    snapshot = world.cache.snapshot
    state = snapshot.partition("bills", 2)
    assert response.error_code is ErrorCode.none
    assert state is not None
    assert (state.leader, state.leader_epoch, state.in_sync_replicas) == (2, 7, (2, 3))
    assert (state.replicas, state.zk_version) == ((2, 3), 5)
    assert state.offline_replicas == ((3,) if version >= 4 else ())
    assert snapshot.topic_ids.get("bills") == (ORDERS_ID if version >= 7 else None)
    assert snapshot.controller_id == 2
    endpoint = snapshot.endpoint(1, "PLAINTEXT")
    assert endpoint is not None
    assert (endpoint.host, endpoint.port) == ("host1", 9092)
    assert snapshot.live_brokers[1].rack == ("r" if version >= 2 else None)


def test_stale_update_metadata_is_refused_with_a_code_alone(world: BrokerWorld) -> None:
    by_broker = ask_body(world, 6, 8, update_metadata(8, broker_epoch=1))
    world.update({}, controller_epoch=9)
    by_controller = ask_body(world, 6, 8, update_metadata(8, epoch=8))

    assert by_broker.error_code is ErrorCode.stale_broker_epoch
    assert by_controller.error_code is ErrorCode.stale_controller_epoch


def test_an_endpoint_of_an_unknown_protocol_is_a_server_error(world: BrokerWorld) -> None:
    body = update_metadata(8)
    request: Any = schema("update_metadata", 8)
    odd = request.UpdateMetadataRequest(
        controller_id=1,
        controller_epoch=1,
        topic_states=(),
        live_brokers=(
            request.UpdateMetadataBroker(
                id_=1,
                endpoints=(
                    request.UpdateMetadataEndpoint(
                        port=1, host="h", listener="L", security_protocol=77
                    ),
                ),
                rack=None,
            ),
        ),
    )

    assert ask(world, odd).error_code is ErrorCode.unknown_server_error
    assert ask_body(world, 6, 8, body).error_code is ErrorCode.none


def stop_replica(version: int, *, broker_epoch: int = -1) -> Any:
    return stop_replica_body(
        version,
        controller_id=1,
        controller_epoch=1,
        broker_epoch=broker_epoch,
        topics=[("orders", [(0, 0, True)])],
        delete_partitions=True,
    )


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_stop_replica_deletes(world: BrokerWorld, version: int) -> None:
    ask_body(world, 4, 7, leader_and_isr(7))

    response = ask_body(world, 5, version, stop_replica(version))

    assert response.error_code is ErrorCode.none
    [error] = response.partition_errors
    assert (error.topic_name, error.partition_index) == ("orders", 0)
    assert error.error_code is ErrorCode.none
    assert world.replicas.partitions == {}


def test_a_smaller_broker_epoch_refuses_stop_replica_with_the_top_code_alone(
    world: BrokerWorld,
) -> None:
    response = ask_body(world, 5, 4, stop_replica(4, broker_epoch=1))

    assert (response.error_code, response.partition_errors) == (ErrorCode.stale_broker_epoch, ())


# ControlledShutdown, DescribeCluster, DescribeConfigs


@pytest.mark.parametrize("version", range(4))
def test_controlled_shutdown_is_the_controllers_answer(world: BrokerWorld, version: int) -> None:
    world.controller.result = ControlledShutdownResult(
        ErrorCode.none, (ORDERS_0, TopicPartition("bills", 3))
    )
    epoch = {"broker_epoch": 55} if version >= 2 else {}

    response = ask(
        world,
        schema("controlled_shutdown", version).ControlledShutdownRequest(broker_id=2, **epoch),
    )

    assert world.controller.asked == [(2, 55 if version >= 2 else -1)]
    assert response.error_code is ErrorCode.none
    assert [(p.topic_name, p.partition_index) for p in response.remaining_partitions] == [
        ("orders", 0),
        ("bills", 3),
    ]


def test_controlled_shutdown_elsewhere_is_a_stale_controller_epoch(world: BrokerWorld) -> None:
    world.controller.result = ControlledShutdownResult(ErrorCode.stale_controller_epoch)

    request = schema("controlled_shutdown", 3).ControlledShutdownRequest(
        broker_id=2, broker_epoch=5
    )

    assert ask(world, request).error_code is ErrorCode.stale_controller_epoch


@pytest.mark.parametrize("version", [0, 1])
def test_the_cluster_is_described_by_the_listener_the_client_came_in_on(
    world: BrokerWorld, version: int
) -> None:
    world.update({}, brokers=[broker(1, "PLAINTEXT", "CLIENT"), broker(2)], controller_id=1)
    request = schema("describe_cluster", version).DescribeClusterRequest(
        include_cluster_authorized_operations=False
    )

    response = ask(world, request, listener_name="CLIENT")

    assert [(b.broker_id, b.port) for b in response.brokers] == [(1, 9093)]
    assert (response.cluster_id, response.controller_id) == ("cluster", 1)
    assert response.cluster_authorized_operations == -(2**31)


def test_a_controller_that_is_not_shown_is_no_controller(world: BrokerWorld) -> None:
    world.update({}, controller_id=9)
    request = schema("describe_cluster", 0).DescribeClusterRequest(
        include_cluster_authorized_operations=False
    )

    assert ask(world, request).controller_id == -1


@pytest.mark.parametrize(
    ("endpoint_type", "error"),
    [(2, ErrorCode.mismatched_endpoint_type), (9, ErrorCode.unsupported_endpoint_type)],
)
def test_only_brokers_are_described_here(
    world: BrokerWorld, endpoint_type: int, error: ErrorCode
) -> None:
    request = schema("describe_cluster", 1).DescribeClusterRequest(
        include_cluster_authorized_operations=False, endpoint_type=endpoint_type
    )

    assert ask(world, request).error_code is error


def describe_configs(
    world: BrokerWorld, version: int, kind: int, name: str, keys: tuple[str, ...] | None = None
) -> Any:
    request = schema("describe_configs", version)
    options = {"include_synonyms": True} if version >= 1 else {}
    resource = request.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    [result] = ask(world, request.DescribeConfigsRequest(resources=(resource,), **options)).results
    return result


@pytest.mark.parametrize("version", range(5))
def test_a_topics_configuration_is_described_with_its_sources(
    world: BrokerWorld, version: int
) -> None:
    path = ConfigZnode.topic_path("orders")
    world.session.write(Create(path, ConfigZnode({"retention.ms": "5"}).encode()))

    result = describe_configs(world, version, 2, "orders")

    configs = {c.name: c for c in result.configs}
    assert (result.error_code, len(configs)) == (ErrorCode.none, 36)
    assert configs["retention.ms"].value == "5"
    if version == 0:
        # Kafka 3.9 says so of every key.
        assert not configs["retention.ms"].is_default
        assert not configs["cleanup.policy"].is_default
    else:
        assert configs["retention.ms"].config_source == 1
        retention, segment = configs["retention.ms"], configs["segment.bytes"]
        # log.retention.hours is not named, for log.retention.ms has no value.
        assert [(s.name, s.value, s.source) for s in retention.synonyms] == [
            ("retention.ms", "5", 1)
        ]
        assert [(s.name, s.value, s.source) for s in segment.synonyms] == [
            ("log.segment.bytes", "1073741824", 5)
        ]
    if version >= 3:
        assert configs["retention.ms"].config_type == 5


def test_only_the_keys_asked_for_are_described(world: BrokerWorld) -> None:
    result = describe_configs(world, 4, 2, "orders", ("segment.bytes", "no.such"))

    assert [c.name for c in result.configs] == ["segment.bytes"]


def test_this_brokers_configuration_is_described_and_another_ones_is_not(
    world: BrokerWorld,
) -> None:
    own = {c.name: c for c in describe_configs(world, 4, 4, "1").configs}
    other = describe_configs(world, 4, 4, "2")

    assert (own["num.partitions"].value, own["num.partitions"].config_source) == ("4", 4)
    assert own["num.partitions"].read_only
    assert not own["unclean.leader.election.enable"].read_only
    assert own["ssl.key.password"].is_sensitive
    assert other.error_code is ErrorCode.invalid_request


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        (16, "", "Client metrics subscription name must not be empty"),
        (16, "mine", "Config type client-metrics is only supported on KRaft clusters"),
        (3, "any", MALFORMED),
    ],
)
def test_what_has_no_configuration_here_is_refused_in_kafkas_words(
    world: BrokerWorld, kind: int, name: str, message: str
) -> None:
    described = describe_configs(world, 4, kind, name)

    assert (described.error_code, described.error_message) == (ErrorCode.invalid_request, message)


def test_a_resource_of_no_known_type_refuses_the_whole_request(world: BrokerWorld) -> None:
    request = schema("describe_configs", 4)
    resources = tuple(
        request.DescribeConfigsResource(
            resource_type=kind, resource_name="orders", configuration_keys=None
        )
        for kind in (2, 3)
    )

    results = ask(world, request.DescribeConfigsRequest(resources=resources)).results

    assert [each.error_code for each in results] == [ErrorCode.invalid_request] * 2


@pytest.mark.parametrize("resource_type", [4, 8])
@pytest.mark.parametrize("name", [" 1", "1\n", "0_1", "one"])
def test_the_name_of_a_broker_is_an_integer_as_java_reads_it(
    world: BrokerWorld, resource_type: int, name: str
) -> None:
    described = describe_configs(world, 4, resource_type, name)

    assert described.error_code is ErrorCode.invalid_request
    assert described.error_message == f"Broker id must be an integer, but it is: {name}"


def test_a_default_that_is_a_class_of_kafka_is_shown_as_kafka_shows_it(world: BrokerWorld) -> None:
    own = {c.name: c.value for c in describe_configs(world, 4, 4, "1").configs}

    assert own["principal.builder.class"] == (
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
    )
    assert own["group.consumer.assignors"] == (
        "org.apache.kafka.coordinator.group.assignor.UniformAssignor,"
        "org.apache.kafka.coordinator.group.assignor.RangeAssignor"
    )
    assert own["remote.log.metadata.manager.class.name"] == (
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager"
    )


def test_the_cluster_wide_default_has_only_what_is_dynamic(world: BrokerWorld) -> None:
    assert describe_configs(world, 4, 4, "").configs == ()

    world.config = world.config.with_dynamic(default={"max.connections": "9"}, own={})
    [entry] = describe_configs(world, 4, 4, "").configs

    assert (entry.name, entry.value, entry.config_source) == ("max.connections", "9", 3)


def test_every_place_of_a_value_is_reported_the_one_that_counts_first(world: BrokerWorld) -> None:
    world.config = world.config.with_dynamic(
        default={"message.max.bytes": "2000", "log.retention.ms": "7000"},
        own={"message.max.bytes": "3000"},
    )

    broker = {c.name: c for c in describe_configs(world, 4, 4, "1").configs}
    topic = {c.name: c for c in describe_configs(world, 4, 2, "orders").configs}
    default = {c.name: c for c in describe_configs(world, 4, 4, "").configs}

    def places(entry: Any) -> list[tuple[str, str, int]]:
        return [(s.name, s.value, s.source) for s in entry.synonyms]

    everywhere = [
        ("message.max.bytes", "3000", 2),
        ("message.max.bytes", "2000", 3),
        ("message.max.bytes", "1048588", 5),
    ]
    assert (broker["message.max.bytes"].value, broker["message.max.bytes"].config_source) == (
        "3000",
        2,
    )
    assert places(broker["message.max.bytes"]) == everywhere
    assert (topic["max.message.bytes"].value, topic["max.message.bytes"].config_source) == (
        "3000",
        2,
    )
    assert places(topic["max.message.bytes"]) == everywhere
    # For all brokers that is the value, whatever one of them has.
    assert (default["message.max.bytes"].value, default["message.max.bytes"].config_source) == (
        "2000",
        3,
    )
    assert places(default["message.max.bytes"]) == everywhere[1:2]
    assert places(topic["retention.ms"]) == [
        ("log.retention.ms", "7000", 3),
        ("log.retention.hours", "168", 5),
    ]


def test_what_is_unknown_may_be_a_secret(world: BrokerWorld) -> None:
    path = ConfigZnode.topic_path("orders")
    world.session.write(Create(path, ConfigZnode({"a.secret": "x"}).encode()))
    world.config = world.config.with_dynamic(default={}, own={"another.secret": "y"})

    [topic] = [c for c in describe_configs(world, 4, 2, "orders").configs if c.is_sensitive]
    broker = {c.name: c for c in describe_configs(world, 4, 4, "1").configs}

    assert (topic.name, topic.value, topic.config_source) == ("a.secret", None, 1)
    assert (broker["another.secret"].value, broker["another.secret"].is_sensitive) == (None, True)
    assert [s.value for s in broker["another.secret"].synonyms] == [None]


def test_keys_for_kafkas_own_use_are_not_shown(world: BrokerWorld) -> None:
    told = {c.name for c in describe_configs(world, 4, 4, "1").configs}

    assert "num.partitions" in told
    assert "group.share.enable" not in told


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("is_wanted", [True, False])
def test_documentation_is_reported_if_it_is_wanted(
    world: BrokerWorld, version: int, is_wanted: bool
) -> None:
    request = schema("describe_configs", version)
    resources = tuple(
        request.DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=None
        )
        for kind, name in ((2, "orders"), (4, "1"))
    )

    topic, broker = ask(
        world,
        request.DescribeConfigsRequest(
            resources=resources, include_synonyms=False, include_documentation=is_wanted
        ),
    ).results

    assert all((c.documentation is not None) == is_wanted for c in topic.configs)
    told = {c.name: c.documentation for c in broker.configs}
    assert (told["log.segment.bytes"] is not None) == is_wanted
    assert all(c.synonyms == () for c in topic.configs)


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (2, "missing", ErrorCode.unknown_topic_or_partition),
        (2, "a/b", ErrorCode.invalid_topic_exception),
        (8, "", ErrorCode.invalid_request),
        (8, "2", ErrorCode.invalid_request),
        (77, "", ErrorCode.invalid_request),
    ],
)
def test_what_cannot_be_described_is_an_error_of_that_resource(
    world: BrokerWorld, kind: int, name: str, error: ErrorCode
) -> None:
    assert describe_configs(world, 4, kind, name).error_code is error


# The dispatcher


@pytest.mark.parametrize("failure", [ZooKeeperRefused("/x", "NO_AUTH"), RuntimeError("a defect")])
def test_a_handler_that_fails_is_answered_with_an_error(
    world: BrokerWorld, failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: int) -> ControlledShutdownResult:
        raise failure

    world.controller.controlled_shutdown = fail  # type: ignore[method-assign, assignment]
    request = schema("controlled_shutdown", 3).ControlledShutdownRequest(
        broker_id=2, broker_epoch=5
    )

    assert ask(world, request).error_code is ErrorCode.unknown_server_error
    assert "api=ControlledShutdown, version=3" in caplog.text


def test_a_refusal_is_answered_with_its_own_code(world: BrokerWorld) -> None:
    async def refuse(*_: int) -> ControlledShutdownResult:
        raise RequestRefused(ErrorCode.not_controller)

    world.controller.controlled_shutdown = refuse  # type: ignore[method-assign, assignment]
    request = schema("controlled_shutdown", 0).ControlledShutdownRequest(broker_id=2)

    assert ask(world, request).error_code is ErrorCode.not_controller


@pytest.mark.parametrize(("api_key", "version"), [(24, 3), (3, 13), (3, -1), (52, 0), (99, 0)])
def test_an_api_or_version_that_is_not_offered_is_not_answered(
    world: BrokerWorld, api_key: int, version: int
) -> None:
    header = api_key.to_bytes(2, "big") + version.to_bytes(2, "big", signed=True)

    with pytest.raises(InvalidFrame):
        asyncio.run(world.ask_raw(header + b"\0\0\0\1\0\0" + b"\0" * 20))


def test_bytes_behind_a_request_are_ignored(world: BrokerWorld) -> None:
    request = schema("metadata", 1).MetadataRequest(topics=None)
    data = request_header(3, 1, 3, None) + write(request) + b"more"

    response: Any = read_response(3, 1, asyncio.run(world.ask_raw(data)), 4)

    assert response.controller_id == 1


def test_every_handler_can_refuse_in_every_version() -> None:
    for api_key, handler in HANDLERS.items():
        for version in range(handler.VERSIONS[0], handler.VERSIONS[1] + 1):
            request: Any = _smallest_request(api_key, version)
            context = RequestContext(api_key, version, 1, "", "PLAINTEXT", "")

            response = handler.refuse(request, context, ErrorCode.unknown_server_error)

            # kio reads no point in time of -1, which a refused delegation token has.
            answer_type = numeric_response_type(api_key, version)
            match response:
                case Unanswered(closes):
                    # Nothing is forwarded here, and Kafka closes the connection for an Envelope.
                    assert closes if api_key == ApiKey.ENVELOPE else request.acks == 0
                case EncodedBody(chunks):
                    assert all(isinstance(chunk, bytes) for chunk in chunks)
                    read(answer_type, b"".join(chunks))  # type: ignore[arg-type]
                case _:
                    payload: Any = response
                    assert write(read(answer_type, write(payload))) == write(payload)


def _smallest_request(api_key: int, version: int) -> Any:
    """A request with empty lists and empty names."""
    body = empty_body(api_key, version)
    read = READERS.get(api_key)
    return read_request(api_key, version, body) if read is None else read(version, body, 0)
