"""A broker with very many partitions falls silent: how long the controller takes, and its quorum.

``python -m benchmarks.quorum_fencing`` has three voters of ours, and then three of Kafka 3.9.1's,
lead three brokers that do nothing but register and send heartbeats.  Topics of three replicas are
created until there are so many partitions; then one broker's heartbeats end.  Its session is over
nine seconds later, and every partition gets another ISR, a third of them another leader.  Told are

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
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID, uuid4

from kio.static.primitive import i16, i32, i64, u16

from benchmarks.quorum import KAFKAS_OWN_OPTIONS
from tests.peers.quorum_cluster import CLUSTER_ID, MixedQuorum, RealVoter
from zkcontroller.kraft.messages import DescribeQuorumRequest, DescribeQuorumResponse
from zkcontroller.kraft.wire import read_response, write_request
from zkcontroller.protocol.api_versions import ApiKey
from zkcontroller.protocol.versioned_messages import request_schema
from zkcontroller.runtime.connection import Connection

BROKERS: Final = (11, 12, 13)
SILENT: Final = 11
SESSION_S: Final = 9.0
"""``broker.session.timeout.ms``, as it is if nobody sets it."""
PARTITIONS_A_TOPIC: Final = 1_000
HEARTBEAT_S: Final = 1.0
PROBE_S: Final = 0.02
PATIENCE_S: Final = 300.0
_REQUEST_TIMEOUT_MS: Final = 120_000
_METADATA_VERSION: Final = (1, 21)
_VERSION: Final = 2
_EVERYTHING: Final = 2**62
"""What a broker says that it has read: it is never behind."""


@dataclass(slots=True)
class Measured:
    """What became of one quorum."""

    partitions_s: float
    fencing_s: float
    elections: int
    silence_ms: float


class SilentBroker:
    """A broker that is alive as long as it sends heartbeats, and does nothing else."""

    def __init__(self, broker_id: int, connection: Connection) -> None:
        self.broker_id = broker_id
        self.last_beat_s = 0.0
        """When its last heartbeat was answered."""
        self._connection = connection
        self._epoch = -1
        self._beating: asyncio.Task[None] | None = None

    async def join(self) -> None:
        """Registers, and is unfenced by its first heartbeat."""
        schema = request_schema(ApiKey.BROKER_REGISTRATION, 4)
        listener = schema.part(
            "Listener",
            name="PLAINTEXT",
            host="localhost",
            port=u16(9092),
            security_protocol=i16(0),
        )
        first, last = _METADATA_VERSION
        feature = schema.part(
            "Feature",
            name="metadata.version",
            min_supported_version=i16(first),
            max_supported_version=i16(last),
        )
        response: Any = await self._connection.request(
            schema.request(
                broker_id=i32(self.broker_id),
                cluster_id=CLUSTER_ID,
                incarnation_id=uuid4(),
                listeners=(listener,),
                features=(feature,),
                rack=None,
                is_migrating_zk_broker=False,
                log_dirs=(UUID(int=500 + self.broker_id),),
                previous_broker_epoch=i64(-1),
            )
        )
        assert response.error_code == 0, f"the registration was refused: {response}"
        self._epoch = response.broker_epoch
        while await self._beat():
            await asyncio.sleep(PROBE_S)
        self._beating = asyncio.create_task(self._beat_on())

    def fall_silent(self) -> None:
        """Sends no more heartbeats."""
        assert self._beating is not None, "it has joined"
        self._beating.cancel()

    async def _beat(self) -> bool:
        """Whether it is fenced."""
        schema = request_schema(ApiKey.BROKER_HEARTBEAT, 1)
        response: Any = await self._connection.request(
            schema.request(
                broker_id=i32(self.broker_id),
                broker_epoch=i64(self._epoch),
                current_metadata_offset=i64(_EVERYTHING),
                want_fence=False,
                want_shut_down=False,
                offline_log_dirs=(),
            )
        )
        self.last_beat_s = time.monotonic()
        return bool(response.is_fenced)

    async def _beat_on(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            await self._beat()


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
        answer = read_response(ApiKey.DESCRIBE_QUORUM, _VERSION, body)
        assert isinstance(answer, DescribeQuorumResponse)
        return answer

    async def until_committed(self, offset: int) -> DescribeQuorumResponse:
        """Waits until everything below is."""
        async with asyncio.timeout(PATIENCE_S):
            while (answer := await self.described()).high_watermark < offset:
                await asyncio.sleep(PROBE_S)
        return answer


async def create(connection: Connection, name: str) -> None:
    """A topic; returns when it is committed."""
    schema = request_schema(ApiKey.CREATE_TOPICS, 7)
    topic = schema.part(
        "CreatableTopic",
        name=name,
        num_partitions=i32(PARTITIONS_A_TOPIC),
        replication_factor=i16(len(BROKERS)),
        assignments=(),
        configs=(),
    )
    response: Any = await connection.request(
        schema.request(topics=(topic,), timeout=timedelta(minutes=1), validate_only=False)
    )
    [created] = response.topics
    assert created.error_code == 0, f"{name} was refused: {created}"


async def measure(port: int, topics: int) -> Measured:
    """Tells the story to the active controller, which listens at that port."""
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
            await create(client, f"topic-{number}")
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
    parser = argparse.ArgumentParser(prog="benchmarks.quorum_fencing", description=__doc__)
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
