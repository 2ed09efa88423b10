"""Moves and configuration changes as they are typed: what is understood, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_world import Zkctl, installed_zkctl

moves: Any = import_module("zkcontroller_cli.values.moves")
NOWHERE = ("-b", "127.0.0.1:1", "--timeout", "1")


@pytest.fixture
def zkctl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Zkctl]:
    yield from installed_zkctl(monkeypatch, capsys)


def test_a_topics_name_may_have_dashes() -> None:
    assert moves.parse_partition("my-topic-12") == ("my-topic", 12)
    assert moves.parse_move("my-topic-0:3,1") == ("my-topic", 0, (3, 1), ())


def test_a_file_of_kafkas_tool_is_read(tmp_path: Path) -> None:
    file = tmp_path / "moves.json"
    listed = {"topic": "orders", "partition": 1, "replicas": [2, 3], "log_dirs": ["any", "any"]}
    file.write_text(json.dumps({"version": 1, "partitions": [listed]}))

    assert moves.read_moves(file) == [("orders", 1, (2, 3), ())]


def test_log_directories_of_a_file_are_those_of_its_replicas(tmp_path: Path) -> None:
    file = tmp_path / "moves.json"
    listed = {"topic": "orders", "partition": 1, "replicas": [2, 3], "log_dirs": ["any", "/b"]}
    file.write_text(json.dumps({"partitions": [listed]}))

    [move] = moves.read_moves(file)

    assert (move.name, move.directories) == (("orders", 1), {3: "/b"})


def test_partitions_of_kafkas_leader_election_are_read(tmp_path: Path) -> None:
    file = tmp_path / "partitions.json"
    file.write_text('{"partitions":[{"topic":"a","partition":1},{"topic":"b-c","partition":0}]}')

    assert moves.read_partition_names(file) == [("a", 1), ("b-c", 0)]


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
        '{"partitions":[{"topic":"t","partition":0,"replicas":[1],"log_dirs":["x"]}]}',
        '{"partitions":[{"topic":"t","partition":0,"replicas":[1],"log_dirs":["/x","/y"]}]}',
        '{"partitions":[{"topic":"t","partition":0,"replicas":[1],"log_dirs":[1]}]}',
        '{"partitions":[{"topic":"t","partition":0,"replicas":[]}]}',
        '{"partitions":[]}',
        '{"version":2,"partitions":[{"topic":"t","partition":0,"replicas":[1]}]}',
    ],
)
def test_any_other_file_is_refused(zkctl: Zkctl, tmp_path: Path, content: str) -> None:
    file = tmp_path / "moves.json"
    file.write_text(content)

    result = zkctl("reassign", "start", "--file", str(file), *NOWHERE)

    assert (result.exit_code, result.stdout) == (2, "")
    assert str(file) in result.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("reassign", "start"), "name moves as"),
        (("reassign", "start", "orders-0:1", "--file", "x"), "name moves as"),
        (("reassign", "start", "orders-0"), "'orders-0' is not TOPIC-PARTITION:BROKER"),
        (("reassign", "start", "orders:1,2"), "'orders' is not TOPIC-PARTITION"),
        (("reassign", "start", "orders-0:1,x"), "is not TOPIC-PARTITION:BROKER"),
        (("reassign", "start", "orders-0:1", "orders-0:2"), "orders-0 is named twice"),
        (("reassign", "start", "--file", "/no/such"), "cannot read /no/such"),
        (("reassign", "start", "orders-0:1", "--throttle", "0"), "--throttle"),
        (("reassign", "start", "orders-0:1", "--patience", "9"), "--patience is for --wait"),
        (
            ("reassign", "start", "orders-0:1", "--replica-alter-log-dirs-throttle", "9"),
            "is for moves that name a log directory",
        ),
        (("reassign", "verify"), "name moves as"),
        (("reassign", "cancel"), "or say --all"),
        (("reassign", "cancel", "orders-0", "--all"), "or say --all"),
        (("reassign", "cancel", "orders-x"), "is not TOPIC-PARTITION"),
        (("reassign", "status", "--file", "/no/such"), "cannot read /no/such"),
        (("reassign", "plan"), "say one of --balance, --drain, --add"),
        (("reassign", "plan", "--balance", "--drain", "1"), "say one of --balance, --drain"),
        (("reassign", "plan", "--balance", "--save", "/dev/null"), "/dev/null exists already"),
        (("reassign", "plan", "--add", "1", "--to", "2"), "leave --to out"),
        (("broker", "drain", "1", "--leadership-only", "--to", "2"), "copies nothing"),
        (("broker", "drain", "1", "--save-current", "/dev/null"), "/dev/null exists already"),
        (("log-dirs", "move", "1", "orders-0"), "say --to DIR, or --cancel"),
        (("log-dirs", "move", "1", "orders-0", "--to", "/a", "--cancel"), "say --to DIR, or"),
        (("log-dirs", "move", "1", "--to", "/a"), "or say --from DIR"),
        (("log-dirs", "move", "1", "a-0", "--cancel", "--throttle", "9"), "not for --cancel"),
        (("partition", "elect", "--file", "/no/such"), "cannot read /no/such"),
        (("partition", "elect"), "or say --all"),
        (("partition", "elect", "--all", "orders-0"), "or say --all"),
        (("partition", "elect", "orders-0", "orders-0"), "orders-0 is named twice"),
        (
            ("topic", "alter", "orders", "--partitions", "2", "--replica-assignment", "1;2"),
            "is not",
        ),
    ],
)
def test_what_contradicts_itself_or_lacks_something_is_a_matter_of_usage(
    zkctl: Zkctl, arguments: tuple[str, ...], sentence: str
) -> None:
    result = zkctl(*arguments, *NOWHERE)

    assert (result.exit_code, result.stdout) == (2, ""), result.stderr
    assert sentence in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("partition", "elect", "orders-0", "--unclean"),
        ("partition", "elect", "--all"),
        ("config", "set", "broker", "--default", "--config", "log.retention.ms=1"),
        ("config", "unset", "topic", "orders", "--key", "retention.ms"),
        ("quota", "set", "--user", "alice", "producer_byte_rate=1"),
        ("user", "delete", "alice"),
        ("reassign", "start", "orders-0:1,2"),
        ("reassign", "cancel", "orders-0"),
        ("reassign", "cancel", "--all"),
        ("broker", "drain", "1"),
        ("broker", "drain", "1", "--leadership-only"),
        ("log-dirs", "move", "1", "orders-0", "--to", "/a"),
        ("topic", "delete", "orders"),
    ],
)
def test_off_a_terminal_a_change_needs_yes_before_anything_is_looked_up(
    zkctl: Zkctl, arguments: tuple[str, ...]
) -> None:
    result = zkctl(*arguments, *NOWHERE)

    assert result.exit_code == 5
    assert result.stderr.endswith("Not a terminal, so no one can be asked: say --yes\n")
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("reassign", "plan", "--balance"),
        ("reassign", "start", "orders-0:1", "--yes"),
        ("reassign", "status"),
        ("reassign", "verify", "orders-0:1"),
        ("reassign", "cancel", "orders-0", "--yes"),
        ("broker", "drain", "1", "--yes"),
        ("broker", "drain", "1", "--leadership-only", "--yes"),
        ("log-dirs", "sizes"),
        ("log-dirs", "moves"),
        ("log-dirs", "strays"),
        ("log-dirs", "move", "1", "orders-0", "--to", "/a", "--yes"),
        ("partition", "elect", "--all", "--unclean", "--yes"),
        ("topic", "alter", "orders", "--partitions", "2", "--yes"),
        ("config", "get", "topic", "orders"),
        ("config", "set", "broker", "--default", "--append", "log.cleanup.policy=compact", "--yes"),
        ("quota", "list"),
        ("user", "list"),
    ],
)
def test_without_a_broker_there_is_no_answer(zkctl: Zkctl, arguments: tuple[str, ...]) -> None:
    result = zkctl(*arguments, *NOWHERE)

    assert (result.exit_code, result.stdout) == (3, "")
    assert "127.0.0.1:1" in result.stderr


def test_a_long_plan_is_cut_and_says_where_all_of_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    reassign_options = import_module("zkcontroller_cli.moving.reassign_options")
    lines = [f"  orders-{number}: 1 -> 2" for number in range(12)]

    reassign_options.show(lines)
    reassign_options.show(lines, reassign_options.IN_ROWS)
    shown = capsys.readouterr().err.splitlines()

    assert shown[10] == "and 2 more; --dry-run shows all"
    assert shown[21] == "and 2 more; the rows on stdout are all"


def test_moves_are_written_as_they_are_read_and_over_no_other_file(tmp_path: Path) -> None:
    file = tmp_path / "moves.json"
    moved = [
        moves.Move("orders", 1, (2, 3), ("any", "/b")),
        moves.Move("my-topic", 0, (1,)),
    ]

    moves.write_moves(file, moved)

    assert moves.read_moves(file) == moved
    with pytest.raises(Exception, match=r"cannot write .*: File exists"):
        moves.write_moves(file, [])
    assert moves.read_moves(file) == moved
