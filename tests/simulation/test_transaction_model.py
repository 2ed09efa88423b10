"""A log with transactions through random runs beside a model, and bugs that it must find."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pytest

from replica_manager.log import log_cleaner
from replica_manager.log.files import CLEANED_SUFFIX, DELETED_SUFFIX, SWAP_SUFFIX
from replica_manager.log.local_log import LocalLog
from replica_manager.log.log_appends import ValidRecords
from replica_manager.log.log_cleaner import CleaningJob
from replica_manager.log.segment import LogSegment
from replica_manager.log.unified_log import UnifiedLog
from tests.simulation import transaction_model
from tests.simulation.transaction_model import TransactionScenario

MOST_SEEDS: Final = 100
"""A test tries at most this many seeds; it stops at the first run that fails."""

Patch = pytest.MonkeyPatch


def live(root: Path, seed: int, patch: Patch) -> TransactionScenario:
    root.mkdir()
    scenario = TransactionScenario(root, seed)
    patch.setattr(os, "fsync", lambda file: scenario.synced_files.add(os.stat(file).st_ino))
    try:
        scenario.run()
    except Exception as error:
        error.add_note(f"seed {seed}: {' '.join(scenario.history)}")
        raise
    return scenario


def test_transactions_are_read_as_they_were_decided(
    seed: int, tmp_path: Path, monkeypatch: Patch
) -> None:
    scenario = live(tmp_path / "run", seed, monkeypatch)

    assert scenario.compactions > 0, "without any the run would prove little"


# ---------------------------------------------------------------------- every place in turn


PLACES: Final = 6


def test_an_uncleanable_offset_at_any_place_changes_no_decision(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    """One producer's transaction stays open from a place on; the log rolls at another."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    for opened, rolled in itertools.product(range(PLACES), repeat=2):
        root = tmp_path / f"{opened}-{rolled}"
        root.mkdir()
        scenario = TransactionScenario(root, PLACES * opened + rolled, limits=False)
        for place in range(PLACES):
            if place == opened:
                scenario.write(1)
            if place == rolled:
                scenario.roll()
            if place % 3 == 0:
                scenario.put()
            elif place % 3 == 1:
                scenario.write(2 + place % 2)
            else:
                ended = next(pid for pid in scenario.model.ongoing if pid != 1)
                scenario.end(ended, commit=False)
            scenario.compact()
            scenario.check()
        if 1 in scenario.model.ongoing:
            scenario.end(1, commit=True)
        scenario.check()
        scenario.finish()


# ---------------------------------------------------------------------- planted bugs


def forget_what_was_aborted_past_the_first_uncleanable_offset(patch: Patch) -> None:
    """The new segments have no entry of it in their transaction index."""

    def cleaning_job(log: UnifiedLog, checkpoint: int | None, now_ms: int) -> CleaningJob:
        job = log_cleaner.cleaning_job(log, checkpoint, now_ms)
        aborted = log.aborted_transactions(log.log_start_offset, job.first_uncleanable_offset)
        return job._replace(aborted=aborted)

    patch.setattr(transaction_model, "cleaning_job", cleaning_job)


def write_the_old_indexes_after_the_new_segment_was_made(patch: Patch) -> None:
    """An append that a limit refuses then leaves an empty segment."""
    patch.setattr(LogSegment, "prepare_deactivation", lambda _: None)

    def deactivate(self: LogSegment) -> None:
        self.time_index.maybe_append(*self.largest_timestamp_so_far)
        self.write_indexes()
        self.offset_index.free()
        self.time_index.free()

    patch.setattr(LogSegment, "finish_deactivation", deactivate)


def note_the_epoch_before_the_append(patch: Patch) -> None:
    """An append that a limit refuses then leaves the epoch of records that are not there."""
    real = UnifiedLog._roll_if_needed

    def roll_if_needed(self: UnifiedLog, valid_records: ValidRecords) -> None:
        real(self, valid_records)
        for header in valid_records.headers:
            self.assign_epoch_start_offset(header.partition_leader_epoch, header.base_offset)

    patch.setattr(UnifiedLog, "_roll_if_needed", roll_if_needed)


def swap_segments_in_steps(patch: Patch) -> None:
    """A rename that a limit refuses then leaves the log without the old segments and the new."""

    def replace(self: LocalLog, new: LogSegment, old: Sequence[LogSegment]) -> None:
        new.change_suffix(CLEANED_SUFFIX, SWAP_SUFFIX)
        for segment in old:
            self.segments.remove(segment)
            segment.change_suffix("", DELETED_SUFFIX)
        new.change_suffix(SWAP_SUFFIX, "")
        self.segments.add(new)

    patch.setattr(LocalLog, "replace", replace)


MUTATIONS: Final[list[tuple[Callable[[Patch], None], int]]] = [
    (forget_what_was_aborted_past_the_first_uncleanable_offset, 21),
    (write_the_old_indexes_after_the_new_segment_was_made, 47),
    (note_the_epoch_before_the_append, 7),
    (swap_segments_in_steps, 97),
]
"""Each mutation, with a seed whose run finds it."""


@pytest.mark.parametrize(
    ("mutate", "first_seed"), MUTATIONS, ids=[mutate.__name__ for mutate, _ in MUTATIONS]
)
def test_a_planted_bug_is_found(
    mutate: Callable[[Patch], None], first_seed: int, monkeypatch: Patch, tmp_path: Path
) -> None:
    mutate(monkeypatch)

    for seed in range(first_seed, first_seed + MOST_SEEDS):
        try:
            live(tmp_path / str(seed), seed, monkeypatch)
        except Exception:  # noqa: BLE001 - a mutant may fall over in any way
            return
    pytest.fail("no run found it")
