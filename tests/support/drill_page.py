"""docs/drill.md as data: its sections, their steps, and the commands of each step."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

PAGE: Final = Path(__file__).parents[2] / "docs" / "drill.md"
_EXIT_CODE: Final = re.compile(r"#.*\bexit code (\d+)")
_EXPANSION: Final = re.compile(r"\$\(\([^()]*\)\)|\$\w+")
_SUBSTITUTION: Final = re.compile(r"\$\(([^()]*)\)")


class Command(NamedTuple):
    """A line behind a prompt, as a shell reads it, and how it must end."""

    line: str
    exit_code: int

    @property
    def zkctl_lines(self) -> list[str]:
        """Every command line of zkctl in it, with 1 for what a variable holds."""
        plain = _EXPANSION.sub("1", self.line)
        inner = _SUBSTITUTION.findall(plain)
        outer = _SUBSTITUTION.sub("1", plain)
        return [each for each in [*inner, outer] if each.startswith("zkctl ")]


class Section(NamedTuple):
    """What stands below one heading: rules by which doctor finds the trouble, and the steps."""

    title: str
    rules: tuple[str, ...]
    steps: Mapping[str, list[Command]]
    """By ``Cause``, ``Find``, ``Mend`` and ``Prove``; what stands before them is ``Begin``."""
    script: str
    """The Python of the section, if any."""


def drill_sections() -> dict[str, Section]:
    """The sections of the page by their titles, in its order."""
    _, *texts = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {section.title: section for section in map(_section, texts)}


def _section(text: str) -> Section:
    title, _, body = text.partition("\n")
    before, *parts = re.split(r"^\*\*(?=Cause|Find|Mend|Prove)", body, flags=re.MULTILINE)
    steps = {"Begin": _commands(before)}
    rules: list[str] = []
    for part in parts:
        name = re.split(r"[.*]", part)[0]
        steps[name] = _commands(part)
        if name == "Find":
            rules = re.findall(r"`([A-Z]\d\d)`", part.partition(".")[0])
    scripts = re.findall(r"^```python\n(.*?)^```", body, re.DOTALL | re.MULTILINE)
    return Section(title, tuple(rules), steps, "".join(scripts))


def _commands(text: str) -> list[Command]:
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    return [
        Command(line, int(found[1]) if (found := _EXIT_CODE.search(line)) else 0) for line in lines
    ]
