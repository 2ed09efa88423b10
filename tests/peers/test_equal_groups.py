"""The same group requests to Kafka 3.9.1 and to our broker: equal responses, equal logs.

Then each broker takes over the folder of the other, and must respond as the other did.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from replica_manager.coordinators.groups.coordinated_partition import partition_for
from tests.peers.cluster import Cluster
from tests.peers.group_sides import Names, Side, schema

pytestmark = [pytest.mark.peers, pytest.mark.timeout(600)]

PARTITIONS: Final = 3
PROPERTIES: Final = {
    "offsets.topic.num.partitions": str(PARTITIONS),
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "group.max.session.timeout.ms": "60000",
    "group.max.size": "3",
    "offset.metadata.max.bytes": "16",
    # There is no other broker to take the leaderships.
    "controlled.shutdown.enable": "false",
}
MS: Final = timedelta(milliseconds=1)
SUBSCRIPTION: Final = b"\0\0\0\0\0\1\0\6orders\xff\xff\xff\xff"

NEWEST: Final = {
    "join_group": 9, "sync_group": 5, "heartbeat": 4, "leave_group": 5, "offset_commit": 9,
    "offset_fetch": 9, "describe_groups": 5, "list_groups": 5, "delete_groups": 2,
    "offset_delete": 0,
}  # fmt: skip
OLD: Final = {
    "join_group": 2, "sync_group": 1, "heartbeat": 1, "leave_group": 1, "offset_commit": 2,
    "offset_fetch": 1, "describe_groups": 1, "list_groups": 1, "delete_groups": 1,
    "offset_delete": 0,
}  # fmt: skip


class ScenarioRunner:
    """The clients of one side; the transcript gets every response to them."""

    def __init__(self, side: Side, versions: dict[str, int], group_id: str = "billing") -> None:
        self.side = side
        self.versions = versions
        self.group_id = group_id
        self.names = Names()
        self.transcript: dict[str, list[Any]] = {}
        """By client: concurrent responses to different clients have no order."""
        self.ids: dict[str, str] = {}
        self.generations: dict[str, int] = {}
        self.sessions: dict[str, int] = {}
        self.instances: dict[str, str] = {}
        self.protocols: dict[str, tuple[str, ...]] = {}

    async def _ask(self, client: str, what: str, api: str, /, **fields: Any) -> Any:
        """The answer; fields that the version lacks are left out."""
        module = schema(api, self.versions[api])
        request_type = getattr(module, "".join(map(str.title, api.split("_"))) + "Request")
        request = _made(request_type, fields)
        response = await self.side.ask(client, request)
        if api == "join_group":
            self.names.give(response.member_id, client)
        # Names replace the ids at the end: a later response may show which client has an id.
        self.transcript.setdefault(client, []).append((what, asdict(response)))
        return response

    def _part(self, api: str, name: str, /, **fields: Any) -> Any:
        return _made(getattr(schema(api, self.versions[api]), name), fields)

    def _identity(self, client: str) -> dict[str, Any]:
        return {
            "group_id": self.group_id,
            "generation_id": self.generations.get(client, -1),
            "generation_id_or_member_epoch": self.generations.get(client, -1),
            "member_id": self.ids.get(client, ""),
            "group_instance_id": self.instances.get(client),
        }

    async def join(self, client: str, protocol_type: str = "consumer") -> Any:
        """As clients do: again, with the id they are given if one is required."""
        response = await self._ask(
            client, "join", "join_group",
            **self._identity(client),
            session_timeout=self.sessions.get(client, 30_000) * MS,
            rebalance_timeout=20_000 * MS,
            protocol_type=protocol_type,
            protocols=tuple(
                self._part("join_group", "JoinGroupRequestProtocol", name=name,
                           metadata=SUBSCRIPTION)
                for name in self.protocols.get(client, ("range",))
            ),
            reason="a story",
        )  # fmt: skip
        if response.error_code.name == "member_id_required":
            self.ids[client] = response.member_id
            return await self.join(client, protocol_type)
        if response.error_code.name == "none":
            self.ids[client], self.generations[client] = response.member_id, response.generation_id
        return response

    async def sync(
        self, client: str, *others: str, protocol: str = "range", protocol_type: str = "consumer"
    ) -> Any:
        """A leader assigns to all of ``others``; the assignment of a member is its id."""
        members = [self.ids[each] for each in others]
        return await self._ask(
            client, "sync", "sync_group",
            **self._identity(client),
            protocol_type=protocol_type,
            protocol_name=protocol,
            assignments=tuple(
                self._part("sync_group", "SyncGroupRequestAssignment", member_id=member,
                           assignment=member.encode())
                for member in members
            ),
        )  # fmt: skip

    async def heartbeat(self, client: str) -> str:
        response = await self._ask(client, "heartbeat", "heartbeat", **self._identity(client))
        name: str = response.error_code.name
        return name

    async def leave(self, client: str) -> None:
        identity = self._identity(client)
        member = (
            self._part("leave_group", "MemberIdentity", **identity, reason="the end")
            if self.versions["leave_group"] >= 3
            else None
        )
        await self._ask(client, "leave", "leave_group", **identity, members=(member,))

    async def commit(
        self, client: str, offset: int, topic: str = "orders", metadata: str | None = "m",
        retention_ms: int = -1,
    ) -> None:  # fmt: skip
        partition = self._part(
            "offset_commit", "OffsetCommitRequestPartition", partition_index=0,
            committed_offset=offset, committed_leader_epoch=0, committed_metadata=metadata,
        )  # fmt: skip
        of_topic = self._part(
            "offset_commit", "OffsetCommitRequestTopic", name=topic, partitions=(partition,)
        )
        await self._ask(
            client, "commit", "offset_commit",
            **self._identity(client), topics=(of_topic,), retention_time=retention_ms * MS,
        )  # fmt: skip

    async def fetch(self, *, every: bool = False) -> None:
        plural = "s" if self.versions["offset_fetch"] >= 8 else ""
        topics = None if every else tuple(
            self._part("offset_fetch", f"OffsetFetchRequestTopic{plural}", name=name,
                       partition_indexes=(0, 1))
            for name in ("orders", "payments")
        )  # fmt: skip
        groups = tuple(
            self._part("offset_fetch", "OffsetFetchRequestGroup", group_id=group_id, topics=topics)
            for group_id in (self.group_id, "nobody", "")
            if plural
        )
        await self._ask(
            "tool", "fetch", "offset_fetch",
            group_id=self.group_id, topics=topics, groups=groups, require_stable=True,
        )  # fmt: skip

    async def look(self) -> None:
        """What tools see."""
        groups = (self.group_id, "nobody", "")
        await self._ask(
            "tool", "describe", "describe_groups",
            groups=groups, include_authorized_operations=False,
        )  # fmt: skip
        for states, types in (((), ()), (("stable",), ("CLASSIC",)), (("Dead",), ())):
            await self._ask("tool", "list", "list_groups", states_filter=states, types_filter=types)

    async def delete_group(self, *group_ids: str) -> None:
        names = group_ids or (self.group_id,)
        await self._ask("tool", "delete", "delete_groups", groups_names=names)

    async def delete_offsets(self, *topics: str) -> None:
        part = self._part("offset_delete", "OffsetDeleteRequestPartition", partition_index=0)
        wanted = tuple(
            self._part("offset_delete", "OffsetDeleteRequestTopic", name=name, partitions=(part,))
            for name in topics
        )
        await self._ask(
            "tool", "delete offsets", "offset_delete", group_id=self.group_id, topics=wanted
        )

    async def until(self, client: str, error: str) -> None:
        """Sends heartbeats until the response has this error.

        The transcript keeps only the last one: their number depends on time.
        """
        for _ in range(200):
            if await self.heartbeat(client) == error:
                return
            self.transcript[client].pop()
            await asyncio.sleep(0.05)
        raise AssertionError(f"{client} never heard {error}")

    async def rejoin(self, first: str, *members: str) -> None:
        """The first one joins, and the others once heartbeats say so; then all send SyncGroup."""
        joining = [asyncio.ensure_future(self.join(first))]
        for member in members:
            await self.until(member, "rebalance_in_progress")
        joining += [asyncio.ensure_future(self.join(member)) for member in members]
        clients = (first, *members)
        responses = await asyncio.gather(*joining)
        [leader] = [
            client
            for client, response in zip(clients, responses, strict=True)
            if response.leader == response.member_id
        ]
        followers = [each for each in clients if each != leader]
        syncing = [asyncio.ensure_future(self.sync(each)) for each in followers]
        await asyncio.gather(self.sync(leader, *clients), *syncing)


def _made(request_type: Any, fields: dict[str, Any]) -> Any:
    known = request_type.__dataclass_fields__
    return request_type(**{name: value for name, value in fields.items() if name in known})


# ---------------------------------------------------------------------- the scenarios


async def strangers_are_refused(told: ScenarioRunner) -> None:
    told.ids["x"], told.generations["x"] = "stranger", 3
    await told.join("x")
    await told.sync("x")
    await told.heartbeat("x")
    await told.leave("x")
    await told.commit("x", 1)
    await told.fetch()
    await told.look()
    await told.delete_group()
    await told.delete_offsets("orders")
    for timeout_ms in (499, 60_001):
        told.sessions["y"] = timeout_ms
        await told.join("y")
    told.protocols["z"] = ()
    await told.join("z")
    await told.join("w", protocol_type="")


async def a_life(told: ScenarioRunner) -> None:
    await told.rejoin("a")
    await told.heartbeat("a")
    await told.commit("a", 17)
    await told.commit("a", 18, metadata="far too long for it")
    await told.commit("a", 19, "payments", None)
    await told.fetch()
    await told.fetch(every=told.versions["offset_fetch"] >= 2)
    await told.look()

    told.generations["a"] = 0
    await told.heartbeat("a")
    await told.commit("a", 20)
    await told.sync("a", "a")
    told.generations["a"] = 1
    await told.sync("a", "a")
    if told.versions["sync_group"] >= 5:
        await told.sync("a", "a", protocol="sticky")
    await told.commit("nobody in particular", 21)
    told.protocols["b"] = ("sticky",)
    await told.join("b")
    await told.delete_group()
    await told.delete_offsets("orders", "payments")

    told.protocols["b"] = ("range", "sticky")
    joining = asyncio.ensure_future(told.join("b"))
    await told.until("a", "rebalance_in_progress")
    await told.sync("a", "a")
    await told.commit("a", 22)
    await told.look()
    await asyncio.gather(told.join("a"), joining)
    await told.heartbeat("a")
    await told.commit("a", 23)
    await told.look()
    await told.join("a")
    await told.join("b")
    await asyncio.gather(told.sync("b"), told.sync("a", "a"))
    await told.join("b")
    await told.look()

    await told.leave("a")
    await told.heartbeat("a")
    await told.until("b", "rebalance_in_progress")
    await told.rejoin("b")
    await told.look()
    await told.leave("b")
    await told.look()
    await told.commit("b", 24)
    await told.commit("nobody in particular", 25)
    await told.fetch()


async def a_session_ends(told: ScenarioRunner) -> None:
    told.sessions.update(a=3_000)
    # Without an initial rebalance delay the first member starts alone.
    await told.rejoin("b")
    await told.rejoin("c", "b")
    await told.rejoin("a", "b", "c")
    await told.join("d")
    await told.until("b", "rebalance_in_progress")
    await told.rejoin("b", "c")
    await told.heartbeat("a")
    await told.leave("c")
    await told.rejoin("b")
    await told.leave("b")


async def static_members_bounce(told: ScenarioRunner) -> None:
    told.instances.update(s="instance-s", t="instance-t")
    await told.rejoin("s")
    await told.rejoin("t", "s")
    await told.look()
    for client in ("t", "s"):
        old = told.ids.pop(client)
        told.generations[client] = -1
        await told.join(client)
        new = told.ids[client]
        await told.sync(client)
        told.ids[client] = old
        for act in (told.heartbeat, told.join, told.leave, told.sync):
            await act(client)
        await told.commit(client, 30)
        told.ids[client] = new
        await told.heartbeat(client)
    await told.look()
    told.protocols["t"] = ("sticky",)
    told.ids["t"] = ""
    await told.join("t")
    told.ids["t"] = ""
    told.instances["t"] = "instance-u"
    await told.heartbeat("t")
    told.ids["s"] = ""
    for instance in ("instance-s", "instance-t", "instance-u"):
        told.instances["s"] = instance
        await told.leave("s")
    await told.look()


async def offsets_without_members(told: ScenarioRunner) -> None:
    await told.commit("simple", 5)
    await told.commit("simple", 6, "payments", retention_ms=86_400_000)
    await told.fetch()
    await told.look()
    await told.delete_offsets("payments")
    await told.fetch()
    await told.delete_offsets("orders")
    await told.look()
    await told.commit("simple", 7)


async def other_protocols(told: ScenarioRunner) -> None:
    await told.join("c", "connect")
    await told.sync("c", "c", protocol_type="connect")
    await told.join("d")
    await told.look()
    await told.delete_offsets("orders")
    await told.leave("c")
    await told.look()


async def two_stay(told: ScenarioRunner) -> None:
    await told.rejoin("b")
    await told.rejoin("c", "b")
    await told.commit("b", 40)
    await told.commit("c", 41, "payments")


async def a_look_round(told: ScenarioRunner) -> None:
    await told.heartbeat("b")
    await told.look()
    await told.fetch()
    await told.fetch(every=True)
    await told.join("c")


async def the_end(told: ScenarioRunner) -> None:
    await told.leave("b")
    await told.delete_group("billing", "simple", "odd", "nobody", "billing")
    await told.leave("c")
    del told.ids["c"], told.generations["c"]
    await told.rejoin("c")
    await told.leave("c")
    await told.delete_group("billing")
    await told.look()
    await told.fetch()


class Scenario:
    """Runs scenarios on one side, one after the other."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.names = Names()
        self._told: list[tuple[str, ScenarioRunner]] = []

    async def tell(
        self,
        scenario: Callable[[ScenarioRunner], Awaitable[None]],
        versions: dict[str, int],
        group_id: str,
        like: ScenarioRunner | None = None,
    ) -> ScenarioRunner:
        """Runs one scenario; its clients are new, or those of an earlier scenario."""
        told = ScenarioRunner(self.side, versions, group_id)
        told.names = self.names
        if like is not None:
            told.ids, told.generations = dict(like.ids), dict(like.generations)
        await scenario(told)
        self._told.append((scenario.__name__, told))
        return told

    async def tell_all(self) -> ScenarioRunner:
        """All but the end, in the newest and in old versions; in the end two stay members."""
        await self.tell(strangers_are_refused, NEWEST, "odd")
        await self.tell(strangers_are_refused, OLD, "odd")
        await self.tell(a_life, NEWEST, "billing")
        await self.tell(a_life, OLD | {"join_group": 1}, "older")
        await self.tell(a_session_ends, NEWEST, "billing")
        await self.tell(offsets_without_members, NEWEST, "simple")
        await self.tell(offsets_without_members, OLD, "simple")
        await self.tell(other_protocols, NEWEST, "odd")
        await self.tell(static_members_bounce, NEWEST | {"join_group": 7}, "static")
        await self.tell(static_members_bounce, NEWEST, "billing")
        return await self.tell(two_stay, NEWEST, "billing")

    def answers(self, names: Names | None = None) -> dict[Any, Any]:
        """The responses to each client in each scenario, with names for ids."""
        names = names or self.names
        return {
            (number, scenario, client): [
                (what, names.translated(response)) for what, response in responses
            ]
            for number, (scenario, told) in enumerate(self._told)
            for client, responses in told.transcript.items()
        }


def assert_equal(told: dict[Any, Any], theirs: dict[Any, Any]) -> None:
    """One answer after the other, so that a failure shows the first that differs."""
    assert list(told) == list(theirs)
    for client, responses in theirs.items():
        for their_answer, our_answer in zip(responses, told[client], strict=True):
            assert our_answer == their_answer, client


class Peer:
    """A cluster of one broker, ours or Kafka's, and the scenarios on it."""

    def __init__(self, cluster: Cluster, folder: Path, *, is_ours: bool) -> None:
        self._cluster = cluster
        self._folder = folder
        self._is_ours = is_ours
        self.scenario = Scenario(Side(self._start()))
        for topic in ("orders", "payments"):
            cluster.topic_command(1, "--create", "--topic", topic, "--replica-assignment", "1")
        cluster.topic_command(
            1, "--create", "--topic", "__consumer_offsets", "--config", "cleanup.policy=compact",
            "--partitions", str(PARTITIONS), "--replication-factor", "1",
        )  # fmt: skip

    def _start(self) -> str:
        """Starts the broker and gives its address."""
        start = self._cluster.start_ours if self._is_ours else self._cluster.start_kafka
        start(1, {**PROPERTIES, "log.dirs": str(self._folder)})
        return self._cluster.bootstrap(1)

    async def hand_over(self) -> None:
        """The broker ends, and one of the other kind goes on in its folder."""
        await self.scenario.side.close()
        await asyncio.to_thread(self._cluster.brokers[1].stop)
        self._cluster.wait_until(lambda: not self._cluster.live_brokers(), "the broker is gone")
        self._is_ours = not self._is_ours
        await self.scenario.side.move_to(await asyncio.to_thread(self._start))

    def records(self) -> dict[int, list[list[Any]]]:
        """What stands in each partition of ``__consumer_offsets``."""
        segments = self._folder.glob("__consumer_offsets-*/*.log")
        return {
            int(each.parent.name.rpartition("-")[2]): self.scenario.names.records(each.read_bytes())
            for each in segments
        }


def test_groups_are_answered_and_written_as_by_kafka(
    new_cluster: Callable[[], Cluster], tmp_path: Path
) -> None:
    kafkas = Peer(new_cluster(), tmp_path / "kafka", is_ours=False)
    ours = Peer(new_cluster(), tmp_path / "ours", is_ours=True)

    async def tell(peer: Peer) -> None:
        scenario = peer.scenario
        await coordinators_are_there(scenario.side)
        clients = await scenario.tell_all()
        await scenario.tell(a_look_round, NEWEST, "billing", clients)
        # Who takes over must answer as the other did, and go on.
        await peer.hand_over()
        await coordinators_are_there(scenario.side)
        await scenario.tell(a_look_round, NEWEST, "billing", clients)
        await scenario.tell(the_end, NEWEST, "billing", clients)
        await scenario.side.close()

    async def tell_both() -> None:
        await tell(kafkas)
        await tell(ours)

    asyncio.run(tell_both())

    assert_equal(ours.scenario.answers(), kafkas.scenario.answers())
    written = kafkas.records()
    assert sum(map(len, written.values())) > 50
    assert ours.records() == written


async def coordinators_are_there(side: Side) -> None:
    """Waits until the broker coordinates every partition."""
    described = schema("describe_groups", 5)
    wanted: dict[int, str] = {}
    for i in range(100):
        wanted.setdefault(partition_for(f"g{i}", PARTITIONS), f"g{i}")
    request = described.DescribeGroupsRequest(
        groups=tuple(wanted.values()), include_authorized_operations=False
    )
    for _ in range(100):
        response = await side.ask("tool", request)
        if all(group.error_code.name == "none" for group in response.groups):
            return
        await asyncio.sleep(0.1)
    raise AssertionError("no coordinator")
