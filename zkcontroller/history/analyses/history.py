"""The answers for one set of rows, each computed once and kept."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from shutil import rmtree
from uuid import uuid4

from pyspark.sql import DataFrame

from .blast_radius import blast_radius
from .broker_lives import broker_lives, session_expiries
from .clocks import clocks
from .deposed_controllers import refusals, zombies
from .failed_transitions import failed_transitions
from .invariants import violations
from .isr_changes import isr_changes
from .leaderless import departures, leaderless
from .partition_states import partition_states
from .reassignments import reassignments
from .slow_requests import request_times
from .tenures import phases, tenures
from .topic_deletions import topic_deletions
from .unclean_elections import unclean_elections


class History:
    """One cluster's rows and what follows from them; every answer is a DataFrame.

    ``events``: rows of :mod:`zkcontroller.history.event_schema`, of one cluster. What other
    answers are made of is kept: as Parquet below ``store``, where the next question finds it
    without any work, or, without a store, in Spark. Keeping it also cuts the plan: questions asked
    of questions would be planned from the first row on every time, which takes longer than the
    work.
    """

    def __init__(self, events: DataFrame, store: Path | None = None) -> None:
        self.events = events
        self._store = store

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
        """Lost ZooKeeper sessions: :func:`.broker_lives.session_expiries`."""
        return self._keep("session_expiries", lambda: session_expiries(self.events))

    @cached_property
    def departures(self) -> DataFrame:
        """Whatever took brokers out of the cluster: :func:`.leaderless.departures`."""
        return self._keep(
            "departures", lambda: departures(self.broker_lives, self.session_expiries)
        )

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
        return topic_deletions(self.events)

    @cached_property
    def reassignments(self) -> DataFrame:
        """Moves of partitions: :func:`.reassignments.reassignments`."""
        return reassignments(self.events)

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
        return blast_radius(self.departures, self.states, self.leaderless, self.tenures)

    def _keep(self, name: str, answer: Callable[[], DataFrame]) -> DataFrame:
        if self._store is None:
            return answer().localCheckpoint()
        folder = self._store / name
        if not folder.exists():
            # Under a name of its own until it is whole: two questions may be asked at once, and the
            # one that was interrupted must not be taken for an answer.
            mine = folder.with_name(f".{name}-{uuid4().hex}")
            answer().write.parquet(str(mine))
            try:
                mine.rename(folder)
            except OSError:  # another task was quicker, with the same answer
                rmtree(mine, ignore_errors=True)
        return self.events.sparkSession.read.parquet(str(folder))
