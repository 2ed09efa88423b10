"""DeleteRecords: the leaders raise their log start offsets, and their followers do the same."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Mapping
from typing import NamedTuple, TypeAlias

from kio.schema.delete_records.v2 import request as delete_records
from kio.schema.delete_records.v2.response import DeleteRecordsResponse
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12.response import MetadataResponse
from kio.schema.types import TopicName
from kio.static.primitive import i32, i64

from zkcontroller_cli.console.errors import TimedOut
from zkcontroller_cli.console.options import Bootstrap
from zkcontroller_cli.values.moves import NamedPartition
from zkcontroller_cli.wire.logs import addresses_in, ask_broker, leaders_in
from zkcontroller_cli.wire.requests import Deadline, error_text, timeout_of
from zkcontroller_cli.wire.versions import BrokerConnection


class RecordsDeleted(NamedTuple):
    """The result of DeleteRecords for one partition."""

    low_watermark: int | None
    """The lowest log start offset of all live replicas; None if the deletion failed."""
    error: str | None = None
    reason: str | None = None


_Deleted: TypeAlias = dict[NamedPartition, RecordsDeleted]


async def delete_records_before(
    bootstrap: Bootstrap,
    deadline: Deadline,
    known: MetadataResponse,
    offsets: Mapping[NamedPartition, int],
) -> dict[NamedPartition, RecordsDeleted]:
    """Delete the records before the offset of each partition; -1 means the high watermark."""
    leaders, addresses = leaders_in(known), addresses_in(known)
    led: defaultdict[int, dict[NamedPartition, int]] = defaultdict(dict)
    for partition, offset in offsets.items():
        led[leaders.get(partition, -1)][partition] = offset

    async def ask(leader: int, those: Mapping[NamedPartition, int]) -> _Deleted:
        def delete(connection: BrokerConnection) -> Awaitable[_Deleted]:
            return _delete(connection, deadline, those)

        try:
            response = await ask_broker(addresses.get(leader), deadline, bootstrap.security, delete)
        except TimedOut as error:
            # The results of the other leaders must not be lost.
            return dict.fromkeys(those, RecordsDeleted(None, "REQUEST_TIMED_OUT", str(error)))
        if isinstance(response, dict):
            return response
        reason = f"broker {leader}: {response}"
        return dict.fromkeys(those, RecordsDeleted(None, "LEADER_NOT_AVAILABLE", reason))

    responses = await asyncio.gather(*(ask(leader, those) for leader, those in led.items()))
    return {partition: each for response in responses for partition, each in response.items()}


async def _delete(
    connection: BrokerConnection, deadline: Deadline, offsets: Mapping[NamedPartition, int]
) -> _Deleted:
    topics: defaultdict[str, list[delete_records.DeleteRecordsPartition]] = defaultdict(list)
    for (topic, partition), offset in offsets.items():
        topics[topic].append(
            delete_records.DeleteRecordsPartition(
                partition_index=i32(partition), offset=i64(offset)
            )
        )
    response = await connection.request(
        delete_records.DeleteRecordsRequest(
            topics=tuple(
                delete_records.DeleteRecordsTopic(name=TopicName(name), partitions=tuple(those))
                for name, those in topics.items()
            ),
            timeout=timeout_of(deadline),
        )
    )
    assert isinstance(response, DeleteRecordsResponse), "request() answers in kind"
    answered = {
        NamedPartition(str(topic.name), int(each.partition_index)): each
        for topic in response.topics
        for each in topic.partitions
    }
    missing = RecordsDeleted(None, "UNKNOWN_SERVER_ERROR", "the broker did not answer for it")
    return {
        partition: missing
        if (each := answered.get(partition)) is None
        else RecordsDeleted(int(each.low_watermark))
        if each.error_code is ErrorCode.none
        else RecordsDeleted(None, each.error_code.name.upper(), error_text(each.error_code))
        for partition in offsets
    }
