"""Which names a topic may have.

Source: Kafka ``Topic.validate``, ``Topic.unifyCollisionChars``.
"""

from __future__ import annotations

import re
from typing import Final

LONGEST_NAME: Final = 249
_LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9._-]*")


def invalid_name_reason(name: str) -> str | None:
    """Why ``name`` cannot name a topic; None if it can."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > LONGEST_NAME:
        return (
            f"Topic name is invalid: the length of '{name}' is longer than the max allowed "
            f"length {LONGEST_NAME}"
        )
    if not _LEGAL_NAME.fullmatch(name):
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )
    return None


def has_collision_characters(name: str) -> bool:
    """Whether metrics would show the topic under another name than its own."""
    return "." in name or "_" in name


def unified(name: str) -> str:
    """The name that metrics show; two topics must not have the same one."""
    return name.replace(".", "_")
