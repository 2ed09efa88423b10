"""A quorum small enough to try everything: three voters, few epochs, few records, no clock.

What can happen is a choice: a message arrives (on each way in order), a voter's patience ends, the
leader appends, a node dies and is back.  A state is what a row of choices leads to; it is reached
by making them all again.  Time stands still but for the voter whose patience ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from kraft.raft.config import QuorumConfig
from kraft.raft.inputs import (
    ElectionPersisted,
    RaftInput,
    RaftRequestReceived,
    RaftResponseReceived,
    RaftTick,
)
from kraft.raft.kafka_raft_client import KafkaRaftClient
from kraft.raft.messages import AnyRaftResponse
from kraft.raft.outputs import (
    FlushLog,
    PersistElection,
    RaftOutput,
    SendRequest,
    SendResponse,
)
from kraft.raft.states import StateName
from kraft.raft.values import ElectionState, ReplicaKey, VoterSet
from zkcontroller_simulation.raft_counter import encoded_number
from zkcontroller_simulation.raft_log_model import InMemoryRaftLog
from zkcontroller_simulation.raft_network import CONTROLLER
from zkcontroller_simulation.raft_process import endpoint_of

VOTERS: Final = (1, 2, 3)
MOST_EPOCHS: Final = 3
MOST_RECORDS: Final = 2
MOST_CRASHES: Final = 1
PATIENCE_MS: Final = 100_000
"""Longer than every timeout."""


class Choice(NamedTuple):
    """What happens next: "time", "append" or "crash" to a node, or a message between two."""

    what: str
    number: int
    other: int = 0


class _Least:
    """A source of the smallest numbers: timeouts do not matter here."""

    def randrange(self, _: int, /) -> int:
        return 0


class _InFlight(NamedTuple):
    correlation_id: int
    content: SendRequest | AnyRaftResponse


class SmallQuorum:
    """The state that a row of choices leads to."""

    def __init__(self, choices: tuple[Choice, ...] = ()) -> None:
        self.logs = {number: InMemoryRaftLog() for number in VOTERS}
        self._elections: dict[int, ElectionState | None] = dict.fromkeys(VOTERS)
        self._clocks = dict.fromkeys(VOTERS, 0)
        self._requests: dict[tuple[int, int], deque[_InFlight]] = {}
        self._answers: dict[tuple[int, int], deque[_InFlight]] = {}
        self._asked: dict[int, tuple[int, int, int]] = {}
        self._request_ids = 0
        self.leaders: dict[int, int] = {}
        self.committed: list[int] = []
        """The epoch of each record that a leader called committed."""
        self._records = self._crashes = 0
        self.nodes: dict[int, KafkaRaftClient] = {}
        for number in VOTERS:
            self._start(number)
        for choice in choices:
            self.make(choice)

    # ------------------------------------------------------------------ choices

    def choices(self) -> Iterator[Choice]:
        """Everything that may happen next."""
        for asker, asked in sorted(key for key, queue in self._requests.items() if queue):
            yield Choice("request", asker, asked)
        for asked, asker in sorted(key for key, queue in self._answers.items() if queue):
            yield Choice("answer", asked, asker)
        highest = max(node.epoch for node in self.nodes.values())
        for number, node in self.nodes.items():
            is_leader = node.state_name is StateName.LEADER
            if not is_leader and (highest < MOST_EPOCHS or node.epoch < highest):
                yield Choice("time", number)
            if is_leader and self._records < MOST_RECORDS:
                yield Choice("append", number)
            if self._crashes < MOST_CRASHES:
                yield Choice("crash", number)

    def make(self, choice: Choice) -> None:
        """One of them happens, and everything that must be true is."""
        what, number, other = choice
        match what:
            case "request":
                self._deliver_request(number, other)
            case "answer":
                self._deliver_answer(number, other)
            case "time":
                self._clocks[number] += PATIENCE_MS
                self._step(number, RaftTick())
            case "append":
                self._append(number)
            case "crash":
                self._crash(number)
            case _:
                raise AssertionError(what)
        self._check()

    def _deliver_request(self, asker: int, asked: int) -> None:
        sent = self._requests[asker, asked].popleft()
        assert isinstance(sent.content, SendRequest)
        self._request_ids += 1
        self._asked[self._request_ids] = (asker, asked, sent.correlation_id)
        self._step(asked, RaftRequestReceived(self._request_ids, sent.content.request, CONTROLLER))

    def _deliver_answer(self, asked: int, asker: int) -> None:
        correlation_id, response = self._answers[asked, asker].popleft()
        assert not isinstance(response, SendRequest)
        self._step(asker, RaftResponseReceived(asked, correlation_id, response))

    def _append(self, number: int) -> None:
        self._records += 1
        node = self.nodes[number]
        values = [encoded_number(self._records)]
        node.prepare_append(node.epoch, values, self._clocks[number])
        node.schedule_prepared_append()
        self._step(number, RaftTick())

    def _crash(self, number: int) -> None:
        """Nothing is half done here, so the disk has everything."""
        self._crashes += 1
        for key in (*self._requests, *self._answers):
            if number in key:
                self._requests.pop(key, None)
                self._answers.pop(key, None)
        log = self.logs[number]
        log.high_watermark = log.start_offset
        self._start(number)

    def _start(self, number: int) -> None:
        node = KafkaRaftClient(
            local=ReplicaKey(number),
            cluster_id="small",
            voters=VoterSet({voter: endpoint_of(voter) for voter in VOTERS}),
            log=self.logs[number],
            config=QuorumConfig(append_linger_ms=0),
            random=_Least(),
            listener_name=CONTROLLER,
            local_endpoints={CONTROLLER: endpoint_of(number)},
        )
        self.nodes[number] = node
        self._perform(number, node.start(self._elections[number], self._clocks[number]))

    def _step(self, number: int, happened: RaftInput) -> None:
        self._perform(number, self.nodes[number].step(happened, self._clocks[number]))

    def _perform(self, number: int, outputs: list[RaftOutput]) -> None:
        persisted = []
        for output in outputs:
            match output:
                case PersistElection(election):
                    self._elections[number] = election
                    persisted.append(election)
                case FlushLog():
                    self.logs[number].flush()
                case SendRequest(destination, _, correlation_id):
                    # A connection carries one request: before a new one the old one is given up.
                    queue = deque([_InFlight(correlation_id, output)])
                    self._requests[number, destination] = queue
                case SendResponse(request_id, response):
                    asker, asked, correlation_id = self._asked.pop(request_id)
                    queue = self._answers.setdefault((asked, asker), deque(maxlen=1))
                    queue.append(_InFlight(correlation_id, response))
                case _:
                    pass
        for election in persisted:
            self._step(number, ElectionPersisted(election))

    # ------------------------------------------------------------------ rules

    def _check(self) -> None:
        for number, node in self.nodes.items():
            leader = node.leader_and_epoch.leader_id
            if leader is not None:
                known = self.leaders.setdefault(node.epoch, leader)
                assert known == leader, f"S2: {known} and {leader} lead {node.epoch}"
            assert node.election == self._elections[number], f"S3: {number}"
        self._check_matching()
        for number, node in self.nodes.items():
            if node.state_name is StateName.LEADER:
                self._check_leader(number, node)

    def _check_matching(self) -> None:
        histories = [epochs_of(log) for log in self.logs.values()]
        for index, one in enumerate(histories):
            for other in histories[index + 1 :]:
                shorter = min(len(one), len(other))
                for end in range(shorter, 0, -1):
                    if one[end - 1] == other[end - 1]:
                        assert one[:end] == other[:end], f"S4: {one} and {other}"
                        break

    def _check_leader(self, number: int, node: KafkaRaftClient) -> None:
        epochs = epochs_of(self.logs[number])
        newest = max(self.leaders)
        if node.epoch == newest:
            held = epochs[: len(self.committed)]
            assert held == self.committed, f"S6: {number} leads {newest} with {epochs}"
        end = node.high_watermark or 0
        common = min(end, len(self.committed))
        assert epochs[:common] == self.committed[:common], f"S7: {number} commits {epochs[:end]}"
        if end > len(self.committed):
            assert epochs[end - 1] == node.epoch, f"S7: {number} commits an older epoch alone"
            self.committed = epochs[:end]

    # ------------------------------------------------------------------ sameness

    def fingerprint(self) -> tuple[object, ...]:
        """What the future depends on; times and numbers of requests left out."""
        messages = tuple(
            (key, tuple(_shown(one.content) for one in queue))
            for queues in (self._requests, self._answers)
            for key, queue in sorted(queues.items())
            if queue
        )
        waiting = tuple(sorted(asked[:2] for asked in self._asked.values()))
        nodes = tuple(
            (node.state_name, node.election, node.high_watermark, tuple(epochs_of(self.logs[n])))
            for n, node in self.nodes.items()
        )
        return nodes, messages, waiting, self._records, self._crashes, tuple(self.committed)


def epochs_of(log: InMemoryRaftLog) -> list[int]:
    """The epoch of each record."""
    return [batch.epoch for batch in log.batches for _ in range(batch.header.record_count)]


def _shown(content: SendRequest | AnyRaftResponse) -> str:
    return repr(content.request if isinstance(content, SendRequest) else content)
