"""The findings about one cluster, computed by Spark, each once, and stored."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, reduce
from itertools import chain, groupby, pairwise
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

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
from kafka_history.rules.event import Event, in_order
from kafka_history.rules.history import (
    FEW_KINDS,
    LONGEST,
    TOPIC_PARTITION,
    Answers,
    Row,
    TopicPartition,
    biographies_here,
    first_of_each_here,
    in_each_here,
    listed_here,
    longest_outages_here,
    taken_here,
)
from kafka_history.rules.partition_states import State

from .carrying import as_rows, first_of_each, gathered, in_each, listed, of_kind, says
from .kept import findings, keep, keep_findings

_ORDER: Final = ("time_ms", "file", "line")
_EVER: Final = 2**62
FEW_ROWS: Final = 300_000
"""Up to this many events or findings are held in the driver, where rules need no job of Spark."""

Table: TypeAlias = DataFrame | list[Any]
"""Many rows in Spark, or at most :data:`FEW_ROWS` in the driver."""
Finding = TypeVar("Finding", bound=tuple[Any, ...])


class _Stretch(NamedTuple):
    """A span of time of the broker ``who``: from ``after_ms`` to ``until_ms``."""

    who: int
    after_ms: int
    until_ms: int


class _Sum(NamedTuple):
    """The number and the times of the lines of one logger and level in one file."""

    file: str
    broker_id: int | None
    logger: str | None
    level: str | None
    is_typed: bool
    records: int
    few: int
    """Records that :attr:`History._few` holds if all together are not too many."""
    from_ms: int | None
    to_ms: int | None


class History(Answers[Table]):
    """The findings about one cluster, made from rows in Spark.

    ``events``: rows of :mod:`kafka_history.event_schema`, of one cluster. Findings that others
    need are stored as Parquet below ``store``, where the next run finds them, or without a store in
    Spark. This also keeps Spark's plans short: otherwise Spark would plan each query from the first
    row again, which takes longer than the query.

    To plan and compile a query takes longer than to read a million rows. So one job gathers the
    events of :data:`.FEW_KINDS`, and stored tables with few rows are read into the driver, if they
    have no more than :data:`FEW_ROWS` rows.
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
        copied = self._frame(_copies.CopiedLine, self._copied_lines).select("file", "line")
        kept = self._read.where(has_copies).join(copied, ["file", "line"], "left_anti")
        # Every analysis reads these rows.
        return self._read.where(~has_copies).unionByName(kept.persist())

    @cached_property
    @override
    def totals(self) -> _totals.Totals:
        sums = self._sums
        of_level: defaultdict[str | None, int] = defaultdict(int)
        for each in sums:
            of_level[each.level] += each.records
        return _totals.Totals(
            records=sum(each.records for each in sums),
            typed=sum(each.records for each in sums if each.is_typed),
            from_ms=min((each.from_ms for each in sums if each.from_ms is not None), default=None),
            to_ms=max((each.to_ms for each in sums if each.to_ms is not None), default=None),
            brokers=sorted({each.broker_id for each in sums if each.broker_id is not None}),
            errors=of_level["ERROR"] + of_level["FATAL"],
            warnings=of_level["WARN"],
        )

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
        if self._few is None or not FEW_KINDS.issuperset(kinds):
            return gathered(self.events.where(of_kind(kinds)))
        return _of_kinds(self._few, kinds)

    @cached_property
    def _few(self) -> Mapping[str | None, list[Event]] | None:
        """The events of :data:`.FEW_KINDS` by kind, and stale answers; None: they are too many."""
        if sum(each.few for each in self._sums) > FEW_ROWS:
            return None
        return _grouped(gathered(self.events.where(_is_of_few())), attrgetter("kind"))

    @override
    def taken(
        self, answer: Table | Sequence[Any], *order: str, limit: int
    ) -> tuple[list[dict[str, Any]], int]:
        if not isinstance(answer, DataFrame):
            return taken_here(answer, *order, limit=limit)
        keys = [F.desc(key[1:]) if key.startswith("-") else F.asc(key) for key in order]
        rows = [row.asDict(recursive=True) for row in answer.orderBy(*keys).take(limit + 1)]
        return rows[:limit], answer.count() - limit if len(rows) > limit else 0

    @override
    def listed(self, table: Table, kind: type[Finding]) -> list[Finding]:
        return listed(table, kind) if isinstance(table, DataFrame) else listed_here(table, kind)

    @override
    def biographies(self, partitions: Collection[TopicPartition]) -> list[State]:
        states = self.states
        if not isinstance(states, DataFrame):
            return biographies_here(states, partitions)
        of_each = (
            (F.col("topic") == topic) & (F.col("partition") == partition)
            for topic, partition in partitions
        )
        return listed(states.where(reduce(Column.__or__, of_each, F.lit(False))), State)

    @override
    def longest_outages(self, limit: int) -> tuple[list[dict[str, Any]], int]:
        windows = self.leaderless
        if not isinstance(windows, DataFrame):
            return longest_outages_here(windows, self.end_ms, limit)
        span_ms = F.coalesce("to_ms", F.lit(self.end_ms)) - F.col("from_ms")
        return self.taken(windows.withColumn("span_ms", span_ms), *LONGEST, limit=limit)

    @cached_property
    @override
    def isr_storms(self) -> Table:
        changes = self.isr_changes
        if not isinstance(changes, DataFrame):
            return list(_isr_changes.isr_storms(changes))
        minute = F.floor(F.col("at_ms") / _isr_changes.STORM_STEP_MS).alias("minute")
        shrinks = changes.where("change = 'shrink' AND by = 'leader'").select("*", minute)
        needed = (_isr_changes.InSyncChange, shrinks)
        return in_each(_isr_changes.isr_storms, _isr_changes.Storm, needed, keys=["minute"])

    @cached_property
    def _sums(self) -> list[_Sum]:
        return _sums_of(self.events) if self.copies else self._sums_with_copies

    @cached_property
    def _sums_with_copies(self) -> list[_Sum]:
        return _sums_of(self._read)

    @cached_property
    @override
    def _copied_lines(self) -> Table:
        def make() -> Table:
            files = _copies.overlapping_files(_spans(self._sums_with_copies))
            # Texts are only compared, so their digests are enough.
            texts = [F.md5(name).alias(name) for name in ("text", "exception_message")]
            others = ("file", "line", "broker_id", "time_ms", "level", "logger")
            is_change = (F.col("logger") == _copies.STATE_CHANGE_LOGGER) & F.isnotnull("kind")
            said = F.xxhash64(
                *("broker_id", "time_ms", "level", "logger", "exception_message"),
                F.when(~is_change, F.col("text")),
                *(F.when(is_change, F.col(name)) for name in _copies.CHANGE_COLUMNS),
            )
            lines = self._read.where(F.col("file").isin(*files)).withColumn("said", said)
            # Most lines are in one file.  Leave them out before Python sees them.
            file = F.xxhash64("file")
            sums = lines.groupBy("said").agg(F.min(file).alias("one"), F.max(file).alias("other"))
            repeated = sums.where("one <> other").select("said")
            few = repeated.limit(FEW_ROWS + 1).toArrow()
            if not few.num_rows:
                return []
            if few.num_rows <= FEW_ROWS:
                repeated = F.broadcast(self._spark.createDataFrame(few))
            needed = lines.join(repeated, "said", "left_semi").select(
                "said", *others, *_copies.CHANGE_COLUMNS, *texts
            )
            of_one = _copies.copied_lines
            return in_each(of_one, _copies.CopiedLine, (Event, needed), keys=["said"])

        return self._kept_table("copied_lines", _copies.CopiedLine, make)

    @override
    def _events(self, kinds: Collection[str], columns: Sequence[str]) -> Table:
        if self._few is not None and FEW_KINDS.issuperset(kinds):
            return self.said(kinds)
        return self._timed(kinds).select(*columns)

    @override
    def _events_of_logs(self, kinds: Collection[str], columns: Sequence[str]) -> Table:
        if self._few is not None and FEW_KINDS.issuperset(kinds):
            return [_unclean_elections.with_partition(event) for event in self.said(kinds)]

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
        *needed: tuple[type[Any], Table],
        keys: Sequence[str] = TOPIC_PARTITION,
    ) -> Table:
        if not any(isinstance(table, DataFrame) for _, table in needed):
            return in_each_here(rule, *needed, keys=keys)
        frames = ((make, self._frame(make, table)) for make, table in needed)
        return in_each(rule, kind, *frames, keys=keys)

    def _frame(self, kind: type[Any], table: Table) -> DataFrame:
        return table if isinstance(table, DataFrame) else as_rows(self._spark, table, kind)

    @override
    def _and(self, table: Table, found: Iterable[Finding], kind: type[Finding]) -> Table:
        if not isinstance(table, DataFrame):
            return [*table, *found]
        return table.unionByName(as_rows(self._spark, found, kind))

    @override
    def _first_of(self, kinds: Collection[str], *keys: str) -> list[Event]:
        return first_of_each_here((event for event in self._firsts if event.kind in kinds), keys)

    @property
    def _works(self) -> DataFrame:
        return self.events.where(_IS_WORK).select(*_tenures.WITNESS_COLUMNS)

    @override
    def _first_works(self) -> list[Event]:
        return [event for event in self._firsts if _tenures.is_controllers(event)]

    @cached_property
    def _firsts(self) -> list[Event]:
        """The first line of each broker that names a controller and an epoch, of each kind.

        There may be millions of such lines; these prove the beginnings of tenures.
        """
        witness = F.when(of_kind(_tenures.WITNESS_KINDS), F.col("kind")).alias("witness")
        lines = self.events.select(
            *_tenures.WITNESS_COLUMNS, witness, F.expr(_IS_WORK).alias("is_work")
        ).where("witness IS NOT NULL OR is_work")
        keys = "witness", "is_work", "broker_id", "controller_id", "controller_epoch"
        return gathered(first_of_each(lines, keys, *_ORDER))

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
        found: dict[int | None, _tenures.LastWords] = {}
        for broker, its in _grouped(self._sums, attrgetter("broker_id")).items():
            has_log = any((each.logger or "").startswith("kafka.controller") for each in its)
            last_ms = max(each.to_ms or 0 for each in its)
            found[broker] = _tenures.LastWords(last_ms, has_log)
        return found

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
        is_other = ~F.coalesce(of_kind(_departures.CLIENT), F.lit(False))
        others = self.events.where(is_other).select(*_ORDER, "broker_id")
        wrote = others.join(F.broadcast(as_rows(self._spark, stretches, _Stretch)), is_within)
        return gathered(first_of_each(wrote, _Stretch._fields, F.desc("time_ms")))

    @override
    def _stale_answers(self) -> list[Event]:
        if self._few is not None:
            return _of_kinds(self._few, _deposed.ANSWERS)
        return gathered(self.events.where(_is_stale_answer()))

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
    def _kept_table(self, name: str, kind: type[Finding], make: Callable[[], Table]) -> Table:
        if self._store is None:
            answer = make()
            return answer.localCheckpoint() if isinstance(answer, DataFrame) else answer
        folder = self._store / name
        if not is_sound(folder):
            answer = make()
            if not isinstance(answer, DataFrame):
                keep_findings(folder, answer, kind)
                return answer
            written = answer
            keep(folder, lambda mine: written.write.parquet(str(mine)))
        few = findings(self._store, name, kind, rows_max=FEW_ROWS)
        if few is not None:
            return few
        return self._spark.read.parquet(str(folder))


_IS_WORK: Final = (
    "logger = 'state.change.logger' AND component = 'controller' AND controller_epoch IS NOT NULL"
)
"""A condition: the row is a controller's own state-change line."""


def _is_of_few() -> Column:
    return of_kind(FEW_KINDS) | _is_stale_answer()


def _is_stale_answer() -> Column:
    """A condition: the row is a response that may refuse a deposed controller's request."""
    is_stale = (F.col("error_code") == _deposed.STALE_CODE) | (F.col("error") == _deposed.STALE)
    return of_kind(_deposed.ANSWERS) & is_stale


def _sums_of(rows: DataFrame) -> list[_Sum]:
    is_typed = F.isnotnull("shape").alias("is_typed")
    sums = rows.groupBy("file", "broker_id", "logger", "level", is_typed).agg(
        F.count("*").alias("records"),
        F.count_if(_is_of_few()).alias("few"),
        F.min("time_ms").alias("from_ms"),
        F.max("time_ms").alias("to_ms"),
    )
    return listed(sums, _Sum)


def _spans(sums: Iterable[_Sum]) -> Iterator[_copies.LoggerSpan]:
    by_file = _grouped(sums, attrgetter("broker_id", "logger", "file"))
    for (broker, logger, file), its in by_file.items():
        times = [ms for each in its for ms in (each.from_ms, each.to_ms) if ms is not None]
        if logger is not None and times:
            yield _copies.LoggerSpan(broker, logger, file, min(times), max(times))


def _grouped(found: Iterable[Finding], key: Callable[[Finding], Any]) -> dict[Any, list[Finding]]:
    groups: defaultdict[Any, list[Finding]] = defaultdict(list)
    for each in found:
        groups[key(each)].append(each)
    return groups


def _of_kinds(events: Mapping[str | None, list[Event]], kinds: Iterable[str]) -> list[Event]:
    return in_order(chain.from_iterable(events.get(kind, ()) for kind in kinds))
