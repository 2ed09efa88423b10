"""Writes the table of docs/known-bugs.md from the tests: ``python -m scripts.list_known_bugs``."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parent.parent
DOCUMENT: Final = ROOT / "docs" / "known-bugs.md"
FILES: Final = ("tests/kit/test_known_bugs_of_kafka.py", "tests/kit/test_known_bugs_of_clients.py")
_TABLE: Final = re.compile(r"(?<=\n\n)\| bug \|.*?\n\n", re.DOTALL)
_FIRST_LINE: Final = re.compile(r"(KAFKA-\d+|[\w.-]+/[\w.-]+#\d+): (.+)")


class KnownBug(NamedTuple):
    """One test, and what it says of its bug."""

    number: str
    """``KAFKA-13407``, or ``owner/repository#number``."""
    sentence: str
    test: str
    file: str

    @property
    def address(self) -> str:
        """Where the bug was reported."""
        if self.number.startswith("KAFKA-"):
            return f"https://issues.apache.org/jira/browse/{self.number}"
        return "https://github.com/{}/issues/{}".format(*self.number.split("#"))


def known_bugs() -> list[KnownBug]:
    """One for each test; ValueError for a test whose docstring names no bug."""
    found = []
    for file in FILES:
        for node in ast.parse((ROOT / file).read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                first = (ast.get_docstring(node) or "").partition("\n")[0]
                match = _FIRST_LINE.fullmatch(first)
                if match is None:
                    raise ValueError(f"{file}: {node.name} names no bug, but says {first!r}")
                found.append(KnownBug(match[1], match[2], node.name, file))
    return found


def relisted(document: str) -> str:
    """The document with the table as the tests have it."""
    rows = "".join(
        f"| [{bug.number}]({bug.address}) | {bug.sentence} | "
        f"[{bug.test.removeprefix('test_').replace('_', ' ')}](../{bug.file}) |\n"
        for bug in known_bugs()
    )
    table = f"| bug | what went wrong | what holds here |\n|---|---|---|\n{rows}\n"
    return _TABLE.sub(lambda _: table, document, count=1)


if __name__ == "__main__":
    DOCUMENT.write_text(relisted(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
