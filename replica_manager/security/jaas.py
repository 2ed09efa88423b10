"""``sasl.jaas.config``: a login module and its options, in JAAS syntax.

``org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b";``

Source: Kafka ``JaasConfig``, ``JaasContext``, Java's ``StreamTokenizer``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from kafka_common.errors import ConfigInvalid

_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_TOKEN: Final = re.compile(
    r"""(?P<skipped>\s+|//[^\n]*|/\*.*?\*/)"""
    r"""|(?P<word>[A-Za-z0-9_$.\-\u00a0-\U0010ffff]+)"""
    r"""|(?P<quote>["'])(?P<quoted>(?:\\.|(?!(?P=quote))[^\\\n])*)(?P=quote)"""
    r"""|(?P<sign>[=;])""",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-7]{1,3}|.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}
_ALLOWED: Final = 'LoginModule required option="value" …; with a semicolon at its end'


@dataclass(frozen=True, slots=True)
class JaasEntry:
    """One login module; its options may be secrets."""

    module: str
    options: dict[str, str] = field(repr=False)

    @property
    def users(self) -> dict[str, str]:
        """The passwords of a PLAIN server by user name, from the options ``user_<name>``."""
        return {
            key.removeprefix("user_"): value
            for key, value in self.options.items()
            if key.startswith("user_")
        }


def parse_jaas(key: str, text: str) -> JaasEntry:
    """The one entry in the text; ConfigInvalid, without the secret text, if it is not valid."""
    tokens = _tokens(key, text)
    module, flag = next(tokens, ""), next(tokens, "")
    if not module or flag.lower() not in _FLAGS:
        raise _invalid(key)
    options: dict[str, str] = {}
    for name in tokens:
        if name == _SEMICOLON:
            if next(tokens, None) is not None:
                raise ConfigInvalid(key, "[hidden]", "exactly one login module")
            return JaasEntry(module, options)
        sign, value = next(tokens, ""), next(tokens, _SEMICOLON)
        if sign != _EQUALS or value in (_SEMICOLON, _EQUALS):
            raise _invalid(key)
        options[name] = value
    raise _invalid(key)


# The NUL distinguishes a sign from the same text in quotes.
_SEMICOLON: Final = "\0;"
_EQUALS: Final = "\0="


def _tokens(key: str, text: str) -> Iterator[str]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _invalid(key)
        position = match.end()
        if match["sign"]:
            yield f"\0{match['sign']}"
        elif match["word"]:
            yield match["word"]
        elif match["quote"]:
            yield _ESCAPE.sub(_unescaped, match["quoted"])


def _unescaped(match: re.Match[str]) -> str:
    escaped = match[1]
    if escaped[0] in "01234567":
        return chr(int(escaped, 8))
    return _ESCAPES.get(escaped, escaped)


def _invalid(key: str) -> ConfigInvalid:
    return ConfigInvalid(key, "[hidden]", _ALLOWED)
