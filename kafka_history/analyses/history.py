"""The findings about one cluster, computed by Spark, each once, and stored."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property, reduce
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from typing_extensions import override

from kafka_history.readers.soundness import is_sound
from kafka_history.rules import broker_lives as _broker_lives
from kafka_history.rules import clocks as _clocks
from kafka_history.rules import copies as _copies
from kafka_history.rules import departures as _departures
from kafka_history.rules import deposed_controllers as _deposed
from kafka_history.rules import isr_changes as _isr_changes
from kafka_history.rules import tenures as _tenures
from kafka_history.rules import totals as _totals
from kafka_history.rules import unclean_elections as _unclean_elections
from kafka_history.rules import windows as _windows
from kafka_history.rules.event import Event
from kafka_history.rules.history import (
    LONGEST,
    TOPIC_PARTITION,
    Answers,
    Row,
    TopicPartition,
    taken_here,
)
from kafka_history.rules.partition_states import State

from .carrying import as_rows, first_of_each, gathered, in_each, listed, of_kind, says
from .kept import findings, keep, keep_findings

_ORDER: Final = ("time_ms", "file", "line")
_EVER: Final = 2**62

Finding = TypeVar("Finding", bound=tuple[Any, ...])


class _Stretch(NamedTuple):
    """A span of time of the broker ``who``: from ``after_ms`` to ``until_ms``."""

    who: int
    after_ms: int
    until_ms: int


class History(Answers[DataFrame]):
    """The findings about one cluster, made from rows in Spark; a table is a DataFrame.

    ``events``: rows of :mod:`kafka_history.event_schema`, of one cluster. Findings that others
    need are stored as Parquet below ``store``, where the next run finds them, or without a store in
    Spark. This also keeps Spark's plans short: otherwise Spark would plan each query from the first
    row again, which takes longer than the query.
    """

    def __init__(
        self,
        events: DataFrame,
        store: Path | None = None,
        wanting: Sequence[Row] = (),
    ) -> None:
        """``wanting``: the files that were not read, were read in part, or were not understood."""
        self._read = events
        self._spark = events.sparkSession
        self._store = store
        self.wanting = wanting

    @cached_property
    def events(self) -> DataFrame:
        """The rows without copies: each line once, even if several files contain it."""
        if not self.copies:
            return self._read
        has_copies = F.col("file").isin(*(each.file for each in self.copies))
        copied = self._copied_lines.select("file", "line")
        kept = self._read.where(has_copies).join(copied, ["file", "line"], "left_anti")
        # Every analysis reads these rows.
        return self._read.where(~has_copies).unionByName(kept.persist())

    @cached_property
    @override
    def totals(self) -> _totals.Totals:
        sums = self.events.agg(
            F.count("*").alias("records"),
            F.count("shape").alias("typed"),
            F.min("time_ms").alias("from_ms"),
            F.max("time_ms").alias("to_ms"),
            F.array_sort(F.collect_set("broker_id")).alias("brokers"),
            F.count_if(F.col("level").isin("ERROR", "FATAL")).alias("errors"),
            F.count_if(F.col("level") == "WARN").alias("warnings"),
        )
        return listed(sums, _totals.Totals)[0]

    @cached_property
    @override
    def unknown_lines(self) -> list[_totals.UnknownLines]:
        sample = F.substring("text", 1, _totals.SAMPLE_CHARACTERS).alias("text")
        alike = (
            self.events.where("shape IS NULL")
            .groupBy("logger", "level")
            .agg(F.count("*").alias("count"), F.min(F.struct(*_ORDER, sample)).alias("e"))
            .select("logger", "level", "count", "e.text", "e.file", "e.line")
        )
        return listed(alike.orderBy(F.desc("count")), _totals.UnknownLines)

    @override
    def said(self, kinds: Collection[str]) -> list[Event]:
        return gathered(self.events.where(of_kind(kinds)))

    @override
    def taken(
        self, answer: DataFrame | Sequence[Any], *order: str, limit: int
    ) -> tuple[list[dict[str, Any]], int]:
        if not isinstance(answer, DataFrame):
            return taken_here(answer, *order, limit=limit)
        keys = [F.desc(key[1:]) if key.startswith("-") else F.asc(key) for key in order]
        rows = [row.asDict(recursive=True) for row in answer.orderBy(*keys).take(limit + 1)]
        return rows[:limit], answer.count() - limit if len(rows) > limit else 0

    @override
    def listed(self, table: DataFrame, kind: type[Finding]) -> list[Finding]:
        return listed(table, kind)

    @override
    def biographies(self, partitions: Collection[TopicPartition]) -> list[State]:
        of_each = (
            (F.col("topic") == topic) & (F.col("partition") == partition)
            for topic, partition in partitions
        )
        return listed(self.states.where(reduce(Column.__or__, of_each, F.lit(False))), State)

    @override
    def longest_outages(self, limit: int) -> tuple[list[dict[str, Any]], int]:
        span_ms = F.coalesce("to_ms", F.lit(self.end_ms)) - F.col("from_ms")
        return self.taken(self.leaderless.withColumn("span_ms", span_ms), *LONGEST, limit=limit)

    @cached_property
    @override
    def isr_storms(self) -> DataFrame:
        minute = F.floor(F.col("at_ms") / _isr_changes.STORM_STEP_MS).alias("minute")
        shrinks = self.isr_changes.where("change = 'shrink' AND by = 'leader'").select("*", minute)
        needed = (_isr_changes.InSyncChange, shrinks)
        return in_each(_isr_changes.isr_storms, _isr_changes.Storm, needed, keys=["minute"])

    @cached_property
    @override
    def _copied_lines(self) -> DataFrame:
        def make() -> DataFrame:
            spoke = (
                self._read.where("logger IS NOT NULL AND time_ms IS NOT NULL")
                .groupBy("broker_id", "logger", "file")
                .agg(F.min("time_ms").alias("from_ms"), F.max("time_ms").alias("to_ms"))
            )
            files = _copies.overlapping_files(listed(spoke, _copies.LoggerSpan))
            # Texts are only compared, so their digests are enough.
            texts = (F.md5(name).alias(name) for name in ("text", "exception_message"))
            others = ("file", "line", "broker_id", "time_ms", "level", "logger")
            needed = self._read.where(F.col("file").isin(*files)).select(*others, *texts)
            of_one = _copies.copied_lines
            return in_each(of_one, _copies.CopiedLine, (Event, needed), keys=["time_ms"])

        return self._kept_table("copied_lines", make)

    @override
    def _events(self, kinds: Collection[str], columns: Sequence[str]) -> DataFrame:
        return self._timed(kinds).select(*columns)

    @override
    def _events_of_logs(self, kinds: Collection[str], columns: Sequence[str]) -> DataFrame:
        def named(group: int) -> Column:
            words = F.regexp_extract("text", _unclean_elections.LOADED, group)
            return F.nullif(words, F.lit(""))

        return self._timed(kinds).select(
            F.coalesce("topic", named(1)).alias("topic"),
            F.coalesce("partition", named(2).try_cast("int")).alias("partition"),
            *columns,
        )

    def _timed(self, kinds: Collection[str]) -> DataFrame:
        return self.events.where(of_kind(kinds) & F.col("time_ms").isNotNull())

    @override
    def _in_each(
        self,
        rule: Callable[..., Iterable[Finding]],
        kind: type[Finding],
        *needed: tuple[type[Any], DataFrame],
        keys: Sequence[str] = TOPIC_PARTITION,
    ) -> DataFrame:
        return in_each(rule, kind, *needed, keys=keys)

    @override
    def _and(self, table: DataFrame, found: Iterable[Finding], kind: type[Finding]) -> DataFrame:
        return table.unionByName(as_rows(self._spark, found, kind))

    @override
    def _first_of(self, kinds: Collection[str], *keys: str) -> list[Event]:
        return gathered(first_of_each(self.events.where(of_kind(kinds)), keys, *_ORDER))

    @property
    def _works(self) -> DataFrame:
        is_own = "logger = 'state.change.logger' AND component = 'controller'"
        return self.events.where(is_own).where("controller_epoch IS NOT NULL")

    @override
    def _first_works(self) -> list[Event]:
        # There may be millions of such lines; the first of each controller and epoch is enough.
        return gathered(first_of_each(self._works, ["broker_id", "controller_epoch"], *_ORDER))

    @override
    def _late_works(self) -> list[Event]:
        ended = as_rows(self._spark, self.tenures, _tenures.Tenure).select(
            F.col("broker").alias("z"), F.col("controller_epoch").alias("z_epoch"), "to_ms"
        )
        is_late = (
            (F.col("broker_id") == F.col("z"))
            & (F.col("controller_epoch") == F.col("z_epoch"))
            & (F.col("time_ms") > F.col("to_ms") + _tenures.GRACE_MS)
        )
        return gathered(self._works.join(F.broadcast(ended), is_late, "left_semi"))

    @override
    def _last_words(self) -> Mapping[int | None, _tenures.LastWords]:
        is_controllers = F.col("logger").startswith("kafka.controller")
        spoke = self.events.groupBy("broker_id").agg(
            F.max("time_ms").alias("last_ms"), F.max(is_controllers).alias("has_log")
        )
        return {
            row["broker_id"]: _tenures.LastWords(row["last_ms"], bool(row["has_log"]))
            for row in spoke.collect()
        }

    @override
    def _signs_of_life(self, marks: Sequence[Event]) -> list[tuple[int, _broker_lives.SignOfLife]]:
        """The first and the last sign of life of each broker between two of its starts."""
        starts = sorted(set(_broker_lives.starts(marks)))
        stretches = [
            _Stretch(broker, from_ms, until_ms)
            for broker, of_one in groupby(starts, itemgetter(0))
            for (_, from_ms), (_, until_ms) in pairwise([*of_one, (broker, _EVER)])
        ]
        between = as_rows(self._spark, stretches, _Stretch)
        is_dump = F.coalesce(of_kind({_broker_lives.DUMP}), F.lit(False))
        second = F.floor(F.col("time_ms") / 1000)
        # One second may hold the end of one process and the start of the next.
        begun_in_it = (F.col("starting") == F.col("broker_id")) & (
            F.floor(F.col("begun_ms") / 1000) == second
        )
        each_second = (
            self.events.where("broker_id IS NOT NULL AND time_ms IS NOT NULL")
            .where(~says(*_broker_lives.PRELUDE) & ~is_dump)
            .join(F.broadcast(between.toDF("starting", "begun_ms", "_")), begun_in_it, "left")
            .groupBy("broker_id", second, "begun_ms", F.col("time_ms") >= F.col("begun_ms"))
            .agg(F.max(F.struct(*_ORDER)).alias("e"))
        )
        is_in = (F.col("who") == F.col("broker_id")) & (
            F.col("e.time_ms").between(F.col("after_ms"), F.col("until_ms") - 1)
        )
        found = (
            each_second.join(F.broadcast(between), is_in, "left")
            .groupBy("broker_id", "after_ms")
            .agg(F.min("e").alias("first"), F.max("e").alias("last"))
        )
        return [
            (row["broker_id"], _broker_lives.SignOfLife(*row[name]))
            for row in found.collect()
            for name in ("first", "last")
        ]

    @override
    def _within_silences(self, client: Sequence[Event]) -> list[Event]:
        stretches = [
            _Stretch(silence.broker, silence.heard_ms, silence.to_ms - _departures.AWAKE_MS)
            for silence in _departures.silences(client)
        ]
        if not stretches:
            return []
        is_within = (
            (F.col("who") == F.col("broker_id"))
            & (F.col("time_ms") > F.col("after_ms"))
            & (F.col("time_ms") < F.col("until_ms"))
        )
        others = self.events.where(~F.coalesce(of_kind(_departures.CLIENT), F.lit(False)))
        wrote = others.join(F.broadcast(as_rows(self._spark, stretches, _Stretch)), is_within)
        return gathered(first_of_each(wrote, _Stretch._fields, F.desc("time_ms")))

    @override
    def _stale_answers(self) -> list[Event]:
        is_stale = (F.col("error_code") == _deposed.STALE_CODE) | (F.col("error") == _deposed.STALE)
        return gathered(self.events.where(of_kind(_deposed.ANSWERS) & is_stale))

    @override
    def _compared_requests(self) -> list[_clocks.ComparedRequest]:
        is_received = of_kind({_clocks.RECEIVED})
        is_answer = of_kind({_clocks.ANSWERED}) & (F.col("request") == _clocks.REQUEST)
        # There is a line for each partition of each request, so compare them in the workers.
        each = (
            self._timed(_clocks.KINDS)
            .where(of_kind({_clocks.SENT}) | is_received | is_answer)
            .select(
                *_clocks.COLUMNS,
                F.when(is_received, F.col("controller_id"))
                .otherwise(F.col("broker_id"))
                .alias("s"),
                F.when(is_received, F.col("broker_id")).otherwise(F.col("peer")).alias("r"),
            )
        )
        kind, keys = _clocks.ComparedRequest, ("s", "r", "controller_epoch")
        return listed(in_each(_clocks.compared_requests, kind, (Event, each), keys=keys), kind)

    @override
    def _counted_lines(self, both: _windows.Both) -> list[_windows.CountedLines]:
        first, second = (
            F.count_if((F.col("time_ms") >= from_ms) & (F.col("time_ms") < to_ms)).alias(name)
            for (from_ms, to_ms), name in zip(both, ("first", "second"), strict=True)
        )
        is_known = F.col("shape").isNotNull().alias("is_known")
        alike = self.events.groupBy("level", "kind", "exception_class", is_known)
        return listed(alike.agg(first, second), _windows.CountedLines)

    @override
    def _kept(
        self, name: str, kind: type[Finding], make: Callable[[], Iterable[Finding]]
    ) -> list[Finding]:
        if self._store is None:
            return list(make())
        kept = findings(self._store, name, kind)
        if kept is None:
            kept = list(make())
            keep_findings(self._store / name, kept, kind)
        return kept

    @override
    def _kept_table(self, name: str, make: Callable[[], DataFrame]) -> DataFrame:
        if self._store is None:
            return make().localCheckpoint()
        folder = self._store / name
        if not is_sound(folder):
            answer = make()
            keep(folder, lambda mine: answer.write.parquet(str(mine)))
        return self._spark.read.parquet(str(folder))
