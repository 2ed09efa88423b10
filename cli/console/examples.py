"""The examples of a verb, out of its docstring.

They are the last section of the docstring: the line ``Examples:``, then one command in each line,
which begins with ``zkctl`` and may end with a comment after ``#``.  A line that ends in a backslash
continues in the next one.
"""

from __future__ import annotations

import inspect
import re
from typing import Final

_TITLE: Final = re.compile(r"^Examples?:[ \t]*$\n?", re.MULTILINE)


def split_examples(text: str | None) -> tuple[str | None, list[str]]:
    """A docstring without its examples, and the examples."""
    text = None if text is None else inspect.cleandoc(text)
    found = None if text is None else _TITLE.search(text)
    if text is None or found is None:
        return text, []
    examples: list[str] = []
    for line in map(str.strip, text[found.end() :].splitlines()):
        if examples and examples[-1].endswith("\\"):
            examples[-1] += f"\n    {line}"
        elif line:
            examples.append(line)
    return text[: found.start()].rstrip(), examples
