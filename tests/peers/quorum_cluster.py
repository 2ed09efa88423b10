"""A quorum whose voters are Kafka's controllers, our nodes, or both: each a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar, Final

from typing_extensions import override

from benchmarks.kafka_peer import brief_options, kafka_libs, run_kafka_tool
from kafka_common.errors import CorruptRecord
from kafka_common.net.client_security import PLAINTEXT, ClientSecurity
from kafka_common.net.connection import Connection
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.record_batch import BatchHeader, iterate_batches
from kraft.metadata.metadata_batches import iterate_metadata_batches
from kraft.raft.config import MAX_FETCH_WAIT_MS
from kraft.raft.control_records import LeaderChange
from kraft.raft.messages import DescribeQuorumRequest, DescribeQuorumResponse
from kraft.raft.wire import read_response, write_request
from tests.support.quorum import free_ports
from tests.support.suspension import suspend

CLUSTER_ID: Final = "AAECAwQFBgcICQoLDA0ODw"
STORAGE_TOOL: Final = "kafka.tools.StorageTool"
FOLDER: Final = "__cluster_metadata-0"
PATIENCE_S: Final = 60.0
PARKED_MS: Final = MAX_FETCH_WAIT_MS + 100
"""So long after its death a node's last Fetch may be answered, and counts as one of that time."""

_LISTENING_PORTS: Final = (12_000, 32_000)

_LOG4J: Final = """log4j.rootLogger=INFO, file
log4j.appender.file=org.apache.log4j.FileAppender
log4j.appender.file.File={file}
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


class Voter(ABC):
    """One controller node: its folder, its file of properties, its process."""

    def __init__(self, node_id: int, directory: Path, properties: dict[str, str]) -> None:
        self.node_id = node_id
        self.directory = directory
        self.data = directory / "data"
        self.file = directory / "controller.properties"
        self.log_file = directory / "server.log"
        self.properties = properties | {"log.dirs": str(self.data)}
        self.process: subprocess.Popen[bytes] | None = None
        self.expected_to_run = False
        self.is_frozen = False
        self.started_ms = 0
        self.fate = "was never started"
        """What the test last did to the process; the obituary shows it."""
        directory.mkdir(parents=True, exist_ok=True)

    @abstractmethod
    def command(self) -> Sequence[str]:
        """What to run."""

    def format(self) -> None:
        """Formats the folder with Kafka's own tool."""
        text = "".join(f"{key}={value}\n" for key, value in self.properties.items())
        self.file.write_text(text, encoding="utf-8")
        done = run_kafka_tool(STORAGE_TOOL, "format", "-t", CLUSTER_ID, "-c", str(self.file))
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self) -> None:
        with (self.directory / "console.log").open("ab") as console:
            self.process = subprocess.Popen(
                self.command(), cwd=self.directory, stdout=console, stderr=console
            )
        self.expected_to_run = True
        self.started_ms = time.time_ns() // 1_000_000
        self._note(f"was started as process {self.process.pid}")

    @property
    def has_died(self) -> bool:
        """Whether the process has ended, although the test did not end it."""
        return self.expected_to_run and (self.process is None or self.process.poll() is not None)

    def kill(self) -> None:
        """As if the machine had lost power."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        return self._end(signal.SIGTERM)

    def freeze(self) -> None:
        """SIGSTOP: it is there and does nothing, until :meth:`thaw`."""
        assert self.process is not None
        assert not self.has_died, self.obituary()
        self.is_frozen = True
        suspend(self.process.pid)
        self._note("was frozen")

    def thaw(self) -> None:
        """SIGCONT: it goes on as if no time had passed."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)
        self.is_frozen = False
        self._note("was thawed")

    def _end(self, number: signal.Signals) -> int:
        assert self.process is not None
        assert not self.has_died, self.obituary()
        self.expected_to_run = self.is_frozen = False
        self.process.send_signal(number)
        self._note(f"was sent {number.name}")
        return self.process.wait(timeout=30)

    def _note(self, done: str) -> None:
        self.fate = f"{done} at {time.strftime('%H:%M:%S', time.gmtime())} UTC"

    def log_bytes(self) -> bytes:
        """The segments of the log, one behind the other; of a running node, up to some batch."""
        while True:
            with contextlib.suppress(FileNotFoundError):  # one is deleted just now
                return b"".join(segment.read_bytes() for segment in self._segments())

    @property
    def log_start_offset(self) -> int:
        """Where the first segment begins."""
        return int(self._segments()[0].stem)

    def _segments(self) -> list[Path]:
        return sorted((self.data / FOLDER).glob("*.log"))

    def batches(self) -> list[tuple[BatchHeader, bytes]]:
        """The whole batches of the log."""
        data = self.log_bytes()
        found = []
        with contextlib.suppress(CorruptRecord):  # what a running node has not written yet
            for position, header in iterate_batches(data):
                found.append((header, data[position : position + header.size]))
        return found

    def leaders(self) -> dict[int, int]:
        """Epoch to leader, out of the log's own records."""
        return {
            batch.place.epoch: record.leader_id
            for _, data in self.batches()
            for batch in iterate_metadata_batches(data)
            for record in batch.records
            if isinstance(record, LeaderChange)
        }

    def wipe(self) -> None:
        """Loses everything but the format."""
        shutil.rmtree(self.data / FOLDER)

    def snapshots(self) -> dict[str, bytes]:
        """Content by name."""
        found = sorted((self.data / FOLDER).glob("*.checkpoint"))
        return {path.name: path.read_bytes() for path in found}

    def obituary(self) -> str:
        """How it ended, what was last done to it, and its last words."""
        code = None if self.process is None else self.process.poll()
        if code is None:
            ending = "runs"
        elif code < 0:
            ending = f"was ended by {signal.Signals(-code).name}"
        else:
            ending = f"ended with exit code {code}"
        whose = type(self).__name__
        return f"node {self.node_id} ({whose}) {ending}; it {self.fate}: {self.said()[-3000:]}"

    def said(self) -> str:
        """Its log."""
        files = [self.directory / "console.log", self.log_file]
        return "".join(file.read_text("utf-8", "replace") for file in files if file.exists())


class RealVoter(Voter):
    """``kafka.Kafka`` with ``process.roles=controller``."""

    java_options: ClassVar[tuple[str, ...]] = ()
    """Those of a measurement; without them a node starts with as little as it needs."""

    @override
    def command(self) -> Sequence[str]:
        log4j = self.directory / "log4j.properties"
        log4j.write_text(_LOG4J.format(file=self.log_file))
        java_options = self.java_options or ("-Xmx200m", *brief_options(kafka_libs()))
        options = [*java_options, f"-Dlog4j.configuration=file:{log4j}"]
        return ["java", *options, "-cp", f"{kafka_libs()}/*", "kafka.Kafka", str(self.file)]


class OurVoter(Voter):
    """``zkctl quorum start``."""

    python: ClassVar[str] = sys.executable

    @override
    def command(self) -> Sequence[str]:
        # Should the interpreter itself crash, its threads' stacks are in the console's file.
        python = [self.python, "-X", "faulthandler"]
        return [*python, "-m", "zkcontroller_cli", "quorum", "start", str(self.file)]


class MixedQuorum:
    """Voters 1 to 3, formatted and not yet started."""

    def __init__(
        self,
        directory: Path,
        ours: Sequence[int],
        properties: dict[str, str] | None = None,
        security: ClientSecurity = PLAINTEXT,
    ) -> None:
        """``security``: how the test connects to the listeners to describe the quorum."""
        self.directory = directory
        self._security = security
        self.ports = dict(zip((1, 2, 3), _lasting_ports(3), strict=True))
        self.voters: dict[int, Voter] = {}
        for node_id in self.ports:
            kind = OurVoter if node_id in ours else RealVoter
            given = self._properties(node_id) | (properties or {})
            self.voters[node_id] = kind(node_id, directory / f"node-{node_id}", given)
        with ThreadPoolExecutor() as pool:
            list(pool.map(Voter.format, self.voters.values()))

    @property
    def voters_text(self) -> str:
        """``controller.quorum.voters``."""
        return ",".join(f"{each}@127.0.0.1:{port}" for each, port in self.ports.items())

    @property
    def addresses(self) -> str:
        """Where all of them are."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def _properties(self, node_id: int) -> dict[str, str]:
        return {
            "process.roles": "controller",
            "node.id": str(node_id),
            "controller.quorum.voters": self.voters_text,
            "controller.listener.names": "CONTROLLER",
            "listeners": f"CONTROLLER://127.0.0.1:{self.ports[node_id]}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
        }

    def start(self, *node_ids: int) -> None:
        for node_id in node_ids or self.voters:
            self.voters[node_id].start()

    def close(self) -> None:
        """Ends every process the hard way."""
        for voter in self.voters.values():
            if voter.process is not None and voter.process.poll() is None:
                voter.process.kill()
                voter.process.wait()

    @property
    def running(self) -> list[Voter]:
        """Those from which an answer may be expected."""
        return [
            each for each in self.voters.values() if each.expected_to_run and not each.is_frozen
        ]

    # What they say.

    def described_by(self, node_id: int) -> DescribeQuorumResponse | None:
        """What a node says of the quorum; None while it does not answer, or does not lead."""
        try:
            response = asyncio.run(_describe(self.ports[node_id], self._security))
        except OSError:
            return None
        return response if response.error.value == 0 else None

    def described(self) -> DescribeQuorumResponse | None:
        """What the leader of the newest epoch says; None while there is none."""
        found = [self.described_by(voter.node_id) for voter in self.running]
        responses = [each for each in found if each is not None]
        return max(responses, key=lambda each: each.leader_epoch, default=None)

    def leader(self) -> int:
        """Who leads, once something of its epoch is committed."""
        found: list[int] = []

        def is_there() -> bool:
            described = self.described()
            if described is None or described.leader_id is None or described.high_watermark < 0:
                return False
            found[:] = [described.leader_id]
            return True

        self.wait_until(is_there, "somebody leads")
        return found[0]

    def make_lead(self, *node_ids: int) -> int:
        """Stops and starts leaders until one of these leads; says which."""
        while (leader := self.leader()) not in node_ids:
            # A leader that stops prefers the successor with the longest log. So the voters
            # that should not lead must lack some records.
            behind = [
                each
                for each, voter in self.voters.items()
                if voter.expected_to_run and each not in (leader, *node_ids)
            ]
            for each in behind:
                self.voters[each].kill()
            if behind:
                self.grow(1)
            self.voters[leader].stop()
            self.start(leader, *behind)
            self.wait_until_all_follow()
        return leader

    def grow(self, records: int) -> int:
        """Waits until so many records more are committed (a controller writes two a second)."""
        enough = self.high_watermark() + records
        self.wait_until(lambda: self.high_watermark() >= enough, "records are committed")
        return self.high_watermark()

    def wait_until_all_follow(self) -> None:
        """Waits until each voter that runs has fetched to the high watermark since its start."""

        def are_close() -> bool:
            described = self.described()
            return described is not None and all(
                voter.log_end_offset >= described.high_watermark
                and voter.last_fetch_timestamp
                > self.voters[voter.replica.id].started_ms + PARKED_MS
                for voter in described.voters
                if self.voters[voter.replica.id].expected_to_run
            )

        self.wait_until(are_close, "all voters have the log")

    def as_other(self, node_id: int) -> None:
        """Has the other implementation go on with the folder of a node that does not run."""
        before = self.voters[node_id]
        assert not before.expected_to_run
        kind = RealVoter if isinstance(before, OurVoter) else OurVoter
        self.voters[node_id] = kind(node_id, before.directory, before.properties)

    def high_watermark(self) -> int:
        """As the leader has it; -1 while there is none."""
        described = self.described()
        return -1 if described is None else described.high_watermark

    def wait_until(
        self, condition: Callable[[], bool], what: str, *, timeout_s: float = PATIENCE_S
    ) -> None:
        """Returns once it is so; fails if it is not in time, or if a node dies by itself."""
        deadline = time.monotonic() + timeout_s
        pause = threading.Event()
        while not condition():
            for voter in self.voters.values():
                assert not voter.has_died, voter.obituary()
            assert time.monotonic() < deadline, f"not within {timeout_s:.0f} s: {what}"
            pause.wait(0.05)


class RealBroker:
    """``kafka.Kafka`` with ``process.roles=broker``."""

    def __init__(
        self,
        directory: Path,
        broker_id: int,
        quorum: MixedQuorum,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """``properties`` may have ``{port}`` in their values."""
        [self.port] = free_ports(1)
        self.broker_id = broker_id
        self.data = directory / "data"
        self._directory = directory
        self._file = directory / "broker.properties"
        self.process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True)
        given = {
            "process.roles": "broker",
            "node.id": str(broker_id),
            "controller.quorum.voters": quorum.voters_text,
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": "2",
            "group.initial.rebalance.delay.ms": "0",
            "log.dirs": str(self.data),
        }
        for key, value in (properties or {}).items():
            given[key] = value.replace("{port}", str(self.port))
        text = "".join(f"{key}={value}\n" for key, value in given.items())
        self._file.write_text(text, encoding="utf-8")
        done = run_kafka_tool(STORAGE_TOOL, "format", "-t", CLUSTER_ID, "-c", str(self._file))
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self) -> None:
        command = ["java", "-Xmx256m", *brief_options(kafka_libs())]
        command += ["-cp", f"{kafka_libs()}/*", "kafka.Kafka", str(self._file)]
        with (self._directory / "console.log").open("ab") as console:
            self.process = subprocess.Popen(command, stdout=console, stderr=console)

    def end(self, number: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(timeout=60)


def _lasting_ports(count: int) -> list[int]:
    """Ports that a node finds free again after its death.

    Below those from which the kernel takes the near ends of connections: one of these, and be it
    an attempt to reach the dead node, would keep the node from listening again.
    """
    found: set[int] = set()
    while len(found) < count:
        port = random.randrange(*_LISTENING_PORTS)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.add(port)
    return sorted(found)


async def _describe(port: int, security: ClientSecurity) -> DescribeQuorumResponse:
    connection = await Connection.open(
        "127.0.0.1",
        port,
        client_id="test",
        connect_timeout_ms=2_000,
        request_timeout_ms=5_000,
        security=security,
    )
    try:
        body = await connection.call(
            ApiKey.DESCRIBE_QUORUM, 2, (write_request(DescribeQuorumRequest(), 2),)
        )
    finally:
        await connection.close()
    response = read_response(ApiKey.DESCRIBE_QUORUM, 2, body)
    assert isinstance(response, DescribeQuorumResponse)
    return response


def committed(voter: Voter, high_watermark: int, start: int = 0) -> bytes:
    """The bytes of a log below an offset, from another one on."""
    return b"".join(
        data
        for header, data in voter.batches()
        if header.base_offset >= start and header.next_offset <= high_watermark
    )
