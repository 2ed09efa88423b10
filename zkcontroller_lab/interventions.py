"""Interventions: an act of an operator, or a fault, that a reader adds to a run at one turn.

``turn`` counts the actions of the simulation.  Up to that turn the run is equal to the run without
the intervention, so a reader intervenes at the moment that the page shows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

from kafka_common.errors import ZkControllerError
from zkcontroller_simulation.process import BrokerProcess, ProcessState
from zkcontroller_simulation.world import World

MOST_INTERVENTIONS: Final = 50
LAST_TURN: Final = 1_000_000
_TEXT: Final = re.compile(r"([a-z-]+)(?: (\d{1,9}))?@(\d{1,9})")


class InterventionRefused(ZkControllerError):
    """The intervention is malformed, or cannot be done at that moment."""


class Act(StrEnum):
    """An act that a reader can do to a broker or to ZooKeeper in a run."""

    KILL = "kill"
    PAUSE = "pause"
    RESUME = "resume"
    START = "start"
    CUT = "cut"
    CONNECT = "connect"
    EXPIRE = "expire"
    LOSE_REPLY = "lose-reply"
    DELETE_CONTROLLER = "delete-controller"


MEANINGS: Final[Mapping[Act, str]] = {
    Act.KILL: "SIGKILL: the process ends at once, its session when its time is over",
    Act.PAUSE: "SIGSTOP: nothing happens inside",
    Act.RESUME: "SIGCONT: what arrived meanwhile happens now",
    Act.START: "starts the broker again, as a new incarnation",
    Act.CUT: "the broker cannot reach ZooKeeper",
    Act.CONNECT: "the broker can reach ZooKeeper again",
    Act.EXPIRE: "ZooKeeper ends the broker's session",
    Act.LOSE_REPLY: "ZooKeeper performs the broker's next question, and the reply is lost",
    Act.DELETE_CONTROLLER: "an operator deletes /controller",
}


class Intervention(NamedTuple):
    """One act, which is done after action ``turn``; ``broker_id`` None: it concerns no broker."""

    turn: int
    act: Act
    broker_id: int | None = None

    @classmethod
    def parse(cls, text: str) -> Intervention:
        """The intervention in a text such as ``kill 2@120``; raises InterventionRefused."""
        match = _TEXT.fullmatch(text.strip())
        if match is None:
            raise InterventionRefused(
                f"{text!r} is not an intervention: write ACT BROKER@TURN, for example 'kill 2@120'"
            )
        broker_id = None if match[2] is None else int(match[2])
        return cls._checked(match[1], broker_id, int(match[3]))

    @classmethod
    def from_json(cls, value: object) -> Intervention:
        """The intervention in a JSON object of a recording's source; or InterventionRefused."""
        if not isinstance(value, dict):
            raise InterventionRefused("an intervention is an object with turn, act and broker")
        turn, act, broker_id = value.get("turn"), value.get("act"), value.get("broker")
        is_number = isinstance(turn, int) and not isinstance(turn, bool)
        is_broker = broker_id is None or (
            isinstance(broker_id, int) and not isinstance(broker_id, bool)
        )
        if not (is_number and isinstance(act, str) and is_broker):
            raise InterventionRefused(
                "an intervention has a turn (number), an act and a broker (number)"
            )
        assert isinstance(turn, int)
        return cls._checked(act, broker_id, turn)

    @classmethod
    def _checked(cls, act: str, broker_id: int | None, turn: int) -> Intervention:
        if act not in list(Act):
            raise InterventionRefused(f"{act!r} is none of {', '.join(Act)}")
        if not 0 <= turn <= LAST_TURN:
            raise InterventionRefused(f"turn {turn} is not between 0 and {LAST_TURN}")
        if (broker_id is None) != (Act(act) is Act.DELETE_CONTROLLER):
            needs = "no broker" if broker_id is not None else "a broker"
            raise InterventionRefused(f"{act} takes {needs}")
        return cls(turn, Act(act), broker_id)

    def as_json(self) -> dict[str, Any]:
        """The intervention as a JSON object for a recording's source."""
        found: dict[str, Any] = {"turn": self.turn, "act": self.act.value}
        if self.broker_id is not None:
            found["broker"] = self.broker_id
        return found

    def as_text(self) -> str:
        """The intervention as text that :meth:`parse` reads."""
        broker = "" if self.broker_id is None else f" {self.broker_id}"
        return f"{self.act.value}{broker}@{self.turn}"


def in_order(interventions: Iterable[Intervention]) -> tuple[Intervention, ...]:
    """The interventions sorted by turn; raises InterventionRefused if there are too many."""
    ordered = tuple(sorted(interventions, key=lambda each: each.turn))
    if len(ordered) > MOST_INTERVENTIONS:
        raise InterventionRefused(f"more than {MOST_INTERVENTIONS} interventions")
    return ordered


def intervene(world: World, intervention: Intervention) -> None:
    """Does an intervention, except LOSE_REPLY, which the run does when a reply is in flight.

    Raises InterventionRefused if it cannot be done now.
    """
    obstacle = _obstacle(world, intervention)
    if obstacle:
        raise InterventionRefused(f"{intervention.as_text()}: {obstacle}")
    broker_id = intervention.broker_id
    if broker_id is None:
        world.delete_controller_znode()
    elif intervention.act in _DONE_TO_A_BROKER:
        _DONE_TO_A_BROKER[intervention.act](world, broker_id)


_DONE_TO_A_BROKER: Final[Mapping[Act, Callable[[World, int], object]]] = {
    Act.KILL: World.kill,
    Act.PAUSE: World.pause,
    Act.RESUME: World.resume,
    Act.START: World.start,
    Act.CUT: World.disconnect,
    Act.CONNECT: World.connect,
    Act.EXPIRE: World.expire_session,
}


def _obstacle(world: World, intervention: Intervention) -> str:
    """The reason why the intervention cannot be done now; empty if it can."""
    act, broker_id = intervention.act, intervention.broker_id
    if broker_id is None:
        return "" if world.controller_znode is not None else "there is no /controller then"
    process = world.living.get(broker_id)
    if act is Act.START:
        was_there = any(each.broker_id == broker_id for each in world.processes)
        return "" if process is None and was_there else f"broker {broker_id} is not dead then"
    if process is None:
        return f"there is no broker {broker_id} then"
    return _obstacle_of_process(world, act, process)


def _obstacle_of_process(world: World, act: Act, process: BrokerProcess) -> str:
    is_paused = process.state is ProcessState.PAUSED
    if act is Act.PAUSE and is_paused:
        return "it is paused already"
    if act is Act.RESUME and not is_paused:
        return "it is not paused then"
    if act is Act.EXPIRE and not world.zookeeper.is_alive(process.link.session_id):
        return "its session is over already"
    if act is Act.CONNECT and not process.link.is_cut_off:
        return "it is not cut off then"
    return ""
