"""A group coordinator with everything around it: clients, a log, and a clock that tests move.

``pass_ms`` lets time go by and steps a Tick at every deadline, as a driver does.  What is appended
goes to ``log`` and is acknowledged at once, unless the test holds that back
(``is_holding_appends``) or lets the log refuse it (``append_error``).  Every request must be
answered exactly once: the world complains about a second answer, and ``unanswered`` says who still
waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any, TypeVar
from uuid import UUID

from kio.schema.errors import ErrorCode
from msgspec.structs import replace

from kafka_common.model import TopicPartition
from replica_manager.coordinators.groups.config import GroupConfig
from replica_manager.coordinators.groups.coordinator import GroupCoordinator
from replica_manager.coordinators.groups.events import (
    AppendGroupRecords,
    CoordinatorLogLine,
    CoordinatorStartup,
    Elected,
    GroupRecordsAppended,
    GroupResponse,
    Input,
    Load,
    Loaded,
    LoadedBatch,
    LoadedRecord,
    LoadFinished,
    Measured,
    Output,
    Resigned,
    Tick,
)
from replica_manager.coordinators.groups.group import GroupMetadata, GroupState
from replica_manager.coordinators.groups.records import (
    GroupKey,
    OffsetAndMetadata,
    OffsetKey,
    SimpleRecord,
    decode_group_value,
    decode_key,
    decode_offset_value,
    encode_group_key,
)
from replica_manager.coordinators.groups.requests import (
    CommitOffsets,
    CommitResult,
    CommittedOffset,
    DescribedGroup,
    DescribeGroups,
    DescribeGroupsResult,
    FetchOffsets,
    FetchResult,
    Heartbeat,
    HeartbeatResult,
    JoinGroup,
    JoinResult,
    LeaveGroup,
    LeaveResult,
    LeavingMember,
    Protocol,
    Request,
    Result,
    SyncGroup,
    SyncResult,
    WantedOffsets,
)

GROUP = "billing"
ORDERS_0 = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)
T = TypeVar("T", bound=Result)


def subscription(*topics: str) -> bytes:
    """The metadata of a consumer, as version 0 of its protocol writes it."""
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


class GroupWorld:
    """One coordinator that has all partitions, unless ``partitions`` says which."""

    def __init__(
        self,
        config: GroupConfig | None = None,
        *,
        partition_count: int = 5,
        partitions: tuple[int, ...] | None = None,
    ) -> None:
        uuids = count(1)
        self.coordinator = GroupCoordinator(
            config or GroupConfig(broker_id=1), lambda: UUID(int=next(uuids))
        )
        self.now_ms = 1_700_000_000_000
        self.results: dict[int, Result] = {}
        self.asked: dict[int, Request] = {}
        self.joining: dict[int, Consumer] = {}
        """Whose JoinGroup it is, by request id."""
        self.log: dict[int, list[LoadedBatch]] = {}
        self.appends: list[AppendGroupRecords] = []
        """Appends that stand in the log and whose outcome the test will tell."""
        self.base_offsets: dict[AppendGroupRecords, int] = {}
        self.is_holding_appends = False
        self.append_error = ErrorCode.none
        self.loads: list[Load] = []
        """Loads whose records the test will tell; see ``is_holding_loads``."""
        self.is_holding_loads = False
        self.lines: list[str] = []
        self._request_ids = count(1)
        self.step(CoordinatorStartup(partition_count))
        for partition in range(partition_count) if partitions is None else partitions:
            self.step(Elected(partition, 0))

    # ------------------------------------------------------------------ the driver

    def step(self, given: Input) -> None:
        for output in self.coordinator.step(given, self.now_ms):
            self._perform(output)

    def _perform(self, output: Output) -> None:
        match output:
            case GroupResponse(request_id, result):
                assert request_id not in self.results, f"answered twice: {self.asked[request_id]}"
                self.results[request_id] = result
                if isinstance(result, JoinResult) and result.error is ErrorCode.none:
                    self.joining[request_id].take_over(result)
            case AppendGroupRecords():
                self._append(output)
            case Load() if self.is_holding_loads:
                self.loads.append(output)
            case Load():
                self.read(output)
            case CoordinatorLogLine():
                self.lines.append(f"{output.level.name} {output.text}")
            case Measured():
                pass  # its effect is tested with the sensors

    def _append(self, append: AppendGroupRecords) -> None:
        if append.append_id is None:
            # Without acknowledgement a leader appends whatever its replicas are doing.
            self.write(append.partition, append.records)
            return
        error, offset = self.append_error, -1
        if error is ErrorCode.none:
            flags: dict[str, Any] = {}
            if append.producer is not None:
                producer_id = append.producer.producer_id
                flags = {"producer_id": producer_id, "is_transactional": True}
            offset = self.write(append.partition, append.records, **flags)
        if self.is_holding_appends and error is ErrorCode.none:
            self.appends.append(append)
            self.base_offsets[append] = offset
        else:
            self.step(GroupRecordsAppended(append.append_id, error, offset))

    def finish(self, append: AppendGroupRecords, error: ErrorCode = ErrorCode.none) -> None:
        """Lets an append that is held back have its outcome; its records stand in the log."""
        self.appends.remove(append)
        assert append.append_id is not None
        offset = self.base_offsets.pop(append) if error is ErrorCode.none else -1
        self.step(GroupRecordsAppended(append.append_id, error, offset))

    def resign(self, group_id: str, leader_epoch: int | None = 1) -> None:
        """Another broker leads the partition of that group now."""
        self.step(Resigned(self.coordinator.partition_for(group_id), leader_epoch))

    def finish_all(self, error: ErrorCode = ErrorCode.none) -> None:
        """Lets every append that is held back have its outcome, in order."""
        while self.appends:
            self.finish(self.appends[0], error)

    def write(self, partition: int, records: tuple[SimpleRecord, ...], **flags: Any) -> int:
        """Writes a batch to the log, as the coordinator or anybody else."""
        batches = self.log.setdefault(partition, [])
        base = sum(len(batch.records) for batch in batches)
        logged = tuple(LoadedRecord(base + i, *record) for i, record in enumerate(records))
        batches.append(LoadedBatch(logged)._replace(**flags))
        return base

    def read(self, load: Load) -> None:
        """Tells the coordinator what stands in the partition, in two pieces."""
        batches = tuple(self.log.get(load.partition, ()))
        middle = len(batches) // 2
        self.step(Loaded(load.load_id, batches[:middle]))
        self.step(Loaded(load.load_id, batches[middle:]))
        self.step(LoadFinished(load.load_id))

    def pass_ms(self, duration_ms: int) -> None:
        """Lets time go by; timers go off when they are due."""
        end = self.now_ms + duration_ms
        while True:
            deadline = self.coordinator.next_deadline_ms
            if deadline is None or deadline > end:
                break
            self.now_ms = max(self.now_ms, deadline)
            self.step(Tick())
        self.now_ms = end

    def pass_until_joined(self, *consumers: Consumer) -> None:
        """Lets as much time go by as it takes until these know their generation."""
        while any(each.join_outcome == "waiting" for each in consumers):
            deadline = self.coordinator.next_deadline_ms
            assert deadline is not None
            self.pass_ms(max(deadline - self.now_ms, 0))

    # ------------------------------------------------------------------ asking

    def send(self, request: Request) -> int:
        self.asked[request.request_id] = request
        self.step(request)
        return request.request_id

    def ask(self, request: Request, answer_type: type[T]) -> T:
        """The answer to a request that is answered at once."""
        response = self.results[self.send(request)]
        assert isinstance(response, answer_type)
        return response

    def next_id(self) -> int:
        return next(self._request_ids)

    @property
    def unanswered(self) -> list[Request]:
        return [self.asked[each] for each in self.asked if each not in self.results]

    def consumers(self, *names: str) -> list[Consumer]:
        return [Consumer(self, name) for name in names]

    def static_consumers(self, *names: str) -> list[Consumer]:
        """Consumers with an instance id each, of a client that knows JoinGroup 9."""
        return [Consumer(self, name, instance=f"instance-{name}") for name in names]

    def stable(self, *consumers: Consumer) -> None:
        """Brings these consumers into one Stable generation."""
        for each in consumers:
            each.join()
        self.pass_until_joined(*consumers)
        for each in consumers:
            each.sync()
        assert self.group.state is GroupState.STABLE

    @property
    def group(self) -> GroupMetadata:
        return self.coordinator.groups[GROUP]

    @property
    def state(self) -> str:
        """The state of the group, as tools see it."""
        return self.described.state

    @property
    def described(self) -> DescribedGroup:
        return self.ask(DescribeGroups(self.next_id(), (GROUP,)), DescribeGroupsResult).groups[0]

    def committed(
        self, partition: TopicPartition = ORDERS_0, *, stable: bool = False
    ) -> tuple[int, str]:
        """The committed offset of a partition, and its error."""
        wanted = (WantedOffsets(GROUP, (partition,)),)
        [group] = self.ask(FetchOffsets(self.next_id(), wanted, stable), FetchResult).groups
        if group.error is not ErrorCode.none:
            return -1, group.error.name
        fetched = group.partitions[partition]
        return fetched.offset, fetched.error.name

    def commit(self, offset: int, partition: TopicPartition = ORDERS_0, **what: Any) -> str:
        """A commit without membership; the error's name, "waiting" without an answer yet."""
        request = CommitOffsets(self.next_id(), GROUP, {partition: CommittedOffset(offset)})
        request_id = self.send(replace(request, **what))
        return self.outcome(request_id, partition)

    def outcome(self, request_id: int, partition: TopicPartition = ORDERS_0) -> str:
        response = self.results.get(request_id)
        if response is None:
            return "waiting"
        assert isinstance(response, CommitResult)
        return response.errors[partition].name

    # ------------------------------------------------------------------ the log

    @property
    def records(self) -> Iterator[LoadedRecord]:
        """Everything that was written about the group."""
        for batch in self.log.get(self.coordinator.partition_for(GROUP), ()):
            yield from batch.records

    @property
    def live_keys(self) -> list[OffsetKey | GroupKey]:
        """What would be left after compaction."""
        last = {record.key: record.value for record in self.records}
        keys = [decode_key(key) for key, value in last.items() if key and value is not None]
        return [key for key in keys if isinstance(key, OffsetKey | GroupKey)]

    def logged_group(self) -> tuple[int, str | None, list[str]]:
        """Generation, leader and members as the last record of the group has them."""
        values = [each.value for each in self.records if each.key == encode_group_key(GROUP)]
        assert values[-1] is not None
        group = decode_group_value(values[-1])
        return group.generation_id, group.leader_id, [each.member_id for each in group.members]

    def logged_offsets(self) -> list[OffsetAndMetadata | None]:
        """Every offset that was written, None for a tombstone."""
        return [
            None if each.value is None else decode_offset_value(each.value)
            for each in self.records
            if each.key is not None and isinstance(decode_key(each.key), OffsetKey)
        ]


class Consumer:
    """A client that behaves as clients do: it comes back with the id it is given."""

    def __init__(
        self, world: GroupWorld, name: str, *, instance: str | None = None, version: int = 9
    ) -> None:
        self.world = world
        self.name = name
        self.instance = instance
        self.version = version
        self.member_id = ""
        self.generation_id = -1
        self.protocol_type = "consumer"
        self.protocols: tuple[Protocol, ...] = (Protocol("range", subscription("orders")),)
        self.session_timeout_ms = 10_000
        self.rebalance_timeout_ms = 30_000
        self.last_join = 0
        self.last_sync = 0

    # ------------------------------------------------------------------ joining

    def join(self) -> str:
        """JoinGroup, twice if an id is required first; the outcome, or "waiting"."""
        outcome = self.ask_to_join()
        if outcome == "member_id_required":
            self.member_id = self.joined.member_id
            outcome = self.ask_to_join()
        return outcome

    def ask_to_join(self) -> str:
        world = self.world
        self.last_join = world.next_id()
        world.joining[self.last_join] = self
        world.send(
            JoinGroup(
                self.last_join,
                GROUP,
                self.member_id,
                self.protocol_type,
                self.protocols,
                self.session_timeout_ms,
                self.rebalance_timeout_ms,
                self.instance,
                self.name,
                "/127.0.0.1",
                requires_known_member_id=self.version >= 4 and self.instance is None,
                supports_skipping_assignment=self.version >= 9,
            )
        )
        return self.join_outcome

    @property
    def join_outcome(self) -> str:
        return self.joined.error.name if self.last_join in self.world.results else "waiting"

    @property
    def joined(self) -> JoinResult:
        """The answer to the last JoinGroup."""
        response = self.world.results[self.last_join]
        assert isinstance(response, JoinResult)
        return response

    def take_over(self, result: JoinResult) -> None:
        """It is a member, in this generation."""
        self.member_id, self.generation_id = result.member_id, result.generation_id

    @property
    def is_leader(self) -> bool:
        return self.joined.leader_id == self.joined.member_id

    # ------------------------------------------------------------------ synchronising

    def sync(self, assignments: dict[str, bytes] | None = None) -> str:
        """SyncGroup; a leader assigns to everyone their own id.  The outcome, or "waiting"."""
        joined = self.joined
        if assignments is None and self.is_leader:
            assignments = {each.member_id: each.member_id.encode() for each in joined.members}
        world = self.world
        self.last_sync = world.send(
            SyncGroup(
                world.next_id(),
                GROUP,
                self.generation_id,
                self.member_id,
                self.instance,
                self.protocol_type,
                joined.protocol_name,
                assignments,
            )
        )
        return self.sync_outcome

    @property
    def sync_outcome(self) -> str:
        return self.synced.error.name if self.last_sync in self.world.results else "waiting"

    @property
    def synced(self) -> SyncResult:
        response = self.world.results[self.last_sync]
        assert isinstance(response, SyncResult)
        return response

    # ------------------------------------------------------------------ the rest

    def heartbeat(self) -> str:
        world = self.world
        request = Heartbeat(
            world.next_id(), GROUP, self.generation_id, self.member_id, self.instance
        )
        return world.ask(request, HeartbeatResult).error.name

    def leave(self) -> str:
        world = self.world
        leaving = LeavingMember(self.member_id, self.instance)
        request = LeaveGroup(world.next_id(), GROUP, (leaving,))
        result = world.ask(request, LeaveResult)
        return (result.members[0] if result.members else result).error.name

    def commit(self, offset: int, partition: TopicPartition = ORDERS_0) -> str:
        return self.world.commit(
            offset,
            partition,
            member_id=self.member_id,
            generation_id=self.generation_id,
            group_instance_id=self.instance,
        )
