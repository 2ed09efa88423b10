"""``sasl.jaas.config`` and JAAS files: login modules and their options, in JAAS syntax.

``org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b";``

Source: Kafka ``JaasConfig``, ``JaasContext``, Java's ``ConfigFile`` and ``StreamTokenizer``.
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
    r"""|(?P<sign>[=;{}])""",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-7]{1,3}|.)", re.DOTALL)
_TO_ESCAPE: Final = re.compile(r'["\\\n]')
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}
_ALLOWED: Final = 'LoginModule required option="value" …; with a semicolon at its end'
_ALLOWED_IN_FILE: Final = "sections of login modules: KafkaServer { … };"


@dataclass(frozen=True, slots=True)
class JaasEntry:
    """One login module; its options may be secrets."""

    module: str
    options: dict[str, str] = field(repr=False)

    @property
    def text(self) -> str:
        """The entry as a value of ``sasl.jaas.config``."""
        options = "".join(f" {_quoted(key)}={_quoted(self.options[key])}" for key in self.options)
        return f"{self.module} required{options};"

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
    entry = _entry(key, next(tokens, ""), tokens)
    if next(tokens, None) is not None:
        raise ConfigInvalid(key, "[hidden]", "exactly one login module")
    return entry


def parse_jaas_file(key: str, text: str) -> dict[str, list[JaasEntry]]:
    """The login modules of each section ``Name { … };``, which may be empty; raises as above."""
    sections: dict[str, list[JaasEntry]] = {}
    tokens = _tokens(key, text)
    for name in tokens:
        if name.startswith(_SIGN) or next(tokens, "") != _BEGIN:
            raise ConfigInvalid(key, "[hidden]", _ALLOWED_IN_FILE)
        if name in sections:
            raise ConfigInvalid(key, "[hidden]", f"one section {name}")
        sections[name] = []
        for module in tokens:
            if module == _END:
                break
            sections[name].append(_entry(key, module, tokens))
        if next(tokens, "") != _SEMICOLON:
            raise ConfigInvalid(key, "[hidden]", _ALLOWED_IN_FILE)
        if any("${" in value for each in sections[name] for value in each.options.values()):
            raise ConfigInvalid(key, "[hidden]", "no ${property}, which only a JVM could know")
    return sections


def _entry(key: str, module: str, tokens: Iterator[str]) -> JaasEntry:
    """The entry that begins with its module; the other tokens come up to its semicolon."""
    if not module or module.startswith(_SIGN) or next(tokens, "").lower() not in _FLAGS:
        raise _invalid(key)
    options: dict[str, str] = {}
    for name in tokens:
        if name == _SEMICOLON:
            return JaasEntry(module, options)
        equals, value = next(tokens, ""), next(tokens, _SEMICOLON)
        if name.startswith(_SIGN) or equals != _EQUALS or value.startswith(_SIGN):
            raise _invalid(key)
        options[name] = value
    raise _invalid(key)


# The NUL distinguishes a sign from the same text in quotes.
_SIGN: Final = "\0"
_SEMICOLON: Final = "\0;"
_EQUALS: Final = "\0="
_BEGIN: Final = "\0{"
_END: Final = "\0}"


def _tokens(key: str, text: str) -> Iterator[str]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _invalid(key)
        position = match.end()
        if match["sign"]:
            yield f"{_SIGN}{match['sign']}"
        elif match["word"]:
            yield match["word"]
        elif match["quote"]:
            yield _ESCAPE.sub(_unescaped, match["quoted"])


def _quoted(text: str) -> str:
    return '"' + _TO_ESCAPE.sub(lambda match: f"\\{ord(match[0]):03o}", text) + '"'


def _unescaped(match: re.Match[str]) -> str:
    escaped = match[1]
    if escaped[0] in "01234567":
        return chr(int(escaped, 8))
    return _ESCAPES.get(escaped, escaped)


def _invalid(key: str) -> ConfigInvalid:
    return ConfigInvalid(key, "[hidden]", _ALLOWED)
