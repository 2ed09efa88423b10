"""The order in which files of tests run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import LONGEST, running_order

TESTS = Path(__file__).parent.parent


@pytest.mark.parametrize("name", LONGEST)
def test_the_longest_files_exist(name: str) -> None:
    assert (TESTS / name).is_file()


def test_the_longest_files_run_first_then_those_that_start_processes() -> None:
    files = [
        TESTS / name
        for name in (
            "test_house.py",
            "unit/log/test_reads.py",
            "clients/test_kcat.py",
            "integration/test_records.py",
            *reversed(LONGEST),
            "scenarios/test_topics.py",
        )
    ]

    ordered = sorted(files, key=running_order)

    assert [str(file.relative_to(TESTS)) for file in ordered] == [
        *LONGEST,
        "clients/test_kcat.py",
        "integration/test_records.py",
        "test_house.py",
        "unit/log/test_reads.py",
        "scenarios/test_topics.py",
    ]
