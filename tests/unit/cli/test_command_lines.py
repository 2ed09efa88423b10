"""Command lines that texts of ``zkctl`` advise: what is copied into a shell does what was meant."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

from tests.unit.cli.command_lines import Parsed, parsed, words_of
from tests.unit.cli.commands import all_commands

__all__ = ["parsed"]

command_line = import_module("zkcontroller_cli.console.command_lines").command_line
zkctl = import_module("zkcontroller_cli.main").zkctl

_ROOT = Path(__file__).parents[3]
_VERBS = {name.removeprefix("zkctl ") for name, _ in all_commands()}
_ADVISED = re.compile(r"zkctl ([a-z][a-z -]*?)((?: --[a-z-]+(?:=\S*| [A-Za-z]+)?)*)[ =]?$")


@pytest.mark.parametrize(
    ("verb", "arguments", "options", "line"),
    [
        ("topic describe", ["orders"], [], "zkctl topic describe orders"),
        ("broker drain", [3], ["--throttle", 10], "zkctl broker drain 3 --throttle 10"),
        ("group describe", ["a b;c"], [], "zkctl group describe 'a b;c'"),
        (
            "reassign start",
            ["-a-0:1", "b-0:1"],
            ["--x"],
            "zkctl reassign start --x -- -a-0:1 b-0:1",
        ),
        ("wait", [], ["--for=deleted=-x"], "zkctl wait --for=deleted=-x"),
    ],
)
def test_words_are_quoted_and_names_with_a_leading_dash_stand_behind_dashes(
    verb: str, arguments: list[object], options: list[object], line: str
) -> None:
    assert command_line(verb, *arguments, options=options) == line


@pytest.mark.parametrize("name", ["orders", "-orders", "two words", "it's", "$HOME", "-", "#1"])
@pytest.mark.parametrize(
    ("verb", "options"),
    [("group describe", ()), ("txn describe", ()), ("wait", ("--for=isr=full", "--topic"))],
)
@pytest.mark.usefixtures("parsed")
def test_any_name_reaches_its_verb_whole(name: str, verb: str, options: tuple[str, ...]) -> None:
    line = command_line(verb, options=(*options, name)) if options else command_line(verb, name)
    words = words_of(line)
    assert words[-1] == name
    with pytest.raises(Parsed, match=verb):
        zkctl.main(words[1:], standalone_mode=False)


def test_every_advised_command_line_with_a_name_is_quoted() -> None:
    unquoted = [
        f"{path.relative_to(_ROOT)}:{value.lineno}: {text[advised.start() :]}"
        for path in sorted((_ROOT / "cli").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.JoinedStr)
        for text, value in _before_values(node)
        if (advised := _ADVISED.search(text)) and advised[1].strip() in _VERBS
    ]
    assert not unquoted, "command_line() quotes what stands here"


def _before_values(text: ast.JoinedStr) -> list[tuple[str, ast.FormattedValue]]:
    """The values in a text, each with all that stands before it; an earlier value is ``VALUE``."""
    before, found = "", []
    for part in text.values:
        if isinstance(part, ast.FormattedValue):
            found.append((before, part))
            before += "VALUE"
        else:
            assert isinstance(part, ast.Constant)
            before += str(part.value)
    return found
