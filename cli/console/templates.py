r"""``-o template='{topic}-{partition}'``: a line in the user's own form for each row.

A field names a key, or with dots a value inside it: ``{replicas.0}`` is the first of a list,
``{configs.retention.ms}`` a key that has dots itself.  After a colon may follow a width, as in
Python's ``{:>8}``, and nothing else, so a template cannot reach an object's attributes.  ``\t`` and
``\n`` are a tab and a new line, ``{{`` and ``}}`` are braces.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from string import Formatter
from typing import Any, Final, NamedTuple

from zkcontroller_cli.console.errors import BadUsage

PREFIX: Final = "template="
_MAX_LENGTH: Final = 10_000
_FIELD: Final = re.compile(r"[^\s{}.\[\]!]+(?:\.[^\s{}.\[\]!]+)*")
_WIDTH: Final = re.compile(r"[<>^]?[1-9][0-9]{0,2}")
_ESCAPE: Final = re.compile(r"\\([tn\\])")
_ESCAPED: Final = {"t": "\t", "n": "\n", "\\": "\\"}
_SHOWN_KEYS: Final = 40


class _Piece(NamedTuple):
    """Literal text, and the field after it; ``path`` is None if no field follows."""

    text: str
    path: str | None = None
    width: str = ""


class UnknownField(BadUsage):
    """A template names a key that rows of this kind do not have."""


class Template:
    """A parsed template; BadUsage if the text is not a valid one."""

    def __init__(self, text: str) -> None:
        if not text:
            raise BadUsage("-o template= needs a text: -o template='{topic}-{partition}'")
        if len(text) > _MAX_LENGTH:
            raise BadUsage(f"-o template=…: it is longer than {_MAX_LENGTH} characters")
        try:
            parsed = list(Formatter().parse(text))
        except ValueError as error:
            raise BadUsage(f"-o template={text}: {error}; {{{{ and }}}} are braces") from None
        self._pieces = [self._piece(text, *each) for each in parsed]

    @staticmethod
    def _piece(
        text: str, literal: str, path: str | None, width: str | None, conversion: str | None
    ) -> _Piece:
        plain = _ESCAPE.sub(lambda found: _ESCAPED[found[1]], literal)
        if path is None:
            return _Piece(plain)
        if conversion or not _FIELD.fullmatch(path):
            raise BadUsage(
                f"-o template={text}: {{{path}}} is not a key, or keys joined by dots, as {{topic}}"
                " or {replicas.0}"
            )
        if width and not _WIDTH.fullmatch(width):
            raise BadUsage(
                f"-o template={text}: behind the colon of {{{path}:{width}}} stands a width from "
                "1 to 999, as {topic:<20}"
            )
        return _Piece(plain, path, width or "")

    def line(self, row: Mapping[str, Any], keys: Sequence[str], shown: Callable[[Any], str]) -> str:
        """The line for a row; UnknownField for a field that is neither in the row nor in ``keys``.

        ``shown`` writes a value as text.
        """
        texts = []
        for piece in self._pieces:
            texts.append(piece.text)
            if piece.path is not None:
                texts.append(format(self._value(piece.path, row, keys, shown), piece.width))
        return "".join(texts)

    def check(self, keys: Sequence[str]) -> None:
        """UnknownField if a field begins with none of the keys; used if there is no row."""
        for piece in self._pieces:
            if piece.path is not None and not any(
                piece.path == key or piece.path.startswith(f"{key}.") for key in keys
            ):
                raise _unknown(piece.path, keys)

    @staticmethod
    def _value(
        path: str, row: Mapping[str, Any], keys: Sequence[str], shown: Callable[[Any], str]
    ) -> str:
        found = _walk(row, path.split("."))
        if found is _MISSING:
            if path.split(".")[0] in keys and path.split(".")[0] not in row:
                return ""
            raise _unknown(path, list(dict.fromkeys((*keys, *row))))
        return "" if found is None else shown(found)


_MISSING: Final = object()


def _walk(value: Any, parts: Sequence[str]) -> Any:
    """The value at the path; None beyond a list's end or inside None, _MISSING without a key."""
    if not parts or value is None:
        return value
    if isinstance(value, Mapping):
        by_text = {str(key): each for key, each in value.items()}
        # The longest key first: the keys of configurations have dots.
        for end in range(len(parts), 0, -1):
            key = ".".join(parts[:end])
            if key in by_text:
                return _walk(by_text[key], parts[end:])
        return _MISSING
    if isinstance(value, list | tuple) and parts[0].isdecimal():
        at = int(parts[0][:9])
        return _walk(value[at], parts[1:]) if at < len(value) else None
    return _MISSING


def _unknown(path: str, keys: Sequence[str]) -> UnknownField:
    known = ", ".join(keys[:_SHOWN_KEYS]) + (", and more" if len(keys) > _SHOWN_KEYS else "")
    return UnknownField(
        f"-o template=…: there is no key {path!r} here; known are {known or 'none'}"
    )
