"""The simulator on trial: bugs put into the quorum on purpose, each of which it must find.

Each mutation is a mistake that a programmer could make; some were made in real quorums.  One
mistake is not among them: a leader counts the Fetch of a voter with another epoch.  No run found a
difference.  The fetch offset and the last fetched epoch already prove that this voter has the
leader's records.  So every candidate that it votes for later must have them too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from kio.schema.errors import ErrorCode

from kraft.node import metadata_log
from kraft.node.metadata_log import KafkaMetadataLog
from kraft.raft import inbound, leader_state, listeners, quorum, responses
from kraft.raft import kafka_raft_client as raft_module
from kraft.raft import node as node_module
from kraft.raft.config import NEVER_MS
from kraft.raft.kafka_raft_client import KafkaRaftClient
from kraft.raft.messages import VoteResponse
from kraft.raft.outputs import FlushLog, PersistElection, RaftOutput
from kraft.raft.raft_log import LogPosition, ValidatedPosition
from kraft.raft.states import CandidateState, UnattachedState, Vote
from kraft.raft.values import ElectionState, OffsetAndEpoch
from replica_manager.log import log_recovery
from replica_manager.log.leader_epoch_file_cache import LeaderEpochFileCache
from tests.simulation.raft_chaos import (
    quorum_with_strangers,
    stormy_quorum,
    stormy_quorum_on_disk,
)
from tests.simulation.raft_stories import (
    isolated_leader_resigns,
    leader_of_a_minority_resigns,
    restless_voters,
    snapshot_for_a_follower_with_a_record_of_its_own,
)

pytestmark = pytest.mark.planted

SEEDS: Final = range(400)
"""Seeds that find every mutation; a test tries one after the other until a run fails."""

Patch = pytest.MonkeyPatch
Scenario = Callable[[int], object]


def ends_badly(scenario: Scenario, seed: int) -> bool:
    """Whether a run breaks an invariant or an assertion, or the code raises."""
    try:
        scenario(seed)
    except Exception:  # noqa: BLE001 - a mutant may fall over in any way
        return True
    return False


# ---------------------------------------------------------------------- votes


def grant_two_votes_in_an_epoch(patch: Patch) -> None:
    """Every candidate with an up-to-date log gets the vote, even if another one has it already."""

    def can_grant_vote(self: UnattachedState, _: Any, *, is_log_up_to_date: bool) -> bool:
        return self.leader_id is None and is_log_up_to_date

    patch.setattr(UnattachedState, "can_grant_vote", can_grant_vote)


def grant_to_a_shorter_log(patch: Patch) -> None:
    """The vote goes to who asks first, whatever it lacks."""
    can_grant_vote = UnattachedState.can_grant_vote

    def grant(self: UnattachedState, candidate: Any, **_: Any) -> bool:
        return can_grant_vote(self, candidate, is_log_up_to_date=True)

    patch.setattr(UnattachedState, "can_grant_vote", grant)


def compare_logs_by_offset_alone(patch: Patch) -> None:
    """A long log of an old epoch beats a short one of a newer epoch."""
    vote = inbound.InboundRequests._grants

    def grants(self: Any, candidate: Any, log_end: OffsetAndEpoch, now_ms: int) -> bool:
        return vote(self, candidate, log_end._replace(epoch=2**31 - 1), now_ms) if (
            log_end.offset >= self._node.log.end_offset
        ) else vote(self, candidate, log_end._replace(epoch=-1), now_ms)  # fmt: skip

    patch.setattr(inbound.InboundRequests, "_grants", grants)


def forget_to_persist_the_vote(patch: Patch) -> None:
    """The vote is in memory, and a restart gives it back."""
    _without(patch, lambda output: isinstance(output, PersistElection) and bool(
        output.election.voted_key))  # fmt: skip


def answer_before_the_vote_is_on_disk(patch: Patch) -> None:
    """What is written down is written last."""

    def late(outputs: Sequence[RaftOutput]) -> list[RaftOutput]:
        return sorted(outputs, key=lambda output: isinstance(output, PersistElection))

    _changed(patch, late)


def lead_before_the_own_vote_is_on_disk(patch: Patch) -> None:
    """A lone voter is elected while its vote for itself is still to be written."""
    become = node_module.Node._became_candidate

    def lead(self: Any) -> None:
        become(self)
        if self.quorum.state.is_vote_granted:
            self.lead(self.quorum.state.election_deadline_ms)

    patch.setattr(node_module.Node, "_became_candidate", lead)


def forget_the_vote_at_a_restart(patch: Patch) -> None:
    """The epoch is read again, and whom it was given to is not."""
    start = KafkaRaftClient.start

    def forgetful(
        self: KafkaRaftClient, stored: ElectionState | None, now_ms: int
    ) -> list[RaftOutput]:
        if stored is not None and stored.voted_key is not None:
            stored = ElectionState(stored.epoch)
        return start(self, stored, now_ms)

    patch.setattr(KafkaRaftClient, "start", forgetful)


def stand_without_a_new_epoch(patch: Patch) -> None:
    """A follower that misses its leader asks for votes in its leader's epoch."""
    become = quorum.Quorum.become_candidate

    def stand(self: Any, now_ms: int) -> None:
        epoch = self.state.epoch
        become(self, now_ms)
        self.state.epoch = max(1, epoch)

    patch.setattr(quorum.Quorum, "become_candidate", stand)


def keep_the_votes_of_the_last_election(patch: Patch) -> None:
    """A candidate that stands again does not reset what it was granted."""
    become = quorum.Quorum.become_candidate

    def stand(self: Any, now_ms: int) -> None:
        votes = dict(self.state.votes) if isinstance(self.state, CandidateState) else {}
        become(self, now_ms)
        granted = {voter: vote for voter, vote in votes.items() if vote is Vote.GRANTED}
        self.state.votes.update(granted)

    patch.setattr(quorum.Quorum, "become_candidate", stand)


def count_late_votes(patch: Patch) -> None:
    """A granted vote counts whichever epoch it was granted in."""
    handle = responses.RaftResponses.handle

    def believe(self: Any, received: Any, now_ms: int) -> None:
        state, response = self._node.quorum.state, received.response
        is_granted = isinstance(response, VoteResponse) and response.vote_granted
        if is_granted and isinstance(state, CandidateState):
            state.votes[received.source_id] = Vote.GRANTED
            if state.is_vote_granted:
                self._node.lead(now_ms)
            return
        handle(self, received, now_ms)

    patch.setattr(responses.RaftResponses, "handle", believe)


# ---------------------------------------------------------------------- the leader


def lead_again_after_a_restart(patch: Patch) -> None:
    """Who led before it died leads on in the same epoch, and writes over its lost tail."""
    start = KafkaRaftClient.start

    def again(self: KafkaRaftClient, stored: ElectionState | None, now_ms: int) -> list[RaftOutput]:
        node = self._node
        local = node.local
        outputs = start(self, stored, now_ms)
        if local is None or stored is None or stored.leader_id != local.id:
            return outputs
        if node.log.last_epoch == stored.epoch:
            node.quorum.state = CandidateState(stored.epoch, local, node.voters, now_ms)
            node.quorum.state.votes = dict.fromkeys(node.voters, Vote.GRANTED)
            node.lead(now_ms)
            outputs += self._poll(now_ms)
        return outputs

    patch.setattr(KafkaRaftClient, "start", again)


def commit_without_a_record_of_the_own_epoch(patch: Patch) -> None:
    """A majority is enough, as in the textbook's trap: what it has may yet be overwritten."""
    _advance_over(patch, lambda _, ends: ends[len(ends) // 2], ignores_start=True)


def commit_at_a_minority(patch: Patch) -> None:
    """One voter less than it takes."""
    _advance_over(patch, lambda _, ends: ends[max(0, len(ends) // 2 - 1)])


def count_the_leader_alone(patch: Patch) -> None:
    """What the leader has is committed."""
    _advance_over(patch, lambda leader, _: leader.end_offset)


def count_observers(patch: Patch) -> None:
    """An observer that fetches is taken for the voter that is furthest behind."""
    fetched = leader_state.LeaderState.replica_fetched

    def count(self: Any, replica: Any, offset: int, now_ms: int) -> bool:
        if replica is not None and replica.id not in self.voters:
            others = self.voters.others(self.local.id)
            last = min(others, key=lambda v: self.voter_states[v].end_offset or 0, default=None)
            if last is not None:
                replica = self.voter_states[last].replica
        return fetched(self, replica, offset, now_ms)

    patch.setattr(leader_state.LeaderState, "replica_fetched", count)


def ignore_check_quorum(patch: Patch) -> None:
    """A leader does not resign when the voters stop fetching."""

    def never(self: Any, _: int) -> None:
        self._fetched_voters.clear()
        self.check_quorum_deadline_ms = NEVER_MS

    patch.setattr(leader_state.LeaderState, "_restart_check_quorum", never)


def take_a_minority_for_enough(patch: Patch) -> None:
    """A single Fetch, of a voter or an observer, keeps the leader from resigning."""

    def contacted_by(self: Any, replica: Any, now_ms: int) -> None:
        if replica is not None:
            self._restart_check_quorum(now_ms)

    patch.setattr(leader_state.LeaderState, "contacted_by", contacted_by)


def count_a_diverging_fetch(patch: Patch) -> None:
    """What a follower asks for is taken for what it has, also where its log is not the leader's."""
    position = inbound.InboundRequests._position

    def counting(self: Any, request: Any) -> ValidatedPosition:
        verdict: ValidatedPosition = position(self, request)
        state = self._node.quorum.state
        if (
            verdict.verdict is LogPosition.DIVERGING
            and request.fetch_offset <= self._node.log.end_offset
            and state.replica_fetched(request.replica, request.fetch_offset, state.started_ms)
        ):
            self._node.leader_high_watermark_moved(state)
        return verdict

    patch.setattr(inbound.InboundRequests, "_position", counting)


def find_no_divergence(patch: Patch) -> None:
    """A leader accepts every fetch offset that it has, whatever the last fetched epoch."""

    def valid(_: Any, offset: int, epoch: int) -> ValidatedPosition:
        return ValidatedPosition(LogPosition.VALID, OffsetAndEpoch(offset, epoch))

    patch.setattr(inbound, "validate_position", valid)


def tell_a_leader_too_early(patch: Patch) -> None:
    """Who leads begins before it has applied what came before."""
    tell = listeners.RaftListeners._tell_leader

    def early(self: Any, name: str, listener: Any) -> None:
        known, listener.next_offset = listener.next_offset, 2**62
        tell(self, name, listener)
        listener.next_offset = known

    patch.setattr(listeners.RaftListeners, "_tell_leader", early)


# ---------------------------------------------------------------------- followers


def never_truncate(patch: Patch) -> None:
    """A follower keeps what its new leader does not have."""
    patch.setattr(responses, "truncation_offset", lambda log, _: log.end_offset)


def truncate_to_the_leaders_offset_alone(patch: Patch) -> None:
    """The end of an epoch that the follower does not have is taken for its own."""

    def trust(log: Any, diverging: OffsetAndEpoch) -> int:
        return min(diverging.offset, log.end_offset)  # type: ignore[no-any-return]

    patch.setattr(responses, "truncation_offset", trust)


def fetch_before_the_flush(patch: Patch) -> None:
    """The next fetch acknowledges what a loss of power takes away."""
    _without(patch, lambda output: isinstance(output, FlushLog))


def refuse_a_snapshot_of_an_older_epoch(patch: Patch) -> None:
    """A follower whose last record is of a later epoch takes the snapshot for a contradiction."""
    check = responses.RaftResponses._check_restart

    def refuse(self: Any, state: Any, snapshot_id: OffsetAndEpoch) -> None:
        check(self, state, snapshot_id)
        assert snapshot_id.epoch >= self._node.log.last_epoch, "an older epoch"

    patch.setattr(responses.RaftResponses, "_check_restart", refuse)


def take_a_part_for_the_snapshot(patch: Patch) -> None:
    """A download ends with its first part."""
    fetch = responses.RaftResponses._fetch_snapshot

    def hasty(self: Any, source: int, response: Any, now_ms: int) -> bool:
        cut = replace(response, size=min(response.size, len(response.data)))
        return fetch(self, source, cut, now_ms)

    patch.setattr(responses.RaftResponses, "_fetch_snapshot", hasty)


# ---------------------------------------------------------------------- the log on disk


def leave_epochs_behind(patch: Patch) -> None:
    """What is cut off the log stays in the list of its epochs."""
    patch.setattr(LeaderEpochFileCache, "truncate_from_end", lambda *_: None)


def begin_with_the_first_segment(patch: Patch) -> None:
    """After a restart the log begins where its first file does, not where its snapshot ends."""

    def first_of_all(directory: Path) -> int:
        return min((int(file.stem) for file in directory.glob("*.log")), default=0)

    patch.setattr(metadata_log, "find_start_offset", first_of_all)


def keep_the_log_before_a_snapshot(patch: Patch) -> None:
    """A snapshot is loaded, and the records before it stay."""
    patch.setattr(KafkaMetadataLog, "_restart_behind", lambda *_: None)


def check_no_batch_at_a_start(patch: Patch) -> None:
    """A batch of which a loss of power has left the header and zeros is taken for one."""
    patch.setattr(log_recovery, "is_intact", lambda *_: True)


# ---------------------------------------------------------------------- strangers


def believe_in_any_epoch(patch: Patch) -> None:
    """A stranger's message with the last epoch of all is believed."""
    patch.setattr(quorum.Quorum, "is_credible", lambda *_: True)


def raise_observers_alone(patch: Patch) -> None:
    """An observer takes a stranger's epoch for the quorum's, and every leader for an old one."""
    patch.setattr(
        inbound.InboundRequests,
        "_voter_only_error",
        lambda self, remote_id, epoch: (
            ErrorCode.fenced_leader_epoch
            if epoch < self._node.quorum.epoch
            else ErrorCode.invalid_request
            if remote_id < 0 or not self._node.quorum.is_credible(epoch)
            else None
        ),
    )


# ---------------------------------------------------------------------- helpers


def _changed(patch: Patch, change: Callable[[Sequence[RaftOutput]], list[RaftOutput]]) -> None:
    poll = KafkaRaftClient._poll

    def changed(self: KafkaRaftClient, now_ms: int) -> list[RaftOutput]:
        return change(poll(self, now_ms))

    patch.setattr(raft_module.KafkaRaftClient, "_poll", changed)


def _without(patch: Patch, is_dropped: Callable[[RaftOutput], bool]) -> None:
    _changed(patch, lambda outputs: [output for output in outputs if not is_dropped(output)])


def _advance_over(
    patch: Patch, choose: Callable[[Any, list[int]], int], *, ignores_start: bool = False
) -> None:
    def advance(self: Any) -> bool:
        known = (state.end_offset for state in self.voter_states.values())
        ends = sorted((-1 if end is None else end for end in known), reverse=True)
        offset = choose(self, ends)
        if offset <= (0 if ignores_start else self.epoch_start_offset):
            return False
        if self.high_watermark is not None and offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        return True

    patch.setattr(leader_state.LeaderState, "_advance", advance)


MUTATIONS: Final[tuple[tuple[Callable[[Patch], None], Scenario], ...]] = (
    (grant_two_votes_in_an_epoch, stormy_quorum),
    (grant_to_a_shorter_log, stormy_quorum),
    (compare_logs_by_offset_alone, restless_voters),
    (forget_to_persist_the_vote, stormy_quorum),
    (answer_before_the_vote_is_on_disk, stormy_quorum),
    (lead_before_the_own_vote_is_on_disk, stormy_quorum),
    (forget_the_vote_at_a_restart, restless_voters),
    (stand_without_a_new_epoch, stormy_quorum),
    (keep_the_votes_of_the_last_election, restless_voters),
    (count_late_votes, restless_voters),
    (lead_again_after_a_restart, stormy_quorum),
    (commit_without_a_record_of_the_own_epoch, stormy_quorum),
    (commit_at_a_minority, stormy_quorum),
    (count_the_leader_alone, stormy_quorum),
    (count_observers, stormy_quorum),
    (ignore_check_quorum, isolated_leader_resigns),
    (take_a_minority_for_enough, leader_of_a_minority_resigns),
    (count_a_diverging_fetch, restless_voters),
    (find_no_divergence, stormy_quorum),
    (tell_a_leader_too_early, stormy_quorum),
    (never_truncate, restless_voters),
    (truncate_to_the_leaders_offset_alone, restless_voters),
    (fetch_before_the_flush, stormy_quorum),
    (refuse_a_snapshot_of_an_older_epoch, snapshot_for_a_follower_with_a_record_of_its_own),
    (take_a_part_for_the_snapshot, stormy_quorum),
    (leave_epochs_behind, stormy_quorum_on_disk),
    (begin_with_the_first_segment, stormy_quorum_on_disk),
    (keep_the_log_before_a_snapshot, stormy_quorum_on_disk),
    (check_no_batch_at_a_start, stormy_quorum_on_disk),
    (believe_in_any_epoch, quorum_with_strangers),
    (raise_observers_alone, quorum_with_strangers),
)


FOUND_BY: Final[dict[Callable[[Patch], None], int]] = {
    compare_logs_by_offset_alone: 53,
    lead_before_the_own_vote_is_on_disk: 2,
    keep_the_votes_of_the_last_election: 1,
    count_late_votes: 1,
    lead_again_after_a_restart: 2,
    count_a_diverging_fetch: 3,
    truncate_to_the_leaders_offset_alone: 1,
    take_a_part_for_the_snapshot: 16,
    begin_with_the_first_segment: 15,
    keep_the_log_before_a_snapshot: 1,
    check_no_batch_at_a_start: 2,
    raise_observers_alone: 46,
}
"""The seed that is tried first for a mutation; for the others it is 0."""


@pytest.mark.parametrize(
    ("mutate", "scenario"), MUTATIONS, ids=lambda value: getattr(value, "__name__", "")
)
def test_the_simulator_finds(
    mutate: Callable[[Patch], None], scenario: Scenario, monkeypatch: Patch
) -> None:
    mutate(monkeypatch)

    seeds = (FOUND_BY.get(mutate, 0), *SEEDS)
    assert any(ends_badly(scenario, seed) for seed in seeds), mutate.__doc__


def test_the_quorum_without_mutations_survives_the_same_seeds() -> None:
    """Others are tried with ``--seeds``, by the tests of these scenarios."""
    tried = dict.fromkeys((scenario, FOUND_BY.get(mutate, 0)) for mutate, scenario in MUTATIONS)

    assert [(str(run), seed) for run, seed in tried if ends_badly(run, seed)] == []
