"""A leader out of sync, where that is allowed: what it costs is known to the record."""

from __future__ import annotations

from collections import defaultdict
from random import Random

import pytest

from tests.faults.cluster import FaultCluster, others_than
from tests.faults.load import loaded
from tests.faults.scenario import PARTITIONS, tell
from zkcontroller_testing.operations import ClientAct, Operation

pytestmark = [pytest.mark.faults, pytest.mark.timeout(400)]

TOPIC = "unclean"
ALLOWED = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}


def test_an_unclean_election_costs_what_the_old_leader_alone_had_and_nothing_else(
    cluster: FaultCluster, random: Random
) -> None:
    history = cluster.history()

    def write(*, alone: int | None = None) -> set[str]:
        """Some records, all acknowledged, by whom; ``alone``: when the ISR is this broker."""
        before = len(history.operations)
        with loaded(history, TOPIC, PARTITIONS) as load:
            if alone is not None:
                # Only who lags behind something leaves an ISR.
                cluster.wait_until_alone(alone, TOPIC, PARTITIONS)
            load.wait_for_progress(random.randrange(100, 400))
        sent = [each for each in history.operations[before:] if each.act is ClientAct.SEND]
        assert all(each.is_ok for each in sent)
        return {each.process for each in sent}

    def logs(broker: int) -> list[bytes]:
        return [cluster.log_bytes(broker, TOPIC, p) for p in range(PARTITIONS)]

    old = random.choice(others_than(cluster.wait_controller()))
    cluster.create(TOPIC, PARTITIONS, leader=old, configs=ALLOWED)
    write()
    cluster.wait_until_replicas_agree(TOPIC, PARTITIONS)
    common = logs(old)

    cluster.keep_from_fetching(old)
    names = write(alone=old)
    cluster.kill(old)
    cluster.heal()
    cluster.wait_until(
        lambda: all(cluster.leader(TOPIC, p) in others_than(old) for p in range(PARTITIONS)),
        lambda: f"others lead: {[cluster.state(TOPIC, p) for p in range(PARTITIONS)]}",
    )
    write()
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
    history.read_to_end(TOPIC, PARTITIONS)
    tell(history)

    operations = [each for each in history.operations if each.is_ok and each.offset >= 0]
    final = operations[-1].process
    there = {_at(each): each.value for each in operations if _is_read(each, final)}
    written = [each for each in operations if each.act is ClientAct.SEND]
    alone = {each.value for each in written if each.process in names}
    assert alone
    assert {each.value for each in written} - set(there.values()) == alone
    # A client that read them, or knows their offsets, finds others there now.
    seen = defaultdict(set)
    for each in operations:
        if each.act is ClientAct.SEND or _is_read(each):
            seen[_at(each)].add(each.value)
    told = {place for place, values in seen.items() if values & alone}
    assert {place for place, values in seen.items() if len(values) > 1} == told & there.keys()
    found = {each.name for each in history.violations()}
    assert found - {"watermark-back"} == {"lost-record", "inconsistent-offset"}
    cluster.wait_until_replicas_agree(TOPIC, PARTITIONS)
    for before, now in zip(common, logs(old), strict=True):
        assert now.startswith(before)
        assert not any(f"{name}:".encode() in now for name in names)


def _at(operation: Operation) -> tuple[str, int]:
    return operation.place, operation.offset


def _is_read(operation: Operation, process: str | None = None) -> bool:
    return operation.act is ClientAct.READ and process in (None, operation.process)
