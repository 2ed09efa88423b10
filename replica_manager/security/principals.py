"""Principals such as ``User:alice``, and the mapping of certificate names to user names.

Source: Kafka ``KafkaPrincipal``, ``DefaultKafkaPrincipalBuilder``, ``SslPrincipalMapper``
(KIP-371).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from typing_extensions import override

from kafka_common.errors import ConfigInvalid

USER: Final = "User"
MAPPING_RULES_KEY: Final = "ssl.principal.mapping.rules"


class Principal(NamedTuple):
    """The principal of a client."""

    principal_type: str
    name: str

    @override
    def __str__(self) -> str:
        return f"{self.principal_type}:{self.name}"


ANONYMOUS: Final = Principal(USER, "ANONYMOUS")


def parse_principal(text: str) -> Principal | None:
    """``User:alice`` as a principal; None without a colon."""
    principal_type, colon, name = text.partition(":")
    return Principal(principal_type, name) if colon else None


def parse_super_users(text: str) -> frozenset[Principal]:
    """The principals in ``super.users`` (``User:alice;User:bob``); ConfigInvalid if invalid."""
    principals = set()
    for entry in filter(None, (entry.strip() for entry in text.split(";"))):
        principal = parse_principal(entry)
        if principal is None:
            raise ConfigInvalid("super.users", text, "Type:name;Type:name, as User:admin")
        principals.add(principal)
    return frozenset(principals)


def host_name_of(address: str) -> str:
    """A peer's address as in ACLs (``InetAddress.getHostAddress``): IPv6 without ``::``."""
    if ":" not in address:
        return address
    bare, percent, zone = address.partition("%")
    groups = ipaddress.IPv6Address(bare).exploded.split(":")
    return ":".join(f"{int(group, 16):x}" for group in groups) + percent + zone


_RULE: Final = re.compile(
    r"\s*(?:(?P<default>DEFAULT)"
    r"|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?)"
    r")\s*(?:,|$)"
)
_JAVA_REFERENCE: Final = re.compile(r"\\(.)|\$(\d+)")


class _Rule(NamedTuple):
    pattern: re.Pattern[str] | None
    """None is the rule DEFAULT: the name is not changed."""
    replacement: str
    case: str


class SslPrincipalMapper:
    """Maps distinguished names to user names by ``ssl.principal.mapping.rules``."""

    def __init__(self, rules: str, key: str = MAPPING_RULES_KEY) -> None:
        """Raises ConfigInvalid with ``key`` if ``rules`` is not a valid list of rules."""
        self._rules = tuple(_parse_rules(rules, key))

    def name_of(self, distinguished_name: str) -> str | None:
        """The user name by the first rule that applies; None if none does."""
        for pattern, replacement, case in self._rules:
            if pattern is None:
                return distinguished_name
            if pattern.fullmatch(distinguished_name):
                name = pattern.sub(
                    lambda match, text=replacement: _expanded(text, match),  # type: ignore[misc]
                    distinguished_name,
                )
                return name.lower() if case == "L" else name.upper() if case == "U" else name
        return None


def _parse_rules(text: str, key: str) -> Iterator[_Rule]:
    position = 0
    rules = text.strip()
    while position < len(rules):
        match = _RULE.match(rules, position)
        if match is None:
            raise ConfigInvalid(key, text, "DEFAULT, or RULE:pattern/replacement/[LU], with commas")
        position = match.end()
        if match["default"]:
            yield _Rule(None, "", "")
            continue
        try:
            pattern = _compiled(match["pattern"])
        except re.error as wrong:
            raise ConfigInvalid(key, text, f"regular expressions ({wrong})") from None
        yield _Rule(pattern, match["replacement"], match["case"])


_DOT: Final = re.compile(r"(\\.|\[(?:\\.|[^\]\\])*\])|\.", re.DOTALL)
_NO_END_OF_LINE: Final = r"[^\n\r\x85\u2028\u2029]"


def _compiled(pattern: str) -> re.Pattern[str]:
    """Compiles a pattern with Java's semantics: classes are ASCII, ``.`` matches no line end."""
    in_python = _DOT.sub(lambda token: token[1] or _NO_END_OF_LINE, pattern)
    return re.compile(in_python, re.ASCII)


def _expanded(replacement: str, match: re.Match[str]) -> str:
    """The replacement text by Java's rules: ``$1`` is a group, and a backslash quotes.

    ``$12`` is group 12 if it exists, else group 1 and the text ``2``.
    """

    def value(reference: re.Match[str]) -> str:
        if reference[1] is not None:
            return reference[1]
        digits = reference[2]
        for size in range(len(digits), 0, -1):
            number = int(digits[:size])
            if number <= match.re.groups:
                return (match[number] or "") + digits[size:]
        return reference[0]

    return _JAVA_REFERENCE.sub(value, replacement)
