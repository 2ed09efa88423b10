"""Writes records to a partition, remembers which were acknowledged, and looks for them later.

A record is acknowledged when the leader's response to its Produce with ``acks=all`` has no error.
Then it must stay at that offset with that value, whatever happens to brokers.  A record whose
response is lost is written again.  So it may be in the log twice; this is not a fault.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

from kio.schema.errors import ErrorCode
from kio.schema.fetch.v11 import request as fetching
from kio.schema.fetch.v11.response import FetchResponse
from kio.schema.list_offsets.v7 import request as finding
from kio.schema.list_offsets.v7.response import ListOffsetsResponse
from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v12.response import MetadataResponse
from kio.schema.produce.v8 import request as writing
from kio.schema.produce.v8.response import ProduceResponse
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import Records, i8, i16, i32, i32Timedelta, i64

from kafka_common.errors import InvalidFrame
from kafka_common.net.connection import Connection
from kafka_common.protocol.record_batch import encode_batch, iterate_batch, iterate_batches
from kafka_common.protocol.records import Record
from zkcontroller_testing.loop_thread import LoopThread
from zkcontroller_testing.waiting import PATIENCE_S, NotInTime

_CLIENT_ID: Final = "kafka-kit-ledger"
_ATTEMPT_MS: Final = 3_000
_RETRY_S: Final = 0.05
_FETCH_BYTES: Final = 8 * 1024 * 1024
_NO_FETCH_SESSION: Final = i32(-1)
_LATEST: Final = i64(-1)
_CONSUMER: Final = BrokerId(-1)


class _Again(Exception):
    """This attempt failed; another one may succeed."""


class Ledger:
    """Writes records to one partition, and holds the acknowledged ones."""

    def __init__(
        self, loop: LoopThread, bootstrap: tuple[tuple[str, int], ...], topic: str, partition: int
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.acknowledged: dict[int, bytes] = {}
        """The values of acknowledged records, by offset."""
        self._loop = loop
        self._bootstrap = bootstrap
        self._numbers = itertools.count(1)
        self._leader: Connection | None = None
        self._turn = asyncio.Lock()

    def produce(self, count: int = 1, timeout_s: float = PATIENCE_S) -> list[int]:
        """Writes ``count`` records and returns their offsets; NotInTime if not acknowledged."""
        return self._loop.call(self._produce_all(count, timeout_s))

    @contextmanager
    def producing(self) -> Iterator[Ledger]:
        """Writes one record after the other while the block runs, whatever happens to brokers."""
        stop = asyncio.Event()
        work: Future[None] = asyncio.run_coroutine_threadsafe(
            self._produce_until(stop), self._loop.loop
        )
        try:
            yield self
        finally:
            if not self._loop.loop.is_closed():  # a closed loop has cancelled the work already
                self._loop.loop.call_soon_threadsafe(stop.set)
                work.result(2 * PATIENCE_S)

    def read(self, timeout_s: float = PATIENCE_S) -> dict[int, bytes]:
        """The values of all records that consumers can read now, by offset."""
        return self._loop.call(self._read_all(time.monotonic() + timeout_s))

    def lost(self, timeout_s: float = PATIENCE_S) -> dict[int, bytes]:
        """Acknowledged records that are no longer at their offset; empty if none is lost."""
        # Copy before reading: records acknowledged later need not be in the result of the read.
        acknowledged = dict(self.acknowledged)
        found = self.read(timeout_s)
        return {
            offset: value
            for offset, value in sorted(acknowledged.items())
            if found.get(offset) != value
        }

    def close(self) -> None:
        """Closes the connection."""
        self._loop.call(self._forget_leader())

    async def _produce_all(self, count: int, timeout_s: float) -> list[int]:
        deadline = time.monotonic() + timeout_s
        return [await self._produce_one(deadline, next(self._numbers)) for _ in range(count)]

    async def _produce_until(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            number = next(self._numbers)
            while not stop.is_set():
                try:
                    await self._attempt(number)
                except _Again:
                    await asyncio.sleep(_RETRY_S)
                else:
                    break

    async def _produce_one(self, deadline: float, number: int) -> int:
        while True:
            try:
                return await self._attempt(number)
            except _Again as failure:
                if time.monotonic() > deadline:
                    raise NotInTime(
                        f"record {number} of {self.topic}-{self.partition} is not acknowledged: "
                        f"{failure}"
                    ) from None
                await asyncio.sleep(_RETRY_S)

    async def _attempt(self, number: int) -> int:
        value = b"record %d" % number
        batch = encode_batch([Record(0, time.time_ns() // 1_000_000, None, value, ())])
        request = writing.ProduceRequest(
            acks=i16(-1),
            timeout=i32Timedelta.parse(timedelta(milliseconds=_ATTEMPT_MS)),
            topic_data=(
                writing.TopicProduceData(
                    name=TopicName(self.topic),
                    partition_data=(
                        writing.PartitionProduceData(
                            index=i32(self.partition), records=Records(batch)
                        ),
                    ),
                ),
            ),
        )
        response = await self._ask_leader(request)
        assert isinstance(response, ProduceResponse), "request() answers in kind"
        (row,) = response.responses[0].partition_responses
        await self._check(row.error_code)
        self.acknowledged[int(row.base_offset)] = value
        return int(row.base_offset)

    async def _read_all(self, deadline: float) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        position = 0
        end: int | None = None
        while True:
            try:
                if end is None:
                    end = await self._find_end()
                high_watermark, data = await self._fetch(position)
            except _Again as failure:
                if time.monotonic() > deadline:
                    raise NotInTime(f"{self.topic}-{self.partition}: {failure}") from None
                await asyncio.sleep(_RETRY_S)
                continue
            for at, header in iterate_batches(data):
                if at + header.size <= len(data):
                    for record in iterate_batch(data, at, header):
                        if record.value is not None and not header.is_control:
                            found[record.offset] = record.value
                    position = header.next_offset
            if position >= max(high_watermark, end):
                return found
            if not data:  # not visible yet, or the log of a new leader ends earlier
                if time.monotonic() > deadline:
                    raise NotInTime(f"{self.topic}-{self.partition} ends at {position}, not {end}")
                end = None
                await asyncio.sleep(_RETRY_S)

    async def _find_end(self) -> int:
        """The end offset for consumers, from ListOffsets.

        A new leader returns an error until its high watermark has reached the start offset of its
        leader epoch (KIP-207).  So records that are not visible until then do not count as lost.
        """
        request = finding.ListOffsetsRequest(
            replica_id=_CONSUMER,
            isolation_level=i8(0),
            topics=(
                finding.ListOffsetsTopic(
                    name=TopicName(self.topic),
                    partitions=(
                        finding.ListOffsetsPartition(
                            partition_index=i32(self.partition), timestamp=_LATEST
                        ),
                    ),
                ),
            ),
        )
        response = await self._ask_leader(request)
        assert isinstance(response, ListOffsetsResponse), "request() answers in kind"
        (row,) = response.topics[0].partitions
        await self._check(row.error_code)
        return int(row.offset)

    async def _fetch(self, position: int) -> tuple[int, bytes]:
        request = fetching.FetchRequest(
            max_wait=i32Timedelta.parse(timedelta(0)),
            min_bytes=i32(0),
            session_epoch=_NO_FETCH_SESSION,
            isolation_level=i8(0),
            topics=(
                fetching.FetchTopic(
                    topic=TopicName(self.topic),
                    partitions=(
                        fetching.FetchPartition(
                            partition=i32(self.partition),
                            fetch_offset=i64(position),
                            partition_max_bytes=i32(_FETCH_BYTES),
                        ),
                    ),
                ),
            ),
            forgotten_topics_data=(),
        )
        response = await self._ask_leader(request)
        assert isinstance(response, FetchResponse), "request() answers in kind"
        (row,) = response.responses[0].partitions
        await self._check(row.error_code)
        return int(row.high_watermark), bytes(row.records or b"")

    async def _check(self, code: ErrorCode) -> None:
        """Raises _Again for an error code, because another broker may be leader now."""
        if code is not ErrorCode.none:
            await self._forget_leader()
            raise _Again(code.name)

    async def _ask_leader(
        self, request: writing.ProduceRequest | fetching.FetchRequest | finding.ListOffsetsRequest
    ) -> object:
        async with self._turn:
            try:
                if self._leader is None or not self._leader.is_usable():
                    await self._forget_leader()
                    self._leader = await self._find_leader()
                return await self._leader.request(request)
            except (OSError, EOFError, InvalidFrame) as error:
                await self._forget_leader()
                raise _Again(str(error) or type(error).__name__) from error

    async def _find_leader(self) -> Connection:
        for host, port in self._bootstrap:
            try:
                connection = await _open(host, port)
            except OSError:
                continue
            try:
                response = await connection.request(
                    MetadataRequest(
                        topics=(MetadataRequestTopic(topic_id=None, name=TopicName(self.topic)),),
                        allow_auto_topic_creation=False,
                        include_topic_authorized_operations=False,
                    )
                )
            except (OSError, EOFError, InvalidFrame):
                continue
            finally:
                await connection.close()
            assert isinstance(response, MetadataResponse), "request() answers in kind"
            leader = next(
                (
                    each.leader_id
                    for topic in response.topics
                    for each in topic.partitions
                    if each.partition_index == self.partition
                ),
                None,
            )
            address = next((b for b in response.brokers if b.node_id == leader), None)
            if address is not None:
                return await _open(address.host, address.port)
        raise ConnectionError(f"no broker names a leader of {self.topic}-{self.partition}")

    async def _forget_leader(self) -> None:
        leader, self._leader = self._leader, None
        if leader is not None:
            await leader.close()


async def _open(host: str, port: int) -> Connection:
    return await Connection.open(
        host,
        port,
        client_id=_CLIENT_ID,
        connect_timeout_ms=_ATTEMPT_MS,
        request_timeout_ms=2 * _ATTEMPT_MS,
    )
