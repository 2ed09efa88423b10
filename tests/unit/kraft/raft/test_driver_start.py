"""A node that is asked while it starts: it answers once it knows what it has promised."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Final

from kraft.node.raft_driver import Flush, RaftDriver
from kraft.raft.config import QuorumConfig
from kraft.raft.kafka_raft_client import KafkaRaftClient
from kraft.raft.messages import VoteRequest, VoteResponse
from kraft.raft.outputs import SendRequest
from kraft.raft.values import ElectionState, NodeAddress, OffsetAndEpoch, ReplicaKey, VoterSet
from tests.support.quorum import CLUSTER_ID
from zkcontroller_simulation.raft_log_model import InMemoryRaftLog

VOTERS: Final = VoterSet({each: NodeAddress("127.0.0.1", 9000 + each) for each in (1, 2, 3)})
SLOW: Final = QuorumConfig(election_timeout_ms=60_000, fetch_timeout_ms=60_000)


class Promised:
    """A disk on which a vote for node 3 in epoch 7 is written down."""

    def read(self) -> ElectionState | None:
        return ElectionState(7, voted_key=ReplicaKey(3))

    def write(self, election: ElectionState) -> None:
        assert election.epoch >= 7


class NoWay:
    """Channels that lose everything."""

    def send(self, send: SendRequest) -> None:
        assert send.destination_id in VOTERS


async def test_a_request_that_comes_before_the_start_is_answered_by_what_is_on_disk() -> None:
    log = InMemoryRaftLog()
    driver = RaftDriver(
        KafkaRaftClient(
            local=ReplicaKey(1), cluster_id=CLUSTER_ID, voters=VOTERS, log=log,
            config=SLOW, random=Random(1), listener_name="CONTROLLER",
            local_endpoints={"CONTROLLER": VOTERS.endpoints[1]},
        ),
        plan_flush=lambda: Flush(log.flush, lambda: None),
        elections=Promised(),
    )  # fmt: skip
    asked = [
        asyncio.create_task(
            driver.ask(
                VoteRequest(CLUSTER_ID, None, 7, ReplicaKey(candidate), OffsetAndEpoch(0, 0)),
                "CONTROLLER",
            )
        )
        for candidate in (2, 3)
    ]
    await asyncio.sleep(0.05)
    assert not any(each.done() for each in asked)

    running = asyncio.create_task(driver.run(NoWay()))
    async with asyncio.timeout(10):
        responses = await asyncio.gather(*asked)

    assert responses == [
        VoteResponse(leader_epoch=7, vote_granted=granted) for granted in (False, True)
    ]
    running.cancel()
    await asyncio.wait((running,))
