"""Opens the regular files of a log directory, and refuses links, pipes and other kinds.

Every file there is opened by :func:`open_regular`.  A symbolic link is refused, because recovery
truncates what it opens.  A pipe is refused, because opening it would wait.

Deviation: Kafka follows symbolic links below a log directory.  The path of a log directory itself
may contain links, here as there.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kafka_common.process.resource_limits import exhausted_limit
from kafka_common.process.spare_descriptors import SPARE_DESCRIPTORS

PRIVATE_MODE: Final = 0o600
"""The mode of files that may hold secrets: only the owner may read and write them."""


def open_regular(path: Path, flags: int) -> int:
    """A descriptor of a regular file; OSError for a symbolic link, a pipe, or any other kind."""
    try:
        # Without O_NONBLOCK, opening a pipe would wait for a writer.
        flags |= os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = SPARE_DESCRIPTORS.opening(lambda: os.open(path, flags, 0o644))
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, f"{path} is a symbolic link, which is refused") from None
        raise
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EPERM, f"{path} is no regular file")
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def sync_file(descriptor: int) -> None:
    """Returns when the written data is on disk; OSError of a failed disk if the fsync fails.

    Even a lack of memory (ENOMEM) counts as a failed disk: the system may have dropped the data,
    and a second fsync would succeed without it.  So an fsync is never repeated.
    """
    try:
        os.fsync(descriptor)
    except OSError as error:
        if exhausted_limit(error) is None:
            raise
        raise OSError(errno.EIO, f"fsync failed: {error}") from error


def undo(step: Callable[[], object]) -> None:
    """Undoes one step of a failed operation; OSError of a failed disk if that fails, too.

    The files then differ from the log in memory, so the log must not be used any more.  A file that
    is missing needs no undoing.
    """
    try:
        step()
    except FileNotFoundError:
        pass
    except OSError as error:
        raise OSError(errno.EIO, f"what was refused cannot be undone: {error}") from error


def write_private(path: Path, text: str) -> None:
    """Replaces a file by a text that only the owner may read, because it may hold secrets."""
    beside = path.with_name(path.name + ".tmp")
    descriptor = open_regular(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    with open(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(descriptor, PRIVATE_MODE)  # before there is anything to be seen
        file.write(text)
    beside.replace(path)


def read_file(path: Path, most_bytes: int = -1) -> bytes:
    """The content of a regular file, at most ``most_bytes`` of it (-1: all).  Blocks."""
    with open(open_regular(path, os.O_RDONLY), "rb") as file:
        return file.read(most_bytes)


def read_configured(path: Path, most_bytes: int) -> bytes:
    """The content of a file that a configuration or a command names; it may be a link.  Blocks.

    Raises OSError, with a text in ``strerror``, if the file cannot be read, is no regular file
    (opening a pipe would wait, a device may never end), or has more than ``most_bytes``.
    """
    if "\0" in str(path):
        raise OSError(errno.EINVAL, "its path has the character NUL")
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        # open() refuses the descriptor of a folder, and does not close it: the ``finally`` does.
        with open(descriptor, "rb", closefd=False) as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EPERM, "it is no regular file")
            data = file.read(most_bytes + 1)
    finally:
        os.close(descriptor)
    if len(data) > most_bytes:
        raise OSError(errno.EFBIG, f"at most {most_bytes} bytes are read")
    return data


def refuse_link(directory: Path) -> None:
    """OSError if a folder in a log directory is a symbolic link."""
    if directory.is_symlink():
        raise OSError(errno.ELOOP, f"{directory} is a symbolic link, which is refused")


def root_warning(user_id: int) -> str | None:
    """The warning for a process that has all rights; None for any other user."""
    if user_id != 0:
        return None
    return (
        "This process runs as root: an error or an attacker in it can change every file of the "
        "machine. Run it as a user that owns its log directories and nothing else."
    )
