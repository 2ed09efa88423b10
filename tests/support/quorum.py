"""Nodes of a quorum in this process, on real sockets and in real folders."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Self
from uuid import UUID

from kafka_common.model import Endpoint
from kafka_common.net.loopback_ports import free_port
from kafka_common.observability.metrics import Metrics
from kafka_common.protocol.record_batch import iterate_batches
from kraft.node.quorum_node import QuorumNode, QuorumNodeSettings
from kraft.node.raft_driver import CommittedBatches
from kraft.raft.config import QuorumConfig
from kraft.raft.states import StateName
from kraft.raft.values import LeaderAndEpoch, NodeAddress, OffsetAndEpoch, ReplicaKey, VoterSet

CLUSTER_ID: Final = "AAECAwQFBgcICQoLDA0ODw"
QUICK: Final = QuorumConfig(
    election_timeout_ms=300, fetch_timeout_ms=1_200, election_backoff_max_ms=200
)
"""For tests in which a leader goes; longer than a Fetch may wait, which is not configurable."""
PATIENT: Final = replace(QUICK, fetch_timeout_ms=20_000)
"""For all others: no leader loses its office because the machine is busy."""
PATIENCE_S: Final = 60.0


def free_ports(count: int) -> list[int]:
    """Ports that no one has, and that no listener on port 0 takes."""
    ports: list[int] = []
    for _ in range(count):
        ports.append(free_port(ports))
    return ports


async def eventually(is_so: Callable[[], bool], what: str) -> None:
    """Waits until it is so."""

    async def ask() -> bool:
        return is_so()

    await in_the_end(ask, what)


async def in_the_end(is_so: Callable[[], Awaitable[object]], what: str) -> None:
    """The same for what must be waited for to know whether it is so."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not await is_so():
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"{what}: not within {PATIENCE_S:g} s") from None


class RecordingListener:
    """Takes everything in at once and remembers it."""

    def __init__(self, node: QuorumNode, name: str = "test") -> None:
        self.node = node
        self.name = name
        self.data = b""
        self.next_offset = 0
        self.leaders: list[LeaderAndEpoch] = []
        self.snapshots: list[OffsetAndEpoch] = []
        node.add_listener(name, self)

    @property
    def offsets(self) -> list[int]:
        """The first offsets of the batches that came."""
        return [header.base_offset for _, header in iterate_batches(self.data)]

    def handle_commit(self, batches: CommittedBatches) -> None:
        assert batches.first_offset == self.next_offset
        self.data += batches.data
        self._take(batches.next_offset)

    def handle_load_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        self.snapshots.append(snapshot_id)
        self._take(snapshot_id.offset)

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        self.leaders.append(leader)

    def _take(self, next_offset: int) -> None:
        self.next_offset = next_offset
        loop = asyncio.get_running_loop()
        loop.call_soon(lambda: self.node.driver.advanced(self.name, next_offset))


class Quorum:
    """Some voters, and observers."""

    def __init__(self, directory: Path, voter_ids: Sequence[int] = (1, 2, 3)) -> None:
        self.directory = directory
        ports = dict(zip(voter_ids, free_ports(len(voter_ids)), strict=True))
        self.voters = VoterSet({each: NodeAddress("127.0.0.1", ports[each]) for each in voter_ids})
        self.nodes: dict[int, QuorumNode] = {}
        self.metrics: dict[int, Metrics] = {}
        self.listeners: dict[int, RecordingListener] = {}
        self.tasks: dict[int, asyncio.Task[bool]] = {}

    def settings(self, node_id: int) -> QuorumNodeSettings:
        """Those of a voter, or of an observer if it is none."""
        endpoint = self.voters.endpoints.get(node_id) or NodeAddress("127.0.0.1", free_ports(1)[0])
        return QuorumNodeSettings(
            local=ReplicaKey(node_id, UUID(int=1000 + node_id)),
            cluster_id=CLUSTER_ID,
            metadata_log_dir=self.directory / f"node-{node_id}",
            voters=self.voters,
            listeners=(Endpoint(endpoint.host, endpoint.port, "CONTROLLER", "PLAINTEXT"),),
            advertised={"CONTROLLER": endpoint},
            quorum=PATIENT,
        )

    async def start(self, *node_ids: int, **changes: object) -> None:
        """Starts these nodes."""
        for node_id in node_ids:
            settings = replace(self.settings(node_id), **changes)  # type: ignore[arg-type]
            self.metrics[node_id] = Metrics()
            node = self.nodes[node_id] = QuorumNode(settings, self.metrics[node_id])
            self.equip(node, settings)
            self.listeners[node_id] = RecordingListener(node)
            self.tasks[node_id] = asyncio.create_task(node.run())
            await node.started()

    def equip(self, node: QuorumNode, settings: QuorumNodeSettings) -> None:
        """Gives a node, before it runs, what it shall have beside its log: nothing."""

    async def stop(self, node_id: int) -> bool:
        """Has a node leave; says whether it left gracefully."""
        self.nodes.pop(node_id).stop()
        return await self.tasks.pop(node_id)

    async def kill(self, node_id: int) -> None:
        """Ends a node without a word to the others."""
        del self.nodes[node_id]
        task = self.tasks.pop(node_id)
        task.cancel()
        await asyncio.wait((task,))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        for node_id in list(self.nodes):
            await self.kill(node_id)

    # Looks.

    def leaders(self) -> Mapping[int, int]:
        """Who leads, and in which epoch."""
        return {
            node_id: node.driver.node.epoch
            for node_id, node in self.nodes.items()
            if node.driver.node.state_name is StateName.LEADER
        }

    async def leader(self) -> int:
        """The one that all nodes know as the leader, once its epoch has a committed record."""

        def is_agreed() -> bool:
            known = {node.driver.node.leader_and_epoch for node in self.nodes.values()}
            if len(known) != 1 or not self.leaders():
                return False
            return all(self._is_committed(node) for node in self.nodes.values())

        await eventually(is_agreed, "all know one leader")
        [leader] = self.leaders()
        return leader

    def _is_committed(self, node: QuorumNode) -> bool:
        raft = node.driver.node
        high_watermark = raft.high_watermark
        return high_watermark is not None and high_watermark == raft.log.end_offset > 0

    def log_bytes(self, node_id: int) -> bytes:
        """The whole log of a node that has never been cut at its beginning."""
        return self.nodes[node_id].driver.node.log.read(0, 2**30)
