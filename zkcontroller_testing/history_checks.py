"""What may not be in a history of clients, whatever happens to brokers.

===================== ==========================================================================
lost-record           a record was acknowledged, and a reading of everything does not have it
duplicate             a record of an idempotent producer is there more than once
reordered             records of an idempotent producer are in another order than it sent them
nonmonotonic-read     a consumer that did not seek was given an offset that it had behind it
skipped-read          a consumer that did not seek was not given a record between two others
watermark-back        the end of a partition lies before what was read, or before an earlier end
inconsistent-offset   an offset had one record for one client, and another one for another
aborted-read          a record that was refused, or whose transaction was aborted, was read
phantom               a record was read that no one had sent
torn-transaction      a reader has some records of a transaction, and not all
group-offset-back     a group's offset lies before one that was committed, without a reset
two-leaders           two brokers led a partition in one leader epoch
two-controllers       two brokers were elected in one controller epoch
===================== ==========================================================================

Values of records are unique in a topic.  Records must not expire, and topics not be compacted.

Source: https://github.com/jepsen-io/jepsen ``jepsen.tests.kafka``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, TypeAlias

from zkcontroller_testing.operations import ClientAct, Operation, OperationResult, history_text

MOST_VIOLATIONS: Final = 100
"""Most violations of a kind that are returned."""


@dataclass(frozen=True, slots=True)
class HistoryViolation:
    """A violation: something in a history that must not happen."""

    name: str
    what: str
    where: str
    """A partition, a group's partition, a transaction, or the controller."""
    at_ns: int
    """When it was seen, in nanoseconds since the history began."""
    part: tuple[Operation, ...]
    """The operations that prove it; each of them is necessary for the proof."""

    def text(self) -> str:
        """The sentence, and below it the operations."""
        at = f"{self.at_ns / 1e9:.6f} s"
        part = "".join(f"    {line}\n" for line in history_text(self.part).splitlines())
        return f"{self.name} in {self.where} at {at}: {self.what}\n{part}"


Check: TypeAlias = Callable[[Sequence[Operation]], Iterator[HistoryViolation]]


def violations(operations: Iterable[Operation]) -> list[HistoryViolation]:
    """All violations in a history, in order of time, each with the fewest operations."""
    history = sorted(operations, key=lambda each: each.index)
    found = [
        _shortened(violation, check)
        for check in CHECKS
        for violation in islice(check(history), MOST_VIOLATIONS)
    ]
    return sorted(found, key=lambda each: each.at_ns)


def _shortened(violation: HistoryViolation, check: Check) -> HistoryViolation:
    """Leaves out each operation that is not needed to prove the violation."""
    part = sorted(set(violation.part), key=lambda each: each.index)
    for operation in list(part):
        rest = [each for each in part if each is not operation]
        if any(_is_same(violation, again) for again in check(rest)):
            part = rest
    return replace(violation, part=tuple(part))


def _is_same(one: HistoryViolation, other: HistoryViolation) -> bool:
    return (one.name, one.where) == (other.name, other.where)


def _violation(name: str, what: str, where: str, *part: Operation) -> HistoryViolation:
    """Makes a violation; its time is the end of its last operation."""
    at_ns = max(each.completed_ns or each.invoked_ns for each in part)
    return HistoryViolation(name, what, where, at_ns, part)


class _Index:
    """The operations of a history, by the keys that checks need."""

    def __init__(self, history: Sequence[Operation]) -> None:
        self.sends: dict[tuple[str, str], Operation] = {}
        self.reads: list[Operation] = []
        self.ends: list[Operation] = []
        self.commits: dict[str, Operation] = {}
        self.aborts: dict[str, Operation] = {}
        self.read_by: dict[tuple[str, str, str], Operation] = {}
        """The first read of each value, by process, topic and value."""
        for each in history:
            if each.act is ClientAct.SEND:
                self.sends.setdefault((each.topic, each.value), each)
            elif each.act is ClientAct.READ and each.is_ok:
                self.reads.append(each)
                self.read_by.setdefault((each.process, each.topic, each.value), each)
            elif each.act is ClientAct.READ_TO_END and each.is_ok:
                self.ends.append(each)
            elif each.act is ClientAct.COMMIT and each.is_ok:
                self.commits[each.transaction] = each
            elif each.act is ClientAct.ABORT and each.is_ok:
                self.aborts[each.transaction] = each


def lost_records(history: Sequence[Operation]) -> Iterator[HistoryViolation]:
    """Acknowledged records (committed, if in a transaction) that a later full reading lacks."""
    index = _Index(history)
    for send in index.sends.values():
        commit = index.commits.get(send.transaction)
        if not send.is_ok or (send.transaction and commit is None):
            continue
        for end in index.ends:
            last = commit or send
            if (
                end.place == send.place
                and last.is_before(end)
                and (end.process, send.topic, send.value) not in index.read_by
                # A read_committed reader does not get records after the last stable offset.
                and (send.offset < end.offset or not end.is_committed_only)
            ):
                part = (send, end) if commit is None else (send, commit, end)
                what = (
                    f"{send.value} was acknowledged at {send.offset}, and {end.process} has read "
                    f"everything up to {end.offset} without it"
                )
                yield _violation("lost-record", what, send.place, *part)
                break


def duplicates(history: Sequence[Operation]) -> Iterator[HistoryViolation]:
    """Records of an idempotent producer that are at two offsets."""
    index = _Index(history)
    first: dict[tuple[str, str], Operation] = {}
    for read in index.reads:
        send = index.sends.get((read.topic, read.value))
        if send is None or not send.is_idempotent:
            continue
        before = first.setdefault((read.topic, read.value), read)
        if (before.partition, before.offset) != (read.partition, read.offset):
            what = (
                f"{read.value} is at {before.place} {before.offset} and at "
                f"{read.place} {read.offset}"
            )
            yield _violation("duplicate", what, read.place, send, before, read)


def reordered(history: Sequence[Operation]) -> Iterator[HistoryViolation]:
    """Records of an idempotent producer that are not in the order in which it sent them."""
    index = _Index(history)
    seen: dict[tuple[str, str], Operation] = {}
    for read in index.reads:
        seen.setdefault((read.topic, read.value), read)
    last: dict[tuple[str, str], tuple[int, tuple[Operation, ...]]] = {}
    for send in index.sends.values():
        read_of = seen.get((send.topic, send.value))
        if not send.is_idempotent or (read_of is None and not (send.is_ok and send.offset >= 0)):
            continue
        proof: tuple[Operation, ...] = (send,)
        offset = send.offset
        if not send.is_ok or offset < 0:
            assert read_of is not None, "one of the two knows the offset"
            proof, offset = (send, read_of), read_of.offset
        before = last.get((send.process, send.place))
        if before is not None and offset < before[0]:
            what = f"{send.value} is at {offset}, before what was sent earlier ({before[0]})"
            yield _violation("reordered", what, send.place, *before[1], *proof)
        else:
            last[send.process, send.place] = offset, proof


def nonmonotonic_reads(history: Sequence[Operation]) -> Iterator[HistoryViolation]:
    """Reads of a consumer that go back without a seek or a new assignment."""
    for before, each in _reads_in_turn(history):
        if each.offset <= before.offset:
            what = f"{each.process} was given {each.offset} after {before.offset}"
            yield _violation("nonmonotonic-read", what, each.place, before, each)


def skipped_reads(history: Sequence[Operation]) -> Iterator[HistoryViolation]:
    """Records between two successive reads of a consumer that another consumer has read.

    Only consumers with the same isolation level are compared.
    """
    known: defaultdict[tuple[str, bool], dict[int, Operation]] = defaultdict(dict)
    for each in history:
        if each.act is ClientAct.READ and each.is_ok:
            known[each.place, each.is_committed_only].setdefault(each.offset, each)
    in_order = {key: sorted(reads) for key, reads in known.items()}
    for before, each in _reads_in_turn(history):
        kind = each.place, each.is_committed_only
        offsets = in_order[kind]
        after = bisect_right(offsets, before.offset)
        if after < len(offsets) and offsets[after] < each.offset:
            other = known[kind][offsets[after]]
            what = f"{each.process} was not given {other.offset}, as {other.process} was"
            yield _violation("skipped-read", what, each.place, before, each, other)


def _reads_in_turn(history: Sequence[Operation]) -> Iterator[tuple[Operation, Operation]]:
    """Pairs of successive reads of a consumer in a partition, without a seek in between."""
    last: dict[tuple[str, str], Operation] = {}
    for each in history:
        key = each.process, each.place
        if each.act is ClientAct.SEEK:
            last.pop(key, None)
        elif each.act is ClientAct.READ and each.is_ok:
            if key in last:
                yield last[key], each
            last[key] = each


def watermarks_back(history: Sequence[Operation]) -> Iterator[HistoryViolation]:
    """End offsets of partitions that are lower than an earlier end offset or a read record's."""
    for place, operations in _by_place(history, ClientAct.READ, ClientAct.WATERMARK).items():
        by_end = sorted(operations, key=lambda each: each.completed_ns or 0)
        waiting = deque(by_end)
        # The highest end seen, by isolation level: the last stable offset of read_committed may be
        # lower than the high watermark, but must not go back either.
        highest_of: dict[bool, Operation] = {}
        for asked in operations:
            if asked.act is not ClientAct.WATERMARK:
                continue
            while waiting and waiting[0].is_before(asked):
                seen = waiting.popleft()
                for kind in (True, False) if seen.is_committed_only else (False,):
                    if kind not in highest_of or _end_after(seen) > _end_after(highest_of[kind]):
                        highest_of[kind] = seen
            highest = highest_of.get(asked.is_committed_only)
            if highest is not None and asked.offset < _end_after(highest):
                what = (
                    f"{asked.process} was given the end {asked.offset}, and {highest.process} "
                    f"had seen {_end_after(highest)} before"
                )
                yield _violation("watermark-back", what, place, highest, asked)


def _end_after(operation: Operation) -> int:
    return operation.offset + (operation.act is ClientAct.READ)


def _by_place(history: Sequence[Operation], *acts: ClientAct) -> dict[str, list[Operation]]:
    found: defaultdict[str, list[Operation]] = defaultdict(list)
    for each in history:
        if each.act in acts and each.is_ok:
            found[each.place].append(each)
    return found


def inconsistent_offsets(history: Sequence[Operation]) -> Iterator[HistoryViolation]:
    """Offsets at which clients saw different records."""
    seen: dict[tuple[str, int], Operation] = {}
    for each in history:
        if each.act not in (ClientAct.SEND, ClientAct.READ) or not each.is_ok or each.offset < 0:
            continue
        before = seen.setdefault((each.place, each.offset), each)
        if before.value != each.value:
            what = f"offset {each.offset} is {before.value} and {each.value}"
            yield _violation("inconsistent-offset", what, each.place, before, each)


def aborted_reads(history: Sequence[Operation]) -> Iterator[HistoryViolation]:
    """Refused records that were read, and aborted ones that a read_committed reader got."""
    index = _Index(history)
    for read in index.reads:
        send = index.sends.get((read.topic, read.value))
        if send is None:
            continue
        abort = index.aborts.get(send.transaction) if read.is_committed_only else None
        if send.completion is OperationResult.FAIL:
            what = f"{read.value} was refused, and {read.process} has read it"
            yield _violation("aborted-read", what, read.place, send, read)
        elif abort is not None:
            what = f"{read.value} is of {send.transaction}, which was aborted"
            yield _violation("aborted-read", what, read.place, send, abort, read)


def phantoms(history: Sequence[Operation]) -> Iterator[HistoryViolation]:
    """Records that were read but not sent, or read before they were sent."""
    index = _Index(history)
    for read in index.reads:
        send = index.sends.get((read.topic, read.value))
        if send is None:
            what = f"{read.process} has read {read.value or 'a record without a value'}"
            yield _violation("phantom", f"{what}, which no one has sent", read.place, read)
        elif read.completed_ns is not None and read.completed_ns < send.invoked_ns:
            what = f"{read.process} has read {read.value} before it was sent"
            yield _violation("phantom", what, read.place, read, send)


def torn_transactions(history: Sequence[Operation]) -> Iterator[HistoryViolation]:
    """Transactions of which a read_committed reader has only some of the records."""
    index = _Index(history)
    ends = {(end.process, end.place): end for end in index.ends if end.is_committed_only}
    readers = dict.fromkeys(process for process, _ in ends)
    members: defaultdict[str, list[Operation]] = defaultdict(list)
    for send in index.sends.values():
        if send.transaction:
            members[send.transaction].append(send)
    for name, sends in members.items():
        for reader in readers:
            there = [
                read
                for send in sends
                if (read := index.read_by.get((reader, send.topic, send.value))) is not None
            ]
            missing = next(
                (
                    (send, end)
                    for send in sends
                    if send.is_ok
                    and (end := ends.get((reader, send.place))) is not None
                    and send.offset < end.offset
                    and (reader, send.topic, send.value) not in index.read_by
                ),
                None,
            )
            if there and missing is not None:
                read, (send, end) = there[0], missing
                other = index.sends[read.topic, read.value]
                what = f"{reader} has read {read.value} of it, and not {send.value}"
                yield _violation("torn-transaction", what, name, other, read, send, end)


def group_offsets_back(history: Sequence[Operation]) -> Iterator[HistoryViolation]:
    """Offsets of a group that are lower than one committed before, without a reset."""
    committed = {e.transaction: e for e in history if e.act is ClientAct.COMMIT and e.is_ok}
    acts = (ClientAct.COMMIT_OFFSET, ClientAct.FETCH_OFFSET, ClientAct.RESET_OFFSET)
    groups: defaultdict[tuple[str, str], list[Operation]] = defaultdict(list)
    for each in history:
        if each.act in acts:
            groups[each.group, each.place].append(each)
    for (group, place), operations in groups.items():
        for later in operations:
            if not later.is_ok or later.act is ClientAct.RESET_OFFSET:
                continue
            resets = [
                reset
                for reset in operations
                if reset.act is ClientAct.RESET_OFFSET and reset.invoked_ns <= _completed_ns(later)
            ]
            highest = max(
                (
                    (earlier, end)
                    for earlier in operations
                    if earlier.act is ClientAct.COMMIT_OFFSET
                    and earlier.is_ok
                    and (end := _takes_effect(earlier, committed)) is not None
                    and end.is_before(later)
                    and not any(end.invoked_ns <= _completed_ns(reset) for reset in resets)
                ),
                key=lambda found: found[0].offset,
                default=None,
            )
            if highest is not None and later.offset < highest[0].offset:
                what = f"{later.process} has {later.offset} after {highest[0].offset}"
                where = f"{group} {place}"
                yield _violation("group-offset-back", what, where, *highest, later)


def _completed_ns(operation: Operation) -> float:
    """When the operation completed; infinity if it has not."""
    return float("inf") if operation.completed_ns is None else operation.completed_ns


def _takes_effect(commit: Operation, committed: dict[str, Operation]) -> Operation | None:
    """The operation that makes a committed offset valid: itself, or its transaction's commit.

    None: the transaction was not committed.
    """
    return committed.get(commit.transaction) if commit.transaction else commit


def two_leaders(history: Sequence[Operation]) -> Iterator[HistoryViolation]:
    """Leader epochs with two leaders, and controller epochs with two controllers."""
    leaders: dict[tuple[str, str, int], Operation] = {}
    controllers: dict[int, Operation] = {}
    for each in sorted(history, key=lambda each: each.invoked_ns):
        if each.act is ClientAct.DELETE_TOPIC:
            leaders = {k: v for k, v in leaders.items() if v.topic != each.topic}
        elif each.act is ClientAct.LEAD:
            before = leaders.setdefault((each.place, each.value, each.epoch), each)
            if before.process != each.process:
                what = f"{before.process} and {each.process} lead in epoch {each.epoch}"
                yield _violation("two-leaders", what, each.place, before, each)
        elif each.act is ClientAct.CONTROL:
            before = controllers.setdefault(each.epoch, each)
            if before.process != each.process:
                what = f"{before.process} and {each.process} have epoch {each.epoch}"
                yield _violation("two-controllers", what, "the controller", before, each)


CHECKS: Final[Sequence[Check]] = (
    lost_records,
    duplicates,
    reordered,
    nonmonotonic_reads,
    skipped_reads,
    watermarks_back,
    inconsistent_offsets,
    aborted_reads,
    phantoms,
    torn_transactions,
    group_offsets_back,
    two_leaders,
)
