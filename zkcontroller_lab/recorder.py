"""Makes a recording of a simulated world while it runs.

The recorder is the world's observer.  Each call adds a line to the current step.
:meth:`Recorder.close_step` ends the step and adds the changes of the state.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from typing import Any, Final

from zkcontroller.core.effects import (
    Effect,
    LogLine,
    Pause,
    Question,
    RegisterBrokerZnode,
    SendControlRequest,
    StateChanges,
)
from zkcontroller.core.events import (
    Event,
    LeaderAndIsrResponseReceived,
    TopicDeletionStopReplicaResponseReceived,
    UpdateMetadataResponseReceived,
)
from zkcontroller.zookeeper.requests import (
    CheckExists,
    FencedBatch,
    ListChildren,
    ReadZnodes,
    UnfencedBatch,
    WatchFired,
    ZkTransaction,
)
from zkcontroller_lab.frames import frame_of
from zkcontroller_lab.line_words import answer_in_words, effect_in_words, event_in_words, request_of
from zkcontroller_lab.places import CodeBook, Place, WatchedOutbox, waiting_place
from zkcontroller_lab.recording import (
    RecordedLine,
    RecordedStep,
    Recording,
    State,
    differences,
    names_of,
)
from zkcontroller_simulation.channel import NAMES
from zkcontroller_simulation.process import BrokerProcess
from zkcontroller_simulation.words import in_words
from zkcontroller_simulation.world import World
from zkcontroller_simulation.zookeeper_server import Commit, ZnodeChange

_PARTITION_PATH: Final = re.compile(r"^/brokers/topics/([^/]+)/partitions/(\d+)")
_BROKER: Final = re.compile(r"^broker (\d+)")
LONGEST_THOUGHT_MS: Final = 50
"""A question that is sent later than this after it was decided gets a second line."""
LONGEST_QUESTION: Final = 120
"""The most characters of a question that are repeated before its result."""
_UNIMPORTANT: Final = ("DEBUG", "TRACE")
_RESPONSES: Final = (
    LeaderAndIsrResponseReceived,
    UpdateMetadataResponseReceived,
    TopicDeletionStopReplicaResponseReceived,
)


class Recorder:
    """Records in ``recording`` everything that happens in ``world`` from now on."""

    def __init__(self, world: World, recording: Recording) -> None:
        self._world = world
        self.recording = recording
        self.has_intervened = False
        """Whether a reader changed the run, so that a lesson's captions are left out."""
        self._lines: list[RecordedLine] = []
        self._cause: int | None = None
        self._state: State = {}
        self._code = CodeBook()
        self._is_next_line_known = False
        self._asked: dict[str, tuple[int, int, Question]] = {}
        """By process: the step, the time and the question of its procedure."""
        self._queued: dict[tuple[str, str], int] = {}
        self._fired: dict[tuple[str, WatchFired], int] = {}
        self._sent: dict[int, tuple[SendControlRequest, int]] = {}
        """(request, step in which it was sent) by ``id`` of the request, which must stay alive."""
        self._arrived: dict[int, int] = {}
        """By broker: the step in which it last handled a control request."""
        world.observer = self
        world.new_outbox = WatchedOutbox
        world.zookeeper.on_commit.append(self._committed)

    # Steps

    @property
    def _index(self) -> int:
        """The index of the current step."""
        return len(self.recording.steps)

    def close_step(self, turn: int) -> None:
        """Ends the current step, if it has any lines.

        A change without a line (an event left a queue) is recorded in the next step.
        """
        if not self._lines:
            return
        state = frame_of(self._world)
        changes = differences(self._state, state)
        elapsed_ms = self._world.clock.elapsed_ms
        step = RecordedStep(turn, elapsed_ms, self._lines, changes, self._cause)
        self.recording.steps.append(step)
        self._state, self._lines, self._cause = state, [], None

    def say(self, caption: str) -> None:
        """Adds a caption to the last step, unless a reader has changed the run."""
        if self.has_intervened:
            return
        step = self.recording.steps[-1]
        step.caption = f"{step.caption} {caption}".strip()

    def end(self, ended: str) -> Recording:
        """Completes the recording and returns it; ``ended`` says why it ends."""
        self._world.observer = None
        self.recording.code = self._code.excerpts
        self.recording.ended = ended
        return self.recording

    def add(
        self,
        kind: str,
        text: str,
        broker_id: int | None = None,
        place: Place | None = None,
        partitions: Sequence[object] = (),
    ) -> None:
        """Adds a line to the current step."""
        line = RecordedLine(kind, text, broker_id, self._code.note(place), names_of(partitions))
        self._lines.append(line)

    def _because_of(self, index: int | None) -> None:
        if self._cause is None and index is not None and index != self._index:
            self._cause = index

    # Observer

    def watch_fires(self, process: BrokerProcess, fired: WatchFired) -> None:
        """A watch fires in the step of the commit."""
        self._fired[process.name, fired] = self._index

    def watch_arrives(self, process: BrokerProcess, fired: WatchFired) -> None:
        """The notification of a fired watch arrives at the client."""
        self._because_of(self._fired.pop((process.name, fired), None))
        kind = fired.kind.name.lower().replace("_", " ")
        paths = _named_in([fired.path])
        text = f"is notified by its watch on {fired.path}: {kind}"
        self.add("notification", text, process.broker_id, partitions=paths)

    def event_queued(self, process: BrokerProcess, event: Event) -> None:
        """An event is queued; of equal waiting events only the first one counts."""
        self._queued.setdefault((process.name, repr(event)), self._index)
        if isinstance(event, _RESPONSES):
            self._because_of(self._arrived.get(event.broker_id))
        self.add("queued", f"{event_in_words(event)} joins the queue", process.broker_id)

    def event_begins(self, process: BrokerProcess, task: str, event: Event | None) -> None:
        """An event is taken from the queue."""
        self._is_next_line_known = True
        if event is None:
            self.add("event", task, process.broker_id)
            return
        self._because_of(self._queued.pop((process.name, repr(event)), None))
        self.add("event", event_in_words(event), process.broker_id)

    def effects_begin(self, process: BrokerProcess, effects: Sequence[Effect]) -> None:
        """The effects in the outbox are performed."""
        outbox = process.controller.outbox
        assert isinstance(outbox, WatchedOutbox)
        for effect, place in zip(effects, outbox.places, strict=True):
            kind = "effect"
            partitions: tuple[str, ...] = ()
            match effect:
                case LogLine(level) if level in _UNIMPORTANT:
                    continue
                case LogLine():
                    kind = "log"
                case StateChanges(records):
                    kind = "log"
                    partitions = names_of(
                        [f"{r.topic}-{r.partition}" for r in records if r.topic is not None]
                    )
                case SendControlRequest():
                    self._sent[id(effect)] = (effect, self._index)
                    partitions = names_of(list(request_of(effect).partitions))
                case _:
                    pass
            words = effect_in_words(effect)
            if words:
                self.add(kind, words, process.broker_id, place, partitions)

    def question_asked(
        self, process: BrokerProcess, question: Question, procedure: Generator[Question, Any, Any]
    ) -> None:
        """A procedure asked a question and waits for its result."""
        self._asked[process.name] = (self._index, self._world.clock.now_ms, question)
        place, partitions = waiting_place(procedure), _named_in(_paths_of(question))
        self.add("question", in_words(question), process.broker_id, place, partitions)

    def question_answered(self, process: BrokerProcess, answer: object) -> None:
        """The procedure gets the result and continues."""
        asked = self._asked.pop(process.name, None)
        partitions: Sequence[object] = ()
        asked_words = ""
        if asked is not None:
            index, _, question = asked
            self._because_of(index)
            asked_words = f"{_shortened(in_words(question))} → "
            partitions = _named_in(_paths_of(question))
        is_error = isinstance(answer, Exception)
        self._is_next_line_known = is_error
        kind = "error" if is_error else "answer"
        self.add(
            kind,
            f"{asked_words}{answer_in_words(answer)}",
            process.broker_id,
            partitions=partitions,
        )

    def event_ends(self, process: BrokerProcess, error: Exception | None) -> None:
        """The event has been processed, or ended with an error."""
        if error is not None:
            self._is_next_line_known = True
            self.add("error", f"ends with {answer_in_words(error)}", process.broker_id)

    def request_arrives(self, target: BrokerProcess, send: SendControlRequest, error: int) -> None:
        """A broker takes or refuses a control request."""
        self._is_next_line_known = True
        _, index = self._sent.get(id(send), (send, None))
        self._because_of(index)
        self._arrived[target.broker_id] = self._index
        verdict = f"refuses with error {error}" if error else "takes"
        text = f"{verdict} {NAMES[send.api_key]} of controller epoch {send.controller_epoch}"
        partitions = list(request_of(send).partitions)
        self.add("request", text, target.broker_id, partitions=partitions)

    def line_added(self, line: str) -> None:
        """Adds the history's line, unless the recorder has added a line for the same fact."""
        if self._is_next_line_known:
            self._is_next_line_known = False
            return
        broker = _BROKER.match(line)
        if broker is None:
            self.add("note", line)
            return
        broker_id = int(broker[1])
        for name, (index, asked_ms, question) in self._asked.items():
            if line == f"{name} {in_words(question)}":
                if self._world.clock.now_ms - asked_ms > LONGEST_THOUGHT_MS:
                    self._because_of(index)
                    self.add("note", f"{line} (decided earlier, asked now)", broker_id)
                return
        self.add("note", line, broker_id)

    # ZooKeeper

    def _committed(self, commit: Commit) -> None:
        for process in self._world.processes:
            if process.link.session_id == commit.session_id and process.name in self._asked:
                self._because_of(self._asked[process.name][0])
        for change in commit.changes:
            self.add("zookeeper", _change_in_words(change), partitions=_named_in([change.path]))


def _change_in_words(change: ZnodeChange) -> str:
    match change:
        case ZnodeChange(path, None, after) if after is not None:
            what = "ephemeral " if after.ephemeral_owner else ""
            return f"{what}{path} is created{_data(after.data)}"
        case ZnodeChange(path, before, None):
            return f"{path} is deleted"
        case ZnodeChange(path, before, after):
            assert before is not None
            assert after is not None
            return (
                f"{path} goes from version {before.zk_version} to {after.zk_version}"
                f"{_data(after.data)}"
            )


def _shortened(words: str) -> str:
    return words if len(words) <= LONGEST_QUESTION else f"{words[:LONGEST_QUESTION]}…"


def _data(data: bytes) -> str:
    return f": {data.decode(errors='replace')}" if data else ""


def _paths_of(question: Question) -> list[str]:
    match question:
        case ReadZnodes(paths) | ListChildren(paths) | CheckExists(paths):
            return list(paths)
        case FencedBatch(operations) | UnfencedBatch(operations) | ZkTransaction(operations):
            return [operation.path for operation in operations]
        case Pause() | RegisterBrokerZnode():
            return []


def _named_in(paths: Sequence[str]) -> tuple[str, ...]:
    found = (_PARTITION_PATH.match(path) for path in paths)
    return names_of([f"{match[1]}-{match[2]}" for match in found if match])
