"""Log directories as brokers describe them, and moves of replicas between log directories.

DescribeLogDirs has the size of the volume since Kafka 3.3.  Before version 3 an empty list of
directories means that the client is not authorized.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from kio.schema.alter_replica_log_dirs.v2 import request as alter_log_dirs
from kio.schema.alter_replica_log_dirs.v2.response import AlterReplicaLogDirsResponse
from kio.schema.describe_log_dirs.v4.request import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from kio.schema.describe_log_dirs.v4.response import (
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i32

from kafka_common.errors import ZkControllerError
from kafka_common.net.client_security import ClientSecurity
from zkcontroller_cli.console.errors import CannotConnect, Refused
from zkcontroller_cli.console.options import Bootstrap
from zkcontroller_cli.values.moves import NamedPartition
from zkcontroller_cli.wire.logs import addresses_in, ask_broker
from zkcontroller_cli.wire.requests import BrokerAddress, Deadline, metadata
from zkcontroller_cli.wire.versions import BrokerConnection

NOT_ALIVE: Final = "not alive"
_Partition = tuple[str, int]


class LogDirReplica(NamedTuple):
    """One replica's log in a log directory."""

    topic: str
    partition: int
    size_bytes: int
    offset_lag: int
    is_future: bool
    """Whether the replica is being moved to this directory."""

    @property
    def name(self) -> NamedPartition:
        """Topic and partition of the replica."""
        return NamedPartition(self.topic, self.partition)


class LogDirReading(NamedTuple):
    """One log directory of a broker, as the broker describes it."""

    broker_id: int
    log_dir: str
    error: str | None
    total_bytes: int | None
    usable_bytes: int | None
    """Size and free space of the volume; None from a broker before Kafka 3.3."""
    replicas: tuple[LogDirReplica, ...]


class HostedReplica(NamedTuple):
    """The replica of a partition on one broker."""

    broker_id: int
    topic: str
    partition: int


class LogDirsOfBrokers(NamedTuple):
    """The log directories of the brokers that answered; by other broker, why it did not."""

    log_dirs: list[LogDirReading]
    unread: dict[int, str]


async def log_dirs_of(
    bootstrap: Bootstrap, deadline: Deadline, broker_ids: Sequence[int]
) -> list[LogDirReading]:
    """The log directories of those brokers, or of all live brokers if none is named.

    Refused if one of them is not alive or does not authorize the client, CannotConnect if it is not
    reached.
    """
    known = await metadata(bootstrap, deadline, ())
    addresses = addresses_in(known)
    for broker_id in broker_ids:
        if broker_id not in addresses:
            raise Refused(
                f"the brokers do not know broker {broker_id}; zkctl broker list shows all"
            )
    wanted = sorted(broker_ids or addresses)
    responses = await asyncio.gather(
        *(_asked(addresses[each], deadline, bootstrap.security, each, None) for each in wanted)
    )
    found = []
    for response in responses:
        if isinstance(response, ZkControllerError):
            raise response
        found += response
    return found


async def readable_log_dirs(
    addresses: Mapping[int, BrokerAddress],
    deadline: Deadline,
    security: ClientSecurity,
    wanted: Mapping[int, Sequence[_Partition] | None],
) -> LogDirsOfBrokers:
    """The log directories of the brokers in ``wanted``, with those partitions (None: with all)."""
    responses = await asyncio.gather(
        *(
            _asked(addresses.get(broker), deadline, security, broker, partitions)
            for broker, partitions in wanted.items()
        )
    )
    found, unread = [], {}
    for broker, response in zip(wanted, responses, strict=True):
        if broker not in addresses:
            unread[broker] = NOT_ALIVE
        elif isinstance(response, ZkControllerError):
            unread[broker] = str(response)
        else:
            found += response
    return LogDirsOfBrokers(found, unread)


async def replica_sizes(
    connection: BrokerConnection, partitions: Sequence[_Partition] | None = None
) -> dict[_Partition, int]:
    """The size in bytes of the broker's replicas, without those that it does not have.

    ``partitions``: None for all.  A replica that is being moved to another log directory has the
    size in its current one.  Refused if the client is not authorized.
    """
    results = await described_log_dirs(connection, partitions)
    if not results:  # before version 3 there is no code for the whole response
        raise Refused("it does not tell: CLUSTER_AUTHORIZATION_FAILED")
    return {
        (str(topic.name), int(each.partition_index)): int(each.partition_size)
        for result in results
        for topic in result.topics
        for each in topic.partitions
        if not each.is_future_key
    }


class ReplicasLeft(NamedTuple):
    """Which of the requested replicas a broker still has, and its log directories that failed."""

    sizes: Mapping[_Partition, int]
    log_dir_errors: tuple[str, ...]


async def replicas_left(
    connection: BrokerConnection, partitions: Sequence[_Partition]
) -> ReplicasLeft:
    """Which of these replicas the broker has in any log directory, with their size in bytes.

    Refused if the client is not authorized.
    """
    results = await described_log_dirs(connection, partitions)
    if not results:  # before version 3 there is no code for the whole response
        raise Refused("it does not tell: CLUSTER_AUTHORIZATION_FAILED")
    return ReplicasLeft(
        {
            (str(topic.name), int(each.partition_index)): int(each.partition_size)
            for result in results
            for topic in result.topics
            for each in topic.partitions
        },
        tuple(
            f"{result.log_dir}: {result.error_code.name.upper()}"
            for result in results
            if result.error_code is not ErrorCode.none
        ),
    )


async def move_to_log_dirs(
    bootstrap: Bootstrap, deadline: Deadline, wanted: Mapping[HostedReplica, str]
) -> dict[HostedReplica, str | None]:
    """Ask brokers to move replicas to log directories; by replica the error, None if accepted.

    REPLICA_NOT_AVAILABLE: the broker does not have the replica yet, and will create it there.
    """
    addresses = addresses_in(await metadata(bootstrap, deadline, ()))
    by_broker: defaultdict[int, dict[HostedReplica, str]] = defaultdict(dict)
    for replica, path in wanted.items():
        by_broker[replica.broker_id][replica] = path

    def asking(
        those: Mapping[HostedReplica, str],
    ) -> Callable[[BrokerConnection], Awaitable[dict[HostedReplica, str | None]]]:
        return lambda connection: _altered(connection, those)

    responses = await asyncio.gather(
        *(
            ask_broker(addresses.get(broker), deadline, bootstrap.security, asking(those))
            for broker, those in by_broker.items()
        )
    )
    found: dict[HostedReplica, str | None] = {}
    for (broker, those), response in zip(by_broker.items(), responses, strict=True):
        if isinstance(response, CannotConnect):
            why = NOT_ALIVE if broker not in addresses else str(response)
            found |= dict.fromkeys(those, f"broker {broker}: {why}")
        else:
            found |= response
    return found


async def _asked(
    address: BrokerAddress | None,
    deadline: Deadline,
    security: ClientSecurity,
    broker_id: int,
    partitions: Sequence[_Partition] | None,
) -> list[LogDirReading] | ZkControllerError:
    try:
        results = await ask_broker(
            address,
            deadline,
            security,
            lambda connection: described_log_dirs(connection, partitions),
        )
    except ZkControllerError as error:
        return error
    if isinstance(results, CannotConnect):
        return results
    if not results:
        return Refused(
            f"broker {broker_id} does not tell: CLUSTER_AUTHORIZATION_FAILED; the principal "
            "needs Describe on the cluster"
        )
    return sorted(_reading(broker_id, each) for each in results)


async def described_log_dirs(
    connection: BrokerConnection, partitions: Sequence[_Partition] | None = None
) -> Sequence[DescribeLogDirsResult]:
    """The broker's log directories with the logs of those partitions (None: of all).

    Empty if the client is not authorized.
    """
    response = await connection.request(DescribeLogDirsRequest(topics=_named(partitions)))
    assert isinstance(response, DescribeLogDirsResponse), "request() answers in kind"
    return response.results


def _named(partitions: Iterable[_Partition] | None) -> tuple[DescribableLogDirTopic, ...] | None:
    if partitions is None:
        return None
    by_topic: defaultdict[str, list[i32]] = defaultdict(list)
    for topic, partition in partitions:
        by_topic[topic].append(i32(partition))
    return tuple(
        DescribableLogDirTopic(topic=TopicName(topic), partitions=tuple(those))
        for topic, those in by_topic.items()
    )


def _reading(broker_id: int, described: DescribeLogDirsResult) -> LogDirReading:
    is_described = described.error_code is ErrorCode.none
    return LogDirReading(
        broker_id,
        described.log_dir,
        None if is_described else described.error_code.name.upper(),
        int(described.total_bytes) if described.total_bytes >= 0 else None,
        int(described.usable_bytes) if described.usable_bytes >= 0 else None,
        tuple(
            sorted(
                LogDirReplica(
                    str(topic.name),
                    int(each.partition_index),
                    int(each.partition_size),
                    int(each.offset_lag),
                    bool(each.is_future_key),
                )
                for topic in described.topics
                for each in topic.partitions
            )
        ),
    )


async def _altered(
    connection: BrokerConnection, wanted: Mapping[HostedReplica, str]
) -> dict[HostedReplica, str | None]:
    broker_id = next(iter(wanted)).broker_id
    by_dir: defaultdict[str, defaultdict[str, list[i32]]] = defaultdict(lambda: defaultdict(list))
    for replica, path in wanted.items():
        by_dir[path][replica.topic].append(i32(replica.partition))
    response = await connection.request(
        alter_log_dirs.AlterReplicaLogDirsRequest(
            dirs=tuple(
                alter_log_dirs.AlterReplicaLogDir(
                    path=path,
                    topics=tuple(
                        alter_log_dirs.AlterReplicaLogDirTopic(
                            name=TopicName(topic), partitions=tuple(partitions)
                        )
                        for topic, partitions in topics.items()
                    ),
                )
                for path, topics in by_dir.items()
            )
        )
    )
    assert isinstance(response, AlterReplicaLogDirsResponse), "request() answers in kind"
    answered = {
        HostedReplica(broker_id, str(topic.topic_name), int(each.partition_index)): each.error_code
        for topic in response.results
        for each in topic.partitions
    }
    return {
        replica: None
        if (code := answered.get(replica, ErrorCode.unknown_server_error)) is ErrorCode.none
        else code.name.upper()
        for replica in wanted
    }
