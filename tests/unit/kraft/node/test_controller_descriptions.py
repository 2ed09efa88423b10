"""What a controller says of itself: its versions, its quorum, its configuration, its loggers."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any, Final

import pytest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i8, i32
from typing_extensions import override

from kafka_common.api_error import ApiException
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.framing import parse_request_header
from kafka_common.protocol.messages import write
from kafka_common.protocol.versioned_messages import request_schema
from kraft.controller.features import FinalizedControllerFeatures
from kraft.controller.quorum_controller_requests import ControllerRequest
from kraft.node.client_metrics_configs import validate_client_metrics
from kraft.node.controller_apis.call import Controller
from kraft.node.node_versions import NodeVersions
from tests.support.config_messages import altered_resources
from tests.support.frames import request_header
from tests.support.quorum import CLUSTER_ID, in_the_end
from tests.unit.kraft.node.controller_client import Client, client_of_voter

OFFERED_BY_KAFKA: Final = {
    1: (0, 17), 7: (0, 3), 17: (0, 1), 18: (0, 4), 19: (0, 7), 20: (0, 6), 29: (0, 3), 30: (0, 3),
    31: (0, 3), 32: (0, 4), 33: (0, 2), 36: (0, 2), 37: (0, 3), 38: (0, 3), 39: (0, 2), 40: (0, 2),
    41: (0, 3), 43: (0, 2), 44: (0, 1), 45: (0, 0), 46: (0, 0), 49: (0, 1), 50: (0, 0), 51: (0, 0),
    52: (0, 1), 53: (0, 1), 54: (0, 1), 55: (0, 2), 56: (0, 3), 57: (0, 1), 58: (0, 0), 59: (0, 1),
    60: (0, 1), 62: (0, 4), 63: (0, 1), 64: (0, 0), 67: (0, 0), 70: (0, 0), 73: (0, 0), 80: (0, 0),
    81: (0, 0), 82: (0, 0),
}  # fmt: skip
"""As a controller of Kafka 3.9.1 says it."""
TOPIC, BROKER, LOGGER, METRICS = 2, 4, 8, 16
SOFTWARE: Final = {"client_software_name": "test", "client_software_version": "1"}


async def described(client: Client, *resources: tuple[int, str], **options: bool) -> list[Any]:
    """What DescribeConfigs says of those resources."""
    schema = request_schema(ApiKey.DESCRIBE_CONFIGS, 4)
    wanted = tuple(
        schema.part(
            "DescribeConfigsResource",
            resource_type=i8(resource_type),
            resource_name=name,
            configuration_keys=None,
        )
        for resource_type, name in resources
    )
    asked = {"include_synonyms": True, "include_documentation": False} | options
    response = await client.ask(ApiKey.DESCRIBE_CONFIGS, 4, resources=wanted, **asked)
    return list(response.results)


def values(result: Any) -> dict[str, str | None]:
    return {config.name: config.value for config in result.configs}


def verdict(result: Any) -> tuple[ErrorCode, str | None]:
    return ErrorCode(result.error_code), result.error_message


async def alter(client: Client, *resources: tuple[int, str, str, int, str | None]) -> list[Any]:
    """Changes one key of each of those resources by IncrementalAlterConfigs."""
    wanted = altered_resources(*resources)
    response = await client.ask(
        ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=wanted, validate_only=False
    )
    return list(response.responses)


# ---------------------------------------------------------------------- ApiVersions


async def test_a_controller_offers_what_kafkas_does_and_names_its_features(tmp_path: Path) -> None:
    async with client_of_voter(tmp_path) as client:

        async def newest_versions() -> Any:
            return await client.ask(ApiKey.API_VERSIONS, 4, **SOFTWARE)

        async def is_bootstrapped() -> bool:
            return bool((await newest_versions()).finalized_features_epoch == 4)

        await in_the_end(is_bootstrapped, "the features of the bootstrap are known")
        newest = await newest_versions()
        older = await client.ask(ApiKey.API_VERSIONS, 3, **SOFTWARE)
        oldest = await client.ask(ApiKey.API_VERSIONS, 0)

        for response in (newest, older, oldest):
            offered = {row.api_key: (row.min_version, row.max_version) for row in response.api_keys}
            assert offered == OFFERED_BY_KAFKA
        supported = [
            [(row.name, row.min_version, row.max_version) for row in response.supported_features]
            for response in (newest, older)
        ]
        # Kafka names kraft.version too, of which only level 0 is built here.
        assert supported == [[("metadata.version", 1, 21)]] * 2
        [finalized] = newest.finalized_features
        assert (finalized.name, finalized.min_version_level, finalized.max_version_level) == (
            "metadata.version", 21, 21,
        )  # fmt: skip
        assert newest.zk_migration_ready is False


class BusyController(Controller):
    """Answers when a test says so."""

    def __init__(self) -> None:
        self.asked: list[ControllerRequest] = []
        self.answer: asyncio.Future[FinalizedControllerFeatures] = (
            asyncio.get_running_loop().create_future()
        )

    @override
    async def ask(
        self, request: ControllerRequest, timeout_ms: int | None = None, apply_quota: object = None
    ) -> Any:
        self.asked.append(request)
        return await self.answer


async def test_a_busy_controller_is_not_waited_for() -> None:
    frame = request_header(int(ApiKey.API_VERSIONS), 4, 1, "test")
    frame += write(request_schema(ApiKey.API_VERSIONS, 4).request(**SOFTWARE))
    header, start = parse_request_header(frame)

    controller = BusyController()
    versions = NodeVersions({18: (0, 4)}, controller)

    async def epoch() -> int:
        response: Any = await versions.respond(header, frame, start)
        return int(response.finalized_features_epoch)

    async with asyncio.timeout(10):
        assert await epoch() == await epoch() == -1
        # One question is enough, however many ask.
        assert len(controller.asked) == 1
        controller.answer.set_result(FinalizedControllerFeatures({"metadata.version": 21}, 7))
        assert await epoch() == 7


async def test_a_controller_that_has_ended_still_tells_what_it_said_last() -> None:
    frame = request_header(int(ApiKey.API_VERSIONS), 4, 1, "test")
    frame += write(request_schema(ApiKey.API_VERSIONS, 4).request(**SOFTWARE))
    header, start = parse_request_header(frame)

    controller = BusyController()
    versions = NodeVersions({18: (0, 4)}, controller)
    controller.answer.set_result(FinalizedControllerFeatures({"metadata.version": 20}, 3))
    await versions.respond(header, frame, start)
    controller.answer = asyncio.get_running_loop().create_future()
    controller.answer.set_exception(ConnectionAbortedError("the controller stops"))

    response: Any = await versions.respond(header, frame, start)

    [finalized] = response.finalized_features
    assert (finalized.max_version_level, response.finalized_features_epoch) == (20, 3)


# ---------------------------------------------------------------------- DescribeCluster


async def cluster(client: Client, version: int, endpoint_type: int, **options: bool) -> Any:
    asked = {"include_cluster_authorized_operations": False} | options
    if version > 0:
        return await client.ask(
            ApiKey.DESCRIBE_CLUSTER, version, endpoint_type=i8(endpoint_type), **asked
        )
    return await client.ask(ApiKey.DESCRIBE_CLUSTER, version, **asked)


async def test_a_controller_names_the_controllers_and_no_brokers(tmp_path: Path) -> None:
    async with client_of_voter(tmp_path) as client:

        async def is_committed() -> bool:
            return bool((await cluster(client, 1, 2)).brokers)

        await in_the_end(is_committed, "its registration is committed")
        found = await cluster(client, 1, 2)
        with_operations = await cluster(client, 1, 2, include_cluster_authorized_operations=True)

        assert ErrorCode(found.error_code) is ErrorCode.none
        assert (found.cluster_id, found.controller_id, found.endpoint_type) == (CLUSTER_ID, 1, 2)
        [controller] = found.brokers
        port = int(client.connection.peer.rpartition(":")[2])
        assert (controller.broker_id, controller.host, controller.port) == (1, "127.0.0.1", port)
        assert found.cluster_authorized_operations == -(2**31)
        # Without rules everything: CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, …
        assert with_operations.cluster_authorized_operations == 8096


@pytest.mark.parametrize(
    ("version", "endpoint_type", "error"),
    [
        (0, 1, ErrorCode.invalid_request),
        (1, 1, ErrorCode.mismatched_endpoint_type),
        (1, 0, ErrorCode.unsupported_endpoint_type),
        (1, 3, ErrorCode.unsupported_endpoint_type),
    ],
)
async def test_who_wants_brokers_learns_that_these_are_controllers(
    tmp_path: Path, version: int, endpoint_type: int, error: ErrorCode
) -> None:
    async with client_of_voter(tmp_path) as client:
        refused = await cluster(client, version, endpoint_type)

        assert ErrorCode(refused.error_code) is error
        assert refused.brokers == ()


async def test_as_long_as_no_controller_can_have_registered_none_is_named(tmp_path: Path) -> None:
    async with client_of_voter(tmp_path, voters=(1, 2)) as client:
        refused = await cluster(client, 1, 2)

        assert ErrorCode(refused.error_code) is ErrorCode.unsupported_version

    # The other voter never comes, so nothing is ever committed.


# ---------------------------------------------------------------------- DescribeConfigs


async def test_a_controller_tells_its_keys_with_what_was_set_at_run_time(tmp_path: Path) -> None:
    async with client_of_voter(tmp_path, properties={"num.partitions": "7"}) as client:
        await alter(client, (BROKER, "", "background.threads", 0, "13"))
        await alter(client, (BROKER, "1", "log.cleaner.threads", 0, "2"))

        own, default = await described(client, (BROKER, "1"), (BROKER, ""))

        keys = {config.name: config for config in own.configs}
        assert keys["node.id"].value == keys["broker.id"].value == "1"
        assert keys["process.roles"].value == "controller"
        assert keys["num.partitions"].value == "7"
        assert (keys["num.partitions"].read_only, keys["background.threads"].read_only) == (
            True, False,
        )  # fmt: skip
        sources = {
            name: [(each.value, each.source) for each in keys[name].synonyms]
            for name in ("num.partitions", "background.threads", "log.cleaner.threads")
        }
        assert sources == {
            "num.partitions": [("7", 4), ("1", 5)],
            "background.threads": [("13", 3), ("10", 5)],
            "log.cleaner.threads": [("2", 2), ("1", 5)],
        }
        assert values(default) == {"background.threads": "13"}


async def test_secrets_are_not_shown(tmp_path: Path) -> None:
    async with client_of_voter(
        tmp_path, properties={"delegation.token.secret.key": "opensesame"}
    ) as client:
        [own] = await described(client, (BROKER, "1"))

        [secret] = [each for each in own.configs if each.name == "delegation.token.secret.key"]
        assert (secret.value, secret.is_sensitive, secret.config_source) == (None, True, 4)
        assert "opensesame" not in str(own)


async def test_topics_and_subscriptions_are_reported_out_of_the_log(tmp_path: Path) -> None:
    async with client_of_voter(tmp_path) as client:
        await client.join()
        await client.create("orders")
        await alter(
            client,
            (TOPIC, "orders", "retention.ms", 0, "5"),
            (METRICS, "java", "interval.ms", 0, "1000"),
        )

        topic, unknown, illegal, subscription, empty = await described(
            client, (TOPIC, "orders"), (TOPIC, "none"), (TOPIC, "a/b"), (METRICS, "java"),
            (METRICS, "none"),
        )  # fmt: skip

        assert values(topic)["retention.ms"] == "5"
        assert len(topic.configs) == 36
        assert verdict(unknown) == (ErrorCode.unknown_topic_or_partition, "")
        assert verdict(illegal)[0] is ErrorCode.invalid_topic_exception
        [interval] = subscription.configs
        assert (interval.name, interval.value, interval.config_source) == ("interval.ms", "1000", 7)
        assert verdict(empty) == (ErrorCode.none, "")
        assert empty.configs == ()


async def test_only_this_node_is_described(tmp_path: Path) -> None:
    async with client_of_voter(tmp_path) as client:
        refused = await described(
            client, (BROKER, "7"), (BROKER, "x"), (LOGGER, ""), (LOGGER, "7"), (METRICS, "")
        )

        assert [verdict(each) for each in refused] == [
            (ErrorCode.invalid_request, message)
            for message in (
                "Unexpected broker id, expected 1 or empty string, but received 7",
                "Broker id must be an integer, but it is: x",
                "Broker id must not be empty",
                "Unexpected broker id, expected 1 but received 7",
                "Client metrics subscription name must not be empty",
            )
        ]


async def test_a_request_for_what_has_no_configuration_is_refused_as_a_whole(
    tmp_path: Path,
) -> None:
    async with client_of_voter(tmp_path) as client:
        refused = await described(client, (BROKER, "1"), (32, "group"))

        assert [ErrorCode(each.error_code) for each in refused] == [ErrorCode.invalid_request] * 2
        assert all(each.configs == () for each in refused)


# ---------------------------------------------------------------------- loggers


async def test_the_levels_of_loggers_change_even_where_the_controller_is_not_active(
    tmp_path: Path,
) -> None:
    logger = logging.getLogger("kafka.raft.KafkaRaftManager")
    name = logger.name

    async with client_of_voter(tmp_path, voters=(1, 2)) as client:
        [altered] = await alter(client, (LOGGER, "1", name, 0, "WARN"))
        [levels] = await described(client, (LOGGER, "1"))
        assert ErrorCode(altered.error_code) is ErrorCode.none
        assert logger.level == logging.WARNING
        assert values(levels)[name] == "WARN"

        await alter(client, (LOGGER, "1", name, 1, None))
        assert logger.level == logging.NOTSET

    # The other voter never comes.


async def test_levels_and_loggers_that_there_are_not_are_refused(tmp_path: Path) -> None:
    async with client_of_voter(tmp_path) as client:
        refused = await alter(
            client,
            (LOGGER, "1", "no.such.logger", 0, "INFO"),
            (LOGGER, "1", "root", 0, "LOUD"),
            (LOGGER, "1", "root", 1, None),
            (LOGGER, "1", "root", 2, "INFO"),
            (LOGGER, "2", "root", 0, "INFO"),
            (LOGGER, "x", "root", 0, "INFO"),
        )

        assert [ErrorCode(each.error_code) for each in refused] == [
            ErrorCode.invalid_config,
            ErrorCode.invalid_config,
            ErrorCode.invalid_request,
            ErrorCode.invalid_request,
            ErrorCode.invalid_request,
            ErrorCode.invalid_request,
        ]


# ---------------------------------------------------------------------- clients' metrics


@pytest.mark.parametrize(
    ("configs", "error"),
    [
        ({"metrics": "org.apache.kafka.producer.,org.apache.kafka.consumer."}, None),
        ({"interval.ms": "100", "match": "client_id=a.*,client_software_name=Java"}, None),
        ({"interval.ms": "3600000"}, None),
        ({"match": r"client_software_version=\p{Digit}+"}, None),
        ({"match": "client_id=a,"}, None),
        ({"match": ","}, None),
        ({"interval": "100"}, ErrorCode.invalid_request),
        ({"interval.ms": "99"}, ErrorCode.invalid_request),
        ({"interval.ms": "3600001"}, ErrorCode.invalid_request),
        ({"interval.ms": "soon"}, ErrorCode.invalid_request),
        ({"interval.ms": "9" * 10_000}, ErrorCode.invalid_request),
        ({"match": ""}, ErrorCode.invalid_config),
        ({"match": "client_id"}, ErrorCode.invalid_config),
        ({"match": "client_id=a=b"}, ErrorCode.invalid_config),
        ({"match": "client_age=9"}, ErrorCode.invalid_config),
        ({"match": "client_id=(a"}, ErrorCode.invalid_config),
        ({"match": "client_id=" + "(" * 20_000}, ErrorCode.invalid_config),
        ({"match": "client_id=a{99999999999}"}, ErrorCode.invalid_config),
    ],
)
def test_what_a_subscription_may_say(configs: dict[str, str], error: ErrorCode | None) -> None:
    if error is None:
        validate_client_metrics(configs)
        return
    with pytest.raises(ApiException) as refused:
        validate_client_metrics(configs)
    assert refused.value.error is error


# ---------------------------------------------------------------------- what nothing handles


async def test_what_a_controller_offers_and_does_not_do_is_an_error(tmp_path: Path) -> None:
    async with client_of_voter(tmp_path) as client:
        schema = request_schema(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0)
        users = tuple(schema.part("UserName", name=name) for name in ("alice", "bob"))
        responses = [
            await client.ask(ApiKey.CONTROLLED_SHUTDOWN, 0, broker_id=i32(1)),
            await client.ask(ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, owners=None),
            await client.ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=users),
            await client.ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=None),
        ]

        unknown = ErrorCode.unknown_server_error
        assert [ErrorCode(each.error_code) for each in responses] == [unknown] * 4
        assert [ErrorCode(row.error_code) for row in responses[2].results] == [unknown] * 2
        assert responses[3].results == ()
