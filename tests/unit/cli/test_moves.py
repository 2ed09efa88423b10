"""Moves and configuration changes as they are typed: what is understood, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_world import Zkctl, installed_zkctl

moves: Any = import_module("zkcontroller_cli.moves")
NOWHERE = ("-b", "127.0.0.1:1", "--timeout", "1")


@pytest.fixture
def zkctl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Zkctl]:
    yield from installed_zkctl(monkeypatch, capsys)


def test_a_topics_name_may_have_dashes() -> None:
    assert moves.parse_partition("my-topic-12") == ("my-topic", 12)
    assert moves.parse_move("my-topic-0:3,1") == ("my-topic", 0, (3, 1))


def test_a_file_of_kafkas_tool_is_read(tmp_path: Path) -> None:
    file = tmp_path / "moves.json"
    listed = {"topic": "orders", "partition": 1, "replicas": [2, 3], "log_dirs": ["any", "any"]}
    file.write_text(json.dumps({"version": 1, "partitions": [listed]}))

    assert moves.read_moves(file) == [("orders", 1, (2, 3))]


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        "{}",
        "not json",
        '{"partitions":[{"topic":"t","partition":0}]}',
        '{"partitions":[{"topic":"t","partition":"0","replicas":[1]}]}',
        '{"partitions":[{"topic":"t","partition":0,"replicas":["1"]}]}',
        '{"partitions":[{"topic":"t","partition":0,"replicas":[true]}]}',
        '{"partitions":[{"topic":"t","partition":0,"replicas":[1],"log_dirs":["/x"]}]}',
    ],
)
def test_any_other_file_is_refused(zkctl: Zkctl, tmp_path: Path, content: str) -> None:
    file = tmp_path / "moves.json"
    file.write_text(content)

    answer = zkctl("partition", "reassign", "--file", str(file), *NOWHERE)

    assert (answer.exit_code, answer.stdout) == (2, "")
    assert str(file) in answer.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("partition", "reassign"), "name moves as"),
        (("partition", "reassign", "orders-0"), "'orders-0' is not TOPIC-PARTITION:BROKER"),
        (("partition", "reassign", "orders:1,2"), "'orders' is not TOPIC-PARTITION"),
        (("partition", "reassign", "orders-0:1,x"), "is not TOPIC-PARTITION:BROKER"),
        (("partition", "reassign", "orders-0:1", "orders-0:2"), "orders-0 is named twice"),
        (("partition", "reassign", "--cancel", "orders-x"), "is not TOPIC-PARTITION"),
        (("partition", "reassign", "--file", "/no/such"), "cannot read /no/such"),
        (("partition", "elect"), "or say --all"),
        (("partition", "elect", "--all", "orders-0"), "or say --all"),
        (("partition", "elect", "orders-0", "orders-0"), "orders-0 is named twice"),
        (
            ("topic", "alter", "orders", "--partitions", "2", "--replica-assignment", "1;2"),
            "is not",
        ),
        (("config", "describe", "topic"), "which topic?"),
        (("config", "describe", "logger"), "whose loggers?"),
        (("config", "describe", "broker", "one"), "'one' is not the id of a broker"),
        (("config", "alter", "topic", "orders"), "change what?"),
        (("config", "alter", "topic", "orders", "--set", "key"), "--set takes KEY=VALUE"),
        (("config", "alter", "topic", "orders", "--delete", "a=b"), "--delete takes a KEY"),
    ],
)
def test_what_contradicts_itself_or_lacks_something_is_a_matter_of_usage(
    zkctl: Zkctl, arguments: tuple[str, ...], sentence: str
) -> None:
    answer = zkctl(*arguments, *NOWHERE)

    assert (answer.exit_code, answer.stdout) == (2, ""), answer.stderr
    assert sentence in answer.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("partition", "elect", "orders-0", "--unclean"),
        ("partition", "elect", "--all"),
        ("partition", "reassign", "orders-0:1,2"),
        ("partition", "reassign", "--cancel", "orders-0"),
        ("config", "alter", "broker", "--set", "log.retention.ms=1"),
        ("topic", "delete", "orders"),
    ],
)
def test_off_a_terminal_a_change_needs_yes_before_anything_is_looked_up(
    zkctl: Zkctl, arguments: tuple[str, ...]
) -> None:
    answer = zkctl(*arguments, *NOWHERE)

    assert answer.exit_code == 5
    assert answer.stderr.endswith("Not a terminal, so no one can be asked: say --yes\n")
    assert len(answer.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("partition", "reassign", "orders-0:1", "--yes"),
        ("partition", "reassign", "--cancel", "orders-0", "--yes"),
        ("partition", "reassignments"),
        ("partition", "elect", "--all", "--unclean", "--yes"),
        ("topic", "alter", "orders", "--partitions", "2"),
        ("config", "describe", "topic", "orders"),
        ("config", "alter", "broker", "--append", "log.cleanup.policy=compact", "--yes"),
    ],
)
def test_without_a_broker_there_is_no_answer(zkctl: Zkctl, arguments: tuple[str, ...]) -> None:
    answer = zkctl(*arguments, *NOWHERE)

    assert (answer.exit_code, answer.stdout) == (3, "")
    assert "127.0.0.1:1" in answer.stderr
