"""The demo tells the truth: what is not so ends it, and nothing of the user's is touched."""

from __future__ import annotations

import io
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import orjson
import pytest

errors = import_module("zkcontroller_cli.console.errors")
processes = import_module("zkcontroller_cli.machine.processes")
render = import_module("zkcontroller_cli.console.render")
demonstration = import_module("zkcontroller_cli.local.demonstration")


@pytest.fixture
def demo(tmp_path: Path) -> Any:
    return demonstration.Demonstration(
        tmp_path, demonstration.console_for(io.StringIO()), ("--dir", str(tmp_path))
    )


def test_a_fact_that_is_true_is_noted_and_printed(demo: Any) -> None:
    demo.fact("brokers are up", True, brokers=[1, 2])

    assert demo.facts == [
        {"fact": "brokers are up", "is_true": True, "evidence": {"brokers": [1, 2]}}
    ]
    assert demo.console.file.getvalue() == "  ✓ brokers are up\n"


def test_a_false_fact_ends_the_demonstration_with_what_was_seen(demo: Any) -> None:
    with pytest.raises(errors.CommandFailed, match="not true: brokers are up") as failure:
        demo.fact("brokers are up", False, brokers=[1])

    assert '{"brokers":[1]}' in str(failure.value)
    assert errors.exit_code_of(failure.value) == errors.ExitCode.FINDING
    assert demo.facts[-1]["is_true"] is False


def test_a_command_that_fails_ends_the_demonstration_in_its_own_words(demo: Any) -> None:
    with pytest.raises(errors.Refused, match=r"zkctl cluster status failed: .*there is no cluster"):
        demo.zkctl("cluster", "status")


def test_a_command_that_fails_while_one_waits_is_tried_again(
    demo: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = tmp_path / "asked"

    def refuse_twice(_module: str, *_arguments: str) -> list[str]:
        """Instead of zkctl: how often it was asked, but not the first two times."""
        count = len(asked.read_text()) + 1 if asked.exists() else 1
        asked.write_text("x" * count)
        return [sys.executable, "-c", f"import sys; print({count}); sys.exit({count} < 3)"]

    monkeypatch.setattr(demonstration, "python_module", refuse_twice)

    assert demo.wait_for("an answer", ("anything",), lambda count: count > 3) == 4


def test_a_command_that_never_works_is_reported_in_its_own_words(
    demo: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demonstration, "_NOTICE_S", 0.0)

    with pytest.raises(errors.Refused, match="there is no cluster"):
        demo.wait_for("a cluster", ("cluster", "status"), bool)


def test_an_address_in_the_environment_cannot_become_the_demos_cluster(
    demo: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZKCTL_ZOOKEEPER", "production:2181")
    monkeypatch.setenv("ZKCTL_BOOTSTRAP_SERVER", "production:9092")
    monkeypatch.setattr(demonstration, "python_module", print_the_environment)

    assert demo.zkctl("anything") == []


def print_the_environment(_module: str, *_arguments: str) -> list[str]:
    """Instead of zkctl: its settings, as JSON."""
    names = "import json, os; print(json.dumps([n for n in os.environ if n.startswith('ZKCTL_')]))"
    return [sys.executable, "-c", names]


def test_the_facts_are_readable_in_every_format() -> None:
    out = io.StringIO()
    facts = [{"fact": "a", "is_true": True, "evidence": {"x": 1}}]

    render.Renderer(render.Format.JSON, out).rows(facts, demonstration._FACTS)

    assert orjson.loads(out.getvalue()) == facts
