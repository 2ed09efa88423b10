"""Log offsets from the leaders, and log directories from every broker.

DescribeLogDirs is asked in version 2, where an empty list is a refusal.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from kio.schema.describe_log_dirs.v2.request import DescribeLogDirsRequest
from kio.schema.describe_log_dirs.v2.response import (
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v6 import request as list_offsets
from kio.schema.list_offsets.v6.response import ListOffsetsResponse
from kio.schema.metadata.v12.response import MetadataResponse
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i64

from zkcontroller.net.client_security import ClientSecurity

from .errors import CannotConnect, Refused
from .options import Bootstrap
from .wire import BrokerAddress, Deadline, connected, error_text, metadata
from .wire_versions import BrokerConnection

_NO_LEADER: Final = -1
_CLIENT: Final = -1
_READ_UNCOMMITTED: Final = 0
_EARLIEST, _LATEST = -2, -1

_Partition = tuple[str, int]
_T = TypeVar("_T")


async def topic_offsets(
    bootstrap: Bootstrap, deadline: Deadline, topics: Sequence[str] | None
) -> list[dict[str, Any]]:
    """Where each partition begins and ends, in rows; Refused if there is no such topic."""
    known = await metadata(bootstrap, deadline, topics)
    for topic in known.topics:
        if topic.error_code is not ErrorCode.none:
            raise Refused(f"topic {topic.name}: {error_text(topic.error_code)}")
    leaders = {
        (str(topic.name), int(each.partition_index)): int(each.leader_id)
        for topic in known.topics
        for each in topic.partitions
    }
    led: defaultdict[int, list[_Partition]] = defaultdict(list)
    for partition, leader in leaders.items():
        led[leader].append(partition)
    led.pop(_NO_LEADER, None)
    addresses = _addresses(known)

    def asking(
        partitions: Sequence[_Partition],
    ) -> Callable[[BrokerConnection], Awaitable[_Bounds]]:
        return lambda connection: _bounds(connection, partitions)

    found: _Bounds = {}
    for answer in await asyncio.gather(
        *(
            _ask(addresses.get(leader), deadline, bootstrap.security, asking(partitions))
            for leader, partitions in led.items()
        )
    ):
        if isinstance(answer, dict):
            found |= answer
    return [
        _offsets_row(partition, leader, found.get(partition))
        for partition, leader in sorted(leaders.items())
    ]


_Bounds = dict[_Partition, tuple[int, int] | ErrorCode]


async def _bounds(connection: BrokerConnection, partitions: Sequence[_Partition]) -> _Bounds:
    """Earliest and latest offset of partitions that the broker leads, or its refusal."""
    asked: list[dict[_Partition, int | ErrorCode]] = []
    for timestamp in (_EARLIEST, _LATEST):
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
        asked.append(
            {
                (str(topic.name), int(each.partition_index)): (
                    int(each.offset) if each.error_code is ErrorCode.none else each.error_code
                )
                for topic in response.topics
                for each in topic.partitions
            }
        )
    earliest, latest = asked
    bounds: _Bounds = {}
    for each in partitions:
        first = earliest.get(each, ErrorCode.unknown_server_error)
        last = latest.get(each, ErrorCode.unknown_server_error)
        if isinstance(first, ErrorCode):
            bounds[each] = first
        elif isinstance(last, ErrorCode):
            bounds[each] = last
        else:
            bounds[each] = first, last
    return bounds


def _offsets_row(
    partition: _Partition, leader: int, found: tuple[int, int] | ErrorCode | None
) -> dict[str, Any]:
    first, last = found if isinstance(found, tuple) else (None, None)
    error = None
    if isinstance(found, ErrorCode):
        error = found.name.upper()
    elif found is None:
        error = (
            "LEADER_NOT_AVAILABLE" if leader == _NO_LEADER else f"broker {leader} is not reached"
        )
    return {
        "topic": partition[0],
        "partition": partition[1],
        "leader": leader,
        "earliest_offset": first,
        "latest_offset": last,
        "offset_count": None if first is None or last is None else last - first,
        "error": error,
    }


async def log_dirs(
    bootstrap: Bootstrap, deadline: Deadline, broker_ids: Sequence[int]
) -> list[dict[str, Any]]:
    """The log directories of those brokers, of all if none is named, in rows.

    Refused if one of them is not alive or does not tell, CannotConnect if it is not reached.
    """
    known = await metadata(bootstrap, deadline, ())
    addresses = _addresses(known)
    for broker_id in broker_ids:
        if broker_id not in addresses:
            raise Refused(f"the brokers do not know broker {broker_id}")
    wanted = sorted(broker_ids or addresses)
    answers = await asyncio.gather(
        *(
            _ask(addresses[broker_id], deadline, bootstrap.security, _described)
            for broker_id in wanted
        )
    )
    rows = []
    for broker_id, answer in zip(wanted, answers, strict=True):
        if isinstance(answer, CannotConnect):
            raise answer
        rows += [_log_dir_row(broker_id, each) for each in sorted(answer, key=lambda r: r.log_dir)]
        if not answer:  # version 2 has no code for the whole answer
            raise Refused(f"broker {broker_id} does not tell: CLUSTER_AUTHORIZATION_FAILED")
    return rows


async def _described(connection: BrokerConnection) -> Sequence[DescribeLogDirsResult]:
    response = await connection.request(DescribeLogDirsRequest(topics=None))
    assert isinstance(response, DescribeLogDirsResponse), "request() answers in kind"
    return response.results


def _log_dir_row(broker_id: int, told: DescribeLogDirsResult) -> dict[str, Any]:
    replicas = [each for topic in told.topics for each in topic.partitions]
    is_told = told.error_code is ErrorCode.none
    return {
        "broker_id": broker_id,
        "log_dir": told.log_dir,
        "replica_count": sum(not each.is_future_key for each in replicas) if is_told else None,
        "future_replica_count": sum(each.is_future_key for each in replicas) if is_told else None,
        "size_bytes": sum(each.partition_size for each in replicas) if is_told else None,
        "error": None if is_told else told.error_code.name.upper(),
    }


def _addresses(known: MetadataResponse) -> Mapping[int, BrokerAddress]:
    return {int(b.node_id): BrokerAddress(b.host, int(b.port)) for b in known.brokers}


async def _ask(
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
