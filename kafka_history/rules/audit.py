"""Compares the state at the end of the logs with ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kafka_history.rules.moment import PartitionAt


class Stored(NamedTuple):
    """A partition's state in ZooKeeper, as ``zkctl partition list -o json`` prints it."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    isr: Sequence[int]
    zk_version: int


class Disagreement(NamedTuple):
    """A partition whose state in the logs differs from its state in ZooKeeper."""

    topic: str
    partition: int
    verdict: str
    """``moved_on`` (ZooKeeper is newer: the logs miss a change), ``went_back`` (ZooKeeper is older
    than the logs: it was restored or edited), ``contradicts`` (the same version, other contents),
    ``not_in_logs``, ``not_in_zookeeper``."""
    says: str
    file: str | None
    """File and line of the last state in the logs; None: the logs have no state."""
    line: int | None


def audit(at_end: Iterable[PartitionAt], stored: Iterable[Stored]) -> Iterator[Disagreement]:
    """Each disagreement between the end of the logs and a snapshot of ZooKeeper, in order."""
    logs = {(each.topic, each.partition): each for each in at_end}
    zookeeper = {(each.topic, each.partition): each for each in stored}
    for topic, partition in sorted(logs.keys() | zookeeper.keys()):
        log, znode = logs.get((topic, partition)), zookeeper.get((topic, partition))
        if (verdict := _verdict(log, znode)) is not None:
            sides = (("logs", log), ("ZooKeeper", znode))
            says = "; ".join(f"{name}: {_words(side)}" for name, side in sides if side is not None)
            place = (None, None) if log is None else (log.file, log.line)
            yield Disagreement(topic, partition, verdict, says, *place)


def _verdict(log: PartitionAt | None, znode: Stored | None) -> str | None:
    if znode is None:
        return "not_in_zookeeper"
    if log is None:
        return "not_in_logs"
    newer = _newer(log.zk_version, znode.zk_version) or _newer(log.leader_epoch, znode.leader_epoch)
    if newer:
        return "moved_on" if newer > 0 else "went_back"
    # Compare the ISRs as sets, because a line and the znode may order them differently.
    is_same = log.leader == znode.leader and _members(log.isr) == _members(znode.isr)
    return None if is_same else "contradicts"


def _newer(before: int | None, now: int | None) -> int:
    """How much ``now`` is greater than ``before``; 0 if either is unknown."""
    return 0 if before is None or now is None else now - before


def _members(isr: Sequence[int] | None) -> list[int] | None:
    return None if isr is None else sorted(isr)


def _words(side: PartitionAt | Stored) -> str:
    isr = "null" if side.isr is None else ",".join(map(str, side.isr))
    leader, epoch, version = (
        "null" if each is None else each
        for each in (side.leader, side.leader_epoch, side.zk_version)
    )
    return f"leader {leader}, ISR {isr}, leader epoch {epoch}, version {version}"
