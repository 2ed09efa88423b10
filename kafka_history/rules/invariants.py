"""Checks what must hold in every history; each finding is a violation.

C02: each controller epoch belongs to one broker, and epochs grow.  P03: the leader is in the ISR.
P07: leader epochs never decrease.  P12: each leader epoch has one leader.  Only values that a line
itself contains are checked, not values filled in from an earlier line.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from kafka_history.rules.event import Event
from kafka_history.rules.partition_states import State
from kafka_history.rules.tenures import GRACE_MS, Tenure

LEADER_KIND: Final = "leader-starts"
COLUMNS: Final = (
    "topic", "partition", "topic_id", "leader_epoch", "broker_id", "time_ms", "file", "line",
)  # fmt: skip
"""The columns of an event that this module needs."""


class Violation(NamedTuple):
    """A broken invariant; ``topic`` and ``partition`` are None if controllers broke it."""

    rule: str
    topic: str | None
    partition: int | None
    at_ms: int
    says: str
    file: str | None
    line: int | None


def controller_violations(held: Sequence[Tenure]) -> Iterator[Violation]:
    """Controller epochs that two brokers held, and epochs that decreased."""
    holders: defaultdict[int, set[int]] = defaultdict(set)
    for tenure in held:
        if tenure.broker is not None:
            holders[tenure.controller_epoch].add(tenure.broker)
    for tenure in held:
        brokers = sorted(holders[tenure.controller_epoch])
        if len(brokers) > 1:
            names = ", ".join(map(str, brokers))
            epoch = tenure.controller_epoch
            yield _of_tenure(tenure, f"controller epoch {epoch} was held by brokers {names}")
    elected = [tenure for tenure in held if tenure.is_elected]
    highest, latest_ms = -1, 0
    for tenure in sorted(elected, key=lambda each: (each.from_ms, each.file, each.line)):
        if tenure.controller_epoch < highest and tenure.from_ms > latest_ms + GRACE_MS:
            says = f"controller epoch {tenure.controller_epoch} after {highest}"
            yield _of_tenure(tenure, says)
        highest, latest_ms = max(highest, tenure.controller_epoch), tenure.from_ms


def partition_violations(states: Sequence[State], events: Iterable[Event]) -> Iterator[Violation]:
    """The violations of one partition, given its states and its events of ``LEADER_KIND``."""
    for state in states:
        leader, isr = state.leader, state.isr
        if state.is_isr_sent and leader is not None and leader >= 0 and isr and leader not in isr:
            yield _of_state(
                state, "P03", f"leader {leader} is not in ISR {','.join(map(str, isr))}"
            )
        epoch, before = state.leader_epoch, state.previous_epoch
        if state.is_epoch_told and epoch is not None and before is not None and epoch < before:
            yield _of_state(state, "P07", f"leader epoch {epoch} after {before}")
    yield from _two_leaders(states, events)


def _two_leaders(states: Iterable[State], events: Iterable[Event]) -> Iterator[Violation]:
    """Leader epochs with more than one leader.

    A topic that was deleted and created again counts as two topics.
    """
    terms: defaultdict[tuple[Hashable, int], list[tuple[int | None, Event | State]]]
    terms = defaultdict(list)
    for event in events:
        if event.topic_id is not None and event.leader_epoch is not None:
            terms[event.topic_id, event.leader_epoch].append((event.broker_id, event))
    for state in states:
        is_led = state.leader is not None and state.leader >= 0
        if is_led and state.is_epoch_told and state.leader_epoch is not None:
            terms[state.incarnation, state.leader_epoch].append((state.leader, state))
    found: dict[str, Violation] = {}
    for (_, epoch), its in terms.items():
        leaders = sorted({leader for leader, _ in its if leader is not None})
        if len(leaders) > 1:
            says = f"brokers {' and '.join(map(str, leaders))} led in leader epoch {epoch}"
            last = max((said for _, said in its), key=_evidence)
            found.setdefault(says, _of_state(last, "P12", says))
    yield from found.values()


def _evidence(said: Event | State) -> tuple[int, str, int]:
    return said.time_ms, said.file or "", said.line or 0


def _of_tenure(tenure: Tenure, says: str) -> Violation:
    return Violation("C02", None, None, tenure.from_ms, says, tenure.file, tenure.line)


def _of_state(state: Event | State, rule: str, says: str) -> Violation:
    return Violation(
        rule, state.topic, state.partition, state.time_ms, says, state.file, state.line
    )
