"""Reserved ids of log directories, such as UNASSIGNED and LOST.

Source: Kafka ``DirectoryId`` (KIP-858).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

MIGRATING: Final = UUID(int=0)
"""The directory is unknown: the partition or its broker is older than directory ids."""

UNASSIGNED: Final = UUID(int=1)
"""The broker has not chosen a directory yet."""

LOST: Final = UUID(int=2)
"""The replica is in an offline directory whose id is not known."""

_RESERVED: Final = 100


def is_reserved(directory: UUID) -> bool:
    """Whether that id can never name a real directory."""
    return directory.int < _RESERVED


def is_online(directory: UUID, online: Sequence[UUID]) -> bool:
    """Whether that directory id is online on a broker with these online directories.

    ``online`` is empty for a broker that registered before directories were assigned
    (KAFKA-16162): then every directory except LOST counts as online.
    """
    if directory in (UNASSIGNED, MIGRATING):
        return True
    if directory == LOST:
        return False
    return not online or directory in online


def default_directory(directories: Sequence[UUID] | None) -> UUID:
    """The directory of a new replica on a broker with these directories.

    ``directories`` is None for a broker that is not registered.
    """
    if directories is None or len(directories) > 1:
        return UNASSIGNED
    return directories[0] if directories else MIGRATING
