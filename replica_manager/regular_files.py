"""Opens the files of a log directory, and nothing that only looks like one.

Every file there is opened by :func:`open_regular`.  A symbolic link is refused, because recovery
truncates what it opens; a pipe is, because opening it would wait.

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
"""Of files that may hold secrets: their owner reads and writes them, no one else."""


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
    """Returns when what was written to the file is on disk; OSError of a failed disk if not.

    Also where memory is what was lacking (ENOMEM): the system may drop what it could not write, and
    a second call would find nothing left to do.  So this is never tried again.
    """
    try:
        os.fsync(descriptor)
    except OSError as error:
        if exhausted_limit(error) is None:
            raise
        raise OSError(errno.EIO, f"fsync failed: {error}") from error


def undo(step: Callable[[], object]) -> None:
    """Undoes a part of what was refused; OSError of a failed disk if that is refused, too.

    Then the files are not what the log in memory says, so it must not go on.
    """
    try:
        step()
    except FileNotFoundError:
        pass
    except OSError as error:
        raise OSError(errno.EIO, f"what was refused cannot be undone: {error}") from error


def write_private(path: Path, text: str) -> None:
    """Puts a text in the place of a file's, for its owner's eyes only: it may hold secrets."""
    beside = path.with_name(path.name + ".tmp")
    descriptor = open_regular(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    with open(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(descriptor, PRIVATE_MODE)  # before there is anything to be seen
        file.write(text)
    beside.replace(path)


def read_file(path: Path, most_bytes: int = -1) -> bytes:
    """The content of a regular file, at most so much of it.  Blocks."""
    with open(open_regular(path, os.O_RDONLY), "rb") as file:
        return file.read(most_bytes)


def read_configured(path: Path, most_bytes: int) -> bytes:
    """The content of a file that a configuration or a command names; it may be a link.  Blocks.

    OSError, with a text in ``strerror``, for what cannot be read, what is no regular file (opening
    a pipe would wait, a device may never end), and what has more than ``most_bytes``.
    """
    if "\0" in str(path):
        raise OSError(errno.EINVAL, "its path has the character NUL")
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        # It refuses a folder, and would leave its descriptor open.
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
