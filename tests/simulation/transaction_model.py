"""A random run of one log with transactions, compared with a plain list of what was appended.

A run appends records of several producers, in transactions and outside of them, ends transactions,
rolls, compacts, raises the log start, flushes, stops, and loses the tail of the log.  Any of these
may reach a limit (open files, memory, space) at one of its system calls.

The model does not know how a log works.  It keeps every record that was acknowledged, with the
decision about its transaction.  Reads are compared with it at both isolation levels.  None may
return a record that was not appended, or miss one that nothing may have removed.  A read of
committed records returns no record of a transaction that is open or aborted.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from kafka_common.errors import KafkaStorage
from kafka_common.protocol.record_batch import encode_batch, iterate_batch, iterate_batches
from kafka_common.protocol.records import Record
from replica_manager.log.files import CLEANED_SUFFIX
from replica_manager.log.log_cleaner import Cleaned, clean, cleaning_job
from replica_manager.log.log_config import LogConfig
from replica_manager.log.log_values import FetchIsolation
from replica_manager.log.unified_log import UnifiedLog
from tests.support.log_world import LogWorld, end_transaction, read
from tests.support.refused_calls import CALLS, refused_call

STEPS: Final = 60
KEYS: Final = 4
PRODUCERS: Final = (1, 2, 3)
MOST_CALLS: Final = 40
"""A limit refuses one of so many system calls."""
_MEMORY: Final = 2**16
_CONFIG: Final = LogConfig(
    segment_bytes=900,
    index_interval_bytes=150,
    is_compacted=True,
    is_deleted=False,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=1_000,
    file_delete_delay_ms=500,
)


class WrongRead(AssertionError):
    """A read returned what it must not, or missed what it must return."""


@dataclass(slots=True)
class Transaction:
    """A transaction; once decided it stays so, also where its marker is lost."""

    producer_id: int
    is_committed: bool | None = None
    marker: int | None = None

    @property
    def is_aborted(self) -> bool:
        return self.is_committed is False


@dataclass(frozen=True, slots=True)
class Appended:
    """A record that was acknowledged."""

    key: bytes
    value: bytes | None
    transaction: Transaction | None


@dataclass(slots=True)
class Model:
    """What was appended to the log, and what of it may be gone."""

    records: dict[int, Appended] = field(default_factory=dict)
    batches: dict[int, int] = field(default_factory=dict)
    """The first offset of each batch, with its leader epoch."""
    ongoing: dict[int, Transaction] = field(default_factory=dict)
    """By producer: transactions without a marker in the log."""
    ended: list[Transaction] = field(default_factory=list)
    may_be_gone: set[int] = field(default_factory=set)
    start: int = 0
    """The highest log start so far: records below it may be gone."""
    end: int = 0
    synced: int = 0
    """Records below it survive the loss of the page cache."""

    def cleaned(self, end: int) -> None:
        """A compaction up to ``end`` may have removed all but the newest record of each key."""
        newest = {
            each.key: at for at, each in self.records.items() if at < end and not _is_aborted(each)
        }
        self.may_be_gone |= {
            at
            for at, each in self.records.items()
            if at < end and (each.value is None or newest.get(each.key) != at)
        }

    def cut(self, offset: int) -> None:
        """Everything from ``offset`` on was lost; its transactions are without their markers."""
        self.records = {at: each for at, each in self.records.items() if at < offset}
        self.batches = {at: epoch for at, epoch in self.batches.items() if at < offset}
        self.may_be_gone = {at for at in self.may_be_gone if at < offset}
        for transaction in [*self.ended, *self.ongoing.values()]:
            if transaction.marker is not None and transaction.marker >= offset:
                transaction.marker = None
        known = [each.transaction for each in self.records.values() if each.transaction is not None]
        self.ongoing = {each.producer_id: each for each in known if each.marker is None}
        self.ended = [each for each in self.ended if each.marker is not None]
        self.end = offset
        self.start = min(self.start, offset)
        self.synced = min(self.synced, offset)

    def undecided(self) -> dict[int, int]:
        """By producer: the first offset of the transaction that nothing has decided."""
        first: dict[int, int] = {}
        for at, each in self.records.items():
            if each.transaction is not None and each.transaction.is_committed is None:
                first.setdefault(each.transaction.producer_id, at)
        return first

    def check_uncommitted(self, found: dict[int, tuple[bytes, bytes | None]]) -> None:
        self._check_known(found)
        for at, each in self.records.items():
            if at >= self.start and at not in found and self._must_be_there(at, each):
                raise WrongRead(f"{each} at {at} is lost")

    def check_committed(
        self, found: dict[int, tuple[bytes, bytes | None]], last_stable_offset: int
    ) -> None:
        self._check_known(found)
        for at in found:
            transaction = self.records[at].transaction
            if transaction is not None and transaction.is_committed is not True:
                raise WrongRead(f"{self.records[at]} at {at} is read as committed")
        newest: dict[bytes, int] = {}
        for at, each in self.records.items():
            if at < last_stable_offset and not _is_aborted(each):
                newest[each.key] = at
                if at >= self.start and at not in found and self._must_be_there(at, each):
                    raise WrongRead(f"{each} at {at}, which is committed, is not read")
        seen = {key: at for at, (key, _) in found.items()}
        for key, at in newest.items():
            if self.records[at].value is None and at >= self.start and seen.get(key, at) != at:
                raise WrongRead(f"{key!r} is read at {seen[key]}, and was deleted at {at}")

    def _check_known(self, found: dict[int, tuple[bytes, bytes | None]]) -> None:
        for at, record in found.items():
            each = self.records.get(at)
            if each is None or (each.key, each.value) != record:
                raise WrongRead(f"{record} is read at {at} in the place of {each}")

    def _must_be_there(self, at: int, each: Appended) -> bool:
        return at not in self.may_be_gone and not _is_aborted(each)


def _is_aborted(appended: Appended) -> bool:
    return appended.transaction is not None and appended.transaction.is_aborted


class TransactionScenario:
    """One log, stepped at random."""

    def __init__(self, root: Path, seed: int, *, limits: bool = True) -> None:
        self.random = Random(seed)
        self.world = LogWorld(root / "orders-0", _CONFIG)
        self.model = Model()
        self.history: list[str] = []
        self.compactions = 0
        self.refusals = 0
        self.epoch = 0
        """Of the leader; a restart raises it."""
        self._limits = limits
        self._checkpoint: int | None = None
        self._cleaned: tuple[Cleaned, int] | None = None
        """New segments that are not in the log yet, and the offset up to which they are clean."""
        self._number = 0
        self.synced_files: set[int] = set()
        """The inodes of files that were synced; the test notes them."""
        self.log = self.world.open()

    def run(self, steps: int = STEPS) -> None:
        """Performs random actions; raises WrongRead when a read differs from the model."""
        actions: list[tuple[Callable[[], None], int]] = [
            (self.put, 10),
            (self.write, 14),
            (self.end_one, 7),
            (self.roll, 4),
            (self.compact, 4),
            (self._begin_compaction, 3),
            (self._end_compaction, 5),
            (self._pass_time, 2),
            (self._upkeep, 2),
            (self._flush, 3),
            (self._delete_records, 1),
            (self._stop, 1),
            (self.kill, 1),
            (self._lose_tail, 2),
        ]
        weights = [weight for _, weight in actions]
        for _ in range(steps):
            [(action, _)] = self.random.choices(actions, weights)
            self.history.append(action.__name__.lstrip("_"))
            if action == self._lose_tail:
                self._cut_files()  # no system call of the log
            if self._limits and self.random.random() < 0.4:
                self._refuse_a_call_of(action)
            else:
                action()
            self.check()
        self.finish()

    def finish(self) -> None:
        """Ends every transaction, and compacts until tombstones and markers are gone."""
        for producer_id in list(self.model.ongoing):
            self.end(producer_id)
        for _ in range(3):
            self.put()
            self.roll()
            self.compact()
            self.check()
            self._pass_time(5_000)
        self._stop()
        self.check()

    def _refuse_a_call_of(self, action: Callable[[], None]) -> None:
        code = self.random.choice(list(CALLS))
        number = self.random.randint(1, self.random.choice([6, MOST_CALLS]))
        with refused_call(code, number) as refused, contextlib.suppress(OSError, KafkaStorage):
            action()
        if refused.name is not None:
            self.history.append(f"({os.strerror(code)} at {refused.name} {number})")
            self.refusals += 1
        if self.world.failures:
            self.kill()

    # Looking.

    def check(self) -> None:
        """WrongRead if a read, or the end of the log, differs from the model."""
        log, model = self.log, self.model
        if self.world.failures:
            raise WrongRead(f"the log directory failed: {self.world.failures}")
        if log.log_end_offset != model.end:
            raise WrongRead(f"the log ends at {log.log_end_offset} and not at {model.end}")
        latest_epoch = next(reversed(model.batches.values()), None)
        if log.latest_epoch is not None and log.latest_epoch != latest_epoch:
            raise WrongRead(f"the newest epoch is {log.latest_epoch} and not {latest_epoch}")
        undecided = model.undecided()
        for producer_id, first in undecided.items():
            if not log.producers.has_ongoing_transaction(producer_id):
                raise WrongRead(f"the transaction of {producer_id} at {first} is not open")
        stable = log.last_stable_offset
        if stable > max(log.log_start_offset, min([*undecided.values(), log.high_watermark])):
            raise WrongRead(f"{stable} is stable, and transactions are open: {undecided}")
        if not model.ongoing and stable < log.high_watermark == model.end:
            raise WrongRead(f"{stable} is stable, {log.high_watermark} committed, nothing open")
        model.check_uncommitted(dict(self._read(FetchIsolation.LOG_END)))
        model.check_committed(dict(self._read(FetchIsolation.TXN_COMMITTED)), stable)

    def _read(self, isolation: FetchIsolation) -> Iterator[tuple[int, tuple[bytes, bytes | None]]]:
        """What a consumer returns, by offset, as Kafka's consumer filters aborted transactions."""
        offset = self.log.log_start_offset
        while True:
            found = read(self.log, offset, self.random.choice([200, 2**20]), isolation)
            data = b"" if found.slice is None else found.slice.read()
            coming = sorted(found.aborted_transactions or (), key=lambda each: each.first_offset)
            aborted: set[int] = set()
            after = offset
            for place, header in iterate_batches(data):
                while coming and coming[0].first_offset <= header.last_offset:
                    aborted.add(coming.pop(0).producer_id)
                after = header.next_offset
                if header.is_control:
                    aborted.discard(header.producer_id)
                    continue
                if header.is_transactional and header.producer_id in aborted:
                    continue
                for record in iterate_batch(data, place, header):
                    if record.offset >= offset:
                        assert record.key is not None, "every record has a key"
                        yield record.offset, (record.key, record.value)
            if after == offset:
                return
            offset = after

    # Records.

    def put(self) -> None:
        """Appends records outside of any transaction."""
        self._append(None)

    def write(self, producer_id: int | None = None) -> None:
        """Appends records in the open transaction of a producer, or begins one."""
        producer = self.random.choice(PRODUCERS) if producer_id is None else producer_id
        transaction = self.model.ongoing.get(producer) or Transaction(producer)
        if transaction.is_committed is None:
            self._append(transaction)

    def _append(self, transaction: Transaction | None) -> None:
        records = [self._record(i) for i in range(self.random.randint(1, 3))]
        if transaction is None:
            batch = encode_batch(records)
        else:
            entry = self.log.producers.entry(transaction.producer_id)
            batch = encode_batch(
                records,
                producer_id=transaction.producer_id,
                producer_epoch=0,
                base_sequence=entry.last_sequence + 1,
                is_transactional=True,
            )
        model, epoch = self.model, self.epoch
        if self._is_appended(lambda: self.log.append_as_leader(batch, epoch), len(records)):
            model.batches[model.end] = epoch
            for record in records:
                assert record.key is not None, "every record has a key"
                model.records[model.end] = Appended(record.key, record.value, transaction)
                model.end += 1
            if transaction is not None:
                model.ongoing[transaction.producer_id] = transaction
        self._raise_high_watermark()

    def _is_appended(self, append: Callable[[], object], count: int) -> bool:
        """Whether the append took effect, also where the directory failed in it."""
        before = self.log.log_end_offset
        try:
            append()
        except KafkaStorage:
            if self.world.failures:
                self._reopen(clean=False)
            elif self.log.log_end_offset != before:
                raise WrongRead("a refused append has moved the end of the log") from None
        after = self.log.log_end_offset
        if after not in (before, before + count):
            raise WrongRead(f"an append of {count} has moved the end from {before} to {after}")
        return after > before

    def _record(self, place: int) -> Record:
        self._number += 1
        value = None if self.random.random() < 0.2 else b"%d" % self._number
        return Record(place, self.world.now_ms, b"k%d" % self.random.randrange(KEYS), value)

    def end_one(self) -> None:
        """Commits or aborts an open transaction."""
        if self.model.ongoing:
            self.end(self.random.choice(list(self.model.ongoing)))

    def end(self, producer_id: int, *, commit: bool | None = None) -> None:
        """Ends a transaction as decided, or decides."""
        transaction = self.model.ongoing[producer_id]
        if transaction.is_committed is None:
            decided = self.random.random() < 0.5 if commit is None else commit
            transaction.is_committed = decided
        is_committed = transaction.is_committed
        model, epoch = self.model, self.epoch
        if self._is_appended(
            lambda: end_transaction(self.log, producer_id, commit=is_committed, leader_epoch=epoch),
            1,
        ):
            model.batches[model.end] = epoch
            transaction.marker = model.end
            model.end += 1
            model.ended.append(model.ongoing.pop(producer_id))
        self._raise_high_watermark()

    def _raise_high_watermark(self) -> None:
        wanted = self.model.end
        if self.random.random() < 0.2 and self.model.batches:
            wanted = next(reversed(self.model.batches))
        self.log.maybe_increment_high_watermark(wanted)

    def roll(self) -> None:
        self.log.roll()

    def _delete_records(self) -> None:
        offset = self.random.randint(self.log.log_start_offset, self.log.high_watermark)
        self.log.delete_records(offset)
        self.model.start = max(self.model.start, offset)

    # Upkeep.

    def compact(self) -> None:
        """Compacts up to the first uncleanable offset."""
        self._begin_compaction()
        self._end_compaction()

    def _begin_compaction(self) -> None:
        """The thread of the cleaner writes the new segments."""
        if self._cleaned is None:
            job = cleaning_job(self.log, self._checkpoint, self.world.now_ms)
            self._cleaned = clean(job, _MEMORY), job.first_uncleanable_offset

    def _end_compaction(self) -> None:
        """The event loop puts them in the place of the old ones."""
        if self._cleaned is None:
            return
        (cleaned, uncleanable), self._cleaned = self._cleaned, None
        self.model.cleaned(uncleanable)
        try:
            assert self.log.replace_segments(cleaned.replacements, cleaned.generation)
        except KafkaStorage:
            for path in self.log.directory.glob(f"*{CLEANED_SUFFIX}"):
                path.unlink()
            raise
        self._checkpoint = cleaned.end_offset
        if cleaned.replacements:
            self.compactions += 1
            last = cleaned.replacements[-1].old[-1].base_offset
            after = next(s.base_offset for s in self.log.segments if s.base_offset > last)
            self.model.synced = max(self.model.synced, min(after, self.model.end))

    def _pass_time(self, ms: int | None = None) -> None:
        self.world.now_ms += self.random.choice([1, 600, 2_000]) if ms is None else ms

    def _upkeep(self) -> None:
        """What the log has left to be done; what a limit refuses is done later."""
        tasks = self.world.environment.deferred_tasks
        for task in list(tasks.take_due(self.world.now_ms)):
            try:
                task.action()
            except OSError:
                tasks.put_off(task, self.world.now_ms)
            else:
                if task.after is not None:
                    task.after()

    def _flush(self) -> None:
        self.log.flush()
        self.model.synced = self.model.end

    # The process ends.

    def _reopen(self, *, clean: bool) -> None:
        self.epoch += 1
        self._cleaned = None
        self.world.failures.clear()
        recovery_point = self.random.choice([0, self.log.recovery_point])
        self.world.environment.deferred_tasks.__init__()  # type: ignore[misc]
        try:
            self.log = self._opened(recovery_point, clean=clean)
        except OSError:
            self.log = self._opened(recovery_point, clean=False)
        self.log.update_high_watermark(self.log.log_end_offset)

    def _opened(self, recovery_point: int, *, clean: bool) -> UnifiedLog:
        return self.world.open(clean=clean, recovery_point=recovery_point)

    def _stop(self) -> None:
        self._flush()
        self.log.close()
        self._reopen(clean=True)

    def kill(self) -> None:
        """The process is killed; what it has written stays."""
        self._reopen(clean=False)

    def _lose_tail(self) -> None:
        """The machine loses its power, and the log is opened with what :meth:`_cut_files` left."""
        self._reopen(clean=False)

    def _cut_files(self) -> None:
        """Of what was not synced, everything from some batch on is lost."""
        log, model = self.log, self.model
        first = next(iter(log.segments)).base_offset
        kept = max(model.synced, log.recovery_point, first)
        offset = self.random.choice([at for at in (*model.batches, model.end) if at >= kept])
        for segment in log.segments:
            if segment.base_offset > offset:
                for path in segment.paths():
                    path.unlink(missing_ok=True)
                continue
            place = segment.find_batch(offset)
            for path in segment.paths()[1:]:
                if path.exists() and path.stat().st_ino not in self.synced_files:
                    path.unlink()
            if place is not None:
                torn = self.random.choice([0, 0, 20, place.header.size - 1])
                os.truncate(segment.file.path, place.position + torn)
        model.cut(offset)
