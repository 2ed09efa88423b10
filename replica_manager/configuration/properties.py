r"""Java's ``.properties`` syntax, in which ``server.properties`` is written.

A logical line is a key, a separator (``=``, ``:`` or white space) and a value; a backslash at the
end of a line joins the next one; ``#`` and ``!`` begin a comment; ``\uXXXX`` is one UTF-16 unit.
If a key occurs several times, the last value is used.

Source: ``java.util.Properties.load``, with one difference: a file is read as UTF-8, as Kafka's own
files are in practice, not as ISO 8859-1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kafka_common.errors import ConfigInvalid

_BLANKS = " \t\f"
_NAMED_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_FOUR_HEX_DIGITS = re.compile(r"[0-9a-fA-F]{4}")


def parse_properties(text: str) -> dict[str, str]:
    """Keys and values in order of first appearance; ConfigInvalid for a bad Unicode escape."""
    properties: dict[str, str] = {}
    for line in _logical_lines(text):
        raw_key, raw_value = _split(line)
        key = _unescape(raw_key, raw_key)
        properties[key] = _unescape(raw_value, key)
    return properties


def format_properties(properties: dict[str, str]) -> str:
    """The text of a properties file, a line ``key=value`` per property, with escapes."""
    return "".join(
        f"{_escape(key, in_key=True)}={_escape(value, in_key=False)}\n"
        for key, value in properties.items()
    )


def _logical_lines(text: str) -> Iterator[str]:
    pending: list[str] = []
    is_continued = False
    for natural in re.split(r"\r\n|\r|\n", text):
        stripped = natural.lstrip(_BLANKS)
        if not is_continued and (not stripped or stripped[0] in "#!"):
            continue  # a backslash at the end of a comment does not join the next line
        is_continued = _ends_in_odd_backslashes(stripped)
        if is_continued:
            pending.append(stripped[:-1])
            continue
        yield "".join((*pending, stripped))
        pending = []
    if any(pending):
        yield "".join(pending)


def _ends_in_odd_backslashes(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANKS:
        end += 2 if line[end] == "\\" else 1
    end = min(end, len(line))
    value = line[end:].lstrip(_BLANKS)
    if value[:1] in ("=", ":"):
        value = value[1:].lstrip(_BLANKS)
    return line[:end], value


def _unescape(raw: str, key: str) -> str:
    """The text with its escapes resolved; ConfigInvalid names ``key`` and hides the value."""
    if "\\" not in raw:
        return raw
    units: list[str] = []
    position = 0
    while position < len(raw):
        character = raw[position]
        if character != "\\":
            units.append(character)
            position += 1
            continue
        following = raw[position + 1 : position + 2]
        if following == "u":
            digits = raw[position + 2 : position + 6]
            if not _FOUR_HEX_DIGITS.fullmatch(digits):
                raise ConfigInvalid(key, "[hidden]", "four hexadecimal digits behind each \\u")
            units.append(chr(int(digits, 16)))
            position += 6
        else:
            units.append(_NAMED_ESCAPES.get(following, following))
            position += 2
    # Two \u escapes may be a surrogate pair, which is one character.
    return "".join(units).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _escape(text: str, *, in_key: bool) -> str:
    escaped = text.replace("\\", "\\\\")
    for name, character in _NAMED_ESCAPES.items():
        escaped = escaped.replace(character, "\\" + name)
    if in_key:
        return re.sub(r"([=:# !])", r"\\\1", escaped)
    return "\\" + escaped if escaped.startswith(" ") else escaped
