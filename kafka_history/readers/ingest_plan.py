"""Plans which files an ingest reads, and completes it; used with and without Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from kafka_history.readers.log_times import zone_of
from kafka_history.readers.manifest import (
    FOLLOWING,
    Manifest,
    read_manifest,
    write_manifest,
)
from kafka_history.readers.patterns import DEFAULT_PATTERN, Pattern
from kafka_history.readers.problems import HistoryInvalid
from kafka_history.readers.soundness import check_ingests
from kafka_history.readers.sources import Source, look_at

Tell = Callable[[int, int], None]
"""Called from time to time with the number of bytes read so far and the number of all bytes."""


class IngestOptions(NamedTuple):
    """How logs are to be read."""

    out: str
    """Directory of the Parquet tables."""
    time_zone: str = "UTC"
    """Zone of the brokers' clocks, such as ``Europe/Berlin``."""
    cluster: str | None = None
    """Cluster of all files; None: taken from the files."""
    broker_id: int | None = None
    """Broker of all lines that do not name one; None: taken from the files."""
    redact: str | None = None
    """Secret key for hashes that replace names, see :mod:`.redaction`; None: names are kept."""
    pattern: str | None = None
    """log4j's conversion pattern of files that are not in the default layout."""


def checked(options: IngestOptions) -> Pattern | None:
    """Checks the options; returns the layout they name, or None for the default one.

    Raises:
        HistoryInvalid: an option is not usable.
    """
    zone_of(options.time_zone)
    if options.pattern is None or options.pattern == DEFAULT_PATTERN:
        return None
    if options.redact is not None:
        raise HistoryInvalid("logs of another pattern cannot be redacted: --pattern or --redact")
    return Pattern(options.pattern, options.time_zone)


class Plan(NamedTuple):
    """What an ingest will read."""

    manifest: Manifest
    """The manifest before this ingest."""
    sources: list[Source]
    """Files that are new or have changed, also those that cannot be read."""
    number: str | None
    """The name of the ingest; None if no file is to be read."""


def plan(paths: Sequence[str], options: IngestOptions) -> Plan:
    """Looks at the files below the paths.

    Files that were read before, with the same size and time, are left out.

    Raises:
        HistoryInvalid: a path, option or the directory is not usable, or no file can be read.
    """
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    if (out / FOLLOWING).exists():
        raise HistoryInvalid(f"{out} is followed: only zkctl history follow adds to it")
    pattern = checked(options)  # raises here rather than in each worker
    manifest = read_manifest(out)
    looked_at = look_at(
        paths, cluster=options.cluster, broker_id=options.broker_id, pattern=pattern
    )
    sources = [s for s in looked_at if manifest.files.get(s.file) != (s.size_bytes, s.modified_ms)]
    is_readable = any(s.format for s in sources)
    if not manifest.ingests and not is_readable:
        problems = "; ".join(f"{s.file}: {s.problem}" for s in sources[:3])
        raise HistoryInvalid(f"no file can be read: {problems}")
    number = f"{len(manifest.ingests) + 1:06d}" if is_readable else None
    return Plan(manifest, sources, number)


def complete(planned: Plan, out: Path) -> None:
    """Checks that all rows are stored, then adds the ingest to the manifest.

    Raises:
        HistoryInvalid: rows are missing; the ingest is not added.
    """
    assert planned.number is not None, "nothing was read"
    check_ingests(out, [planned.number])
    # Do not note skipped files: the next ingest may read them with another pattern.
    files = {s.file: (s.size_bytes, s.modified_ms) for s in planned.sources if s.format}
    ingests = (*planned.manifest.ingests, planned.number)
    write_manifest(out, Manifest(ingests, {**planned.manifest.files, **files}))
