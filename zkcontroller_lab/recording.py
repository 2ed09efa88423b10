"""A recording in JSON: what happened step by step, why, and the state after each step.

``docs/lab.md`` describes the format for readers.  A recording holds steps.  Each has lines (an
event, a question, its result, effects, …) and the changes of the state that the step made.  The
state is a map from keys to values: ``broker/1``, ``partition/orders-0``, ``znode/controller``,
``request/1>2``.  The frame after a step, the whole state, is made by applying the changes of all
steps up to it.  Two frames are compared key by key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import orjson

FORMAT: Final = "zkctl-lab"
VERSION: Final = 1
"""Raised when a field is removed or changes its meaning, not when a field is added."""
MOST_STEPS: Final = 20_000
"""A longer run is cut; its recording says so."""
LONGEST_TEXT: Final = 2_000
"""The most characters of one line; the rest is cut."""

State: TypeAlias = dict[str, Any]
"""Keys to JSON values."""


@dataclass(frozen=True, slots=True)
class RecordedLine:
    """One line of a step.

    ``kind``: event, question, answer, effect, log, request, zookeeper, intervention, note, error or
    broken.  ``broker_id``: the line's broker, None for an operator or ZooKeeper.  ``place``: the
    index into ``Recording.code`` and the deciding line in that file.  ``partitions``: ``topic-N``.
    """

    kind: str
    text: str
    broker_id: int | None = None
    place: tuple[int, int] | None = None
    partitions: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The line as a JSON object; fields that do not apply are left out."""
        text = self.text
        if len(text) > LONGEST_TEXT:
            text = text[:LONGEST_TEXT] + "…"
        found: dict[str, Any] = {"kind": self.kind, "text": text}
        if self.broker_id is not None:
            found["broker"] = self.broker_id
        if self.place is not None:
            found["place"] = self.place
        if self.partitions:
            found["partitions"] = self.partitions
        return found


@dataclass(slots=True)
class RecordedStep:
    """One step: its lines, and the changes of the state.

    ``turn`` counts the actions of the simulation (a place to intervene); ``cause`` is the index of
    the step that caused this one, None if that is unknown; ``changes`` has None for a removed key.
    """

    turn: int
    time_ms: int
    lines: list[RecordedLine] = field(default_factory=list)
    changes: State = field(default_factory=dict)
    cause: int | None = None
    caption: str = ""

    def as_json(self) -> dict[str, Any]:
        """The step as the recording's JSON has it."""
        found: dict[str, Any] = {
            "turn": self.turn,
            "time_ms": self.time_ms,
            "lines": [line.as_json() for line in self.lines],
            "changes": self.changes,
        }
        if self.cause is not None:
            found["cause"] = self.cause
        if self.caption:
            found["caption"] = self.caption
        return found


@dataclass(frozen=True, slots=True)
class CodeExcerpt:
    """A function that decided something: its file, and its text from ``first_line`` on."""

    file: str
    function: str
    first_line: int
    text: str


@dataclass(slots=True)
class Recording:
    """The recording of a whole run.

    ``source`` says how to make it again: from a seed with its interventions, a lesson, or files.
    ``ended`` says in one sentence why the recording ends.
    """

    title: str
    source: Mapping[str, Any]
    steps: list[RecordedStep] = field(default_factory=list)
    code: list[CodeExcerpt] = field(default_factory=list)
    ended: str = ""

    def frame(self, index: int) -> State:
        """The state after the step at ``index``."""
        state: State = {}
        for step in self.steps[: index + 1]:
            for key, value in step.changes.items():
                if value is None:
                    state.pop(key, None)
                else:
                    state[key] = value
        return state

    def to_json(self) -> bytes:
        """The recording in the format of this version."""
        return orjson.dumps(
            {
                "format": FORMAT,
                "version": VERSION,
                "title": self.title,
                "source": dict(self.source),
                "ended": self.ended,
                "steps": [step.as_json() for step in self.steps],
                "code": [
                    {
                        "file": each.file,
                        "function": each.function,
                        "first_line": each.first_line,
                        "text": each.text,
                    }
                    for each in self.code
                ],
            }
        )


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> State:
    """The changes that lead from one state to another, in the order of ``after``."""
    changes: State = {key: None for key in before if key not in after}
    for key, value in after.items():
        if before.get(key) != value:
            changes[key] = value
    return changes


def names_of(partitions: Sequence[object]) -> tuple[str, ...]:
    """Partitions as a recording names them: ``topic-N``, each once."""
    return tuple(dict.fromkeys(map(str, partitions)))
