"""A leader out of sync, where that is allowed: what it costs is known to the record."""

from __future__ import annotations

from random import Random

import pytest

from tests.faults.checks import anomalies, disputed_offsets, lost_records
from tests.faults.cluster import FaultCluster, others_than
from tests.faults.history import History
from tests.faults.load import Load, loaded
from tests.faults.scenario import PARTITIONS, tell

pytestmark = [pytest.mark.faults, pytest.mark.timeout(400)]

TOPIC = "unclean"
ALLOWED = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}


def test_an_unclean_election_costs_what_the_old_leader_alone_had_and_nothing_else(
    cluster: FaultCluster, random: Random
) -> None:
    history = History()

    def write(name: str, *, alone: int | None = None) -> Load:
        """Some records, each of them acknowledged; by one leader ``alone`` once it is that."""
        servers = cluster.bootstrap_servers
        with loaded(servers, TOPIC, PARTITIONS, name=name, history=history) as load:
            if alone is not None:
                # Only who lags behind something leaves an ISR.
                cluster.wait_until_alone(alone, TOPIC, PARTITIONS)
            load.wait_for_progress(random.randrange(100, 400))
        assert load.fatal == []
        assert len(history.acknowledged) == len(history.sent)
        return load

    def logs(broker: int) -> list[bytes]:
        return [cluster.log_bytes(broker, TOPIC, p) for p in range(PARTITIONS)]

    old = random.choice(others_than(cluster.wait_controller()))
    cluster.create(TOPIC, PARTITIONS, leader=old, configs=ALLOWED)
    write("before")
    cluster.wait_until_replicas_agree(TOPIC, PARTITIONS)
    common = logs(old)

    cluster.keep_from_fetching(old)
    write("alone", alone=old)
    cluster.kill(old)
    cluster.heal()
    cluster.wait_until(
        lambda: all(cluster.leader(TOPIC, p) in others_than(old) for p in range(PARTITIONS)),
        lambda: f"others lead: {[cluster.state(TOPIC, p) for p in range(PARTITIONS)]}",
    )
    load = write("after")
    divergent = logs(old)
    elected = [cluster.leader(TOPIC, p) for p in range(PARTITIONS)]
    newer = [cluster.log_bytes(leader, TOPIC, p) for p, leader in enumerate(elected)]
    for before, then, now in zip(common, divergent, newer, strict=True):
        assert then.startswith(before)
        assert now.startswith(before)
        assert len(before) < min(len(then), len(now))
        assert then[len(before) :] != now[len(before) :]

    cluster.start(old)
    cluster.wait_until_in_sync(TOPIC, PARTITIONS)
    load.read_everything()
    tell(load)

    alone = [sent for sent in history.sent if _is_alone(sent.value)]
    assert alone
    assert lost_records(history) == alone
    # A client that read them, or knows their offsets, finds others there now.
    told = {(read.partition, read.offset) for read in history.polled if _is_alone(read.value)}
    told |= {(sent.partition, sent.offset) for sent in alone}
    there = {(read.partition, read.offset) for read in history.final}
    assert set(disputed_offsets(history)) == told & there
    found = anomalies(history, is_idempotent=True)
    assert {anomaly.name for anomaly in found} == {"lost-write", "inconsistent-offsets"}
    cluster.wait_until_replicas_agree(TOPIC, PARTITIONS)
    for before, now in zip(common, logs(old), strict=True):
        assert now.startswith(before)
        assert b"alone" not in now


def _is_alone(value: str) -> bool:
    return value.startswith("alone")
