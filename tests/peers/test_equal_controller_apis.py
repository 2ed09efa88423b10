"""Whatever a controller is asked, ours answers what Kafka's does."""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i8, i16, i32, i32Timedelta, i64, i64Timedelta, u16

from benchmarks.kafka_peer import run_kafka_tool
from replica_manager.security.principals import Principal
from tests.peers.controller_sides import Side, Sides
from tests.peers.quorum_cluster import CLUSTER_ID
from zkcontroller.protocol.api_versions import ApiKey
from zkcontroller.protocol.framing import parse_response_header
from zkcontroller.protocol.messages import read
from zkcontroller.protocol.numeric_times import numeric_response_type
from zkcontroller.protocol.versioned_messages import request_schema

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

SECRET: Final = "opensesame"
ALICE: Final = Principal("User", "alice")
SOMEWHERE: Final = UUID(int=7)
SOON: Final = timedelta(seconds=10)
TOPIC, BROKER, LOGGER, METRICS = 2, 4, 8, 16
JAVA_CLASSES: Final = (
    "group.consumer.assignors",
    "principal.builder.class",
    "remote.log.metadata.manager.class.name",
)
"""Keys whose defaults are classes of Kafka's; ours have none."""


def lasting(ms: int) -> i64Timedelta:
    return i64Timedelta.parse(timedelta(milliseconds=ms))


@pytest.fixture(scope="module")
def sides(
    kafka: Path,  # noqa: ARG001 - without Kafka there is nobody to compare with
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Sides]:
    made = Sides(tmp_path_factory.mktemp("plain"))
    try:
        yield made
    finally:
        made.close()


# ---------------------------------------------------------------------- versions, controllers


@pytest.mark.parametrize("version", range(5))
def test_the_same_is_offered(sides: Sides, version: int) -> None:
    named = {"client_software_name": "test", "client_software_version": "1"}

    kafkas, ours = sides.ask(ApiKey.API_VERSIONS, version, **(named if version >= 3 else {}))

    assert ours == kafkas
    assert len(kafkas[1]["api_keys"]) == 42
    if version >= 3:
        assert kafkas[1]["finalized_features_epoch"] == 4


def test_what_is_not_offered_closes_the_connection(sides: Sides) -> None:
    kafkas, ours = sides.ask(
        ApiKey.METADATA,
        12,
        topics=None,
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )

    assert ours == kafkas == "the connection is closed"


@pytest.mark.parametrize("with_operations", [False, True])
@pytest.mark.parametrize("endpoint_type", [None, 0, 1, 2, 3])
def test_controllers_are_described_alike(
    sides: Sides, endpoint_type: int | None, with_operations: bool
) -> None:
    asked: dict[str, object] = {"include_cluster_authorized_operations": with_operations}
    if endpoint_type is not None:
        asked["endpoint_type"] = i8(endpoint_type)

    kafkas, ours = sides.ask(ApiKey.DESCRIBE_CLUSTER, 0 if endpoint_type is None else 1, **asked)

    assert ours == kafkas


# ---------------------------------------------------------------------- what nothing handles


@pytest.mark.parametrize("version", range(4))
def test_what_nothing_handles_has_the_same_error(sides: Sides, version: int) -> None:
    epoch = {"broker_epoch": i64(5)} if version >= 2 else {}
    answers = [
        sides.ask(ApiKey.CONTROLLED_SHUTDOWN, version, broker_id=i32(1), **epoch),
        sides.ask(ApiKey.DESCRIBE_DELEGATION_TOKEN, version, owners=None),
    ]
    if version == 0:
        schema = request_schema(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0)
        users = tuple(schema.part("UserName", name=name) for name in ("alice", "bob"))
        answers.append(sides.ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=users))

    for kafkas, ours in answers:
        assert ours == kafkas
        assert kafkas[1]["error_code"] == "unknown_server_error"


def test_a_login_that_nobody_wants_has_the_same_error(sides: Sides) -> None:
    for kafkas, ours in (
        sides.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN"),
        sides.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b""),
    ):
        assert ours == kafkas
        assert kafkas[1]["error_code"] == "illegal_sasl_state"


# ---------------------------------------------------------------------- voters


def listener(api_key: ApiKey, name: str = "CONTROLLER") -> tuple[Any, ...]:
    schema = request_schema(api_key, 0)
    return (schema.part("Listener", name=name, host="localhost", port=u16(9)),)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"cluster_id": "other"},
        {"voter_directory_id": None},
        {"voter_id": i32(-1)},
    ],
)
def test_voters_are_neither_added_nor_removed(sides: Sides, changes: dict[str, object]) -> None:
    voter: dict[str, object] = {
        "cluster_id": None,
        "voter_id": i32(5),
        "voter_directory_id": SOMEWHERE,
    } | changes
    added = {"timeout": timedelta(seconds=1), "listeners": listener(ApiKey.ADD_RAFT_VOTER)}

    for kafkas, ours in (
        sides.ask(ApiKey.ADD_RAFT_VOTER, 0, **voter, **added),
        sides.ask(ApiKey.REMOVE_RAFT_VOTER, 0, **voter),
    ):
        assert ours == kafkas
        assert kafkas[1]["error_code"] != "none"


@pytest.mark.parametrize(
    ("levels", "changes"),
    [
        ((0, 1), {}),
        ((0, 1), {"cluster_id": "other"}),
        ((0, 1), {"current_leader_epoch": i32(0)}),
        ((0, 1), {"current_leader_epoch": i32(99)}),
        ((0, 1), {"voter_directory_id": None}),
        ((0, 1), {"listeners": ()}),
        ((0, 1), {"listeners": listener(ApiKey.UPDATE_RAFT_VOTER, "OTHER")}),
        ((-1, 1), {}),
        ((1, 0), {}),
    ],
)
def test_voters_are_not_updated(
    sides: Sides, levels: tuple[int, int], changes: dict[str, object]
) -> None:
    schema = request_schema(ApiKey.UPDATE_RAFT_VOTER, 0)
    asked: dict[str, object] = {
        "cluster_id": None,
        "current_leader_epoch": i32(1),
        "voter_id": i32(1),
        "voter_directory_id": SOMEWHERE,
        "listeners": listener(ApiKey.UPDATE_RAFT_VOTER),
        "k_raft_version_feature": schema.part(
            "KRaftVersionFeature",
            min_supported_version=i16(levels[0]),
            max_supported_version=i16(levels[1]),
        ),
    }

    kafkas, ours = sides.ask(ApiKey.UPDATE_RAFT_VOTER, 0, **(asked | changes))

    assert ours == kafkas
    assert kafkas[1]["error_code"] != "none"


# ---------------------------------------------------------------------- configurations


def described(
    sides: Sides, *resources: tuple[int, str], version: int = 4, keys: tuple[str, ...] | None = None
) -> tuple[Any, Any]:
    schema = request_schema(ApiKey.DESCRIBE_CONFIGS, version)
    wanted = tuple(
        schema.part(
            "DescribeConfigsResource",
            resource_type=i8(resource_type),
            resource_name=name,
            configuration_keys=keys,
        )
        for resource_type, name in resources
    )
    asked: dict[str, object] = {"resources": wanted}
    if version >= 1:
        asked["include_synonyms"] = True
    if version >= 3:
        asked["include_documentation"] = False
    return sides.ask(ApiKey.DESCRIBE_CONFIGS, version, **asked)


def altered(
    sides: Sides, *resources: tuple[int, str, str, int, str | None], validate_only: bool = True
) -> tuple[Any, Any]:
    schema = request_schema(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1)
    wanted = tuple(
        schema.part(
            "AlterConfigsResource",
            resource_type=i8(resource_type),
            resource_name=name,
            configs=(
                schema.part(
                    "AlterableConfig", name=key, config_operation=i8(operation), value=value
                ),
            ),
        )
        for resource_type, name, key, operation, value in resources
    )
    return sides.ask(
        ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=wanted, validate_only=validate_only
    )


def without_java_classes(answer: Any) -> list[Any]:
    [(_, result)] = answer[1]["results"]
    return [entry for entry in result["configs"] if entry[1]["name"] not in JAVA_CLASSES]


def test_a_node_tells_the_same_of_every_key(sides: Sides) -> None:
    altered(
        sides,
        (BROKER, "1", "background.threads", 0, "13"),
        (BROKER, "", "log.cleaner.threads", 0, "2"),
        (METRICS, "java", "interval.ms", 0, "1000"),
        validate_only=False,
    )

    def has_been_read(side: Side) -> bool:
        schema = request_schema(ApiKey.DESCRIBE_CONFIGS, 4)
        resource = schema.part(
            "DescribeConfigsResource",
            resource_type=i8(METRICS),
            resource_name="java",
            configuration_keys=None,
        )
        answer = side.ask(
            ApiKey.DESCRIBE_CONFIGS,
            4,
            resources=(resource,),
            include_synonyms=False,
            include_documentation=False,
        )
        return bool(answer.results[0].configs)

    sides.wait_until(has_been_read)
    for version in range(5):
        kafkas, ours = described(sides, (BROKER, "1"), version=version)
        assert without_java_classes(ours) == without_java_classes(kafkas)
        assert len(without_java_classes(kafkas)) > 300
    for resource in ((BROKER, ""), (METRICS, "java")):
        kafkas, ours = described(sides, resource)
        assert ours == kafkas
        assert without_java_classes(kafkas)


def test_what_cannot_be_described_is_refused_alike(sides: Sides) -> None:
    kafkas, ours = described(
        sides, (BROKER, "7"), (BROKER, "x"), (TOPIC, "none"), (TOPIC, "a/b"), (TOPIC, ""),
        (LOGGER, ""), (LOGGER, "9"), (LOGGER, "z"), (METRICS, ""),
    )  # fmt: skip
    assert ours == kafkas
    for resources in (((32, "group"),), ((BROKER, "1"), (99, "what"))):
        kafkas, ours = described(sides, *resources)
        assert ours == kafkas


def test_a_logger_is_described_alike(sides: Sides) -> None:
    kafkas, ours = described(sides, (LOGGER, "1"), keys=("root",))

    assert ours == kafkas


def test_what_cannot_be_altered_is_refused_alike(sides: Sides) -> None:
    kafkas, ours = altered(
        sides,
        (BROKER, "55", "background.threads", 0, "13"),
        (BROKER, "x", "background.threads", 0, "13"),
        (BROKER, "-1", "background.threads", 0, "13"),
        (BROKER, "1", "background.threads", 0, "13"),
        (TOPIC, "none", "retention.ms", 0, "1"),
        (TOPIC, "", "retention.ms", 0, "1"),
        (TOPIC, "a/b", "retention.ms", 0, "1"),
        (TOPIC, "other", "no.such.key", 0, "1"),
        (TOPIC, "twice", "retention.ms", 0, "1"),
        (TOPIC, "twice", "retention.ms", 0, "2"),
        (METRICS, "", "interval.ms", 0, "1000"),
        (METRICS, "m", "interval.ms", 0, "1000"),
        (METRICS, "n", "no.such.key", 0, "1000"),
        (METRICS, "o", "interval.ms", 0, "1"),
        (METRICS, "p", "match", 0, "client_age=9"),
        (32, "group", "a", 0, "b"),
        (99, "what", "a", 0, "b"),
    )
    assert ours == kafkas

    kafkas, ours = altered(
        sides,
        (LOGGER, "1", "no.such.logger", 0, "DEBUG"),
        (LOGGER, "1", "root", 0, "LOUD"),
        (LOGGER, "1", "root", 1, None),
        (LOGGER, "1", "root", 2, "INFO"),
        (LOGGER, "x", "root", 0, "INFO"),
        (LOGGER, "1", "root", 0, "INFO"),
    )
    assert ours == kafkas


def test_whole_configurations_are_refused_alike(sides: Sides) -> None:
    schema = request_schema(ApiKey.ALTER_CONFIGS, 2)
    resources = tuple(
        schema.part(
            "AlterConfigsResource",
            resource_type=i8(resource_type),
            resource_name=name,
            configs=(schema.part("AlterableConfig", name="background.threads", value="13"),),
        )
        for resource_type, name in (
            (BROKER, "55"), (BROKER, "1"), (TOPIC, "none"), (LOGGER, "1"), (TOPIC, "twice"),
            (TOPIC, "twice"),
        )
    )  # fmt: skip

    kafkas, ours = sides.ask(ApiKey.ALTER_CONFIGS, 2, resources=resources, validate_only=True)

    assert ours == kafkas


# ---------------------------------------------------------------------- topics

BROKER_ID: Final = 11


def join(side: Side) -> None:
    """A broker registers and is unfenced."""
    schema = request_schema(ApiKey.BROKER_REGISTRATION, 4)
    listener = schema.part(
        "Listener", name="PLAINTEXT", host="localhost", port=u16(9092), security_protocol=i16(0)
    )
    feature = schema.part(
        "Feature",
        name="metadata.version",
        min_supported_version=i16(1),
        max_supported_version=i16(21),
    )
    registered = side.ask(
        ApiKey.BROKER_REGISTRATION,
        4,
        broker_id=i32(BROKER_ID),
        cluster_id=CLUSTER_ID,
        incarnation_id=UUID(int=77),
        listeners=(listener,),
        features=(feature,),
        rack=None,
        is_migrating_zk_broker=False,
        log_dirs=(UUID(int=500),),
        previous_broker_epoch=i64(-1),
    )
    heard = side.ask(
        ApiKey.BROKER_HEARTBEAT,
        1,
        broker_id=i32(BROKER_ID),
        broker_epoch=registered.broker_epoch,
        current_metadata_offset=i64(10**6),
        want_fence=False,
        want_shut_down=False,
        offline_log_dirs=(),
    )
    assert not heard.is_fenced


def created(side: Side, version: int, name: str) -> Any:
    schema = request_schema(ApiKey.CREATE_TOPICS, version)
    topic = schema.part(
        "CreatableTopic",
        name=name,
        num_partitions=i32(2),
        replication_factor=i16(1),
        assignments=(),
        configs=(schema.part("CreatableTopicConfig", name="retention.ms", value="5"),),
    )
    asked: dict[str, object] = {"topics": (topic,), "timeout": i32Timedelta.parse(SOON)}
    if version >= 1:
        asked["validate_only"] = False
    return side.ask(ApiKey.CREATE_TOPICS, version, **asked)


def without_ids(answer: Any) -> Any:
    """What a topic is called by itself alone."""
    for _, topic in answer[1]["topics"]:
        topic.pop("topic_id", None)
    return answer


def test_topics_are_created_described_and_deleted_alike_in_every_version(sides: Sides) -> None:
    for side in (sides.real, sides.ours):
        join(side)
    for version in range(8):
        kafkas, ours = (
            without_ids(side.plain(created(side, version, f"topic-{version}")))
            for side in (sides.real, sides.ours)
        )
        assert ours == kafkas
        assert kafkas[1]["topics"][0][1]["error_code"] == "none"

    def has_been_read(side: Side) -> bool:
        schema = request_schema(ApiKey.DESCRIBE_CONFIGS, 4)
        resource = schema.part(
            "DescribeConfigsResource",
            resource_type=i8(TOPIC),
            resource_name="topic-7",
            configuration_keys=None,
        )
        options = {"include_synonyms": False, "include_documentation": False}
        answer = side.ask(ApiKey.DESCRIBE_CONFIGS, 4, resources=(resource,), **options)
        return bool(answer.results[0].configs)

    sides.wait_until(has_been_read)
    for version in range(5):
        kafkas, ours = described(sides, (TOPIC, "topic-7"), version=version)
        assert ours == kafkas
        assert len(without_java_classes(kafkas)) > 30
    for version in range(6):
        kafkas, ours = sides.ask(
            ApiKey.DELETE_TOPICS,
            version,
            topic_names=(f"topic-{version}", "none"),
            timeout=i32Timedelta.parse(SOON),
        )
        assert ours == kafkas


# ---------------------------------------------------------------------- tokens


def creation(version: int, owner: str | None = None) -> dict[str, object]:
    asked: dict[str, object] = {"renewers": (), "max_lifetime": lasting(-1)}
    if version >= 3:
        asked["owner_principal_type"] = owner and "User"
        asked["owner_principal_name"] = owner
    return asked


TOKEN_REQUESTS: Final = [
    *((ApiKey.CREATE_DELEGATION_TOKEN, version, creation(version)) for version in range(4)),
    (ApiKey.CREATE_DELEGATION_TOKEN, 3, creation(3, "bob")),
    *(
        (ApiKey.RENEW_DELEGATION_TOKEN, version, {"hmac": b"a", "renew_period": lasting(-1)})
        for version in range(3)
    ),
    *(
        (ApiKey.EXPIRE_DELEGATION_TOKEN, version, {"hmac": b"a", "expiry_time_period": lasting(-1)})
        for version in range(3)
    ),
]


@pytest.mark.parametrize(("api_key", "version", "values"), TOKEN_REQUESTS)
def test_without_a_secret_tokens_are_refused_alike(
    sides: Sides, api_key: ApiKey, version: int, values: dict[str, object]
) -> None:
    kafkas, ours = sides.ask(api_key, version, **values)
    assert ours == kafkas
    assert kafkas[1]["error_code"] == "delegation_token_request_not_allowed"
    for by_token in (False, True):
        kafkas, ours = (
            side.forward(ALICE, by_token, api_key, version, **values)
            for side in (sides.real, sides.ours)
        )
        # To the byte.
        assert ours == kafkas
        assert kafkas.response_data


def test_tokens_are_made_prolonged_and_ended_alike(kafka: Path, tmp_path: Path) -> None:  # noqa: ARG001
    sides = Sides(tmp_path, {"delegation.token.secret.key": SECRET})
    try:
        stories = [token_story(side) for side in (sides.real, sides.ours)]
    finally:
        sides.close()

    assert stories[0] == stories[1]


def token_story(side: Side) -> list[object]:
    """What becomes of a token, without the moments at which it does."""

    def ask(api_key: ApiKey, version: int, who: Principal, **values: object) -> Any:
        envelope = side.forward(who, False, api_key, version, **values)
        _, start = parse_response_header(int(api_key), version, envelope.response_data)
        return read(numeric_response_type(int(api_key), version), envelope.response_data, start)

    def renew(token: bytes, who: Principal = ALICE, period_ms: int = -1) -> Any:
        period = {"renew_period": lasting(period_ms)}
        return ask(ApiKey.RENEW_DELEGATION_TOKEN, 2, who, hmac=token, **period)

    def expire(token: bytes, who: Principal = ALICE, period_ms: int = -1) -> Any:
        period = {"expiry_time_period": lasting(period_ms)}
        return ask(ApiKey.EXPIRE_DELEGATION_TOKEN, 2, who, hmac=token, **period)

    token = ask(ApiKey.CREATE_DELEGATION_TOKEN, 3, ALICE, **creation(3))
    assert token.hmac == hmac.digest(SECRET.encode(), token.token_id.encode(), "sha512")

    def is_known() -> bool:
        # A controller of Kafka knows a token once it has read its own log.
        return ErrorCode(renew(token.hmac).error_code) is ErrorCode.none

    side.wait_until(is_known)
    renewed = renew(token.hmac, period_ms=60_000)
    story: list[object] = [
        ErrorCode(token.error_code),
        token.principal_name,
        token.expiry_timestamp - token.issue_timestamp,
        token.max_timestamp - token.issue_timestamp,
        len(token.token_id),
        ErrorCode(renewed.error_code),
        0 <= renewed.expiry_timestamp - token.issue_timestamp - 60_000 < 60_000,
        ErrorCode(renew(token.hmac, Principal("User", "eve")).error_code),
        ErrorCode(expire(token.hmac, Principal("User", "eve")).error_code),
        ErrorCode(renew(b"other").error_code),
        ErrorCode(expire(token.hmac).error_code),
    ]

    def is_gone() -> bool:
        ended = ErrorCode(renew(token.hmac).error_code)
        return ended is ErrorCode.delegation_token_not_found

    side.wait_until(is_gone)
    return story


# ---------------------------------------------------------------------- Kafka's tools

CONFIGS: Final = "kafka.admin.ConfigCommand"
QUORUM: Final = "org.apache.kafka.tools.MetadataQuorumCommand"
NODE: Final = ("--entity-type", "brokers", "--entity-name", "1")
LOGGERS: Final = ("--entity-type", "broker-loggers", "--entity-name", "1")


def test_kafkas_tools_ask_our_controller_directly(sides: Sides) -> None:
    def tool(arguments: tuple[str, ...]) -> str:
        main_class, *others = arguments
        at = f"127.0.0.1:{sides.ours.port}"
        done = run_kafka_tool(main_class, "--bootstrap-controller", at, *others)
        return done.stdout + done.stderr

    with ThreadPoolExecutor(3) as pool:
        features, status, removed, set_key, set_level = pool.map(
            tool,
            (
                ("org.apache.kafka.tools.FeatureCommand", "describe"),
                (QUORUM, "describe", "--status"),
                (QUORUM, "remove-controller", "--controller-id", "1",
                 "--controller-directory-id", "AAAAAAAAAAAAAAAAAAAABw"),
                (CONFIGS, *NODE, "--alter", "--add-config", "num.io.threads=9"),
                (CONFIGS, *LOGGERS, "--alter", "--add-config", "kafka.raft.KafkaRaftManager=DEBUG"),
            ),
        )  # fmt: skip
    keys = tool((CONFIGS, *NODE, "--describe"))

    assert "FinalizedVersionLevel: 3.9-IV0\tEpoch: 4" in features
    assert "ClusterId:              AAECAwQFBgcICQoLDA0ODw" in status
    assert "LeaderId:               1" in status
    assert "removing voter because the kraft.version feature is 0" in removed
    assert "Completed updating config for broker 1." in set_key
    assert "Completed updating config for broker-logger 1." in set_level
    assert "num.io.threads=9 sensitive=false" in keys
