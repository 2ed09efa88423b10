"""The end of the logs against ZooKeeper."""

from __future__ import annotations

from kafka_history.rules.audit import Stored, audit
from kafka_history.rules.moment import PartitionAt


def test_the_audit_tells_newer_from_older_and_from_contradicting() -> None:
    logs = [PartitionAt("t", n, 1, 1, [1, 2], 3, 1, 2_000, "state-change.log", n) for n in range(5)]
    stored = [
        Stored("t", 0, 1, 1, [2, 1], 3),  # the same: only the order of the ISR differs
        Stored("t", 1, 2, 2, [2], 4),
        Stored("t", 2, 1, 0, [1, 2], 1),
        Stored("t", 3, 2, 1, [1, 2], 3),
        Stored("u", 0, 1, 0, [1], 0),
    ]

    found = list(audit(logs, stored))

    assert [(each.topic, each.partition, each.verdict) for each in found] == [
        ("t", 1, "moved_on"),
        ("t", 2, "went_back"),
        ("t", 3, "contradicts"),
        ("t", 4, "not_in_zookeeper"),
        ("u", 0, "not_in_logs"),
    ]
    assert found[0].says == (
        "logs: leader 1, ISR 1,2, leader epoch 1, version 3; "
        "ZooKeeper: leader 2, ISR 2, leader epoch 2, version 4"
    )
    assert (found[0].file, found[0].line, found[-1].file) == ("state-change.log", 1, None)
