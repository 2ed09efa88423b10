"""Faults for a quorum: kills, cut links, pauses, slow and lost disks; then liveness checks.

The checks run once the faults have stopped.  L1: the quorum has a leader within a bounded time, and
the leader commits.  L2: every lagging node catches up, from the log or from a snapshot.  L4:
candidates do not block each other for ever.  L5: the same holds after all nodes were down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

from kraft.raft.config import QuorumConfig
from kraft.raft.values import VoterSet
from tests.simulation.raft_strangers import MOST_MISCHIEF, Strangers
from zkcontroller_simulation.raft_log_model import WITHOUT_LIMIT
from zkcontroller_simulation.raft_process import RaftProcess, endpoint_of
from zkcontroller_simulation.raft_weather import CALM, GREY, STORMY, RaftWeather
from zkcontroller_simulation.raft_world import FIRST_OBSERVER, UPSTREAM, RaftWorld
from zkcontroller_simulation.timeline import Bounds

FAST: Final = QuorumConfig(
    election_timeout_ms=300,
    fetch_timeout_ms=900,
    election_backoff_max_ms=300,
    append_linger_ms=10,
    request_timeout_ms=800,
    retry_backoff_ms=20,
)
STORM_MS: Final = 15_000
MEMORY: Final = Path("/dev/shm")
SHORT_STORM_MS: Final = 7_000
LEADER_WITHIN_MS: Final = 20_000
"""An election needs some two timeouts of at most 2 s, unless candidates collide."""
CATCH_UP_WITHIN_MS: Final = 20_000
RECORDS_IN_PEACE: Final = 10


WEATHERS: Final = (("calm", CALM), ("grey", GREY), ("grey", GREY), ("stormy", STORMY))
SLOW_DISKS: Final = tuple(
    (f"{name}, and disks are slow", replace(weather, flush_ms=(0, 400), crash_at_disk=0.02))
    for name, weather in WEATHERS
)
"""Much is not flushed when the power goes, which it does often."""


class RaftChaos:
    """What befalls one world."""

    def __init__(self, world: RaftWorld) -> None:
        self.world = world
        self._random = world.random
        self._lost: int | None = None
        """The voter that lost its disk; it stays down until no guarantee depends on that disk."""
        self.may_lose_disk = len(world.voters) >= 3 and self._random.random() < 0.4
        self._is_well = False
        self.weathers: Sequence[tuple[str, RaftWeather]] = WEATHERS
        world.on_crash = lambda process: self._start_later(process.number, (5, 2_000))

    # ------------------------------------------------------------------ phases of a run

    def begin(self) -> None:
        """Starts all nodes, with clocks that run at different rates."""
        world = self.world
        for process in world.processes:
            process.clock_rate = self._random.choice((1.0, 1.0, 0.95, 1.05))
            process.clock_offset_ms = self._random.randint(0, 100_000)
            process.is_eager = self._random.random() < 0.2
        world.start()
        world.append_every(self._random.choice(((10, 40), (50, 300), (50, 300))))
        world.run(self._random.randint(100, 4_000))

    def storm(self, for_ms: int = STORM_MS) -> None:
        """Misfortunes one after the other, some at the same time."""
        world = self.world
        ends_ms = world.timeline.clock.now_ms + for_ms
        pace = self._random.choice(((20, 300), (100, 1_500), (500, 4_000)))
        while world.timeline.clock.now_ms < ends_ms:
            self._misfortune()
            world.run(self._random.randint(*pace))

    def peace(self) -> None:
        """Ends all faults; then a leader is elected, it commits, and all nodes catch up."""
        world = self.world
        world.timeline.tell("everything is well")
        self._is_well = True
        world.network.weather = CALM
        world.network.heal()
        for process in world.processes:
            process.resume()
        world.start(*(number for number in world.nodes if number != self._lost))
        world.run_until(self._is_led, LEADER_WITHIN_MS, "L1: a leader that all know")
        if self._lost is not None:
            self._give_back_disk(self._lost)
        target = world.longest_log + RECORDS_IN_PEACE
        world.run_until(
            lambda: world.all_reached(target), CATCH_UP_WITHIN_MS, f"L1, L2: all commit {target}"
        )
        self._rest()

    def _rest(self) -> None:
        """Nothing is appended any more: all logs end alike, and all counters stand alike."""
        world = self.world
        world.is_appending = False

        def is_at_rest() -> bool:
            leader = world.leader
            return leader is not None and all(
                process.log.end_offset == leader.log.end_offset == process.high_watermark
                and process.counter is not None
                and process.counter.next_offset == leader.log.end_offset
                for process in world.processes
            )

        world.run_until(is_at_rest, CATCH_UP_WITHIN_MS, "L2: all logs and counters end alike")
        numbers = [process.counter.number for process in world.processes if process.counter]
        assert len(set(numbers)) == 1, f"S9: the counters stand at {numbers}"

    def _is_led(self) -> bool:
        leader = self.world.leader
        return leader is not None and self.world.has_consistent_leader

    def _give_back_disk(self, number: int) -> None:
        """Restarts the node that lost its disk, once no guarantee depends on that disk."""
        world = self.world
        for _ in range(10):
            if world.invariants.is_safe_without(number):
                break
            if world.leader is not None:
                world.resign(world.leader.number)
            world.run(3_000)
        assert world.invariants.is_safe_without(number), "no quorum without the lost disk"
        self._lost = None
        world.start(number)

    # ------------------------------------------------------------------ misfortunes

    def _misfortune(self) -> None:
        deeds: tuple[tuple[int, Callable[[], None]], ...] = (
            (6, self._kill),
            (2, self._kill_leader),
            (1, self._kill_all),
            (3, self._cut_one_way),
            (3, self._isolate),
            (2, self._isolate_leader),
            (2, self._split),
            (3, self._pause),
            (2, self._pause_leader),
            (2, self._slow_link),
            (2, self._resign),
            (2, self._leave),
            (3, self._change_weather),
            (4, self._clean),
            (2, self._reach_limit),
            (2, self._reach_limit_of_leader),
            (1, self._lose_disk),
        )
        deed = self._random.choices([deed for _, deed in deeds], [often for often, _ in deeds])[0]
        deed()

    def _kill(self) -> None:
        self._kill_one(self._any())

    def _kill_leader(self) -> None:
        if self.world.leader is not None:
            self._kill_one(self.world.leader.number)

    def _kill_all(self) -> None:
        for number in self.world.nodes:
            self._kill_one(number)

    def _kill_one(self, number: int) -> None:
        self.world.kill(number, is_process_alone=self._random.random() < 0.3)
        self._start_later(number, (1, 4_000))

    def _cut_one_way(self) -> None:
        one, other = self._any(), self._any()
        if one == other:
            return
        network = self.world.network
        self.world.timeline.tell(f"nothing gets from {one} to {other}")
        network.cut(one, other)
        self._later((50, 5_000), lambda: network.mend(one, other))

    def _isolate(self) -> None:
        self._later((50, 6_000), self.world.isolate(self._any()))

    def _isolate_leader(self) -> None:
        if self.world.leader is not None:
            self._later((50, 8_000), self.world.isolate(self.world.leader.number))

    def _split(self) -> None:
        numbers = [number for number in self.world.nodes if self._random.random() < 0.5]
        self._later((50, 6_000), self.world.isolate(*numbers))

    def _pause(self) -> None:
        self._pause_one(self.world.nodes[self._any()])

    def _pause_leader(self) -> None:
        if self.world.leader is not None:
            self._pause_one(self.world.leader)

    def _pause_one(self, process: RaftProcess) -> None:
        """For longer than the fetch timeout, often."""
        self.world.timeline.tell(f"{process.number} stands still")
        process.pause()
        self._later((10, 2 * self.world.config.fetch_timeout_ms), process.resume)

    def _slow_link(self) -> None:
        links = self.world.network.slow_links
        link = (self._any(), self._any())
        links[link] = self._random.randint(20, 2_000)
        self._later((500, 5_000), lambda: links.pop(link, None))

    def _resign(self) -> None:
        if self.world.leader is not None:
            self.world.resign(self.world.leader.number)

    def _leave(self) -> None:
        number = self._any()
        if self.world.nodes[number].is_running:
            self.world.shut_down(number, self._random.choice((100, 1_000, 5_000)))
            self._start_later(number, (6_000, 8_000))

    def _change_weather(self) -> None:
        name, weather = self._random.choice(self.weathers)
        self.world.timeline.tell(f"the weather is {name}")
        self.world.network.weather = weather

    def _clean(self) -> None:
        self.world.clean(self._any())

    def _reach_limit(self) -> None:
        self._reach_limit_of(self.world.nodes[self._any()])

    def _reach_limit_of_leader(self) -> None:
        if self.world.leader is not None:
            self._reach_limit_of(self.world.leader)

    def _reach_limit_of(self, process: RaftProcess) -> None:
        """No file can be opened for a while: the log stays as it is."""
        log = process.log
        self.world.timeline.tell(f"{process.number} reaches its limit of open files")
        log.is_at_limit = True

        def leave() -> None:
            log.is_at_limit = False

        self._later((10, 5_000), leave)

    def _lose_disk(self) -> None:
        if not self.may_lose_disk or self._lost is not None:
            return
        self.may_lose_disk = False
        self._lost = self._random.choice(self.world.voters).number
        self.world.lose_disk(self._lost, is_election_alone=self._random.random() < 0.3)
        self._start_later(self._lost, (100, 2_000))

    # ------------------------------------------------------------------ helpers

    def _any(self) -> int:
        return self._random.choice(list(self.world.nodes))

    def _later(self, bounds: Bounds, action: Callable[[], object]) -> None:
        def act() -> None:
            action()

        self.world.timeline.after(self.world.timeline.within(bounds), act)

    def _start_later(self, number: int, bounds: Bounds) -> None:
        def start() -> None:
            if number == self._lost:
                if not self.world.invariants.is_safe_without(number):
                    if not self._is_well:
                        self._start_later(number, (100, 1_000))
                    return
                self._lost = None
            self.world.start(number)

        self._later((1, 1) if self._is_well else bounds, start)


def random_world(seed: int, log_directory: Path | None = None) -> RaftWorld:
    """Voters, observers, times and sizes as the seed wants them."""
    random = RaftWorld(seed).random
    voters = random.choice((1, 2, 3, 3, 3, 4, 5, 5))
    observers = random.choice((0, 0, 1, 2))
    return RaftWorld(
        seed,
        voters,
        observers,
        config=random.choice((FAST, FAST, UPSTREAM)),
        has_nameless_observer=random.random() < 0.2,
        snapshot_every=random.choice((5, 10, 1_000)),
        retention_bytes=random.choice((0, 500, WITHOUT_LIMIT)),
        chunk_bytes=random.choice((7, 16, 1_000)),
        log_directory=log_directory,
    )


def stormy_quorum_on_disk(seed: int) -> RaftWorld:
    """A run on the logs of production, which must return the same as the model of the log."""
    # A disk in memory suffices, if there is one: power fails only inside the simulation.
    with TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as directory:
        return _stormy_quorum_in(Path(directory), seed)


def _stormy_quorum_in(directory: Path, seed: int) -> RaftWorld:
    world = random_world(seed, directory)
    chaos = RaftChaos(world)
    if seed % 2 == 0:
        chaos.weathers = SLOW_DISKS
        _, world.network.weather = SLOW_DISKS[0]
    try:
        chaos.begin()
        chaos.storm(SHORT_STORM_MS)
        chaos.peace()
    finally:
        world.close()
    return world


def quorum_with_strangers(seed: int) -> None:
    """Whatever strangers say, every rule holds, and the quorum goes on in epochs that are left."""
    world = random_world(seed)
    chaos, strangers = RaftChaos(world), Strangers(world)
    chaos.begin()
    strangers.talk_every((20, 600))
    chaos.storm(SHORT_STORM_MS)
    strangers.is_talking = False
    chaos.peace()
    assert strangers.newest_epoch < MOST_MISCHIEF, "strangers use up the epochs"


def quorum_whose_lists_differ(seed: int) -> RaftWorld:
    """One voter more, which some nodes know of and some do not, until all do.

    One more than an odd number: any majority of the one list has a node in common with any
    majority of the other, so every rule must hold.  With more of a difference none could.
    """
    random = Random(seed)
    world = RaftWorld(
        seed, random.choice((1, 3, 3, 5)), 1, config=random.choice((FAST, UPSTREAM)),
        snapshot_every=random.choice((5, 10, 1_000)), retention_bytes=random.choice((0, 500)),
    )  # fmt: skip
    newcomer = endpoint_of(FIRST_OBSERVER)
    world.grown_voter_set = VoterSet({**world.voter_set.endpoints, FIRST_OBSERVER: newcomer})
    chaos = RaftChaos(world)
    chaos.may_lose_disk = False
    chaos.begin()
    chaos.storm(SHORT_STORM_MS)
    world.finish_growing()
    chaos.peace()
    return world


def stormy_quorum(seed: int, for_ms: int = STORM_MS) -> RaftWorld:
    """A whole run: start, faults, and the checks after them."""
    world = random_world(seed)
    chaos = RaftChaos(world)
    chaos.begin()
    chaos.storm(for_ms)
    chaos.peace()
    return world
