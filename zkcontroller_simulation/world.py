"""The simulated cluster: brokers with their controllers, a ZooKeeper, a network, a clock.

Its methods are what an operator does: start brokers, create a topic, kill a broker, delete
``/controller``, wait for a condition.  After every action the invariants of :mod:`.invariants` are
checked.  A broken invariant ends the run with an error, which shows the history and the seed to
replay it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar
from uuid import UUID

from kafka_common.errors import SessionExpired, ZkControllerError
from kafka_common.model import Broker, ReplicaAssignment, TopicPartition
from zkcontroller.core.config import ControllerConfig
from zkcontroller.core.effects import (
    AlterPartitionResult,
    ControlledShutdownResult,
    Outbox,
    Question,
    Result,
)
from zkcontroller.core.events import (
    AlterPartitionReceived,
    ControlledShutdown,
    Event,
    IsrChange,
    TopicUncleanLeaderElectionEnable,
)
from zkcontroller.zookeeper.requests import Create, Delete, SetData, Write, ZkCode
from zkcontroller.zookeeper.znodes import (
    ConfigZnode,
    ControllerEpochZnode,
    ControllerZnode,
    DeleteTopicZnode,
    LogDirEventNotificationSequenceZnode,
    PartitionStateZnode,
    PreferredReplicaElectionZnode,
    ReassignPartitionsZnode,
    TopicZnode,
)
from zkcontroller_simulation.control_requests import ControlRequest
from zkcontroller_simulation.history import BrokenWorldError
from zkcontroller_simulation.invariants import Invariants
from zkcontroller_simulation.observer import Observer
from zkcontroller_simulation.process import BrokerProcess, ProcessState
from zkcontroller_simulation.registration import PERSISTENT_PATHS
from zkcontroller_simulation.timeline import Action, Timeline
from zkcontroller_simulation.weather import CALM, Weather
from zkcontroller_simulation.zookeeper import SimulatedSession, SimulatedZooKeeper

T = TypeVar("T", bound=ControlRequest)

HOUR_MS: Final = 3_600_000
TICK_MS: Final = 500
"""The interval at which the server expires sessions and clients send pings."""
OPERATOR_SESSION_TIMEOUT_MS: Final = 1000 * HOUR_MS


class World:
    """The whole simulated cluster, in one thread and with one source of randomness."""

    def __init__(self, seed: int = 0, *, session_timeout_ms: int = 18_000) -> None:
        self.seed = seed
        self.timeline = Timeline(seed)
        self.clock = self.timeline.clock
        self.weather: Weather = CALM
        self.session_timeout_ms = session_timeout_ms
        self.zookeeper = SimulatedZooKeeper(lambda: self.clock.now_ms)
        self.operator = SimulatedSession(
            self.zookeeper, session_timeout_ms=OPERATOR_SESSION_TIMEOUT_MS
        )
        self.operator.start()
        self.living: dict[int, BrokerProcess] = {}
        """The incarnation of each broker that is running or paused."""
        self.processes: list[BrokerProcess] = []
        """Every incarnation of every broker, dead ones too."""
        self.brokers: dict[int, Broker] = {}
        """Registrations of brokers that differ from the default, by broker id."""
        self.settings: dict[str, object] = {}
        """Settings of the controllers that start from now on, as ControllerConfig names them."""
        self.acting: BrokerProcess | None = None
        self.awaited: dict[int, Callable[[Result], None]] = {}
        """The callback for the response, by request id."""
        self.failures: list[tuple[BrokerProcess, str, ZkControllerError]] = []
        """Events that ended with an error other than the end of the session."""
        self.refused: dict[str, ZkCode] = {}
        """The code with which ZooKeeper refuses a controller's questions, by path."""
        self.observer: Observer | None = None
        """The observer that records the run; None if there is none."""
        self.new_outbox: Callable[[], Outbox] = list
        """Makes the outbox of each controller that starts from now on."""
        self.invariants = Invariants(self)
        self.timeline.on_line = self._line_added
        self._request_id = 0
        self.timeline.after(TICK_MS, self._tick, background=True)

    # ------------------------------------------------------------------ brokers

    def start_brokers(self, *broker_ids: int) -> None:
        """Starts brokers one after the other and lets the cluster come to rest."""
        for broker_id in broker_ids:
            self.start(broker_id)
            self.run_until_quiet()

    def start(self, broker_id: int, *, is_candidate: bool = True) -> BrokerProcess:
        """Starts one broker, which registers later in the run.

        A broker that is no candidate never tries to become controller; it only registers and
        handles requests.
        """
        assert broker_id not in self.living, f"broker {broker_id} lives"
        incarnation = 1 + sum(p.broker_id == broker_id for p in self.processes)
        config = ControllerConfig(broker_id=broker_id, **self.settings)  # type: ignore[arg-type]
        process = BrokerProcess(self, config, incarnation, is_candidate=is_candidate)
        self.living[broker_id] = process
        self.processes.append(process)
        process.start()
        return process

    def kill(self, broker_id: int) -> None:
        """SIGKILL: the broker dies at once; its session remains until its timeout."""
        process = self.living.pop(broker_id)
        process.kill()
        process.link.break_connection()

    def stop(self, broker_id: int) -> None:
        """Ends a clean shutdown: closes the session and ends the process."""
        self.living.pop(broker_id).stop()

    def pause(self, broker_id: int) -> None:
        """Pauses the broker's process (SIGSTOP)."""
        self.living[broker_id].pause()

    def resume(self, broker_id: int) -> None:
        """Resumes the broker's process (SIGCONT)."""
        self.living[broker_id].resume()

    def disconnect(self, broker_id: int) -> None:
        """The broker cannot reach ZooKeeper until :meth:`connect`."""
        link = self.living[broker_id].link
        link.is_cut_off = True
        if link.is_connected:
            link.break_connection()
            link.reconnect_later()
        self.timeline.tell(f"broker {broker_id} is cut off from ZooKeeper")

    def connect(self, broker_id: int) -> None:
        """The broker can reach ZooKeeper again."""
        self.living[broker_id].link.is_cut_off = False

    def break_connection(self, broker_id: int) -> None:
        """The broker's connection to ZooKeeper breaks; it will try a new one."""
        link = self.living[broker_id].link
        if link.is_connected:
            self.timeline.tell(f"broker {broker_id} loses its connection to ZooKeeper")
            link.break_connection()
            link.reconnect_later()

    def expire_session(self, broker: int) -> None:
        """ZooKeeper expires the broker's session, and the broker learns of it."""
        process = self.living[broker]
        if self.zookeeper.is_alive(process.link.session_id):
            self.timeline.tell(f"the session of broker {broker} expires")
            self.zookeeper.end_session(process.link.session_id)
            self._tell_expired(process)

    def shut_down(self, broker_id: int) -> int:
        """Asks the active controller to move the broker's leaderships; returns the request's id."""
        controller = self.controller
        assert controller is not None, "there is no controller to ask"
        broker_epoch = self.living[broker_id].broker.broker_epoch
        return self.ask_shutdown(controller, broker_id, broker_epoch)

    def ask_shutdown(self, controller: BrokerProcess, broker_id: int, broker_epoch: int) -> int:
        """Sends a ControlledShutdown to one broker's controller; returns the request's id."""
        self.invariants.excused.add(broker_id)
        self._request_id += 1
        controller.put(ControlledShutdown(broker_id, broker_epoch, self._request_id))
        return self._request_id

    def catch_up(self, tp: TopicPartition) -> None:
        """The partition's leader proposes to add every live replica to the ISR (AlterPartition)."""
        for leader in self._leaders(tp):
            state = leader.broker.hosted[tp]
            newcomers = [
                b for b in state.replicas if b in leader.broker.live_brokers and self._has(b, tp)
            ]
            self._alter_partition(leader, tp, tuple(dict.fromkeys([*state.isr, *newcomers])))

    def fall_behind(self, tp: TopicPartition, broker_id: int) -> None:
        """The partition's leader proposes to remove that follower from the ISR."""
        for leader in self._leaders(tp):
            if leader.broker_id != broker_id:
                isr = tuple(b for b in leader.broker.hosted[tp].isr if b != broker_id)
                self._alter_partition(leader, tp, isr)

    def _leaders(self, tp: TopicPartition) -> list[BrokerProcess]:
        """The running brokers that believe that they lead the partition.

        A former leader may be among them, if it has not got the new LeaderAndIsr.
        """
        return [p for p in self.living.values() if p.is_running and p.broker.leads(tp)]

    def _has(self, broker_id: int, tp: TopicPartition) -> bool:
        process = self.living.get(broker_id)
        return process is None or tp not in process.broker.failed

    def _alter_partition(
        self, leader: BrokerProcess, tp: TopicPartition, isr: tuple[int, ...]
    ) -> None:
        controller = self.living.get(leader.broker.controller_id)
        proposal = None if controller is None else leader.broker.propose(tp, isr)
        if controller is None or proposal is None:
            return
        self.timeline.tell(f"{leader.name} asks to change the ISR of {tp} to {proposal.new_isr}")
        epoch = leader.broker.broker_epoch
        # A leader that never got an id of its topic uses the last version with topic names.
        version = 1 if isinstance(proposal.topic, str) else 3
        self.request(
            controller,
            lambda i: AlterPartitionReceived(leader.broker_id, epoch, version, (proposal,), i),
            lambda result: self._changed(leader, tp, proposal, result),
        )

    def _changed(
        self, leader: BrokerProcess, tp: TopicPartition, proposal: IsrChange, result: Result
    ) -> None:
        assert isinstance(result, AlterPartitionResult)
        for changed in result.results:
            verdict = (tp, proposal, changed.error_code, changed.state)
            self._travel(partial(leader.broker.proposal_answered, *verdict), leader)

    def request(
        self,
        controller: BrokerProcess,
        make: Callable[[int], Event],
        answered: Callable[[Result], None] | None = None,
    ) -> None:
        """Sends a request with the faults of the weather: lost, late, twice, response lost."""
        for _ in range(1 + self.timeline.happens(self.weather.repeated_question)):
            self._request_id += 1
            if answered is not None and not self.timeline.happens(self.weather.lost_response):
                self.awaited[self._request_id] = answered
            if not self.timeline.happens(self.weather.lost_request):
                self._travel(partial(controller.put, make(self._request_id)), controller)

    def _travel(self, action: Action, to: BrokerProcess) -> None:
        is_late = self.timeline.happens(self.weather.late_question)
        bounds = self.weather.lateness_ms if is_late else self.weather.network_delay_ms
        self.timeline.after(self.timeline.within(bounds), lambda: to.run(action))

    def answered(self, request_id: int, result: Result) -> None:
        """Handles a controller's response to a request."""
        waiting = self.awaited.pop(request_id, None)
        if waiting is not None:
            waiting(result)

    def answer(self, request_id: int) -> ControlledShutdownResult | None:
        """The response to a ControlledShutdown request; None if there is none yet."""
        result = self.result(request_id)
        assert result is None or isinstance(result, ControlledShutdownResult)
        return result

    def result(self, request_id: int) -> Result | None:
        """The response of any process to a request; None if there is none yet."""
        for process in self.processes:
            if request_id in process.results:
                return process.results[request_id]
        return None

    # ------------------------------------------------------------------ what operators do

    def create_topic(
        self, topic: str, replicas: Sequence[Sequence[int]], *, topic_id: UUID | None = None
    ) -> None:
        """Writes the topic's znode; the controller creates the partitions later in the run."""
        partitions = {
            partition: ReplicaAssignment(tuple(assigned))
            for partition, assigned in enumerate(replicas)
        }
        self._tell_operator(f"creates topic {topic} with {len(replicas)} partitions")
        self.write(Create(TopicZnode.path(topic), TopicZnode(topic_id, partitions).encode()))

    def add_partitions(self, topic: str, replicas: Sequence[Sequence[int]]) -> None:
        """Rewrites the topic's znode with more partitions after the existing ones."""
        znode = self.topic_znode(topic)
        partitions = dict(znode.partitions)
        for assigned in replicas:
            partitions[len(partitions)] = ReplicaAssignment(tuple(assigned))
        self._tell_operator(f"adds {len(replicas)} partitions to topic {topic}")
        self.write(SetData(TopicZnode.path(topic), TopicZnode(znode.topic_id, partitions).encode()))

    def delete_topic(self, topic: str) -> None:
        """Asks for the topic's deletion by its znode."""
        self._tell_operator(f"asks for the deletion of topic {topic}")
        self.write(Create(DeleteTopicZnode.path(topic)))

    def ask_for_reassignment(self, targets: Mapping[TopicPartition, Sequence[int]]) -> None:
        """Writes the reassignment znode."""
        self._tell_operator(f"asks for the reassignment of {len(targets)} partitions")
        wanted = {tp: tuple(replicas) for tp, replicas in targets.items()}
        self.write(Create(ReassignPartitionsZnode.PATH, ReassignPartitionsZnode(wanted).encode()))

    def fail_log_dir(self, broker_id: int, partitions: Iterable[TopicPartition]) -> None:
        """Fails the broker's log directory with these partitions, and notifies the controller."""
        self.invariants.excused.add(broker_id)
        broker = self.living[broker_id].broker
        broker.lose_log_dir(partitions)
        self.timeline.tell(f"broker {broker_id} loses a log directory: {sorted(broker.failed)}")
        data = LogDirEventNotificationSequenceZnode(broker_id).encode()
        path = LogDirEventNotificationSequenceZnode.CREATE_PATH
        self.write(Create(path, data, sequential=True))

    def allow_unclean_elections(self, topic: str) -> None:
        """Writes the topic's configuration and sends the event for it to every broker."""
        self._tell_operator(f"allows unclean elections of topic {topic}")
        path = ConfigZnode.topic_path(topic)
        self.operator.create_missing([path])
        config = {"unclean.leader.election.enable": "true"}
        self.write(SetData(path, ConfigZnode(config).encode()))
        for process in list(self.living.values()):
            self._travel(partial(process.put, TopicUncleanLeaderElectionEnable(topic)), process)

    def ask_for_preferred_leaders(self, *partitions: TopicPartition) -> None:
        """Writes the preferred-election znode."""
        self._tell_operator(f"asks for the preferred leaders of {len(partitions)} partitions")
        wanted = PreferredReplicaElectionZnode(partitions)
        self.write(Create(PreferredReplicaElectionZnode.PATH, wanted.encode()))

    def delete_controller_znode(self) -> None:
        """Deletes ``/controller``, which forces an election."""
        self._tell_operator("deletes /controller")
        self.operator.write(Delete(ControllerZnode.PATH))

    def write(self, operation: Write) -> None:
        """Performs a write of the operator, which must succeed."""
        outcome = self.operator.write(operation)
        assert not isinstance(outcome, ZkCode), f"{operation} was refused: {outcome.name}"

    def prepare_znodes(self) -> None:
        """Creates the persistent parents, for znodes that are written before any broker starts."""
        self.operator.create_missing(PERSISTENT_PATHS)

    def pause_controller_at(self, question: type | Callable[[Question], bool]) -> BrokerProcess:
        """Runs the world until the active controller is about to ask ``question``; pauses it there.

        See :meth:`pause_at`.
        """
        return self.pause_at(self.controller, question)

    def pause_at(
        self, process: BrokerProcess | None, question: type | Callable[[Question], bool]
    ) -> BrokerProcess:
        """Runs the world until ``process`` is about to ask ``question``; pauses it before that."""
        assert process is not None, "there is no process to pause"

        def is_it(asked: Question) -> bool:
            return isinstance(asked, question) if isinstance(question, type) else question(asked)

        process.breakpoint = is_it
        self.run_until(lambda: process.state is ProcessState.PAUSED)
        return process

    def put(self, broker_id: int, event: Event) -> None:
        """Puts an event into a broker's controller queue."""
        self.living[broker_id].put(event)

    def refusal(self, path: str, codes: Sequence[ZkCode]) -> ZkCode | None:
        """The code with which ZooKeeper refuses a controller's question; None: it does not."""
        code = self.refused.get(path)
        if code is None and self.timeline.happens(self.weather.refused):
            code = self.timeline.random.choice(codes)
        if code is not None:
            self.timeline.tell(f"ZooKeeper refuses {path}: {code.name}")
        return code

    # ------------------------------------------------------------------ what one can see

    @property
    def controller(self) -> BrokerProcess | None:
        """The running broker that acts as controller in the cluster's current epoch."""
        for process in self.living.values():
            context = process.controller.context
            if process.controller.is_active and context.epoch == self.controller_epoch:
                return process
        return None

    @property
    def active_controller(self) -> int | None:
        """The id of the broker that acts as controller in the cluster's current epoch."""
        process = self.controller
        return None if process is None else process.broker_id

    @property
    def controller_znode(self) -> int | None:
        """The broker id in ``/controller``; None if it is missing."""
        znode = self.zookeeper.peek(ControllerZnode.PATH)
        return None if znode is None else ControllerZnode.decode(znode.data).broker_id

    @property
    def controller_epoch(self) -> int:
        """The epoch in ``/controller_epoch``; 0 if it is missing."""
        znode = self.zookeeper.peek(ControllerEpochZnode.PATH)
        return 0 if znode is None else ControllerEpochZnode.decode(znode.data)

    def state_znode(self, topic: str, partition: int) -> PartitionStateZnode:
        """The partition's state znode, which must exist."""
        path = PartitionStateZnode.path(topic, partition)
        znode = self.zookeeper.peek(path)
        assert znode is not None, f"{path} does not exist"
        return PartitionStateZnode.decode(path, znode.data)

    def has_state_znode(self, topic: str, partition: int) -> bool:
        """Whether the partition ever had a leader."""
        return self.zookeeper.peek(PartitionStateZnode.path(topic, partition)) is not None

    def topic_znode(self, topic: str) -> TopicZnode:
        """The topic's znode, which must exist."""
        znode = self.zookeeper.peek(TopicZnode.path(topic))
        assert znode is not None, f"topic {topic} does not exist"
        return TopicZnode.decode(topic, znode.data)

    def topics(self) -> Mapping[str, TopicZnode]:
        """The znodes of all topics, by name."""
        names = self.zookeeper.peek_children("/brokers/topics")
        return {topic: self.topic_znode(topic) for topic in names}

    def received(self, broker_id: int, kind: type[T]) -> list[T]:
        """The control requests of that kind that the broker got, since :meth:`forget_requests`."""
        return [r for r in self.living[broker_id].broker.received if isinstance(r, kind)]

    def forget_requests(self) -> None:
        """Clears the lists of control requests that the brokers got."""
        for process in self.living.values():
            process.broker.received.clear()

    def log(self, broker_id: int, level: str = "") -> list[str]:
        """The broker's ``controller.log``, all incarnations; of one level if given."""
        return [
            line.text
            for process in self.processes
            if process.broker_id == broker_id
            for line in process.log_lines
            if not level or line.level == level
        ]

    # ------------------------------------------------------------------ time

    def step(self) -> None:
        """Runs the next action and checks the invariants."""
        self.acting = None
        try:
            self.timeline.run_next()
            self.invariants.check()
        except AssertionError as broken:
            raise BrokenWorldError(self.timeline, str(broken)) from broken

    def run_for(self, duration_ms: int) -> None:
        """Runs all actions of the next ``duration_ms`` milliseconds."""
        is_over = False

        def end() -> None:
            nonlocal is_over
            is_over = True

        self.timeline.after(duration_ms, end, background=True)
        while not is_over:
            self.step()

    def run_until(self, predicate: Callable[[], bool], *, within_ms: int = 120_000) -> None:
        """Runs until the predicate is true; raises BrokenWorldError after ``within_ms``."""
        deadline_ms = self.clock.now_ms + within_ms
        while not predicate():
            if self.clock.now_ms > deadline_ms:
                raise BrokenWorldError(self.timeline, f"not within {within_ms} ms: {predicate}")
            self.step()

    def run_until_quiet(self, *, within_ms: int = HOUR_MS) -> None:
        """Runs until all processes are idle and no dead broker has a session."""
        self.run_until(self.is_quiet, within_ms=within_ms)

    def settle(self) -> None:
        """Runs until quiet and then checks what must hold in a cluster at rest."""
        self.run_until_quiet()
        try:
            self.invariants.check_at_rest()
            self.invariants.check_nothing_is_left()
        except AssertionError as broken:
            raise BrokenWorldError(self.timeline, str(broken)) from broken

    def is_quiet(self) -> bool:
        return self.timeline.is_quiet and all(self._is_at_rest(p) for p in self.processes)

    def _is_at_rest(self, process: BrokerProcess) -> bool:
        if process.state is ProcessState.RUNNING:
            return process.is_idle and process.link.is_connected
        return not self.zookeeper.is_alive(process.link.session_id)

    # ------------------------------------------------------------------ inside

    def event_failed(self, process: BrokerProcess, task: str, error: ZkControllerError) -> None:
        """An event of that process ended with an error."""
        if not isinstance(error, SessionExpired):
            self.failures.append((process, task, error))

    def _tick(self) -> None:
        for process in self.living.values():
            link = process.link
            is_pinging = process.is_running and link.is_connected
            if is_pinging and self.zookeeper.is_alive(link.session_id):
                self.zookeeper.receive_from(link.session_id)
        if self.zookeeper.is_alive(self.operator.session_id):
            self.zookeeper.receive_from(self.operator.session_id)
        expired = self.zookeeper.expire_overdue()
        for process in self.living.values():
            if process.link.session_id in expired:
                self.timeline.tell(f"the session of {process.name} expires")
                self._tell_expired(process)
        self.timeline.after(TICK_MS, self._tick, background=True)

    def _line_added(self, line: str) -> None:
        if self.observer is not None:
            self.observer.line_added(line)

    def _tell_expired(self, process: BrokerProcess) -> None:
        if process.link.is_connected:
            process.link.closed_by_server()

    def _tell_operator(self, what: str) -> None:
        self.timeline.tell(f"an operator {what}")
