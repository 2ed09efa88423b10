"""Whatever a controller is asked, ours answers what Kafka's does."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import pytest
from kio.static.primitive import i8, i16, i32, i64, u16

from benchmarks.kafka_peer import run_kafka_tool
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.versioned_messages import request_schema
from tests.peers.controller_sides import Sides

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

SOMEWHERE: Final = UUID(int=7)


# ---------------------------------------------------------------------- versions, controllers


@pytest.mark.parametrize("version", range(5))
def test_the_same_is_offered(sides: Sides, version: int) -> None:
    named = {"client_software_name": "test", "client_software_version": "1"}

    kafkas, ours = sides.ask(ApiKey.API_VERSIONS, version, **(named if version >= 3 else {}))

    if version >= 3:
        # Where the log says so; Kafka's is where it stood when it noticed.
        assert ours[1].pop("finalized_features_epoch") == 4
        assert kafkas[1].pop("finalized_features_epoch") >= 4
    if version >= 4:
        # Voters that the log names are not built here.  Version 3 names no feature from level 0.
        supported = kafkas[1]["supported_features"]
        (voters,) = [row for row in supported if row[1]["name"] == "kraft.version"]
        supported.remove(voters)
    assert ours == kafkas
    assert len(kafkas[1]["api_keys"]) == 42


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
    responses = [
        sides.ask(ApiKey.CONTROLLED_SHUTDOWN, version, broker_id=i32(1), **epoch),
        sides.ask(ApiKey.DESCRIBE_DELEGATION_TOKEN, version, owners=None),
    ]
    if version == 0:
        schema = request_schema(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0)
        users = tuple(schema.part("UserName", name=name) for name in ("alice", "bob"))
        responses.append(sides.ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=users))

    for kafkas, ours in responses:
        assert ours == kafkas
        assert kafkas[1]["error_code"] == "unknown_server_error"


def test_an_unexpected_login_has_the_same_error(sides: Sides) -> None:
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
                # As the tests of configurations set it at both.
                (CONFIGS, *NODE, "--alter", "--add-config", "background.threads=13"),
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
    assert "background.threads=13 sensitive=false" in keys
