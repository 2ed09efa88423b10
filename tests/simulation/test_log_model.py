"""Logs through random lives beside a model, and bugs put into them on purpose that it must find."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from kafka_common.model import TopicPartition
from replica_manager.log.cleaner_state import CleanerState
from replica_manager.log.log_cleaner import AbortSwitch
from replica_manager.log.log_manager import LogManager
from replica_manager.log.unified_log import UnifiedLog
from tests.simulation.log_model import LogScenario

MOST_SEEDS: Final = 100
"""A test tries at most this many seeds; it stops at the first run that fails."""

Patch = pytest.MonkeyPatch


@pytest.fixture(autouse=True)
def _unflushed(monkeypatch: Patch) -> None:
    # The run tracks what was flushed, and loses the rest itself.
    monkeypatch.setattr(os, "fsync", lambda _: None)


def live(root: Path, seed: int) -> LogScenario:
    root.mkdir()
    scenario = LogScenario(root, seed)
    try:
        scenario.run()
    except Exception as error:
        error.add_note(f"seed {seed}: {' '.join(scenario.history)}")
        raise
    return scenario


def test_a_log_gives_what_it_must_and_nothing_else(seed: int, tmp_path: Path) -> None:
    scenario = live(tmp_path / "story", seed)

    assert scenario.compactions > 0, "without any the story would prove little"


# ---------------------------------------------------------------------- planted bugs


def keep_the_cleaner_checkpoint_of_a_deleted_log(patch: Patch) -> None:
    """A new log of that name counts as clean up to where the old one was."""

    def deleted(self: CleanerState, _: Path, topic_partition: TopicPartition) -> None:
        self.abort(topic_partition)

    patch.setattr(CleanerState, "deleted", deleted)


def keep_the_cleaner_checkpoint_of_a_truncated_log(patch: Patch) -> None:
    """What is appended in the place of what was cut off counts as clean."""
    patch.setattr(CleanerState, "truncated", lambda *_: False)


def never_abort_a_cleaning(patch: Patch) -> None:
    """A log that goes in the middle of its cleaning takes its directory along."""
    patch.setattr(AbortSwitch, "abort", lambda _: None)


def overwrite_a_tail_that_was_refilled(patch: Patch) -> None:
    """A cleaning that began before a truncation takes effect after it."""
    patch.setattr(AbortSwitch, "abort", lambda _: None)
    real = UnifiedLog.replace_segments

    def replace_segments(self: UnifiedLog, replacements: Sequence[Any], _: int) -> bool:
        active = self.active_segment
        now = {segment.base_offset: segment for segment in self.segments if segment is not active}
        same = [
            each._replace(
                old=(old := tuple(now[s.base_offset] for s in each.old if s.base_offset in now)),
                old_size=sum(segment.size for segment in old),
            )
            for each in replacements
        ]
        return real(self, [each for each in same if each.old], self.generation)

    patch.setattr(UnifiedLog, "replace_segments", replace_segments)


def forget_that_checkpoints_are_stale(patch: Patch) -> None:
    """After a crash a log created again inherits the start of the deleted one."""
    patch.setattr(LogManager, "_mark_stale", lambda *_: None)


def write_a_fallen_recovery_point_later(patch: Patch) -> None:
    """After a kill the epochs of what was appended in the place of flushed records are unknown."""
    real = LogManager._after_truncation
    patch.setattr(
        LogManager,
        "_after_truncation",
        lambda self, directory, base_offset, _: real(self, directory, base_offset, False),
    )


MUTATIONS: Final[list[tuple[Callable[[Patch], None], int]]] = [
    (keep_the_cleaner_checkpoint_of_a_deleted_log, 16),
    (keep_the_cleaner_checkpoint_of_a_truncated_log, 6),
    (never_abort_a_cleaning, 20),
    (overwrite_a_tail_that_was_refilled, 1),
    (forget_that_checkpoints_are_stale, 16),
    (write_a_fallen_recovery_point_later, 186),
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
            live(tmp_path / str(seed), seed)
        except Exception:  # noqa: BLE001 - a mutant may fall over in any way
            return
    pytest.fail("no story found it")
