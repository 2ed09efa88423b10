"""How fast the ZooKeeper session reads and writes, beside kazoo's own way, in one run.

100,000 partition states are read by MultiRead and one by one with ``get_async``; 10,000 leader
changes are written as packed, fenced multis and as one fenced transaction each.  Both sides use the
same embedded ZooKeeper, one after the other.

    python benchmarks/zookeeper_session.py [--znodes 100000] [--writes 10000]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

from kazoo.client import KazooClient

from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper
from zkcontroller.zookeeper.requests import (
    Create,
    FencedBatch,
    ReadZnodes,
    SetData,
    UnfencedBatch,
    ZkCode,
)
from zkcontroller.zookeeper.session import ZooKeeperConfig, ZooKeeperSession

PARTITIONS_PER_TOPIC: Final = 100
IN_FLIGHT: Final = 1000  # of kazoo's requests; fewer are slower, more are not faster
STATE: Final = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2,3]}'
CHANGED: Final = b'{"controller_epoch":1,"leader":2,"version":1,"leader_epoch":1,"isr":[2,3]}'

T = TypeVar("T")


def main() -> None:
    """Prints one line per measurement and one per ratio."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--znodes", type=int, default=100_000)
    parser.add_argument("--writes", type=int, default=10_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, EmbeddedZooKeeper(Path(folder)) as server:
        session = ZooKeeperSession(ZooKeeperConfig(server.connect))
        session.start()
        kazoo = KazooClient(server.connect)
        kazoo.start()
        paths = create_states(session, options.znodes)
        measure_reads(session, kazoo, paths)
        measure_writes(session, kazoo, paths[: options.writes])
        measure_watches(session, paths)
        kazoo.stop()
        kazoo.close()
        session.close()


def create_states(session: ZooKeeperSession, count: int) -> list[str]:
    """Topics with ``count`` partitions in all; returns the paths of their states."""
    operations = [Create("/controller_epoch", b"1"), Create("/brokers"), Create("/brokers/topics")]
    paths: list[str] = []
    for number in range(count):
        topic = f"/brokers/topics/topic-{number // PARTITIONS_PER_TOPIC}"
        partition = number % PARTITIONS_PER_TOPIC
        if partition == 0:
            operations += (Create(topic), Create(f"{topic}/partitions"))
        znode = f"{topic}/partitions/{partition}"
        operations += (Create(znode), Create(f"{znode}/state", STATE))
        paths.append(f"{znode}/state")
    results, seconds = timed(lambda: session.perform(UnfencedBatch(operations)))
    assert not any(isinstance(result, ZkCode) for result in results)
    show(f"create {len(operations):,} znodes, packed", seconds)
    return paths


def measure_reads(session: ZooKeeperSession, kazoo: KazooClient, paths: Sequence[str]) -> None:
    """All states, two ways."""
    first, _ = timed(lambda: session.perform(ReadZnodes(paths)))
    ours, seconds = timed(lambda: session.perform(ReadZnodes(paths)))
    assert ours == first
    theirs, their_seconds = timed(
        lambda: list(pipelined(lambda path: kazoo.get_async(path).get, paths))
    )
    assert [(data, stat.version) for data, stat in theirs] == [
        (znode.data, znode.zk_version) for znode in ours if not isinstance(znode, ZkCode)
    ]
    show(f"read {len(paths):,} states by MultiRead", seconds)
    show(f"read {len(paths):,} states with kazoo's get_async", their_seconds)
    print(f"  MultiRead needs {seconds / their_seconds:.3f} of kazoo's time")


def measure_writes(session: ZooKeeperSession, kazoo: KazooClient, paths: Sequence[str]) -> None:
    """Leader changes behind a fence, two ways."""

    def one_by_one(path: str) -> Callable[[], list[object]]:
        transaction = kazoo.transaction()
        transaction.check("/controller_epoch", 0)
        transaction.set_data(path, CHANGED, 1)
        result: Callable[[], list[object]] = transaction.commit_async().get
        return result

    changes = [SetData(path, CHANGED, 0) for path in paths]
    results, seconds = timed(lambda: session.perform(FencedBatch(changes, 0)))
    assert not any(isinstance(result, ZkCode) for result in results)
    theirs, their_seconds = timed(lambda: list(pipelined(one_by_one, paths)))
    assert all(len(result) == 2 for result in theirs)
    show(f"{len(paths):,} fenced writes, packed", seconds)
    show(f"{len(paths):,} fenced writes with kazoo, one transaction each", their_seconds)
    print(f"  packed writes need {seconds / their_seconds:.3f} of kazoo's time")


def measure_watches(session: ZooKeeperSession, paths: Sequence[str]) -> None:
    """All states once more, each left with a watch; last, for a watched write costs more."""
    unwatched = session.perform(ReadZnodes(paths))
    watched, seconds = timed(lambda: session.perform(ReadZnodes(paths, watch=True)))
    assert watched == unwatched
    show(f"read and watch {len(paths):,} states", seconds)


def pipelined(ask: Callable[[str], Callable[[], T]], paths: Sequence[str]) -> Iterator[T]:
    """The answers to ``ask`` for every path, with a window of requests in flight."""
    flying: deque[Callable[[], T]] = deque()
    for path in paths:
        if len(flying) == IN_FLIGHT:
            yield flying.popleft()()
        flying.append(ask(path))
    while flying:
        yield flying.popleft()()


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """The result of ``work`` and the seconds it took."""
    began = time.perf_counter()
    result = work()
    return result, time.perf_counter() - began


def show(what: str, seconds: float) -> None:
    """One aligned line."""
    print(f"{what:<60} {seconds:8.3f} s", flush=True)


if __name__ == "__main__":
    main()
