"""Finds the files to read, and describes each from its beginning.

The description (:class:`Source`) has the format (Kafka's log or our export, with or without a
prefix that ``kubectl logs``, ``docker compose logs`` or journald put before each line), the broker
and the cluster.  For a file that cannot be read it has the reason.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from kafka_history.readers.content import (
    PACKED,
    beginning_of,
    digest_of,
)
from kafka_history.readers.formats import envelope_name, format_of
from kafka_history.readers.patterns import Pattern
from kafka_history.readers.problems import HistoryInvalid

SNIFFED_BYTES: Final = 256 * 1024
"""Bytes at the beginning of a file that are examined."""
DUPLICATE: Final = "a duplicate of "
"""Beginning of ``problem`` for a file with the same content as another one."""
_LOG: Final = re.compile(r"\.(?:log|jsonl|out|txt)(?:[.-]\w[\w.-]*)?$")
_SEGMENT: Final = re.compile(r"\d{20}\.log")

_SPEAKER: Final = re.compile(
    rb"\[(?:Broker id=|KafkaServer id=|Partition [^\]]* broker=|ReplicaManager broker="
    rb"|Controller id=|ReplicaFetcher replicaId=|KafkaApi-)(\d+)"
)
_OWN_BROKER: Final = re.compile(rb'"broker_id":(\d+)')
_CLUSTER_ID: Final = re.compile(rb"Cluster ID = ([\w-]{16,})")
_BROKER_IN_PATH: Final = re.compile(r"(?:broker|kafka|node|server)[-_.]?(\d+)(?!\d)", re.I)


class Source(NamedTuple):
    """The description of one file."""

    file: str
    size_bytes: int
    modified_ms: int
    content_bytes: int
    """The unpacked size; 0 for a packed file, whose unpacked size is not known."""
    format: str | None
    """The format, see :mod:`.formats`; None if the file cannot be read."""
    broker_id: int | None
    cluster: str
    problem: str | None = None


def look_at(
    paths: Sequence[str],
    *,
    cluster: str | None = None,
    broker_id: int | None = None,
    pattern: Pattern | None = None,
) -> list[Source]:
    """Describes the files below the paths, in order.

    ``cluster`` and ``broker_id`` override what the files contain.  ``pattern``: the layout of files
    that are not in the default layout.

    Raises:
        HistoryInvalid: a path does not exist or cannot be read, or there is no file below them.
    """
    found = [_look(path, pattern) for path in _files(paths)]
    if not found:
        raise HistoryInvalid(f"no log file below {', '.join(paths)}")
    return _without_duplicates(_with_clusters(found, cluster, broker_id))


class _Look(NamedTuple):
    path: Path
    source: Source
    cluster_id: str | None
    digest: str


def is_log(path: Path) -> bool:
    """Whether a file in a folder has the name of a log, maybe rotated or packed.

    A segment of a partition's records, ``00000000000000000042.log``, has not.
    """
    name = path.name.removesuffix(".gz").removesuffix(".zst")
    is_known = bool(_LOG.search(name)) and not _SEGMENT.match(name)
    return is_known and name != "timeline.jsonl"


def _files(paths: Iterable[str]) -> list[Path]:
    files: dict[Path, None] = {}
    for name in paths:
        path = Path(name)
        if path.is_dir():
            files.update(
                dict.fromkeys(sorted(p for p in path.rglob("*") if is_log(p) and p.is_file()))
            )
        elif path.is_file():
            files[path] = None
        else:
            raise HistoryInvalid(f"no such file or folder: {name}")
    return list(files)


def _look(path: Path, pattern: Pattern | None) -> _Look:
    try:
        stat = path.stat()
        beginning = beginning_of(path, SNIFFED_BYTES)
    except OSError as error:
        raise HistoryInvalid(f"cannot read {path}: {error.strerror}") from None
    kind, problem = format_of(beginning, pattern)
    speakers = Counter((_OWN_BROKER if kind == "jsonl" else _SPEAKER).findall(beginning))
    in_path = _BROKER_IN_PATH.findall(str(path))
    broker = int(in_path[-1]) if in_path else None
    if speakers:
        broker = int(speakers.most_common(1)[0][0])
    if kind is not None and envelope_name(kind) and len(speakers) > 1:
        broker = None  # the file has lines of several brokers
    cluster = _CLUSTER_ID.search(beginning)
    return _Look(
        path,
        Source(
            str(path), stat.st_size, stat.st_mtime_ns // 1_000_000,
            0 if path.suffix in PACKED else stat.st_size, kind, broker, "", problem,
        ),
        cluster[1].decode() if cluster else None,
        hashlib.sha256(beginning).hexdigest(),
    )  # fmt: skip


def _with_clusters(
    looks: list[_Look], cluster: str | None, broker_id: int | None
) -> list[tuple[_Look, Source]]:
    """Adds the cluster: from the option, the file's lines, other files beside it, or its path."""
    ids: dict[Path, set[str]] = {}
    for look in looks:
        if look.cluster_id:
            for folder in (look.path.parent, look.path.parent.parent):
                ids.setdefault(folder, set()).add(look.cluster_id)
    all_ids = {look.cluster_id for look in looks if look.cluster_id}

    def attributed(look: _Look) -> Source:
        source = look.source
        if broker_id is not None:
            source = source._replace(broker_id=broker_id)
        named = cluster or look.cluster_id or _cluster_beside(look.path, ids)
        if named is None and source.broker_id is None and len(all_ids) == 1:
            # A log of no broker, such as ZooKeeper's, is no sign of another cluster.
            [named] = all_ids
        if named is None:
            named = _cluster_by_path(look.path)
        beside = sorted(ids.get(look.path.parent, ()))
        if source.format and len(beside) > 1 and not (cluster or look.cluster_id):
            whose = f"logs of {' and '.join(beside[:3])} are in its folder; say --cluster"
            source = source._replace(problem=f"whose it is cannot be told: {whose}")
        return source._replace(cluster=named)

    return [(look, attributed(look)) for look in looks]


def _cluster_beside(path: Path, ids: dict[Path, set[str]]) -> str | None:
    """The only cluster id that other logs in the folder, or in the one above, name."""
    for folder in (path.parent, path.parent.parent):
        known = ids.get(folder, set())
        if len(known) == 1:
            return next(iter(known))
    return None


def _cluster_by_path(path: Path) -> str:
    in_broker_folder = _BROKER_IN_PATH.search(path.parent.name)
    return (path.parent.parent if in_broker_folder else path.parent).name or "default"


def _without_duplicates(looks: list[tuple[_Look, Source]]) -> list[Source]:
    """Marks duplicates, also packed ones, so that each content is read only once."""
    first: dict[tuple[str, str], str] = {}
    sources: list[Source] = []
    for look, source in looks:
        same = (look.digest, look.path.name.split(".")[0])
        original = (
            first.setdefault(same, source.file)
            if source.format and source.size_bytes
            else source.file
        )
        if original != source.file and _equal(original, source.file):
            source = source._replace(format=None, problem=f"{DUPLICATE}{original}")
        sources.append(source)
    return sources


def _equal(one: str, other: str) -> bool:
    """Whether two files have the same unpacked content, and neither is damaged."""
    paths = Path(one), Path(other)
    if not any(path.suffix in PACKED for path in paths):
        sizes = {path.stat().st_size for path in paths}
        if len(sizes) > 1:
            return False
    return digest_of(paths[0]) == digest_of(paths[1]) is not None
