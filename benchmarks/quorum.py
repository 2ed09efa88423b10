"""A quorum of three nodes of ours, and one of Kafka 3.9.1's controllers, in one run.

``python -m benchmarks.quorum`` starts each in turn and measures

* the time from ``kill -9`` of the leader until the next one has committed something;
* the same after SIGTERM, by which a leader hands over;
* changes of configuration a second, each one a record that is committed before its answer, sent to
  the active controller by so many connections at once;
* the memory of a node, afterwards, and of the leader once there are ten thousand topics.

The client is the same for both: this process.  Kafka's JVMs get the options that its own
``kafka-server-start.sh`` gives them.  Our nodes run by the interpreter named by ``--python``: kio
loads hypothesis where it is installed, seven megabytes that no user has.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from benchmarks.process_memory import memory_mb
from benchmarks.quorum_changes import LOWEST, change
from benchmarks.silent_brokers import SilentBroker, create_topics
from kafka_common.net.connection import Connection
from tests.peers.quorum_cluster import MixedQuorum, OurVoter, RealVoter

CONNECTIONS: Final = 16
LOAD_S: Final = 10.0
WARM_UP_S: Final = 3.0
POLL_S: Final = 0.01
BROKERS: Final = (11, 12, 13)
TOPICS: Final = 10_000
TOPICS_AT_ONCE: Final = 100
_REQUEST_TIMEOUT_MS: Final = 60_000
KAFKAS_OWN_OPTIONS: Final = (
    "-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent",
)  # fmt: skip


class Side:
    """One quorum, and what was measured of it."""

    def __init__(self, name: str, directory: Path, ours: Sequence[int]) -> None:
        self.name = name
        self.quorum = MixedQuorum(directory / name.replace(" ", "-"), ours)
        self.killed_s: list[float] = []
        self.stopped_s: list[float] = []
        self.changes_s = 0.0
        self.megabytes = 0.0
        self.megabytes_with_topics = 0.0

    def measure(self, rounds: int) -> None:
        """Runs it from start to end."""
        try:
            self.quorum.start()
            self.quorum.leader()
            port = self.quorum.ports[self.quorum.leader()]
            asyncio.run(_changes(port, WARM_UP_S))
            self.changes_s = asyncio.run(_changes(port, LOAD_S))
            for _ in range(rounds):
                self.killed_s.append(self._until_next_commit(signal.SIGKILL))
                self.stopped_s.append(self._until_next_commit(signal.SIGTERM))
            self.megabytes = statistics.median(self._resident_megabytes().values())
            leader = self.quorum.leader()
            asyncio.run(_fill(self.quorum.ports[leader]))
            assert self.quorum.leader() == leader, "another one leads now"
            self.megabytes_with_topics = self._resident_megabytes()[leader]
        finally:
            self.quorum.close()

    def _until_next_commit(self, number: signal.Signals) -> float:
        quorum = self.quorum
        quorum.wait_until_all_follow()
        leader = quorum.voters[quorum.leader()]
        epoch = self._epoch()
        assert leader.process is not None
        leader.expected_to_run = False
        began_s = time.monotonic()
        leader.process.send_signal(number)
        while True:
            described = quorum.described()
            if (
                described is not None
                and described.leader_epoch > epoch
                and described.high_watermark >= 0
            ):
                break
            time.sleep(POLL_S)
        took_s = time.monotonic() - began_s
        leader.process.wait()
        quorum.start(leader.node_id)
        quorum.wait_until_all_follow()
        return took_s

    def _epoch(self) -> int:
        described = self.quorum.described()
        return -1 if described is None else described.leader_epoch

    def _resident_megabytes(self) -> dict[int, float]:
        found = {}
        for voter in self.quorum.running:
            assert voter.process is not None
            found[voter.node_id] = memory_mb(voter.process.pid, "VmRSS")
        return found


async def _fill(port: int) -> None:
    """Has the active controller create topics on brokers that are alive until it has."""
    async with AsyncExitStack() as stack:

        async def connect(client_id: str) -> Connection:
            opened = await Connection.open(
                "127.0.0.1", port, client_id=client_id, request_timeout_ms=_REQUEST_TIMEOUT_MS
            )
            stack.push_async_callback(opened.close)
            return opened

        for broker_id in BROKERS:
            broker = SilentBroker(broker_id, await connect(f"broker-{broker_id}"))
            await broker.join()
            stack.callback(broker.fall_silent)
        client = await connect("client")
        for first in range(0, TOPICS, TOPICS_AT_ONCE):
            names = [f"topic-{number}" for number in range(first, first + TOPICS_AT_ONCE)]
            await create_topics(client, names, partitions=1, replicas=len(BROKERS))


async def _changes(port: int, seconds: float) -> float:
    """Changes of configuration a second."""
    deadline_s = time.monotonic() + seconds
    counts = await asyncio.gather(
        *(_change_until(port, deadline_s, number) for number in range(CONNECTIONS))
    )
    return sum(counts) / seconds


async def _change_until(port: int, deadline_s: float, number: int) -> int:
    connection = await Connection.open("127.0.0.1", port, client_id=f"load-{number}")
    done = 0
    try:
        while time.monotonic() < deadline_s:
            code = await change(connection, f"load-{number}", LOWEST + done % 9)
            assert code == 0, f"a change was refused with error code {code}"
            done += 1
    finally:
        await connection.close()
    return done


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a table; 0."""
    parser = argparse.ArgumentParser(prog="benchmarks.quorum", description="Two quorums of three")
    parser.add_argument("--rounds", type=int, default=5, help="kills and stops each (default: 5)")
    parser.add_argument(
        "--python",
        default=sys.executable,
        help="which runs our nodes: that of an installation without the extra dev, as users have",
    )
    options = parser.parse_args(arguments)
    OurVoter.python = options.python
    RealVoter.java_options = KAFKAS_OWN_OPTIONS
    with tempfile.TemporaryDirectory(prefix="quorum-") as folder:
        ours = Side("zkcontroller", Path(folder), (1, 2, 3))
        kafkas = Side("kafka 3.9.1", Path(folder), ())
        assert all(isinstance(voter, OurVoter) for voter in ours.quorum.voters.values())
        for side in (ours, kafkas):
            side.measure(options.rounds)
    print(f"{'':46} {'ours':>9} {kafkas.name:>12} {'ratio':>7}")
    for what, mine, theirs in (
        ("kill -9 until the next commit, s (median)", *_medians(ours.killed_s, kafkas.killed_s)),
        ("SIGTERM until the next commit, s (median)", *_medians(ours.stopped_s, kafkas.stopped_s)),
        ("changes committed a second", ours.changes_s, kafkas.changes_s),
        ("memory of a node, MB", ours.megabytes, kafkas.megabytes),
        (
            f"memory of the leader, {TOPICS} topics, MB",
            ours.megabytes_with_topics,
            kafkas.megabytes_with_topics,
        ),
    ):
        print(f"{what:46} {mine:9.2f} {theirs:12.2f} {mine / theirs:7.2f}")
    for side in (ours, kafkas):
        print(f"{side.name}, kill -9, s: {' '.join(f'{each:.2f}' for each in side.killed_s)}")
    return 0


def _medians(mine: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    return statistics.median(mine), statistics.median(theirs)


if __name__ == "__main__":
    sys.exit(main())
