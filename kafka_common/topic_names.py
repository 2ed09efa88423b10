"""Which topic names and partition directories are valid.

A name is checked where it comes from outside: in requests of clients and controllers, in znodes,
and in the names of folders when a broker starts.

Source: Kafka ``Topic.validate``, ``Topic.unifyCollisionChars``.
"""

from __future__ import annotations

import re
from typing import Final

LONGEST_NAME: Final = 249
LONGEST_FOLDER_NAME: Final = 255
"""The most bytes in the name of a folder, on the file systems of Linux."""
_SHOWN: Final = 300
"""The most characters of a refused name in an error text."""
_LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9._-]*")


def invalid_name_reason(name: str) -> str | None:
    """Why ``name`` cannot name a topic; None if it can."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > LONGEST_NAME:
        return (
            f"Topic name is invalid: the length of '{name[:_SHOWN]}' is longer than the max "
            f"allowed length {LONGEST_NAME}"
        )
    if not _LEGAL_NAME.fullmatch(name):
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )
    return None


def invalid_partition_reason(topic: str, partition: int) -> str | None:
    """Why this partition cannot have a directory ``topic-partition``; None if it can."""
    reason = invalid_name_reason(topic)
    if reason is not None:
        return reason
    if partition < 0:
        return f"Partition is invalid: {partition} of topic '{topic}' is negative"
    if len(f"{topic}-{partition}") > LONGEST_FOLDER_NAME:
        return (
            f"Partition is invalid: the folder name '{topic}-{partition}' is longer than the max "
            f"allowed length {LONGEST_FOLDER_NAME}"
        )
    return None


def has_collision_characters(name: str) -> bool:
    """Whether metric names of this topic may collide with those of another (``.`` and ``_``)."""
    return "." in name or "_" in name


def unified(name: str) -> str:
    """The topic name with ``.`` replaced by ``_``; it must be different for any two topics."""
    return name.replace(".", "_")
