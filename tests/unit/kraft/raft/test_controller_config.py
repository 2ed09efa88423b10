"""What ``server.properties`` says of a KRaft node, and what it must not say."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_common.errors import ConfigInvalid
from kafka_common.model import Endpoint
from kraft.controller.snapshot_trigger import SnapshotConfig
from kraft.node.controller_config import ControllerServerConfig, load_controller_config
from kraft.node.metadata_log_config import MetadataLogConfig
from kraft.raft.config import QuorumConfig
from kraft.raft.values import NodeAddress

CONTROLLER = {
    "process.roles": "controller",
    "node.id": "1",
    "controller.quorum.voters": "1@one:9093,2@[::1]:9094",
    "controller.listener.names": "CONTROLLER",
    "listeners": "CONTROLLER://localhost:9093",
    "log.dirs": "/data/a, /data/b",
}
BROKER = CONTROLLER | {
    "process.roles": "broker",
    "node.id": "7",
    "listeners": "PLAINTEXT://localhost:9092",
}
COMBINED = CONTROLLER | {
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://0.0.0.0:9093",
    "advertised.listeners": "PLAINTEXT://public:9092",
}


def test_a_controller_is_described_by_kafkas_keys() -> None:
    config = ControllerServerConfig.parse(CONTROLLER)

    assert config.roles == ("controller",)
    assert config.is_only_controller
    assert config.node_id == 1
    assert dict(config.voters.endpoints) == {
        1: NodeAddress("one", 9093),
        2: NodeAddress("::1", 9094),
    }
    assert config.listener_name == "CONTROLLER"
    assert config.listeners == (Endpoint("localhost", 9093, "CONTROLLER", "PLAINTEXT"),)
    assert config.advertised == config.listeners
    assert config.log_dirs == (Path("/data/a"), Path("/data/b"))
    assert config.metadata_log_dir == Path("/data/a")
    assert config.quorum == QuorumConfig()
    assert config.metadata_log == MetadataLogConfig()
    assert config.snapshots == SnapshotConfig()


def test_every_key_of_quorum_and_log_reaches_its_place() -> None:
    config = ControllerServerConfig.parse(
        CONTROLLER
        | {
            "controller.quorum.election.timeout.ms": "11",
            "controller.quorum.fetch.timeout.ms": "12",
            "controller.quorum.election.backoff.max.ms": "13",
            "controller.quorum.append.linger.ms": "14",
            "controller.quorum.request.timeout.ms": "15",
            "controller.quorum.retry.backoff.ms": "16",
            "metadata.log.dir": "/meta",
            "metadata.log.segment.bytes": "20000000",
            "metadata.log.segment.min.bytes": "9000000",
            "metadata.log.segment.ms": "17",
            "metadata.max.retention.bytes": "18",
            "metadata.max.retention.ms": "19",
            "metadata.log.max.record.bytes.between.snapshots": "20",
            "metadata.log.max.snapshot.interval.ms": "0",
        }
    )

    assert config.quorum == QuorumConfig(11, 12, 13, 14, 15, 16)
    assert config.metadata_log == MetadataLogConfig(20_000_000, 9_000_000, 17, 18, 19)
    assert config.snapshots == SnapshotConfig(20, 0)
    assert config.metadata_log_dir == Path("/meta")
    assert config.integer("metadata.max.idle.interval.ms") == 500


def test_a_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in CONTROLLER.items()))

    assert load_controller_config(file) == ControllerServerConfig.parse(CONTROLLER)
    with pytest.raises(ConfigInvalid, match="a readable file"):
        load_controller_config(tmp_path / "none")


def test_both_roles_bind_every_listener_and_announce_their_own() -> None:
    config = ControllerServerConfig.parse(COMBINED)

    assert not config.is_only_controller
    assert config.listeners == (Endpoint("0.0.0.0", 9093, "CONTROLLER", "PLAINTEXT"),)
    # An address that means nothing to others becomes the machine's name.
    assert config.advertised == (Endpoint("", 9093, "CONTROLLER", "PLAINTEXT"),)


def test_advertised_listeners_win() -> None:
    config = ControllerServerConfig.parse(
        CONTROLLER | {"advertised.listeners": "CONTROLLER://far:1234"}
    )

    assert config.advertised == (Endpoint("far", 1234, "CONTROLLER", "PLAINTEXT"),)


def test_a_broker_is_no_voter_and_only_knows_the_name_of_the_listener() -> None:
    config = ControllerServerConfig.parse(BROKER)

    assert (config.is_controller, config.listeners) == (False, ())
    assert config.listener_name == "CONTROLLER"


def test_bootstrap_servers_do_instead_of_voters() -> None:
    config = ControllerServerConfig.parse(
        CONTROLLER
        | {"controller.quorum.voters": "", "controller.quorum.bootstrap.servers": "a:1,b:2"}
    )

    assert config.bootstrap_servers == (NodeAddress("a", 1), NodeAddress("b", 2))
    assert not config.voters.endpoints


def test_a_voter_everywhere_passes_a_format_and_no_start() -> None:
    config = ControllerServerConfig.parse(
        CONTROLLER | {"controller.quorum.voters": "1@0.0.0.0:9093,2@two:9093"}
    )

    with pytest.raises(ConfigInvalid, match="not routeable"):
        config.check_voters_are_routable()
    ControllerServerConfig.parse(CONTROLLER).check_voters_are_routable()


def test_tls_in_use_leaves_a_controllers_listener_without_a_default() -> None:
    with pytest.raises(ConfigInvalid, match=r"listener\.security\.protocol\.map"):
        ControllerServerConfig.parse(
            COMBINED | {"listeners": "SSL://localhost:9092,CONTROLLER://localhost:9093"}
        )


@pytest.mark.parametrize(
    ("base", "changes", "reason"),
    [
        (CONTROLLER, {"process.roles": ""}, r"process\.roles"),
        (CONTROLLER, {"process.roles": "controller,controller"}, "each role once"),
        (CONTROLLER, {"process.roles": "leader"}, r"process\.roles"),
        (CONTROLLER, {"node.id": "-1"}, r"node\.id"),
        (CONTROLLER, {"broker.id": "2"}, r"the same value as broker\.id"),
        (CONTROLLER, {"node.id": "3"}, r"one of controller\.quorum\.voters"),
        (CONTROLLER, {"controller.quorum.voters": ""}, "bootstrap"),
        (CONTROLLER, {"controller.quorum.voters": "one"}, r"\{id\}@\{host\}:\{port\}"),
        (CONTROLLER, {"controller.quorum.voters": "1@one"}, r"\{host\}:\{port\}"),
        (CONTROLLER, {"controller.quorum.voters": "1@one:70000"}, r"\{host\}:\{port\}"),
        (CONTROLLER, {"controller.quorum.voters": "x@one:1"}, r"\{id\}@"),
        (CONTROLLER, {"controller.quorum.bootstrap.servers": "one"}, "bootstrap.servers"),
        (CONTROLLER, {"controller.listener.names": ""}, "controller.listener.names|listeners"),
        (CONTROLLER, {"controller.listener.names": "CONTROLLER,OTHER"}, "appearing in listeners"),
        (CONTROLLER, {"control.plane.listener.name": "CONTROLLER"}, "not supported in KRaft mode"),
        (CONTROLLER, {"advertised.listeners": "CONTROLLER://0.0.0.0:9093"}, "route to"),
        (CONTROLLER, {"metadata.log.segment.bytes": "1000"}, r"metadata\.log\.segment\.bytes"),
        (
            CONTROLLER,
            {"listeners": "CONTROLLER://localhost:9093,PLAINTEXT://localhost:9092"},
            "only controller.listener.names",
        ),
        (BROKER, {"node.id": "1"}, "just the broker role"),
        (BROKER, {"controller.listener.names": ""}, "at least one value"),
        (BROKER, {"listeners": "CONTROLLER://localhost:9093"}, "no value appearing in listeners"),
        (BROKER, {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"}, "names out of"),
        (COMBINED, {"node.id": "5"}, r"one of controller\.quorum\.voters"),
    ],
)
def test_what_contradicts_itself_is_refused(
    base: dict[str, str], changes: dict[str, str], reason: str
) -> None:
    with pytest.raises(ConfigInvalid, match=reason):
        ControllerServerConfig.parse(base | changes)
