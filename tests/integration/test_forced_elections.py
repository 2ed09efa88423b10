"""Twenty times /controller is deleted under real brokers that are killed and frozen."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_common.model import ReplicaAssignment
from tests.integration.broker_processes import (
    SESSION_TIMEOUT_MS,
    Cluster,
    cluster_in,
    controller_id,
    state_of,
    wait_for,
)
from tests.integration.conftest import Client, OpenClient
from zkcontroller.zookeeper.requests import Create, Delete, ZkCode
from zkcontroller.zookeeper.session import ZooKeeperSession
from zkcontroller.zookeeper.znodes import (
    BrokerIdZnode,
    ControllerEpochZnode,
    ControllerZnode,
    TopicZnode,
)

pytestmark = pytest.mark.integration

DELETIONS = 6
"""Each kind of misfortune twice; the simulator lives a hundred of them for many seeds."""
PARTITIONS = 6
IN_TIME_S = SESSION_TIMEOUT_MS / 1000 + 2


@pytest.fixture
def session(zookeeper_connect: str, chroot: str, open_client: OpenClient) -> ZooKeeperSession:
    client: Client = open_client(zookeeper_connect + chroot)
    return client.session


@pytest.fixture
def cluster(
    tmp_path: Path, zookeeper_connect: str, chroot: str, session: ZooKeeperSession
) -> Iterator[Cluster]:
    assert session.session_id
    with cluster_in(tmp_path, zookeeper_connect + chroot) as cluster:
        yield cluster


def epoch_now(session: ZooKeeperSession) -> int:
    found = session.read(ControllerEpochZnode.PATH)
    assert not isinstance(found, ZkCode)
    return ControllerEpochZnode.decode(found.data)


def newest_state_epoch(session: ZooKeeperSession) -> int:
    """The highest controller epoch that any partition's state was written under."""
    states = [state_of(session, "orders", partition) for partition in range(PARTITIONS)]
    return max((state.controller_epoch for state in states if state is not None), default=0)


def leader_epochs(session: ZooKeeperSession) -> list[int]:
    states = [state_of(session, "orders", partition) for partition in range(PARTITIONS)]
    return [-1 if state is None else state.leader_epoch for state in states]


def test_six_deletions_of_the_controller_always_end_with_one_in_time(
    cluster: Cluster, session: ZooKeeperSession
) -> None:
    chance = random.Random(20)
    brokers = cluster.start(1, 2, 3)
    wait_for(lambda: controller_id(session), "a first controller")
    assignments = {
        partition: ReplicaAssignment((1 + partition % 3, 1 + (partition + 1) % 3))
        for partition in range(PARTITIONS)
    }
    session.write(Create(TopicZnode.path("orders"), TopicZnode(None, assignments).encode()))
    wait_for(lambda: -1 not in leader_epochs(session), "leaders of all partitions")

    for deletion in range(DELETIONS):
        epoch, led = epoch_now(session), leader_epochs(session)
        victim = chance.choice(brokers)
        deed = ("nothing", "kill", "freeze")[deletion % 3]
        if deed == "kill":
            victim.kill()
        elif deed == "freeze":
            victim.signal(signal.SIGSTOP)

        session.write(Delete(ControllerZnode.PATH))
        began = time.monotonic()
        able = [broker.broker_id for broker in brokers if deed == "nothing" or broker is not victim]
        chosen = wait_for(
            lambda able=able: (found := controller_id(session)) in able and found,  # type: ignore[misc]
            f"a controller among {able} after deletion {deletion}",
        )
        elapsed_s = time.monotonic() - began

        assert elapsed_s < IN_TIME_S, f"{chosen} was elected after {elapsed_s:.1f} s ({deed})"
        assert epoch_now(session) > epoch
        if deed == "kill":
            victim.start().ready()
        elif deed == "freeze":
            victim.signal(signal.SIGCONT)
        wait_for(
            lambda: (
                not isinstance(
                    session.exists(BrokerIdZnode.path(victim.broker_id)),  # noqa: B023 - asked now
                    ZkCode,
                )
            ),
            f"broker {victim.broker_id} to be registered again",
        )
        # No write of a deposed controller has landed, no epoch has fallen.
        assert newest_state_epoch(session) <= epoch_now(session)
        assert all(now >= before for now, before in zip(leader_epochs(session), led, strict=True))

    wait_for(lambda: is_led(cluster, session), "a last controller that is ready")


def is_led(cluster: Cluster, session: ZooKeeperSession) -> bool:
    """Whether the broker that ``/controller`` names has ended its failover in this epoch."""
    in_charge = controller_id(session)
    if in_charge is None:
        return False
    ready = f"[Controller id={in_charge}] Ready to serve as the new controller with epoch"
    return f"{ready} {epoch_now(session)} (" in cluster.brokers[in_charge].log("controller.log")
