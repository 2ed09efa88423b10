"""Distinguishes a limit of the process or the system from a failed disk.

Both are an OSError from the same calls.  A failed disk takes its log directory offline.  A limit
says nothing about the disk: the same call succeeds later, when other files were closed.
"""

from __future__ import annotations

import errno
import resource
from typing import Final

from kafka_common.errors import LimitReached

RESERVED_SHARE: Final = 8
"""One in this many descriptors is reserved: clients' connections may not use it."""
MOST_RESERVED: Final = 1_024
"""The most descriptors that are reserved."""


def exhausted_limit(error: OSError) -> str | None:
    """The text that names the limit and its size; None if the error is no limit."""
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
    """Raises LimitReached if a limit caused the error; ``doing`` begins its message."""
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

    The system gives out the lowest free number, so a new descriptor's number shows how many are in
    use.  The numbers from here on are for log files and for connections to other brokers.
    """
    most = most_open_files()
    return most - min(most // RESERVED_SHARE, MOST_RESERVED)
