"""The simulator on trial: bugs put into replication on purpose, each of which it must find.

Each mutation is a mistake that a programmer could make; most of them were made in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from kio.schema.errors import ErrorCode

from replica_manager.replication import (
    fetch_state,
    partition,
    partition_reads,
    replica_fetcher,
)
from replica_manager.replication.fetch_state import Truncation
from replica_manager.replication.isr import Consequence, PendingShrink, RemoteReplica
from tests.simulation.replication_broker import SimulatedBroker
from tests.simulation.replication_log import InMemoryLog
from tests.simulation.replication_world import replicated_world

pytestmark = pytest.mark.planted

SEEDS: Final = range(200)
"""Seeds that find every mutation; a test tries one after the other until a run fails."""

Patch = pytest.MonkeyPatch


def ends_badly(seed: int) -> bool:
    """Whether a run breaks an invariant or an assertion, or the code raises."""
    try:
        replicated_world(seed)
    except Exception:  # noqa: BLE001 - a mutant may fall over in any way
        return True
    return False


# ---------------------------------------------------------------------- followers


def never_truncate(patch: Patch) -> None:
    """A follower keeps what its new leader does not have."""

    def keep(_: Any, log: Any, __: int) -> Truncation:
        return Truncation(log.log_end_offset, True)

    patch.setattr(replica_fetcher, "truncation_for", keep)


def truncate_to_the_high_watermark(patch: Patch) -> None:
    """As Kafka did before KIP-101: a follower's high watermark lags, and committed records go."""
    first_state = fetch_state.first_state

    def first(initial: Any, log: Any, **settings: bool) -> Any:
        log.truncate_to(log.high_watermark)
        state = first_state(initial, log, **settings)
        return state._replace(fetch_offset=log.log_end_offset)

    patch.setattr(replica_fetcher, "first_state", first)


def truncate_to_the_leaders_offset_alone(patch: Patch) -> None:
    """The end of an epoch that the follower does not have is taken for its own (KIP-279)."""

    def trust(leaders: Any, log: Any, _: int) -> Truncation:
        return Truncation(min(leaders.end_offset, log.log_end_offset), True)

    patch.setattr(replica_fetcher, "truncation_for", trust)


# ---------------------------------------------------------------------- leaders


def commit_over_the_committed_isr_alone(patch: Patch) -> None:
    """A replica that is about to be in the ISR is not waited for."""

    def current(state: Any, followers: Any, end: int, *_: Any) -> int:
        ends: list[int] = [f.log_end_offset for b, f in followers.items() if b in state.isr]
        return min([end, *ends])

    patch.setattr(partition, "high_watermark_by_isr", current)


def count_a_shrinkage_before_it_is_accepted(patch: Patch) -> None:
    """The high watermark goes on without replicas that may yet be elected."""
    patch.setattr(PendingShrink, "maximal_isr", property(lambda pending: pending.proposal.new_isr))


def remember_followers_from_an_earlier_rule(patch: Patch) -> None:
    """A new leader believes what it knew of its followers when it led before."""
    begin = partition.Partition._begin_leader_epoch

    def keep(self: Any, state: Any, now_ms: int, **_: bool) -> None:
        begin(self, state, now_ms, is_new_leader=False)

    make_follower = partition.Partition.make_follower

    def follow(self: Any, *args: Any) -> Any:
        known = self.remote_replicas
        transition = make_follower(self, *args)
        self.remote_replicas = known
        return transition

    patch.setattr(partition.Partition, "_begin_leader_epoch", keep)
    patch.setattr(partition.Partition, "make_follower", follow)


def note_no_epoch_at_the_election(patch: Patch) -> None:
    """A leader's epoch is in its cache only once a record has it."""
    begin = partition.Partition._begin_leader_epoch

    def silently(self: Any, state: Any, now_ms: int, *, is_new_leader: bool) -> None:
        epochs = list(self.log.epochs)
        begin(self, state, now_ms, is_new_leader=is_new_leader)
        self.log.epochs = epochs

    patch.setattr(partition.Partition, "_begin_leader_epoch", silently)


def let_laggards_join(patch: Patch) -> None:
    """The high watermark is enough to join; where the leader's epoch began is not asked."""

    def join(follower: RemoteReplica, high_watermark: int, _: int | None) -> bool:
        return follower.log_end_offset >= high_watermark

    patch.setattr(partition, "may_join_isr", join)


def find_no_divergence(patch: Patch) -> None:
    """A leader accepts every fetch offset that it has, whatever the last fetched epoch."""
    patch.setattr(partition_reads, "diverges", lambda *_: False)


def count_a_diverging_fetch(patch: Patch) -> None:
    """What a follower asks for is taken for what it has, also where its log is not the leader's."""
    read = SimulatedBroker._read

    def counting(self: Any, follower: int, tp: Any, wanted: Any) -> Any:
        response = read(self, follower, tp, wanted)
        led = self.manager.partitions.get(tp)
        if response.diverging_epoch is not None and led is not None:
            self._record(led, follower, wanted, led.log_end_offset)
        return response

    patch.setattr(SimulatedBroker, "_read", counting)


# ---------------------------------------------------------------------- the ISR


def take_any_refusal_for_a_no(patch: Patch) -> None:
    """After INVALID_UPDATE_VERSION the old ISR is believed, though the new one was written."""
    patch.setattr(partition, "consequence_of", lambda _: Consequence.REVERT)


def acknowledge_what_is_only_appended(patch: Patch) -> None:
    """acks=all is answered as if it were acks=1."""
    patch.setattr(
        partition.Partition,
        "check_enough_replicas_reach",
        lambda *_: (True, ErrorCode.none),
    )


def keep_the_high_watermark_of_a_dead_process(patch: Patch) -> None:
    """A restarted log takes its end for its high watermark."""

    def restart(self: InMemoryLog) -> None:
        self.high_watermark = self.log_end_offset
        self.changes += 1

    patch.setattr(InMemoryLog, "restart", restart)


MUTATIONS: Final[tuple[Callable[[Patch], None], ...]] = (
    never_truncate,
    truncate_to_the_high_watermark,
    truncate_to_the_leaders_offset_alone,
    commit_over_the_committed_isr_alone,
    count_a_shrinkage_before_it_is_accepted,
    remember_followers_from_an_earlier_rule,
    note_no_epoch_at_the_election,
    let_laggards_join,
    find_no_divergence,
    count_a_diverging_fetch,
    take_any_refusal_for_a_no,
    acknowledge_what_is_only_appended,
    keep_the_high_watermark_of_a_dead_process,
)


FOUND_BY: Final[dict[Callable[[Patch], None], int]] = {
    truncate_to_the_high_watermark: 1,
    truncate_to_the_leaders_offset_alone: 8,
    remember_followers_from_an_earlier_rule: 23,
    let_laggards_join: 3,
    find_no_divergence: 1,
    count_a_diverging_fetch: 1,
    take_any_refusal_for_a_no: 25,
    keep_the_high_watermark_of_a_dead_process: 1,
}
"""The seed that is tried first for a mutation; for the others it is 0."""


@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda mutate: mutate.__name__)
def test_the_simulator_finds(mutate: Callable[[Patch], None], monkeypatch: Patch) -> None:
    mutate(monkeypatch)

    seeds = (FOUND_BY.get(mutate, 0), *SEEDS)
    assert any(ends_badly(seed) for seed in seeds), mutate.__doc__


def test_replication_without_mutations_survives_the_same_seeds() -> None:
    """Others are tried with ``--seeds``, by the tests of the same storms."""
    assert [seed for seed in {0, *FOUND_BY.values()} if ends_badly(seed)] == []
