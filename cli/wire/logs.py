"""Reads log offsets from the leaders of partitions."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v9 import request as list_offsets
from kio.schema.list_offsets.v9.response import ListOffsetsResponse
from kio.schema.metadata.v12.response import MetadataResponse
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i64

from kafka_common.net.client_security import ClientSecurity
from zkcontroller_cli.console.errors import CannotConnect
from zkcontroller_cli.console.options import Bootstrap
from zkcontroller_cli.values.moves import NamedPartition
from zkcontroller_cli.wire.requests import BrokerAddress, Deadline, connected
from zkcontroller_cli.wire.versions import BrokerConnection

_NO_LEADER: Final = -1
_CLIENT: Final = -1
_READ_UNCOMMITTED: Final = 0
EARLIEST: Final = -2
LATEST: Final = -1
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
"""Special timestamps of ListOffsets.

In this order: the log start offset, the high watermark, the record with the highest timestamp, the
first offset on the leader's disk, and the last offset in tiered storage.
"""

_T = TypeVar("_T")
_Partition = tuple[str, int]
_Answer = dict[NamedPartition, tuple[int, ...] | ErrorCode]


def leaders_in(known: MetadataResponse) -> dict[NamedPartition, int]:
    """By partition the broker id of its leader; -1 if it has none."""
    return {
        NamedPartition(str(topic.name), int(each.partition_index)): int(each.leader_id)
        for topic in known.topics
        for each in topic.partitions
    }


async def offsets_at(
    bootstrap: Bootstrap,
    deadline: Deadline,
    known: MetadataResponse,
    partitions: Sequence[NamedPartition],
    timestamps: Sequence[int],
) -> dict[NamedPartition, tuple[int, ...] | str]:
    """By partition one offset for each timestamp, or the reason why they are not known.

    A timestamp is one of the constants above, or milliseconds since 1970.  For milliseconds the
    offset is that of the first record not older than them, or -1 if there is none.
    """
    leaders = leaders_in(known)
    led: defaultdict[int, list[NamedPartition]] = defaultdict(list)
    for partition in partitions:
        led[leaders.get(partition, _NO_LEADER)].append(partition)
    led.pop(_NO_LEADER, None)
    addresses = addresses_in(known)

    def asking(those: Sequence[NamedPartition]) -> Callable[[BrokerConnection], Awaitable[_Answer]]:
        return lambda connection: _offsets(connection, those, timestamps)

    found: _Answer = {}
    for response in await asyncio.gather(
        *(
            ask_broker(addresses.get(leader), deadline, bootstrap.security, asking(those))
            for leader, those in led.items()
        )
    ):
        if isinstance(response, dict):
            found |= response
    return {each: _offsets_or_reason(leaders.get(each), found.get(each)) for each in partitions}


def _offsets_or_reason(
    leader: int | None, found: tuple[int, ...] | ErrorCode | None
) -> tuple[int, ...] | str:
    if isinstance(found, tuple):
        return found
    if isinstance(found, ErrorCode):
        return found.name.upper()
    if leader is None:
        return "UNKNOWN_TOPIC_OR_PARTITION"
    return "LEADER_NOT_AVAILABLE" if leader == _NO_LEADER else f"broker {leader} is not reached"


async def _offsets(
    connection: BrokerConnection, partitions: Sequence[NamedPartition], timestamps: Sequence[int]
) -> _Answer:
    """By partition that the broker leads, one offset for each timestamp, or its error code."""
    found: _Answer = dict.fromkeys(partitions, ())
    for timestamp in timestamps:
        topics: defaultdict[str, list[list_offsets.ListOffsetsPartition]] = defaultdict(list)
        for topic, partition in partitions:
            topics[topic].append(
                list_offsets.ListOffsetsPartition(
                    partition_index=i32(partition), timestamp=i64(timestamp)
                )
            )
        response = await connection.request(
            list_offsets.ListOffsetsRequest(
                replica_id=BrokerId(_CLIENT),
                isolation_level=i8(_READ_UNCOMMITTED),
                topics=tuple(
                    list_offsets.ListOffsetsTopic(name=TopicName(name), partitions=tuple(those))
                    for name, those in topics.items()
                ),
            )
        )
        assert isinstance(response, ListOffsetsResponse), "request() answers in kind"
        answered = {
            NamedPartition(str(topic.name), int(each.partition_index)): each
            for topic in response.topics
            for each in topic.partitions
        }
        for each in partitions:
            before, now = found[each], answered.get(each)
            if isinstance(before, ErrorCode):
                continue
            if now is None:
                found[each] = ErrorCode.unknown_server_error
            elif now.error_code is not ErrorCode.none:
                found[each] = now.error_code
            else:
                found[each] = (*before, int(now.offset))
    return found


async def latest_offsets(
    connection: BrokerConnection, partitions: Sequence[_Partition]
) -> dict[_Partition, int | ErrorCode]:
    """By partition that the broker leads, its high watermark, or the broker's error code."""
    found = await _offsets(connection, [NamedPartition(*each) for each in partitions], (LATEST,))
    return {each: at if isinstance(at, ErrorCode) else at[0] for each, at in found.items()}


def addresses_in(known: MetadataResponse) -> Mapping[int, BrokerAddress]:
    """By broker id, the address where the broker listens."""
    return {int(b.node_id): BrokerAddress(b.host, int(b.port)) for b in known.brokers}


async def ask_broker(
    address: BrokerAddress | None,
    deadline: Deadline,
    security: ClientSecurity,
    ask: Callable[[BrokerConnection], Awaitable[_T]],
) -> _T | CannotConnect:
    """A broker's response, or the reason why it cannot be reached."""
    if address is None:
        return CannotConnect("its address is not known")
    try:
        async with connected([address], deadline, security) as connection:
            return await ask(connection)
    except CannotConnect as error:
        return error
