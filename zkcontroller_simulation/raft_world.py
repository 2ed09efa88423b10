"""A quorum in virtual time: voters, observers, their disks, and the network between them.

The seed determines everything.  After each action the world checks the invariants for the nodes
that the action touched.  The first broken invariant ends the run; the error shows the history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Final

from kraft.raft.config import QuorumConfig
from kraft.raft.inputs import RaftInput, RaftShutdown, Resign
from kraft.raft.values import ReplicaKey, VoterSet
from zkcontroller_simulation.history import LINES_SHOWN
from zkcontroller_simulation.raft_invariants import RaftInvariants
from zkcontroller_simulation.raft_log_model import WITHOUT_LIMIT, InMemoryRaftLog
from zkcontroller_simulation.raft_mirrored_log import MirroredRaftLog
from zkcontroller_simulation.raft_network import RaftNetwork
from zkcontroller_simulation.raft_process import Disk, RaftProcess, endpoint_of
from zkcontroller_simulation.raft_timeline import RaftTimeline
from zkcontroller_simulation.timeline import Bounds

FIRST_OBSERVER: Final = 11
NAMELESS_OBSERVER: Final = 99
"""The number of an observer that has no id."""
UPSTREAM: Final = QuorumConfig(
    election_timeout_ms=1000,
    fetch_timeout_ms=3000,
    election_backoff_max_ms=100,
    append_linger_ms=0,
    request_timeout_ms=3000,
    retry_backoff_ms=50,
)
"""The timeouts of Kafka's own simulation."""
PATIENT: Final = replace(UPSTREAM, retry_backoff_ms=300)
"""The same timeouts, but nodes retry less often to find a leader."""
DENSE_EACH: Final = 10
"""One in this many seeds runs with the many requests of UPSTREAM; the others with PATIENT."""
MOST_APPENDS: Final = 3


def times_of(seed: int) -> QuorumConfig:
    """The timeouts for a run that does not depend on them."""
    return UPSTREAM if seed % DENSE_EACH == 0 else PATIENT


class BrokenRaftError(AssertionError):
    """An invariant is broken; the message has the history and the command to replay it."""

    def __init__(self, world: RaftWorld, broken: str) -> None:
        history = world.timeline.history
        shown = "\n".join(history[-LINES_SHOWN:])
        super().__init__(
            f"{broken}\n\nseed {world.timeline.seed}, {world.description}; "
            f"the last of {len(history)} lines of history:\n{shown}\n\n"
            f"replay: pytest {world.told_by} --seed={world.timeline.seed}"
        )


class RaftWorld:
    """Voters 1, 2, ... and observers 11, 12, ..."""

    def __init__(
        self,
        seed: int,
        voters: int = 3,
        observers: int = 0,
        *,
        config: QuorumConfig = UPSTREAM,
        has_nameless_observer: bool = False,
        snapshot_every: int = 10,
        retention_bytes: int = WITHOUT_LIMIT,
        chunk_bytes: int = 16,
        log_directory: Path | None = None,
        told_by: str = "tests/simulation/test_raft_seeds.py",
    ) -> None:
        """Creates the nodes without starting them.

        A state machine makes a snapshot after every ``snapshot_every`` numbers.  ``told_by`` is the
        test file that an error names for the replay.  With a ``log_directory`` every node has the
        log of production beside the model of it.
        """
        self.timeline = RaftTimeline(seed)
        self.random: Random = self.timeline.random
        self.config = config
        self.snapshot_every = snapshot_every
        self.told_by = told_by
        self.description = f"{voters} voters, {observers} observers"
        self._retention_bytes = retention_bytes
        self._chunk_bytes = chunk_bytes
        self._log_directory = log_directory
        self._mirrored: list[MirroredRaftLog] = []
        self.cluster_id = "simulated-quorum"
        self.voter_set = VoterSet({number: endpoint_of(number) for number in range(1, voters + 1)})
        self.grown_voter_set: VoterSet | None = None
        """The voters with one more, in the configuration of some nodes; None: there is no such."""
        self._grown: set[int] = set()
        self.invariants = RaftInvariants(self)
        self.network = RaftNetwork(self.timeline, self._deliver, self._incarnation_of)
        observing = range(FIRST_OBSERVER, FIRST_OBSERVER + observers)
        self.nodes: dict[int, RaftProcess] = {
            number: RaftProcess(self, number, ReplicaKey(number))
            for number in (*self.voter_set, *observing)
        }
        if has_nameless_observer:
            self.nodes[NAMELESS_OBSERVER] = RaftProcess(self, NAMELESS_OBSERVER, None)
        self.is_appending = False
        self.on_crash: Callable[[RaftProcess], None] = lambda _: None
        """Called with a node that crashed while it wrote to its disk, to start it again."""
        self._touched: dict[int, RaftProcess] = {}

    # ------------------------------------------------------------------ looks

    @property
    def processes(self) -> list[RaftProcess]:
        return list(self.nodes.values())

    @property
    def voters(self) -> list[RaftProcess]:
        return [self.nodes[number] for number in self.voter_set]

    @property
    def running(self) -> list[RaftProcess]:
        return [process for process in self.nodes.values() if process.is_running]

    @property
    def leader(self) -> RaftProcess | None:
        """The running leader with the highest epoch; None if no running node leads."""
        leaders = [process for process in self.running if process.is_leader]
        return max(leaders, key=lambda process: process.core.epoch if process.core else -1,
                   default=None)  # fmt: skip

    @property
    def has_consistent_leader(self) -> bool:
        """Whether all running nodes have the same leader on their disks."""
        elections = (process.disk.election for process in self.nodes.values() if process.is_running)
        first = next(elections, None)
        return (
            first is not None
            and first.leader_id is not None
            and all(election == first for election in elections)
        )

    @property
    def high_watermark(self) -> int:
        """The highest high watermark of the running nodes; -1 if none knows one."""
        return max((process.high_watermark for process in self.running), default=-1)

    @property
    def longest_log(self) -> int:
        return max((process.log.end_offset for process in self.running), default=0)

    def all_reached(self, offset: int, numbers: tuple[int, ...] = ()) -> bool:
        """Whether all running nodes, or those in ``numbers``, have this high watermark."""
        if numbers:
            return all(self.nodes[number].high_watermark >= offset for number in numbers)
        return all(
            process.high_watermark >= offset
            for process in self.nodes.values()
            if process.is_running
        )

    def voter_set_of(self, number: int) -> VoterSet:
        """The voters in this node's configuration."""
        grown = self.grown_voter_set
        return grown if grown is not None and number in self._grown else self.voter_set

    def make_log(self) -> InMemoryRaftLog:
        """An empty log for a new disk."""
        retention, chunk = self._retention_bytes, self._chunk_bytes
        if self._log_directory is None:
            return InMemoryRaftLog(retention_bytes=retention, chunk_bytes=chunk)
        number = len(self._mirrored)
        log = MirroredRaftLog(
            self._log_directory / f"disk-{number}",
            lambda: self.timeline.clock.now_ms,
            Random(number),
            retention_bytes=retention,
            chunk_bytes=chunk,
        )
        self._mirrored.append(log)
        return log

    def close(self) -> None:
        """Closes the files of all logs."""
        for log in self._mirrored:
            log.close()

    def touched(self, process: RaftProcess) -> None:
        """Marks a process whose invariants must be checked after the current action."""
        self._touched[process.number] = process

    # ------------------------------------------------------------------ time

    def run(self, for_ms: int) -> None:
        """Runs all actions of the next ``for_ms`` milliseconds."""
        is_over: list[bool] = []
        self.timeline.after(for_ms, lambda: is_over.append(True))
        while not is_over:
            self.step()

    def run_until(self, condition: Callable[[], bool], within_ms: int, what: str) -> int:
        """Runs until the condition is true; returns the milliseconds that this took."""
        started_ms = self.timeline.clock.now_ms
        while not condition():
            self.step()
            if self.timeline.clock.now_ms - started_ms > within_ms:
                raise BrokenRaftError(self, f"not within {within_ms} ms: {what}")
        return self.timeline.clock.now_ms - started_ms

    def step(self) -> None:
        """Runs the next action, and checks the invariants of the nodes that it touched."""
        try:
            self.timeline.run_next()
            if self._touched:
                touched, self._touched = self._touched, {}
                for process in touched.values():
                    self.invariants.check(process)
        except Exception as broken:
            raise self._broken(broken) from broken

    @contextmanager
    def _scenario(self) -> Iterator[None]:
        try:
            yield
        except Exception as broken:
            raise self._broken(broken) from broken

    def _broken(self, broken: Exception) -> BrokenRaftError:
        if isinstance(broken, BrokenRaftError):
            return broken
        return BrokenRaftError(self, f"{type(broken).__name__}: {broken}")

    # ------------------------------------------------------------------ nodes

    def start(self, *numbers: int) -> None:
        """Starts these nodes, or all nodes if no number is given, unless they run already."""
        with self._scenario():
            for number in numbers or tuple(self.nodes):
                process = self.nodes[number]
                if not process.is_running:
                    self._configure(number)
                    self.timeline.tell(f"{number} starts")
                    process.start()
                    self.touched(process)

    def _configure(self, number: int) -> None:
        """Changes, at random, a node's configuration to the other list of voters."""
        if self.grown_voter_set is None or self.random.random() < 0.5:
            return
        self._grown ^= {number}
        ids = ", ".join(map(str, self.voter_set_of(number)))
        self.timeline.tell(f"{number} is told that the voters are {ids}")

    def finish_growing(self) -> None:
        """Gives every node the longer list of voters, and kills it so that it must restart."""
        self.voter_set, self.grown_voter_set = self.grown_voter_set or self.voter_set, None
        for number in self.nodes:
            self.kill(number, is_process_alone=True)

    def kill(self, number: int, *, is_process_alone: bool = False) -> None:
        """Kills a process, together with its machine unless ``is_process_alone``."""
        process = self.nodes[number]
        if process.is_running:
            alone = ", its machine goes on" if is_process_alone else ""
            self.timeline.tell(f"{number} dies{alone}")
            process.kill(is_process_alone=is_process_alone)

    def crash(self, process: RaftProcess, words: str) -> None:
        """Kills a process that writes to its disk; ``words`` say when, for the history."""
        self.timeline.tell(f"{process.number} crashes {words}")
        is_process_alone = not self.timeline.happens(self.network.weather.power_loss)
        process.kill(is_process_alone=is_process_alone)
        self.on_crash(process)

    def lose_disk(self, number: int, *, is_election_alone: bool = False) -> None:
        """Kills a process and removes its disk, or only the file with its vote."""
        self.kill(number)
        process = self.nodes[number]
        self.timeline.tell(f"{number} loses its {'vote' if is_election_alone else 'disk'}")
        self.invariants.loses_disk(process)
        process.disk = Disk(process.log if is_election_alone else self.make_log())

    def shut_down(self, number: int, timeout_ms: int) -> None:
        """Asks a process for a clean shutdown within ``timeout_ms``."""
        self.timeline.tell(f"{number} is asked to leave within {timeout_ms} ms")
        with self._scenario():
            self.nodes[number].receive(RaftShutdown(timeout_ms))

    def stopped(self, process: RaftProcess) -> None:
        """Flushes the log of a process and ends it; this completes a clean shutdown."""
        process.log.flush()
        process.kill(is_process_alone=True)

    def resign(self, number: int) -> None:
        """The listener of a node resigns its leadership, if it believes that the node leads."""
        process = self.nodes[number]
        if process.counter is not None and process.counter.claimed_epoch is not None:
            self.timeline.tell(f"{number} is told to resign from {process.counter.claimed_epoch}")
            with self._scenario():
                process.receive(Resign(process.counter.claimed_epoch))

    def isolate(self, *numbers: int) -> Callable[[], None]:
        """Disconnects these nodes from all others; a call of the result connects them again."""
        self.timeline.tell(f"{', '.join(map(str, numbers))} are cut off")
        return self.network.separate(
            numbers, [number for number in self.nodes if number not in numbers]
        )

    def clean(self, number: int) -> None:
        """Removes log segments and snapshots that newer snapshots cover, if the node is idle."""
        process = self.nodes[number]
        if process.is_running and process.is_idle and process.log.clean(process.now_ms):
            self.timeline.tell(f"{number} cleans its log up to {process.log.start_offset}")
            self.touched(process)

    def append_every(self, bounds: Bounds) -> None:
        """Makes every node that believes that it leads append numbers from now on."""
        self.is_appending = True

        def append() -> None:
            if not self.is_appending:
                return
            for process in self.processes:
                process.append(self.random.randint(1, MOST_APPENDS))
            self.timeline.after(self.timeline.within(bounds), append)

        append()

    # ------------------------------------------------------------------ for the network

    def _deliver(self, number: int, happened: RaftInput) -> None:
        self.nodes[number].receive(happened)

    def _incarnation_of(self, number: int) -> int | None:
        process = self.nodes.get(number)
        return process.incarnation if process is not None and process.is_running else None
