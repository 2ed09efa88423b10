"""The guards of the raft core hold under ``python -O``, which leaves asserts out."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

GUARDED = (*sorted((ROOT / "kraft/raft").glob("*.py")),
           ROOT / "kraft/node/metadata_log.py")  # fmt: skip

PROGRAM = """
from tests.support.raft_harness import RaftHarness
from kafka_common.errors import RaftFatal

assert False, "asserts are left out"
node = RaftHarness().start()
first = node.become_candidate()[0]
{mutation}
try:
    {deed}
except RaftFatal as refused:
    print("refused:", refused)
print("leads" if node.node.is_leader else "does not lead")
"""

MUTATIONS = {
    "one vote of three makes a leader": ("", "node.node._node.lead(node.now_ms)", "no majority"),
    "a candidate goes back to an earlier epoch": (
        "node.node._node.quorum.state.epoch = 9",
        "node.node._node.quorum.become_follower(3, 2, {'CONTROLLER': None}, node.now_ms)",
        "follower in epoch 3 after 9",
    ),
    "a voter votes twice": (
        "from kraft.raft.values import ReplicaKey;"
        "node.node._node.unattach(9, node.now_ms);"
        "node.node._node.quorum.vote_for(ReplicaKey(2), node.now_ms)",
        "node.node._node.quorum.vote_for(ReplicaKey(3), node.now_ms)",
        "a second vote in epoch 9",
    ),
    "a follower becomes the leader without an election": (
        "node.node._node.follow(9, 2, {'CONTROLLER': None}, node.now_ms)",
        "node.node._node.lead(node.now_ms)",
        "leads without a vote",
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_without_asserts_too_the_guards_refuse(mutation: str) -> None:
    before, deed, refusal = MUTATIONS[mutation]
    program = PROGRAM.format(mutation=before, deed=deed)

    done = subprocess.run(
        [sys.executable, "-O", "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    refused, state = done.stdout.splitlines()
    assert refusal in refused
    assert state == "does not lead"


@pytest.mark.parametrize("path", GUARDED, ids=lambda path: path.stem)
def test_no_guard_of_the_raft_core_is_an_assert(path: Path) -> None:
    found = [
        node.lineno
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Assert)
    ]

    assert found == [], "use kraft.raft.guards.require"
