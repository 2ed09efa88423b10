"""Distinguishes a limit of the process or the system from a failed disk.

Both come as OSError out of the same calls.  A disk that has failed takes its log directory offline;
a limit says nothing about the disk, and what it refused succeeds once something else was closed.
"""

from __future__ import annotations

import errno
import resource
from typing import Final

from kafka_common.errors import LimitReached

RESERVED_SHARE: Final = 8
"""One file in so many that the process may open is kept from clients' connections."""
MOST_RESERVED: Final = 1_024
"""So many files are kept at most."""


def exhausted_limit(error: OSError) -> str | None:
    """The limit that was reached, with name and size; None for another error."""
    match error.errno:
        case errno.EMFILE:
            return f"the process may open {most_open_files()} files (ulimit -n)"
        case errno.ENFILE:
            return "the system's limit of open files (fs.file-max) is reached"
        case errno.ENAMETOOLONG:
            return "the name of a file is longer than the file system allows"
        case errno.ENOMEM | errno.ENOBUFS:
            return "the system has no memory left for it"
        case _:
            return None


def raise_if_limit(error: Exception, doing: str) -> None:
    """Raises LimitReached if a limit caused the error."""
    if isinstance(error, LimitReached):
        raise error
    limit = exhausted_limit(error) if isinstance(error, OSError) else None
    if limit is not None:
        raise LimitReached(f"{doing}: {limit}") from error


def most_open_files() -> int:
    """How many files and sockets this process may have open at once."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else 2**31 - 1


def first_reserved_descriptor() -> int:
    """The first descriptor that no client's connection may have.

    The system gives out the lowest number that is free, so the number of a new descriptor says how
    many are in use.  What is above is left for the files of logs and for links to other brokers.
    """
    most = most_open_files()
    return most - min(most // RESERVED_SHARE, MOST_RESERVED)
