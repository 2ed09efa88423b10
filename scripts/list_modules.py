"""Lists what the docstrings say: every module, and where each class of Kafka is followed.

    .venv/bin/python scripts/list_modules.py            writes docs/modules.md and
                                                        docs/kafka-classes.md anew
    .venv/bin/python scripts/list_modules.py --check    only says whether they are stale

``tests/test_house.py`` fails when one is stale, so a module cannot be added unlisted.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
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

CLASSES_INTRODUCTION = """# Kafka's classes

Every class that a docstring names as its source in Kafka, with the modules that follow a part of it
or all; those of its row in the glossary stand first.
[`scripts/list_modules.py`](../scripts/list_modules.py) writes this page; the
[glossary](glossary.md) says what the main ones are called here, and what is not here.

| Kafka | modules |
|---|---|
"""
_SOURCE = re.compile(r"^Source: Kafka(.*?)(?:\n\n|\Z)", re.MULTILINE | re.DOTALL)
_NESTING = (ast.stmt, ast.excepthandler, ast.match_case)
"""Nodes in which a class or a function can stand."""
_CLASS = re.compile(r"``([A-Z]\w*[a-z]\w*)[^`]*``")


def summary(path: Path) -> str:
    """The first line of a module's docstring, in Markdown, without its full stop.

    Raises ValueError if the module has no docstring.
    """
    docstring = _docstring(path)
    if not docstring:
        raise ValueError(f"{path.relative_to(ROOT)} has no docstring")
    first = " ".join(docstring.split("\n\n")[0].split()).removesuffix(".")
    first = re.sub(r":(?:mod|class|func):`~?\.?([^`]+)`", r"`\1`", first)
    return first.replace("``", "`").replace("|", "\\|")


def _docstring(path: Path) -> str | None:
    """That of a module, without a look at the rest of the file."""
    with path.open(encoding="utf-8") as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type == tokenize.STRING:
                return inspect.cleandoc(ast.literal_eval(token.string))
            if token.type not in (tokenize.COMMENT, tokenize.NL):
                break
    return None


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


def followed(path: Path) -> Iterator[str]:
    """The classes of Kafka that the docstrings of a module name as their source."""
    if "Source: Kafka" not in (text := path.read_text(encoding="utf-8")):
        return
    statements: list[ast.AST] = [ast.parse(text)]
    for node in statements:  # which grows meanwhile
        statements += [each for each in ast.iter_child_nodes(node) if isinstance(each, _NESTING)]
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for source in _SOURCE.findall(ast.get_docstring(node) or ""):
                yield from _CLASS.findall(source)


def glossary_places() -> dict[str, list[str]]:
    """By class of Kafka, the modules that its rows of the glossary name, in their order."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for line in (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").splitlines():
        _, first, *others = [*line.split("|"), ""]
        for name in re.findall(r"`([A-Z]\w*)`", first):
            found[name] += re.findall(r"\(\.\./([\w/]+\.py)\)", "".join(others))
    return found


def classes_listed() -> str:
    """The page of Kafka's classes as it should be now."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for product in PRODUCTS:
        for path in sorted((ROOT / product).rglob("*.py")):
            for name in dict.fromkeys(followed(path)):
                places[name].append(str(path.relative_to(ROOT)))
    explained = glossary_places()
    for name, files in places.items():
        order = {each: rank for rank, each in enumerate(explained.get(name, ()))}
        files.sort(key=lambda each, order=order: order.get(each, len(order)))  # type: ignore[misc]
    rows = [
        f"| `{name}` | {' '.join(f'[`{each}`](../{each})' for each in places[name])} |"
        for name in sorted(places, key=str.lower)
    ]
    return CLASSES_INTRODUCTION + "\n".join([*rows, ""])


DOCUMENTS: dict[Path, Callable[[], str]] = {
    ROOT / "docs" / "modules.md": listed,
    ROOT / "docs" / "kafka-classes.md": classes_listed,
}


def stale() -> list[Path]:
    """The pages that are not as they should be now."""
    return [
        page
        for page, fresh in DOCUMENTS.items()
        if not page.exists() or page.read_text(encoding="utf-8") != fresh()
    ]


def main(arguments: list[str]) -> int:
    """Write the pages, or only check them; returns the exit code."""
    if "--check" in arguments:
        is_stale = bool(stale())
        print("stale: run scripts/list_modules.py" if is_stale else "up to date")
        return int(is_stale)
    for page, fresh in DOCUMENTS.items():
        page.write_text(fresh(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
