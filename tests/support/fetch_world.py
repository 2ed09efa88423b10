"""A broker that is asked to fetch: requests, answers, and what happens while one waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.static.primitive import i32Timedelta

from kafka_common.model import TopicPartition
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.legacy_messages import iterate_any
from kafka_common.protocol.record_batch import MemoryRecords, iterate_batches
from kafka_common.protocol.versioned_messages import request_schema
from replica_manager.log.unified_log import UnifiedLog
from tests.support.broker_world import BrokerWorld
from tests.support.log_world import batch

ORDERS = TopicPartition("orders", 0)
ORDERS_ID = UUID(int=7)
NEWEST = 17


def made(executor: ThreadPoolExecutor, log_dir: Path, **properties: str) -> BrokerWorld:
    """A broker at a time when no one who has never fetched counts as caught up."""
    world = BrokerWorld(executor, log_dirs=[log_dir], **properties)
    world.now_ms = 1_000_000
    return world


def request(
    *partitions: tuple[int, int],
    version: int = NEWEST,
    topic: str = "orders",
    topic_id: UUID | None = ORDERS_ID,
    replica_id: int = -1,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 10_000,
    partition_max_bytes: int = 10_000,
    leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
    is_read_committed: bool = False,
    session: tuple[int, int] = (0, -1),
    rack_id: str = "",
    forgotten: Sequence[int] = (),
) -> Any:
    """``partitions`` are numbers and offsets."""
    schema = request_schema(ApiKey.FETCH, version)
    values: dict[str, Any] = {}
    if schema.has("ReplicaState"):
        values["replica_state"] = schema.part(
            "ReplicaState", replica_id=replica_id, replica_epoch=9
        )
    return schema.request(
        replica_id=replica_id,
        max_wait=i32Timedelta.parse(timedelta(milliseconds=max_wait_ms)),
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=int(is_read_committed),
        session_id=session[0],
        session_epoch=session[1],
        rack_id=rack_id,
        topics=()
        if not partitions
        else (
            schema.part(
                "FetchTopic",
                topic=topic,
                topic_id=topic_id,
                partitions=tuple(
                    schema.part(
                        "FetchPartition",
                        partition=partition,
                        current_leader_epoch=leader_epoch,
                        fetch_offset=offset,
                        last_fetched_epoch=last_fetched_epoch,
                        log_start_offset=0,
                        partition_max_bytes=partition_max_bytes,
                    )
                    for partition, offset in partitions
                ),
            ),
        ),
        forgotten_topics_data=(
            ()
            if not forgotten
            else (
                schema.part(
                    "ForgottenTopic", topic=topic, topic_id=topic_id, partitions=tuple(forgotten)
                ),
            )
        ),
        **values,
    )


def ask(world: BrokerWorld, asked: Any) -> Any:
    return asyncio.run(world.ask(asked))


def fetch(world: BrokerWorld, *partitions: tuple[int, int], **how: Any) -> list[Any]:
    """The answers for the partitions of the one topic."""
    response = ask(world, request(*(partitions or ((0, 0),)), **how))
    return [answer for topic in response.responses for answer in topic.partitions]


def log_of(world: BrokerWorld, tp: TopicPartition = ORDERS) -> UnifiedLog:
    log = world.logs.log(tp)
    assert log is not None
    return log


def fill(world: BrokerWorld, *counts: int, tp: TopicPartition = ORDERS, size: int = 10) -> None:
    """Appends a batch of each count, as a producer would."""
    for count in counts:
        appended = asyncio.run(
            world.appends.append_records(
                {tp: MemoryRecords(batch(count, size=size))}, acks=1, timeout_ms=1
            )
        )
        assert appended.outcomes[tp].error is ErrorCode.none


def offsets(records: bytes) -> list[int]:
    return [
        record.offset
        for position, header in iterate_batches(records)
        for record in iterate_any(records, position, header)
    ]


async def _while_waiting(world: BrokerWorld, asked: Any, do: Callable[[], Any]) -> Any:
    answer = asyncio.create_task(world.ask(asked))
    while not len(world.reads.waiting):
        assert not answer.done(), answer.result()
        await asyncio.sleep(0)
    outcome = do()
    if outcome is not None:
        await outcome
    response = await answer
    assert len(world.reads.waiting) == 0
    return response.responses[0].partitions[0]


def waiting(world: BrokerWorld, do: Callable[[], Any], *where: tuple[int, int], **how: Any) -> Any:
    """The answer to a request that waits until ``do`` is done."""
    asked = request(*where, max_wait_ms=60_000, **how)
    return asyncio.run(_while_waiting(world, asked, do))
