"""Leaders killed round and round, in a quorum of Kafka 3.9.1's controllers and of ours.

``python -m benchmarks.quorum_kills --minutes 10 --mix real,ours,ours`` starts voters 1, 2 and 3 as
the mix says.  In each round the leader, now and then a follower, is killed, stopped or frozen; the
others go on, it comes back, and all follow.  Meanwhile a client changes a configuration, one change
after the other.  Looked at are

* who led: one node alone in an epoch, by what the nodes answer, by their logs' own records,
  and by what they write of themselves in the files of their loggers;
* the logs: the same bytes on every node, up to what is committed;
* the changes: each that was acknowledged is in the log, in its place;
* the processes: none ends but by our hand.

With ``--cut-logs`` the logs are cut behind each snapshot, and now and then a follower is away until
the others have cut off what it lacks: it comes back by way of a snapshot.

Exit code 1, with what is known of every node, if one of these does not hold; the files of the
nodes are kept then.  So much of it as takes a minute runs in ``tests/peers``.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from benchmarks.quorum_changes import KEY, ChangesInARow
from kraft.metadata.metadata_batches import DataBatch, iterate_metadata_batches
from kraft.metadata.records import ConfigRecord
from tests.peers.quorum_cluster import MixedQuorum, OurVoter, Voter, committed

KINDS: Final = ("ours", "real")
ROUNDS_BETWEEN_LOOKS: Final = 5
ROUNDS_FOR_BOTH: Final = 20
"""In so many, both kinds lead now and then."""
WHOLE_LOGS: Final = {"metadata.log.max.record.bytes.between.snapshots": "100000"}
"""So that nodes begin with a snapshot when they come back, and not only with the log."""
CUT_LOGS: Final = {
    "metadata.log.max.record.bytes.between.snapshots": "5000",
    "metadata.log.segment.bytes": "5000",
    "metadata.log.segment.min.bytes": "12",
    "metadata.max.retention.bytes": "5000",
}
CUT_WITHIN_S: Final = 150.0
"""A node looks once a minute what it can do without."""
_LEADER_KILLED: Final = 0.75
_BLOWS: Final = {"kill -9": 6, "SIGTERM": 2, "SIGSTOP": 2}
_KILLED_AGAIN: Final = 0.15
_LONGEST_ABSENCE_S: Final = 3.0
_OUTLASTS_LOGS: Final = 0.5
_LONGEST_FREEZE_S: Final = 6.0
"""Long enough for another to be elected, or not."""
_BECAME_LEADER: Final = re.compile(r"Completed transition to Leader\(.*?\bepoch=(\d+)")


class KillScenario:
    """What is done to a quorum that runs, and what must be true of it meanwhile.

    AssertionError, here and in every method, when it is not.
    """

    def __init__(self, quorum: MixedQuorum, seed: int, *, cuts_logs: bool = False) -> None:
        """``cuts_logs``: whether the quorum was configured with :data:`CUT_LOGS`."""
        self.leaders: dict[int, int] = {}
        """Epoch to leader, from whatever source."""
        self.blows: Counter[str] = Counter()
        self.without_leader_s: list[float] = []
        """From a blow at the leader until the next one has committed something."""
        self._quorum = quorum
        self._cuts_logs = cuts_logs
        self._random = random.Random(seed)
        self._high_watermark = 0
        self._changes = ChangesInARow(
            lambda: [quorum.ports[each.node_id] for each in quorum.running]
        )

    @property
    def acknowledged(self) -> int:
        """Changes."""
        return len(self._changes.acknowledged)

    def run(self, *, rounds: int | None = None, minutes: float | None = None) -> None:
        """Goes on until so many rounds are over, or so much time."""
        ends_s = float("inf") if minutes is None else time.monotonic() + minutes * 60
        number = 0
        with self._changes.running():
            while time.monotonic() < ends_s and number != rounds:
                number += 1
                print(f"{number:4}  {self.round()}", flush=True)
                if number % ROUNDS_BETWEEN_LOOKS == 0:
                    self.look()
            self._wait_for_changes(10)
        self.look()
        if number >= ROUNDS_FOR_BOTH:
            kinds = {type(voter) for voter in self._quorum.voters.values()}
            led = {type(self._quorum.voters[leader]) for leader in self.leaders.values()}
            assert led == kinds, f"leaders were only {[each.__name__ for each in led]}"

    def round(self) -> str:
        """One blow, and the way back; a line about it."""
        quorum = self._quorum
        leader = quorum.leader()
        followers = [each for each in quorum.voters if each != leader]
        hits_leader = self._random.random() < _LEADER_KILLED
        victim = quorum.voters[leader if hits_leader else self._random.choice(followers)]
        [blow] = self._random.choices([*_BLOWS], [*_BLOWS.values()])
        if self._cuts_logs and not hits_leader and self._random.random() < _OUTLASTS_LOGS:
            blow = "absence"
        self.blows[f"{blow} of {'the leader' if hits_leader else 'a follower'}"] += 1
        began_s = time.monotonic()
        if blow == "SIGSTOP":
            self._freeze(victim)
        elif blow == "absence":
            self._outlast_the_logs(victim)
        else:
            self._end(victim, blow, began_s if hits_leader else None)
        quorum.wait_until_all_follow()
        self._wait_for_changes(1)
        self._see_leader()
        return (
            f"{blow:7} of {'leader' if hits_leader else 'follower':8} {_name(victim)}:"
            f" {_name(quorum.voters[self.leaders[max(self.leaders)]])} leads in epoch"
            f" {max(self.leaders)}, {self.acknowledged} changes"
        )

    def look(self) -> None:
        """Compares everything: the logs, the changes, the leaders."""
        quorum = self._quorum
        acknowledged = list(self._changes.acknowledged)
        quorum.wait_until_all_follow()
        self._see_leader()
        start = max(each.log_start_offset for each in quorum.running)
        logs = {
            each.node_id: committed(each, self._high_watermark, start) for each in quorum.running
        }
        assert len(set(logs.values())) == 1, (
            f"logs differ between {start} and {self._high_watermark}: "
            f"{ {node_id: len(log) for node_id, log in logs.items()} } bytes"
        )
        found = _values(next(iter(logs.values())))
        assert all(value < following for value, following in pairwise(found)), "changes out of turn"
        # What was cut off is in the snapshots, whose state has the last value alone.
        sought = {value for value in acknowledged if start == 0 or (found and value >= found[0])}
        lost = sorted(sought - set(found))
        assert not lost, f"acknowledged and lost: {lost[:20]}"
        for voter in quorum.voters.values():
            for epoch, leader in voter.leaders().items():
                self._saw_leader(epoch, leader)
            for match in _BECAME_LEADER.finditer(voter.said()):
                self._saw_leader(int(match[1]), voter.node_id)

    def _end(self, victim: Voter, blow: str, began_s: float | None) -> None:
        end = victim.kill if blow == "kill -9" else victim.stop
        end()
        self._quorum.leader()
        if began_s is not None:
            self.without_leader_s.append(time.monotonic() - began_s)
        self._see_leader()
        time.sleep(self._random.uniform(0, _LONGEST_ABSENCE_S))
        victim.start()
        if self._random.random() < _KILLED_AGAIN:
            time.sleep(self._random.uniform(0, _LONGEST_ABSENCE_S))
            self.blows["kill -9 of a node that starts"] += 1
            victim.kill()
            victim.start()

    def _outlast_the_logs(self, victim: Voter) -> None:
        """Keeps a follower away until it lacks what the others have no more."""
        victim.kill()
        has = max((header.next_offset for header, _ in victim.batches()), default=0)
        self._quorum.wait_until(
            lambda: all(each.log_start_offset > has for each in self._quorum.running),
            "the logs are cut",
            timeout_s=CUT_WITHIN_S,
        )
        victim.start()

    def _freeze(self, victim: Voter) -> None:
        victim.freeze()
        time.sleep(self._random.uniform(0, _LONGEST_FREEZE_S))
        victim.thaw()

    def _see_leader(self) -> None:
        described = self._quorum.described()
        if described is None or described.leader_id is None:
            return
        self._saw_leader(described.leader_epoch, described.leader_id)
        assert described.high_watermark < 0 or described.high_watermark >= self._high_watermark, (
            f"the high watermark fell from {self._high_watermark} to {described.high_watermark}"
        )
        self._high_watermark = max(self._high_watermark, described.high_watermark)

    def _saw_leader(self, epoch: int, leader: int) -> None:
        first = self.leaders.setdefault(epoch, leader)
        assert first == leader, f"{first} and {leader} both led epoch {epoch}"

    def _wait_for_changes(self, count: int) -> None:
        enough = self.acknowledged + count
        self._quorum.wait_until(lambda: self.acknowledged >= enough, "changes are acknowledged")


def _values(log: bytes) -> list[int]:
    """What the key was set to, in the order of the log."""
    found = []
    for batch in iterate_metadata_batches(log):
        if isinstance(batch, DataBatch):
            changed = [each.record for each in batch.records]
            found += [
                int(record.value or 0)
                for record in changed
                if isinstance(record, ConfigRecord) and record.name == KEY
            ]
    return found


def _name(voter: Voter) -> str:
    return f"{voter.node_id} ({'ours' if isinstance(voter, OurVoter) else 'real'})"


def _mix(text: str) -> list[str]:
    kinds = text.split(",")
    if len(kinds) != 3 or not set(kinds) <= set(KINDS):
        raise argparse.ArgumentTypeError("three of 'ours' and 'real', with commas between")
    return kinds


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a line a round, and a summary; 0 if all was well."""
    parser = argparse.ArgumentParser(prog="benchmarks.quorum_kills", description="Kills leaders")
    parser.add_argument("--minutes", type=float, default=10, help="how long (default: 10)")
    parser.add_argument("--mix", type=_mix, default="real,ours,ours", help="voters 1, 2 and 3")
    parser.add_argument("--seed", type=int, default=None, help="of what is done (default: any)")
    parser.add_argument("--cut-logs", action="store_true", help="have nodes need snapshots")
    options = parser.parse_args(arguments)
    seed = random.randrange(1_000_000) if options.seed is None else options.seed
    print(f"{','.join(options.mix)} for {options.minutes:g} minutes, seed {seed}")
    ours = [node_id for node_id, kind in enumerate(options.mix, 1) if kind == "ours"]
    directory = Path(tempfile.mkdtemp(prefix="quorum-kills-"))
    quorum = MixedQuorum(directory, ours, CUT_LOGS if options.cut_logs else WHOLE_LOGS)
    scenario = KillScenario(quorum, seed, cuts_logs=options.cut_logs)
    try:
        quorum.start()
        scenario.run(minutes=options.minutes)
        _print_summary(scenario, quorum)
    except AssertionError as wrong:
        print(f"\n{wrong}\n", file=sys.stderr)
        for voter in quorum.voters.values():
            print(f"{voter.obituary()}\n", file=sys.stderr)
        print(f"The files are in {directory}", file=sys.stderr)
        return 1
    finally:
        quorum.close()
    shutil.rmtree(directory)
    return 0


def _print_summary(scenario: KillScenario, quorum: MixedQuorum) -> None:
    for blow, count in sorted(scenario.blows.items()):
        print(f"{count:6} x {blow}")
    for node_id, epochs in sorted(Counter(scenario.leaders.values()).items()):
        print(f"{epochs:6} epochs led by {_name(quorum.voters[node_id])}")
    waits = sorted(scenario.without_leader_s)
    if waits:
        middle, longest = waits[len(waits) // 2], waits[-1]
        print(f"{middle:6.2f} s (median), {longest:.2f} s (longest) until the next leader")
    print(f"{scenario.acknowledged:6} changes acknowledged, all there; logs equal")


if __name__ == "__main__":
    sys.exit(main())
