"""Where one acknowledged record waits, and where it computes: ``python -m benchmarks.trace``.

Three real brokers of ours, a topic with one partition and three replicas, and a client that sends
one record at a time with acks=all; with ``--of commit`` a consumer that commits one offset at a
time, which the group coordinator appends to its partition of ``__consumer_offsets``.  Each broker
runs with marks at the steps of the way, which note the clock, the processor time of the event
loop's thread, its turns and its callbacks.  The clock is that of the machine, so marks of different
processes can be set in a row.  Of the two followers the row shows the one that the record waited
for.

With ``--pause-ms 20`` what a record leaves to do is done before the next; but other programs have
taken the processors' caches meanwhile, and every step takes longer.

Each line is a step: the median time since the step before, and, where both are in one process, the
processor time, turns and callbacks between them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition
from typing_extensions import override

from benchmarks.broker_process import OurBroker
from benchmarks.records_cluster import BROKERS, RecordsCluster
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper

TOPIC: Final = "trace"
_PROPERTIES: Final = {"offsets.topic.replication.factor": "3"}
TIMEOUT_S: Final = 30.0
_FILE: Final = "ZKCONTROLLER_TRACE_FILE"
_PRODUCE, _FETCH, _OFFSET_COMMIT = 0, 1, 8
REQUESTS: Final = {"record": ("Produce", _PRODUCE), "commit": ("OffsetCommit", _OFFSET_COMMIT)}
"""What is sent, with the request's name and API key."""


class Mark(NamedTuple):
    """A step, when it was reached, and what the event loop had done until then."""

    name: str
    at_ns: int
    cpu_ns: int
    turns: int
    callbacks: int
    hops: int
    """Calls that went to another thread."""
    wakes: int
    """How often the thread was put to sleep."""


# In a broker


class Marks:
    """The marks of this process."""

    def __init__(self) -> None:
        self.turns = self.callbacks = self.hops = 0
        self.found: list[Mark] = []

    def add(self, name: str) -> None:
        self.found.append(
            Mark(
                name,
                time.monotonic_ns(),
                time.thread_time_ns(),
                self.turns,
                self.callbacks,
                self.hops,
                resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw,
            )
        )


def _install(marks: Marks) -> None:
    """Sets the marks around the functions of the broker."""
    from kafka_common.net.connection import Connection
    from replica_manager.log.unified_log import UnifiedLog
    from replica_manager.network.connection import ClientConnection
    from replica_manager.replication.delayed_produce import DelayedProduce
    from replica_manager.replication.record_appends import RecordAppends
    from replica_manager.replication.waiting_room import WaitingRoom

    def counted(owner: Any, name: str, counter: str) -> None:
        def count(*_: object) -> None:
            setattr(marks, counter, getattr(marks, counter) + 1)

        _before(owner, name, count)

    counted(asyncio.BaseEventLoop, "_run_once", "turns")
    counted(asyncio.BaseEventLoop, "run_in_executor", "hops")
    counted(asyncio.Handle, "_run", "callbacks")

    is_answered = ClientConnection._is_answered  # private places are where the steps are

    async def answered(self: Any, data: bytes) -> bool:
        key = int.from_bytes(data[:2], "big")
        if key not in (_PRODUCE, _FETCH, _OFFSET_COMMIT):
            return await is_answered(self, data)
        size = int.from_bytes(data[8:10], "big")
        who = data[10 : 10 + size].decode() if key == _FETCH else ""
        marks.add(f"arrived {key} {who}")
        try:
            return await is_answered(self, data)
        finally:
            marks.add(f"answered {key} {who}")

    ClientConnection._is_answered = answered  # type: ignore[method-assign]
    _before(RecordAppends, "_announce", lambda *_: marks.add("appended"))

    def finished(_: object, operation: object) -> None:
        is_produce = isinstance(operation, DelayedProduce)
        marks.add("committed" if is_produce else "woken")

    _before(WaitingRoom, "_finish", finished)
    send, exchange = Connection._send, Connection._exchange

    async def sent(self: Any, api_key: int, *arguments: Any) -> None:
        if api_key == _FETCH:  # before it is written: the leader may have it before this returns
            marks.add("sending")
        await send(self, api_key, *arguments)

    async def exchanged(self: Any, api_key: int, *arguments: Any) -> Any:
        found = await exchange(self, api_key, *arguments)
        if api_key == _FETCH:
            marks.add("received")
        return found

    setattr(Connection, "_send", sent)  # noqa: B010 - its signature is none of the trace's
    setattr(Connection, "_exchange", exchanged)  # noqa: B010
    append = UnifiedLog.append_as_follower

    def appended(self: Any, *arguments: Any, **more: Any) -> Any:
        marks.add("appending")
        try:
            return append(self, *arguments, **more)
        finally:
            marks.add("written")

    UnifiedLog.append_as_follower = appended  # type: ignore[method-assign]


def _before(owner: Any, name: str, call: Callable[..., None]) -> None:
    wrapped = getattr(owner, name)

    def around(*arguments: Any, **more: Any) -> Any:
        call(*arguments)
        return wrapped(*arguments, **more)

    setattr(owner, name, around)


def _broker(arguments: list[str]) -> int:
    """The process of a broker, which writes its marks down at its end."""
    marks = Marks()
    _install(marks)
    from replica_manager.__main__ import main as run

    code = run(arguments)
    Path(os.environ[_FILE]).write_text(json.dumps(marks.found))
    return code


# Outside


class TracedBroker(OurBroker):
    """A broker of ours with marks."""

    @property
    def file(self) -> Path:
        return self.directory / "marks.json"

    @override
    def _command(self, properties: Path) -> Sequence[str]:
        traced = ["env", f"{_FILE}={self.file}", sys.executable, "-m", "benchmarks.trace"]
        return [*traced, "--broker", str(properties), "--logs-dir", str(self.logs)]

    def marks(self) -> list[Mark]:
        return [Mark(*each) for each in json.loads(self.file.read_text())]


def sender(bootstrap_servers: str) -> Callable[[int], None]:
    """A function that sends one record and returns when it is acknowledged."""
    producer = Producer(
        {"bootstrap.servers": bootstrap_servers, "acks": "all", "linger.ms": 0, "log_level": 2}
    )

    def send(_: int) -> None:
        producer.produce(TOPIC, bytes(100), partition=0)
        assert producer.flush(TIMEOUT_S) == 0, "not acknowledged in time"

    return send


def committer(bootstrap_servers: str) -> Callable[[int], None]:
    """A function that commits one offset and returns when the coordinator has it."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": TOPIC,
            "enable.auto.commit": False,
            "log_level": 2,
        }
    )

    def commit(offset: int) -> None:
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)

    return commit


def timed(act: Callable[[int], None], count: int, pause_s: float) -> list[tuple[int, int]]:
    """When each call began and ended, in nanoseconds."""
    found = []
    for number in range(count):
        began_ns = time.monotonic_ns()
        act(number)
        found.append((began_ns, time.monotonic_ns()))
        time.sleep(pause_s)
    return found


class Step(NamedTuple):
    """A place on the way of one record, or of one offset."""

    text: str
    mark: Mark
    broker_id: int


def way(
    what: str, leader: int, marks: dict[int, list[Mark]], sent_ns: int, acked_ns: int
) -> list[Step] | None:
    """The steps of one of ``REQUESTS``; None if another request was among them."""
    request, key = REQUESTS[what]
    near = {
        broker_id: [each for each in found if sent_ns <= each.at_ns <= acked_ns]
        for broker_id, found in marks.items()
    }

    def first(broker_id: int, name: str, since: Mark | None = None) -> Mark:
        return next(
            each
            for each in near[broker_id]
            if each.name == name and (since is None or each.at_ns >= since.at_ns)
        )

    try:
        last = max(
            (each for each in near[leader] if each.name.startswith(f"arrived {_FETCH} broker")),
            key=lambda each: (each.at_ns <= first(leader, "committed").at_ns, each.at_ns),
        )
        who = last.name.split()[-1]
        follower = int(who.split("-")[1])
        steps = [
            Step(f"leader: {request} received", first(leader, f"arrived {key} "), leader),
            Step("leader: appended", first(leader, "appended"), leader),
            Step("leader: parked Fetch woken", first(leader, "woken"), leader),
            Step("leader: Fetch answered", first(leader, f"answered {_FETCH} {who}"), leader),
        ]
        for text, name in (
            ("follower: answer received", "received"),
            ("follower: append begins", "appending"),
            ("follower: appended", "written"),
            ("follower: sends its next Fetch", "sending"),
        ):
            # A mark of the leader is no bound: the follower may be awake before it.
            since = steps[-1].mark if steps[-1].broker_id == follower else None
            steps.append(Step(text, first(follower, name, since), follower))
        steps += [
            Step("leader: next Fetch received", last, leader),
            Step("leader: high watermark moved", first(leader, "committed"), leader),
            Step(f"leader: {request} answered", first(leader, f"answered {key} "), leader),
        ]
    except (StopIteration, ValueError):
        return None
    return steps


def report(
    what: str, leader: int, marks: dict[int, list[Mark]], sent: Sequence[tuple[int, int]]
) -> Iterator[str]:
    """The lines of the table."""
    ways = [
        (began_ns, found, ended_ns)
        for began_ns, ended_ns in sent
        if (found := way(what, leader, marks, began_ns, ended_ns)) is not None
    ]
    yield f"{len(ways)} of {len(sent)} {what}s; medians"
    yield f"{'step':34}{'ms':>7}{'cpu ms':>8}{'turns':>7}{'callbacks':>11}{'sleeps':>8}{'hops':>6}"
    count = len(ways[0][1])
    for place in range(count):
        text, _, broker_id = ways[0][1][place]
        before = [
            (began_ns if place == 0 else found[place - 1].mark.at_ns) for began_ns, found, _ in ways
        ]
        ms = statistics.median(
            (found[place].mark.at_ns - at_ns) / 1e6
            for (_, found, _), at_ns in zip(ways, before, strict=True)
        )
        is_same = place > 0 and ways[0][1][place - 1].broker_id == broker_id
        line = f"{text:34}{ms:7.2f}"
        if is_same:
            pairs = [(found[place - 1].mark, found[place].mark) for _, found, _ in ways]
            cpu = statistics.median((after.cpu_ns - then.cpu_ns) / 1e6 for then, after in pairs)
            counts = [
                statistics.median(
                    getattr(after, field) - getattr(then, field) for then, after in pairs
                )
                for field in ("turns", "callbacks", "wakes", "hops")
            ]
            line += f"{cpu:8.2f}{counts[0]:7.0f}{counts[1]:11.0f}{counts[2]:8.0f}{counts[3]:6.0f}"
        yield line
    ms = statistics.median((ended - found[-1].mark.at_ns) / 1e6 for _, found, ended in ways)
    yield f"{'client: acknowledged':34}{ms:7.2f}"
    whole = statistics.median((ended - began) / 1e6 for began, _, ended in ways)
    yield f"{'all':34}{whole:7.2f}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.trace", description="Where one acknowledged record waits"
    )
    parser.add_argument("--of", choices=tuple(REQUESTS), default="record", help="what is traced")
    parser.add_argument(
        "--pause-ms", type=float, default=0.0, help="between two of them (default: 0)"
    )
    parser.add_argument("--records", type=int, default=300, help="or commits (default: 300)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="trace-") as folder:
        directory = Path(folder)
        with EmbeddedZooKeeper(directory / "zookeeper") as zookeeper:
            brokers = []
            for broker_id in BROKERS:
                place = directory / str(broker_id)
                place.mkdir()
                brokers.append(
                    TracedBroker(broker_id, f"{zookeeper.connect}/trace", place, _PROPERTIES)
                )
            cluster = RecordsCluster(brokers)
            try:
                cluster.start()
                cluster.create(TOPIC, replicas=3, partitions=1)
                make = sender if options.of == "record" else committer
                act = make(cluster.bootstrap_servers)
                timed(act, 100, 0.0)
                sent = timed(act, options.records, options.pause_ms / 1000)
                for broker in brokers:
                    broker.stop()
            finally:
                cluster.stop()
        marks = {broker.broker_id: broker.marks() for broker in brokers}
    appends = {
        broker_id: sum(mark.name == "appended" for mark in found)
        for broker_id, found in marks.items()
    }
    leader = max(appends, key=lambda broker_id: appends[broker_id])
    print("\n".join(report(options.of, leader, marks, sent)))
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--broker"]:
        sys.exit(_broker(sys.argv[2:]))
    sys.exit(main())
