"""The examples of a verb: those in its docstring, else one made from its parameters.

They are the last section of the docstring: the line ``Examples:``, then one command in each line,
which begins with ``zkctl`` and may end with a comment after ``#``.  A line that ends in a backslash
continues in the next one.
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import click

_TITLE: Final = re.compile(r"^Examples?:[ \t]*$\n?", re.MULTILINE)
_PLACEHOLDER: Final = re.compile(r"[^A-Za-z]+")
_SAMPLES: Final = {
    "broker": "1",
    "brokers": "1",
    "config": "server.properties",
    "context": "production",
    "directory": "backup",
    "file": "server.properties",
    "group": "billing",
    "id": "1",
    "key": "retention.ms",
    "kind": "topic",
    "name": "orders",
    "partition": "orders-0",
    "partitions": "orders-0",
    "path": "/brokers/ids",
    "principal": "User:alice",
    "topic": "orders",
    "user": "alice",
}
"""By word in a parameter's name or metavar, the value that an example shows for it."""


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


def sample_line(command: click.Command, path: str) -> str:
    """The shortest command line of a verb: all its required arguments and options."""
    words = [path]
    for parameter in command.params:
        if parameter.required:
            value = _sample(parameter)
            if parameter.param_type_name == "option":
                words.append(max(parameter.opts, key=len))
            words.append(value)
    return " ".join(words)


def _sample(parameter: click.Parameter) -> str:
    key, equals, value = (parameter.metavar or "").partition("=")
    if equals:
        return f"{_known(key) or key}={_known(value) or '1000'}"
    choices = getattr(parameter.type, "choices", None)
    if choices:
        first = choices[0]
        return str(getattr(first, "value", first))
    names = f"{parameter.metavar or ''} {parameter.name or ''}"
    known = _known(names)
    is_number = hasattr(parameter.type, "min") or parameter.type.name in ("integer", "float")
    if is_number and not (known or "").isdecimal():
        least = getattr(parameter.type, "min", None)
        return f"{max(1, least or 0):g}"
    if known is not None:
        return known
    words = [word for word in _PLACEHOLDER.split(names) if word]
    return (words[-1] if words else "value").upper()


def _known(names: str) -> str | None:
    """The sample value for the first word of ``names`` that has one; None if none has."""
    words = (word.lower() for word in _PLACEHOLDER.split(names))
    return next((_SAMPLES[word] for word in words if word in _SAMPLES), None)
