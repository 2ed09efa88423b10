"""kio without Hypothesis, where Hypothesis is installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SHOWN = "; print('hypothesis.strategies' in sys.modules)"


@pytest.mark.parametrize(
    "imports",
    [
        "import sys, replica_manager.__main__",
        "import sys, zkcontroller_cli.wire.requests",
        "import sys, kraft.raft.kafka_raft_client",
        "import sys; from zkcontroller_testing import KafkaCluster",
    ],
)
def test_who_imports_our_packages_loads_no_hypothesis_and_leaves_no_folder_of_it(
    imports: str, tmp_path: Path
) -> None:
    found = subprocess.run(
        [sys.executable, "-c", imports + SHOWN],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )

    assert found.stdout == "False\n"
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_uses_hypothesis_itself_can_import_it_afterwards() -> None:
    program = "import sys, kraft.raft.kafka_raft_client, hypothesis.strategies" + SHOWN
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert (found.stdout, found.stderr) == ("True\n", "")
