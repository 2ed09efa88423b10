"""Ids as Kafka writes them in files and on command lines: 22 characters of URL-safe base64.

Source: Kafka ``org.apache.kafka.common.Uuid``.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from functools import lru_cache
from typing import Final
from uuid import UUID

_TEXT: Final = re.compile(r"([A-Za-z0-9_-]{22})(?:==)?")
_SHOWN_CHARACTERS: Final = 40


@lru_cache(maxsize=4096)
def uuid_text(value: UUID) -> str:
    """The id as text, such as ``AAAAAAAAAAAAAAAAAAAAAQ`` for the metadata topic."""
    return urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def parse_uuid(text: str) -> UUID:
    """The id in that text; ValueError if it is invalid.

    As in Java, the text may be padded, and its last four bits mean nothing.
    """
    found = _TEXT.fullmatch(text)
    if found is None:
        raise ValueError(f"not an id of 22 characters in base64: {text[:_SHOWN_CHARACTERS]!r}")
    return UUID(bytes=urlsafe_b64decode(found[1] + "=="))


def usable_uuid(new_uuid: Callable[[], UUID]) -> UUID:
    """Calls ``new_uuid`` until it returns an id that may be used.

    The ids 0 and 1 are reserved, and tools take a text that begins with a dash for an option.
    Source: Kafka ``Uuid.randomUuid``.
    """
    while True:
        value = new_uuid()
        if value.int > 1 and not uuid_text(value).startswith("-"):
            return value
