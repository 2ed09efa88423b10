"""A broker's process: its controller candidate, its broker side, its session, its channels.

The controller is the production core.  This is its driver: it takes events from the production
queue one by one, advances the procedure, performs the outbox, asks ZooKeeper the question and
returns the result.  Between any two of these steps the world may pause or kill the process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from enum import Enum
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from kafka_common.errors import ZkControllerError
from replica_manager.broker.registration import ZooKeeperRegistration
from zkcontroller.core.config import ControllerConfig
from zkcontroller.core.controller import KafkaController
from zkcontroller.core.effects import (
    AddChannel,
    CancelPuts,
    Effect,
    LogLine,
    MarkMeter,
    Pause,
    Put,
    Question,
    RegisterBrokerZnode,
    RemoveAllChannels,
    RemoveChannel,
    RequestResponse,
    Result,
    SendControlRequest,
    StateChanges,
)
from zkcontroller.core.events import (
    Event,
    Expire,
    RegisterBrokerAndReelect,
    RequestEvent,
    Startup,
)
from zkcontroller.core.watches import event_for_watch
from zkcontroller.runtime.event_queue import EventQueue
from zkcontroller.state_changes.record import StateChange
from zkcontroller.zookeeper.requests import WatchFired
from zkcontroller.zookeeper.session import ZooKeeperSession
from zkcontroller_simulation.broker_side import ControlledBroker
from zkcontroller_simulation.channel import Channel
from zkcontroller_simulation.registration import broker_of, create_persistent_paths
from zkcontroller_simulation.timeline import Action
from zkcontroller_simulation.words import in_words
from zkcontroller_simulation.zookeeper_link import ZooKeeperLink

if TYPE_CHECKING:
    from zkcontroller_simulation.world import World


class ProcessState(Enum):
    """The state of the process in the operating system."""

    RUNNING = "running"
    PAUSED = "paused"
    DEAD = "dead"


class BrokerProcess:
    """One incarnation of a broker, from its start to its death."""

    def __init__(
        self, world: World, config: ControllerConfig, incarnation: int, *, is_candidate: bool
    ) -> None:
        self._world = world
        self._timeline = world.timeline
        self.broker_id = config.broker_id
        self.incarnation = incarnation
        self.name = f"broker {self.broker_id}" + (f"/{incarnation}" if incarnation > 1 else "")
        self.state = ProcessState.RUNNING
        self.is_listening = False
        self.is_candidate = is_candidate
        self.broker = ControlledBroker(self.broker_id)
        self.controller = KafkaController(config, self._new_uuid, world.new_outbox())
        self.queue = EventQueue(
            monotonic_ms=lambda: self._timeline.clock.now_ms, preempt=self._preempted
        )
        self.link = ZooKeeperLink(
            world.zookeeper,
            self._timeline,
            session_timeout_ms=world.session_timeout_ms,
            weather=lambda: world.weather,
            run=self.run,
            on_fired=self._watch_went_off,
            on_watch=self._watch_fired,
            on_expired=self._session_expired,
            on_new_session=lambda: self.put(RegisterBrokerAndReelect()),
            refusal=world.refusal,
            name=self.name,
        )
        self.channels: dict[int, Channel] = {}
        self.log_lines: list[LogLine] = []
        self.state_changes: list[StateChange] = []
        self.sent: list[SendControlRequest] = []
        self.results: dict[int, Result] = {}
        self.ended_with: type[Exception] | None = None
        """The error of the last event that failed or lost the controllership; None: none."""
        self.breakpoint: Callable[[Question], bool] | None = None
        self._procedures: list[Generator[Question, Any, Any]] = []
        self._puts_cancelled = 0
        self._is_handling = False
        """Whether the procedure handles an event; False for the broker's start."""
        self._task = ""
        self._task_session_id = 0
        self._is_waking = False
        self._held: deque[Action] = deque()

    # Life and death

    def start(self) -> None:
        """Opens a session, registers the broker, and lets its controller try to be elected."""
        self.link.open()
        self._begin("starts", self._startup())

    def pause(self) -> None:
        """SIGSTOP: nothing happens inside until :meth:`resume`."""
        assert self.state is ProcessState.RUNNING, self.state
        self.state = ProcessState.PAUSED
        self._timeline.tell(f"{self.name} is paused")

    def resume(self) -> None:
        """SIGCONT: handles in order what arrived while the process was paused."""
        assert self.state is ProcessState.PAUSED, self.state
        self.state = ProcessState.RUNNING
        self._timeline.tell(f"{self.name} is resumed")
        self._timeline.after(0, self._release, in_order=True)

    def kill(self) -> None:
        """SIGKILL: the ZooKeeper session remains until its timeout."""
        self.state = ProcessState.DEAD
        self.is_listening = False
        self._timeline.tell(f"{self.name} is killed")

    def stop(self) -> None:
        """The end of a clean shutdown: the session is closed, the process ends."""
        self.link.close()
        self.state = ProcessState.DEAD
        self.is_listening = False
        self._timeline.tell(f"{self.name} has stopped")

    @property
    def is_alive(self) -> bool:
        """Whether the process is running or paused."""
        return self.state is not ProcessState.DEAD

    @property
    def is_running(self) -> bool:
        return self.state is ProcessState.RUNNING

    @property
    def task(self) -> str:
        """The event that is being processed; empty between two events."""
        return self._task if self._procedures else ""

    @property
    def is_idle(self) -> bool:
        """Whether nothing is queued, being processed or held back."""
        return not (self._procedures or len(self.queue) or self._held)

    def run(self, action: Action) -> None:
        """Runs an action inside the process: after a pause, and never if it is dead."""
        if self.state is ProcessState.PAUSED or (self._held and self.is_running):
            self._held.append(action)
        elif self.is_running:
            action()

    def _release(self) -> None:
        if self.is_running and self._held:
            self._held.popleft()()
            self._timeline.after(0, self._release, in_order=True)

    # Events

    def put(self, event: Event) -> None:
        """Queues an event for the controller."""
        if self._world.observer is not None:
            self._world.observer.event_queued(self, event)
        self.queue.put(event)
        self._wake()

    def _watch_went_off(self, fired: WatchFired) -> None:
        if self._world.observer is not None:
            self._world.observer.watch_fires(self, fired)

    def _watch_fired(self, fired: WatchFired) -> None:
        if self._world.observer is not None:
            self._world.observer.watch_arrives(self, fired)
        event = event_for_watch(fired)
        if event is not None:
            self.put(event)

    def _session_expired(self) -> None:
        if self._world.observer is not None:
            self._world.observer.event_queued(self, Expire())
        self.queue.clear_and_put(Expire())
        self._wake()

    def _preempted(self, event: Event) -> None:
        if isinstance(event, RequestEvent) and event.request_id is not None:
            result = self.controller.refusal(event)
            assert result is not None
            self.results[event.request_id] = result

    def _wake(self) -> None:
        if not self._procedures and not self._is_waking:
            self._is_waking = True
            self._think(self._take)

    def _take(self) -> None:
        self._is_waking = False
        if self._procedures:
            return
        queued = self.queue.take(0)
        if queued is not None:
            now_ms = self._timeline.clock.now_ms
            self._is_handling = True
            procedure = self.controller.handle(queued.event, now_ms)
            self._begin(repr(queued.event), procedure, queued.event)

    # Procedures

    def _begin(
        self, task: str, procedure: Generator[Question, Any, Any], event: Event | None = None
    ) -> None:
        self._task = task
        self._task_session_id = self.link.session_id
        self._procedures = [procedure]
        if self._world.observer is not None:
            self._world.observer.event_begins(self, task, event)
        self._timeline.tell(f"{self.name}: {task}")
        self._advance(lambda: next(procedure))

    def _advance(self, step: Callable[[], Question]) -> None:
        self._world.acting = self
        try:
            question = step()
        except StopIteration as end:
            self._perform_outbox()
            self._procedures.pop()
            self._return(end.value)
        except ZkControllerError as error:
            self._perform_outbox()
            self._procedures.pop()
            self._fail(error)
        else:
            self._perform_outbox()
            if self._world.observer is not None:
                self._world.observer.question_asked(self, question, self._procedures[-1])
            self._stop_or(question)

    def _return(self, value: Any) -> None:
        if self._procedures:
            self._advance(lambda: self._procedures[-1].send(value))
        else:
            if self._world.observer is not None:
                self._world.observer.event_ends(self, None)
            self._wake()

    def _fail(self, error: ZkControllerError) -> None:
        if self._procedures:
            self._throw(error)
            return
        if self._world.observer is not None:
            self._world.observer.event_ends(self, error)
        self._timeline.tell(f"{self.name}: {self._task} ended with {error!r}")
        self.ended_with = type(error)
        self._world.event_failed(self, self._task, error)
        if self.is_listening:
            self._wake()
        else:
            self._world.stop(self.broker_id)  # a broker that cannot start exits

    def _throw(self, error: ZkControllerError) -> None:
        self.ended_with = type(error)
        if self._world.observer is not None:
            self._world.observer.question_answered(self, error)
        self._timeline.tell(f"{self.name} meets {error!r}")
        self._advance(lambda: self._procedures[-1].throw(error))

    def _stop_or(self, question: Question) -> None:
        """Asks the question; pauses the process first if the breakpoint matches."""
        if self.breakpoint is not None and self.breakpoint(question):
            self.breakpoint = None
            self.pause()
        self._think(lambda: self._ask(question))

    def _ask(self, question: Question) -> None:
        self._timeline.tell(f"{self.name} {in_words(question)}")
        match question:
            case Pause(delay_ms):
                self._timeline.after(delay_ms, lambda: self.run(lambda: self._answered(None)))
            case RegisterBrokerZnode():
                procedure = self._registration()
                self._procedures.append(procedure)
                self._advance(lambda: next(procedure))
            case _:
                self.link.ask(
                    question,
                    self._task_session_id,
                    self._answered,
                    self._throw,
                    may_be_refused=self._is_handling,
                )

    def _answered(self, answer: Any) -> None:
        self._think(lambda: self._go_on(answer))

    def _go_on(self, answer: Any) -> None:
        if self._world.observer is not None:
            self._world.observer.question_answered(self, answer)
        self._advance(lambda: self._procedures[-1].send(answer))

    def _think(self, action: Action) -> None:
        delay_ms = self._timeline.within(self._world.weather.thinking_ms)
        self._timeline.after(delay_ms, lambda: self.run(action))

    def _startup(self) -> Generator[Question, Any, None]:
        yield from create_persistent_paths()
        yield from self._registration()
        self.is_listening = True
        if self.is_candidate:
            self.put(Startup())

    def _registration(self) -> Generator[Question, Any, int]:
        clock = self._timeline.clock
        self.broker.broker_epoch = yield from ZooKeeperRegistration(
            cast(ZooKeeperSession, self.link.session),
            self._world.brokers.get(self.broker_id, broker_of(self.broker_id)),
            znode_version=5,
            session_timeout_ms=self._world.session_timeout_ms,
            now_s=lambda: clock.now_ms / 1000,
            now_ms=lambda: clock.now_ms,
        ).steps()
        return self.broker.broker_epoch

    # Effects

    def _perform_outbox(self) -> None:
        outbox = self.controller.outbox
        effects = list(outbox)
        if effects and self._world.observer is not None:
            self._world.observer.effects_begin(self, effects)
        outbox.clear()
        for effect in effects:
            self._perform(effect)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case AddChannel() | RemoveChannel() | RemoveAllChannels() | SendControlRequest():
                self._perform_on_channels(effect)
            case RequestResponse(request_id, result):
                self.results.setdefault(request_id, result)
                self._world.answered(request_id, result)
            case Put(event, delay_ms):
                self._put_later(event, delay_ms)
            case CancelPuts():
                self._puts_cancelled += 1
            case LogLine():
                self.log_lines.append(effect)
            case StateChanges(records):
                self.state_changes.extend(records)
            case MarkMeter():
                pass

    def _perform_on_channels(
        self, effect: AddChannel | RemoveChannel | RemoveAllChannels | SendControlRequest
    ) -> None:
        match effect:
            case AddChannel(broker):
                if broker.broker_id not in self.channels:
                    channel = Channel(self._world, self, broker.broker_id)
                    self.channels[broker.broker_id] = channel
            case RemoveChannel(broker_id):
                self.channels.pop(broker_id).close()
            case RemoveAllChannels():
                for channel in self.channels.values():
                    channel.close()
                self.channels.clear()
            case SendControlRequest():
                self.sent.append(effect)
                if effect.broker_id in self.channels:
                    self.channels[effect.broker_id].put(effect)

    def _put_later(self, event: Event, delay_ms: int) -> None:
        generation = self._puts_cancelled

        def due() -> None:
            if generation == self._puts_cancelled or not delay_ms:
                self.put(event)

        # A world with only delayed events left, such as the balance check, counts as quiet.
        self._timeline.after(delay_ms, lambda: self.run(due), background=delay_ms > 0)

    def _new_uuid(self) -> UUID:
        return UUID(int=self._timeline.random.getrandbits(128), version=4)
