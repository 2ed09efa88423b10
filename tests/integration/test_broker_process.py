"""Real broker processes on a real ZooKeeper: start, bounce, stop, expire."""

from __future__ import annotations

import signal
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_common.net.loopback_ports import free_port
from kafka_common.protocol.messages import read_response
from tests.integration.broker_processes import (
    BrokerProcess,
    Cluster,
    cluster_in,
    controller_id,
    state_of,
    wait_for,
)
from tests.integration.conftest import Client, OpenClient
from tests.support.frames import request_header
from zkcontroller.zookeeper.requests import Create, Delete, SetData, Stat, ZkCode, Znode
from zkcontroller.zookeeper.session import ZooKeeperSession
from zkcontroller.zookeeper.znodes import (
    BrokerIdZnode,
    ConfigChangesZnode,
    ConfigChangeZnode,
    ConfigZnode,
    ControllerZnode,
    DeleteTopicZnode,
    PartitionStateZnode,
    TopicZnode,
)

pytestmark = pytest.mark.integration

STARTED = "[KafkaServer id=1] started (kafka.server.KafkaServer)"


@pytest.fixture
def direct(zookeeper_connect: str, chroot: str, open_client: OpenClient) -> Client:
    return open_client(zookeeper_connect + chroot)


@pytest.fixture
def session(direct: Client) -> ZooKeeperSession:
    return direct.session


@pytest.fixture
def cluster(
    tmp_path: Path, zookeeper_connect: str, chroot: str, direct: Client
) -> Iterator[Cluster]:
    assert direct.session.session_id
    with cluster_in(tmp_path, zookeeper_connect + chroot) as cluster:
        yield cluster


def metadata(broker: BrokerProcess, topic: str | None = None) -> Any:
    """A Metadata answer (version 1), over a plain socket."""
    host, _, port = broker.address.rpartition(":")
    body = b"\xff\xff\xff\xff"
    if topic is not None:
        body = b"\0\0\0\1" + struct.pack(">h", len(topic)) + topic.encode()
    data = request_header(3, 1, 1, "test") + body
    with socket.create_connection((host, int(port)), 10) as connection:
        connection.sendall(struct.pack(">i", len(data)) + data)
        with connection.makefile("rb") as responses:
            size = struct.unpack(">i", responses.read(4))[0]
            return read_response(3, 1, responses.read(size), 4)


def stat_of(session: ZooKeeperSession, broker_id: int) -> Stat | None:
    found = session.exists(BrokerIdZnode.path(broker_id))
    return None if isinstance(found, ZkCode) else found


def create_topic(broker: BrokerProcess, session: ZooKeeperSession, topic: str) -> None:
    """Creates a topic by asking for it, and waits for its leader."""
    metadata(broker, topic)
    wait_for(lambda: state_of(session, topic), f"the state of {topic}")


def test_a_broker_registers_elects_itself_and_says_so(
    cluster: Cluster, session: ZooKeeperSession
) -> None:
    [broker] = cluster.start(1, broker__rack="r1")

    znode = session.read(BrokerIdZnode.path(1))
    assert not isinstance(znode, ZkCode)
    registered = BrokerIdZnode.decode(1, znode.data).broker
    [endpoint] = registered.endpoints
    assert f"{endpoint.host}:{endpoint.port}" == broker.address
    assert registered.rack == "r1"
    assert broker.status["broker_epoch"] == znode.czxid
    wait_for(lambda: broker.log().count(STARTED) == 1, "the line that says so")
    wait_for(lambda: controller_id(session) == 1, "a controller")
    wait_for(lambda: metadata(broker).controller_id == 1, "the controller's metadata")


def test_topics_are_created_led_and_deleted(cluster: Cluster, session: ZooKeeperSession) -> None:
    [first, *_] = cluster.start(1, 2, 3, default__replication__factor="3", num__partitions="3")
    wait_for(lambda: len(metadata(first).brokers) == 3, "three brokers")

    create_topic(first, session, "orders")

    def leaders() -> list[int] | None:
        [topic] = metadata(first, "orders").topics
        found = [partition.leader_id for partition in topic.partitions]
        return found if len(found) == 3 and -1 not in found else None

    assert sorted(wait_for(leaders, "three leaders")) == [1, 2, 3]
    for partition in metadata(first, "orders").topics[0].partitions:
        state = state_of(session, "orders", partition.partition_index)
        assert state is not None
        assert (partition.leader_id, partition.isr_nodes) == (state.leader, state.in_sync_replicas)

    session.write(Create(DeleteTopicZnode.path("orders")))
    wait_for(lambda: session.exists(TopicZnode.path("orders")) is ZkCode.NO_NODE, "the topic to go")
    wait_for(lambda: not metadata(first).topics, "the metadata to forget the topic")


def test_a_graceful_stop_moves_the_leaderships_before_the_registration_goes(
    cluster: Cluster, session: ZooKeeperSession
) -> None:
    [first, second] = cluster.start(1, 2, default__replication__factor="2")
    wait_for(lambda: len(metadata(first).brokers) == 2, "two brokers")
    create_topic(first, session, "orders")
    state = state_of(session, "orders")
    assert state is not None
    leader, other = (first, second) if state.leader == 1 else (second, first)
    wait_for(
        lambda: "Handling LeaderAndIsr" in leader.log("state-change.log"), "the leader to know"
    )

    assert leader.stop() == (0, "")

    moved = state_of(session, "orders")
    assert moved is not None
    assert (moved.leader, moved.in_sync_replicas) == (other.broker_id, (other.broker_id,))
    assert stat_of(session, leader.broker_id) is None
    assert not (leader.data / "broker.json").exists()
    log = leader.log()
    assert "Controlled shutdown request returned successfully after" in log
    assert log.index("Starting controlled shutdown") < log.index("Stopped socket server")
    assert log.index("Stopped socket server") < log.index("Closed.")
    assert f"[KafkaServer id={leader.broker_id}] shut down completed" in log


def last_in_sync_replica(cluster: Cluster, session: ZooKeeperSession) -> BrokerProcess:
    """A broker whose leadership no one can take over: the other replica is dead."""
    [leader, other] = cluster.start(
        1, 2, default__replication__factor="2", controlled__shutdown__retry__backoff__ms="1000"
    )
    wait_for(lambda: len(metadata(leader).brokers) == 2, "two brokers")
    create_topic(leader, session, "orders")
    state = state_of(session, "orders")
    assert state is not None
    if state.leader != leader.broker_id:
        leader, other = other, leader
    other.kill()
    wait_for(lambda: in_sync_replicas(session) == (leader.broker_id,), "the ISR to shrink")
    wait_for(
        lambda: metadata(leader).controller_id == leader.broker_id, "the controller's metadata"
    )
    return leader


def in_sync_replicas(session: ZooKeeperSession) -> tuple[int, ...] | None:
    state = state_of(session, "orders")
    return None if state is None else state.in_sync_replicas


def leader_of(session: ZooKeeperSession) -> int | None:
    state = state_of(session, "orders")
    return None if state is None else state.leader


def test_a_broker_stops_after_its_attempts_without_another_leader(
    cluster: Cluster, session: ZooKeeperSession
) -> None:
    broker = last_in_sync_replica(cluster, session)

    assert broker.stop()[0] == 0

    log = broker.log()
    assert log.count("with 1 partitions remaining to move") == 3
    assert log.count("Retrying controlled shutdown") == 2
    assert "all the controlled shutdown attempts failed" in log
    assert stat_of(session, broker.broker_id) is None


def test_a_second_signal_ends_a_broker_at_once(cluster: Cluster, session: ZooKeeperSession) -> None:
    broker = last_in_sync_replica(cluster, session)
    broker.signal(signal.SIGTERM)
    wait_for(lambda: "partitions remaining to move" in broker.log(), "a refused shutdown")

    broker.signal(signal.SIGINT)

    assert broker.exit_code()[0] == 128 + signal.SIGINT
    assert "all the controlled shutdown attempts failed" not in broker.log()


def test_a_broker_killed_and_started_again_waits_for_its_old_registration_to_go(
    cluster: Cluster, session: ZooKeeperSession
) -> None:
    [broker] = cluster.start(1)
    before = stat_of(session, 1)
    assert before is not None
    wait_for(lambda: broker.log().count(STARTED) == 1, "the line that says so")
    broker.kill()
    # The test's session owns the old registration: it goes when the test says so, however long
    # the machine needs to start a broker.
    path = BrokerIdZnode.path(1)
    registered = session.read(path)
    assert isinstance(registered, Znode)
    session.write(Delete(path))
    session.write(Create(path, registered.data, ephemeral=True))

    broker.start()
    broker.wait_for_line("Broker id 1 is registered by session 0x")
    session.write(Delete(path))
    broker.ready()

    after = stat_of(session, 1)
    assert after is not None
    assert after.czxid > before.czxid
    assert broker.status["broker_epoch"] == after.czxid
    wait_for(lambda: broker.log().count(STARTED) == 2, "the line that says so")


def test_a_second_broker_with_the_same_id_says_whose_the_id_is(
    cluster: Cluster, tmp_path: Path, session: ZooKeeperSession
) -> None:
    [living] = cluster.start(1)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    twin = BrokerProcess(
        elsewhere, cluster.connect, 1, zookeeper__session__timeout__ms="1000"
    ).start()
    cluster.brokers[0] = twin

    code, errors = twin.exit_code()

    assert code == 1
    assert "broker id 1 is in use" in errors
    assert living.address in errors
    twin.wait_for_line("Fatal error during KafkaServer startup. Prepare to shutdown")
    assert stat_of(session, 1) is not None


def test_a_broker_without_an_id_gets_one_and_keeps_it(
    cluster: Cluster, session: ZooKeeperSession
) -> None:
    [broker] = cluster.start(-1)
    assert broker.status["broker_id"] == 1001
    assert "broker.id=1001" in (broker.data / "meta.properties").read_text()

    assert broker.stop()[0] == 0
    broker.start().ready()

    assert broker.status["broker_id"] == 1001
    assert stat_of(session, 1001) is not None


def test_a_directory_of_another_cluster_is_refused(cluster: Cluster) -> None:
    data = cluster.directory / "data-1"
    data.mkdir()
    (data / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=another\n")
    broker = BrokerProcess(cluster.directory, cluster.connect, 1)
    cluster.brokers[1] = broker.start()

    code, errors = broker.exit_code()

    assert code == 1
    assert "doesn't match stored clusterId another" in errors


def test_a_configuration_that_is_refused_ends_with_a_sentence(cluster: Cluster) -> None:
    broker = BrokerProcess(cluster.directory, cluster.connect, 1, num__partitions="many")
    cluster.brokers[1] = broker.start()

    code, errors = broker.exit_code()

    assert code == 1
    assert errors.rstrip().endswith(
        "Invalid value many for configuration num.partitions: Not a number of type INT"
    )


def test_without_zookeeper_a_broker_ends_with_a_sentence(tmp_path: Path) -> None:
    port = free_port()
    broker = BrokerProcess(
        tmp_path, f"127.0.0.1:{port}/k", 1, zookeeper__connection__timeout__ms="500"
    ).start()

    code, errors = broker.exit_code()

    assert code == 1
    assert f"no connection to ZooKeeper at 127.0.0.1:{port}/k within 500 ms" in errors


def test_another_broker_becomes_controller_when_the_znode_is_deleted(
    cluster: Cluster, session: ZooKeeperSession
) -> None:
    cluster.start(1, 2, 3)
    first = wait_for(lambda: controller_id(session), "a controller")
    epoch = session.read("/controller_epoch")
    assert not isinstance(epoch, ZkCode)

    session.write(Delete(ControllerZnode.PATH))

    wait_for(lambda: controller_id(session), "the next controller")
    after = session.read("/controller_epoch")
    assert not isinstance(after, ZkCode)
    assert int(after.data) == int(epoch.data) + 1
    assert first in (1, 2, 3)


def test_a_killed_brokers_partitions_are_led_by_others(
    cluster: Cluster, session: ZooKeeperSession
) -> None:
    brokers = cluster.start(1, 2, 3, default__replication__factor="3")
    wait_for(lambda: len(metadata(brokers[0]).brokers) == 3, "three brokers")
    create_topic(brokers[0], session, "orders")
    state = state_of(session, "orders")
    assert state is not None
    cluster.brokers[state.leader].kill()

    def is_moved() -> PartitionStateZnode | None:
        moved = state_of(session, "orders")
        return moved if moved is not None and moved.leader not in (-1, state.leader) else None

    moved = wait_for(is_moved, "a new leader")

    # If the controller died with it, its successor first takes the dead broker out of the ISR and
    # then elects: two leader epochs, as in Kafka.
    died_with_it = moved.controller_epoch > state.controller_epoch
    assert moved.leader_epoch == state.leader_epoch + (2 if died_with_it else 1)
    assert state.leader not in moved.in_sync_replicas
    survivor = cluster.brokers[moved.leader]
    wait_for(
        lambda: (
            [p.leader_id for p in metadata(survivor, "orders").topics[0].partitions]
            == [moved.leader]
        ),
        "the survivors to tell",
    )


def test_an_unclean_election_is_held_when_the_topic_allows_it(
    cluster: Cluster, session: ZooKeeperSession
) -> None:
    """Offline with its only in-sync replica dead; a config change brings it back."""
    [first, second] = cluster.start(1, 2, default__replication__factor="2")
    wait_for(lambda: len(metadata(first).brokers) == 2, "two brokers")
    create_topic(first, session, "orders")
    state = state_of(session, "orders")
    assert state is not None
    leader, other = (first, second) if state.leader == 1 else (second, first)
    # A controlled stop takes the follower out of the ISR. It starts again only when the leader is
    # dead, or it would fetch and be back in the ISR.
    assert other.stop()[0] == 0
    wait_for(lambda: in_sync_replicas(session) == (leader.broker_id,), "the ISR to shrink")
    leader.kill()
    other.start().ready()
    wait_for(lambda: leader_of(session) == -1, "an offline partition")

    path = ConfigZnode.topic_path("orders")
    session.write(SetData(path, ConfigZnode({"unclean.leader.election.enable": "true"}).encode()))
    session.write(
        Create(
            ConfigChangeZnode.CREATE_PATH,
            ConfigChangeZnode("topics/orders").encode(),
            sequential=True,
        )
    )

    wait_for(lambda: leader_of(session) == other.broker_id, "an unclean leader")


def test_old_notifications_of_configuration_are_left_until_their_time(
    cluster: Cluster, session: ZooKeeperSession
) -> None:
    session.create_missing([ConfigChangesZnode.PATH])
    session.write(Create(ConfigChangeZnode.CREATE_PATH, b"nonsense", sequential=True))

    [broker] = cluster.start(1)

    wait_for(lambda: "error processing change notification" in broker.log(), "the complaint")
    assert session.children(ConfigChangesZnode.PATH) == ["config_change_0000000000"]
    wait_for(lambda: metadata(broker).brokers, "the broker to know that it is there")


def test_znodes_are_protected_where_acls_are_asked_for(
    cluster: Cluster, session: ZooKeeperSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZKCONTROLLER_ZOOKEEPER_AUTH", "digest:kafka:a-password")
    [broker] = cluster.start(1, zookeeper__set__acl="true")
    wait_for(lambda: controller_id(session), "a controller")

    # A stranger may read who is in charge, but neither change that nor unregister brokers nor read
    # secrets.
    assert session.write(SetData(ControllerZnode.PATH, b"{}")) is ZkCode.NO_AUTH
    assert session.write(Delete(BrokerIdZnode.path(1))) is ZkCode.NO_AUTH
    assert session.read("/config/users") is ZkCode.NO_AUTH
    assert "a-password" not in broker.log() + broker.log("controller.log")


def test_acls_without_credentials_are_refused_with_a_sentence(cluster: Cluster) -> None:
    broker = BrokerProcess(cluster.directory, cluster.connect, 1, zookeeper__set__acl="true")
    broker.start()

    code, said = broker.exit_code()

    assert code == 1
    assert "invalid value 'true' for zookeeper.set.acl: true only with credentials" in said
