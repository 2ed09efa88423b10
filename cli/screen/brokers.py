"""Asks brokers for ``zkctl top``: log sizes, groups and their lag; without ZooKeeper, everything.

Each broker has :data:`BROKER_S` for each kind of request.  A broker that does not answer or
refuses is a problem of the reading; the results of the other brokers are kept.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from kio.schema.errors import ErrorCode
from kio.schema.list_groups.v4.request import ListGroupsRequest
from kio.schema.list_groups.v4.response import ListGroupsResponse
from kio.schema.metadata.v12.response import MetadataResponse

from kafka_common.errors import ZkControllerError
from kafka_common.model import NO_LEADER, ReplicaAssignment
from kafka_common.net.client_security import ClientSecurity
from zkcontroller.zookeeper.znodes import PartitionStateZnode
from zkcontroller_cli.console.errors import CannotConnect, Refused, TimedOut
from zkcontroller_cli.coordinators.group_lag import lag_of
from zkcontroller_cli.screen.model import BrokerNow, GroupNow, Name
from zkcontroller_cli.values.moves import NamedPartition
from zkcontroller_cli.wire.admin import Ongoing
from zkcontroller_cli.wire.groups import WITHOUT_MEMBERS, committed_offsets
from zkcontroller_cli.wire.log_dirs import replica_sizes
from zkcontroller_cli.wire.logs import latest_offsets
from zkcontroller_cli.wire.requests import BrokerAddress, Deadline, connected
from zkcontroller_cli.wire.versions import BrokerConnection
from zkcontroller_cli.znodes.partitions import PartitionView

BROKER_S: Final = 5.0
"""Seconds a broker may take for all requests of one kind; a slower one is not asked again."""
GROUPS_A_BROKER: Final = 100
"""The most groups of each coordinator whose lag is read, those with members first."""
LAG_PARTITIONS: Final = 20_000
"""The most partitions whose high watermarks are asked for in one reading."""
_NOT_KNOWN_EPOCH: Final = -1

_T = TypeVar("_T")


@dataclass
class BrokersReading:
    """What the brokers answered; ``problems`` says which brokers failed, and why."""

    sizes: dict[int, dict[Name, int]] = field(default_factory=dict)
    moving_bytes: dict[tuple[int, Name], int] = field(default_factory=dict)
    groups: list[GroupNow] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


class BrokerReader:
    """Reads sizes of replicas, groups and lag from all brokers at once, into ``reading``."""

    def __init__(self, addresses: Mapping[int, BrokerAddress], security: ClientSecurity) -> None:
        self.reading = BrokersReading()
        self._addresses = addresses
        self._security = security
        self._silent: set[int] = set()
        """Brokers that did not answer a request; they are not asked again in this reading."""

    async def read_sizes(self) -> None:
        """Read the size of every replica in bytes."""
        self.reading.sizes = await self._ask_all(
            "sizes", dict.fromkeys(self._addresses, replica_sizes)
        )

    async def read_moving(self, moving: Mapping[int, Sequence[Name]]) -> None:
        """Read the sizes of those replicas in bytes; ``moving`` has them by broker."""

        def asking(names: Sequence[Name]) -> _Question[dict[Name, int]]:
            return lambda connection: replica_sizes(connection, names)

        questions = {b: asking(names) for b, names in moving.items() if b in self._addresses}
        for broker, sizes in (await self._ask_all("sizes of moves", questions)).items():
            for name, size in sizes.items():
                self.reading.moving_bytes[broker, name] = size

    async def read_groups(self, leaders: Callable[[Name], int | None]) -> None:
        """Read every group, and the lag of as many as the bounds allow.

        ``leaders`` returns the leader of a partition, None if it is not known.
        """
        answered = await self._ask_all("groups", dict.fromkeys(self._addresses, _groups))
        committed = {
            group.group: offsets
            for groups in answered.values()
            for group, offsets in groups
            if offsets is not None
        }
        wanted = dict.fromkeys(name for offsets in committed.values() for name in offsets)
        led: defaultdict[int, list[Name]] = defaultdict(list)
        for name in list(wanted)[:LAG_PARTITIONS]:
            leader = leaders(name)
            if leader is not None and leader in self._addresses:
                led[leader].append(name)

        def asking(names: Sequence[Name]) -> _Question[dict[Name, int | ErrorCode]]:
            return lambda connection: latest_offsets(connection, names)

        ends: dict[Name, int | ErrorCode] = {}
        for response in (
            await self._ask_all("ends of logs", {b: asking(names) for b, names in led.items()})
        ).values():
            ends |= response
        for broker, groups in sorted(answered.items()):
            for group, offsets in groups:
                self.reading.groups.append(_with_lag(group, broker, offsets, ends))

    async def _ask_all(self, what: str, questions: Mapping[int, _Question[_T]]) -> dict[int, _T]:
        asked = {b: ask for b, ask in questions.items() if b not in self._silent}
        responses = await asyncio.gather(*(self._ask(broker, ask) for broker, ask in asked.items()))
        answered = {}
        for broker, response in zip(asked, responses, strict=True):
            if isinstance(response, ZkControllerError):
                if isinstance(response, (CannotConnect, TimedOut)):
                    self._silent.add(broker)
                self.reading.problems.append(f"broker {broker}, {what}: {response}")
            else:
                answered[broker] = response
        return answered

    async def _ask(self, broker: int, ask: _Question[_T]) -> _T | ZkControllerError:
        deadline = Deadline(BROKER_S)
        try:
            async with connected([self._addresses[broker]], deadline, self._security) as connection:
                async with asyncio.timeout(deadline.left_s):
                    return await ask(connection)
        except ZkControllerError as error:
            return error


_Question = Callable[[BrokerConnection], Awaitable[_T]]
_Committed = Mapping[NamedPartition, int]


async def _groups(connection: BrokerConnection) -> list[tuple[GroupNow, _Committed | None]]:
    """The groups that the broker coordinates, with their committed offsets.

    None instead of the offsets of a group whose offsets were not asked for or refused.
    """
    response = await connection.request(ListGroupsRequest())
    assert isinstance(response, ListGroupsResponse), "request() answers in kind"
    if response.error_code is not ErrorCode.none:
        refusal = response.error_code.name.upper()
        raise Refused(f"it does not tell: {refusal}")
    groups = sorted(
        (
            GroupNow(str(each.group_id), -1, str(each.group_state) or None, each.protocol_type)
            for each in response.groups
        ),
        key=lambda group: (group.state in WITHOUT_MEMBERS, group.group),
    )
    found: list[tuple[GroupNow, _Committed | None]] = []
    for number, group in enumerate(groups):
        if number >= GROUPS_A_BROKER:
            note = f"not asked: the coordinator has more than {GROUPS_A_BROKER} groups"
            found.append((group._replace(note=note), None))
            continue
        code, committed = await committed_offsets(connection, group.group)
        if code is not ErrorCode.none:
            found.append((group._replace(note=code.name.upper()), None))
            continue
        found.append((group, committed))
    return found


def _with_lag(
    group: GroupNow,
    coordinator: int,
    committed: _Committed | None,
    ends: Mapping[Name, int | ErrorCode],
) -> GroupNow:
    group = group._replace(coordinator=coordinator)
    if committed is None:
        return group
    lags = [
        lag
        for name, offset in committed.items()
        if isinstance(end := ends.get(name), int) and (lag := lag_of(offset, end)) is not None
    ]
    return group._replace(
        partitions=len(committed), lag=sum(lags), unknown=len(committed) - len(lags)
    )


def brokers_of(known: MetadataResponse) -> dict[int, BrokerNow]:
    """The live brokers of a Metadata response."""
    return {
        int(broker.node_id): BrokerNow(
            int(broker.node_id), broker.host, int(broker.port), broker.rack
        )
        for broker in known.brokers
    }


def partitions_of(known: MetadataResponse, ongoing: Sequence[Ongoing]) -> dict[Name, PartitionView]:
    """The partitions of a Metadata response, with the reassignments in progress.

    Metadata shows a dead leader as -1.  It has neither the controller epoch of a state (-1 here)
    nor the version of its znode (None).
    """
    moves = {(move.topic, move.partition): move for move in ongoing}
    views = {}
    for topic in known.topics:
        for each in topic.partitions:
            name = (str(topic.name), int(each.partition_index))
            move = moves.get(name)
            replicas = tuple(map(int, each.replica_nodes))
            assignment = (
                ReplicaAssignment(replicas)
                if move is None
                else ReplicaAssignment(move.replicas, move.adding_replicas, move.removing_replicas)
            )
            leader = int(each.leader_id)
            state = PartitionStateZnode(
                leader,
                int(each.leader_epoch),
                tuple(map(int, each.isr_nodes)),
                _NOT_KNOWN_EPOCH,
            )
            views[name] = PartitionView(*name, assignment, state, None, leader != NO_LEADER)
    return views
