"""Replicas through random misfortune; a failing seed prints its history and how to replay it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from kafka_common.model import TopicPartition
from tests.simulation.hash_seeds import run_under_hash_seeds
from tests.simulation.replication_disk_log import DiskLog
from tests.simulation.replication_world import (
    BrokenReplicationError,
    ReplicationWorld,
    replicated_world,
)


def fingerprint(world: ReplicationWorld) -> str:
    return hashlib.sha256("\n".join(world.timeline.history).encode()).hexdigest()


def test_no_acknowledged_record_is_lost_and_the_replicas_become_the_same(seed: int) -> None:
    world = replicated_world(seed)

    # A run without an acknowledged record would prove nothing.
    assert any(world.acknowledged_records.values())


@pytest.mark.parametrize("number", range(3))
def test_the_same_holds_for_logs_on_disk(number: int, tmp_path: Path) -> None:
    logs: list[DiskLog] = []

    def make_log(broker_id: int, tp: TopicPartition) -> DiskLog:
        logs.append(DiskLog(tmp_path / str(broker_id) / str(tp), lambda: world.now_ms))
        return logs[-1]

    world = ReplicationWorld(number, make_log)
    world.begin()
    world.storm(40)
    world.end()

    assert any(world.acknowledged_records.values())
    for log in logs:
        log.close()


def test_the_same_seed_gives_the_same_history_however_strings_are_hashed() -> None:
    program = (
        "import logging; logging.disable(logging.CRITICAL);"
        "from tests.simulation.test_replication_seeds import fingerprint, replicated_world;"
        "print(fingerprint(replicated_world(7, 30)), fingerprint(replicated_world(8, 30)))"
    )
    scenarios = run_under_hash_seeds(program)

    (scenario,) = scenarios
    seven, eight = scenario.split()
    assert seven == fingerprint(replicated_world(7, 30))
    assert seven != eight


def test_a_broken_world_shows_its_history_and_how_to_replay_it() -> None:
    world = ReplicationWorld(42)
    world.begin()
    for broker in world.brokers.values():
        for log in broker.logs.values():
            log.append_as_leader(f"only-on-{broker.broker_id}", 1)
            log.update_high_watermark(1)

    with pytest.raises(BrokenReplicationError) as broken:
        world.run(10)

    assert "broker 1 registers with epoch 1" in str(broken.value)
    assert "pytest tests/simulation/test_replication_seeds.py --seed=42" in str(broken.value)
