"""What must be true of a quorum after each step, whatever happened to its nodes.

The assertions name these rules by their numbers:

* S1: a node gives one vote per epoch.
* S2: an epoch has one leader, in the memory and on the disk of every node, at any time.  A majority
  has its vote for this leader on disk.
* S3: a node's epoch never falls.  Memory and disk agree once the node is idle.
* S4: an offset and its epoch identify one record, and the records before it are the same on every
  node.
* S5: this record has the same content on every node.
* S6: a leader has every record that any node has exposed as committed.
* S7: a high watermark never falls.  A leader advances it only with a record of its own epoch.  Once
  a node exposes a high watermark, a majority has the records below it on disk.
* S8: no node truncates below its high watermark.
* S9: every state machine applies the same sequence.
* S10: a voter fetches only from the end of the log on its disk.
* S11: a log that does not start at offset 0 starts with a snapshot.
* S12: a leader loads no snapshot.  Its listener gets the leadership only after it has applied all
  earlier epochs.
* S13: a leader only appends.

The log checks S8 and half of S7, the counter checks S9, and the process checks S13.

Source: KIP-595; Kafka ``RaftEventSimulationTest``.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

from kraft.raft.messages import (
    AnyRaftResponse,
    FetchRequest,
    RaftRequest,
    VoteRequest,
    VoteResponse,
)
from kraft.raft.outputs import SendRequest
from kraft.raft.raft_log import LogPosition, validate_position
from kraft.raft.values import ElectionState, LeaderAndEpoch, OffsetAndEpoch
from zkcontroller_simulation.raft_log_model import InMemoryRaftLog, NumberBatch

if TYPE_CHECKING:
    from zkcontroller_simulation.raft_process import RaftProcess
    from zkcontroller_simulation.raft_world import RaftWorld


@dataclass(slots=True)
class _Written:
    """The batch at one offset and epoch, and the number of the node that wrote it first."""

    epoch_before: int
    data: bytes
    writer: int
    is_shown: bool = False


class RaftInvariants:
    """Keeps what the nodes of a world did, and checks each new step against it."""

    def __init__(self, world: RaftWorld) -> None:
        self._world = world
        self.exposed_end = 0
        """The highest offset that any node has exposed as its high watermark."""
        self.newest_leader: LeaderAndEpoch = LeaderAndEpoch(None, 0)
        self.numbers: dict[int, int] = {}
        """The counter's value after each offset, from the first node that applied it."""
        self._claimed: list[NumberBatch] = []
        self._votes: dict[tuple[int, int], int] = {}
        self._grants: dict[tuple[int, int], int] = {}
        self._voters: dict[tuple[int, int], list[int]] = {}
        """By epoch and candidate: the nodes that have a vote for it on disk."""
        self._leaders: dict[int, int] = {}
        self._epochs: dict[int, int] = {}
        self._batches: dict[tuple[int, int], _Written] = {}
        self._epoch_starts: dict[int, int] = {}
        self._high_watermarks: dict[int, int] = {}
        self._elected: dict[int, int] = {}
        self._starts_checked: dict[int, tuple[InMemoryRaftLog, int]] = {}
        """By node: its log, and the log's ``changes`` when its start was last checked."""
        self._disks_lost: dict[int, int] = {}
        """By node: the highest epoch of all nodes when its disk was lost."""

    # ------------------------------------------------------------------ what happens

    def process_starts(self, process: RaftProcess) -> None:
        """A process begins: its high watermark is unknown again."""
        self._high_watermarks[process.number] = -1
        process.log.on_append = partial(self._appended, process.number)
        process.log.on_high_watermark = partial(self._high_watermark_moves, process)
        assert process.counter is not None
        process.counter.on_number = self._applied

    def loses_disk(self, process: RaftProcess) -> None:
        """Forgets a node's votes and epoch; the world ensures that no guarantee depends on them."""
        number = process.number
        self._disks_lost[number] = max(self._epochs.values(), default=0)
        self._epochs.pop(number, None)
        self._votes = {key: vote for key, vote in self._votes.items() if key[0] != number}
        self._grants = {key: vote for key, vote in self._grants.items() if key[0] != number}

    def persists(self, process: RaftProcess, election: ElectionState) -> None:
        """Checks S1, S2 and S3 when a node writes its election state to disk."""
        number, epoch = process.number, election.epoch
        assert epoch >= self._epochs.get(number, 0), f"S3: {number} persists {epoch} again"
        self._epochs[number] = epoch
        if election.voted_key is not None:
            vote = self._votes.setdefault((number, epoch), election.voted_key.id)
            self._voters.setdefault((epoch, election.voted_key.id), []).append(number)
            assert vote == election.voted_key.id, (
                f"S1: {number} votes for {vote} and then {election.voted_key.id} in epoch {epoch}"
            )
        self._leads(election.leader_id, epoch)

    def answers(
        self, process: RaftProcess, request: RaftRequest, response: AnyRaftResponse
    ) -> None:
        """Checks S1 for a vote granted in a response: it counts even if the voter crashes later."""
        if not isinstance(request, VoteRequest) or not isinstance(response, VoteResponse):
            return
        if not response.vote_granted:
            return
        number, epoch, candidate = process.number, request.candidate_epoch, request.candidate.id
        vote = self._grants.setdefault((number, epoch), candidate)
        assert vote == candidate, f"S1: {number} grants {vote} and {candidate} epoch {epoch}"
        election = process.disk.election
        assert election is not None, f"S1: {number} grants what is not on its disk"
        is_kept = (
            election.epoch == epoch
            and election.voted_key is not None
            and election.voted_key.id == candidate
        )
        assert is_kept or (process.is_eager and election.epoch > epoch), (
            f"S1: {number} grants epoch {epoch} to {candidate} and has {election} on its disk"
        )

    def sends(self, process: RaftProcess, sent: SendRequest) -> None:
        """Checks S10: a voter's Fetch begins at the end of the log on its disk."""
        request = sent.request
        if not isinstance(request, FetchRequest) or not process.is_voter:
            return
        assert process.core is not None
        if request.leader_epoch == process.core.epoch:
            assert request.fetch_offset <= process.log.flushed_offset, (
                f"S10: {process.number} fetches from {request.fetch_offset}, "
                f"its disk ends at {process.log.flushed_offset}"
            )

    def tells_leader(self, process: RaftProcess, leader: LeaderAndEpoch) -> None:
        """Checks S12: a leader's listener has applied all records of earlier epochs."""
        self._leads(leader.leader_id, leader.epoch)
        key = process.key
        if key is None or leader.leader_id != key.id:
            return
        assert process.counter is not None
        start = self._epoch_starts.get(leader.epoch)
        assert start is not None, f"S12: epoch {leader.epoch} has no record"
        assert process.counter.next_offset > start, (
            f"S12: {process.number} hears that it leads {leader.epoch} "
            f"at {process.counter.next_offset}, the epoch starts at {start}"
        )

    def _appended(self, number: int, batch: NumberBatch, epoch_before: int) -> None:
        """Checks S4 and S5: equal records have equal predecessors.

        A leader may write other records at offsets that it lost in a crash, if no other node has
        seen the lost ones.
        """
        base, epoch = batch.base_offset, batch.epoch
        known = self._batches.get((base, epoch))
        if known is None:
            known = self._batches[base, epoch] = _Written(epoch_before, batch.data, number)
        if number != known.writer:
            known.is_shown = True
        if not known.is_shown and known.data != batch.data:
            known.epoch_before, known.data = epoch_before, batch.data
        assert known.data == batch.data, f"S5: two contents at {base} in epoch {epoch}"
        assert known.epoch_before == epoch_before, (
            f"S4: {base} of epoch {epoch} comes after epoch {known.epoch_before}, "
            f"and after {epoch_before}"
        )
        if epoch != epoch_before and not known.is_shown:
            self._epoch_starts[epoch] = base

    def _applied(self, offset: int, number: int) -> None:
        seen = self.numbers.setdefault(offset, number)
        assert seen == number, f"S9: {seen} and {number} at {offset}"

    def _leads(self, leader_id: int | None, epoch: int) -> None:
        if leader_id is not None:
            seen = self._leaders.setdefault(epoch, leader_id)
            assert seen == leader_id, f"S2: {seen} and {leader_id} lead epoch {epoch}"

    # ------------------------------------------------------------------ after a step

    def check(self, process: RaftProcess) -> None:
        """Checks every invariant that a step of this process may have broken."""
        core = process.core
        if core is None:
            return
        number, epoch = process.number, core.epoch
        assert epoch >= self._epochs.get(number, 0), f"S3: {number} falls to epoch {epoch}"
        if process.is_idle:
            assert process.disk.election == core.election, (
                f"S3: {number} has {core.election} in memory and {process.disk.election} on disk"
            )
        self._leads(core.leader_and_epoch.leader_id, epoch)
        if process.is_leader:
            self._check_leader(process, epoch)
        self._check_high_watermark(process, epoch)
        self._check_start(process)

    def _check_leader(self, process: RaftProcess, epoch: int) -> None:
        if epoch in self._elected:
            return
        self._elected[epoch] = process.number
        self._leads(process.number, epoch)
        if epoch > self.newest_leader.epoch:
            self.newest_leader = LeaderAndEpoch(process.number, epoch)
            self._world.timeline.tell(f"{process.number} leads epoch {epoch}")
        voters = self._world.voter_set
        voted = {*self._voters.get((epoch, process.number), ())} & {*voters}
        assert len(voted) >= voters.majority, (
            f"S2: {process.number} leads epoch {epoch}, on disk are only votes of {sorted(voted)}"
        )
        self._check_completeness(process, epoch)

    def _check_completeness(self, process: RaftProcess, epoch: int) -> None:
        """Checks S6: a new leader has every record that was ever below a high watermark."""
        end, log = self.exposed_end, process.log
        if not end or log.start_offset > end:
            return
        last = self._claimed_at(end - 1).epoch
        if epoch < last:
            # Its votes arrived late: a newer leader exists, so this one commits nothing.
            return
        has_it = log.epoch_at(end - 1) == last or (
            log.start_offset == end and log.earliest_snapshot_id == OffsetAndEpoch(end, last)
        )
        assert has_it, (
            f"S6: {process.number} leads epoch {epoch} without what is committed: {end - 1} of "
            f"epoch {last}; it has {log.start_offset}..{log.end_offset}"
        )

    def _high_watermark_moves(self, process: RaftProcess, high_watermark: int) -> None:
        """Checks S7 when a node raises its high watermark in memory.

        A leader needs a record of its own epoch.  A follower may only take a high watermark that
        some node has exposed.
        """
        core = process.core
        assert core is not None
        if not process.is_leader:
            assert high_watermark <= self.exposed_end, (
                f"S7: {process.number} takes {high_watermark} for committed, no leader said so"
            )
            return
        epoch, start = core.epoch, self._epoch_starts.get(core.epoch)
        assert start is not None, f"S7: epoch {epoch} has no record"
        assert high_watermark > start, (
            f"S7: {process.number} commits {high_watermark} in epoch {epoch}, begun at {start}"
        )
        # Another process may have died before it exposed its claim; its records may be lost.
        while self._claimed and self._claimed[-1].base_offset >= self.exposed_end:
            last = self._claimed[-1]
            if process.log.epoch_at(last.base_offset) == last.epoch:
                break
            self._claimed.pop()
        while self.claimed_end < high_watermark:
            batch = process.log.batch_at(self.claimed_end)
            assert batch is not None, f"S7: {self.claimed_end} is committed and cleaned at once"
            assert batch.base_offset == self.claimed_end, "S4: other borders of batches"
            self._claimed.append(batch)

    def exposes(self, process: RaftProcess, high_watermark: int) -> None:
        """Checks S6 and S7 when a node exposes a high watermark: no record below it may be lost."""
        if high_watermark <= 0:
            return
        number, log = process.number, process.log
        assert high_watermark <= self.claimed_end, f"S7: {number} exposes {high_watermark}"
        last = self._claimed_at(high_watermark - 1).epoch
        if log.start_offset < high_watermark:
            here = log.epoch_at(high_watermark - 1)
            assert here == last, (
                f"S9: {number} exposes {high_watermark - 1} of epoch {here}, others of {last}"
            )
        if high_watermark <= self.exposed_end:
            return
        self.exposed_end = high_watermark
        holders = [v.number for v in self._world.voters if self._holds(v, high_watermark, last)]
        assert len(holders) >= self._world.voter_set.majority, (
            f"S7: {number} exposes {high_watermark}, only {holders} have it on disk"
        )
        for other in self._world.processes:
            if other.is_leader and other.core is not None and other.core.epoch > last:
                self._check_completeness(other, other.core.epoch)

    def _holds(self, voter: RaftProcess, end: int, epoch: int) -> bool:
        """Whether a voter has the committed records on disk, or had them before losing it."""
        return epoch <= self._disks_lost.get(voter.number, -1) or (
            voter.log.flushed_offset >= end and voter.log.epoch_at(end - 1) in (None, epoch)
        )

    @property
    def claimed_end(self) -> int:
        """The highest high watermark of any leader, exposed or not."""
        return self._claimed[-1].next_offset if self._claimed else 0

    def _claimed_at(self, offset: int) -> NumberBatch:
        place = bisect_right(self._claimed, offset, key=attrgetter("base_offset"))
        return self._claimed[place - 1]

    def _check_high_watermark(self, process: RaftProcess, epoch: int) -> None:
        """Checks S7 after a step: the high watermark does not fall or exceed the log."""
        number, high_watermark = process.number, process.high_watermark
        if high_watermark == -1:
            return
        before = self._high_watermarks[number]
        assert high_watermark >= before, f"S7: {number} goes back from {before} to {high_watermark}"
        assert high_watermark <= process.log.end_offset, f"S7: {number} commits what it has not"
        self._high_watermarks[number] = high_watermark
        if process.is_leader and epoch == self.newest_leader.epoch:
            exposed = self.exposed_end
            assert high_watermark >= exposed, f"S7: the newest leader's falls below {exposed}"

    def _check_start(self, process: RaftProcess) -> None:
        """Checks S11: a log that does not start at 0 has a snapshot at its start."""
        log = process.log
        if self._starts_checked.get(process.number) == (log, log.changes):
            return
        self._starts_checked[process.number] = (log, log.changes)
        earliest = log.earliest_snapshot_id
        if earliest is None:
            assert log.start_offset == 0, f"S11: {process.number} begins at {log.start_offset}"
            return
        assert log.start_offset in (0, earliest.offset), (
            f"S11: {process.number} begins at {log.start_offset}, its snapshots at {earliest}"
        )
        verdict = validate_position(log, *earliest)
        assert verdict.verdict is LogPosition.VALID, f"S11: {process.number}: {verdict}"

    # ------------------------------------------------------------------ looks

    def is_safe_without(self, number: int) -> bool:
        """Whether no guarantee depends on the disk that this node has lost.

        Every other voter is beyond the epochs in which it may have voted, another leader has been
        elected since, and a majority has everything that is committed without counting this node.
        """
        lost_in = self._disks_lost[number]
        others = [voter for voter in self._world.voters if voter.number != number]
        if any(self._epochs.get(voter.number, 0) <= lost_in for voter in others):
            return False
        end = self.claimed_end
        if not end:
            return True
        last = self._claimed[-1].epoch
        holding = [
            voter
            for voter in others
            if voter.log.flushed_offset >= end and voter.log.epoch_at(end - 1) in (None, last)
        ]
        is_led_anew = any(epoch > lost_in for epoch in self._elected)
        return is_led_anew and len(holding) >= self._world.voter_set.majority
