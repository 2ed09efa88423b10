"""Every rule of ``zkctl doctor`` has its section in docs/doctor.md, and its commands exist."""

from __future__ import annotations

import re
import shlex
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import click
import pytest

from tests.support.doctor_causes import CAUSES

rules: Any = import_module("zkcontroller_cli.diagnosis.rules")
zkctl: click.Group = import_module("zkcontroller_cli.main").zkctl
page_of: Any = import_module("zkcontroller_cli.diagnosis.findings").page_of

ROOT: Final = Path(__file__).parents[3]
PAGE: Final = (ROOT / "docs" / "doctor.md").read_text()
SECTIONS: Final = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", PAGE, re.DOTALL | re.MULTILINE))
by_id: Final = pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.id)


def resolved(words: list[str]) -> tuple[click.Command, list[str]]:
    """The verb that a command line names, and what is left of the line."""
    command: click.Command = zkctl
    context = click.Context(command)
    while isinstance(command, click.Group) and words:
        found = command.get_command(context, words[0])
        assert found is not None, f"zkctl has no {words[0]} in {command.name}"
        command, words = found, words[1:]
        context = click.Context(command, parent=context)
    return command, words


def test_the_page_has_one_section_for_each_rule_and_no_other() -> None:
    headings = re.findall(r"^### (.*)$", PAGE, re.MULTILINE)

    assert sorted(headings) == sorted(rule.id for rule in rules.RULES)


@by_id
def test_the_section_says_all_that_an_operator_needs(rule: Any) -> None:
    section = SECTIONS[rule.id]

    assert f"**{rule.title}** ({rule.severity})." in section
    assert re.findall(r"^- ([\w ]+):", section, re.MULTILINE) == [
        *("Means", "Comes about", "Evidence", "Next", "Not")
    ]
    unfolded = " ".join(section.split())
    assert f"- Next: {rule.next_step}:" in unfolded
    assert [command for command in rule.commands if f"`{command}`" not in section] == []


@by_id
def test_a_finding_links_to_its_section(rule: Any) -> None:
    path, _, anchor = page_of(rule.id).partition("#")

    assert ROOT / path == ROOT / "docs" / "doctor.md"
    assert f"\n### {anchor.upper()}\n" in PAGE


@by_id
def test_every_command_of_a_rule_is_one_that_zkctl_takes(rule: Any, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.touch()
    values = {"topic": "orders", "partition": 0, "path": "/a", "broker": 1, "file": file}
    values |= {"reordered": "1,3,2"}

    _, *beside_kraft = rules.STEPS_BESIDE_KRAFT.get(rule.id, ("",))
    for template in (*rule.commands, *beside_kraft):
        program, *words = shlex.split(template.format(**values))
        command, arguments = resolved(words)
        assert program == "zkctl"
        assert not isinstance(command, click.Group), template
        # Raises a UsageError for an option or an argument that the verb does not have.
        parsed = command.make_context(command.name, list(arguments), obj=None)
        assert parsed.command is command


@by_id
def test_every_verb_in_the_words_of_a_rule_exists(rule: Any) -> None:
    text = f"{rule.next_step}. {SECTIONS[rule.id]}"

    for line in re.findall(r"zkctl ([a-z-]+ [a-z-]+)", text):
        words = line.split()
        if zkctl.get_command(click.Context(zkctl), words[0]) is not None:
            command, _ = resolved(words)
            assert command.name in words


def test_a_shared_rule_has_the_severity_of_the_history_and_its_title_or_tense() -> None:
    history = import_module("kafka_history.analyses.rules").RULE_BY_ID
    shared = [rule for rule in rules.RULES if rule.id in history]

    assert {rule.id for rule in shared} == {
        *("C02", "C03", "P01", "P03", "P07", "R01", "D01", "S01", "L02")
    }
    assert [rule.id for rule in shared if rule.severity is not history[rule.id].severity] == []
    assert {rule.id for rule in shared if rule.title != history[rule.id].title} == {
        *("P01", "R01", "D01", "L02")
    }


def test_the_table_of_causes_has_what_tests_cause_and_every_rule_is_among_them() -> None:
    lines = re.findall(r"^\| ([A-Z][0-9]{2}.*) \|$", PAGE, re.MULTILINE)
    rows = [tuple(line.split(" | ")) for line in lines]
    caused = [(", ".join(sorted(each.expected)), each.what, "yes", "yes", "yes") for each in CAUSES]

    assert rows[: len(caused)] == caused
    alone = [(row[0], *row[2:]) for row in rows[len(caused) :]]
    assert alone == [
        ("M02", "yes", "yes", "no"),
        *((rule, "yes", "not tried", "not tried") for rule in ("B03", "Z02", "Z03")),
    ]
    named = {rule for row in rows for rule in row[0].split(", ")}
    assert named == {rule.id for rule in rules.RULES}
