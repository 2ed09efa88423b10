"""A node of the quorum: its disk, and its processes one after the other.

A process does what a shell around the raft step must do.  It performs the outputs in their order,
each one completely before the next.  It takes the next input when all outputs are done; an *eager*
process takes it earlier, so that its memory is ahead of its disk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from kafka_common.errors import NotLeader, RecordsRefused
from kraft.raft.inputs import ElectionPersisted, ListenerAdvanced, RaftInput, RaftTick
from kraft.raft.kafka_raft_client import KafkaRaftClient
from kraft.raft.messages import FetchResponse
from kraft.raft.outputs import (
    DeliverCommit,
    DeliverLeader,
    DeliverSnapshot,
    FlushLog,
    PersistElection,
    RaftOutput,
    SendRequest,
    SendResponse,
    ShutdownDone,
)
from kraft.raft.values import ElectionState, NodeAddress, ReplicaKey
from zkcontroller_simulation.raft_counter import LISTENER, Counter
from zkcontroller_simulation.raft_log_model import InMemoryRaftLog
from zkcontroller_simulation.raft_network import CONTROLLER, RaftPeer
from zkcontroller_simulation.raft_timeline import Alarm
from zkcontroller_simulation.raft_words import election_in_words, place

if TYPE_CHECKING:
    from zkcontroller_simulation.raft_world import RaftWorld

MOST_IDLE_STEPS: Final = 100
"""A node with more ticks in one millisecond is stuck in an endless loop."""


def endpoint_of(number: int) -> NodeAddress:
    """The network address of a node."""
    return NodeAddress(f"node-{number}", 9093)


class Disk:
    """The state of a node that survives its process."""

    def __init__(self, log: InMemoryRaftLog) -> None:
        self.log = log
        self.election: ElectionState | None = None


class RaftProcess:
    """A node with its number, which is its id unless it is an observer without one."""

    def __init__(self, world: RaftWorld, number: int, key: ReplicaKey | None) -> None:
        self.number = number
        self.key = key
        self.disk = Disk(world.make_log())
        self.incarnation = 0
        self.core: KafkaRaftClient | None = None
        self.counter: Counter | None = None
        self.is_paused = False
        self.is_eager = False
        self.clock_rate = 1.0
        """The speed of the node's clock; 1.0 is that of the timeline."""
        self.clock_offset_ms = 0
        self.shutdown: ShutdownDone | None = None
        """The result of the last process's clean shutdown; None if there was none."""
        self._world = world
        self._outputs: deque[RaftOutput] = deque()
        self._inbox: deque[RaftInput] = deque()
        self._is_performing = False
        self._alarm = Alarm(world.timeline, self._tick)
        self._ticks = (0, 0)

    # ------------------------------------------------------------------ looks

    @property
    def is_running(self) -> bool:
        return self.core is not None

    @property
    def is_voter(self) -> bool:
        """Whether the voters in the node's own configuration include it."""
        return self.key is not None and self.key.id in self._world.voter_set_of(self.number)

    @property
    def is_idle(self) -> bool:
        """Whether all outputs have been performed, so that memory and disk must agree."""
        return not self._outputs and not self._is_performing

    @property
    def is_leader(self) -> bool:
        return self.core is not None and self.core.is_leader

    @property
    def log(self) -> InMemoryRaftLog:
        return self.disk.log

    @property
    def high_watermark(self) -> int:
        """The high watermark that the process knows; -1 if it knows none."""
        known = None if self.core is None else self.core.high_watermark
        return -1 if known is None else known

    @property
    def now_ms(self) -> int:
        """Milliseconds by the node's own clock."""
        elapsed_ms = self._world.timeline.clock.elapsed_ms
        return 1_000_000 + self.clock_offset_ms + int(elapsed_ms * self.clock_rate)

    @property
    def peer(self) -> RaftPeer:
        """The network identity of the current process."""
        return RaftPeer(self.number, self.incarnation)

    # ------------------------------------------------------------------ life and death

    def start(self) -> None:
        """Starts a process from the state on the node's disk."""
        assert self.core is None, f"node {self.number} runs"
        world = self._world
        self.incarnation += 1
        self.shutdown = None
        self.counter = Counter(
            self.log, None if self.key is None else self.key.id, world.snapshot_every
        )
        world.invariants.process_starts(self)
        self.core = KafkaRaftClient(
            local=self.key,
            cluster_id=world.cluster_id,
            voters=world.voter_set_of(self.number),
            log=self.log,
            config=world.config,
            random=world.random,
            listener_name=CONTROLLER,
            local_endpoints={CONTROLLER: endpoint_of(self.number)},
        )
        self._take(self.core.start(self.disk.election, self.now_ms))
        self._take(self.core.register(LISTENER, self.now_ms))
        self._go_on()

    def kill(self, *, is_process_alone: bool) -> None:
        """Kills the process; the disk keeps what is durable."""
        self.core = self.counter = None
        self.is_paused = self._is_performing = False
        self._outputs.clear()
        self._inbox.clear()
        self.log.crash(self._world.random, is_process_alone=is_process_alone)

    def pause(self) -> None:
        """Stops the process without its noticing (SIGSTOP)."""
        self.is_paused = True

    def resume(self) -> None:
        """Continues a paused process (SIGCONT); its clock has advanced meanwhile."""
        if self.is_paused:
            self.is_paused = False
            self._go_on()

    # ------------------------------------------------------------------ steps

    def receive(self, happened: RaftInput) -> None:
        """Queues an input; the process handles it as soon as it can."""
        self._inbox.append(happened)
        self._go_on()

    def append(self, count: int) -> None:
        """Appends numbers, if the listener of this node believes that the node leads."""
        core, counter = self.core, self.counter
        if core is None or counter is None or counter.claimed_epoch is None or self.is_paused:
            return
        numbers = counter.next_numbers(count)
        try:
            core.prepare_append(counter.claimed_epoch, numbers, self.now_ms)
        except (NotLeader, RecordsRefused):
            return
        counter.prepared_number += count
        core.schedule_prepared_append()
        self.receive(RaftTick())

    def _go_on(self) -> None:
        if self.core is None or self.is_paused:
            return
        self._perform()
        while self._inbox and self._can_step():
            self._step(self._inbox.popleft())
            self._perform()
        self._arm()

    def _can_step(self) -> bool:
        return self.is_running and not self.is_paused and (self.is_idle or self.is_eager)

    def _step(self, happened: RaftInput) -> None:
        assert self.core is not None
        led = self.core.epoch if self.is_leader else None
        cuts = self.log.cuts
        self._take(self.core.step(happened, self.now_ms))
        leads = self.core.epoch if self.is_leader else None
        has_cut = self.log.cuts != cuts
        assert leads is None or led != leads or not has_cut, "S13: a leader takes records away"
        self._world.invariants.check(self)

    def _take(self, outputs: list[RaftOutput]) -> None:
        self._outputs.extend(outputs)

    def _arm(self) -> None:
        """Sets the alarm for the node's next tick, at its deadline."""
        if self.core is None or self.is_paused:
            return
        deadline_ms = self.core.deadline_ms
        if deadline_ms is None or (not self.is_idle and not self.is_eager):
            return
        wait_ms = max(0, deadline_ms - self.now_ms)
        self._alarm.set(min(int(wait_ms / self.clock_rate) + (wait_ms > 0), 10**9))

    def _tick(self) -> None:
        if self.core is None:
            return
        at_ms, count = self._ticks
        self._ticks = (self.now_ms, count + 1 if at_ms == self.now_ms else 1)
        assert self._ticks[1] < MOST_IDLE_STEPS, f"node {self.number} spins, {self.core.state_name}"
        self.receive(RaftTick())

    # ------------------------------------------------------------------ outputs

    def _perform(self) -> None:
        while self._outputs and not self._is_performing and not self.is_paused:
            output = self._outputs.popleft()
            match output:
                case PersistElection(election):
                    words = f"persists {election_in_words(election)}"
                    bounds = self._world.network.weather.persist_ms
                    self._durably(bounds, words, partial(self._persist, election))
                case FlushLog():
                    words = f"flushes its log up to {self.log.end_offset}"
                    self._durably(self._world.network.weather.flush_ms, words, self.log.flush)
                case _:
                    self._perform_at_once(output)
            if self.core is None:
                return

    def _perform_at_once(self, output: RaftOutput) -> None:
        assert self.counter is not None
        match output:
            case SendRequest():
                self._world.invariants.sends(self, output)
                self._world.network.send(self.peer, output)
            case SendResponse(request_id, response):
                request = self._world.network.request_of(request_id)
                self._world.invariants.answers(self, request, response)
                if isinstance(response, FetchResponse):
                    self._world.invariants.exposes(self, response.high_watermark)
                self._world.network.answer(self.peer, output)
            case DeliverCommit(_, first_offset, high_watermark):
                self._world.invariants.exposes(self, high_watermark)
                most = self._world.random.randint(1, 4)
                next_offset = self.counter.commit(first_offset, high_watermark, most)
                self._advance(next_offset)
            case DeliverSnapshot(_, snapshot_id):
                self._tell(f"loads snapshot {place(snapshot_id)}")
                self._advance(self.counter.load(snapshot_id))
            case DeliverLeader(_, leader):
                self._world.invariants.tells_leader(self, leader)
                self.counter.lead(leader)
            case ShutdownDone(is_graceful):
                self._tell("has left" if is_graceful else "has left without a new leader")
                self.shutdown = output
                self._world.stopped(self)
            case PersistElection() | FlushLog():
                raise AssertionError("durable outputs take their time")

    def _durably(self, bounds: tuple[int, int], words: str, deed: Callable[[], None]) -> None:
        """Performs a durable write after a delay; the node may crash before or after it."""
        self._is_performing = True
        incarnation = self.incarnation
        crash = self._world.network.weather.crash_at_disk

        def done() -> None:
            if self.incarnation != incarnation or self.core is None:
                return
            if self._world.timeline.happens(crash):
                self._world.crash(self, f"before it {words}")
                return
            deed()
            self._tell(words)
            self._is_performing = False
            self._world.touched(self)
            if self._world.timeline.happens(crash):
                self._world.crash(self, f"after it {words}")
                return
            self._go_on()

        self._world.timeline.after(self._world.timeline.within(bounds), done)

    def _persist(self, election: ElectionState) -> None:
        self.disk.election = election
        self._world.invariants.persists(self, election)
        self._inbox.append(ElectionPersisted(election))

    def _advance(self, next_offset: int) -> None:
        incarnation = self.incarnation

        def advance() -> None:
            if self.incarnation == incarnation and self.core is not None:
                self.receive(ListenerAdvanced(LISTENER, next_offset))

        delay_ms = self._world.timeline.within(self._world.network.weather.listener_ms)
        self._world.timeline.after(delay_ms, advance)

    def _tell(self, words: str) -> None:
        self._world.timeline.tell(f"{self.number} {words}")
