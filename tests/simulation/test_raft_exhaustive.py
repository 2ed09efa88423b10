"""Everything that can happen to a small quorum, breadth first, from several beginnings.

The storms try a few long runs.  This test tries all short ones, up to ``MOST_STATES`` states where
six seeds or more are run, and a sixth of that for each seed where fewer are.  Two states count as
one if their nodes, logs and messages are equal, whatever their clocks show.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import pytest

from kafka_common.errors import RaftFatal
from kraft.raft.states import StateName
from tests.simulation.conftest import SEEDS_BY_DEFAULT
from tests.simulation.raft_small_quorum import Choice, SmallQuorum

MOST_STATES: Final = 600
"""Of each beginning."""
STATES_EACH_SEED: Final = 100


def explored(beginning: tuple[Choice, ...], most_states: int = MOST_STATES) -> list[SmallQuorum]:
    """Every state that choices after that beginning lead to, the nearest ones first."""
    first = SmallQuorum(beginning)
    seen = {first.fingerprint()}
    states = [first]
    waiting = deque([(beginning, tuple(first.choices()))])
    while waiting and len(states) < most_states:
        path, choices = waiting.popleft()
        for choice in choices:
            try:
                state = SmallQuorum((*path, choice))
            except (AssertionError, RaftFatal) as broken:
                steps = "\n".join(str(tuple(step)) for step in (*path, choice))
                raise AssertionError(f"{broken}\n{steps}") from broken
            if (shape := state.fingerprint()) not in seen:
                seen.add(shape)
                states.append(state)
                waiting.append(((*path, choice), tuple(state.choices())))
    return states


def exchange(asker: int, asked: int) -> tuple[Choice, ...]:
    """A request arrives, and its answer."""
    return Choice("request", asker, asked), Choice("answer", asked, asker)


ELECTED: Final = (Choice("time", 1), *exchange(1, 2))
"""Node 1 leads epoch 1 by the vote of node 2; no other node knows it yet."""
REPLICATED: Final = (
    *ELECTED,
    Choice("request", 1, 2),
    *exchange(2, 1),
    Choice("request", 2, 1),
)
"""2 has the first record of 1 and has said so: it is committed."""
OVERTAKEN: Final = (*ELECTED, Choice("append", 1), Choice("time", 3), Choice("request", 3, 2))
"""Node 1 has a record that no other node has.

Node 3 has asked node 2 for its vote in the same epoch.
"""


@pytest.mark.parametrize(
    "beginning",
    [(), ELECTED, REPLICATED, OVERTAKEN],
    ids=["nothing", "elected", "replicated", "overtaken"],
)
def test_no_choice_breaks_a_rule(
    beginning: tuple[Choice, ...], request: pytest.FixtureRequest
) -> None:
    seeds: int = request.config.getoption("seeds", SEEDS_BY_DEFAULT)
    most_states = min(MOST_STATES, STATES_EACH_SEED * seeds)

    states = explored(beginning, most_states)

    assert len(states) >= most_states


def test_the_beginnings_are_what_they_are_called() -> None:
    elected, replicated = SmallQuorum(ELECTED), SmallQuorum(REPLICATED)

    assert elected.nodes[1].state_name is StateName.LEADER
    assert elected.nodes[2].state_name is StateName.UNATTACHED
    assert replicated.committed == [1]


def test_a_quorum_that_grants_to_anybody_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exploration on trial: 3 lacks what 1 and 2 have committed, and may not lead."""
    from kraft.raft.states import UnattachedState

    monkeypatch.setattr(UnattachedState, "can_grant_vote", lambda *_, **__: True)

    with pytest.raises(AssertionError, match="S6"):
        explored(REPLICATED)
