"""A broker with very many partitions falls silent: how long the controller takes, and its quorum.

``python -m benchmarks.quorum_fencing`` has three voters of ours, and then three of Kafka 3.9.1's,
lead three brokers that do nothing but register and send heartbeats.  Topics of three replicas are
created until there are so many partitions; then one broker's heartbeats end.  Its session is over
nine seconds later, and every partition gets another ISR, a third of them another leader.  It prints

* how long after the end of the session all that is committed;
* how often the leader of the quorum changed on the way: it must not;
* the longest time in which the leader did not say how the quorum stands;
* how many partitions a second were created before.

The client is the same for both: this process.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.quorum import KAFKAS_OWN_OPTIONS
from benchmarks.silent_brokers import SilentBroker, create_topics
from kafka_common.net.connection import Connection
from kafka_common.protocol.api_versions import ApiKey
from kraft.raft.messages import DescribeQuorumRequest, DescribeQuorumResponse
from kraft.raft.wire import read_response, write_request
from tests.peers.quorum_cluster import MixedQuorum, RealVoter

BROKERS: Final = (11, 12, 13)
SILENT: Final = 11
SESSION_S: Final = 9.0
"""``broker.session.timeout.ms``, as it is by default."""
PARTITIONS_A_TOPIC: Final = 1_000
PROBE_S: Final = 0.02
PATIENCE_S: Final = 300.0
_REQUEST_TIMEOUT_MS: Final = 120_000
_VERSION: Final = 2


@dataclass(slots=True)
class Measured:
    """What became of one quorum."""

    partitions_s: float
    fencing_s: float
    elections: int
    silence_ms: float


class Watch:
    """Asks the leader all the time how the quorum stands."""

    def __init__(self, connection: Connection) -> None:
        self.longest_s = 0.0
        """In which it did not say."""
        self._connection = connection

    async def described(self) -> DescribeQuorumResponse:
        """As the leader says now."""
        began_s = time.monotonic()
        body = await self._connection.call(
            ApiKey.DESCRIBE_QUORUM, _VERSION, (write_request(DescribeQuorumRequest(), _VERSION),)
        )
        self.longest_s = max(self.longest_s, time.monotonic() - began_s)
        response = read_response(ApiKey.DESCRIBE_QUORUM, _VERSION, body)
        assert isinstance(response, DescribeQuorumResponse)
        return response

    async def until_committed(self, offset: int) -> DescribeQuorumResponse:
        """Waits until everything below is."""
        async with asyncio.timeout(PATIENCE_S):
            while (response := await self.described()).high_watermark < offset:
                await asyncio.sleep(PROBE_S)
        return response


async def measure(port: int, topics: int) -> Measured:
    """Sends the steps to the active controller, which listens at that port."""
    async with AsyncExitStack() as connections:

        async def connect(client_id: str) -> Connection:
            opened = await Connection.open(
                "127.0.0.1", port, client_id=client_id, request_timeout_ms=_REQUEST_TIMEOUT_MS
            )
            connections.push_async_callback(opened.close)
            return opened

        brokers = {each: SilentBroker(each, await connect(f"broker-{each}")) for each in BROKERS}
        for broker in brokers.values():
            await broker.join()
        client, watch = await connect("client"), Watch(await connect("watch"))
        began_s = time.monotonic()
        for number in range(topics):
            await create_topics(
                client,
                [f"topic-{number}"],
                partitions=PARTITIONS_A_TOPIC,
                replicas=len(BROKERS),
            )
        created_s = time.monotonic() - began_s
        before = await watch.described()
        watch.longest_s = 0.0
        silent = brokers.pop(SILENT)
        silent.fall_silent()
        partitions = topics * PARTITIONS_A_TOPIC
        after = await watch.until_committed(before.high_watermark + partitions)
        fenced_s = time.monotonic() - silent.last_beat_s - SESSION_S
        for broker in brokers.values():
            broker.fall_silent()
    return Measured(
        partitions_s=partitions / created_s,
        fencing_s=fenced_s,
        elections=after.leader_epoch - before.leader_epoch,
        silence_ms=watch.longest_s * 1000,
    )


def _measured(directory: Path, ours: Sequence[int], topics: int) -> Measured:
    quorum = MixedQuorum(directory, ours)
    try:
        quorum.start()
        leader = quorum.leader()
        quorum.wait_until_all_follow()
        return asyncio.run(measure(quorum.ports[leader], topics))
    finally:
        quorum.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a table; 0."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.quorum_fencing", description="A broker falls silent"
    )
    parser.add_argument("--topics", type=int, default=36, help="of 1,000 partitions (default: 36)")
    parser.add_argument("--only", choices=("ours", "kafka"), help="leave the other one out")
    options = parser.parse_args(arguments)
    RealVoter.java_options = KAFKAS_OWN_OPTIONS
    found: dict[str, Measured] = {}
    with tempfile.TemporaryDirectory(prefix="fencing-") as folder:
        for side, voters in (("ours", (1, 2, 3)), ("kafka", ())):
            if options.only in (None, side):
                found[side] = _measured(Path(folder) / side, voters, options.topics)
    print(f"{options.topics * PARTITIONS_A_TOPIC} partitions: {', '.join(found)}")
    rows: dict[str, Callable[[Measured], float]] = {
        "partitions created a second": lambda one: one.partitions_s,
        "end of a session until all is committed, s": lambda one: one.fencing_s,
        "elections on the way": lambda one: one.elections,
        "longest silence of the leader, ms": lambda one: one.silence_ms,
    }
    for what, read in rows.items():
        values = [read(each) for each in found.values()]
        ratio = f"{values[0] / values[1]:9.2f}" if len(values) == 2 and values[1] else ""
        print(f"{what:46}" + "".join(f"{value:12.2f}" for value in values) + ratio)
    return 0


if __name__ == "__main__":
    sys.exit(main())
