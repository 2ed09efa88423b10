"""One node of the quorum on a virtual clock: its input, and what it wants done.

The node's outputs are performed as its caller must: elections and flushes go to a disk in memory.
Everything else is kept for the test to look at.  Nothing here decides anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

from kio.schema.errors import ErrorCode

from kafka_common.protocol.record_batch import (
    BatchHeader,
    encode_batch,
    is_intact,
    iterate_batch,
    iterate_batches,
)
from kafka_common.protocol.records import Record
from kraft.raft.config import QuorumConfig
from kraft.raft.inputs import (
    ElectionPersisted,
    RaftInput,
    RaftRequestFailed,
    RaftRequestReceived,
    RaftResponseReceived,
    RaftTick,
)
from kraft.raft.kafka_raft_client import KafkaRaftClient
from kraft.raft.messages import (
    AnyRaftResponse,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    RaftRequest,
    VoteRequest,
    VoteResponse,
)
from kraft.raft.outputs import (
    DeliverCommit,
    FlushLog,
    PersistElection,
    RaftOutput,
    SendRequest,
    SendResponse,
)
from kraft.raft.states import StateName
from kraft.raft.values import ElectionState, NodeAddress, OffsetAndEpoch, ReplicaKey, VoterSet
from zkcontroller_simulation.raft_log_model import InMemoryRaftLog

CLUSTER: Final = "AAECAwQFBgcICQoLDA0ODw"
LISTENER: Final = "CONTROLLER"
CONFIG: Final = QuorumConfig()
ELECTION_MS: Final = CONFIG.election_timeout_ms
FETCH_MS: Final = CONFIG.fetch_timeout_ms
START_MS: Final = 1_000_000
EARLY: Final = OffsetAndEpoch(0, 0)
"""Where an empty log ends."""

RequestT = TypeVar("RequestT", bound=RaftRequest)
OutputT = TypeVar("OutputT", bound=RaftOutput)
ResponseT = TypeVar("ResponseT", bound=AnyRaftResponse)


class FixedRandom:
    """Gives the same number each time, or the largest that is allowed."""

    def __init__(self, number: int = 0) -> None:
        self.number = number

    def randrange(self, stop: int, /) -> int:
        return min(self.number, stop - 1)


def endpoint(node_id: int) -> NodeAddress:
    return NodeAddress(f"node-{node_id}", 9093)


def voter_set(*ids: int) -> VoterSet:
    return VoterSet({voter: endpoint(voter) for voter in ids})


def batch(base_offset: int, epoch: int, count: int = 1) -> bytes:
    """A batch of ``count`` records that a leader of ``epoch`` has written."""
    records = [Record(base_offset + at, 7, None, b"record") for at in range(count)]
    return encode_batch(records, partition_leader_epoch=epoch)


def batches_in(data: bytes) -> list[tuple[BatchHeader, list[Record]]]:
    """The batches in these bytes with their records; every one of them is intact."""
    batches = []
    for position, header in iterate_batches(data):
        assert is_intact(data, position, header)
        batches.append((header, list(iterate_batch(data, position, header))))
    return batches


def log_of(*epochs: int, log: InMemoryRaftLog | None = None) -> InMemoryRaftLog:
    """A flushed log with one record for each of these epochs, in this order."""
    log = InMemoryRaftLog() if log is None else log
    for epoch in epochs:
        log.append_as_follower(batch(log.end_offset, epoch), epoch)
    log.flush()
    return log


class RaftHarness:
    """A node, its disk and its clock."""

    def __init__(
        self,
        *,
        local: ReplicaKey | int | None = 1,
        voters: Sequence[int] = (1, 2, 3),
        log: InMemoryRaftLog | None = None,
        stored: ElectionState | None = None,
        config: QuorumConfig = CONFIG,
        bootstrap_servers: Sequence[NodeAddress] = (),
        randomness: int = 0,
    ) -> None:
        """Not started yet.  ``randomness`` is what every draw gives."""
        self.local = ReplicaKey(local) if isinstance(local, int) else local
        self.voters = voter_set(*voters)
        self.config = config
        self.log = InMemoryRaftLog() if log is None else log
        self.stored = stored
        self.now_ms = START_MS
        self.random = FixedRandom(randomness)
        self.bootstrap_servers = bootstrap_servers
        self.outputs: list[RaftOutput] = []
        """Of the last step, in order."""
        self.parked: list[int] = []
        self._request_id = 0
        self.node = self._new_node()

    def _new_node(self) -> KafkaRaftClient:
        return KafkaRaftClient(
            local=self.local,
            cluster_id=CLUSTER,
            voters=self.voters,
            log=self.log,
            config=self.config,
            random=self.random,
            listener_name=LISTENER,
            local_endpoints={} if self.local is None else {LISTENER: endpoint(self.local.id)},
            bootstrap_servers=self.bootstrap_servers,
        )

    # What happens.

    def start(self) -> RaftHarness:
        self._perform(self.node.start(self.stored, self.now_ms))
        return self

    def restart(self) -> RaftHarness:
        """Killed and started again, with what was on disk."""
        self.node = self._new_node()
        return self.start()

    def step(self, happened: RaftInput) -> list[RaftOutput]:
        return self._perform(self.node.step(happened, self.now_ms))

    def register(self, listener: str = "listener") -> list[RaftOutput]:
        return self._perform(self.node.register(listener, self.now_ms))

    def pass_ms(self, wait_ms: int) -> list[RaftOutput]:
        """The time goes on, and the node gets one tick, at the end."""
        self.now_ms += wait_ms
        return self.step(RaftTick())

    def run_ms(self, duration_ms: int) -> list[RaftOutput]:
        """The time goes on, and the node gets a tick whenever it wants one; gives all outputs."""
        end_ms = self.now_ms + duration_ms
        outputs: list[RaftOutput] = []
        while (deadline_ms := self.node.deadline_ms) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            outputs += self.step(RaftTick())
        self.now_ms = end_ms
        self.outputs = outputs
        return outputs

    def ask(self, request: RaftRequest, listener: str = LISTENER) -> AnyRaftResponse | None:
        """Someone sends a request; gives the answer, None if it waits."""
        self._request_id += 1
        self.step(RaftRequestReceived(self._request_id, request, listener))
        return self.answer_to(self._request_id)

    def asked(self, kind: type[ResponseT], request: RaftRequest) -> ResponseT:
        """As :meth:`ask`, for a request that is answered at once."""
        response = self.ask(request)
        assert isinstance(response, kind), f"{response} to {request}"
        return response

    def vote(self, request: VoteRequest) -> VoteResponse:
        return self.asked(VoteResponse, request)

    def fetch(self, request: FetchRequest) -> FetchResponse:
        return self.asked(FetchResponse, request)

    def begin(self, request: BeginQuorumEpochRequest) -> BeginQuorumEpochResponse:
        return self.asked(BeginQuorumEpochResponse, request)

    @property
    def last_request_id(self) -> int:
        return self._request_id

    def answer_to(self, request_id: int) -> AnyRaftResponse | None:
        """What the last step answered to that request."""
        responses = [a.response for a in self.of(SendResponse) if a.request_id == request_id]
        assert len(responses) < 2, f"two answers to {request_id}"
        return responses[0] if responses else None

    def reply(self, send: SendRequest, response: AnyRaftResponse) -> list[RaftOutput]:
        """The node that was sent a request answers it."""
        return self.step(RaftResponseReceived(send.destination_id, send.correlation_id, response))

    def fail(
        self, send: SendRequest, error: ErrorCode = ErrorCode.broker_not_available
    ) -> list[RaftOutput]:
        """A request will not be answered."""
        return self.step(RaftRequestFailed(send.destination_id, send.correlation_id, error))

    # What it is, and what it wants done.

    def state(self) -> StateName:
        return self.node.state_name

    def of(self, kind: type[OutputT]) -> list[OutputT]:
        """The outputs of that kind in the last step."""
        return [output for output in self.outputs if isinstance(output, kind)]

    def sends(self, kind: type[RequestT]) -> dict[int, RequestT]:
        """The requests of that kind that the last step sent, by whom they went to."""
        return {
            send.destination_id: send.request
            for send in self.of(SendRequest)
            if isinstance(send.request, kind)
        }

    def send_to(self, destination_id: int) -> SendRequest:
        """What the last step sent there."""
        (send,) = (send for send in self.of(SendRequest) if send.destination_id == destination_id)
        return send

    @property
    def only_send(self) -> SendRequest:
        """The one request that the last step sent."""
        (send,) = self.of(SendRequest)
        return send

    def _perform(self, outputs: list[RaftOutput]) -> list[RaftOutput]:
        persisted: list[ElectionState] = []
        for output in outputs:
            match output:
                case PersistElection(election):
                    self.stored = election
                    persisted.append(election)
                case FlushLog(end_offset):
                    assert end_offset <= self.log.end_offset
                    self.log.flush()
                case DeliverCommit(_, first_offset):
                    assert first_offset >= self.log.start_offset, "it cannot be read"
                case _:
                    pass
        for election in persisted:
            outputs = outputs + self._perform(
                self.node.step(ElectionPersisted(election), self.now_ms)
            )
        self.outputs = outputs
        return outputs

    # Where a test wants it to be.

    def become_candidate(self) -> Sequence[SendRequest]:
        """Its election timer has run out; gives its requests for votes."""
        self.run_until_it_sends(VoteRequest)
        return [send for send in self.of(SendRequest) if isinstance(send.request, VoteRequest)]

    def become_leader(self) -> RaftHarness:
        """Elected by the first other voter."""
        first = self.become_candidate()[0]
        self.reply(first, granted(self.node.epoch))
        assert self.node.is_leader
        return self

    def follow(self, leader_id: int = 2, epoch: int = 1) -> SendRequest:
        """That leader makes itself known; gives the Fetch that goes to it."""
        response = self.begin(begin(leader_id, epoch))
        assert response.error is ErrorCode.none
        return self.send_to(leader_id)

    def run_until_it_sends(self, kind: type[RaftRequest], within_ms: int = 60_000) -> None:
        """The time goes on until the node sends such a request."""
        end_ms = self.now_ms + within_ms
        while not any(isinstance(send.request, kind) for send in self.of(SendRequest)):
            deadline_ms = self.node.deadline_ms
            assert deadline_ms is not None, f"nothing is due, and no {kind.__name__} was sent"
            assert deadline_ms <= end_ms, f"no {kind.__name__} within {within_ms} ms"
            self.now_ms = max(self.now_ms, deadline_ms)
            self.step(RaftTick())


def following(
    leader_id: int = 2, epoch: int = 1, **options: Any
) -> tuple[RaftHarness, SendRequest]:
    """A node that follows that leader, and the Fetch that goes to it."""
    node = RaftHarness(**options).start()
    return node, node.follow(leader_id, epoch)


def standing(**options: Any) -> tuple[RaftHarness, Sequence[SendRequest]]:
    """A node that stands for election, and its requests for votes."""
    node = RaftHarness(**options).start()
    return node, node.become_candidate()


# Messages, with what a test does not care for filled in.


def vote(
    candidate: int | ReplicaKey,
    epoch: int,
    log_end: OffsetAndEpoch = EARLY,
    *,
    voter: ReplicaKey | None = None,
    cluster_id: str | None = CLUSTER,
) -> VoteRequest:
    key = ReplicaKey(candidate) if isinstance(candidate, int) else candidate
    return VoteRequest(cluster_id, voter, epoch, key, log_end)


def begin(
    leader: int,
    epoch: int,
    *,
    voter: ReplicaKey | None = None,
    endpoints: Mapping[str, NodeAddress] | None = None,
    cluster_id: str | None = CLUSTER,
) -> BeginQuorumEpochRequest:
    return BeginQuorumEpochRequest(cluster_id, voter, leader, epoch, endpoints or {})


def end(
    leader: int, epoch: int, *successors: int, cluster_id: str | None = CLUSTER
) -> EndQuorumEpochRequest:
    candidates = tuple(ReplicaKey(successor) for successor in successors)
    return EndQuorumEpochRequest(cluster_id, leader, epoch, candidates, {})


def fetch(
    replica: int | ReplicaKey | None,
    epoch: int,
    offset: int = 0,
    last_epoch: int = 0,
    *,
    max_wait_ms: int = 500,
    cluster_id: str | None = CLUSTER,
) -> FetchRequest:
    key = ReplicaKey(replica) if isinstance(replica, int) else replica
    return FetchRequest(cluster_id, key, epoch, offset, last_epoch, max_wait_ms, 8 * 1024 * 1024)


def fetch_snapshot(
    replica: int | None,
    epoch: int,
    snapshot_id: OffsetAndEpoch,
    position: int = 0,
    *,
    max_bytes: int = 8 * 1024 * 1024,
    cluster_id: str | None = CLUSTER,
) -> FetchSnapshotRequest:
    key = None if replica is None else ReplicaKey(replica)
    return FetchSnapshotRequest(cluster_id, key, epoch, snapshot_id, position, max_bytes)


def granted(epoch: int) -> VoteResponse:
    return VoteResponse(leader_epoch=epoch, vote_granted=True)


def rejected(epoch: int) -> VoteResponse:
    return VoteResponse(leader_epoch=epoch)


def records(
    leader: int, epoch: int, data: bytes = b"", *, high_watermark: int = -1
) -> FetchResponse:
    """The answer of a leader that has these records, or none."""
    return FetchResponse(
        leader_id=leader, leader_epoch=epoch, records=data, high_watermark=high_watermark
    )


def refused(error: ErrorCode, epoch: int, leader: int | None = None) -> FetchResponse:
    """The answer to a Fetch of someone who does not serve it."""
    return FetchResponse(error=error, leader_id=leader, leader_epoch=epoch)
