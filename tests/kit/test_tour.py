"""docs/tour.md as a reader follows it: every command runs, and shows what stands below it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.kit.typed_page import Operator
from tests.support.drill_page import Command

pytestmark = pytest.mark.kit

PAGE: Final = Path(__file__).parents[2] / "docs" / "tour.md"


class Typed(NamedTuple):
    """A line behind a prompt, its exit code, and the first line that the page shows below it."""

    line: str
    exit_code: int
    shown: str | None


def typed() -> Iterator[Typed]:
    blocks = re.findall(r"^```console\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.S | re.M)
    for block in blocks:
        for command in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, _, shown = command.partition("\n")
            code = re.search(r"# exit code (\d+)", line)
            yield Typed(line, int(code[1]) if code else 0, shown.partition("\n")[0] or None)


def test_the_tour_goes_as_the_page_says(tmp_path: Path) -> None:
    reader = Operator(tmp_path)
    seen = 0
    try:
        for each in typed():
            done = reader.run(Command(each.line, each.exit_code))
            if each.shown is not None:
                assert done.stdout.split("\n")[0].split() == each.shown.split(), each.line
                seen += 1
    finally:
        reader.run("zkctl cluster stop --force")

    assert seen >= 3
