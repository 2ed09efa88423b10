"""No client's batch keeps a broker from serving the others, however much work it holds."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.model import TopicPartition
from kafka_common.observability.loop_watch import LoopWatch
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.compression import Codec
from kafka_common.protocol.framing import frame
from kafka_common.protocol.messages import read_response, write
from kafka_common.protocol.record_batch import MemoryRecords
from replica_manager.log.log_config import LogConfig
from replica_manager.log.log_validation import MOST_RECORDS, Allowance, Examined
from replica_manager.network.connection import ClientConnection
from replica_manager.replication import record_appends
from replica_manager.replication.record_examinations import RecordExaminations
from replica_manager.server.dispatch import respond
from tests.support.broker_world import BrokerWorld
from tests.support.frames import request_header
from tests.support.hostile_batches import Hostile, block, every_kind, packed_batch
from tests.support.log_world import batch
from tests.support.loop_holds import held
from tests.unit.replica_manager.server.produced import ORDERS, log_of, produce, request

LOOP_BOUND_MS = 60.0
"""Processor time of a callback; a slice of a check is one or two milliseconds of it."""

KINDS = every_kind()
SLOW = (
    "as many records as are allowed, of alternating lengths",
    "400,000 records in gzip",
)
"""Their checks take seconds, so that ``make attack`` runs them; the others have fewer records."""
HUNDRED = block([1000], 100)
"""A block of 100,000 bytes, and its count of records."""


@pytest.fixture
def world(executor: ThreadPoolExecutor, tmp_path: Path) -> BrokerWorld:
    world = BrokerWorld(executor, log_dirs=[tmp_path / "data"])
    world.lead("orders")
    return world


def long_records(count: int = 20_000, producer: tuple[int, int, int] = (-1, -1, -1)) -> bytes:
    """A batch whose check does not end at once."""
    return packed_batch(*block([0, 0, 1, 1], count), Codec.ZSTD, producer)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(make, id=name, marks=[pytest.mark.attack] if name in SLOW else [])
        for name, make in KINDS.items()
    ],
)
def test_a_batch_that_holds_much_work_does_not_hold_the_loop(
    world: BrokerWorld, make: Callable[[], Hostile]
) -> None:
    hostile = make()
    with LoopWatch(LOOP_BOUND_MS).installed() as watch:
        response = produce(world, hostile.data, version=hostile.version)

    assert response.error_code is hostile.error
    assert (log_of(world).log_end_offset > 0) == (hostile.error is ErrorCode.none)
    assert held(watch) == []


async def test_others_are_served_while_a_batch_is_checked(world: BrokerWorld) -> None:
    turns = 0
    checking = asyncio.ensure_future(world.ask(request(long_records(100_000))))
    while not checking.done():
        await asyncio.sleep(0.001)
        turns += 1

    assert turns > 5


@pytest.mark.parametrize(
    "config",
    [
        LogConfig(codec=Codec.GZIP),
        LogConfig(is_compacted=True),
        LogConfig(timestamp_after_max_ms=9),
    ],
    ids=["another codec", "keys", "timestamps"],
)
def test_a_rule_that_needs_values_is_kept_off_the_loop_too(
    world: BrokerWorld, config: LogConfig
) -> None:
    log_of(world).update_config(config)

    with LoopWatch(LOOP_BOUND_MS).installed() as watch:
        response = produce(world, packed_batch(*block([0, 1], 30_000, b"k"), Codec.ZSTD))

    assert response.error_code is ErrorCode.none
    assert held(watch) == []


def test_more_records_than_are_allowed_are_refused_by_the_header_alone(world: BrokerWorld) -> None:
    records = packed_batch(b"", MOST_RECORDS + 1, Codec.NONE)

    assert produce(world, records).error_code is ErrorCode.message_too_large


@pytest.mark.parametrize(
    ("records", "allowed", "first"),
    [
        (packed_batch(*HUNDRED, Codec.GZIP), {"unpacked_bytes": 150_000}, ErrorCode.none),
        # It is unpacked before it is found to be short of a record.
        (
            packed_batch(HUNDRED[0], HUNDRED[1] + 1, Codec.GZIP),
            {"unpacked_bytes": 150_000},
            ErrorCode.invalid_record,
        ),
        (packed_batch(*HUNDRED, Codec.GZIP), {"records": 150}, ErrorCode.none),
        (packed_batch(*HUNDRED, Codec.NONE), {"records": 150}, ErrorCode.none),
    ],
    ids=["unpacked bytes", "unpacked bytes of what is refused", "records", "uncompressed records"],
)
def test_the_batches_of_one_request_are_bounded_together(
    world: BrokerWorld,
    monkeypatch: pytest.MonkeyPatch,
    records: bytes,
    allowed: dict[str, int],
    first: ErrorCode,
) -> None:
    monkeypatch.setattr(record_appends, "Allowance", partial(Allowance, **allowed))
    tps = [TopicPartition("orders", 0), TopicPartition("bills", 0), TopicPartition("notes", 0)]
    for tp in tps[1:]:
        world.lead(tp.topic)

    appended = asyncio.run(
        world.appends.append_records(
            dict.fromkeys(tps, MemoryRecords(records)), acks=1, timeout_ms=1000
        )
    )

    assert [appended.outcomes[tp].error for tp in tps] == [
        first,
        ErrorCode.message_too_large,
        ErrorCode.message_too_large,
    ]


async def test_pipelined_requests_of_an_idempotent_producer_stay_in_order(
    world: BrokerWorld,
) -> None:
    """The first takes long and the second does not: a second one that overtakes is refused."""
    first = long_records(producer=(7, 0, 0))
    count = 20_000
    second = batch(3, producer_id=7, producer_epoch=0, base_sequence=count)

    ours, theirs = socket.socketpair()
    for each in (ours, theirs):
        each.setblocking(False)
    connection = ClientConnection(
        theirs,
        "127.0.0.1",
        "PLAINTEXT",
        max_request_bytes=100_000_000,
        max_idle_s=60,
        respond=partial(respond, broker=world.context),
    )
    serving = asyncio.ensure_future(connection.serve())
    loop = asyncio.get_running_loop()
    for number, records in enumerate((first, second)):
        head = request_header(ApiKey.PRODUCE, 11, number, "client")
        await loop.sock_sendall(ours, frame((head, write(request(records)))))
    responses = [await one_answer(ours) for _ in range(2)]
    ours.close()
    await serving

    assert [number for number, _ in responses] == [0, 1]
    assert [each.error_code for _, each in responses] == [ErrorCode.none, ErrorCode.none]
    assert [each.base_offset for _, each in responses] == [0, count]


async def one_answer(sock: socket.socket) -> tuple[int, Any]:
    async def exactly(size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += await asyncio.get_running_loop().sock_recv(sock, size - len(data))
        return data

    (size,) = struct.unpack(">i", await exactly(4))
    data = await exactly(size)
    response: Any = read_response(ApiKey.PRODUCE, 11, data, 5)
    return struct.unpack_from(">i", data)[0], response.responses[0].partition_responses[0]


async def test_a_leader_that_is_deposed_during_the_check_appends_nothing(
    world: BrokerWorld,
) -> None:
    asking = asyncio.ensure_future(world.ask(request(long_records())))
    await asyncio.sleep(0)
    world.lead("orders", leader=2, isr=(2,), leader_epoch=9)
    assert (await asking).responses[0].partition_responses[
        0
    ].error_code is ErrorCode.not_leader_or_follower
    assert log_of(world).log_end_offset == 0


async def test_a_check_whose_client_has_gone_stops_at_its_next_pause() -> None:
    has_begun, may_go_on, has_ended = Event(), Event(), Event()

    def endless() -> Generator[None, None, Examined | None]:
        try:
            yield
            has_begun.set()
            may_go_on.wait()
            while True:
                yield
        finally:
            has_ended.set()

    asking = asyncio.ensure_future(RecordExaminations().ended(endless()))
    await asyncio.to_thread(has_begun.wait)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    may_go_on.set()

    assert has_ended.wait(30)


def test_a_failure_in_the_thread_is_the_failure_of_the_one_append(world: BrokerWorld) -> None:
    broken = packed_batch(block([0, 0, 1, 1], 20_000)[0][:-1], 20_000, Codec.ZSTD)

    assert produce(world, broken).error_code is ErrorCode.invalid_record
    assert produce(world, long_records()).error_code is ErrorCode.none
    assert log_of(world, ORDERS).log_end_offset == 20_000
