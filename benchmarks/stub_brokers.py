"""Brokers that only listen to their controller: they register, answer and keep the time.

A process of their own, so that what is measured shares no interpreter with what measures.
Commands come as JSON lines on stdin, each is answered by one JSON line on stdout; the process ends
with stdin:

* ``{"mark": true}`` forgets what was received so far;
* ``{"collect": {"brokers": 10, "quiet_ms": 3000, "timeout_ms": 60000}}`` waits until that many
  brokers got an UpdateMetadata with topics and nothing came for ``quiet_ms``, then lists every
  request;
* ``{"status": true}`` tells how many requests came since the mark, how many brokers know of topics,
  and for how long nothing came;
* ``{"leave": 101}`` ends a broker, its registration and its connections; ``{"join": 101}`` brings
  it back.  Both answer the moment at which they began.

Times are ``CLOCK_MONOTONIC`` nanoseconds, one clock for all processes of a machine.  An answer that
names every partition is built once per distinct content and kept, because building it would cost
more than anything else here; counting partitions waits until nothing is being measured.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import sys
import time
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from typing_extensions import override

from benchmarks.cluster_data import broker_znode
from benchmarks.control_frames import (
    API_NAMES,
    UPDATE_METADATA,
    Header,
    UnexpectedRequestError,
    answer_body,
    answer_frame,
    partition_count,
    read_header,
)
from zkcontroller.zookeeper.requests import Create, Delete, Written
from zkcontroller.zookeeper.session import ZooKeeperConfig, ZooKeeperSession

MAX_FRAME_BYTES: Final = 256 * 1024 * 1024
MAX_REMEMBERED_ANSWERS: Final = 64


@dataclass(frozen=True, slots=True)
class Received:
    """One request, with the moment its last byte was here."""

    broker_id: int
    header: Header
    size_bytes: int
    at_ns: int
    digest: bytes
    """Of everything after the broker's own fields: equal content, equal digest."""


class Recorder:
    """Everything the brokers of this process received since the last mark."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.refused: list[str] = []
        self.answers_built = 0
        self._answers: dict[tuple[int, bytes], bytes] = {}
        self._frames: dict[tuple[int, bytes], tuple[bytearray, Header]] = {}
        self._counts: dict[tuple[int, bytes], int] = {}

    def take(self, broker_id: int, frame: bytearray, at_ns: int) -> bytes:
        """Notes a request; returns the frame to answer with."""
        header = read_header(frame)
        digest = hashlib.blake2b(memoryview(frame)[header.topics_offset :], digest_size=16).digest()
        self.received.append(Received(broker_id, header, len(frame), at_ns, digest))
        key = (header.api_key, digest)
        if key not in self._counts:
            self._frames[key] = (frame, header)
        body = self._answers.get(key)
        if body is None:
            self.answers_built += 1
            body = answer_body(frame, header)
            if len(self._answers) >= MAX_REMEMBERED_ANSWERS:
                self._answers.clear()
            self._answers[key] = body
        return answer_frame(header.correlation_id, body)

    def mark(self) -> None:
        """Forgets the requests and keeps the answers."""
        self.received.clear()
        self.refused.clear()
        self._frames.clear()
        self.answers_built = 0

    def brokers_with_topics(self) -> int:
        """How many brokers got an UpdateMetadata that carries topics."""
        return len(
            {
                one.broker_id
                for one in self.received
                if one.header.api_key == UPDATE_METADATA and one.size_bytes > 4096
            }
        )

    def status(self) -> dict[str, Any]:
        """What ``status`` answers."""
        last_ns = self.received[-1].at_ns if self.received else time.monotonic_ns()
        return {
            "requests": len(self.received),
            "brokers_with_topics": self.brokers_with_topics(),
            "quiet_ms": (time.monotonic_ns() - last_ns) / 1_000_000,
        }

    def report(self) -> dict[str, Any]:
        """What ``collect`` answers."""
        for key, (frame, header) in self._frames.items():
            self._counts[key] = partition_count(frame, header)
        self._frames.clear()
        return {
            "answers_built": self.answers_built,
            "refused": self.refused,
            "requests": [
                {
                    "broker": one.broker_id,
                    "api": API_NAMES[one.header.api_key],
                    "controller_id": one.header.controller_id,
                    "controller_epoch": one.header.controller_epoch,
                    "partitions": self._counts[one.header.api_key, one.digest],
                    "bytes": one.size_bytes,
                    "at_ns": one.at_ns,
                }
                for one in self.received
            ],
        }


class FrameReceiver(asyncio.BufferedProtocol):
    """One connection: length, frame, answer.  The kernel writes straight into the frame."""

    def __init__(
        self, broker_id: int, recorder: Recorder, open_transports: set[asyncio.Transport]
    ) -> None:
        self._broker_id = broker_id
        self._recorder = recorder
        self._open_transports = open_transports
        self._expect(4, is_length=True)

    def _expect(self, size: int, *, is_length: bool) -> None:
        self._buffer = bytearray(size)
        self._view = memoryview(self._buffer)
        self._filled = 0
        self._is_length = is_length

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._open_transports.add(transport)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._open_transports.discard(self._transport)

    @override
    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint  # what is missing of the frame is the better hint
        return self._view[self._filled :]

    @override
    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        if self._filled < len(self._buffer):
            return
        at_ns = time.monotonic_ns()
        if self._is_length:
            size = int.from_bytes(self._buffer, "big", signed=True)
            if not 0 < size <= MAX_FRAME_BYTES:
                self._refuse(f"a frame of {size} bytes")
                return
            self._expect(size, is_length=False)
            return
        frame = self._buffer
        self._expect(4, is_length=True)
        try:
            response = self._recorder.take(self._broker_id, frame, at_ns)
        except UnexpectedRequestError as unexpected:
            self._refuse(str(unexpected))
            return
        self._transport.write(response)

    def _refuse(self, what: str) -> None:
        self._recorder.refused.append(f"broker {self._broker_id}: {what}")
        self._transport.close()


class StubBroker:
    """One broker: a listening socket, its connections, its registration."""

    def __init__(self, broker_id: int, recorder: Recorder, session: ZooKeeperSession) -> None:
        self.broker_id = broker_id
        self._recorder = recorder
        self._session = session
        self._transports: set[asyncio.Transport] = set()
        self._server: asyncio.Server | None = None

    async def join(self) -> int:
        """Listens and registers; returns when the registration began, in monotonic ns."""
        self._server = await asyncio.get_running_loop().create_server(
            partial(FrameReceiver, self.broker_id, self._recorder, self._transports),
            "127.0.0.1",
            0,
        )
        port = self._server.sockets[0].getsockname()[1]
        return await self._write(
            Create(self._path, broker_znode("127.0.0.1", port), ephemeral=True)
        )

    async def leave(self) -> int:
        """Ends connections and registration, as a death does; returns when that began."""
        assert self._server is not None, "not joined"
        self._server.close()
        for transport in list(self._transports):
            transport.abort()
        return await self._write(Delete(self._path))

    @property
    def _path(self) -> str:
        return f"/brokers/ids/{self.broker_id}"

    async def _write(self, operation: Create | Delete) -> int:
        began_ns = time.monotonic_ns()
        result = await asyncio.to_thread(self._session.write, operation)
        if not isinstance(result, Written):
            raise SystemExit(f"{operation.path}: {result.name}")
        return began_ns


async def _serve(zookeeper: str, broker_ids: list[int]) -> None:
    recorder = Recorder()
    session = ZooKeeperSession(ZooKeeperConfig(connect=zookeeper, session_timeout_ms=30_000))
    await asyncio.to_thread(session.start)
    brokers = {broker_id: StubBroker(broker_id, recorder, session) for broker_id in broker_ids}
    for broker in brokers.values():
        await broker.join()
    _say({"registered": broker_ids})

    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(commands), sys.stdin
    )
    while line := await commands.readline():
        match json.loads(line):
            case {"mark": _}:
                recorder.mark()
                _say({"marked": True})
            case {"status": _}:
                _say(recorder.status())
            case {"leave": broker_id}:
                _say({"at_ns": await brokers[broker_id].leave()})
            case {"join": broker_id}:
                _say({"at_ns": await brokers[broker_id].join()})
            case {"collect": limits}:
                _say(await _collect(recorder, **limits))
            case unknown:
                raise SystemExit(f"no such command: {unknown}")
    await asyncio.to_thread(session.close)


async def _collect(
    recorder: Recorder, brokers: int, quiet_ms: int, timeout_ms: int
) -> dict[str, Any]:
    deadline_ns = time.monotonic_ns() + timeout_ms * 1_000_000
    while time.monotonic_ns() < deadline_ns:
        await asyncio.sleep(0.05)
        if recorder.brokers_with_topics() < brokers:
            continue
        if time.monotonic_ns() - recorder.received[-1].at_ns > quiet_ms * 1_000_000:
            return recorder.report() | {"complete": True}
    return recorder.report() | {"complete": False}


def _say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Runs the brokers until stdin ends."""
    parser = argparse.ArgumentParser(description="Brokers that record what a controller tells them")
    parser.add_argument("--zookeeper", required=True, help="host:port/chroot")
    parser.add_argument("--first-id", type=int, default=101)
    parser.add_argument("--brokers", type=int, default=10)
    options = parser.parse_args()
    broker_ids = list(range(options.first_id, options.first_id + options.brokers))
    asyncio.run(_serve(options.zookeeper, broker_ids))


if __name__ == "__main__":
    main()
