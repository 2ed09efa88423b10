"""The demo tells the truth: what is not so ends it, and nothing of the user's is touched."""

from __future__ import annotations

import io
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import orjson
import pytest

demo_story = import_module("zkcontroller_cli.demo_story")
errors = import_module("zkcontroller_cli.errors")
render = import_module("zkcontroller_cli.render")


@pytest.fixture
def story(tmp_path: Path) -> Any:
    return demo_story.Story(tmp_path, render.console_for(io.StringIO()))


def test_a_fact_that_is_true_is_noted_and_told(story: Any) -> None:
    story.fact("brokers are up", True, brokers=[1, 2])

    assert story.facts == [
        {"fact": "brokers are up", "is_true": True, "evidence": {"brokers": [1, 2]}}
    ]
    assert story.console.file.getvalue() == "  ✓ brokers are up\n"


def test_a_fact_that_is_not_true_ends_the_story_with_what_was_seen(story: Any) -> None:
    with pytest.raises(errors.CommandFailed, match="not true: brokers are up") as failure:
        story.fact("brokers are up", False, brokers=[1])

    assert '{"brokers":[1]}' in str(failure.value)
    assert errors.exit_code_of(failure.value) == errors.ExitCode.FINDING
    assert story.facts[-1]["is_true"] is False


def test_a_command_that_fails_ends_the_story_in_its_own_words(story: Any) -> None:
    with pytest.raises(errors.Refused, match=r"zkctl cluster status failed: .*there is no cluster"):
        story.zkctl("cluster", "status")


def test_an_address_in_the_environment_cannot_become_the_demos_cluster(
    story: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZKCTL_ZOOKEEPER", "production:2181")
    monkeypatch.setenv("ZKCTL_BOOTSTRAP_SERVER", "production:9092")
    monkeypatch.setattr(demo_story, "python_module", print_the_environment)

    assert story.zkctl("anything") == []


def print_the_environment(_module: str, *_arguments: str) -> list[str]:
    """Instead of zkctl: its settings, as JSON."""
    names = "import json, os; print(json.dumps([n for n in os.environ if n.startswith('ZKCTL_')]))"
    return [sys.executable, "-c", names]


def test_the_facts_are_readable_in_every_format() -> None:
    out = io.StringIO()
    facts = [{"fact": "a", "is_true": True, "evidence": {"x": 1}}]

    render.Renderer(render.Format.JSON, out).rows(facts, demo_story._FACTS)

    assert orjson.loads(out.getvalue()) == facts
