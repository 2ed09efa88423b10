"""Histories of clients as a correct cluster makes them, and how each may be spoilt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final

from zkcontroller_testing.operations import ClientAct, Operation, OperationResult

TOPIC: Final = "orders"
PARTITIONS: Final = 2
STEPS: Final = 60
_NS: Final = 1_000_000


@dataclass
class _Cluster:
    """Two partitions that never lose anything, and what is done to them."""

    random: Random
    now_ns: int = 0
    operations: list[Operation] = field(default_factory=list)
    logs: list[list[str | None]] = field(default_factory=lambda: [[] for _ in range(PARTITIONS)])
    """The values; None for a marker."""
    hidden: set[str] = field(default_factory=set)
    """Values of transactions that were aborted."""
    positions: dict[tuple[str, int], int] = field(default_factory=dict)
    group_offsets: list[int] = field(default_factory=lambda: [0] * PARTITIONS)

    def note(self, process: str, act: ClientAct, **fields: Any) -> Operation:
        began_ns = self.now_ns = self.now_ns + _NS
        self.now_ns += self.random.randrange(_NS)
        fields = {"completion": OperationResult.OK, "completed_ns": self.now_ns, **fields}
        operation = Operation(len(self.operations), process, act, began_ns, **fields)
        self.operations.append(operation)
        return operation

    def send(self, process: str, *, transaction: str = "", lasts: bool = True) -> None:
        partition, number = self.random.randrange(PARTITIONS), len(self.operations)
        value = f"{process}:{number}"
        where = {"topic": TOPIC, "partition": partition, "value": value}
        ending: dict[str, Any] = {"offset": len(self.logs[partition])}
        chance = 0.0 if transaction else self.random.random()
        is_there = not 0.1 > chance > 0.0
        if 0.0 < chance < 0.1:
            ending = {"completion": OperationResult.FAIL}
        elif 0.1 < chance < 0.2:
            ending = {"completion": OperationResult.INFO, "completed_ns": None}
        self.note(
            process, ClientAct.SEND, **where, **ending, transaction=transaction, is_idempotent=True
        )
        if is_there:
            self.logs[partition].append(value)
            if not lasts:
                self.hidden.add(value)

    def transact(self, number: int) -> None:
        name, process = f"transaction-{number}", "transactor"
        aborts = self.random.random() < 0.4
        for _ in range(3):
            self.send(process, transaction=name, lasts=not aborts)
        if self.random.random() < 0.5 and not aborts:
            self.group_offsets[0] += 1
            offset = self.group_offsets[0]
            where = {"topic": TOPIC, "partition": 0, "group": "group"}
            self.note(process, ClientAct.COMMIT_OFFSET, **where, offset=offset, transaction=name)
        self.note(process, ClientAct.ABORT if aborts else ClientAct.COMMIT, transaction=name)
        for log in self.logs:
            log.append(None)

    def read(self, process: str, partition: int) -> None:
        at = self.positions.get((process, partition), 0)
        log = self.logs[partition]
        while at < len(log) and (log[at] is None or log[at] in self.hidden):
            at += 1
        if at < len(log):
            where = {"topic": TOPIC, "partition": partition, "is_committed_only": True}
            self.note(process, ClientAct.READ, **where, value=log[at], offset=at)
            at += 1
        self.positions[process, partition] = at

    def commit_offset(self) -> None:
        partition = self.random.randrange(PARTITIONS)
        self.group_offsets[partition] += 1
        where = {"topic": TOPIC, "partition": partition, "group": "group"}
        offset = self.group_offsets[partition]
        self.note("member", ClientAct.COMMIT_OFFSET, **where, offset=offset)
        self.note("member", ClientAct.FETCH_OFFSET, **where, offset=offset)

    def end(self) -> None:
        for partition, log in enumerate(self.logs):
            for _ in log:
                self.read("final", partition)
            where = {"topic": TOPIC, "partition": partition, "is_committed_only": True}
            self.note("final", ClientAct.READ_TO_END, **where, offset=len(log))


def correct_history(seed: int) -> list[Operation]:
    """What clients of a correct cluster have seen; the same for the same seed."""
    cluster = _Cluster(Random(seed))
    for number in range(STEPS):
        match cluster.random.randrange(7):
            case 0 | 1:
                cluster.send(f"producer-{cluster.random.randrange(2)}")
            case 2:
                cluster.transact(number)
            case 3 | 4:
                cluster.read("reader", cluster.random.randrange(PARTITIONS))
            case 5:
                cluster.commit_offset()
            case _:
                partition = cluster.random.randrange(PARTITIONS)
                where = {"topic": TOPIC, "partition": partition}
                end = len(cluster.logs[partition])
                cluster.note("asker", ClientAct.WATERMARK, **where, offset=end)
                cluster.note(f"broker-{number % 3}", ClientAct.LEAD, **where, epoch=number)
                cluster.note(f"broker-{number % 3}", ClientAct.CONTROL, epoch=number)
    cluster.end()
    return cluster.operations


Mutation = Callable[[list[Operation], Random], list[Operation] | None]
"""A history that is spoilt in one way; None if this one cannot be."""


def _some(random: Random, operations: Sequence[Operation]) -> Operation | None:
    return random.choice(operations) if operations else None


def _with(history: list[Operation], old: Operation, **changed: Any) -> list[Operation]:
    return [replace(each, **changed) if each is old else each for each in history]


def _sends(history: list[Operation]) -> dict[str, Operation]:
    return {each.value: each for each in history if each.act is ClientAct.SEND}


def _final_reads(history: list[Operation]) -> list[Operation]:
    return [each for each in history if each.process == "final" and each.act is ClientAct.READ]


def _ended(history: list[Operation], name: str) -> bool:
    return any(each.act is ClientAct.COMMIT and each.transaction == name for each in history)


def lose(history: list[Operation], random: Random) -> list[Operation] | None:
    """The final reading lacks a record that was acknowledged."""
    sends = _sends(history)
    read = _some(
        random,
        [r for r in _final_reads(history) if (s := sends[r.value]).is_ok and not s.transaction],
    )
    return None if read is None else [each for each in history if each is not read]


def repeat(history: list[Operation], random: Random) -> list[Operation] | None:
    """A record is there once more, behind the others."""
    read = _some(random, _final_reads(history))
    if read is None:
        return None
    again = replace(read, index=len(history), process="late", offset=read.offset + 10_000)
    return [*history, again]


def swap(history: list[Operation], random: Random) -> list[Operation] | None:
    """Two records of a producer have changed their places."""
    reads = _final_reads(history)
    pairs = [
        (one, other)
        for one in reads
        for other in reads
        if one.place == other.place
        and one.offset < other.offset
        and one.value.partition(":")[0] == other.value.partition(":")[0]
    ]
    if not pairs:
        return None
    one, other = random.choice(pairs)
    places = {one.value: other.offset, other.value: one.offset}
    return [
        replace(each, offset=places[each.value])
        if each.act in (ClientAct.SEND, ClientAct.READ)
        and each.value in places
        and each.offset >= 0
        else each
        for each in history
        if not (each.act is ClientAct.READ and each.process == "reader")
    ]


def go_back(history: list[Operation], random: Random) -> list[Operation] | None:
    """A consumer is given a record that it had."""
    read = _some(random, _final_reads(history))
    return None if read is None else [*history, replace(read, index=len(history))]


def skip(history: list[Operation], random: Random) -> list[Operation] | None:
    """A consumer is not given a record that lies between two others."""
    reads = [each for each in history if each.process == "reader" and each.act is ClientAct.READ]
    between = [
        each
        for number, each in enumerate(reads)
        if any(other.place == each.place for other in reads[:number])
        and any(other.place == each.place for other in reads[number + 1 :])
    ]
    read = _some(random, between)
    return None if read is None else [each for each in history if each is not read]


def shorten(history: list[Operation], random: Random) -> list[Operation] | None:
    """The end of a partition lies before what was read."""
    read = _some(random, _final_reads(history))
    if read is None:
        return None
    later = read.invoked_ns + 1_000 * _NS
    back = replace(
        read,
        index=len(history),
        process="asker",
        act=ClientAct.WATERMARK,
        invoked_ns=later,
        completed_ns=later,
        value="",
    )
    return [*history, back]


def dispute(history: list[Operation], random: Random) -> list[Operation] | None:
    """Two clients see different records at an offset."""
    reads = _final_reads(history)
    pairs = [(a, b) for a in reads for b in reads if a.place == b.place and a.value != b.value]
    if not pairs:
        return None
    one, other = random.choice(pairs)
    return [*history, replace(one, index=len(history), process="late", value=other.value)]


def show_aborted(history: list[Operation], random: Random) -> list[Operation] | None:
    """A record of a transaction that was aborted is read."""
    aborted = {each.transaction for each in history if each.act is ClientAct.ABORT}
    return _read_late(history, random, lambda send: send.transaction in aborted)


def show_refused(history: list[Operation], random: Random) -> list[Operation] | None:
    """A record that was refused for certain is read."""
    return _read_late(history, random, lambda send: send.completion is OperationResult.FAIL)


def _read_late(
    history: list[Operation], random: Random, which: Callable[[Operation], bool]
) -> list[Operation] | None:
    send = _some(random, [send for send in _sends(history).values() if which(send)])
    if send is None:
        return None
    last = history[-1]
    read = replace(
        last,
        index=len(history),
        process="late",
        act=ClientAct.READ,
        partition=send.partition,
        value=send.value,
        offset=max(send.offset, 20_000),
    )
    return [*history, read]


def invent(history: list[Operation], random: Random) -> list[Operation] | None:
    """A record is read that no one had sent."""
    read = _some(random, _final_reads(history))
    return None if read is None else _with(history, read, value="from-nowhere")


def tear(history: list[Operation], random: Random) -> list[Operation] | None:
    """One record of a transaction is missing, of which others are there."""
    sends = _sends(history)
    reads = [r for r in _final_reads(history) if sends[r.value].transaction]
    read = _some(
        random,
        [
            read
            for read in reads
            if sum(sends[each.value].transaction == sends[read.value].transaction for each in reads)
            > 1
        ],
    )
    return None if read is None else [each for each in history if each is not read]


def forget_offset(history: list[Operation], random: Random) -> list[Operation] | None:
    """A group is given an offset before the one that it has committed."""
    fetch = _some(random, [each for each in history if each.act is ClientAct.FETCH_OFFSET])
    return None if fetch is None else _with(history, fetch, offset=fetch.offset - 1)


def lead_twice(history: list[Operation], random: Random) -> list[Operation] | None:
    """Another broker leads in the same epoch."""
    lead = _some(random, [each for each in history if each.act is ClientAct.LEAD])
    if lead is None:
        return None
    return [*history, replace(lead, index=len(history), process="broker-9")]


def control_twice(history: list[Operation], random: Random) -> list[Operation] | None:
    """Another broker is controller in the same epoch."""
    elected = _some(random, [each for each in history if each.act is ClientAct.CONTROL])
    if elected is None:
        return None
    return [*history, replace(elected, index=len(history), process="broker-9")]


MUTATIONS: Final[dict[Mutation, str]] = {
    lose: "lost-record",
    repeat: "duplicate",
    swap: "reordered",
    go_back: "nonmonotonic-read",
    skip: "skipped-read",
    shorten: "watermark-back",
    dispute: "inconsistent-offset",
    show_aborted: "aborted-read",
    show_refused: "aborted-read",
    invent: "phantom",
    tear: "torn-transaction",
    forget_offset: "group-offset-back",
    lead_twice: "two-leaders",
    control_twice: "two-controllers",
}
"""Each with the name of what it must be refused for."""
