"""How far a move is, and why it does not move on."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

progress: Any = import_module("zkcontroller_cli.moving.move_progress")
model: Any = import_module("zkcontroller_cli.screen.model")


def move(*, rate: float | None = None, copied: int | None = 10, in_sync: int = 0) -> Any:
    return model.ReassignmentProgress(
        "orders", 0, (3, 4, 1), (3, 4), (1,), in_sync, copied, 100, rate, None
    )


def obstacles(**changes: Any) -> Any:
    fine = progress.Obstacles(frozenset({1, 2, 3, 4}), {}, frozenset())
    return fine._replace(**changes)


def test_the_replicas_are_those_after_the_move() -> None:
    report = progress.report_of(move(rate=2.25), 1, (1,), obstacles(), seconds=1.0)

    assert report.row() == {
        "topic": "orders",
        "partition": 0,
        "replicas": (3, 4),
        "adding_replicas": (3, 4),
        "removing_replicas": (1,),
        "in_sync_count": 0,
        "copied_bytes": 10,
        "total_bytes": 100,
        "bytes_per_s": 2.2,
        "remaining_ms": None,
        "stalled": None,
    }


@pytest.mark.parametrize(
    ("leader", "in_sync", "hindered", "reason"),
    [
        (-1, (1,), {}, "the partition has no leader to copy from"),
        (1, (1,), {"live": frozenset({3, 4})}, "its leader, broker 1, is not alive"),
        (1, (1,), {"live": frozenset({1, 4})}, "target broker 3 is not alive"),
        # What is in sync is no obstacle any more.
        (1, (1, 3), {"live": frozenset({1, 4})}, None),
        (1, (1,), {"silent": {4: "timed out"}}, "target broker 4 does not answer: timed out"),
        (
            1,
            (1,),
            {"without_log_dir": frozenset({4})},
            "target broker 4 has no log directory left that works",
        ),
    ],
)
def test_a_move_that_cannot_go_on_is_named_with_its_reason(
    leader: int, in_sync: Any, hindered: Any, reason: str | None
) -> None:
    report = progress.report_of(move(), leader, in_sync, obstacles(**hindered))

    assert report.stalled == reason


@pytest.mark.parametrize(
    ("rate", "seconds", "in_sync", "reason"),
    [
        (0.0, 20.0, (1,), "no bytes came to broker 3, 4 for 20.0 s"),
        (0.0, 20.0, (1, 3), "no bytes came to broker 4 for 20.0 s"),
        (0.0, 20.0, (1, 3, 4), None),
        # A throttled replica gets a large piece now and then.
        (0.0, 2.0, (1,), None),
        (5.0, 20.0, (1,), None),
        (None, None, (1,), None),
    ],
)
def test_a_move_without_bytes_is_stalled_after_a_while(
    rate: float | None, seconds: float | None, in_sync: Any, reason: str | None
) -> None:
    report = progress.report_of(move(rate=rate), 1, in_sync, obstacles(), seconds=seconds)

    assert report.stalled == reason


def test_moves_are_summed_up_in_one_line() -> None:
    reports = [
        progress.report_of(each, 1, (1,), obstacles(), seconds=1.0)
        for each in (move(rate=10.0), move(rate=5.0, copied=40), move(copied=None))
    ]
    unknown = reports[2]._replace(total_bytes=None)

    assert progress.progress_line([*reports[:2], unknown]) == (
        "; under way: 50 B of 200 B at 15 B/s, 10s left"
    )
    assert progress.progress_line([unknown]) == ""
