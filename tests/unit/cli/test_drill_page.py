"""docs/drill.md: its commands are ones that zkctl takes, and its rules ones that doctor has."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

import pytest

from tests.support.drill_page import PAGE, Command, Section, drill_sections
from tests.unit.cli.command_lines import Parsed, parsed, words_of

__all__ = ["parsed"]  # a fixture

SECTIONS: Final = drill_sections()
COMMANDS: Final = [
    (section.title, command)
    for section in SECTIONS.values()
    for step in section.steps.values()
    for command in step
]
TROUBLES: Final = [section for section in SECTIONS.values() if "Cause" in section.steps]


@pytest.mark.usefixtures("parsed")
def test_every_command_of_the_page_is_one_that_zkctl_takes() -> None:
    root: Any = import_module("zkcontroller_cli.main").zkctl
    options: Any = import_module("zkcontroller_cli.console.options")
    lines = [(title, line) for title, command in COMMANDS for line in command.zkctl_lines]

    assert len(lines) > 50
    for title, line in lines:
        _, *words = words_of(line)
        with pytest.raises(Parsed) as found:
            root.main(words, "zkctl", standalone_mode=False, obj=options.Settings())
        assert str(found.value) in line, (title, line)


def test_every_zkctl_of_the_page_is_parsed() -> None:
    """Behind a prompt, however it is nested; what is only talked about does not count."""
    blocks = [line for line in PAGE.read_text().splitlines() if line.startswith("$ ")]

    assert [command.line for _, command in COMMANDS] == [line[2:] for line in blocks]
    written = sum(line.count("zkctl ") for line in blocks)
    assert written == sum(len(command.zkctl_lines) for _, command in COMMANDS)


@pytest.mark.parametrize("section", TROUBLES, ids=lambda section: section.title)
def test_every_trouble_has_its_steps_in_order_and_rules_that_doctor_has(section: Section) -> None:
    rules: Any = import_module("zkcontroller_cli.diagnosis.rules")

    assert list(section.steps) == ["Begin", "Cause", "Find", "Mend", "Prove"]
    assert all(section.steps[step] for step in ("Cause", "Find", "Mend", "Prove"))
    assert set(section.rules) <= set(rules.RULE_OF)
    assert section.rules or section.title == "A hanging transaction"


def test_a_command_is_read_with_its_exit_code_and_what_is_nested_in_it() -> None:
    plain = Command("kill -STOP $(zkctl cluster status -o name)", 0)
    nested = Command('zkctl topic list $(zkctl broker list -o template="{a.$((V - 1)).b}")', 0)

    assert plain.zkctl_lines == ["zkctl cluster status -o name"]
    assert nested.zkctl_lines == ['zkctl broker list -o template="{a.1.b}"', "zkctl topic list 1"]
    codes = {command.exit_code for _, command in COMMANDS}
    assert codes == {0, 1, 4, 5}
