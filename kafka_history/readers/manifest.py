"""``history.json``: the complete ingests of a directory, and the files they have read.

Nothing here needs Spark, so a stored result is found without it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote

from kafka_history.event_schema import SCHEMA_VERSION
from kafka_history.readers.problems import HistoryInvalid

MANIFEST: Final = "history.json"
FOLLOWING: Final = "following"
"""Folder below a directory that ``zkctl history follow`` writes to; no other code adds to it."""
_TABLES: Final = ("events", "pieces", "sources")
_NO_NAME: Final = "__HIVE_DEFAULT_PARTITION__"


class Manifest(NamedTuple):
    """The content of ``history.json``: the complete ingests and the files they have read."""

    ingests: tuple[str, ...]
    files: dict[str, tuple[int, int]]
    """Files already read, with their size and modification time."""


def read_manifest(directory: Path) -> Manifest:
    """The manifest of a directory; empty if it has none yet.

    Raises:
        HistoryInvalid: the directory holds another version's tables, or the file is damaged.
    """
    path = directory / MANIFEST
    if not path.exists():
        return Manifest((), {})
    try:
        content = json.loads(path.read_text())
        version = content["schema_version"]
        manifest = Manifest(
            tuple(content["ingests"]),
            {name: (size, modified) for name, (size, modified) in content["files"].items()},
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise HistoryInvalid(f"{path} is damaged: {error}") from None
    if version != SCHEMA_VERSION:
        raise HistoryInvalid(
            f"{directory} holds schema version {version}, this is {SCHEMA_VERSION}: ingest again"
        )
    return manifest


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Replaces ``history.json`` in one step, so that readers see an ingest fully or not at all."""
    new = directory / f"{MANIFEST}.new"
    new.write_text(
        json.dumps(
            {
                "schema_version": SCHEMA_VERSION,
                "ingests": manifest.ingests,
                "files": manifest.files,
            },
            indent=1,
        )
    )
    new.replace(directory / MANIFEST)


def complete_ingests(directory: Path) -> tuple[str, ...]:
    """The ingests that are complete, in their order.

    Raises:
        HistoryInvalid: there is none.
    """
    ingests = read_manifest(directory).ingests
    if not ingests:
        raise HistoryInvalid(
            f"{directory} holds no history: zkctl history ingest LOG… --out {directory}"
        )
    return ingests


def clusters_in(directory: str | Path) -> list[str | None]:
    """The names of the clusters with rows in a history, from its folders; None: no name.

    Raises:
        HistoryInvalid: there is no complete ingest in the directory.
    """
    folder = Path(directory)
    names = {name for ingest in complete_ingests(folder) for name in clusters_of(folder, ingest)}
    return sorted(names, key=lambda name: (name is not None, name or ""))


def clusters_of(directory: Path, ingest: str) -> list[str | None]:
    """The names of the clusters with rows in an ingest; None: no name."""
    folders = (directory / "events" / f"ingest={ingest}").glob("cluster=*")
    names = sorted(unquote(path.name.removeprefix("cluster=")) for path in folders)
    return [None if name == _NO_NAME else name for name in names]


def content_version(directory: Path, ingests: Sequence[str]) -> str:
    """A digest of the names and sizes of all Parquet files of these ingests, 32 hex digits.

    It changes when a file is added, removed or cut off.  No file is opened.
    """
    digest = hashlib.sha256(repr(tuple(ingests)).encode())
    for table in _TABLES:
        for ingest in ingests:
            folder = directory / table / f"ingest={ingest}"
            for name, size in sorted(_parquet_files(str(folder), "")):
                digest.update(f"{table}/{ingest}{name}:{size}\n".encode())
    return digest.hexdigest()[:32]


def _parquet_files(folder: str, name: str) -> Iterator[tuple[str, int]]:
    try:
        entries = list(os.scandir(folder + name))
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.is_dir():
            yield from _parquet_files(folder, f"{name}/{entry.name}")
        elif entry.name.endswith(".parquet") and entry.name[0] not in "._":
            yield f"{name}/{entry.name}", entry.stat().st_size
