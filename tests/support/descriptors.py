"""Descriptors of this process: counted, and limited, without the garbage of other tests.

What an earlier test left as garbage holds its files and sockets until the next collection.  A test
that counts descriptors, or lowers their limit, must not be in the middle when that happens.
"""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

TRIES: Final = 50
PAUSE_S: Final = 0.1


def open_descriptors() -> int:
    """How many descriptors this process has open, those of garbage left out."""
    return len(_numbers())


def open_files() -> int:
    """How many files this process has open by a path; sockets of other clients come and go."""
    found = 0
    for number in _numbers():
        with suppress(FileNotFoundError):  # the listing's own
            found += os.readlink(f"/proc/self/fd/{number}").startswith("/")
    return found


async def left_connections(port: int) -> int:
    """How many connections to a server of this process, which listens on ``port``, it keeps open.

    The event loop closes a connection some turns after its last byte.  All descriptors cannot be
    counted instead: threads of other clients in this process connect at any time.
    """
    found = 0
    for _ in range(TRIES):
        found = sum(_is_accepted(number, port) for number in _numbers())
        if not found:
            break
        await asyncio.sleep(PAUSE_S)
    return found


def _is_accepted(number: int, port: int) -> bool:
    """Whether a descriptor is such a connection, be it that the client has reset it."""
    with suppress(OSError):  # the descriptor of the listing is closed by now
        if not stat.S_ISSOCK(os.fstat(number).st_mode):
            return False
        with socket.socket(fileno=os.dup(number)) as seen:
            listens = seen.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
            return seen.family is socket.AF_INET and not listens and seen.getsockname()[1] == port
    return False


def highest_descriptor() -> int:
    """The highest number among the descriptors that are open; the limit bounds the numbers."""
    return max(_numbers())


@contextmanager
def limit_restored() -> Iterator[int]:
    """Gives the hard limit of open files, and restores the soft one at the end."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    gc.collect()
    try:
        yield limits[1]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@contextmanager
def no_more_files() -> Iterator[int]:
    """Lowers the limit of open files below all that are open but the standard ones; gives it.

    Whatever threads of other tests close meanwhile, its number is above the limit and stays unused.
    """
    with limit_restored() as hard:
        assert {0, 1, 2} <= set(_numbers())
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        yield 3


@contextmanager
def no_more_files_but_spare() -> Iterator[int]:
    """Lowers the limit of open files to what is open now; gives the limit.

    What is closed meanwhile can be opened again, as spare descriptors must be.
    """
    highest = highest_descriptor()
    free = [os.open(os.devnull, os.O_RDONLY)]
    while free[-1] <= highest:
        free.append(os.open(os.devnull, os.O_RDONLY))
    limit = free.pop()  # those below it stay open: every number is taken
    os.close(limit)
    try:
        with limit_restored() as hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            yield limit
    finally:
        for each in free:
            os.close(each)


def _numbers() -> list[int]:
    gc.collect()
    return [int(name) for name in os.listdir("/proc/self/fd")]
