"""The stream: takes notes, stores batches, and reports new findings after each."""

from __future__ import annotations

import fcntl
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from shutil import rmtree
from threading import Event
from typing import Any, Final, NamedTuple

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its name everywhere)
from pyspark.sql.streaming.query import StreamingQuery

from kafka_history.analyses.history import History
from kafka_history.following.announcements import announce
from kafka_history.following.batches import BatchWriter, batch_of
from kafka_history.following.spool import NOTE_SCHEMA, Spool
from kafka_history.following.tailer import Problem, Tailer
from kafka_history.readers.ingest_plan import IngestOptions
from kafka_history.readers.manifest import FOLLOWING, read_manifest
from kafka_history.readers.problems import HistoryInvalid
from kafka_history.readers.session import SparkFailed, first_line
from kafka_history.readers.sources import look_at
from kafka_history.readers.store import read_events
from kafka_history.report.assemble import watched

ANNOUNCED_FILE: Final = "told.json"
NOTES_PER_BATCH: Final = 4
LOOKS_OF_ONCE: Final = 2
"""Two looks see that a file has stopped growing."""
SETTINGS: Final = {
    # Analyses of what came in the last hours: compiling them would take longer than they do.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    # A cluster may be called 007.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # The stream has no state, and a batch is stored in an own way.
    "spark.sql.streaming.minBatchesToRetain": "10",
}

Show = Callable[[list[dict[str, Any]]], None]
Complain = Callable[[Problem], None]


class FollowOptions(NamedTuple):
    """How logs are followed."""

    read: IngestOptions
    every_s: float = 5.0
    """Pause between two looks."""
    window_hours: int = 24
    """Findings are sought in the last hours of the logs, not in all that was ever stored."""
    is_once: bool = False
    """Take what is there, and end."""
    is_telling: bool = True
    """Whether findings are sought; else rows are stored only, at a fraction of the work."""
    timeout_s: float | None = None


def follow(
    spark: SparkSession, paths: Sequence[str], options: FollowOptions, show: Show,
    complain: Complain,
) -> None:  # fmt: skip
    """Follows the logs below the paths until ``timeout_s`` is over, or for ever.

    ``show`` gets rows of :data:`.announcements.KEYS`, ``complain`` what is wrong with a file.

    Raises:
        HistoryInvalid: a path or the directory is not usable, or another process follows into it
        already. SparkFailed: a batch could not be stored.
    """
    for path in paths:
        if not Path(path).exists():
            raise HistoryInvalid(f"no such file or folder: {path}")
    out = Path(options.read.out)
    folder = out / FOLLOWING
    if not folder.exists() and read_manifest(out).ingests:
        raise HistoryInvalid(
            f"{out} holds an ingest, which following cannot go on from: give another directory"
        )
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        following = _Following(spark, paths, options, show, complain)
        if options.is_once:
            following.once()
        else:
            following.for_ever()


class _Following:
    """One run: the caller's thread watches files and reports, Spark's threads store."""

    def __init__(
        self, spark: SparkSession, paths: Sequence[str], options: FollowOptions, show: Show,
        complain: Complain,
    ) -> None:  # fmt: skip
        self._spark = spark
        self._options = options
        self._show = show
        self._complain = complain
        self._folder = Path(options.read.out) / FOLLOWING
        self._spool = Spool(self._folder)
        look = partial(look_at, cluster=options.read.cluster, broker_id=options.read.broker_id)
        self._tailer = Tailer(self._spool, paths, look)
        self._is_stored = Event()
        # What was stored by a run that was killed before it could tell.
        self._is_stored.set()
        self._failure: Exception | None = None
        self._telling: str | None = None
        self._found: dict[str | None, dict[str, Any]] = {}
        """What is kept back, until nothing more comes."""

    def once(self) -> None:
        """Takes what is there."""
        for number in range(LOOKS_OF_ONCE):
            time.sleep(min(self._options.every_s, 1) if number else 0)
            self._look(is_last=number == LOOKS_OF_ONCE - 1)
        self._wait_for(self._started(availableNow=True))
        self._tell()
        self._settle()

    def for_ever(self) -> None:
        """Goes on until the time is over or the caller is interrupted."""
        every_s = self._options.every_s
        deadline = time.monotonic() + (self._options.timeout_s or float("inf"))
        query = self._started(processingTime=f"{every_s} seconds")
        try:
            while query.isActive and (left_s := deadline - time.monotonic()) > 0:
                is_new = self._look()
                if self._is_stored.is_set():
                    self._is_stored.clear()
                    self._tell()
                elif not is_new:
                    self._settle()
                self._is_stored.wait(min(every_s, left_s))
        finally:
            query.stop()
        self._wait_for(query)

    def _look(self, *, is_last: bool = False) -> bool:
        is_new = self._tailer.look(is_last=is_last)
        for problem in self._tailer.problems:
            self._complain(problem)
        return is_new

    def _started(self, **trigger: Any) -> StreamingQuery:
        notes = (
            self._spark.readStream.schema(NOTE_SCHEMA)
            .option("maxFilesPerTrigger", str(NOTES_PER_BATCH))
            .json(str(self._spool.notes))
        )
        return (
            notes.writeStream.foreachBatch(self._store)
            .option("checkpointLocation", str(self._folder / "checkpoint"))
            .trigger(**trigger)
            .start()
        )

    def _store(self, notes: DataFrame, batch_id: int) -> None:
        try:
            writer = BatchWriter(notes.sparkSession, self._folder, self._options.read)
            if not writer.is_done(batch_id):
                batch = batch_of(notes)
                writer.write(batch_id, batch)
                self._spool.clean_up(batch.last_look)
        except Exception as error:
            # Spark wraps it into a page of its own.
            self._failure = error
            raise
        self._is_stored.set()

    def _wait_for(self, query: StreamingQuery) -> None:
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            if self._failure is not None:
                raise self._failure from None
            raise SparkFailed(f"following broke off: {first_line(error)}") from None

    def _tell(self) -> None:
        """The new findings of every cluster."""
        out = Path(self._options.read.out)
        ingests = read_manifest(out).ingests
        if (
            not self._options.is_telling
            or not ingests
            or self._announced()["ingest"] == ingests[-1]
        ):
            return
        events = read_events(self._spark, out)
        ends = events.groupBy("cluster").agg(F.max("time_ms").alias("end_ms")).collect()
        self._found = {}
        for cluster, end_ms in sorted(ends, key=lambda row: row["cluster"] or ""):
            from_ms = (end_ms or 0) - self._options.window_hours * 3_600_000
            mine = events.where(
                events["cluster"].eqNullSafe(cluster) & (F.col("time_ms") >= from_ms)
            )
            with _scratch(self._folder / "answers") as answers:
                found = watched(History(mine.persist(), answers))
            mine.unpersist()
            if self._say(cluster, found, is_settled=False):
                self._found[cluster] = found
        self._telling = ingests[-1]
        if not self._found:
            self._remember({**self._announced(), "ingest": self._telling})

    def _settle(self) -> None:
        """Reports findings that were kept back: no more rows have come."""
        if not self._found:
            return
        for cluster, found in self._found.items():
            self._say(cluster, found, is_settled=True)
        self._found = {}
        self._remember({**self._announced(), "ingest": self._telling})

    def _say(self, cluster: str | None, found: dict[str, Any], *, is_settled: bool) -> bool:
        """Shows the new findings of a cluster; returns whether some are kept back."""
        kept = self._announced()
        new = announce(cluster, found, kept["told"], is_settled=is_settled)
        self._show(new.rows)
        # After the rows: a kill in between tells them twice, not never.
        self._remember({**kept, "told": new.announced})
        return new.is_held

    def _announced(self) -> dict[str, Any]:
        """The last ingest whose findings were reported, and the reported findings."""
        try:
            kept: dict[str, Any] = json.loads((self._folder / ANNOUNCED_FILE).read_text())
        except FileNotFoundError:
            return {"ingest": None, "told": {}}
        return kept

    def _remember(self, kept: dict[str, Any]) -> None:
        fresh = self._folder / f"{ANNOUNCED_FILE}.new"
        fresh.write_text(json.dumps(kept))
        fresh.replace(self._folder / ANNOUNCED_FILE)


@contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    rmtree(folder, ignore_errors=True)
    try:
        yield folder
    finally:
        rmtree(folder, ignore_errors=True)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Locks the directory against a second process; the lock ends with the process."""
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HistoryInvalid(f"somebody follows into {folder.parent} already") from None
        yield
