"""The help of every verb and group: its examples run, and nothing in it is cut off."""

from __future__ import annotations

import contextlib
import re
from importlib import import_module
from typing import Any

import click
import pytest

from tests.unit.cli.command_lines import Parsed, options, parsed, words_of
from tests.unit.cli.commands import all_commands

examples = import_module("zkcontroller_cli.console.examples")

__all__ = ["parsed"]  # a fixture

VERBS = [
    (name, command) for name, command in all_commands() if not isinstance(command, click.Group)
]


def help_of(name: str, command: click.Command, width: int = 80) -> str:
    """The help as ``zkctl … --help`` shows it in a terminal of that width."""
    *parents, last = name.split()
    context: click.Context | None = None
    for part in parents:
        context = click.Context(click.Command(part), parent=context, info_name=part)
    return command.get_help(
        click.Context(command, parent=context, info_name=last, terminal_width=width)
    )


def example_lines(command: Any) -> list[str]:
    return [line.replace("\\\n", " ") for line in command.examples]


@pytest.mark.usefixtures("parsed")
@pytest.mark.parametrize(("name", "command"), VERBS, ids=lambda value: str(value))
def test_a_verb_has_examples_and_each_is_a_command_line_that_it_takes(
    name: str, command: click.Command
) -> None:
    root: click.Group = import_module("zkcontroller_cli.main").zkctl
    lines = example_lines(command)

    assert lines
    for line in lines:
        program, *words = words_of(line)
        assert program == "zkctl"
        with pytest.raises(Parsed, match=f"^{name}$"):
            root.main(words, "zkctl", standalone_mode=False, obj=options.Settings())


@pytest.mark.parametrize(("name", "command"), VERBS, ids=lambda value: str(value))
def test_the_help_of_every_verb_ends_in_its_examples(name: str, command: click.Command) -> None:
    shown = help_of(name, command)
    section = shown.partition("\nExamples:\n")[2].partition("\n\n")[0]

    assert section.lstrip().startswith("zkctl ")
    assert shown.count("Examples:") == 1
    assert shown.endswith(options.GLOBAL_OPTIONS)


@pytest.mark.parametrize(("name", "command"), all_commands(), ids=lambda value: str(value))
@pytest.mark.parametrize("width", [80, 100])
def test_no_line_of_a_help_is_cut_off_or_too_long(
    name: str, command: click.Command, width: int
) -> None:
    lines = help_of(name, command, width).splitlines()
    # A declaration such as "--moves TOPIC-PARTITION:BROKER,…" may be long, and end in its metavar.
    prose = [line for line in lines if not line.lstrip().startswith(("Usage: ", "-"))]

    assert not [line for line in prose if re.search(r"(…|\.\.\.)$", line)]
    assert not [line for line in prose if len(line) > width and "zkctl " not in line]


def test_an_example_fits_a_terminal() -> None:
    long = [
        line
        for name, command in VERBS
        for each in command.examples  # type: ignore[attr-defined]
        for line in each.splitlines()
        if len(line) > 78
    ]

    assert long == []


def test_examples_are_the_last_section_of_a_docstring() -> None:
    text, lines = examples.split_examples(
        """What it does.

        And more.

        Examples:
          zkctl acl add a  # a comment
          zkctl acl add b \\
            --more c
        """
    )

    assert text == "What it does.\n\nAnd more."
    assert lines == ["zkctl acl add a  # a comment", "zkctl acl add b \\\n    --more c"]
    assert examples.split_examples(None) == (None, [])
    assert examples.split_examples("Nothing.") == ("Nothing.", [])


def test_a_plain_command_that_is_added_to_a_group_is_a_verb_of_the_house() -> None:
    group = options.VerbGroup("acl")
    group.add_command(click.Command("add", help="Adds.\n\nExample:\n  zkctl acl add"))
    group.add_command(click.Group("nested"))

    shown = group.commands["add"].get_help(click.Context(group.commands["add"], info_name="add"))

    assert "Examples:\n  zkctl acl add\n" in shown
    assert all(
        "--zookeeper" in {option for each in command.params for option in each.opts}
        for command in group.commands.values()
    )
    with contextlib.suppress(click.UsageError):
        group.commands["add"].make_context("add", ["--nonsense"])
        raise AssertionError("an option that is none was taken")
