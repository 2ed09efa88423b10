"""Stores results of ``zkctl history`` commands as JSON, to be found next time without Spark.

A result belongs to the rows it was made from (:func:`.manifest.content_version`), to the code that
made it, to a cluster, and to a question with its arguments.  Its file contains all of these and a
digest of the result.  A file that does not match is removed, and the result is computed again.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from shutil import rmtree
from typing import Any, Final
from uuid import uuid4

import orjson

from kafka_history.readers.manifest import content_version

from .kept import ANSWERS, answers_of

RESULTS_MAX: Final = 200
"""Results kept of one history; beyond this, the least recently used are removed."""
RESULTS_BYTES_MAX: Final = 128 << 20
"""Bytes of all results kept of one history; beyond this, the least recently used are removed."""
RESULT_BYTES_MAX: Final = 32 << 20
"""A larger result is not stored."""
STALE_S: Final = 3_600
"""Findings from older ingests are removed at this age; until then another process may read them."""
_FOLDER: Final = "results"
_PACKAGE: Final = Path(__file__).resolve().parent.parent


class Results:
    """The stored results about one cluster of a history, for its current rows and this code."""

    def __init__(self, out: Path, ingests: Sequence[str], cluster: str | None) -> None:
        self._answers = out / ANSWERS
        self._folder = self._answers / _FOLDER
        self._ingests = tuple(ingests)
        self._cluster = cluster
        self._version = f"{content_version(out, ingests)}-{_code_version()}"

    def get(self, question: str, arguments: Mapping[str, Any]) -> Any | None:
        """The stored result; None if there is none or its file is damaged."""
        key = self._key(question, arguments)
        path = self._path(key)
        try:
            head, _, body = path.read_bytes().partition(b"\n")
        except OSError:
            return None
        if head != _head(key, body):
            with suppress(OSError):
                path.unlink()
            return None
        with suppress(OSError):
            os.utime(path)  # marks the result as used now
        return orjson.loads(body)

    def put(self, question: str, arguments: Mapping[str, Any], result: Any) -> bool:
        """Stores a result of plain values and removes old ones; False: it could not be stored."""
        body = orjson.dumps(result)
        if len(body) > RESULT_BYTES_MAX:
            return False
        key = self._key(question, arguments)
        path = self._path(key)
        # Write under a temporary name: another process may store the same result at once.
        mine = path.with_name(f".{uuid4().hex}")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            mine.write_bytes(_head(key, body) + b"\n" + body)
            mine.replace(path)
        except OSError:
            with suppress(OSError):
                mine.unlink()
            return False
        # Another process may remove the same files at this moment.
        with suppress(OSError):
            self._remove_old(path, path.stat().st_size)
        return True

    def _key(self, question: str, arguments: Mapping[str, Any]) -> bytes:
        key = {
            "version": self._version,
            "cluster": self._cluster,
            "question": question,
            "arguments": dict(arguments),
        }
        return orjson.dumps(key, option=orjson.OPT_SORT_KEYS)

    def _path(self, key: bytes) -> Path:
        return self._folder / f"{self._prefix()}{hashlib.sha256(key).hexdigest()[:32]}.json"

    def _prefix(self) -> str:
        return hashlib.sha256(self._version.encode()).hexdigest()[:16] + "-"

    def _remove_old(self, newest: Path, newest_bytes: int) -> None:
        """Removes results of other rows or other code, and the oldest ones above the bounds."""
        now = time.time()
        known: list[tuple[float, int, Path]] = []
        for path in self._folder.iterdir():
            try:
                stat = path.stat()
            except OSError:  # another process was quicker
                continue
            is_left_over = path.name.startswith(".") and now - stat.st_mtime > STALE_S
            is_other = path.suffix == ".json" and not path.name.startswith(self._prefix())
            if is_left_over or is_other:
                _unlink(path)
            elif path.suffix == ".json" and path != newest:
                known.append((stat.st_mtime, stat.st_size, path))
        left = RESULTS_BYTES_MAX - newest_bytes
        for place, (_, size, path) in enumerate(sorted(known, reverse=True), start=1):
            left -= size
            if left < 0 or place >= RESULTS_MAX:
                _unlink(path)
        tables = answers_of(self._ingests)
        for folder in self._answers.iterdir():
            is_current = folder.name == _FOLDER or folder.name.startswith(tables)
            with suppress(OSError):
                if not is_current and now - folder.stat().st_mtime > STALE_S:
                    rmtree(folder, ignore_errors=True)


def _unlink(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _head(key: bytes, body: bytes) -> bytes:
    digest = hashlib.sha256(key + b"\n" + body).hexdigest()
    return json.dumps({"key": key.decode(), "sha256": digest}).encode()


@cache
def _code_version() -> str:
    """A digest of the code of this package, so that results of other code are not used."""
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*")):
        if path.suffix in (".py", ".yaml"):
            digest.update(f"{path.relative_to(_PACKAGE)}\n".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:32]
