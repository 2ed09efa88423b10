"""docs/drill.md on brokers of ours, as it stands."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.kit.drill import SECTIONS, LongSessions, NewOperator, ShortSessions, mend
from tests.kit.typed_page import RUN_S, Operator

pytestmark = pytest.mark.kit

pytest.importorskip("confluent_kafka")


@pytest.fixture(scope="class")
def new_operator() -> NewOperator:
    """One who has the installed ``zkctl``."""
    return Operator


class TestLongSessions(LongSessions):
    """Whose tests are there."""


class TestShortSessions(ShortSessions):
    """Whose tests are there."""


def test_a_stale_broker_learns_of_the_topic_by_the_next_controller(tmp_path: Path) -> None:
    section = SECTIONS["A stale broker"]
    operator = Operator(tmp_path)
    (tmp_path / "stale.py").write_text(section.script)
    [cause] = section.steps["Cause"]

    with subprocess.Popen(
        ["bash", "-c", f"exec {cause.line}"],
        cwd=tmp_path,
        env=operator.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as kit:
        assert kit.stdin is not None
        assert kit.stdout is not None
        try:
            name, _, directory = kit.stdout.readline().strip().partition("=")
            assert name == "export ZKCTL_DIR"
            operator.environment["ZKCTL_DIR"] = directory
            operator.run_all(section.steps["Find"][1:])
            named = mend(operator, section)
            operator.prove(section)
        finally:
            kit.stdin.close()  # as Enter, it ends the script
            kit.wait(RUN_S)

    assert named == ["zkctl controller elect"]
