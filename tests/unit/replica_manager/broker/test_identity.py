"""Cluster id, broker id, ``meta.properties`` and the registration, on a ZooKeeper in memory."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from kafka_common.errors import BrokerIdInUse, ConfigInvalid, InconsistentClusterId
from replica_manager.broker.registration import (
    ZooKeeperRegistration,
    check_endpoints,
    cluster_id,
    create_persistent_paths,
    generate_broker_id,
)
from replica_manager.configuration.meta_properties import (
    LogDirLocks,
    MetaProperties,
    check_meta_properties,
    read_meta_properties,
    write_meta_properties,
)
from tests.support.broker_world import broker
from zkcontroller.zookeeper.requests import Create
from zkcontroller.zookeeper.session import ZooKeeperSession
from zkcontroller.zookeeper.znodes import BrokerIdZnode, ClusterIdZnode
from zkcontroller_simulation.zookeeper import SimulatedSession
from zkcontroller_simulation.zookeeper_server import SimulatedZooKeeper

PATH = "/brokers/ids/1"


@pytest.fixture
def server() -> SimulatedZooKeeper:
    return SimulatedZooKeeper()


def session_to(server: SimulatedZooKeeper) -> Any:
    """A session in memory; it stands in for the real one, as the contract tests allow."""
    session = SimulatedSession(server)
    session.start()
    create_persistent_paths(cast(ZooKeeperSession, session))
    return session


def registration_of(session: Any, **options: Any) -> ZooKeeperRegistration:
    return ZooKeeperRegistration(
        session, broker(1, rack="r1"), 5, options.pop("timeout_ms", 0), **options
    )


# Cluster id and broker id


def test_the_first_broker_makes_up_a_cluster_id_and_others_read_it(
    server: SimulatedZooKeeper,
) -> None:
    first = cluster_id(session_to(server))

    assert len(first) == 22
    assert cluster_id(session_to(server)) == first


def test_a_cluster_id_that_is_there_counts(server: SimulatedZooKeeper) -> None:
    session = session_to(server)
    session.create_missing(["/cluster"])
    session.write(Create("/cluster/id", ClusterIdZnode("given").encode()))

    assert cluster_id(session) == "given"


def test_generated_ids_begin_above_the_reserved_ones_and_never_repeat(
    server: SimulatedZooKeeper,
) -> None:
    first, second = session_to(server), session_to(server)

    assert [generate_broker_id(s, 1000) for s in (first, second, first)] == [1001, 1002, 1003]


# meta.properties


def test_what_is_written_is_read(tmp_path: Path) -> None:
    assert read_meta_properties(tmp_path) is None

    write_meta_properties(tmp_path, MetaProperties(7, "cluster"))

    assert read_meta_properties(tmp_path) == MetaProperties(7, "cluster")
    lines = (tmp_path / "meta.properties").read_text().splitlines()
    assert lines[0] == "#"
    assert lines[1].startswith("#")
    assert lines[2:] == ["version=0", "cluster.id=cluster", "broker.id=7"]
    assert [p.name for p in tmp_path.iterdir()] == ["meta.properties"]


def test_a_file_without_a_version_is_one_of_version_0(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("broker.id=3\n")

    assert read_meta_properties(tmp_path) == MetaProperties(3, None)


@pytest.mark.parametrize(
    ("content", "allowed"),
    [
        ("version=1\nnode.id=3\ncluster.id=x\n", "ZooKeeper mode"),
        ("version=zero\n", "ZooKeeper mode"),
        ("broker.id=three\n", "a broker id"),
    ],
)
def test_a_file_of_another_mode_or_with_nonsense_is_refused(
    tmp_path: Path, content: str, allowed: str
) -> None:
    (tmp_path / "meta.properties").write_text(content)

    with pytest.raises(ConfigInvalid, match=allowed):
        read_meta_properties(tmp_path)


@pytest.mark.parametrize(
    ("stored", "configured", "expected"),
    [
        ([None, None], 5, 5),
        ([None, None], -1, None),
        ([MetaProperties(7, "c"), None], -1, 7),
        ([MetaProperties(7, "c"), MetaProperties(7, "c")], 7, 7),
        ([MetaProperties(None, "c")], -1, None),
    ],
)
def test_the_broker_id_is_the_configured_or_the_stored_one(
    stored: list[MetaProperties | None], configured: int, expected: int | None
) -> None:
    found = {Path(f"/d{index}"): meta for index, meta in enumerate(stored)}

    assert check_meta_properties(found, cluster_id="c", configured_broker_id=configured) == expected


@pytest.mark.parametrize(
    ("stored", "configured"),
    [
        ([MetaProperties(7, "c")], 8),
        ([MetaProperties(7, "c"), MetaProperties(8, "c")], -1),
    ],
)
def test_ids_that_do_not_agree_are_refused(
    stored: list[MetaProperties | None], configured: int
) -> None:
    found = {Path(f"/d{index}"): meta for index, meta in enumerate(stored)}

    with pytest.raises(ConfigInvalid, match="stored in"):
        check_meta_properties(found, cluster_id="c", configured_broker_id=configured)


def test_a_directory_of_another_cluster_is_refused() -> None:
    with pytest.raises(InconsistentClusterId, match="wrong cluster"):
        check_meta_properties(
            {Path("/d"): MetaProperties(1, "other")}, cluster_id="c", configured_broker_id=1
        )


_LOCK_IT = (
    "import fcntl, sys; file = open(sys.argv[1], 'a'); "
    "fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)"
)


def test_a_log_directory_belongs_to_one_process(tmp_path: Path) -> None:
    def other_process_locks_it() -> bool:
        command = [sys.executable, "-I", "-S", "-c", _LOCK_IT, str(tmp_path / ".lock")]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    locks = LogDirLocks()
    locks.acquire([tmp_path])
    assert not other_process_locks_it()

    locks.release()
    assert other_process_locks_it()


def test_a_directory_that_is_in_use_is_refused_and_the_others_are_given_free(
    tmp_path: Path,
) -> None:
    free, taken = tmp_path / "free", tmp_path / "taken"
    free.mkdir()
    taken.mkdir()
    hold = f"{_LOCK_IT}; print('locked', flush=True); input()"
    command = [sys.executable, "-I", "-S", "-c", hold, str(taken / ".lock")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        # The lock is the process's, not the file object's: the holder must keep its file open.
        assert holder.stdout.readline() == "locked\n"
        locks = LogDirLocks()
        with pytest.raises(ConfigInvalid, match="no other broker uses"):
            locks.acquire([free, taken])
        holder.communicate("\n", timeout=20)

    locks.acquire([free, taken])
    locks.release()


# Registration


def test_a_registration_is_ephemeral_and_its_czxid_is_the_broker_epoch(
    server: SimulatedZooKeeper,
) -> None:
    session = session_to(server)

    epoch = registration_of(session).register()

    stat = session.exists(PATH)
    znode = session.read(PATH)
    assert stat.czxid == epoch > 0
    assert stat.ephemeral_owner == session.session_id
    assert znode.zk_version == 1
    registered = BrokerIdZnode.decode(1, znode.data)
    assert registered.broker == broker(1, rack="r1")
    assert registered.version == 5


def test_our_own_registration_is_found_again(server: SimulatedZooKeeper) -> None:
    session = session_to(server)
    epoch = registration_of(session).register()

    assert registration_of(session).register() == epoch


def test_the_registration_of_our_own_earlier_session_is_replaced(
    server: SimulatedZooKeeper,
) -> None:
    session = session_to(server)
    first = registration_of(session).register()
    other = session_to(server)

    class AfterExpiry:
        """The session as it is when ZooKeeper has not cleared its predecessor (ZOOKEEPER-2985)."""

        past_session_ids = (session.session_id,)

        def __getattr__(self, name: str) -> Any:
            return getattr(other, name)

    second = registration_of(cast(Any, AfterExpiry())).register()

    assert second > first
    assert other.exists(PATH).ephemeral_owner == other.session_id


def test_a_dead_predecessor_is_named_and_waited_for(
    server: SimulatedZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    predecessor, session = session_to(server), session_to(server)
    first = registration_of(predecessor).register()
    steps: list[Callable[[], object]] = [
        lambda: None,
        lambda: server.end_session(predecessor.session_id),
    ]

    with caplog.at_level(logging.WARNING, "kafka.server.KafkaServer"):
        second = registration_of(session, sleep=lambda _: steps.pop(0)()).register()

    assert steps == []
    assert second > first
    assert session.exists(PATH).ephemeral_owner == session.session_id
    assert "Broker id 1 is registered by session 0x" in caplog.text
    assert "PLAINTEXT://host1:9092" in caplog.text


def test_a_living_broker_with_our_id_is_reported_after_the_bound(
    server: SimulatedZooKeeper,
) -> None:
    living, session = session_to(server), session_to(server)
    registration_of(living).register()
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    with pytest.raises(BrokerIdInUse, match=r"broker id 1 is in use.*another broker\.id") as in_use:
        registration_of(session, timeout_ms=18_000, now_s=lambda: clock[0], sleep=sleep).register()

    assert "PLAINTEXT://host1:9092" in str(in_use.value)
    assert 24 <= clock[0] < 25
    assert living.exists(PATH).ephemeral_owner == living.session_id


def test_a_broker_that_was_stopped_while_it_waited_looks_once_more(
    server: SimulatedZooKeeper,
) -> None:
    predecessor, session = session_to(server), session_to(server)
    registration_of(predecessor).register()
    clock = [0.0]

    def sleep(_: float) -> None:
        clock[0] += 3_600
        server.end_session(predecessor.session_id)

    registration_of(session, now_s=lambda: clock[0], sleep=sleep).register()

    assert session.exists(PATH).ephemeral_owner == session.session_id


def test_a_broker_that_is_to_stop_does_not_wait(server: SimulatedZooKeeper) -> None:
    living, session = session_to(server), session_to(server)
    registration_of(living).register()

    with pytest.raises(BrokerIdInUse):
        registration_of(
            session,
            timeout_ms=18_000,
            is_stopping=lambda: True,
            sleep=lambda _: pytest.fail("it waited"),
        ).register()


def test_a_registration_that_cannot_be_read_is_in_the_way_all_the_same(
    server: SimulatedZooKeeper,
) -> None:
    other, session = session_to(server), session_to(server)
    other.write(Create(PATH, b"nonsense", ephemeral=True))

    def sleep(_: float) -> None:
        server.end_session(other.session_id)

    assert registration_of(session, sleep=sleep).register() > 0


def test_an_updated_registration_is_logged_with_its_addresses(
    server: SimulatedZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    registration = registration_of(session_to(server))
    registration.register()

    with caplog.at_level(logging.INFO, "kafka.zk.KafkaZkClient"):
        registration.update()

    assert caplog.messages == [
        "Updated broker 1 at path /brokers/ids/1 with addresses: "
        "ArrayBuffer(EndPoint(host1,9092,ListenerName(PLAINTEXT),PLAINTEXT))"
    ]


def test_an_address_that_another_broker_advertises_is_refused(server: SimulatedZooKeeper) -> None:
    session = session_to(server)
    ZooKeeperRegistration(session, broker(2, host="host1"), 5, 0).register()

    with pytest.raises(ConfigInvalid, match="by broker 2"):
        check_endpoints(session, 1, broker(1).endpoints)


def test_ones_own_address_and_unreadable_registrations_do_not_conflict(
    server: SimulatedZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    session = session_to(server)
    registration_of(session).register()
    session.write(Create("/brokers/ids/3", b"nonsense"))

    check_endpoints(session, 1, broker(1).endpoints)

    assert "/brokers/ids/3" in caplog.text
