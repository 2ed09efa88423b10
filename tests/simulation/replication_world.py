"""Brokers that replicate, a controller, and faults between them, in virtual time.

The seed determines everything.  After each action the world checks the invariants.  The first
broken invariant ends the run; the error shows the history.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Final

from kio.schema.errors import ErrorCode

from kafka_common.model import TopicPartition
from replica_manager.replication.fetch_requests import Request
from replica_manager.replication.isr import AlteredIsr
from replica_manager.replication.isr_proposals import AlterPartitionCall
from tests.simulation.replication_broker import LAG_MS, SimulatedBroker
from tests.simulation.replication_controller import ControlMessage, ModelController
from tests.simulation.replication_invariants import ReplicationInvariants
from tests.simulation.replication_log import InMemoryLog, Record, SimulatedLog
from zkcontroller_simulation.history import LINES_SHOWN
from zkcontroller_simulation.timeline import Timeline

BROKERS: Final = (1, 2, 3)
SESSION_TIMEOUT_MS: Final = 200
RPC_TIMEOUT_MS: Final = 80
LAST_RECORDS: Final = 4
"""Produced when everything is well again."""
REST_MS: Final = 2_400


class BrokenReplicationError(AssertionError):
    """Something that must always hold does not; the message replays it."""

    def __init__(self, world: ReplicationWorld, broken: str) -> None:
        history = world.timeline.history
        shown = "\n".join(history[-LINES_SHOWN:])
        super().__init__(
            f"{broken}\n\nseed {world.timeline.seed}; the last of {len(history)} lines of history:"
            f"\n{shown}\n\nreplay: pytest tests/simulation/test_replication_seeds.py "
            f"--seed={world.timeline.seed}"
        )


class ReplicationWorld:
    """Three brokers, two partitions."""

    def __init__(
        self, seed: int, make_log: Callable[[int, TopicPartition], SimulatedLog] | None = None
    ) -> None:
        """``make_log`` makes a broker's log of a partition; without it they are in memory."""
        self.make_log = make_log or (lambda _, __: InMemoryLog())
        self.timeline = Timeline(seed)
        self.timeline.is_shuffling = True
        self.random: Random = self.timeline.random
        self.truncates_on_fetch = self.random.random() < 0.7
        self.min_in_sync_replicas = self.random.choice((1, 1, 2))
        self.thinking_ms = self.random.choice(((1, 3), (1, 30)))
        self.delay_ms = self.random.choice(((0, 2), (0, 40), (0, 90)))
        self.loss = self.random.choice((0.0, 0.05, 0.2))
        self.lateness = self.random.choice((0.0, 0.1, 0.3))
        """How often a request of a follower takes its time."""
        self.misfortunes = self.random.choice((0.1, 0.25, 0.4))
        self.lost_verdicts = self.random.choice((self.loss, 0.5))
        """How often the controller's answer to a proposal does not reach the leader."""
        self.partitions = {
            TopicPartition("orders", 0): (1, 2, 3),
            TopicPartition("orders", 1): (2, 3, 1),
        }
        self.acknowledged_records: dict[TopicPartition, list[Record]] = {
            tp: [] for tp in self.partitions
        }
        self.controller = ModelController(
            self, self.partitions, is_forgetful=self.random.random() < 0.3
        )
        self.brokers = {broker: SimulatedBroker(self, broker) for broker in BROKERS}
        self.isolated: set[int] = set()
        """Brokers that the controller and ZooKeeper cannot reach."""
        self.cut: set[frozenset[int]] = set()
        """Pairs of brokers that cannot reach each other."""
        self._mail: dict[int, deque[ControlMessage]] = {broker: deque() for broker in BROKERS}
        self._invariants = ReplicationInvariants(self)
        self._is_well = False
        """The time of misfortunes is over."""
        self._epochs = 0
        self._values = 0

    @property
    def now_ms(self) -> int:
        return self.timeline.clock.now_ms

    def tell(self, line: str) -> None:
        """Adds a line to the history."""
        self.timeline.tell(line)

    def later(self, bounds: tuple[int, int], action: Callable[[], None]) -> None:
        """Schedules an action within those milliseconds."""
        self.timeline.after(self.timeline.within(bounds), action, background=True)

    def run(self, for_ms: int) -> None:
        """Lets time pass, and checks after everything that happens."""
        is_over: list[bool] = []
        self.timeline.after(for_ms, lambda: is_over.append(True), background=True)
        while not is_over:
            self.timeline.run_next()
            broken = self._invariants.check()
            if broken is not None:
                raise BrokenReplicationError(self, broken)

    # ------------------------------------------------------------------ brokers

    def start_broker(self, broker_id: int) -> None:
        """A process starts and registers."""
        broker = self.brokers[broker_id]
        if broker.is_running:
            return
        broker.start()
        self.tell(f"broker {broker_id} starts")
        self._register(broker)
        self._keep_ticking(broker)

    def kill_broker(self, broker_id: int) -> None:
        """A process ends; ZooKeeper notices when the session times out."""
        broker = self.brokers[broker_id]
        if not broker.is_running or self._is_well:
            return
        broker.kill()
        self.tell(f"broker {broker_id} is killed")
        self._expire_later(broker_id, broker.broker_epoch)

    def _register(self, broker: SimulatedBroker) -> None:
        if broker.broker_id in self.isolated:
            self.later((10, 50), broker.while_alive(lambda: self._register(broker)))
            return
        self._epochs += 1
        broker.broker_epoch = self._epochs
        self.tell(f"broker {broker.broker_id} registers with epoch {self._epochs}")
        self.controller.register(broker.broker_id, self._epochs)

    def _expire_later(self, broker_id: int, broker_epoch: int) -> None:
        def expire() -> None:
            broker = self.brokers[broker_id]
            is_well = broker.is_running and broker_id not in self.isolated
            if self.controller.registered.get(broker_id) != broker_epoch or is_well:
                return
            self.tell(f"the session of broker {broker_id} expires")
            self.controller.expire(broker_id)

        self.later((10, SESSION_TIMEOUT_MS), expire)

    def _keep_ticking(self, broker: SimulatedBroker) -> None:
        def tick() -> None:
            broker.tick()
            if self.random.random() < 0.3:
                broker.checkpoint()
            self.timeline.after(LAG_MS // 2, broker.while_alive(tick), background=True)

        self.timeline.after(LAG_MS // 2, broker.while_alive(tick), background=True)

    def isolate(self, broker_id: int) -> None:
        """A broker loses ZooKeeper and the controller; clients and brokers still reach it."""
        self.isolated.add(broker_id)
        self.tell(f"broker {broker_id} is cut off from ZooKeeper")
        self._expire_later(broker_id, self.brokers[broker_id].broker_epoch)

    def reconnect(self, broker_id: int) -> None:
        """It is back; if its session expired it registers anew, its process being the same."""
        if broker_id not in self.isolated:
            return
        self.isolated.discard(broker_id)
        self.tell(f"broker {broker_id} reaches ZooKeeper again")
        broker = self.brokers[broker_id]
        if broker.is_running and self.controller.registered.get(broker_id) != broker.broker_epoch:
            self._register(broker)

    # ------------------------------------------------------------------ the controller's mail

    def post(self, broker_id: int, message: ControlMessage) -> None:
        """Sends to a broker, in order, until the broker or its registration is gone."""
        self._mail[broker_id].append(message)
        if len(self._mail[broker_id]) == 1:
            self.later(self.delay_ms, lambda: self._deliver(broker_id))

    def _deliver(self, broker_id: int) -> None:
        mail, broker = self._mail[broker_id], self.brokers[broker_id]
        message = mail[0]
        is_current = self.controller.registered.get(broker_id) == message.broker_epoch
        is_reached = broker.is_running and broker_id not in self.isolated
        if is_current and not is_reached:
            self.later((5, 30), lambda: self._deliver(broker_id))
            return
        mail.popleft()
        if is_reached and broker.broker_epoch == message.broker_epoch:
            for tp, state in message.partitions.items():
                self.tell(
                    f"broker {broker_id} hears of {tp}: leader {state.leader}, "
                    f"epoch {state.leader_epoch}, isr {state.in_sync_replicas}"
                )
            broker.control(message)
        if mail:
            self.later(self.delay_ms, lambda: self._deliver(broker_id))

    def propose(self, broker: SimulatedBroker, call: AlterPartitionCall) -> None:
        """Brings proposals to the controller; what is lost on the way is sent again."""
        self.later(self.delay_ms, broker.while_alive(lambda: self._judge(broker, call)))

    def _judge(self, broker: SimulatedBroker, call: AlterPartitionCall) -> None:
        def again() -> None:
            broker.proposals.lost()
            broker.propose()

        if broker.broker_id in self.isolated or self.timeline.happens(self.loss):
            self.later((20, 60), broker.while_alive(again))
            return
        responses: dict[TopicPartition, AlteredIsr | ErrorCode] = {}
        for tp, proposed in call.partitions.items():
            if self.timeline.happens(0.05):
                responses[tp] = ErrorCode.unknown_server_error
                continue
            proposal = proposed.pending.proposal
            responses[tp] = self.controller.alter(broker.broker_id, tp, proposal)
            self.tell(f"broker {broker.broker_id} proposes {tp} {proposal}: {responses[tp]}")
        if self.timeline.happens(self.lost_verdicts):
            self.later((20, 60), broker.while_alive(again))
            return
        self.later(self.delay_ms, broker.while_alive(lambda: broker.proposals_answered(responses)))

    # ------------------------------------------------------------------ between brokers

    def ask(
        self,
        follower: SimulatedBroker,
        leader_id: int,
        request: Request,
        answered: Callable[[object], None],
    ) -> None:
        """Sends a request; ``answered`` gets the answer, or None if one of the two was lost.

        A request can outlive the process that sent it, not the one it was sent to.
        """
        leader = self.brokers[leader_id]
        incarnation, asking = leader.incarnation, follower.incarnation
        link = frozenset((follower.broker_id, leader_id))
        open_questions = [answered]

        def settle(response: object) -> None:
            if open_questions and follower.incarnation == asking:
                open_questions.pop()(response)

        def arrive() -> None:
            is_gone = leader.incarnation != incarnation or not leader.is_running
            if is_gone or link in self.cut or self.timeline.happens(self.loss):
                return
            response = leader.serve(follower.broker_id, request)
            if not self.timeline.happens(self.loss):
                self.later(self.delay_ms, lambda: settle(response))

        # A late one is given up and sent again; then it arrives all the same.
        is_late = self.timeline.happens(self.lateness)
        self.later((100, 500) if is_late else self.delay_ms, arrive)
        timeout_ms = (2 * self.delay_ms[1] + 1, 2 * self.delay_ms[1] + RPC_TIMEOUT_MS)
        self.later(timeout_ms, lambda: settle(None))

    # ------------------------------------------------------------------ producers

    def produce(self) -> None:
        """A client sends a record to a broker that believes that it leads the partition."""
        tp = self.random.choice(list(self.partitions))
        believers = [
            broker
            for broker in self.brokers.values()
            if tp in broker.partitions and broker.partitions[tp].is_leader
        ]
        if not believers:
            return
        broker = self.random.choice(believers)
        self._values += 1
        if broker.produce(tp, f"v{self._values}"):
            epoch = broker.partitions[tp].leader_epoch
            self.tell(f"broker {broker.broker_id} takes v{self._values} for {tp} in epoch {epoch}")

    def acknowledged(
        self, broker: SimulatedBroker, tp: TopicPartition, offset: int, value: str
    ) -> None:
        """Notes that a broker has acknowledged a client's record."""
        record = broker.logs[tp].record_at(offset)
        if record is None or record.value != value:
            raise BrokenReplicationError(self, f"{value} is acknowledged but not at {offset}")
        self.acknowledged_records[tp].append(record)
        self.tell(f"broker {broker.broker_id} acknowledges {value} at {offset} of {tp}")

    # ------------------------------------------------------------------ misfortune

    def begin(self) -> None:
        """Starts all brokers and produces the first records."""
        for broker_id in BROKERS:
            self.start_broker(broker_id)
        self.run(200)
        for _ in range(4):
            self.produce()
        self.run(400)

    def storm(self, deeds: int) -> None:
        """So many records, and misfortunes between them."""
        is_busy = True
        for _ in range(deeds):
            # Elections without a record between them are cases of their own.
            is_busy ^= self.random.random() < 0.1
            for _ in range(self.random.randint(0, 3) if is_busy else 0):
                self.produce()
            if self.random.random() < self.misfortunes:
                self._misfortune()
            self.run(self.random.randint(1, 40))

    def _misfortune(self) -> None:
        broker_id = self.random.choice(BROKERS)
        other = self.random.choice([broker for broker in BROKERS if broker != broker_id])
        tp = self.random.choice(list(self.partitions))
        match self.random.randrange(8):
            case 0 | 1:
                self.kill_broker(broker_id)
                self.later((5, 500), lambda: self.start_broker(broker_id))
            case 2:
                self.isolate(broker_id)
                self.later((20, 600), lambda: self.reconnect(broker_id))
            case 3:
                self._cut(broker_id, other, (20, 500))
            case 4:
                self._usurp(tp, broker_id)
            case _:
                # The leadership moves there and back. A replica may miss the epoch in between, and
                # so keep the records of the first one.
                leader = self.controller.partitions[tp].leader
                self._prefer(tp, broker_id)
                self.later((5, 120), lambda: self._prefer(tp, leader))

    def _cut(self, one: int, other: int, for_ms: tuple[int, int]) -> None:
        link = frozenset((one, other))
        self.cut.add(link)
        self.tell(f"brokers {one} and {other} cannot reach each other")
        self.later(for_ms, lambda: self.cut.discard(link))

    def _usurp(self, tp: TopicPartition, broker_id: int) -> None:
        """A member of the ISR that lags is elected, and soon dies: all it did was truncating."""
        leader = self.controller.partitions[tp].leader
        self._cut(leader, broker_id, (60, 160))
        if self.random.random() < 0.5:
            # The other broker may miss the election. For it the old leader led all the time.
            other = next(one for one in BROKERS if one not in (leader, broker_id))
            self.isolate(other)
            self.later((100, 600), lambda: self.reconnect(other))
        self.later((20, 120), lambda: self._prefer(tp, broker_id))
        self.later((60, 260), lambda: self.kill_broker(broker_id))
        self.later((270, 700), lambda: self.start_broker(broker_id))

    def _prefer(self, tp: TopicPartition, broker_id: int) -> None:
        self.tell(f"{tp} prefers {broker_id}")
        self.controller.prefer(tp, broker_id)

    def end(self) -> None:
        """Everything is well again; after a while all replicas are the same."""
        self.loss = self.lost_verdicts = self.lateness = 0.0
        self.thinking_ms, self.delay_ms = (10, 40), (0, 5)
        self._is_well = True
        self.cut.clear()
        for broker_id in BROKERS:
            self.reconnect(broker_id)
            self.start_broker(broker_id)
        self.tell("everything is well")
        self.run(REST_MS // 2)
        if self.controller.is_forgetful:
            # What stays pending after a lost answer waits for a LeaderAndIsr, as it must.
            for tp, decided in self.controller.partitions.items():
                self.controller.prefer(tp, decided.leader)
        self.run(REST_MS // 4)
        # In a bad storm nothing may be acknowledged; what is well again must acknowledge.
        for _ in range(LAST_RECORDS):
            self.produce()
        self.run(REST_MS // 4)
        broken = self._invariants.at_rest()
        if broken is not None:
            raise BrokenReplicationError(self, broken)


def replicated_world(seed: int, deeds: int = 80) -> ReplicationWorld:
    """A whole run: start, faults, and the checks after them."""
    world = ReplicationWorld(seed)
    world.begin()
    world.storm(deeds)
    world.end()
    return world
