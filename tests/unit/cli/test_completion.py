"""What shells are offered: read off the click tree and the cluster, within a bound, in silence."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from threading import Event
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.cli_world import Zkctl, furnish, installed_zkctl
from tests.unit.cli.commands import all_commands

values = import_module("zkcontroller_cli.console.completion_values")
reader = import_module("zkcontroller_cli.console.completion_reader")
shells = import_module("zkcontroller_cli.console.completion_shells")
options = import_module("zkcontroller_cli.console.options")


@pytest.fixture
def zkctl(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Iterator[Zkctl]:
    for zkctl in installed_zkctl(monkeypatch, capsys):
        monkeypatch.setenv("ZKCTL_CONFIG", str(tmp_path / "contexts.json"))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        monkeypatch.chdir(tmp_path)
        furnish(zkctl)
        yield zkctl


Complete = Callable[..., list[str]]


@pytest.fixture
def complete(zkctl: Zkctl, monkeypatch: pytest.MonkeyPatch) -> Complete:
    """What a shell is offered for a line; the last word is the one being typed."""

    def complete(line: str, shell: str = "bash") -> list[str]:
        *words, typed = line.split(" ")
        monkeypatch.setenv("_ZKCTL_COMPLETE", f"{shell}_complete")
        monkeypatch.setenv("_ZKCTL_LINE", line)
        monkeypatch.setenv("_ZKCTL_BREAKS", " \t\n:=")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", typed if shell == "fish" else str(len(words)))
        result = zkctl()
        monkeypatch.delenv("_ZKCTL_COMPLETE")
        assert result.exit_code == 0
        assert result.stderr == ""
        return result.stdout.splitlines()

    return complete


def plain(*names: str) -> list[str]:
    return [f"plain,{name}" for name in names]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("zkctl part", ["partition"]),
        ("zkctl topic de", ["delete", "delete-records", "describe"]),
        ("zkctl topic list --tim", ["--timeout"]),
        ("zkctl -z zk:1 topic describe ", ["orders"]),
        ("zkctl topic describe -z zk:1 or", ["orders"]),
        ("zkctl topic describe -z zk:1 orders o", ["orders"]),
        ("zkctl -z zk:1 topic describe x", []),
        ("zkctl -z zk:1 broker describe ", ["1", "2"]),
        ("zkctl -z zk:1 partition list --topic ", ["orders"]),
        ("zkctl -z zk:1 partition list --topic=", ["orders"]),
        ("zkctl -z zk:1 partition elect ", ["orders-0", "orders-1", "orders-2"]),
        ("zkctl -z zk:1 partition elect orders-2", ["orders-2"]),
        ("zkctl -z zk:1 reassign start orders-1", ["orders-1:"]),
        ("zkctl -z zk:1 reassign start orders-1:", ["1", "2"]),
        ("zkctl -z zk:1 reassign start orders-1:2,", ["2,1"]),
        ("zkctl -z zk:1 reassign plan --drain ", ["1", "2"]),
        ("zkctl -z zk:1 config get topic ", ["orders"]),
        ("zkctl -z zk:1 config get broker ", ["1", "2"]),
        ("zkctl config get topic orders --key retention.m", ["retention.ms"]),
        ("zkctl config set topic orders --config retention.m", ["retention.ms="]),
        ("zkctl config set topic orders --config=retention.m", ["retention.ms="]),
        ("zkctl config set topic orders --config retention.ms=", []),
        ("zkctl topic create orders --config retention.m", ["retention.ms="]),
        ("zkctl cluster start --override num.part", ["num.partitions="]),
        ("zkctl cluster start --brokers ", []),
        ("zkctl topic list -o j", ["json", "jsonl"]),
        ("zkctl completion ", ["bash", "fish", "zsh"]),
        ("zkctl topic 'describe", ["describe"]),
    ],
)
def test_a_line_is_completed(complete: Complete, line: str, offered: list[str]) -> None:
    found = complete(line)

    assert found == plain(*offered) or sorted(found) == plain(*offered)


def test_contexts_are_offered_where_a_context_is_named(complete: Complete, zkctl: Zkctl) -> None:
    zkctl("context", "set", "production", "-z", "zk:1")
    zkctl("context", "set", "staging", "-z", "zk:2")

    assert complete("zkctl --context ") == plain("production", "staging")
    assert complete("zkctl topic list --context=st") == plain("staging")
    assert complete("zkctl context use pr") == plain("production")
    assert complete("zkctl context rename production ") == []
    assert complete("zkctl --context production topic describe ") == plain("orders")
    assert zkctl.connected_to == ["zk:1"]


def test_every_shell_takes_its_own_form(complete: Complete) -> None:
    line = "zkctl -z zk:1 partition list --topic=o"

    assert complete(line, "bash") == ["plain,orders"]
    assert complete(line, "zsh") == ["plain", "orders", "_"]
    assert complete(line, "fish") == ["plain,--topic=orders"]
    assert complete("zkctl storage format -c ", "fish") == ["file,"]


def test_a_list_of_verbs_says_the_whole_sentence(complete: Complete) -> None:
    said = complete("zkctl controller wat", "zsh")

    assert said[:2] == ["plain", "watch"]
    assert said[2].endswith("until Ctrl-C.")


def test_what_is_known_of_a_parameter_is_read_off_any_verb() -> None:
    def source(*arguments: Any, **keywords: Any) -> Any:
        return values.source_of(click.Argument(*arguments, **keywords))

    number = click.IntRange(min=0)

    assert source(["topics"], nargs=-1, metavar="[TOPIC]…") is values._topics
    assert source(["topic"]) is values._topics
    assert source(["where"], metavar="TOPIC-PARTITION…") is values._partitions
    assert source(["broker_id"], type=number, metavar="ID") is values._brokers
    assert source(["transactional_id"], metavar="ID") is None
    assert source(["brokers"], type=number, metavar="N") is None
    assert source(["group"]) is values._groups
    assert source(["path"]) is None
    assert source(["user"]) is None


@pytest.mark.parametrize(("name", "command"), all_commands(), ids=lambda value: str(value))
def test_every_verb_can_be_completed_and_takes_what_it_took(
    name: str, command: click.Command
) -> None:
    if isinstance(command, click.Group):
        return
    types = [parameter.type for parameter in command.params]
    values.offer_values(command)

    try:
        for before, parameter in zip(types, command.params, strict=True):
            offered: Any = parameter.type
            assert offered is before or offered.inner is before, name
    finally:
        for before, parameter in zip(types, command.params, strict=True):
            parameter.type = before


HOSTILE = ("$(touch pwned)", "`id`", "a b", "a;b", "a\nplain,b", "a'b", 'a"b', "~x", "a*", "é", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_name_that_a_shell_could_run_is_not_offered(
    complete: Complete, monkeypatch: pytest.MonkeyPatch, shell: str
) -> None:
    names = dict.fromkeys((*HOSTILE, "billing"), 0)
    monkeypatch.setattr(reader, "reader_of", lambda *_: lambda: names)

    found = "\n".join(complete("zkctl -b b:1 group describe ", shell))

    assert found.replace("\n_", "") in ("plain,billing", "plain\nbilling")


@given(st.text())
def test_no_offered_value_has_a_character_that_a_shell_reads(text: str) -> None:
    assert all(
        character.isascii() and (character.isalnum() or character in "_.@%+,:=/-")
        for item in values.items([text], "")
        for character in item.value
    )


@pytest.mark.parametrize(
    "prepare",
    [
        "{",
        '{"version": 1, "contexts": {}, "current": "gone"}',
    ],
)
def test_a_broken_file_of_contexts_shows_nothing(
    complete: Complete, tmp_path: Path, prepare: str
) -> None:
    (tmp_path / "contexts.json").write_text(prepare)

    assert complete("zkctl topic describe ") == []
    assert complete("zkctl --context ") == []
    assert complete("zkctl topic desc") == plain("describe")


def test_no_cluster_is_asked_where_none_is_named(complete: Complete, zkctl: Zkctl) -> None:
    assert complete("zkctl topic describe ") == []
    assert zkctl.connected_to == []


def test_an_error_of_the_cluster_shows_nothing(
    complete: Complete, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        print("loud", file=sys.stderr)
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr(import_module("zkcontroller_cli.znodes.session"), "ZooKeeperSession", fail)

    assert complete("zkctl -z zk:1 topic describe ") == []


def test_the_reader_gets_the_bound_as_its_deadline(
    complete: Complete, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[float] = []

    def note(given: Any, _kind: str) -> Callable[[], dict[str, int]]:
        seen.append(given.deadline_s)
        return dict

    monkeypatch.setattr(reader, "reader_of", note)
    complete("zkctl -z zk:1 --timeout 60 topic describe ")

    assert seen == [reader.BOUND_S] == [0.3]


def test_what_takes_longer_than_the_bound_is_left_alone() -> None:
    never = Event()
    names: dict[str, dict[str, int]] = {}

    def wait() -> dict[str, int]:
        never.wait()
        return {"late": 0}

    assert reader.within(0.01, wait) is None
    assert reader.within(60, lambda: {"a": 0}) == {"a": 0}
    assert reader.within(60, lambda: names["missing"]) is None
    never.set()


def test_a_server_that_never_answers_does_not_keep_the_process() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        for address in (("-b", f"127.0.0.1:{port}"), ("-z", f"127.0.0.1:{port}")):
            line = f"zkctl {' '.join(address)} topic describe "
            done = subprocess.run(
                [sys.executable, "-m", "zkcontroller_cli"],
                env={**os.environ, "_ZKCTL_COMPLETE": "bash_complete", "_ZKCTL_LINE": line},
                capture_output=True,
                timeout=60,
                check=False,
            )

            assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def cache(tmp_path: Path) -> Any:
    return reader.CompletionCache(tmp_path / "completion", "key", Clock())


def test_the_cache_answers_until_it_is_too_old(cache: Any) -> None:
    cache.write("topics", {"orders": 3})
    fresh = cache.read("topics")
    cache._clock.now += reader.STALE_S
    old = cache.read("topics")
    cache._clock.now += 1
    too_old = cache.read("topics")
    cache._clock.now -= 10_000
    from_the_future = cache.read("topics")

    assert fresh == ({"orders": 3}, 0)
    assert old == ({"orders": 3}, reader.STALE_S)
    assert too_old[0] is None
    assert from_the_future[0] is None
    assert cache.read("groups")[0] is None


def test_the_cache_is_for_its_owner_alone(cache: Any) -> None:
    cache.write("topics", {"orders": 3})

    assert stat.S_IMODE(cache.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(cache.path.parent.stat().st_mode) == 0o700


def test_a_cache_that_others_could_have_written_is_not_believed(cache: Any) -> None:
    cache.write("topics", {"orders": 3})
    cache.path.chmod(0o660)
    by_a_group = cache.read("topics")[0]
    cache.path.chmod(0o600)
    elsewhere = cache.path.rename(cache.path.with_suffix(".moved"))
    cache.path.symlink_to(elsewhere)
    by_a_link = cache.read("topics")[0]
    cache.path.unlink()
    os.mkfifo(cache.path, 0o600)
    by_a_pipe = cache.read("topics")[0]

    assert (by_a_group, by_a_link, by_a_pipe) == (None, None, None)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        '{"version": 2, "entries": {}}',
        '{"version": 1, "entries": {"topics": 1}}',
        '{"version": 1, "entries": {"topics": {"at": "x", "names": {}}}}',
        '{"version": 1, "entries": {"topics": {"at": 1000000, "names": {"a": "b"}}}}',
        "[" * 100_000,
    ],
)
def test_a_corrupt_cache_is_no_cache_and_is_replaced(cache: Any, content: str) -> None:
    cache.path.parent.mkdir()
    cache.path.write_text(content)
    cache.path.chmod(0o600)

    assert cache.read("topics")[0] is None
    cache.write("topics", {"orders": 1})
    assert cache.read("topics")[0] == {"orders": 1}


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cache = reader.CompletionCache(tmp_path / "file" / "completion", "key")

    cache.write("topics", {"orders": 1})

    assert cache.read("topics")[0] is None


def test_the_number_of_caches_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_MAX_FILES", 3)
    for number in range(6):
        reader.CompletionCache(tmp_path, f"key-{number}").write("topics", {})
        os.utime(tmp_path / f"key-{number}.json", (number, number))

    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("key-3.json", "key-4.json", "key-5.json"),
    ]


def test_a_fresh_cache_spares_the_cluster_and_an_old_one_stands_in_for_it(
    complete: Complete, zkctl: Zkctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = complete("zkctl -z zk:1 topic describe ")
    again = complete("zkctl -z zk:1 topic describe ")
    asked_while_fresh = list(zkctl.connected_to)
    [file] = (tmp_path / "cache" / "zkctl" / "completion").iterdir()
    content = json.loads(file.read_text())
    content["entries"]["topics"]["at"] -= reader.FRESH_S + 1
    file.write_text(json.dumps(content))
    zkctl.create("/brokers/topics/invoices", b'{"version":2,"partitions":{"0":[1]}}')
    renewed = complete("zkctl -z zk:1 topic describe ")
    content["entries"]["topics"]["names"] = {"from-the-cache": 1}
    file.write_text(json.dumps(content))
    monkeypatch.setattr(reader, "within", lambda *_: None)

    assert first == again == plain("orders")
    assert asked_while_fresh == ["zk:1"]
    assert renewed == plain("invoices", "orders")
    assert complete("zkctl -z zk:1 topic describe ") == plain("from-the-cache")


def test_each_cluster_has_a_cache_of_its_own(complete: Complete, zkctl: Zkctl) -> None:
    complete("zkctl -z zk:1 topic describe ")
    complete("zkctl -z zk:2 topic describe ")

    assert zkctl.connected_to == ["zk:1", "zk:2"]


def test_the_scripts_are_what_shells_can_read() -> None:
    for shell, script in shells.SCRIPTS.items():
        done = subprocess.run(
            [sys.executable, "-m", "zkcontroller_cli", "completion", shell],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == script
        assert "2>/dev/null" in script
    subprocess.run(["bash", "-n"], input=shells.SCRIPTS["bash"], text=True, check=True)


def test_verbs_of_the_top_are_offered_without_importing_their_groups() -> None:
    program = (
        "import os, sys\n"
        "os.environ['_ZKCTL_COMPLETE'] = 'bash_complete'\n"
        "os.environ['_ZKCTL_LINE'] = 'zkctl '\n"
        "from zkcontroller_cli.main import main\n"
        "main([])\n"
        "heavy = 'orjson', 'zkcontroller_cli.topic', 'kio.schema'\n"
        "groups = [n for n in sys.modules if n in heavy]\n"
        "print(groups, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert "plain,topic\n" in done.stdout
    assert done.stderr == "[]\n"
