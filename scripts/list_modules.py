"""Lists every module with the first line of its docstring in docs/modules.md.

    .venv/bin/python scripts/list_modules.py            writes the list anew
    .venv/bin/python scripts/list_modules.py --check    only says whether it is stale

``tests/test_house.py`` fails when the list is stale, so a module cannot be added unlisted.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "docs" / "modules.md"
PRODUCTS = ("kafka_common", "zkcontroller", "replica_manager", "kraft", "kafka_history", "cli")
"""The packages with a page of their own, and tests that run alone."""
PACKAGES = (
    *PRODUCTS,
    "zkcontroller_lab",
    "zkcontroller_simulation",
    "zkcontroller_testing",
)

INTRODUCTION = """# Modules

Every module, by package, with the first line of its docstring.
[`scripts/list_modules.py`](../scripts/list_modules.py) writes this page;
[ARCHITECTURE.md](../ARCHITECTURE.md) says how the packages work together.
"""


def summary(path: Path) -> str:
    """The first line of a module's docstring, in Markdown, without its full stop.

    Raises ValueError if the module has no docstring.
    """
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    if not docstring:
        raise ValueError(f"{path.relative_to(ROOT)} has no docstring")
    first = " ".join(docstring.split("\n\n")[0].split()).removesuffix(".")
    first = re.sub(r":(?:mod|class|func):`~?\.?([^`]+)`", r"`\1`", first)
    return first.replace("``", "`").replace("|", "\\|")


def section(folder: Path) -> str:
    """One package: its own summary, then a table of its modules."""
    rows = [
        f"| [`{(name := path.relative_to(ROOT))}`](../{name}) | {summary(path)} |"
        for path in sorted(folder.glob("*.py"))
        if path.name != "__init__.py"
    ]
    head = f"\n## `{folder.relative_to(ROOT)}`\n\n{summary(folder / '__init__.py')}.\n"
    return "\n".join([head, "| module | what it is for |", "|---|---|", *rows, ""])


def listed() -> str:
    """The whole page as it should be now."""
    folders = [
        path.parent for name in PACKAGES for path in sorted((ROOT / name).rglob("__init__.py"))
    ]
    return INTRODUCTION + "".join(section(folder) for folder in folders)


def main(arguments: list[str]) -> int:
    """Write the page, or only check it; returns the exit code."""
    fresh = listed()
    if "--check" in arguments:
        is_fresh = DOCUMENT.exists() and DOCUMENT.read_text(encoding="utf-8") == fresh
        print("up to date" if is_fresh else "stale: run scripts/list_modules.py")
        return int(not is_fresh)
    DOCUMENT.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
