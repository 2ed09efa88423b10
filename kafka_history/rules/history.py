"""All findings about one cluster: each rule runs once, on the events that it needs.

:class:`Answers` passes each rule its input.  A subclass provides the events: from memory
(:class:`EventHistory`) or from Spark (:class:`kafka_history.analyses.history.History`).  Findings
that are few in any cluster are a list.  Findings that may be millions are a table, whose type the
subclass chooses; rules then see the rows of one partition at a time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property, partial
from operator import attrgetter
from typing import Any, Final, Generic, TypeAlias, TypeVar

from typing_extensions import override

from kafka_history.rules import acts as _acts
from kafka_history.rules import blast_radius as _blast_radius
from kafka_history.rules import blast_sums as _blast_sums
from kafka_history.rules import broker_lives as _broker_lives
from kafka_history.rules import clocks as _clocks
from kafka_history.rules import copies as _copies
from kafka_history.rules import departures as _departures
from kafka_history.rules import deposed_controllers as _deposed
from kafka_history.rules import failed_transitions as _failed_transitions
from kafka_history.rules import invariants as _invariants
from kafka_history.rules import isr_changes as _isr_changes
from kafka_history.rules import isr_sums as _isr_sums
from kafka_history.rules import leaderless as _leaderless
from kafka_history.rules import log_dir_failures as _log_dir_failures
from kafka_history.rules import min_isr as _min_isr
from kafka_history.rules import moment as _moment
from kafka_history.rules import outages as _outages
from kafka_history.rules import partition_states as _partition_states
from kafka_history.rules import reassignments as _reassignments
from kafka_history.rules import slow_requests as _slow_requests
from kafka_history.rules import tenures as _tenures
from kafka_history.rules import topic_deletions as _topic_deletions
from kafka_history.rules import totals as _totals
from kafka_history.rules import unclean_elections as _unclean_elections
from kafka_history.rules import windows as _windows
from kafka_history.rules import zookeeper_gaps as _zookeeper_gaps
from kafka_history.rules.dead_leaders import Window
from kafka_history.rules.event import Event, in_order
from kafka_history.rules.partition_states import State

TOPIC_PARTITION: Final = ("topic", "partition")
Row: TypeAlias = Mapping[str, Any]
TopicPartition: TypeAlias = tuple[str, int]
Finding = TypeVar("Finding", bound=tuple[Any, ...])
Table = TypeVar("Table")


class Answers(ABC, Generic[Table]):
    """The events of one cluster and the findings made from them.

    ``Table`` is the subclass's type for many rows.
    """

    # What a subclass provides: events and operations on tables.

    wanting: Sequence[Row] = ()
    """The files that were not read, were read in part, or were not understood."""

    @property
    @abstractmethod
    def totals(self) -> _totals.Totals:
        """Sums over all lines."""

    @property
    @abstractmethod
    def unknown_lines(self) -> Sequence[_totals.UnknownLines]:
        """Lines that no shape explains, the most frequent first."""

    @abstractmethod
    def said(self, kinds: Collection[str]) -> list[Event]:
        """The events of these kinds, in order."""

    @abstractmethod
    def taken(
        self, answer: Table | Sequence[Any], *order: str, limit: int
    ) -> tuple[list[dict[str, Any]], int]:
        """The first ``limit`` rows, and how many were left out: see :func:`taken_here`."""

    @abstractmethod
    def listed(self, table: Table, kind: type[Finding]) -> list[Finding]:
        """All rows of a table as values of ``kind``; the table must have the fields of ``kind``."""

    @abstractmethod
    def biographies(self, partitions: Collection[TopicPartition]) -> list[State]:
        """All states of these partitions."""

    @abstractmethod
    def longest_outages(self, limit: int) -> tuple[list[dict[str, Any]], int]:
        """The longest windows without a leader, as :meth:`taken` returns rows.

        Each row also has its duration, ``span_ms``.
        """

    @property
    @abstractmethod
    def _copied_lines(self) -> Table: ...

    @abstractmethod
    def _events(self, kinds: Collection[str], columns: Sequence[str]) -> Table:
        """The events of these kinds, with at least these columns."""

    @abstractmethod
    def _events_of_logs(self, kinds: Collection[str], columns: Sequence[str]) -> Table:
        """As :meth:`_events`, with the partition taken from the text where no column has it."""

    @abstractmethod
    def _in_each(
        self,
        rule: Callable[..., Iterable[Finding]],
        kind: type[Finding],
        *needed: tuple[type[Any], Table],
        keys: Sequence[str] = TOPIC_PARTITION,
    ) -> Table:
        """The findings of type ``kind`` that ``rule`` makes for each partition.

        ``needed``: for each argument of the rule, the type of its rows and their table.  The rule
        gets lists of one partition's rows, in no order.  ``keys``: the columns by which rows are
        grouped, instead of the partition; rows with a null key are left out.
        """

    @abstractmethod
    def _and(self, table: Table, found: Iterable[Finding], kind: type[Finding]) -> Table:
        """The rows of the table and these findings, as one table."""

    @abstractmethod
    def _first_of(self, kinds: Collection[str], *keys: str) -> list[Event]:
        """The first event of these kinds for each combination of values in the ``keys`` columns."""

    @abstractmethod
    def _first_works(self) -> list[Event]:
        """The first state-change line of each controller in each controller epoch."""

    @abstractmethod
    def _late_works(self) -> list[Event]:
        """State-change lines of controllers; at least those written after their tenures."""

    @abstractmethod
    def _last_words(self) -> Mapping[int | None, _tenures.LastWords]: ...

    @abstractmethod
    def _signs_of_life(
        self, marks: Sequence[Event]
    ) -> Iterable[tuple[int, _broker_lives.SignOfLife]]: ...

    @abstractmethod
    def _within_silences(self, client: Sequence[Event]) -> Iterable[Event]:
        """The last event of the broker in each silence of its ZooKeeper client."""

    @abstractmethod
    def _stale_answers(self) -> Iterable[Event]:
        """Responses of brokers that may refuse a deposed controller's requests."""

    @abstractmethod
    def _compared_requests(self) -> Iterable[_clocks.ComparedRequest]: ...

    @abstractmethod
    def _counted_lines(self, both: _windows.Both) -> Iterable[_windows.CountedLines]: ...

    def _kept(
        self, name: str, kind: type[Finding], make: Callable[[], Iterable[Finding]]
    ) -> list[Finding]:
        """The findings of ``make``; a subclass may store them under ``name`` for the next run."""
        del name, kind
        return list(make())

    def _kept_table(self, name: str, kind: type[Finding], make: Callable[[], Table]) -> Table:
        del name, kind
        return make()

    # The findings.

    @cached_property
    def copies(self) -> list[_copies.Copies]:
        """Files whose lines other files contain too."""
        sums = self._in_each(
            _copies.copies,
            _copies.Copies,
            (_copies.CopiedLine, self._copied_lines),
            keys=["file"],
        )
        return self.listed(sums, _copies.Copies)

    @cached_property
    def kafka_versions(self) -> list[str]:
        """The versions of Kafka that brokers log."""
        return _totals.kafka_versions(self.said({_totals.VERSION_KIND}))

    @cached_property
    def cluster_ids(self) -> list[str]:
        """The cluster ids that brokers log."""
        return _totals.cluster_ids(self.said({_totals.CLUSTER_KIND}))

    @cached_property
    def signs(self) -> list[_totals.LineSign]:
        """Kinds of lines that are findings by themselves, by broker."""
        return list(_totals.signs(self.said(_totals.SIGN_KINDS)))

    @cached_property
    def tenures(self) -> list[_tenures.Tenure]:
        """The tenures of controllers."""

        def make() -> Iterable[_tenures.Tenure]:
            marked = self.said(_tenures.ELECTIONS | _tenures.MARKS)
            named = self._first_of(_tenures.WITNESS_KINDS, "controller_id", "controller_epoch")
            needed = in_order([*marked, *named, *self._first_works()])
            return _tenures.tenures(needed, self._last_words())

        return self._kept("tenures", _tenures.Tenure, make)

    @cached_property
    def phases(self) -> list[_tenures.Phase]:
        """The steps of failovers."""

        def make() -> Iterable[_tenures.Phase]:
            updates = self._first_of({_tenures.UPDATED}, "controller_epoch", "broker_id")
            needed = in_order([*self.said(_tenures.PHASE_KINDS), *updates])
            return _tenures.phases(needed, self.tenures)

        return self._kept("phases", _tenures.Phase, make)

    @cached_property
    def zombies(self) -> list[_deposed.Zombie]:
        """Controllers that continued after their successors' elections."""
        return list(_deposed.zombies(self._late_works(), self.tenures))

    @cached_property
    def refusals(self) -> list[_deposed.Refusal]:
        """Refused requests and writes of deposed controllers."""
        refused = self.said(_deposed.REFUSED_BY_BROKER | _deposed.REFUSED_BY_ZOOKEEPER)
        return list(_deposed.refusals(in_order([*refused, *self._stale_answers()])))

    @cached_property
    def broker_lives(self) -> list[_broker_lives.BrokerLife]:
        """The processes of brokers, with their starts and ends."""

        def make() -> Iterable[_broker_lives.BrokerLife]:
            marks = self.said(_broker_lives.MARKS)
            return _broker_lives.broker_lives(marks, self._signs_of_life(marks))

        return self._kept("broker_lives", _broker_lives.BrokerLife, make)

    @cached_property
    def session_expiries(self) -> list[_broker_lives.SessionExpiry]:
        """Lost ZooKeeper sessions, each with the pause that caused it, if any."""

        def make() -> Iterable[_broker_lives.SessionExpiry]:
            kinds = {*_broker_lives.EXPIRIES, *_broker_lives.VIEWS, _broker_lives.REGISTERED}
            lost = _broker_lives.session_expiries(self.said(kinds))
            return _departures.with_pauses(lost, self.pauses)

        return self._kept("session_expiries", _broker_lives.SessionExpiry, make)

    @cached_property
    def pauses(self) -> list[_departures.ProcessPause]:
        """Pauses of processes that lasted longer than their ZooKeeper session."""

        def make() -> Iterable[_departures.ProcessPause]:
            client = self.said(_departures.CLIENT)
            return _departures.pauses(in_order([*client, *self._within_silences(client)]))

        return self._kept("pauses", _departures.ProcessPause, make)

    @cached_property
    def departures(self) -> list[_departures.Departure]:
        """Departures of brokers and of log directories."""
        return list(
            _departures.departures(self.broker_lives, self.session_expiries, self.log_dir_failures)
        )

    @cached_property
    def zookeeper_gaps(self) -> list[_zookeeper_gaps.ZooKeeperGap]:
        """Times in which brokers had no connection to ZooKeeper."""
        said, brokers = self.said(_zookeeper_gaps.KINDS), len(self.totals.brokers)
        return list(
            _zookeeper_gaps.zookeeper_gaps(said, self.pauses, self.session_expiries, brokers)
        )

    @cached_property
    def log_dir_failures(self) -> list[_log_dir_failures.FailedLogDir]:
        """Log directories that failed."""

        def make() -> Iterable[_log_dir_failures.FailedLogDir]:
            return _log_dir_failures.log_dir_failures(self.said(_log_dir_failures.KINDS))

        return self._kept("log_dir_failures", _log_dir_failures.FailedLogDir, make)

    @cached_property
    def failed_transitions(self) -> list[_failed_transitions.FailedTransition]:
        """State transitions that failed."""
        said = self.said(_failed_transitions.KINDS)
        return list(_failed_transitions.failed_transitions(said))

    @cached_property
    def deletions(self) -> list[_topic_deletions.DeletedTopic]:
        """Deletions of topics, completed or not."""
        return self._kept(
            "deletions",
            _topic_deletions.DeletedTopic,
            lambda: _topic_deletions.topic_deletions(self.said(_topic_deletions.KINDS)),
        )

    @cached_property
    def reassignments(self) -> list[_reassignments.Reassignment]:
        """Reassignments of partitions."""
        return self._kept(
            "reassignments",
            _reassignments.Reassignment,
            lambda: _reassignments.reassignments(self.said(_reassignments.KINDS)),
        )

    @cached_property
    def request_times(self) -> list[_slow_requests.RequestDurations]:
        """How long each broker took for LeaderAndIsr requests."""
        return list(_slow_requests.request_times(self.said({_slow_requests.FINISHED})))

    @cached_property
    def clock_skew(self) -> list[_clocks.ClockSkew]:
        """Differences between the clocks of brokers and of controllers."""
        return list(_clocks.clocks(self._compared_requests()))

    @cached_property
    def acts(self) -> list[_acts.OperatorAct]:
        """Orders of operators, and balancing of leaders by the controller."""
        said = self.said(_acts.KINDS)
        return list(_acts.acts(said, self.tenures, self.deletions, self.reassignments))

    @cached_property
    def states(self) -> Table:
        """The states of all partitions: each a :class:`.partition_states.State`."""

        def make() -> Table:
            ends = _partition_states.deposed(self.tenures)
            gone = _partition_states.topic_ends(self.said({_partition_states.TOPIC_END}), ends)
            of_one = partial(_partition_states.partition_states, ends=ends, gone=gone)
            lines = self._events(_partition_states.STATE_KINDS, _partition_states.COLUMNS)
            return self._in_each(of_one, State, (Event, lines))

        return self._kept_table("states", State, make)

    @cached_property
    def isr_changes(self) -> Table:
        """Each broker that left or joined in-sync replicas."""

        def make() -> Table:
            return self._in_each(
                _isr_changes.isr_changes, _isr_changes.InSyncChange, (State, self.states)
            )

        return self._kept_table("isr_changes", _isr_changes.InSyncChange, make)

    @property
    @abstractmethod
    def isr_storms(self) -> Table:
        """Minutes in which leaders removed many replicas from ISRs."""

    @cached_property
    def isr_sums(self) -> list[_isr_sums.IsrSums]:
        """Changes of in-sync replicas by broker."""
        changes = (_isr_sums.CountedChange, self.isr_changes)
        sums = self._in_each(_isr_sums.isr_sums, _isr_sums.IsrSums, changes, keys=["broker"])
        return self.listed(sums, _isr_sums.IsrSums)

    def isr_heat(self, step_ms: int) -> Table:
        """Number of ISR shrinks by broker and by step of ``step_ms``."""
        changes = (_isr_sums.CountedChange, self.isr_changes)
        of_one = partial(_isr_sums.isr_heat, step_ms=step_ms)
        return self._in_each(of_one, _isr_sums.IsrHeat, changes, keys=["broker"])

    @cached_property
    def under_min_isr(self) -> Table:
        """Times in which partitions had fewer in-sync replicas than ``min.insync.replicas``."""
        kinds = (*_min_isr.SETTING_KINDS, _min_isr.REFUSAL_KIND)
        said = (Event, self._events(kinds, _min_isr.COLUMNS))
        needs = self._in_each(_min_isr.needs, _min_isr.IsrNeed, said, keys=["file"])
        needed = _min_isr.by_topic(self.listed(needs, _min_isr.IsrNeed))
        of_one = partial(_min_isr.under_min_isr, needed=needed)
        return self._in_each(of_one, _min_isr.UnderMinIsr, (State, self.states))

    @cached_property
    def unclean_elections(self) -> Table:
        """Elections of leaders that were not in sync."""
        return self._in_each(
            _unclean_elections.unclean_elections,
            _unclean_elections.UncleanElection,
            (State, self.states),
            (Event, self._events_of_logs(_unclean_elections.KINDS, _unclean_elections.COLUMNS)),
        )

    @cached_property
    def violations(self) -> Table:
        """Violations of the invariants, of partitions and of controllers."""
        of_partitions = self._in_each(
            _invariants.partition_violations,
            _invariants.Violation,
            (State, self.states),
            (Event, self._events({_invariants.LEADER_KIND}, _invariants.COLUMNS)),
        )
        of_controllers = _invariants.controller_violations(self.tenures)
        return self._and(of_partitions, of_controllers, _invariants.Violation)

    @cached_property
    def leaderless(self) -> Table:
        """Windows in which partitions had no leader."""

        def make() -> Table:
            begun = _leaderless.deletions_begun(self.said(_leaderless.DELETION_KINDS))
            of_one = partial(_leaderless.leaderless, gone=self.departures, begun=begun)
            said = self._events(_leaderless.KINDS, _leaderless.COLUMNS)
            return self._in_each(of_one, Window, (State, self.states), (Event, said))

        return self._kept_table("leaderless", Window, make)

    @cached_property
    def outages(self) -> list[_outages.Outage]:
        """The windows of :attr:`leaderless`, with only the fields that sums need."""
        return self.listed(self.leaderless, _outages.Outage)

    @cached_property
    def outage_sums(self) -> _outages.OutageSums:
        """The sums over :attr:`outages`."""
        return _outages.outage_sums(self.outages, self.end_ms)

    @cached_property
    def partition_sums(self) -> Table:
        """How often each partition changed, and how long it had no leader."""
        of_one = partial(_outages.partition_sums, end_ms=self.end_ms)
        needed = (State, self.states), (Window, self.leaderless)
        return self._in_each(of_one, _outages.PartitionSums, *needed)

    @cached_property
    def blast_radius(self) -> list[_blast_sums.BlastRadius]:
        """The sums of the changes that each departure caused."""
        done = _acts.effects(
            self.said(_acts.ELECTIONS), self.tenures, self.deletions, self.reassignments
        )
        of_one = partial(_blast_radius.changes, gone=self.departures, done=list(done))
        change, sums = _blast_radius.DepartureChange, _blast_sums.BlastSums
        needed = (State, self.states), (Window, self.leaderless)
        changes = self._in_each(of_one, change, *needed)
        summed = self._in_each(
            _blast_sums.blast_sums, sums, (change, changes), keys=["broker", "begun_ms"]
        )
        found = self.listed(summed, sums)
        return list(_blast_sums.blast_radius(self.departures, found, self.tenures))

    @property
    def end_ms(self) -> int:
        """The time of the last line; 0 without any."""
        return self.totals.to_ms or 0

    def partitions_at(self, at_ms: int | None) -> Table:
        """The partitions as they stood at a moment; None: at the end of the logs."""
        of_one = partial(_moment.partitions_at, at_ms=at_ms)
        return self._in_each(of_one, _moment.PartitionAt, (State, self.states))

    def differences(self, both: _windows.Both) -> list[_windows.WindowChange]:
        """Numbers of events in two windows of time, and their differences."""
        of_one = partial(_windows.counted_changes, both=both)
        needed = (State, self.states), (Window, self.leaderless)
        counted = self._in_each(of_one, _windows.Counted, *needed)
        summed = self._in_each(
            _windows.summed, _windows.Counted, (_windows.Counted, counted), keys=["metric"]
        )
        changes, lines = self.listed(summed, _windows.Counted), self._counted_lines(both)
        return _windows.differences(changes, lines, self.tenures, self.departures, both)


class EventHistory(Answers[list[Any]]):
    """The findings about one cluster, made from events in memory; a table is a list."""

    def __init__(self, read: Sequence[Event], wanting: Sequence[Row] = ()) -> None:
        """``read``: all events, in order; lines that several files contain are repeated.

        ``wanting``: the files that were not read, were read in part, or were not understood.
        """
        self._read = read
        self.wanting = wanting

    @cached_property
    def events(self) -> Sequence[Event]:
        """The events without copies: each line once, even if several files contain it."""
        copied = {(each.file, each.line) for each in self._copied_lines}
        if not copied:
            return self._read
        return [event for event in self._read if (event.file, event.line) not in copied]

    @cached_property
    @override
    def totals(self) -> _totals.Totals:
        return _totals.totals(self.events)

    @cached_property
    @override
    def unknown_lines(self) -> list[_totals.UnknownLines]:
        return _totals.unknown_lines(self.events)

    @override
    def said(self, kinds: Collection[str]) -> list[Event]:
        return in_order(event for kind in kinds for event in self._by_kind.get(kind, ()))

    @override
    def taken(
        self, answer: Sequence[Any], *order: str, limit: int
    ) -> tuple[list[dict[str, Any]], int]:
        return taken_here(answer, *order, limit=limit)

    @override
    def listed(self, table: list[Any], kind: type[Finding]) -> list[Finding]:
        return listed_here(table, kind)

    @override
    def biographies(self, partitions: Collection[TopicPartition]) -> list[State]:
        return biographies_here(self.states, partitions)

    @override
    def longest_outages(self, limit: int) -> tuple[list[dict[str, Any]], int]:
        return longest_outages_here(self.leaderless, self.end_ms, limit)

    @cached_property
    @override
    def isr_storms(self) -> list[_isr_changes.Storm]:
        return list(_isr_changes.isr_storms(self.isr_changes))

    @cached_property
    def _by_kind(self) -> Mapping[str, list[Event]]:
        found: defaultdict[str, list[Event]] = defaultdict(list)
        for event in self.events:
            if event.kind is not None:
                found[event.kind].append(event)
        return dict(found)

    @cached_property
    @override
    def _copied_lines(self) -> list[_copies.CopiedLine]:
        files = _copies.overlapping_files(_copies.logger_spans(self._read))
        return list(_copies.copied_lines(event for event in self._read if event.file in files))

    @override
    def _events(self, kinds: Collection[str], columns: Sequence[str]) -> list[Event]:
        del columns
        return self.said(kinds)

    @override
    def _events_of_logs(self, kinds: Collection[str], columns: Sequence[str]) -> list[Event]:
        del columns
        return [_unclean_elections.with_partition(event) for event in self.said(kinds)]

    @override
    def _in_each(
        self,
        rule: Callable[..., Iterable[Finding]],
        kind: type[Finding],
        *needed: tuple[type[Any], list[Any]],
        keys: Sequence[str] = TOPIC_PARTITION,
    ) -> list[Finding]:
        del kind
        return in_each_here(rule, *needed, keys=keys)

    @override
    def _and(
        self, table: list[Any], found: Iterable[Finding], kind: type[Finding]
    ) -> list[Finding]:
        del kind
        return [*table, *found]

    @override
    def _first_of(self, kinds: Collection[str], *keys: str) -> list[Event]:
        return first_of_each_here(self.said(kinds), keys)

    @cached_property
    def _works(self) -> list[Event]:
        return [event for event in self.events if _tenures.is_controllers(event)]

    @override
    def _first_works(self) -> list[Event]:
        found: dict[tuple[int | None, int | None], Event] = {}
        for event in self._works:
            found.setdefault((event.broker_id, event.controller_epoch), event)
        return list(found.values())

    @override
    def _late_works(self) -> list[Event]:
        return self._works

    @override
    def _last_words(self) -> Mapping[int | None, _tenures.LastWords]:
        return _tenures.last_words(self.events)

    @override
    def _signs_of_life(
        self, marks: Sequence[Event]
    ) -> Iterable[tuple[int, _broker_lives.SignOfLife]]:
        del marks
        return _broker_lives.signs_of_life(self.events)

    @override
    def _within_silences(self, client: Sequence[Event]) -> Iterable[Event]:
        at_ms = attrgetter("time_ms")
        for silence in _departures.silences(client):
            after = bisect_right(self.events, silence.heard_ms, key=at_ms)
            before = bisect_left(self.events, silence.to_ms, key=at_ms)
            for event in reversed(self.events[after:before]):
                is_other = event.kind not in _departures.CLIENT
                if is_other and _departures.wrote_within(silence, event.broker_id, event.time_ms):
                    yield event
                    break

    @override
    def _stale_answers(self) -> list[Event]:
        return self.said(_deposed.ANSWERS)

    @override
    def _compared_requests(self) -> Iterable[_clocks.ComparedRequest]:
        return _clocks.compared_requests(self.said(_clocks.KINDS))

    @override
    def _counted_lines(self, both: _windows.Both) -> Iterable[_windows.CountedLines]:
        return _windows.counted_lines(self.events, both)


FEW_KINDS: Final = frozenset().union(
    {_totals.VERSION_KIND, _totals.CLUSTER_KIND, _slow_requests.FINISHED},
    {_partition_states.TOPIC_END, _broker_lives.REGISTERED, _invariants.LEADER_KIND},
    {*_totals.SIGN_KINDS, *_min_isr.SETTING_KINDS, _min_isr.REFUSAL_KIND},
    {*_leaderless.DELETION_KINDS, *_leaderless.KINDS, *_unclean_elections.KINDS},
    _tenures.ELECTIONS | _tenures.MARKS | _tenures.PHASE_KINDS,
    _deposed.REFUSED_BY_BROKER | _deposed.REFUSED_BY_ZOOKEEPER,
    *(_broker_lives.MARKS, _broker_lives.EXPIRIES, _broker_lives.VIEWS, _departures.CLIENT),
    *(_zookeeper_gaps.KINDS, _log_dir_failures.KINDS, _failed_transitions.KINDS),
    *(_topic_deletions.KINDS, _reassignments.KINDS, _acts.KINDS, _acts.ELECTIONS),
)
"""Kinds of events that are few in most clusters; rules read them more than once."""

LONGEST: Final = ("-span_ms", "from_ms", "topic", "partition")
"""The order of windows without a leader, for :meth:`Answers.taken`: the longest first."""


def taken_here(answer: Iterable[Any], *order: str, limit: int) -> tuple[list[dict[str, Any]], int]:
    """The first ``limit`` rows of an answer in memory, and how many were left out.

    Rows are sorted by the fields of ``order``: ascending with null first, or for ``-field``
    descending with null last.
    """
    rows = [each if isinstance(each, dict) else each._asdict() for each in answer]

    def place(row: Row) -> list[tuple[bool, Any]]:
        found: list[tuple[bool, Any]] = []
        for key in order:
            value = row[key.removeprefix("-")]
            is_down = key.startswith("-")
            if value is None:
                found.append((is_down, 0))
            else:
                found.append((not is_down, -value if is_down else value))
        return found

    return sorted(rows, key=place)[:limit], max(len(rows) - limit, 0)


def listed_here(table: Iterable[Any], kind: type[Finding]) -> list[Finding]:
    """The rows of a table in memory as values of ``kind``."""
    fields = attrgetter(*kind._fields)  # type: ignore[attr-defined]
    return [row if isinstance(row, kind) else kind(*fields(row)) for row in table]


def in_each_here(
    rule: Callable[..., Iterable[Finding]],
    *needed: tuple[type[Any], Any],
    keys: Sequence[str] = TOPIC_PARTITION,
) -> list[Finding]:
    """The findings that ``rule`` makes for each partition, of tables in memory."""
    groups: dict[Any, tuple[list[Any], ...]] = {}
    key_of = attrgetter(*keys)
    for at, (_, rows) in enumerate(needed):
        for row in rows:
            key = key_of(row)
            if (group := groups.get(key)) is None:
                groups[key] = group = tuple([] for _ in needed)
            group[at].append(row)
    return [
        found
        for key, group in groups.items()
        if key is not None and not (isinstance(key, tuple) and None in key)
        for found in rule(*group)
    ]


def first_of_each_here(events: Iterable[Event], keys: Sequence[str]) -> list[Event]:
    """The first of the events, which must be in order, for each combination of the ``keys``."""
    found: dict[Any, Event] = {}
    for event in events:
        found.setdefault(tuple(getattr(event, key) for key in keys), event)
    return list(found.values())


def biographies_here(
    states: Iterable[State], partitions: Collection[TopicPartition]
) -> list[State]:
    """The states of these partitions."""
    return [state for state in states if (state.topic, state.partition) in partitions]


def longest_outages_here(
    windows: Iterable[Window], end_ms: int, limit: int
) -> tuple[list[dict[str, Any]], int]:
    """See :meth:`Answers.longest_outages`."""
    spans = ({**each._asdict(), "span_ms": _outages.span_ms(each, end_ms)} for each in windows)
    return taken_here(spans, *LONGEST, limit=limit)
