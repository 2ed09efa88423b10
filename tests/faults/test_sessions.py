"""ZooKeeper sessions that end while the brokers live, and brokers quicker than their sessions."""

from __future__ import annotations

import time
from random import Random

import pytest
from kio.schema.errors import ErrorCode

from tests.faults.cluster import BROKERS, LAG_MS, SESSION_TIMEOUT_MS, FaultCluster
from tests.faults.direct import produce_to
from tests.faults.load import Load
from tests.faults.scenario import PARTITIONS, under_load
from tests.integration.calls import address_of

pytestmark = [pytest.mark.faults, pytest.mark.timeout(400)]


def test_zookeeper_away_for_three_session_timeouts_and_every_session_expired(
    cluster: FaultCluster,
) -> None:
    with under_load(cluster, "expired") as load:
        epochs = {broker: cluster.epoch_of(broker) for broker in BROKERS}
        cluster.zookeeper.kill()
        cluster.keep_from_zookeeper(*BROKERS)
        load.wait_for_progress(200)
        time.sleep(3 * SESSION_TIMEOUT_MS / 1000)

        # A ZooKeeper that starts gives every session its whole time anew: none may use it.
        cluster.zookeeper.start()
        cluster.wait_until(
            lambda: cluster.registered() == set(),
            lambda: f"no broker is registered, but {cluster.registered()}",
        )
        # Leaders lead on, though no broker is registered or is controller.
        load.wait_for_progress(200)
        cluster.heal()

        for broker, epoch in epochs.items():
            cluster.wait_until_registered_anew(broker, epoch)
        assert cluster.wait_controller() in BROKERS
        load.wait_for_progress()


def test_a_live_leader_whose_session_expires_is_deposed_and_comes_back(
    cluster: FaultCluster, random: Random
) -> None:
    topic = "one-expired"
    # Each leads a partition: a client that knows only the deposed one would believe it.
    with under_load(cluster, topic) as load:
        for is_controller in (True, False):
            controller = cluster.wait_controller()
            victim = controller if is_controller else cluster.leader(topic, 0)
            led = [p for p in range(PARTITIONS) if cluster.leader(topic, p) == victim]
            assert led
            epoch = cluster.epoch_of(victim)
            cluster.keep_from_zookeeper(victim)
            cluster.wait_until_out_of_isrs(victim, topic, PARTITIONS)
            cluster.wait_until(
                lambda: victim not in (cluster.registered() or BROKERS),  # noqa: B023
                lambda: f"{victim} is not registered",  # noqa: B023
            )
            # It still believes that it leads.  Once its followers know that it does not, it
            # may not acknowledge what it is given; what it did before, all of them have.
            for partition in led:
                cluster.wait_until(
                    lambda: not _acknowledges(cluster, victim, topic, partition, load),  # noqa: B023
                    lambda: f"{victim} acknowledges nothing that it alone has",  # noqa: B023
                )
            # What is acknowledged now, others acknowledge.
            load.wait_for_progress(random.randrange(200, 400))
            cluster.heal()
            cluster.wait_until_registered_anew(victim, epoch)
            cluster.wait_until_in_sync(topic, PARTITIONS)
            assert not is_controller or cluster.wait_controller() != victim


def test_brokers_started_again_before_their_sessions_end(
    cluster: FaultCluster, random: Random
) -> None:
    with under_load(cluster, "bounced") as load:
        for is_clean in (False, True, False):
            victim = cluster.leader("bounced", random.randrange(PARTITIONS))
            epoch = cluster.epoch_of(victim)
            if is_clean:
                cluster.stop(victim)
            else:
                cluster.kill(victim)
            cluster.start(victim)
            assert cluster.epoch_of(victim) > epoch
            cluster.wait_until_in_sync("bounced", PARTITIONS)
            load.wait_for_progress(random.randrange(1, 200))


def _acknowledges(
    cluster: FaultCluster, broker: int, topic: str, partition: int, load: Load
) -> bool:
    """Whether one record is acknowledged by that very broker, in sync with all others."""
    address = address_of(cluster, broker)
    response = produce_to(address, topic, partition, load.history, timeout_ms=LAG_MS)
    return response is ErrorCode.none
