"""The lesson of a split vote: three voters of a KRaft quorum become candidates at the same time.

The raft step takes an input and returns outputs.  It is no procedure that waits at a line, so these
steps have no line of code.  They show what each node did, and its state afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from typing_extensions import override

from kraft.raft.inputs import RaftInput, RaftRequestReceived, RaftResponseReceived
from kraft.raft.messages import VoteRequest, VoteResponse
from zkcontroller_lab.interventions import Intervention, InterventionRefused
from zkcontroller_lab.recording import (
    RecordedLine,
    RecordedStep,
    Recording,
    State,
    differences,
)
from zkcontroller_simulation.raft_process import RaftProcess
from zkcontroller_simulation.raft_weather import CALM
from zkcontroller_simulation.raft_world import BrokenRaftError, RaftWorld

SEED: Final = 26
"""With this seed the three voters become candidates nearly at once, so that the vote is split."""
SLOW_MS: Final = 250
"""The delay of each message until the vote is split."""
LIMIT_MS: Final = 20_000

_MESSAGE: Final = re.compile(r"(\d+) (->|=>) (\d+)  (.*)")
_ACTOR: Final = re.compile(r"(\d+) ")


class QuorumExperiment(RaftWorld):
    """A quorum that is recorded."""

    def __init__(self, recording: Recording, seed: int) -> None:
        super().__init__(seed)
        self._recording = recording
        self._lines: list[RecordedLine] = []
        self._state: State = {}
        self._under_way: dict[str, dict[str, Any]] = {}
        self._turn = 0
        self.refusals = 0
        """The number of vote refusals that have arrived at a candidate."""
        self.timeline.on_line = self._line_added

    @override
    def step(self) -> None:
        self._turn += 1
        super().step()
        self._close_step()

    def say(self, caption: str) -> None:
        """Adds a caption to the last step."""
        self._close_step()
        step = self._recording.steps[-1]
        step.caption = f"{step.caption} {caption}".strip()

    @override
    def _deliver(self, number: int, happened: RaftInput) -> None:
        match happened:
            case RaftRequestReceived(request=VoteRequest(candidate=candidate)):
                self._under_way.pop(f"request/{candidate.id}>{number}", None)
                self._add("request", f"gets the request of node {candidate.id}", number)
            case RaftResponseReceived(source_id=voter, response=VoteResponse() as response):
                self._under_way.pop(f"answer/{voter}>{number}", None)
                self.refusals += not response.vote_granted
                verdict = "granted" if response.vote_granted else "refused"
                self._add("answer", f"learns that node {voter} {verdict} the vote", number)
            case _:
                pass
        super()._deliver(number, happened)

    def _line_added(self, line: str) -> None:
        message = _MESSAGE.match(line)
        if message is not None and message[4].startswith("Vote"):
            words = message[4].partition(",")[0].partition(" (")[0]
            kind = "request" if message[2] == "->" else "answer"
            self._under_way[f"{kind}/{message[1]}>{message[3]}"] = {"request": words}
        actor = _ACTOR.match(line)
        text = line if actor is None else line[actor.end() :].strip()
        if message is not None:
            text = f"to node {message[3]}: {message[4]}"
        self._add("effect", text, None if actor is None else int(actor[1]))

    def _add(self, kind: str, text: str, number: int | None) -> None:
        self._lines.append(RecordedLine(kind, text, number))

    def _close_step(self) -> None:
        if not self._lines:
            return
        state: State = {f"node/{node.number}": _node(node) for node in self.processes}
        state.update({key: dict(value) for key, value in self._under_way.items()})
        elapsed_ms = self.timeline.clock.elapsed_ms
        changes = differences(self._state, state)
        self._recording.steps.append(RecordedStep(self._turn, elapsed_ms, self._lines, changes))
        self._state, self._lines = state, []


def _node(node: RaftProcess) -> dict[str, Any]:
    core, election = node.core, node.disk.election
    voted = None if election is None or election.voted_key is None else election.voted_key.id
    return {
        "process": "dead" if core is None else "running",
        "state": "" if core is None else core.state_name.value,
        "epoch": 0 if core is None else core.epoch,
        "leader": None if core is None else core.leader_and_epoch.leader_id,
        "stored_epoch": None if election is None else election.epoch,
        "stored_vote": voted,
        "log_end_offset": node.log.end_offset,
        "high_watermark": node.high_watermark,
    }


def split_vote(recording: Recording, interventions: Sequence[Intervention]) -> Recording:
    """Three voters are candidates in the same epoch, none wins, and one wins the next election.

    Raises InterventionRefused if there is an intervention: acts are for brokers.
    """
    if interventions:
        raise InterventionRefused("the lesson of a quorum takes no interventions")
    world = QuorumExperiment(recording, SEED)
    try:
        _carry_out(world)
        recording.ended = "the lesson is over"
    except BrokenRaftError as broken:
        recording.ended = f"broken: {str(broken).splitlines()[0]}"
    return recording


def _carry_out(world: QuorumExperiment) -> None:
    world.network.weather = replace(CALM, delay_ms=(SLOW_MS, SLOW_MS))
    world.start()
    world.say("Three voters of a quorum start. No one leads, and the network is slow.")

    world.run_until(lambda: bool(_voted_for_themselves(world)), LIMIT_MS, "a candidate")
    (first,) = _voted_for_themselves(world)
    world.say(
        f"Node {first} found no leader in time. It stands in epoch 1, and has written down that "
        "its vote in this epoch is its own."
    )

    world.run_until(lambda: len(_voted_for_themselves(world)) == 3, LIMIT_MS, "a split vote")
    world.say(
        "The other two stood as well, before a request reached them. Each of the three has voted "
        "for itself in epoch 1. The vote is on disk: a node gives one vote in an epoch."
    )

    world.run_until(lambda: world.refusals == 6, LIMIT_MS, "six refusals")
    world.say(
        "Every request was refused. Each candidate has one vote of three, and two would be a "
        "majority. Epoch 1 will never have a leader."
    )

    world.network.weather = CALM
    world.run_until(lambda: world.leader is not None, LIMIT_MS, "a leader")
    leader = world.leader
    assert leader is not None
    assert leader.core is not None
    world.say(
        f"Each waits for a time of its own, by chance. Node {leader.number} was first this time: "
        f"it stood in epoch {leader.core.epoch}, and a majority voted for it. It leads."
    )

    world.run_until(lambda: world.has_consistent_leader, LIMIT_MS, "all know the leader")
    world.say(f"All three have written down that node {leader.number} leads.")


def _voted_for_themselves(world: QuorumExperiment) -> list[int]:
    return [
        node.number
        for node in world.voters
        if node.disk.election is not None
        and node.disk.election.voted_key is not None
        and node.disk.election.voted_key.id == node.number
    ]
