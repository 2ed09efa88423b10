"""What zkctl says when it cannot go on: in plain words, with the place and the next step."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest
from kio.schema.errors import ErrorCode

from tests.support.cli_world import Zkctl, furnish, installed_zkctl
from tests.support.code_texts import text_of, texts
from tests.support.retired_words import RETIRED_WORDS, ROOT
from tests.support.sources import nodes

errors = import_module("zkcontroller_cli.console.errors")
settings = import_module("zkcontroller_cli.console.shared_settings")

pytestmark = pytest.mark.usefixtures("files_parsed_once")


@pytest.fixture
def zkctl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Zkctl]:
    for zkctl in installed_zkctl(monkeypatch, capsys):
        furnish(zkctl)
        yield zkctl


COMMAND = re.compile(r"zkctl((?: (?:--?)?[a-z][a-z-]*)+)")


def modules() -> list[Path]:
    return sorted((ROOT / "cli").rglob("*.py"))


def error_texts(module: Path) -> list[tuple[int, str]]:
    """The texts of errors: the first argument of each ``Refused(…)``, ``BadUsage(…)`` and so on."""
    kinds = {
        name
        for name in dir(errors)
        if isinstance(getattr(errors, name), type)
        and issubclass(getattr(errors, name), errors.CommandFailed)
    }
    found = []
    for node in nodes(module):
        match node:
            case ast.Call(func=ast.Name(id=name), args=[argument]) if name in kinds:
                text = text_of(argument)
                if text is not None:
                    found.append((node.lineno, text))
            case _:
                continue
    return found


def test_the_texts_of_errors_are_found() -> None:
    found = {text for module in modules() for _, text in error_texts(module)}

    assert len(found) > 100
    assert "the list of brokers is empty: say -b HOST:PORT" in found


def test_no_text_that_a_user_reads_has_a_retired_word() -> None:
    assert [
        (module.name, line, found)
        for module in modules()
        for line, text in texts(module)
        if (found := RETIRED_WORDS.findall(text))
    ] == []


def test_an_error_is_one_sentence_without_a_full_stop() -> None:
    wrong = [
        (module.name, line, text)
        for module in modules()
        for line, text in error_texts(module)
        if text != text.strip() or text.endswith(".") or "\n" in text
    ]

    assert wrong == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("topic", "describe", "nosuch"), "there is no topic nosuch; zkctl topic list shows all"),
        (("partition", "list", "--topic", "nosuch"), "zkctl topic list shows all"),
        (("broker", "describe", "9"), "broker 9 is not registered; zkctl broker list shows all"),
        (("znode", "get", "/a/b"), "there is no znode /a/b; zkctl znode ls /a shows what is there"),
        (("znode", "ls", "/a"), "there is no znode /a; zkctl znode ls / shows what is there"),
        (("controller", "watch", "--count", "9", "--timeout", "0.1"), "; --timeout SECONDS waits"),
        (("config", "get", "broker", "x"), "zkctl broker list shows them"),
        (("partition", "elect", "orders"), "'orders' is not TOPIC-PARTITION, such as orders-0"),
    ],
)
def test_an_error_names_the_next_step(zkctl: Zkctl, arguments: tuple[str, ...], said: str) -> None:
    result = zkctl(*arguments, "-z", "zk:1")

    assert result.exit_code != 0
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_an_address_of_the_environment_that_does_not_answer_is_said_to_be_one(
    zkctl: Zkctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZKCTL_BOOTSTRAP_SERVER", "127.0.0.1:1")

    from_there = zkctl("topic", "offsets", "--timeout", "5")
    from_a_flag = zkctl("topic", "offsets", "-b", "127.0.0.1:2", "--timeout", "5")

    assert from_there.exit_code == from_a_flag.exit_code == 3
    assert from_there.stderr.endswith("; the address is from ZKCTL_BOOTSTRAP_SERVER\n")
    assert "ZKCTL_" not in from_a_flag.stderr


def whole_texts(module: Path) -> list[tuple[int, str]]:
    """The texts of a module, its docstrings too, with ``…`` for what stands in braces."""
    parts = {
        id(part)
        for node in nodes(module)
        if isinstance(node, ast.JoinedStr)
        for part in ast.walk(node)
        if part is not node
    }
    found = []
    for node in nodes(module):
        match node:
            case ast.JoinedStr(values=values):
                pieces = (v.value if isinstance(v, ast.Constant) else "…" for v in values)
                found.append((node.lineno, "".join(map(str, pieces))))
            case ast.Constant(value=str(text)) if id(node) not in parts:
                found.append((node.lineno, text))
            case _:
                pass
    return found


def unknown_in(words: list[str]) -> str | None:
    """The first of the words that is neither a group, a verb nor an option of theirs."""
    command: click.Command = import_module("zkcontroller_cli.main").zkctl
    known = {"-h", "--help", *(option for each in command.params for option in each.opts)}
    root = command
    for word in words:
        if word.startswith("-"):
            own = {option for each in command.params for option in each.opts}
            if word not in known | own and command is not root:
                return word
        elif isinstance(command, click.Group):
            found = command.get_command(click.Context(command), word)
            if found is None:
                # "zkctl knows" is prose; "zkctl partition reassign" was a command.
                return None if command is root else word
            command = found
    return None


def test_a_command_that_is_gone_is_noticed() -> None:
    assert unknown_in(["partition", "reassign", "--cancel"]) == "reassign"
    assert unknown_in(["config", "set", "topic", "--delete"]) == "--delete"
    assert unknown_in(["config", "set", "broker", "--config", "--yes", "--timeout"]) is None


def test_every_command_that_a_text_names_exists() -> None:
    gone = [
        (module.name, line, command)
        for module in modules()
        for line, text in whole_texts(module)
        for command in COMMAND.findall(text)
        if unknown_in(command.split()) is not None
    ]

    assert gone == []


def test_a_used_up_mutation_quota_is_named_with_the_next_step() -> None:
    requests = import_module("zkcontroller_cli.wire.requests")

    with pytest.raises(errors.Refused) as refused:
        requests.raise_for_code("topic orders", ErrorCode.throttling_quota_exceeded)

    assert "controller_mutation_rate is used up for now: try again" in str(refused.value)
    assert "(THROTTLING_QUOTA_EXCEEDED)" in str(refused.value)


def test_a_verb_goes_on_when_its_terminal_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    full = open("/dev/full", "w")  # noqa: SIM115 - to close it fails
    monkeypatch.setattr("sys.stderr", full)

    settings.say("the cluster runs")

    with pytest.raises(OSError, match="No space left"):
        full.close()
