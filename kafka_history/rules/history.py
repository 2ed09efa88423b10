"""All answers about one cluster, out of events in memory: each rule is asked once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

from kafka_history.rules import acts as _acts
from kafka_history.rules import blast_radius as _blast_radius
from kafka_history.rules import blast_sums as _blast_sums
from kafka_history.rules import broker_lives as _broker_lives
from kafka_history.rules import clocks as _clocks
from kafka_history.rules import copies as _copies
from kafka_history.rules import dead_leaders as _dead_leaders
from kafka_history.rules import departures as _departures
from kafka_history.rules import deposed_controllers as _deposed
from kafka_history.rules import failed_transitions as _failed_transitions
from kafka_history.rules import invariants as _invariants
from kafka_history.rules import isr_changes as _isr_changes
from kafka_history.rules import isr_sums as _isr_sums
from kafka_history.rules import leaderless as _leaderless
from kafka_history.rules import log_dir_failures as _log_dir_failures
from kafka_history.rules import min_isr as _min_isr
from kafka_history.rules import partition_states as _partition_states
from kafka_history.rules import reassignments as _reassignments
from kafka_history.rules import slow_requests as _slow_requests
from kafka_history.rules import tenures as _tenures
from kafka_history.rules import topic_deletions as _topic_deletions
from kafka_history.rules import unclean_elections as _unclean_elections
from kafka_history.rules import zookeeper_gaps as _zookeeper_gaps
from kafka_history.rules.event import Event
from kafka_history.rules.partition_states import State

Row: TypeAlias = Mapping[str, Any]
TopicPartition: TypeAlias = tuple[str, int]
T = TypeVar("T")


class EventHistory:
    """One cluster's events and what follows from them."""

    def __init__(self, read: Sequence[Event], wanting: Sequence[Row] = ()) -> None:
        """``read``: all events, in order, as often as they stand in files.

        ``wanting``: the files that were not read, or not whole, or not understood.
        """
        self._read = read
        self.wanting = wanting

    def rows(self, answer: str) -> list[dict[str, Any]]:
        """The answer of that name, with plain rows."""
        return [each._asdict() for each in getattr(self, answer)]

    @cached_property
    def events(self) -> list[Event]:
        """Each line once, in however many files it stands."""
        return list(_copies.without_copies(self._read))

    @cached_property
    def copies(self) -> list[_copies.Copies]:
        """Files that repeat others."""
        return list(_copies.copies(self._read))

    @cached_property
    def tenures(self) -> list[_tenures.Tenure]:
        """Who was controller."""
        return list(_tenures.tenures(self.events, _tenures.last_words(self.events)))

    @cached_property
    def phases(self) -> list[_tenures.Phase]:
        """The steps of failovers."""
        return list(_tenures.phases(self.events, self.tenures))

    @cached_property
    def zombies(self) -> list[_deposed.Zombie]:
        """Controllers that went on after their successors' elections."""
        return list(_deposed.zombies(self.events, self.tenures))

    @cached_property
    def refusals(self) -> list[_deposed.Refusal]:
        """What was refused to deposed controllers."""
        return list(_deposed.refusals(self.events))

    @cached_property
    def broker_lives(self) -> list[_broker_lives.BrokerLife]:
        """From when to when brokers ran."""
        return list(
            _broker_lives.broker_lives(self.events, _broker_lives.signs_of_life(self.events))
        )

    @cached_property
    def session_expiries(self) -> list[_broker_lives.SessionExpiry]:
        """Lost ZooKeeper sessions, each with the pause that cost it."""
        lost = _broker_lives.session_expiries(self.events)
        return list(_departures.with_pauses(lost, self.pauses))

    @cached_property
    def pauses(self) -> list[_departures.ProcessPause]:
        """Processes that stood still."""
        return list(_departures.pauses(self.events))

    @cached_property
    def departures(self) -> list[_departures.Departure]:
        """What took brokers out of the cluster."""
        return list(
            _departures.departures(self.broker_lives, self.session_expiries, self.log_dir_failures)
        )

    @cached_property
    def zookeeper_gaps(self) -> list[_zookeeper_gaps.ZooKeeperGap]:
        """Times without ZooKeeper."""
        brokers = {event.broker_id for event in self.events} - {None}
        return list(
            _zookeeper_gaps.zookeeper_gaps(
                self.events, self.pauses, self.session_expiries, len(brokers)
            )
        )

    @cached_property
    def log_dir_failures(self) -> list[_log_dir_failures.FailedLogDir]:
        """Log directories that failed."""
        return list(_log_dir_failures.log_dir_failures(self.events))

    @cached_property
    def failed_transitions(self) -> list[_failed_transitions.FailedTransition]:
        """State transitions that failed."""
        return list(_failed_transitions.failed_transitions(self.events))

    @cached_property
    def deletions(self) -> list[_topic_deletions.DeletedTopic]:
        """Topics that were deleted, or were to be."""
        return list(_topic_deletions.topic_deletions(self.events))

    @cached_property
    def reassignments(self) -> list[_reassignments.Reassignment]:
        """Orders to move replicas."""
        return list(_reassignments.reassignments(self.events))

    @cached_property
    def request_times(self) -> list[_slow_requests.RequestDurations]:
        """How long brokers took for the controller's requests."""
        return list(_slow_requests.request_times(self.events))

    @cached_property
    def clock_skew(self) -> list[_clocks.ClockSkew]:
        """How brokers' clocks differ from controllers'."""
        return list(_clocks.clocks(_clocks.compared_requests(self.events)))

    @cached_property
    def states(self) -> list[State]:
        """The states of all partitions, those of one in order."""
        ends = _partition_states.deposed(self.tenures)
        gone = _partition_states.topic_ends(self.events, ends)
        told = self._of_partitions(_partition_states.STATE_KINDS)
        return [
            state
            for events in told.values()
            for state in _partition_states.partition_states(events, ends, gone)
        ]

    @cached_property
    def isr_changes(self) -> list[_isr_changes.InSyncChange]:
        """Each broker that left or joined in-sync replicas."""
        return list(_isr_changes.isr_changes(self.states))

    @cached_property
    def isr_storms(self) -> list[_isr_changes.Storm]:
        """Minutes with many shrinks."""
        return list(_isr_changes.isr_storms(self.isr_changes))

    @cached_property
    def under_min_isr(self) -> list[_min_isr.UnderMinIsr]:
        """Times with too few replicas in sync."""
        kinds = (*_min_isr.SETTING_KINDS, _min_isr.REFUSAL_KIND)
        said = [event for event in self.events if event.kind in kinds]
        needed = _min_isr.by_topic(_min_isr.needs(said))
        return list(_min_isr.under_min_isr(self.states, needed))

    @cached_property
    def unclean_elections(self) -> list[_unclean_elections.UncleanElection]:
        """Leaders that were not in sync."""
        return list(self._of_each(_unclean_elections.unclean_elections, _unclean_elections.KINDS))

    @cached_property
    def violations(self) -> list[_invariants.Violation]:
        """What must not be in any history."""
        return [
            *_invariants.controller_violations(self.tenures),
            *self._of_each(_invariants.partition_violations, (_invariants.LEADER_KIND,)),
        ]

    @cached_property
    def leaderless(self) -> list[_dead_leaders.Window]:
        """Windows in which partitions had no leader."""
        said = [event for event in self.events if event.kind in _leaderless.DELETION_KINDS]
        begun = _leaderless.deletions_begun(said)
        return list(
            self._of_each(_leaderless.leaderless, _leaderless.KINDS, self.departures, begun)
        )

    @cached_property
    def acts(self) -> list[_acts.OperatorAct]:
        """What operators ordered."""
        return list(_acts.acts(self.events, self.tenures, self.deletions, self.reassignments))

    @cached_property
    def blast_radius(self) -> list[_blast_sums.BlastRadius]:
        """What followed from each departure."""
        done = _acts.effects(self.events, self.tenures, self.deletions, self.reassignments)
        orders = list(done)
        windows: defaultdict[TopicPartition, list[_dead_leaders.Window]] = defaultdict(list)
        for window in self.leaderless:
            windows[window.topic, window.partition].append(window)
        changes = (
            change
            for tp in dict.fromkeys((*self._states_of, *windows))
            for change in _blast_radius.changes(
                self._states_of.get(tp, []), windows[tp], self.departures, orders
            )
        )
        return list(_blast_sums.blast_radius(self.departures, changes, self.tenures))

    @cached_property
    def isr_sums(self) -> list[_isr_sums.IsrSums]:
        """Changes of in-sync replicas by broker."""
        return list(_isr_sums.isr_sums(self.isr_changes))

    def isr_heat(self, step_ms: int) -> list[dict[str, Any]]:
        """Shrinks by broker and time."""
        return [each._asdict() for each in _isr_sums.isr_heat(self.isr_changes, step_ms)]

    def _of_each(
        self, rule: Callable[..., Iterable[T]], kinds: Collection[str], *others: object
    ) -> Iterator[T]:
        """What a rule finds in each partition: it gets its states and its events of some kinds."""
        said = self._of_partitions(kinds)
        for tp in dict.fromkeys((*self._states_of, *said)):
            yield from rule(self._states_of.get(tp, []), said.get(tp, []), *others)

    @cached_property
    def _states_of(self) -> Mapping[TopicPartition, list[State]]:
        found: defaultdict[TopicPartition, list[State]] = defaultdict(list)
        for state in self.states:
            found[state.topic, state.partition].append(state)
        return dict(found)

    def _of_partitions(self, kinds: Collection[str]) -> Mapping[TopicPartition, list[Event]]:
        """The events of some kinds by partition, in order."""
        wanted = frozenset(kinds)
        found: defaultdict[TopicPartition, list[Event]] = defaultdict(list)
        for event in self.events:
            if event.kind in wanted and event.topic is not None and event.partition is not None:
                found[event.topic, event.partition].append(event)
        return dict(found)
