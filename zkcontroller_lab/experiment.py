"""A recorded run: a simulated world, its faults, and the interventions of a reader.

:func:`run_seed` runs a small cluster with faults that the seed alone determines.  They are drawn
before the run begins, from random numbers of their own.  So an intervention changes the effect of
the planned faults, but not the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from typing_extensions import override

from kafka_common.errors import ZkControllerError
from kafka_common.model import TopicPartition
from zkcontroller_lab.interventions import (
    Act,
    Intervention,
    InterventionRefused,
    in_order,
    intervene,
)
from zkcontroller_lab.recorder import Recorder
from zkcontroller_lab.recording import MOST_STEPS, Recording
from zkcontroller_simulation.history import BrokenWorldError
from zkcontroller_simulation.weather import Weather
from zkcontroller_simulation.world import World

BROKER_IDS: Final = (1, 2, 3)
ACTS: Final = 8
"""The number of faults in a run."""
PAUSE_MS: Final = (500, 3_000)
"""The pause between two faults, least and most."""
SESSION_TIMEOUT_MS: Final = 6_000
REST_MS: Final = 60_000
"""The longest time in which a run may come to rest after its last act."""
LAST_SEED: Final = 2**53 - 1
"""The largest seed: JavaScript reads no larger number exactly."""

MILD: Final = Weather(
    zookeeper_delay_ms=(1, 5),
    network_delay_ms=(1, 20),
    thinking_ms=(0, 2),
    reconnect_ms=(20, 200),
    lost_connection=0.005,
)


class RunCut(ZkControllerError):
    """The run was ended because it has more steps than a recording may have."""


class Experiment(World):
    """A world that is recorded and may be changed by interventions.

    ``turn`` counts the actions that have happened.  An intervention at turn N is done right after
    action N.
    """

    def __init__(
        self,
        recording: Recording,
        seed: int,
        interventions: Sequence[Intervention] = (),
        *,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
    ) -> None:
        super().__init__(seed, session_timeout_ms=session_timeout_ms)
        self.turn = 0
        self.recorder = Recorder(self, recording)
        self.on_turn: Callable[[], None] = _ignore
        """Called after each turn, once its step is recorded."""
        self._waiting = list(in_order(interventions))
        self._losing: list[int] = []

    @override
    def step(self) -> None:
        self.recorder.close_step(self.turn)
        while self._waiting and self._waiting[0].turn <= self.turn:
            self._intervene(self._waiting.pop(0))
        self._check_length()
        self.turn += 1
        super().step()
        self._lose_replies()
        self.recorder.close_step(self.turn)
        self.on_turn()

    def say(self, caption: str) -> None:
        """Adds a caption to the last step."""
        self.recorder.close_step(self.turn)
        self.recorder.say(caption)

    def _check_length(self) -> None:
        if len(self.recorder.recording.steps) >= MOST_STEPS:
            raise RunCut(f"the run was cut after {MOST_STEPS} steps")

    def _intervene(self, intervention: Intervention) -> None:
        self.recorder.has_intervened = True
        text = f"the reader intervenes: {intervention.as_text()}"
        self.recorder.add("intervention", text, intervention.broker_id)
        intervene(self, intervention)
        if intervention.act is Act.LOSE_REPLY:
            assert intervention.broker_id is not None
            self._losing.append(intervention.broker_id)
        self.recorder.close_step(self.turn)

    def _lose_replies(self) -> None:
        for broker_id in list(self._losing):
            process = self.living.get(broker_id)
            if process is not None and process.link.is_reply_under_way:
                self._losing.remove(broker_id)
                self.timeline.tell(f"{process.name}: ZooKeeper's reply is lost")
                self.break_connection(broker_id)

    def come_to_rest(self) -> None:
        """Runs until the world is quiet, at most for REST_MS."""
        end_ms = self.clock.now_ms + REST_MS
        while not self.is_quiet() and self.clock.now_ms <= end_ms:
            self.step()

    def finish(self) -> None:
        """Does the remaining interventions, and comes to rest.

        Raises InterventionRefused for one whose turn comes after the end of the run.
        """
        self.come_to_rest()
        end_ms = self.clock.now_ms + REST_MS
        while self._waiting:
            if self.clock.now_ms > end_ms:
                late = self._waiting[0].as_text()
                raise InterventionRefused(f"{late}: the run ends at turn {self.turn}")
            self.step()
        self.come_to_rest()


def _ignore() -> None:
    pass


def record(
    recording: Recording,
    seed: int,
    interventions: Sequence[Intervention],
    script: Callable[[Experiment], None],
) -> Recording:
    """Runs a script in a recorded world; the recording's ``ended`` says why it ends.

    Raises InterventionRefused for an intervention that cannot be done.
    """
    world = Experiment(recording, seed, interventions)
    try:
        script(world)
        world.finish()
        ended = "nothing is left to happen" if world.is_quiet() else "the time was over"
    except BrokenWorldError as broken:
        ended = f"broken: {str(broken).splitlines()[0]}"
        world.recorder.add("broken", ended)
    except RunCut as cut:
        ended = str(cut)
    world.recorder.close_step(world.turn)
    return world.recorder.end(ended)


def run_seed(seed: int, interventions: Sequence[Intervention] = ()) -> Recording:
    """The recording of a seed, equal for equal arguments.

    Raises InterventionRefused for an intervention that cannot be done.
    """
    ordered = in_order(interventions)
    source = {
        "kind": "seed",
        "seed": seed,
        "interventions": [each.as_json() for each in ordered],
    }
    recording = Recording(f"seed {seed}", source)
    plan = _Plan(Random(seed))
    return record(recording, seed, ordered, plan.carry_out)


class _Plan:
    """The faults of a run and their times; a fault that is impossible at its time is left out."""

    def __init__(self, random: Random) -> None:
        table: tuple[tuple[int, Callable[[Experiment, int], None]], ...] = (
            (4, self._kill),
            (3, self._pause),
            (2, self._expire),
            (2, self._cut),
            (2, self._delete_controller),
            (2, self._reassign),
            (2, self._shut_down),
        )
        weights, choices = zip(*table, strict=True)
        drawn = random.choices(choices, weights, k=ACTS)
        self._acts = [(act, random.choice(BROKER_IDS), random.randint(*PAUSE_MS)) for act in drawn]

    def carry_out(self, world: Experiment) -> None:
        """Starts a healthy cluster, causes the faults, and repairs the cluster."""
        world.start_brokers(*BROKER_IDS)
        world.create_topic("orders", replicas=[[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        world.create_topic("payments", replicas=[[2, 1], [3, 2]])
        world.run_until_quiet()
        world.weather = MILD
        world.timeline.is_shuffling = True
        for act, broker_id, pause_ms in self._acts:
            act(world, broker_id)
            world.run_for(pause_ms)
            self._repair_one(world)
        while self._repair_one(world):
            world.run_for(PAUSE_MS[0])
        world.come_to_rest()
        self._catch_up(world)

    def _repair_one(self, world: Experiment) -> bool:
        """Repairs the first broker that needs it; False if none does."""
        for broker_id in BROKER_IDS:
            process = world.living.get(broker_id)
            if process is None:
                world.start(broker_id)
            elif not process.is_running:
                world.resume(broker_id)
            elif process.link.is_cut_off:
                world.connect(broker_id)
            else:
                continue
            return True
        self._catch_up(world)
        return False

    def _catch_up(self, world: Experiment) -> None:
        for topic, znode in world.topics().items():
            for partition in znode.partitions:
                world.catch_up(TopicPartition(topic, partition))

    def _kill(self, world: Experiment, broker_id: int) -> None:
        if broker_id in world.living and len(world.living) > 1:
            world.kill(broker_id)

    def _pause(self, world: Experiment, broker_id: int) -> None:
        process = world.living.get(broker_id)
        if process is not None and process.is_running:
            world.pause(broker_id)

    def _expire(self, world: Experiment, broker_id: int) -> None:
        if broker_id in world.living:
            world.expire_session(broker_id)

    def _cut(self, world: Experiment, broker_id: int) -> None:
        if broker_id in world.living:
            world.disconnect(broker_id)

    def _delete_controller(self, world: Experiment, _: int) -> None:
        if world.controller_znode is not None:
            world.delete_controller_znode()

    def _reassign(self, world: Experiment, broker_id: int) -> None:
        moving = TopicPartition("payments", broker_id % 2)
        there = world.zookeeper.peek("/admin/reassign_partitions")
        if there is None:
            others = [each for each in BROKER_IDS if each != broker_id]
            world.ask_for_reassignment({moving: [broker_id, others[0]]})

    def _shut_down(self, world: Experiment, broker_id: int) -> None:
        process = world.living.get(broker_id)
        if process is not None and process.is_running and world.controller is not None:
            world.shut_down(broker_id)
