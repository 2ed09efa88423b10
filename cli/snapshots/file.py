"""The file of ``zkctl snapshot``: a cluster's metadata as JSON lines (docs/snapshot-format.md).

The file has a header, one line for each record, and a last line with the number of records.  A file
without its last line was cut off, and is refused.  A name that ends in ``.gz`` is written with
gzip.  The length and number of lines that are read are limited, as a file may come from anywhere.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final, NamedTuple, cast

import orjson

from kafka_common.json_values import JsonObject, JsonValue
from zkcontroller_cli.console.errors import BadUsage, Refused

FORMAT: Final = "zkctl-snapshot"
FORMAT_VERSION: Final = 1
MOST_LINE_BYTES: Final = 64 * 1024 * 1024
"""The longest line that is read; no znode that ZooKeeper accepts is as large."""
MOST_RECORDS: Final = 20_000_000

KINDS: Final = (
    "cluster",
    "controller",
    "controller_epoch",
    "feature",
    "migration",
    "producer_id_block",
    "broker",
    "topic",
    "partition",
    "reassignment",
    "preferred_election",
    "deletion",
    "topic_config",
    "broker_config",
    "quota",
    "scram_user",
    "acl",
    "delegation_token",
)
"""Every kind of record, in the order of the file."""

HIDDEN: Final = "(hidden)"
"""The value in place of a secret."""


class Stamp(NamedTuple):
    """The path (without the chroot) and the stat of a record's znode."""

    path: str
    zk_version: int
    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int


class SnapshotRecord(NamedTuple):
    """One object of the cluster's metadata; its name is unique in its kind."""

    kind: str
    name: str
    value: JsonObject
    stamp: Stamp | None
    """None for a record that was read from a broker."""

    @property
    def topic(self) -> str | None:
        """The topic that the record is about; None for other records."""
        match self.kind:
            case "topic" | "topic_config" | "deletion":
                return self.name
            case "partition" | "reassignment" | "preferred_election":
                return self.name.rpartition("-")[0]
            case _:
                return None

    def row(self) -> JsonObject:
        """The record as a line of the file, and as a row of ``snapshot show``."""
        values = (None,) * len(Stamp._fields) if self.stamp is None else self.stamp
        stamp = dict(zip(Stamp._fields, values, strict=True))
        return {"kind": self.kind, "name": self.name, "value": self.value, **stamp}


@dataclass(frozen=True)
class SavedHeader:
    """The cluster of a snapshot, and when and where it was read."""

    cluster_id: str | None
    taken_at_ms: int
    source: str
    """``ZooKeeper`` or ``brokers``."""


@dataclass
class SavedMetadata:
    """The metadata of a cluster, as read into a snapshot.

    It was read part by part, so a change during the reading may be in it or not.
    """

    header: SavedHeader
    records: list[SnapshotRecord]
    not_known: Mapping[str, str] = field(default_factory=dict)
    """By kind, why the snapshot does not have all its records."""


def check_free(path: Path) -> None:
    """Refused if the file exists already, or if its directory does not exist."""
    if path.exists():
        raise Refused(f"{path} exists: a snapshot never overwrites a file")
    if not path.parent.is_dir():
        raise Refused(f"there is no directory {path.parent}")


def save(snapshot: SavedMetadata, path: Path) -> None:
    """Write a new file atomically; Refused if that fails."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with _opened(draft, "wb", is_gzip=path.name.endswith(".gz")) as file:
            for line in _lines(snapshot):
                file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
        os.link(draft, path)  # fails if a file of that name was created meanwhile
    except FileExistsError as error:
        raise Refused(f"{path} exists: a snapshot never overwrites a file") from error
    except OSError as error:
        raise Refused(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        draft.unlink(missing_ok=True)


def _lines(snapshot: SavedMetadata) -> Iterator[JsonObject]:
    header = snapshot.header
    yield {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "cluster_id": header.cluster_id,
        "taken_at_ms": header.taken_at_ms,
        "source": header.source,
    }
    for record in snapshot.records:
        yield record.row()
    yield {
        "is_end": True,
        "record_count": len(snapshot.records),
        "not_known": dict(snapshot.not_known),
    }


def load(path: Path) -> SavedMetadata:
    """Read a snapshot from a file; BadUsage, with the reason, if it is invalid or incomplete."""
    try:
        with _opened(path, "rb", is_gzip=_is_gzip(path)) as file:
            return _snapshot_of(path, file)
    except (EOFError, zlib.error) as error:
        raise BadUsage(f"{path} is damaged or was cut off: {error}") from error
    except OSError as error:
        raise BadUsage(f"cannot read {path}: {error.strerror or error}") from error


def _snapshot_of(path: Path, file: IO[bytes]) -> SavedMetadata:
    lines = _numbered_lines(path, file)
    header = _header_of(path, next(lines, (1, b""))[1])
    records: list[SnapshotRecord] = []
    for number, line in lines:
        content = _object_of(path, number, line)
        if content.get("is_end") is True:
            not_known = _end_of(path, content, len(records))
            if next(lines, None) is not None:
                raise BadUsage(f"{path}, line {number + 1}: it goes on after its end")
            return SavedMetadata(header, records, not_known)
        records.append(_record_of(path, number, content))
    raise BadUsage(f"{path} was cut off after {len(records):,} records: its last line is missing")


def _numbered_lines(path: Path, file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    for number in range(1, MOST_RECORDS + 3):
        line = file.readline(MOST_LINE_BYTES + 1)
        if not line:
            return
        if len(line) > MOST_LINE_BYTES:
            raise BadUsage(f"{path}, line {number}: longer than {MOST_LINE_BYTES:,} bytes")
        yield number, line
    raise BadUsage(f"{path} has more than {MOST_RECORDS:,} records")


def _header_of(path: Path, line: bytes) -> SavedHeader:
    try:
        content = orjson.loads(line)
    except orjson.JSONDecodeError:
        content = None
    if type(content) is not dict or content.get("format") != FORMAT:
        raise BadUsage(f"{path} is no snapshot of zkctl: its first line does not say {FORMAT}")
    version = content.get("version")
    if type(version) is int and version > FORMAT_VERSION:
        raise BadUsage(
            f"{path} is of format {version}, written by a newer zkctl; "
            f"this one reads format {FORMAT_VERSION}"
        )
    cluster_id, taken = content.get("cluster_id"), content.get("taken_at_ms")
    source = content.get("source")
    if (
        version != FORMAT_VERSION
        or not isinstance(cluster_id, str | None)
        or type(taken) is not int
        or type(source) is not str
    ):
        raise BadUsage(f"{path}, line 1: not the header of a snapshot")
    return SavedHeader(cluster_id, taken, source)


def _object_of(path: Path, number: int, line: bytes) -> JsonObject:
    try:
        content = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        what = "was cut off" if not line.endswith(b"\n") else "is damaged"
        raise BadUsage(f"{path}, line {number}: it {what}: {error}") from error
    if type(content) is not dict:
        raise BadUsage(f"{path}, line {number}: not a JSON object")
    return cast(JsonObject, content)


def _end_of(path: Path, content: JsonObject, count: int) -> dict[str, str]:
    if content.get("record_count") != count:
        raise BadUsage(
            f"{path} is damaged: it has {count:,} records, and should have "
            f"{content.get('record_count')}"
        )
    not_known = content.get("not_known")
    if not isinstance(not_known, dict):
        raise BadUsage(f"{path}: its last line does not say what is not known")
    return {kind: str(why) for kind, why in not_known.items()}


def _record_of(path: Path, number: int, content: JsonObject) -> SnapshotRecord:
    kind, name, value = content.get("kind"), content.get("name"), content.get("value")
    if type(kind) is not str or type(name) is not str or not isinstance(value, dict):
        raise BadUsage(f"{path}, line {number}: not a record: kind, name or value is missing")
    if kind not in KINDS:
        raise BadUsage(f"{path}, line {number}: there is no kind of record {kind!r}")
    return SnapshotRecord(kind, name, value, _stamp_of(path, number, content))


def _stamp_of(path: Path, number: int, content: JsonObject) -> Stamp | None:
    where = content.get("path")
    if where is None:
        return None
    numbers = [content.get(key) for key in Stamp._fields[1:]]
    if type(where) is not str or not _are_integers(numbers):
        raise BadUsage(f"{path}, line {number}: not a record: its znode's stat is not complete")
    return Stamp(where, *cast(list[int], numbers))


def _are_integers(values: Iterable[JsonValue]) -> bool:
    return all(type(value) is int for value in values)


def _is_gzip(path: Path) -> bool:
    """Whether the content is gzip; the name may mislead, as a file can be renamed."""
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


@contextmanager
def _opened(path: Path, mode: str, *, is_gzip: bool) -> Iterator[IO[bytes]]:
    with path.open(mode) as file:
        if not is_gzip:
            yield cast(IO[bytes], file)
            return
        with gzip.open(file, mode, compresslevel=6) as packed:
            yield cast(IO[bytes], packed)
