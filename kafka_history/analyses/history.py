"""The answers for one set of rows, each computed once and kept."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from pathlib import Path
from shutil import rmtree
from typing import Final
from uuid import uuid4

import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from kafka_history.readers.soundness import is_sound, seal

from .acts import acts, effects
from .blast_radius import blast_radius
from .broker_lives import broker_lives, session_expiries
from .clocks import clocks
from .copies import copies, overlapping_files, without_copies
from .departures import departures, pauses, with_pauses
from .deposed_controllers import refusals, zombies
from .failed_transitions import failed_transitions
from .invariants import violations
from .isr_changes import isr_changes
from .leaderless import leaderless
from .log_dir_failures import log_dir_failures
from .min_isr import under_min_isr
from .partition_states import partition_states
from .reassignments import reassignments
from .slow_requests import request_times
from .tenures import phases, tenures
from .topic_deletions import topic_deletions
from .unclean_elections import unclean_elections
from .zookeeper_gaps import zookeeper_gaps

THREADS: Final = 2
"""Questions to few rows that are asked at once."""
_WAVES: Final = (
    ("tenures", "broker_lives", "pauses", "log_dir_failures", "deletions", "reassignments"),
    ("states", "session_expiries", "phases"),
    ("departures", "isr_changes"),
    ("leaderless",),
)
"""Answers that are kept; those of one wave need only those of the waves before."""


class History:
    """One cluster's rows and what follows from them; every answer is a DataFrame.

    ``events``: rows of :mod:`kafka_history.event_schema`, of one cluster. What other
    answers are made of is kept: as Parquet below ``store``, where the next question finds it
    without any work, or, without a store, in Spark. Keeping it also cuts the plan: questions asked
    of questions would be planned from the first row on every time, which takes longer than the
    work.
    """

    def __init__(
        self,
        events: DataFrame,
        store: Path | None = None,
        sources: DataFrame | None = None,
        *,
        is_small: bool = False,
    ) -> None:
        """``is_small``: the rows are few (:data:`.soundness.SMALL_ROWS`).

        Then each table is one partition, the rows stay in memory, and no question moves rows
        between tasks.
        """
        self._read = events.coalesce(1).persist() if is_small else events
        self._store = store
        self._is_small = is_small
        self.sources = sources
        """Every file that was looked at, as the schema has it; None: not known."""

    def prepare(self) -> None:
        """Makes what other answers are made of, if the rows are few: several at once.

        Planning a question keeps one core busy, and its few rows hardly another.
        """
        if not self._is_small:
            return
        assert self.events is not None, "made once, before threads share it"
        with ThreadPoolExecutor(THREADS, "history-question") as pool:
            for independent in _WAVES:
                list(pool.map(partial(getattr, self), independent))

    @cached_property
    def _overlapping(self) -> DataFrame:
        return self._keep("overlapping_files", lambda: overlapping_files(self._read))

    @cached_property
    def events(self) -> DataFrame:
        """The rows, each line once, in however many files it stands."""
        if self._overlapping.isEmpty():
            return self._read
        return without_copies(self._read, self._overlapping)

    @cached_property
    def copies(self) -> DataFrame:
        """Files that repeat others: :func:`.copies.copies`."""
        return copies(self._read, self._overlapping)

    @cached_property
    def tenures(self) -> DataFrame:
        """Controller tenures: :func:`.tenures.tenures`."""
        return self._keep("tenures", lambda: tenures(self.events))

    @cached_property
    def phases(self) -> DataFrame:
        """Steps of failovers: :func:`.tenures.phases`."""
        return self._keep("phases", lambda: phases(self.events, self.tenures))

    @cached_property
    def broker_lives(self) -> DataFrame:
        """Lives of brokers: :func:`.broker_lives.broker_lives`."""
        return self._keep("broker_lives", lambda: broker_lives(self.events))

    @cached_property
    def session_expiries(self) -> DataFrame:
        """Lost ZooKeeper sessions, each with the pause that explains it if there was one."""
        return self._keep(
            "session_expiries", lambda: with_pauses(session_expiries(self.events), self.pauses)
        )

    @cached_property
    def departures(self) -> DataFrame:
        """What took brokers out of the cluster: :func:`.departures.departures`."""
        return self._keep(
            "departures",
            lambda: departures(self.broker_lives, self.session_expiries, self.log_dir_failures),
        )

    @cached_property
    def pauses(self) -> DataFrame:
        """Pauses of processes: :func:`.departures.pauses`."""
        return self._keep("pauses", lambda: pauses(self.events))

    @cached_property
    def zookeeper_gaps(self) -> DataFrame:
        """Times without ZooKeeper: :func:`.zookeeper_gaps.zookeeper_gaps`."""
        return zookeeper_gaps(self.events, self.pauses, self.session_expiries)

    @cached_property
    def log_dir_failures(self) -> DataFrame:
        """Directories that failed: :func:`.log_dir_failures.log_dir_failures`."""
        return self._keep("log_dir_failures", lambda: log_dir_failures(self.events))

    @cached_property
    def under_min_isr(self) -> DataFrame:
        """Partitions with too few in-sync replicas: :func:`.min_isr.under_min_isr`."""
        return under_min_isr(self.events, self.states)

    @cached_property
    def states(self) -> DataFrame:
        """States of partitions: :func:`.partition_states.partition_states`."""
        return self._keep("states", lambda: partition_states(self.events, self.tenures))

    @cached_property
    def leaderless(self) -> DataFrame:
        """Windows without a leader: :func:`.leaderless.leaderless`."""
        return self._keep(
            "leaderless", lambda: leaderless(self.events, self.states, self.departures)
        )

    @cached_property
    def isr_changes(self) -> DataFrame:
        """Changes of in-sync replicas: :func:`.isr_changes.isr_changes`."""
        return self._keep("isr_changes", lambda: isr_changes(self.states))

    @cached_property
    def unclean_elections(self) -> DataFrame:
        """Unclean elections: :func:`.unclean_elections.unclean_elections`."""
        return unclean_elections(self.events, self.states)

    @cached_property
    def zombies(self) -> DataFrame:
        """Deposed controllers that went on: :func:`.deposed_controllers.zombies`."""
        return zombies(self.events, self.tenures)

    @cached_property
    def refusals(self) -> DataFrame:
        """What was refused to deposed controllers: :func:`.deposed_controllers.refusals`."""
        return refusals(self.events)

    @cached_property
    def violations(self) -> DataFrame:
        """Broken invariants: :func:`.invariants.violations`."""
        return violations(self.events, self.states, self.tenures)

    @cached_property
    def failed_transitions(self) -> DataFrame:
        """Failed transitions: :func:`.failed_transitions.failed_transitions`."""
        return failed_transitions(self.events)

    @cached_property
    def deletions(self) -> DataFrame:
        """Deletions of topics: :func:`.topic_deletions.topic_deletions`."""
        return self._keep("deletions", lambda: topic_deletions(self.events))

    @cached_property
    def reassignments(self) -> DataFrame:
        """Moves of partitions: :func:`.reassignments.reassignments`."""
        return self._keep("reassignments", lambda: reassignments(self.events))

    @cached_property
    def acts(self) -> DataFrame:
        """What was ordered: :func:`.acts.acts`."""
        return acts(self.events, self.tenures, self.deletions, self.reassignments)

    @cached_property
    def request_times(self) -> DataFrame:
        """How long brokers took: :func:`.slow_requests.request_times`."""
        return request_times(self.events)

    @cached_property
    def clock_skew(self) -> DataFrame:
        """How far clocks are apart: :func:`.clocks.clocks`."""
        return clocks(self.events)

    @cached_property
    def blast_radius(self) -> DataFrame:
        """What followed from each departure: :func:`.blast_radius.blast_radius`."""
        done = effects(self.events, self.tenures, self.deletions, self.reassignments)
        return blast_radius(self.departures, self.states, self.leaderless, self.tenures, done)

    def _keep(self, name: str, answer: Callable[[], DataFrame]) -> DataFrame:
        if self._store is None:
            return answer().localCheckpoint()
        folder = self._store / name
        kept = None
        if not is_sound(folder):
            rmtree(folder, ignore_errors=True)
            # Under a name of its own until it is whole: two questions may be asked at once, and the
            # one that was interrupted must not be taken for an answer.
            mine = folder.with_name(f".{name}-{uuid4().hex}")
            kept = self._written(answer(), mine)
            seal(mine)
            try:
                mine.rename(folder)
            except OSError:  # another task was quicker, with the same answer
                rmtree(mine, ignore_errors=True)
        if kept is None:
            kept = self._read.sparkSession.read.parquet(str(folder))
        return kept.coalesce(1) if self._is_small else kept

    def _written(self, answer: DataFrame, folder: Path) -> DataFrame | None:
        """Writes an answer; the rows themselves if they are few, so that they need not be read."""
        if not self._is_small:
            answer.write.parquet(str(folder))
            return None
        rows = answer.toArrow()
        folder.mkdir(parents=True)
        pq.write_table(rows, folder / "part-00000.zstd.parquet", compression="zstd")
        return answer.sparkSession.createDataFrame(rows, answer.schema)
