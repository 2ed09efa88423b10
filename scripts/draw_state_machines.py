"""Draws the state machines of controller, groups and quorum into docs/state-machines.md.

    .venv/bin/python scripts/draw_state_machines.py            redraws the diagrams
    .venv/bin/python scripts/draw_state_machines.py --check    only says whether they are stale

The diagrams come from the tables the code itself obeys (``VALID_PREVIOUS``), so they cannot
differ from the code; ``tests/test_house.py`` makes sure of it.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Protocol, TypeVar

from kraft.raft import states as quorum_states
from replica_manager.coordinators.groups import group
from zkcontroller.core import partition_states, replica_states
from zkcontroller.core.states import PartitionState, ReplicaState

DOCUMENT = Path(__file__).parent.parent / "docs" / "state-machines.md"


class Labelled(Protocol):
    """A state: every enumeration of states carries Kafka's name for it."""

    @property
    def label(self) -> str: ...


State = TypeVar("State", bound=Labelled)


def diagram(valid_previous: Mapping[State, Collection[State]], first: State) -> str:
    """A Mermaid state diagram with one arrow per legal transition.

    ``valid_previous`` gives for each state the states it may be entered from; ``first`` is where
    everything begins.  The arrows are sorted, because the previous states come as sets.
    """
    arrows = [
        f"    {source.label} --> {target.label}"
        for target, sources in valid_previous.items()
        for source in sources
    ]
    return "\n".join(["stateDiagram-v2", f"    [*] --> {first.label}", *sorted(arrows)])


def redrawn(document: str) -> str:
    """The document with all diagrams drawn anew; the prose around them stays.

    Raises ValueError if the document lacks one of the marked diagrams.
    """
    partitions = diagram(partition_states.VALID_PREVIOUS, PartitionState.NON_EXISTENT)
    replicas = diagram(replica_states.VALID_PREVIOUS, ReplicaState.NON_EXISTENT)
    groups = diagram(group.VALID_PREVIOUS, group.GroupState.EMPTY)
    quorum = diagram(quorum_states.VALID_PREVIOUS, quorum_states.StateName.UNATTACHED)
    drawings = {"partitions": partitions, "replicas": replicas, "groups": groups, "quorum": quorum}
    for name, drawing in drawings.items():
        opening = f"<!-- drawn: {name} -->\n```mermaid\n"
        start = document.index(opening) + len(opening)
        end = document.index("\n```", start)
        document = document[:start] + drawing + document[end:]
    return document


def main(arguments: list[str]) -> int:
    """Redraw, or only check; returns the exit code."""
    document = DOCUMENT.read_text()
    fresh = redrawn(document)
    if "--check" in arguments:
        print("up to date" if fresh == document else "stale: draw them anew")
        return int(fresh != document)
    DOCUMENT.write_text(fresh)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
